// Coroutines that wait to be woken, by whatever thread: parked where the destruction of their io_context finds them.
#pragma once

#include <informer/runtime.hpp>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/associated_cancellation_slot.hpp>
#include <boost/asio/associated_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/recycling_allocator.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <atomic>
#include <memory>
#include <optional>
#include <utility>

namespace informer::detail {

class parking_service;
class waiter;
using waiter_ptr = std::shared_ptr<waiter>;

/// Resumes the waiter through its executor, never inline; from any thread. The first call counts. Waiters of one io_context that
/// are woken one after another are resumed in the same order, some in one turn of it.
void wake(const waiter_ptr& w, bool woken = true);
/// Nobody woke it yet. Null is not waiting.
bool is_waiting(const waiter_ptr& w) noexcept;

/// Who waits. Its handler is called once, with true where it was woken and false where it was cancelled; or it is destroyed,
/// not called, when the execution context is destroyed first. It is no outstanding work: the coroutine that waits is.
class waiter {
public:
    explicit waiter(asio::any_io_executor executor);
    waiter(const waiter&) = delete;
    waiter& operator=(const waiter&) = delete;
    virtual ~waiter() = default;

protected:
    /// Calls the handler; the memory of `self`, this waiter, may serve the next wait.
    virtual void resume(waiter_ptr self, bool woken) = 0;
    virtual void drop() noexcept = 0;

private:
    friend class parking_service;
    friend void wake(const waiter_ptr& w, bool woken);
    friend bool is_waiting(const waiter_ptr& w) noexcept;
    template <class Handler>
    friend waiter_ptr make_waiter(Handler h);
    static void park(const waiter_ptr& w);
    // Who claims it owns the handler: a waker, a canceller or the dying context.
    bool claim() noexcept { return !claimed_.exchange(true, std::memory_order_acq_rel); }
    bool claimed() const noexcept { return claimed_.load(std::memory_order_acquire); }

    asio::any_io_executor executor_; ///< until it was woken; none where it is the io_context's own
    parking_service* service_;
    std::atomic<bool> claimed_{false};
    // Of the service, under its mutex: it is in a list while there is a `keep_`.
    waiter_ptr keep_;
    waiter *previous_ = nullptr, *next_ = nullptr;
    bool woken_ = false;
};

template <class Handler>
class waiter_of final : public waiter {
public:
    explicit waiter_of(Handler h) : waiter(asio::get_associated_executor(h)), handler_(std::move(h)) {}

private:
    void resume(waiter_ptr self, bool woken) override {
        Handler h(std::move(*handler_));
        handler_.reset();
        asio::get_associated_cancellation_slot(h).clear();
        self.reset();
        std::move(h)(woken);
    }
    void drop() noexcept override { const std::optional<Handler> dropped = std::exchange(handler_, std::nullopt); }

    std::optional<Handler> handler_;
};

/// Parks a handler whose continuation runs on its executor. Must be called on that executor.
/// *Cancellation*: any type wakes it with false.
template <class Handler>
waiter_ptr make_waiter(Handler h) {
    auto slot = asio::get_associated_cancellation_slot(h);
    const waiter_ptr w = std::allocate_shared<waiter_of<Handler>>(asio::recycling_allocator<void>(), std::move(h));
    waiter::park(w);
    // Cancellation is emitted on the executor we are on, so it cannot come before the caller has seen the waiter.
    if (slot.is_connected()) {
        slot.assign([weak = std::weak_ptr<waiter>(w)](asio::cancellation_type_t type) {
            if (type == asio::cancellation_type::none) return;
            if (const waiter_ptr alive = weak.lock()) wake(alive, false);
        });
    }
    return w;
}

/// Suspends the calling coroutine and hands `park` the waiter; `park` decides, under its lock, whether to keep or to wake it.
template <class Park>
asio::awaitable<bool> wait_parked(Park park) {
    return asio::async_initiate<const asio::use_awaitable_t<>&, void(bool)>(
        [](auto handler, Park p) { p(make_waiter(std::move(handler))); }, asio::use_awaitable, std::move(park));
}

} // namespace informer::detail
