// Coroutines that wait until some thread wakes them. They are parked where the destruction of their io_context finds
// them.
#pragma once

#include <informer/detail/only_thread.hpp>
#include <informer/runtime.hpp>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/associated_cancellation_slot.hpp>
#include <boost/asio/associated_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
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

/// Calls a function that wakes waiters. If there is no memory for that, they are resumed with the next waiter that is
/// woken in their context.
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

/// Resumes the waiter through its executor, never inline. May be called from any thread; only the first call counts.
/// Waiters of one io_context that are woken one after another are resumed in the same order, several in one turn of it.
/// *Errors*: bad_alloc; the waiter is then resumed with the next one that is woken in its context.
void wake(const waiter_ptr& w, bool woken = true);
/// The same for many, in their order, at the cost of waking one or two; empties `all`. A null entry is not waiting.
void wake_all(std::vector<waiter_ptr>& all);
/// Whether a coroutine waits in it and was not woken yet. Null is not waiting.
bool is_waiting(const waiter_ptr& w) noexcept;

/// A place in which one coroutine waits. The coroutine is resumed once, with true if it was woken and false if it was
/// cancelled; or it is destroyed, not resumed, if the execution context is destroyed first. A waiter is no outstanding
/// work; the coroutine that waits is.
///
/// A waiter is made for a single wait, by wait_parked(), and keeps itself alive during it. Or it is a part of the
/// object that is waited for, which the waiting coroutines own, and serves one of their waits after another: half the
/// cost.
class waiter : public std::enable_shared_from_this<waiter> {
public:
    waiter() noexcept = default;
    waiter(const waiter&) = delete;
    waiter& operator=(const waiter&) = delete;
    ~waiter();

    /// No coroutine is in it: none waits, and none was woken and not resumed yet.
    bool idle() const noexcept { return state_.load(std::memory_order_acquire) == state::idle; }
    bool waiting() const noexcept { return state_.load(std::memory_order_acquire) == state::waiting; }
    /// A coroutine was woken, or is about to be, and was not resumed yet.
    bool leaving() const noexcept { return state_.load(std::memory_order_acquire) >= state::claimed; }
    /// True for exactly one of its callers while a coroutine waits: that caller must wake it before it does anything
    /// else that may wait or end.
    bool claim() noexcept {
        if (!waiting()) return false;
        state expected = state::waiting;
        if (!is_only_thread())
            return state_.compare_exchange_strong(expected, state::claimed, std::memory_order_acq_rel);
        state_.store(state::claimed, std::memory_order_relaxed);
        return true;
    }
    /// Wakes a claimed waiter, which must be kept alive until this returns.
    void wake_claimed(bool woken = true);
    /// Drops the owner's reference; if a coroutine is in the waiter, the waiter is kept alive until the coroutine has
    /// left. Must be called on that coroutine's executor.
    static void part(waiter_ptr w) {
        if (!w->idle()) w->keep_ = w;
    }

    /// Puts a coroutine that `co_await`s in here; it must be idle. Must be called on that coroutine's executor.
    /// *Cancellation*: any type wakes it with false.
    /// Inline, with Asio's slot, of whose memory the alignment is then known: else each wait pays a division for it.
    template <class Handler>
    [[gnu::always_inline]] void wait(Handler&& h) {
        using kept = std::decay_t<Handler>;
        static_assert(sizeof(kept) <= sizeof(room_) && alignof(kept) <= alignof(void*));
        static_assert(std::is_nothrow_move_constructible_v<kept>);
        const asio::any_io_executor executor = asio::get_associated_executor(h);
        const auto* const plain = executor.target<asio::io_context::executor_type>();
        // A waiter that was in the list of a context that is gone is not in it any more.
        lone_ = plain == nullptr;
        if (lone_ || context_ != &plain->context() || !entered_) enter(executor);
        // Cancellation is emitted on the executor that runs this function, so it cannot come before the function is
        // through. The slot may outlive the waiter if the context is destroyed. When the coroutine is resumed it clears
        // the slot itself.
        auto slot = asio::get_associated_cancellation_slot(h);
        if (slot.is_connected()) slot.template emplace<canceller>(*this);
        ::new (static_cast<void*>(room_)) kept(std::forward<Handler>(h));
        leave_ = &leave<kept>;
        state_.store(state::waiting, std::memory_order_release);
    }

private:
    friend class parking_lot;
    template <class Handler>
    friend waiter_ptr make_waiter(Handler h);

    enum class state : std::uint8_t {
        idle,
        waiting,
        claimed, ///< its waker is about to release it to the lot
        ready,   ///< its waker has released it
    };
    struct canceller {
        explicit canceller(waiter& w) noexcept : of(w.weak_from_this()) {}
        void operator()(asio::cancellation_type_t type) const {
            if (type == asio::cancellation_type::none) return;
            if (const waiter_ptr alive = of.lock()) wake(alive, false);
        }
        std::weak_ptr<waiter> of;
    };

    /// The list of its context's lot.
    void enter(const asio::any_io_executor& executor);
    void resume(bool woken) { leave_(*this, true, woken); }
    void drop() noexcept { leave_(*this, false, false); }
    // Flattened, g++ sees that a handler that was moved away holds nothing; its destructor is long.
    template <class Handler>
    [[gnu::flatten]] static void leave(waiter& w, bool resumes, bool woken) {
        auto* const there = std::launder(reinterpret_cast<Handler*>(w.room_));
        Handler h(std::move(*there));
        there->~Handler();
        {
            const waiter_ptr kept = std::move(w.keep_); // its memory may serve the next wait
            w.state_.store(state::idle, std::memory_order_release);
        }
        if (resumes) std::move(h)(woken);
    }

    // First what every wait touches, close together in memory.
    std::atomic<state> state_{state::idle};
    bool woken_ = false;
    bool single_ = false;  ///< for one wait: in the lot's list during that wait; else from its first wait there on
    bool entered_ = false; ///< it is in the lot's list
    bool lone_ = false;    ///< its coroutine's executor is not the io_context's own
    alignas(void*) std::byte room_[2 * sizeof(void*)];
    void (*leave_)(waiter& w, bool resumes, bool woken) = nullptr;
    parking_lot* lot_ = nullptr;
    waiter* next_ready_ = nullptr; // used by the lot, under its mutex
    waiter_ptr keep_;
    asio::execution_context* context_ = nullptr;
    std::shared_ptr<parking_lot> its_lot_;         ///< only if the waiter is not for a single wait
    waiter *previous_ = nullptr, *next_ = nullptr; // used by the lot, under its mutex
    asio::any_io_executor executor_;               ///< during a wait, if it is a lone one
};

/// Collects waiters, to wake them together when no lock is held any more.
class wake_list {
public:
    wake_list() noexcept {}
    wake_list(const wake_list&) = delete;
    wake_list& operator=(const wake_list&) = delete;
    ~wake_list() {
        wake_soon([this] { wake_all(); });
    }
    /// True if a coroutine waits in `w`. `w` must be kept alive until all are woken, and nothing may be awaited before.
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

/// Parks a coroutine for a single wait.
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
    auto operator()(Token&& token) && // the type tells Asio for which tokens this is an operation
        -> decltype(asio::async_initiate<Token, void(bool)>(std::declval<Start>(), token)) {
        return asio::async_initiate<Token, void(bool)>(std::move(start_), token);
    }

private:
    Start start_;
};

/// Suspends the calling coroutine and hands it as a handler to `park`, which puts it into a waiter. `co_await` returns
/// the value that the waiter was woken with.
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
