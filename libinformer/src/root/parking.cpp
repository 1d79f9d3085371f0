#include "parking.hpp"

#include <informer/detail/spin_lock.hpp>

#include <boost/asio/execution_context.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/query.hpp>

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <span>
#include <thread>

namespace informer::detail {

// Knows the waiters that are parked in an execution context. Without it, a coroutine that waits and the object it waits
// on, which its frame owns, would keep each other alive for ever when the context is destroyed first. Woken waiters
// stand in line for a turn of the context: a post for each would cost more than all the rest of a wake-up.
//
// A suspended coroutine owns what it waits on, so a waiter exists as long as a coroutine is in it. Waiters that are
// used again keep the lot alive beyond the context, and leave it in their destructor.
class parking_lot {
public:
    explicit parking_lot(asio::execution_context& c) : context_(c) {}

    void add(waiter& w) {
        const guard lock(mutex_);
        if (shut_down_) return;
        w.entered_ = true;
        parked_.push(w);
    }
    void remove(waiter& w) noexcept {
        const guard lock(mutex_);
        if (std::exchange(w.entered_, false)) parked_.remove(w);
    }
    /// Wakes the first of `all`, up to one of another lot, and takes them out of it. The caller has claimed them; null
    /// entries are skipped.
    template <class Pointer>
    void release(std::span<Pointer>& all, bool woken);
    /// The same for waiters of any lots.
    template <class Pointer>
    static void release_all(std::span<Pointer> all);
    void shut_down() noexcept;

private:
    // How many waiters one turn resumes. A turn is asked for whenever the turns asked for are full, so that each waiter
    // is resumed where a post of its own would have resumed it. One is also asked for when a waiter is about to be
    // resumed, others are in line and no turn is pending: the resumed coroutine may run the context itself, or block
    // while other threads could resume the others.
    static constexpr std::size_t most_at_once = 16;
    using guard = std::lock_guard<spin_lock>;

    struct list {
        waiter *first = nullptr, *last = nullptr;
        void push(waiter& w) noexcept {
            w.previous_ = last;
            w.next_ = nullptr;
            (last ? last->next_ : first) = &w;
            last = &w;
        }
        void remove(waiter& w) noexcept {
            (w.previous_ ? w.previous_->next_ : first) = w.next_;
            (w.next_ ? w.next_->previous_ : last) = w.previous_;
        }
    };
    struct line {
        waiter *first = nullptr, *last = nullptr;
        bool empty() const noexcept { return first == nullptr; }
        void push(waiter& w) noexcept {
            w.next_ready_ = nullptr;
            (first ? last->next_ready_ : first) = &w;
            last = &w;
        }
        waiter& pop() noexcept {
            waiter& w = *first;
            first = w.next_ready_;
            return w;
        }
    };
    /// A thread has left the mutex and has yet to post: the destruction of the context waits for it. When this object
    /// ends the lot may be gone.
    class posting {
    public:
        posting() noexcept = default;
        posting(const posting&) = delete;
        posting& operator=(const posting&) = delete;
        ~posting() {
            if (all_) all_->fetch_sub(1, std::memory_order_release);
        }
        void begin(std::atomic<std::size_t>& all) noexcept {
            all_ = &all;
            all.fetch_add(1, std::memory_order_relaxed);
        }

    private:
        std::atomic<std::size_t>* all_ = nullptr;
    };
    class turn; // a handler in which some waiters are resumed
    class lone; // a handler for one waiter that is resumed by its own executor

    std::size_t needed_turns() noexcept { // under the mutex; the caller must ask for as many
        const std::size_t all = (n_ready_ + most_at_once - 1) / most_at_once;
        return all > turns_ ? all - std::exchange(turns_, all) : 0;
    }
    void ask_for(std::size_t turns);
    void try_to_ask(std::size_t turns) noexcept;
    // Called only where the context is known to be an io_context.
    asio::io_context& own_context() { return static_cast<asio::io_context&>(context_); }

    asio::execution_context& context_;
    spin_lock mutex_;
    list parked_;
    line ready_;
    line held_up_;                        // no memory to post them to their own executors: posted at the next wake-up
    std::size_t n_ready_ = 0, turns_ = 0; // turns_: asked for, not begun
    std::atomic<std::size_t> posting_{0}; // incremented under the mutex
    bool shut_down_ = false;
};

namespace {

class parking_service : public asio::execution_context::service {
public:
    using key_type = parking_service;
    static inline asio::execution_context::id id;
    explicit parking_service(asio::execution_context& c) : service(c), lot_(std::make_shared<parking_lot>(c)) {}
    ~parking_service() override { gone_.fetch_add(1, std::memory_order_relaxed); }

    /// To find a service a context locks and searches all that it has, but a coroutine mostly waits in the same context
    /// as the last one on this thread, which is therefore remembered. That context may be gone, and another at its
    /// address: hence the count.
    static const std::shared_ptr<parking_lot>& lot_of(asio::execution_context& context) {
        struct place {
            asio::execution_context* context = nullptr;
            parking_service* service = nullptr;
            std::size_t gone = 0;
        };
        static thread_local place last;
        const std::size_t gone = gone_.load(std::memory_order_relaxed);
        if (last.context != &context || last.gone != gone) {
            last = place{&context, &asio::use_service<parking_service>(context), gone};
        }
        return last.service->lot_;
    }

private:
    void shutdown() noexcept override { lot_->shut_down(); }

    std::shared_ptr<parking_lot> lot_;
    static inline std::atomic<std::size_t> gone_{0}; // services that were destroyed
};

} // namespace

class parking_lot::turn {
public:
    explicit turn(parking_lot& l) noexcept : lot_(l) {}
    turn(const turn&) = delete;
    turn& operator=(const turn&) = delete;
    /// If a resumed handler throws, the waiters that this turn leaves in line get another turn.
    ~turn() {
        if (left_ == 0) return;
        std::size_t turns = 0;
        {
            const guard lock(lot_.mutex_);
            turns = lot_.needed_turns();
        }
        lot_.try_to_ask(turns);
    }
    void run() {
        waiter* next = nullptr;
        bool ask = false;
        {
            const guard lock(lot_.mutex_);
            --lot_.turns_;
            left_ = std::min(most_at_once, lot_.n_ready_);
            next = take(ask);
        }
        while (next) {
            if (ask) lot_.try_to_ask(1);
            next->resume(next->woken_);
            if (left_ == 0) return;
            const guard lock(lot_.mutex_);
            next = take(ask);
        }
    }

private:
    /// A waiter stays in line until it is resumed, so that another turn can find it: the coroutine that is resumed now
    /// may run the context, or block, or not suspend for long.
    waiter* take(bool& ask) noexcept { // under the mutex
        ask = false;
        if (lot_.ready_.empty()) left_ = 0;
        if (left_ == 0) return nullptr;
        --left_;
        --lot_.n_ready_;
        waiter& w = lot_.ready_.pop();
        if (lot_.n_ready_ != 0 && lot_.turns_ == 0) {
            ++lot_.turns_;
            ask = true;
        }
        return &w;
    }

    parking_lot& lot_;
    std::size_t left_ = 0; ///< how many more it may resume
};

/// If it is destroyed without having been called, it destroys the waiting coroutine, unless the post itself failed.
class parking_lot::lone {
public:
    lone(lone&& o) noexcept : waiter_(std::exchange(o.waiter_, nullptr)) {}
    lone& operator=(lone&&) = delete;
    ~lone() {
        if (waiter_ && waiter_ != on_its_way) waiter_->drop();
    }
    void operator()() {
        waiter& w = *std::exchange(waiter_, nullptr);
        w.resume(w.woken_);
    }
    static void post(waiter& w) {
        asio::any_io_executor executor = std::move(w.executor_);
        const while_posting here(w);
        try {
            asio::post(executor, lone(w));
        } catch (...) {
            w.executor_ = std::move(executor);
            throw;
        }
    }

private:
    explicit lone(waiter& w) noexcept : waiter_(&w) {}
    struct while_posting {
        explicit while_posting(waiter& w) noexcept { on_its_way = &w; }
        while_posting(const while_posting&) = delete;
        while_posting& operator=(const while_posting&) = delete;
        ~while_posting() { on_its_way = nullptr; }
    };
    static inline thread_local waiter* on_its_way = nullptr;
    waiter* waiter_;
};

template <class Pointer>
void parking_lot::release(std::span<Pointer>& all, bool woken) {
    std::size_t turns = 0;
    line alone;
    posting under_way;
    {
        const guard lock(mutex_);
        std::size_t n = 0;
        for (; n < all.size(); ++n) {
            if (!all[n]) continue;
            waiter& w = *all[n];
            if (w.lot_ != this) break;
            if (w.single_ && std::exchange(w.entered_, false)) parked_.remove(w);
            w.woken_ = woken;
            w.state_.store(waiter::state::ready, std::memory_order_relaxed);
            if (w.lone_) {
                alone.push(w);
                continue;
            }
            ready_.push(w);
            ++n_ready_;
        }
        all = all.subspan(n);
        turns = needed_turns();
        while (!held_up_.empty()) alone.push(held_up_.pop());
        if (turns > 0 || !alone.empty()) under_way.begin(posting_);
    }
    std::exception_ptr no_memory;
    try {
        ask_for(turns);
    } catch (...) {
        no_memory = std::current_exception();
    }
    while (!alone.empty()) {
        waiter& w = alone.pop();
        try {
            lone::post(w);
        } catch (...) {
            no_memory = std::current_exception();
            const guard lock(mutex_);
            held_up_.push(w);
        }
    }
    if (no_memory) std::rethrow_exception(no_memory);
}

template <class Pointer>
void parking_lot::release_all(std::span<Pointer> all) {
    std::exception_ptr no_memory; // for one lot: the others are woken all the same
    while (!all.empty()) {
        const Pointer& first = all.front();
        if (!first) {
            all = all.subspan(1);
            continue;
        }
        try {
            first->lot_->release(all, true);
        } catch (...) {
            no_memory = std::current_exception();
        }
    }
    if (no_memory) std::rethrow_exception(no_memory);
}

void parking_lot::ask_for(std::size_t turns) {
    // Turns that could not be asked for, for lack of memory, must not be counted: the waiters in line are resumed after
    // the next wake-up.
    struct rest {
        ~rest() {
            if (turns == 0) return;
            const guard lock(lot.mutex_);
            lot.turns_ -= turns;
        }
        parking_lot& lot;
        std::size_t turns;
    } left{*this, turns};
    for (; left.turns > 0; --left.turns) asio::post(own_context(), [this] { turn(*this).run(); });
}

void parking_lot::try_to_ask(std::size_t turns) noexcept {
    try {
        ask_for(turns);
    } catch (...) { // as above
    }
}

void parking_lot::shut_down() noexcept {
    for (;;) {
        waiter* ours = nullptr;
        {
            const guard lock(mutex_);
            shut_down_ = true;
            if (!ready_.empty()) {
                ours = &ready_.pop();
            } else if (!held_up_.empty()) {
                ours = &held_up_.pop();
            } else if (parked_.first) {
                waiter& w = *parked_.first;
                if (w.claim()) ours = &w;
                if (ours || w.state_.load(std::memory_order_relaxed) != waiter::state::claimed) {
                    w.entered_ = false;
                    parked_.remove(w);
                    if (!ours) continue; // no coroutine is in it, or it is posted to its own executor
                }
            } else if (posting_.load(std::memory_order_acquire) == 0) {
                return;
            }
        }
        if (!ours) {
            std::this_thread::yield(); // a thread that claimed a waiter is about to release it, or has yet to post
            continue;
        }
        ours->executor_ = asio::any_io_executor();
        ours->drop();
    }
}

waiter::~waiter() {
    if (its_lot_)
        its_lot_->remove(*this);
    else if (entered_)
        lot_->remove(*this); // make_waiter() failed
}

void waiter::enter(const asio::any_io_executor& executor) {
    asio::execution_context& context = asio::query(executor, asio::execution::context);
    if (lone_) executor_ = executor;
    if (context_ == &context && entered_) return; // otherwise another context may be at that address
    const std::shared_ptr<parking_lot>& lot = parking_service::lot_of(context);
    if (!single_) {
        if (its_lot_) its_lot_->remove(*this);
        its_lot_ = lot;
        context_ = &context;
    }
    lot_ = lot.get();
    lot_->add(*this);
}

void waiter::wake_claimed(bool woken) {
    waiter* self = this;
    std::span all(&self, 1);
    lot_->release(all, woken);
}

void wake_list::wake_all() {
    parking_lot::release_all(std::span(all_.data(), std::exchange(n_, 0)));
}

void wake_all(std::vector<waiter_ptr>& all) {
    for (waiter_ptr& w : all)
        if (w && !w->claim()) w.reset();
    parking_lot::release_all(std::span(all));
    all.clear();
}

void wake(const waiter_ptr& w, bool woken) {
    if (w && w->claim()) w->wake_claimed(woken);
}

bool is_waiting(const waiter_ptr& w) noexcept {
    return w && w->waiting();
}

} // namespace informer::detail
