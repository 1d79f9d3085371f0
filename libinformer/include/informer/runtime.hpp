// libinformer: what the library needs of its surroundings: an executor, a clock, a logger, a metrics sink. Passed in;
// there are no process globals. What *Cancellation* says, in all headers, holds once a coroutine has begun: see `task_group::join`.
#pragma once

#include <informer/detail/built_with.hpp>
#include <informer/error.hpp>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string_view>
#include <utility>

namespace informer {

namespace asio = boost::asio;

/// Time, so that tests can turn it by hand (`testing::manual_clock`).
///
/// *Thread safety*: `now()` and `wall()` from any thread. *Executor*: `sleep_until` resumes on the awaiter's. *Errors*: `now()` and
/// `wall()` must not throw: who asks whether we lead asks them, and expects an answer.
class clock {
public:
    using duration = std::chrono::steady_clock::duration;
    using time_point = std::chrono::steady_clock::time_point;
    virtual ~clock() = default;
    virtual time_point now() const = 0;
    virtual std::chrono::system_clock::time_point wall() const = 0;
    /// Waits. *Cancellation*: terminal, partial and total; a cancelled sleep returns false, a finished one true; once it
    /// has begun it never throws.
    virtual asio::awaitable<bool> sleep_until(time_point when) = 0;
    /// What is longer than a clock counts is for ever.
    asio::awaitable<bool> sleep_for(duration d);
};
/// The real one: steady_clock and system_clock, `asio::steady_timer`.
std::shared_ptr<clock> system_clock();

/// error: needs an operator · warning: degraded, goes on · info: change of state · debug: each request.
enum class log_level { error, warning, info, debug };
std::string_view to_string(log_level level) noexcept;            ///< "error", "warning", …
using logger = std::function<void(log_level, std::string_view)>; ///< called on the same threads as a `metrics_sink`

/// Where figures go. Names and labels follow the Prometheus conventions.
///
/// *Thread safety*: called from the executors of the objects that report, and on every thread that uses a work queue or the trigger of
/// a controller; an implementation must be thread-safe when there are several. *Errors*: what it throws is dropped.
class metrics_sink {
public:
    using label = std::pair<std::string_view, std::string_view>;
    using labels = std::initializer_list<label>;
    virtual ~metrics_sink() = default;
    virtual void add(std::string_view counter, double value, labels of) = 0;
    virtual void set(std::string_view gauge, double value, labels of) = 0;
    virtual void observe(std::string_view histogram, double value, labels of) = 0;
    /// This series, of whichever type, ends: what it told of is gone (an informer that has stopped). Who keeps series lets it go; who
    /// does not needs no override.
    virtual void forget(std::string_view name, labels of);
};

class runtime;
namespace detail {
class executor_home;
executor_home& home_of(const runtime& rt) noexcept;
} // namespace detail

/// The bundle that objects of the library are made with. Cheap to copy.
///
/// *Executor*: everything left of a subscription runs on `executor()`: give a strand (`asio::make_strand(io)`), or the executor of
/// an `io_context` that one thread runs. Several threads that run the `io_context` of a bare executor are a data race, and crash.
/// *Lifetime*: may outlive the execution context; `executor()` is empty then.
class runtime {
public:
    explicit runtime(asio::any_io_executor executor)
        : runtime(std::move(executor), detail::built_here::and_so_was_the_library) {}
    /// These are for before anything is made with it: each object keeps a copy, as it was then.
    runtime& with_clock(std::shared_ptr<informer::clock> c);
    runtime& with_logger(logger l, log_level most_verbose = log_level::info);
    runtime& with_metrics(std::shared_ptr<metrics_sink> m);
    /// Seed of every random draw (jitter, watch time-outs); default: from the system.
    runtime& with_seed(std::uint64_t seed);

    const asio::any_io_executor& executor() const noexcept;
    informer::clock& clock() const noexcept { return *clock_; }
    std::shared_ptr<informer::clock> shared_clock() const noexcept { return clock_; }
    metrics_sink* metrics() const noexcept { return metrics_.get(); }
    std::uint64_t draw_seed() const; ///< a new seed at each call
    bool logs(log_level level) const noexcept { return logger_ && level <= most_verbose_; }
    void log(log_level level, std::string_view line) const;

private:
    runtime(asio::any_io_executor executor, const char& built_alike);
    friend detail::executor_home& detail::home_of(const runtime& rt) noexcept;

    std::shared_ptr<detail::executor_home> home_;
    std::shared_ptr<informer::clock> clock_;
    std::shared_ptr<metrics_sink> metrics_;
    logger logger_;
    log_level most_verbose_ = log_level::info;
    std::shared_ptr<struct seed_source> seeds_;
};

} // namespace informer
