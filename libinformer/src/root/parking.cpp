#include "parking.hpp"

#include <boost/asio/associated_cancellation_slot.hpp>
#include <boost/asio/execution_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/prefer.hpp>
#include <boost/asio/query.hpp>

#include <atomic>
#include <list>
#include <mutex>
#include <optional>

namespace informer::detail {

namespace {

// Knows who is parked in an execution context. Without it a coroutine that waits and the object it waits on, which its
// frame owns, would keep each other for ever when the context goes first.
class parking_service : public asio::execution_context::service {
public:
    using key_type = parking_service;
    static inline asio::execution_context::id id;
    explicit parking_service(asio::execution_context& c) : service(c) {}

    void add(const waiter_ptr& w);
    void remove(waiter& w) noexcept;

private:
    void shutdown() noexcept override;

    std::mutex mutex_;
    std::list<waiter_ptr> parked_;
    bool shut_down_ = false;
};

} // namespace

class waiter {
public:
    waiter(asio::any_io_executor executor, wait_handler h)
        : service_(&asio::use_service<parking_service>(asio::query(executor, asio::execution::context))),
          content_(std::in_place, asio::prefer(std::move(executor), asio::execution::outstanding_work.tracked), std::move(h)) {}

    // Who claims it owns the content: a waker, a canceller or the dying context.
    bool claim() noexcept { return !claimed_.exchange(true, std::memory_order_acq_rel); }
    bool claimed() const noexcept { return claimed_.load(std::memory_order_acquire); }

    struct content {
        content(asio::any_io_executor w, wait_handler h) : work(std::move(w)), handler(std::move(h)) {}
        asio::any_io_executor work;
        wait_handler handler;
    };
    content take() {
        content c = std::move(*content_);
        content_.reset();
        return c;
    }
    parking_service& service() noexcept { return *service_; }
    wait_handler& handler() noexcept { return content_->handler; }

    // Of the service, under its mutex.
    bool listed = false;
    std::list<waiter_ptr>::iterator place;

private:
    parking_service* service_;
    std::atomic<bool> claimed_{false};
    std::optional<content> content_;
};

void parking_service::add(const waiter_ptr& w) {
    const std::lock_guard lock(mutex_);
    if (shut_down_) return;
    w->place = parked_.insert(parked_.end(), w);
    w->listed = true;
}

void parking_service::remove(waiter& w) noexcept {
    waiter_ptr last; // released after the lock
    const std::lock_guard lock(mutex_);
    if (!w.listed) return;
    w.listed = false;
    last = std::move(*w.place);
    parked_.erase(w.place);
}

void parking_service::shutdown() noexcept {
    std::list<waiter_ptr> parked;
    {
        const std::lock_guard lock(mutex_);
        shut_down_ = true;
        parked.swap(parked_);
        for (const waiter_ptr& w : parked) w->listed = false;
    }
    for (const waiter_ptr& w : parked) {
        if (w->claim()) w->take();
    }
}

waiter_ptr make_waiter(asio::any_io_executor executor, wait_handler h) {
    auto w = std::make_shared<waiter>(std::move(executor), std::move(h));
    w->service().add(w);
    // Cancellation is emitted on the executor we are on, so it cannot come before the caller has seen the waiter.
    auto slot = asio::get_associated_cancellation_slot(w->handler());
    if (slot.is_connected()) {
        slot.assign([weak = std::weak_ptr<waiter>(w)](asio::cancellation_type_t type) {
            if (type == asio::cancellation_type::none) return;
            if (const waiter_ptr alive = weak.lock()) wake(alive, false);
        });
    }
    return w;
}

void wake(const waiter_ptr& w, bool woken) {
    if (!w || !w->claim()) return;
    w->service().remove(*w);
    waiter::content c = w->take();
    const asio::any_io_executor executor = c.work;
    asio::post(executor, [c = std::move(c), woken]() mutable {
        asio::get_associated_cancellation_slot(c.handler).clear();
        std::move(c.handler)(woken);
    });
}

bool is_waiting(const waiter_ptr& w) noexcept { return w && !w->claimed(); }

} // namespace informer::detail
