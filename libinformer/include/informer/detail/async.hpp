// Small tools for coroutines, for the library's sources and tests; not part of the API.
#pragma once

#include <informer/runtime.hpp>

#include <boost/asio/awaitable.hpp>

#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <string>

namespace informer::detail {

/// A single-threaded condition: `wait()` suspends until `notify()`; notifications without a waiter are remembered once.
/// One waiter at a time per event. Cancellation: any type; `wait()` then returns false, at once if it was requested
/// before (a notification is kept for the next wait). The destructor makes the waiter return false. Like every Asio
/// object, it must not outlive its execution context.
class async_event {
public:
    explicit async_event(asio::any_io_executor executor);
    async_event(async_event&&) noexcept;
    async_event& operator=(async_event&&) = delete;
    ~async_event();
    void notify(); ///< wakes the waiter, or lets the next wait() return at once
    asio::awaitable<bool> wait();
    /// Waits at most until `when` by `c`; false on time-out or cancellation.
    asio::awaitable<bool> wait_until(informer::clock& c, informer::clock::time_point when);

private:
    struct state;
    std::shared_ptr<state> state_; // shared with the waiter, which may outlive the event by one step
};

/// `now + d`, for `d` in any unit; a time beyond the range of the clock means for ever.
template <class Rep, class Period>
clock::time_point later(clock::time_point now, std::chrono::duration<Rep, Period> d) noexcept {
    const auto room = std::chrono::duration_cast<std::chrono::duration<Rep, Period>>(clock::time_point::max() - now);
    return d > room ? clock::time_point::max() : now + d;
}
/// `d` plus this share of it. A result beyond the range of the clock means for ever; negative values count as zero.
clock::duration stretched(clock::duration d, double share) noexcept;

/// The text of the exception that is being handled.
std::string what_is_wrong();

/// Whether `e` is how work that was asked to stop usually ends.
bool is_cancellation(const std::exception_ptr& e) noexcept;

/// True when the running coroutine has been asked to stop. Asio throws `operation_aborted` at the `co_await` itself
/// unless the coroutine awaited `asio::this_coro::throw_if_cancelled(false)` before.
asio::awaitable<bool> cancelled();

/// Runs `work`; if it is not done at `deadline` (by `c`), cancels it (terminal), waits for it to unwind and returns
/// false. Cancelling the caller cancels `work` and waits for it to unwind too. Exceptions of `work` propagate, except
/// the cancellation that the deadline itself caused. `work` starts by post, never inline. (It is not `work || timer`,
/// which drops an exception of `work` and then waits for the timer.)
asio::awaitable<bool> run_until(informer::clock& c, informer::clock::time_point deadline, asio::awaitable<void> work);

/// Runs `work`, which no cancellation of the caller reaches: when the caller is cancelled, or `work` has ended,
/// `ask_to_end` is called; then `work` is waited for. Returns the exception that left it. `work` starts by post, on
/// `executor`.
asio::awaitable<std::exception_ptr> run_to_end(asio::any_io_executor executor, asio::awaitable<void> work,
                                               std::function<void()> ask_to_end);

} // namespace informer::detail
