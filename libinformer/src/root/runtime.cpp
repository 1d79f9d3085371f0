#include <informer/detail/async.hpp>
#include <informer/detail/split_mix.hpp>
#include <informer/runtime.hpp>

#include "executor_home.hpp"
#include "one_line.hpp"
#include "series.hpp"
#include "system_clock.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <atomic>
#include <random>
#include <string>

namespace informer {

namespace detail {

asio::awaitable<bool> real_clock::sleep_until(time_point when) {
    const auto state = co_await asio::this_coro::cancellation_state;
    // An operation that starts after the signal was emitted is never notified of it.
    if (state.cancelled() != asio::cancellation_type::none) co_return false;
    const auto executor = co_await asio::this_coro::executor;
    asio::steady_timer timer(executor, when);
    const auto [ec] = co_await timer.async_wait(asio::as_tuple(asio::use_awaitable));
    co_return !ec;
}

} // namespace detail

void metrics_sink::forget(std::string_view name, labels of) {
    static_cast<void>(name);
    static_cast<void>(of);
}

asio::awaitable<bool> clock::sleep_for(duration d) {
    return sleep_until(detail::later(now(), d));
}

std::shared_ptr<clock> system_clock() {
    return std::make_shared<detail::real_clock>();
}

/// One atomic add a draw, so that any thread may draw.
struct seed_source {
    explicit seed_source(std::uint64_t seed) : state(seed) {}
    std::atomic<std::uint64_t> state;

    std::uint64_t draw() noexcept {
        using detail::split_mix;
        return split_mix::mixed(state.fetch_add(split_mix::golden, std::memory_order_relaxed) + split_mix::golden);
    }
};

namespace {

std::uint64_t system_seed() {
    std::random_device device;
    return (static_cast<std::uint64_t>(device()) << 32) | device();
}

/// A broken sink must not stop the code that reports to it: most of it reports in the middle of its work, as the
/// coroutines of an informer do.
class contained_sink final : public metrics_sink {
public:
    explicit contained_sink(std::shared_ptr<metrics_sink> s) : inner_(std::move(s)) {}
    void add(std::string_view counter, double value, labels of) override {
        try {
            inner_->add(counter, value, of);
        } catch (...) { // NOLINT(bugprone-empty-catch)
        }
    }
    void set(std::string_view gauge, double value, labels of) override {
        try {
            inner_->set(gauge, value, of);
        } catch (...) { // NOLINT(bugprone-empty-catch)
        }
    }
    void observe(std::string_view histogram, double value, labels of) override {
        try {
            inner_->observe(histogram, value, of);
        } catch (...) { // NOLINT(bugprone-empty-catch)
        }
    }
    void forget(std::string_view name, labels of) override {
        try {
            inner_->forget(name, of);
        } catch (...) { // NOLINT(bugprone-empty-catch)
        }
    }

    const std::shared_ptr<detail::series_users> users = std::make_shared<detail::series_users>();

private:
    std::shared_ptr<metrics_sink> inner_;
};

} // namespace

std::shared_ptr<detail::series_users> detail::users_of(metrics_sink& sink) noexcept {
    return static_cast<contained_sink&>(sink).users;
}

runtime::runtime(asio::any_io_executor executor, const char&)
    : home_(std::make_shared<detail::executor_home>(std::move(executor))), clock_(system_clock()),
      seeds_(std::make_shared<seed_source>(system_seed())) {}

const asio::any_io_executor& runtime::executor() const noexcept {
    return home_->executor();
}

detail::executor_home& detail::home_of(const runtime& rt) noexcept {
    return *rt.home_;
}

runtime& runtime::with_clock(std::shared_ptr<informer::clock> c) {
    clock_ = c ? std::move(c) : system_clock();
    return *this;
}

runtime& runtime::with_logger(logger l, log_level most_verbose) {
    logger_ = std::move(l);
    most_verbose_ = most_verbose;
    return *this;
}

runtime& runtime::with_metrics(std::shared_ptr<metrics_sink> m) {
    metrics_ = m ? std::make_shared<contained_sink>(std::move(m)) : nullptr;
    return *this;
}

runtime& runtime::with_seed(std::uint64_t seed) {
    seeds_ = std::make_shared<seed_source>(seed);
    return *this;
}

std::uint64_t runtime::draw_seed() const {
    return seeds_->draw();
}

std::string_view to_string(log_level level) noexcept {
    switch (level) {
    case log_level::error: return "error";
    case log_level::warning: return "warning";
    case log_level::info: return "info";
    case log_level::debug: return "debug";
    }
    return "unknown";
}

void runtime::log(log_level level, std::string_view line) const {
    if (!logs(level)) return;
    try {
        if (!detail::has_controls(line))
            logger_(level, line);
        else
            logger_(level, detail::one_line(std::string(line)));
    } catch (...) { // NOLINT(bugprone-empty-catch) a broken logger must not stop an informer
    }
}

} // namespace informer
