#include "parking.hpp"

#include <boost/asio/execution_context.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/query.hpp>

#include <algorithm>
#include <cstddef>
#include <mutex>

namespace informer::detail {

// Knows who is parked in an execution context. Without it a coroutine that waits and the object it waits on, which its
// frame owns, would keep each other for ever when the context goes first. Who was woken stands in line for a turn of the context:
// a post for each would cost more than all the rest of a wake-up.
class parking_service : public asio::execution_context::service {
public:
    using key_type = parking_service;
    static inline asio::execution_context::id id;
    explicit parking_service(asio::execution_context& c) : service(c) {}

    void add(const waiter_ptr& w);
    /// Of a waiter that the caller has claimed.
    void release(const waiter_ptr& w, bool woken);

private:
    // What one turn resumes. A turn is asked for whenever those asked for are full, so that each waiter comes where a post of its
    // own would have come, and several threads have something to do.
    static constexpr std::size_t most_at_once = 16;

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
    asio::io_context& own_context() { return static_cast<asio::io_context&>(context()); } // asked by those who know it is one
    void shutdown() noexcept override;

    std::mutex mutex_;
    list parked_, ready_;
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
            const std::lock_guard lock(service_.mutex_);
            for (const waiter* w = ours_.first; w; w = w->next_) ++service_.n_ready_;
            service_.ready_.put_before(ours_);
            ask = service_.needs_turn();
        }
        if (ask) service_.ask_for_turn();
    }
    void run() {
        {
            const std::lock_guard lock(service_.mutex_);
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
    const std::lock_guard lock(mutex_);
    if (shut_down_) return;
    w->keep_ = w;
    parked_.push(*w);
}

void parking_service::release(const waiter_ptr& w, bool woken) {
    bool ask = false;
    waiter_ptr alone;
    {
        const std::lock_guard lock(mutex_);
        if (w->keep_) {
            parked_.remove(*w);
            w->woken_ = woken;
            if (!w->executor_) {
                ready_.push(*w);
                ++n_ready_;
                ask = needs_turn();
            } else {
                alone = std::move(w->keep_);
            }
        } else { // the context is going
            alone = w;
        }
    }
    if (ask) ask_for_turn();
    if (!alone) return;
    const asio::any_io_executor executor = std::move(alone->executor_);
    auto resumes = [self = std::move(alone), woken]() mutable {
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
        bool ours = true;
        {
            const std::lock_guard lock(mutex_);
            shut_down_ = true;
            list& from = ready_.empty() ? parked_ : ready_;
            if (from.empty()) break;
            ours = &from == &ready_;
            w = std::move(from.pop().keep_);
        }
        // One that another thread has claimed meanwhile is its own to resume, in vain.
        if (!ours && !w->claim()) continue;
        w->executor_ = asio::any_io_executor();
        w->drop();
    }
}

waiter::waiter(asio::any_io_executor executor)
    : service_(&asio::use_service<parking_service>(asio::query(executor, asio::execution::context))) {
    if (!executor.target<asio::io_context::executor_type>()) executor_ = std::move(executor);
}

void waiter::park(const waiter_ptr& w) { w->service_->add(w); }

void wake(const waiter_ptr& w, bool woken) {
    if (w && w->claim()) w->service_->release(w, woken);
}

bool is_waiting(const waiter_ptr& w) noexcept { return w && !w->claimed(); }

} // namespace informer::detail
