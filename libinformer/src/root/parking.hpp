// Coroutines that wait to be woken, by whatever thread: parked where the destruction of their io_context finds them.
#pragma once

#include <informer/detail/only_thread.hpp>
#include <informer/runtime.hpp>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/associated_cancellation_slot.hpp>
#include <boost/asio/associated_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/recycling_allocator.hpp>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>
#include <vector>

namespace informer::detail {

/// Calls what wakes somebody. Where there is no memory for that, he is resumed with the next one who is woken there.
template <class Wakes>
void wake_soon(const Wakes& wakes) noexcept {
    try {
        wakes();
    } catch (...) { // NOLINT(bugprone-empty-catch)
    }
}

class parking_lot;
class waiter;
using waiter_ptr = std::shared_ptr<waiter>;

/// Resumes the waiter through its executor, never inline; from any thread. The first call counts. Waiters of one io_context that
/// are woken one after another are resumed in the same order, some in one turn of it. *Errors*: bad_alloc; who was woken then is
/// resumed with the next one who is woken there.
void wake(const waiter_ptr& w, bool woken = true);
/// The same for many, in their order, for the price of one or two of them; empties `all`. Null is not waiting.
void wake_all(std::vector<waiter_ptr>& all);
/// Nobody woke it yet. Null is not waiting.
bool is_waiting(const waiter_ptr& w) noexcept;

/// A place for one to wait in. Who waits is resumed once, with true where it was woken and false where it was cancelled; or it is
/// destroyed, not resumed, when the execution context is destroyed first. It is no outstanding work: the coroutine that waits is.
///
/// One is made for a single wait, by wait_parked(), and keeps itself while it lasts. Or it is a part of what is waited for, which
/// the coroutines that wait own, and serves one of their waits after another: half the price.
class waiter : public std::enable_shared_from_this<waiter> {
public:
    waiter() noexcept = default;
    waiter(const waiter&) = delete;
    waiter& operator=(const waiter&) = delete;
    ~waiter();

    /// Nobody is in it: nobody waits, nor was woken and not resumed yet.
    bool idle() const noexcept { return state_.load(std::memory_order_acquire) == state::idle; }
    bool waiting() const noexcept { return state_.load(std::memory_order_acquire) == state::waiting; }
    /// Somebody was woken, or is about to be, and was not resumed yet.
    bool leaving() const noexcept { return state_.load(std::memory_order_acquire) >= state::claimed; }
    /// True for one of those who call it while somebody waits: that one must wake it, before anything else that may wait or end.
    bool claim() noexcept {
        if (!waiting()) return false;
        state expected = state::waiting;
        if (!is_only_thread())
            return state_.compare_exchange_strong(expected, state::claimed, std::memory_order_acq_rel);
        state_.store(state::claimed, std::memory_order_relaxed);
        return true;
    }
    /// What was claimed. It must be kept until this returns.
    void wake_claimed(bool woken = true);
    /// Lets the last reference go; one who is in it is kept until he has left. On the executor of that one.
    static void part(waiter_ptr w) {
        if (!w->idle()) w->keep_ = w;
    }

    /// Puts a coroutine that `co_await`s in here; it must be idle. Must be called on that coroutine's executor.
    /// *Cancellation*: any type wakes it with false.
    template <class Handler>
    void wait(Handler h) {
        static_assert(sizeof(Handler) <= sizeof(room_) && alignof(Handler) <= alignof(void*));
        static_assert(std::is_nothrow_move_constructible_v<Handler>);
        enter(asio::get_associated_executor(h));
        // Cancellation is emitted on the executor we are on, so it cannot come before we are through. The slot may outlive us where
        // the context is destroyed. When we resume the coroutine it clears the slot itself.
        auto slot = asio::get_associated_cancellation_slot(h);
        if (slot.is_connected()) slot.assign(canceller{weak_from_this()});
        ::new (static_cast<void*>(room_)) Handler(std::move(h));
        leave_ = &leave<Handler>;
        state_.store(state::waiting, std::memory_order_release);
    }

private:
    friend class parking_lot;
    template <class Handler>
    friend waiter_ptr make_waiter(Handler h);

    enum class state : std::uint8_t {
        idle,
        waiting,
        claimed, ///< its waker is about to come to the lot
        ready,   ///< it was there
    };
    struct canceller {
        void operator()(asio::cancellation_type_t type) const {
            if (type == asio::cancellation_type::none) return;
            if (const waiter_ptr alive = of.lock()) wake(alive, false);
        }
        std::weak_ptr<waiter> of;
    };

    void enter(const asio::any_io_executor& executor);
    void resume(bool woken) { leave_(*this, true, woken); }
    void drop() noexcept { leave_(*this, false, false); }
    template <class Handler>
    static void leave(waiter& w, bool resumes, bool woken) {
        auto* const there = std::launder(reinterpret_cast<Handler*>(w.room_));
        Handler h(std::move(*there));
        there->~Handler();
        {
            const waiter_ptr kept = std::move(w.keep_); // its memory may serve the next wait
            w.state_.store(state::idle, std::memory_order_release);
        }
        if (resumes) std::move(h)(woken);
    }

    std::atomic<state> state_{state::idle};
    bool woken_ = false;
    bool single_ = false;  ///< for one wait: it is in the lot's list while it waits; else from the first wait there on
    bool entered_ = false; ///< it is in the lot's list
    alignas(void*) std::byte room_[2 * sizeof(void*)];
    void (*leave_)(waiter& w, bool resumes, bool woken) = nullptr;
    asio::any_io_executor executor_; ///< while somebody waits; none where it is the io_context's own
    asio::execution_context* context_ = nullptr;
    parking_lot* lot_ = nullptr;
    std::shared_ptr<parking_lot> its_lot_; ///< of one that is not for a single wait
    waiter_ptr keep_;
    // Of the lot, under its mutex.
    waiter *previous_ = nullptr, *next_ = nullptr, *next_ready_ = nullptr;
};

/// Some who are woken together, when no lock is held any more.
class wake_list {
public:
    wake_list() noexcept {}
    wake_list(const wake_list&) = delete;
    wake_list& operator=(const wake_list&) = delete;
    ~wake_list() {
        wake_soon([this] { wake_all(); });
    }
    /// Where somebody waits in it: true. It must be kept until all are woken, and nothing may be awaited before.
    bool add(waiter& w) {
        if (n_ == all_.size()) wake_all();
        if (!w.claim()) return false;
        all_[n_++] = &w;
        return true;
    }
    std::size_t size() const noexcept { return n_; }
    void wake_all();

private:
    std::size_t n_ = 0;
    std::array<waiter*, 32> all_;
};

/// Parks a coroutine for once.
template <class Handler>
waiter_ptr make_waiter(Handler h) {
    waiter_ptr w = std::allocate_shared<waiter>(asio::recycling_allocator<void>());
    w->single_ = true;
    w->wait(std::move(h));
    w->keep_ = w;
    return w;
}

/// An operation for `co_await`. Not an awaitable, which would have a coroutine frame of its own.
template <class Start>
class parked_wait {
public:
    explicit parked_wait(Start s) : start_(std::move(s)) {}
    template <class Token>
    auto operator()(Token&& token) && // says what it gives, so that Asio sees for which tokens it is one
        -> decltype(asio::async_initiate<Token, void(bool)>(std::declval<Start>(), token)) {
        return asio::async_initiate<Token, void(bool)>(std::move(start_), token);
    }

private:
    Start start_;
};

/// Suspends the calling coroutine and hands it to `park` as a handler, which it puts into a waiter. `co_await` gives what the waiter was
/// woken with.
template <class Park>
parked_wait<Park> wait_in(Park park) {
    return parked_wait<Park>(std::move(park));
}

template <class Park>
class park_once {
public:
    explicit park_once(Park p) : park_(std::move(p)) {}
    template <class Handler>
    void operator()(Handler h) const {
        park_(make_waiter(std::move(h)));
    }

private:
    Park park_;
};

/// The same with a waiter for this one wait; `park` decides, under its lock, whether to keep or to wake it.
template <class Park>
parked_wait<park_once<Park>> wait_parked(Park park) {
    return wait_in(park_once<Park>(std::move(park)));
}

} // namespace informer::detail
