// Coroutines that wait for another thread: parked where the destruction of their io_context finds them.
#pragma once

#include <informer/runtime.hpp>

#include <boost/asio/any_completion_handler.hpp>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/associated_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <memory>
#include <utility>

namespace informer::detail {

class waiter;
using waiter_ptr = std::shared_ptr<waiter>;
/// true: woken; false: cancelled.
using wait_handler = asio::any_completion_handler<void(bool)>;

/// Parks a handler whose continuation runs on `executor`: it counts as work there until it is woken, and it is destroyed,
/// not called, when the execution context is destroyed first. Must be called on that executor.
/// *Cancellation*: any type wakes it with false.
waiter_ptr make_waiter(asio::any_io_executor executor, wait_handler h);
/// Resumes the waiter by a post to its executor, never inline; from any thread. The first call counts.
void wake(const waiter_ptr& w, bool woken = true);
/// Nobody woke it yet. Null is not waiting.
bool is_waiting(const waiter_ptr& w) noexcept;

/// Suspends the calling coroutine and hands `park` the waiter; `park` decides, under its lock, whether to keep or to wake it.
template <class Park>
asio::awaitable<bool> wait_parked(Park park) {
    return asio::async_initiate<const asio::use_awaitable_t<>&, void(bool)>(
        [](auto handler, Park p) {
            asio::any_io_executor executor = asio::get_associated_executor(handler);
            p(make_waiter(std::move(executor), wait_handler(std::move(handler))));
        },
        asio::use_awaitable, std::move(park));
}

} // namespace informer::detail
