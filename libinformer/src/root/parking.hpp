// Coroutines that wait to be woken, by whatever thread: parked where the destruction of their io_context finds them.
#pragma once

#include <informer/runtime.hpp>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/associated_cancellation_slot.hpp>
#include <boost/asio/associated_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/recycling_allocator.hpp>

#include <atomic>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace informer::detail {

class parking_service;
class waiter;
using waiter_ptr = std::shared_ptr<waiter>;

/// Resumes the waiter through its executor, never inline; from any thread. The first call counts. Waiters of one io_context that
/// are woken one after another are resumed in the same order, some in one turn of it.
void wake(waiter_ptr w, bool woken = true);
/// The same for many, in their order, for the price of one or two of them; empties `all`. Null is not waiting.
void wake_all(std::vector<waiter_ptr>& all);
/// Nobody woke it yet. Null is not waiting.
bool is_waiting(const waiter_ptr& w) noexcept;

/// Who waits. Its handler is called once, with true where it was woken and false where it was cancelled; or it is destroyed,
/// not called, when the execution context is destroyed first. It is no outstanding work: the coroutine that waits is.
class waiter {
public:
    explicit waiter(const asio::any_io_executor& executor);
    waiter(const waiter&) = delete;
    waiter& operator=(const waiter&) = delete;
    virtual ~waiter() = default;

protected:
    /// Calls the handler; the memory of `self`, this waiter, may serve the next wait.
    virtual void resume(waiter_ptr self, bool woken) = 0;
    virtual void drop() noexcept = 0;

private:
    friend class parking_service;
    friend void wake(waiter_ptr w, bool woken);
    friend void wake_all(std::vector<waiter_ptr>& all);
    friend bool is_waiting(const waiter_ptr& w) noexcept;
    template <class Handler>
    friend waiter_ptr make_waiter(Handler h);
    static void park(const waiter_ptr& w);

    asio::any_io_executor executor_; ///< until it was woken; none where it is the io_context's own
    parking_service* service_;
    // Of the service, under its mutex: it is in a list while there is a `keep_`.
    std::atomic<bool> claimed_{false}; ///< the handler has an owner: a waker, a canceller or the dying context
    bool woken_ = false;
    waiter_ptr keep_;
    waiter *previous_ = nullptr, *next_ = nullptr;
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
    waiter_ptr w = std::allocate_shared<waiter_of<Handler>>(asio::recycling_allocator<void>(), std::move(h));
    waiter::park(w);
    // Cancellation is emitted on the executor we are on, so it cannot come before the caller has seen the waiter.
    if (slot.is_connected()) {
        slot.assign([weak = std::weak_ptr<waiter>(w)](asio::cancellation_type_t type) {
            if (type == asio::cancellation_type::none) return;
            if (waiter_ptr alive = weak.lock()) wake(std::move(alive), false);
        });
    }
    return w;
}

/// An operation for `co_await`. Not an awaitable, which would have a coroutine frame of its own.
template <class Park>
class parked_wait {
public:
    struct start {
        template <class Handler>
        void operator()(Handler handler, Park p) const {
            p(make_waiter(std::move(handler)));
        }
    };
    explicit parked_wait(Park p) : park_(std::move(p)) {}
    template <class Token>
    auto operator()(Token&& token) && // says what it gives, so that Asio sees for which tokens it is one
        -> decltype(asio::async_initiate<Token, void(bool)>(std::declval<start>(), token, std::declval<Park>())) {
        return asio::async_initiate<Token, void(bool)>(start(), token, std::move(park_));
    }

private:
    Park park_;
};

/// Suspends the calling coroutine and hands `park` the waiter; `park` decides, under its lock, whether to keep or to wake it.
/// `co_await` gives what the waiter was woken with.
template <class Park>
parked_wait<Park> wait_parked(Park park) {
    return parked_wait<Park>(std::move(park));
}

} // namespace informer::detail
