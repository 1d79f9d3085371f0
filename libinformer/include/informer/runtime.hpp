// libinformer: what the library needs from its environment: an executor, a clock, a logger and a metrics sink. All are
// passed in; there are no process globals. In all headers, what *Cancellation* says holds once a coroutine has begun:
// see `task_group::join`.
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

/// Time, which tests can advance by hand (`testing::manual_clock`).
///
/// *Thread safety*: `now()` and `wall()` may be called from any thread. *Executor*: `sleep_until` resumes on the
/// awaiter's executor. *Errors*: `now()` and `wall()` must not throw: the check whether this process is the leader
/// calls them and expects an answer.
class clock {
public:
    using duration = std::chrono::steady_clock::duration;
    using time_point = std::chrono::steady_clock::time_point;
    virtual ~clock() = default;
    virtual time_point now() const = 0;
    virtual std::chrono::system_clock::time_point wall() const = 0;
    /// Waits until `when`. *Cancellation*: terminal, partial and total; a cancelled sleep returns false, a finished one
    /// true. Once it has begun, it never throws.
    virtual asio::awaitable<bool> sleep_until(time_point when) = 0;
    /// A duration beyond the range of the clock means for ever.
    asio::awaitable<bool> sleep_for(duration d);
};
/// The real clock: `steady_clock`, `system_clock` and `asio::steady_timer`.
std::shared_ptr<clock> system_clock();

/// error: needs an operator · warning: degraded, but working · info: change of state · debug: each request.
enum class log_level { error, warning, info, debug };
std::string_view to_string(log_level level) noexcept;            ///< "error", "warning", …
using logger = std::function<void(log_level, std::string_view)>; ///< called on the same threads as a `metrics_sink`

/// Receives metrics. Names and labels follow the Prometheus conventions.
///
/// *Thread safety*: called on the executors of the objects that report, and on every thread that uses a work queue or
/// the trigger of a controller. If these are several threads, an implementation must be thread-safe. *Errors*:
/// exceptions are dropped.
class metrics_sink {
public:
    using label = std::pair<std::string_view, std::string_view>;
    using labels = std::initializer_list<label>;
    virtual ~metrics_sink() = default;
    virtual void add(std::string_view counter, double value, labels of) = 0;
    virtual void set(std::string_view gauge, double value, labels of) = 0;
    virtual void observe(std::string_view histogram, double value, labels of) = 0;
    /// This series, of whichever type, ends: what it described is gone (an informer that has stopped). A sink that
    /// keeps series drops it; a sink that does not needs no override.
    virtual void forget(std::string_view name, labels of);
};

class runtime;
namespace detail {
class executor_home;
executor_home& home_of(const runtime& rt) noexcept;
} // namespace detail

/// The bundle that the library's objects are constructed with. Cheap to copy.
///
/// *Executor*: everything upstream of a subscription runs on `executor()`. Pass a strand (`asio::make_strand(io)`), or
/// the executor of an `io_context` that one thread runs. A bare executor of an `io_context` that several threads run
/// leads to a data race and a crash. *Lifetime*: a `runtime` may outlive the execution context; `executor()` is empty
/// then.
class runtime {
public:
    explicit runtime(asio::any_io_executor executor)
        : runtime(std::move(executor), detail::built_here::and_so_was_the_library) {}
    /// Call these before anything is constructed with the runtime: each object keeps a copy of it, as it was then.
    runtime& with_clock(std::shared_ptr<informer::clock> c);
    runtime& with_logger(logger l, log_level most_verbose = log_level::info);
    runtime& with_metrics(std::shared_ptr<metrics_sink> m);
    /// The seed of every random draw (jitter, watch time-outs). By default it comes from the system.
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
