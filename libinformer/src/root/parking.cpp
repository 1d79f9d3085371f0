#include "parking.hpp"

#include <informer/detail/spin_lock.hpp>

#include <boost/asio/execution_context.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/query.hpp>

#include <algorithm>
#include <cstddef>
#include <mutex>
#include <span>

namespace informer::detail {

// Knows who is parked in an execution context. Without it a coroutine that waits and the object it waits on, which its
// frame owns, would keep each other for ever when the context goes first. Who was woken stands in line for a turn of the context:
// a post for each would cost more than all the rest of a wake-up.
class parking_service : public asio::execution_context::service {
public:
    using key_type = parking_service;
    static inline asio::execution_context::id id;
    explicit parking_service(asio::execution_context& c) : service(c) {}
    ~parking_service() override { gone_.fetch_add(1, std::memory_order_relaxed); }

    /// Where that executor's waiters park; `own`: it is just an io_context's. To find a service its context locks and searches all
    /// it has, but who waits mostly waits where this thread's last one did. That may be gone, and another at its address: hence
    /// the count.
    static parking_service& of(const asio::any_io_executor& executor, bool& own);

    void add(const waiter_ptr& w);
    /// Those of its own waiters that nobody has claimed; all are null then. What is null already is passed over.
    void release(std::span<waiter_ptr> all, bool woken);

private:
    // What one turn resumes. A turn is asked for whenever those asked for are full, so that each waiter comes where a post of its
    // own would have come, and several threads have something to do.
    static constexpr std::size_t most_at_once = 16;
    using guard = std::lock_guard<spin_lock>;

    struct list {
        waiter *first = nullptr, *last = nullptr;
        bool empty() const noexcept { return first == nullptr; }
        void push(waiter& w) noexcept {
            w.previous_ = last;
            w.next_ = nullptr;
            (last ? last->next_ : first) = &w;
            last = &w;
        }
        waiter& pop() noexcept {
            waiter& w = *first;
            remove(w);
            return w;
        }
        void remove(waiter& w) noexcept {
            (w.previous_ ? w.previous_->next_ : first) = w.next_;
            (w.next_ ? w.next_->previous_ : last) = w.previous_;
        }
        void put_before(list& other) noexcept {
            if (other.empty()) return;
            if (empty()) {
                last = other.last;
            } else {
                other.last->next_ = first;
                first->previous_ = other.last;
            }
            first = std::exchange(other.first, nullptr);
            other.last = nullptr;
        }
    };
    class turn; // in which some are resumed

    bool needs_turn() noexcept { // under the mutex; true: ask for it
        if (n_ready_ <= turns_ * most_at_once) return false;
        ++turns_;
        return true;
    }
    void ask_for_turn();
    void resume_alone(waiter_ptr w, bool woken);
    asio::io_context& own_context() { return static_cast<asio::io_context&>(context()); } // asked by those who know it is one
    void shutdown() noexcept override;

    spin_lock mutex_;
    list parked_, ready_;
    static inline std::atomic<std::size_t> gone_{0}; // services that were destroyed
    std::size_t n_ready_ = 0, turns_ = 0; // turns: asked for, not begun
    bool shut_down_ = false;
};

class parking_service::turn {
public:
    explicit turn(parking_service& s) noexcept : service_(s) {}
    turn(const turn&) = delete;
    turn& operator=(const turn&) = delete;
    /// What a handler that throws leaves goes back.
    ~turn() {
        if (ours_.empty()) return;
        bool ask = false;
        {
            const guard lock(service_.mutex_);
            for (const waiter* w = ours_.first; w; w = w->next_) ++service_.n_ready_;
            service_.ready_.put_before(ours_);
            ask = service_.needs_turn();
        }
        if (ask) service_.ask_for_turn();
    }
    void run() {
        {
            const guard lock(service_.mutex_);
            --service_.turns_;
            const std::size_t n = std::min(most_at_once, service_.n_ready_);
            service_.n_ready_ -= n;
            for (std::size_t i = 0; i < n; ++i) ours_.push(service_.ready_.pop());
        }
        while (!ours_.empty()) {
            waiter& w = ours_.pop();
            w.resume(std::move(w.keep_), w.woken_);
        }
    }

private:
    parking_service& service_;
    list ours_;
};

void parking_service::add(const waiter_ptr& w) {
    const guard lock(mutex_);
    if (shut_down_) return;
    w->keep_ = w;
    parked_.push(*w);
}

void parking_service::release(std::span<waiter_ptr> all, bool woken) {
    std::size_t turns = 0;
    bool alone = false;
    {
        const guard lock(mutex_);
        for (waiter_ptr& w : all) {
            if (!w) continue;
            if (!w->claimed_.load(std::memory_order_relaxed)) {
                w->claimed_.store(true, std::memory_order_release);
                const bool parked = w->keep_ != nullptr; // if not, the context is going
                if (parked) parked_.remove(*w);
                if (!parked || w->executor_) {
                    w->keep_.reset();
                    alone = true;
                    continue;
                }
                w->woken_ = woken;
                ready_.push(*w);
                ++n_ready_;
                turns += needs_turn();
            }
            w.reset(); // it keeps itself, or has no handler any more
        }
    }
    for (; turns > 0; --turns) ask_for_turn();
    if (!alone) return;
    for (waiter_ptr& w : all)
        if (w) resume_alone(std::move(w), woken);
}

void parking_service::resume_alone(waiter_ptr w, bool woken) {
    const asio::any_io_executor executor = std::move(w->executor_);
    auto resumes = [self = std::move(w), woken]() mutable {
        waiter& ready = *self;
        ready.resume(std::move(self), woken);
    };
    if (executor)
        asio::post(executor, std::move(resumes));
    else
        asio::post(own_context(), std::move(resumes));
}

void parking_service::ask_for_turn() {
    asio::post(own_context(), [this] { turn(*this).run(); });
}

void parking_service::shutdown() noexcept {
    for (;;) {
        waiter_ptr w;
        {
            const guard lock(mutex_);
            shut_down_ = true;
            list& from = ready_.empty() ? parked_ : ready_;
            if (from.empty()) break;
            w = std::move(from.pop().keep_);
            w->claimed_.store(true, std::memory_order_release);
        }
        w->executor_ = asio::any_io_executor();
        w->drop();
    }
}

parking_service& parking_service::of(const asio::any_io_executor& executor, bool& own) {
    using io_executor = asio::io_context::executor_type;
    struct place {
        asio::execution_context* context = nullptr;
        parking_service* service = nullptr;
        std::size_t gone = 0;
    };
    static thread_local place last;
    const auto* const plain = executor.target<io_executor>();
    own = plain != nullptr;
    asio::execution_context& context = own ? plain->context() : asio::query(executor, asio::execution::context);
    const std::size_t gone = gone_.load(std::memory_order_relaxed);
    if (last.context != &context || last.gone != gone) last = place{&context, &asio::use_service<parking_service>(context), gone};
    return *last.service;
}

waiter::waiter(const asio::any_io_executor& executor) {
    bool own = false;
    service_ = &parking_service::of(executor, own);
    if (!own) executor_ = executor;
}

void waiter::park(const waiter_ptr& w) { w->service_->add(w); }

void wake(waiter_ptr w, bool woken) {
    if (is_waiting(w)) w->service_->release(std::span(&w, 1), woken); // else its service may be gone
}

void wake_all(std::vector<waiter_ptr>& all) {
    for (waiter_ptr& w : all)
        if (!is_waiting(w)) w.reset();
    for (std::size_t first = 0, next = 0; first < all.size(); first = next) {
        next = first + 1;
        if (!all[first]) continue;
        parking_service* const service = all[first]->service_;
        while (next < all.size() && (!all[next] || all[next]->service_ == service)) ++next;
        service->release(std::span(all).subspan(first, next - first), true);
    }
    all.clear();
}

bool is_waiting(const waiter_ptr& w) noexcept { return w && !w->claimed_.load(std::memory_order_acquire); }

} // namespace informer::detail
