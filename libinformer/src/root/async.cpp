#include <informer/detail/async.hpp>
#include <informer/task_group.hpp>

#include "parking.hpp"
#include "quietly.hpp"
#include "system_clock.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <algorithm>
#include <exception>

namespace informer::detail {

struct async_event::state {
    explicit state(const asio::any_io_executor& executor) : timer(executor) {}

    asio::steady_timer timer;
    bool set = false;
    bool closed = false; ///< the event is gone

    /// For waits without a deadline by the real clock: it costs a fraction of a timer. Made when it is first needed.
    waiter_ptr waiter;

    bool take() noexcept { return std::exchange(set, false); }
    void look_again() {
        if (waiter && !waiter->idle())
            wake(waiter);
        else
            timer.cancel();
    }

    /// Made before the coroutine suspends: a bad_alloc thrown after that would leave io_context::run().
    class place {
    public:
        explicit place(state* s) : at_(s) {
            // A coroutine whose wait was cancelled may not have been resumed yet.
            if (at_->waiter && !at_->waiter->idle()) waiter::part(std::move(at_->waiter));
            if (!at_->waiter) at_->waiter = std::make_shared<detail::waiter>();
        }
        template <class Handler>
        void operator()(Handler h) const {
            at_->waiter->wait(std::move(h));
        }

    private:
        state* at_;
    };
    static asio::awaitable<bool> wait(std::shared_ptr<state> s);
    static asio::awaitable<bool> wait(std::shared_ptr<state> s, asio::steady_timer::time_point until);
    static asio::awaitable<void> tick(std::shared_ptr<state> s, std::shared_ptr<bool> passed, informer::clock* c,
                                      informer::clock::time_point when);
    static asio::awaitable<bool> wait_by(std::shared_ptr<state> s, informer::clock* c,
                                         informer::clock::time_point when);
};

async_event::async_event(asio::any_io_executor executor) : state_(std::make_shared<state>(executor)) {}

async_event::~async_event() {
    if (!state_) return; // moved from
    state_->closed = true;
    state_->look_again();
}

async_event::async_event(async_event&&) noexcept = default;

void async_event::notify() {
    state_->set = true;
    state_->look_again();
}

asio::awaitable<bool> async_event::state::wait(std::shared_ptr<state> s) {
    const auto asked = co_await asio::this_coro::cancellation_state;
    if (asked.cancelled() != asio::cancellation_type::none || s->closed) co_return false;
    if (s->take()) co_return true;
    const place here(s.get());
    co_await wait_in(here);
    co_return s->take();
}

asio::awaitable<bool> async_event::state::wait(std::shared_ptr<state> s, asio::steady_timer::time_point until) {
    for (;;) {
        const auto asked = co_await asio::this_coro::cancellation_state;
        if (asked.cancelled() != asio::cancellation_type::none) co_return false;
        if (s->closed) co_return false;
        if (s->take()) co_return true;
        s->timer.expires_at(until);
        const auto [ec] = co_await s->timer.async_wait(asio::as_tuple(asio::use_awaitable));
        if (s->take()) co_return true;
        const auto now_asked = co_await asio::this_coro::cancellation_state;
        if (!ec || s->closed || now_asked.cancelled() != asio::cancellation_type::none) co_return false;
    }
}

asio::awaitable<void> async_event::state::tick(std::shared_ptr<state> s, std::shared_ptr<bool> passed,
                                               informer::clock* c, informer::clock::time_point when) {
    const bool slept = co_await c->sleep_until(when);
    if (!slept) co_return;
    *passed = true;
    s->look_again();
}

asio::awaitable<bool> async_event::state::wait_by(std::shared_ptr<state> s, informer::clock* c,
                                                  informer::clock::time_point when) {
    const auto asked_before = co_await asio::this_coro::cancellation_state;
    if (asked_before.cancelled() != asio::cancellation_type::none || s->closed) co_return false;
    if (s->take()) co_return true;
    if (c->now() >= when) co_return false;

    const auto executor = co_await asio::this_coro::executor;
    const auto passed = std::make_shared<bool>(false);
    const auto failed = std::make_shared<std::exception_ptr>();
    task_group ticker(executor);
    ticker.on_error([s, passed, failed](std::exception_ptr e) { // the clock threw, or there was no memory to begin
        *failed = std::move(e);
        *passed = true;
        s->look_again();
    });
    ticker.spawn(tick(s, passed, c, when));
    bool notified = false;
    for (;;) {
        const place here(s.get());
        co_await wait_in(here); // until notify, the ticker or the event's end; or cancelled
        notified = s->take();
        const auto asked = co_await asio::this_coro::cancellation_state;
        if (notified || *passed || s->closed || asked.cancelled() != asio::cancellation_type::none) break;
    }
    // The clock may be destroyed as soon as this returns, so the ticker must have left it, cancelled or not.
    ticker.stop();
    co_await ticker.join();
    if (*failed) std::rethrow_exception(*failed);
    co_return notified;
}

asio::awaitable<bool> async_event::wait() {
    return state::wait(state_);
}

asio::awaitable<bool> async_event::wait_until(informer::clock& c, informer::clock::time_point when) {
    if (dynamic_cast<real_clock*>(&c) != nullptr) return state::wait(state_, when);
    return quietly(state::wait_by(state_, &c, when));
}

clock::duration stretched(clock::duration d, double share) noexcept {
    d = std::max(d, clock::duration(0));
    if (!(share > 0)) return d; // also for NaN
    const double extra = static_cast<double>(d.count()) * share;
    if (extra >= static_cast<double>((clock::duration::max() - d).count())) return clock::duration::max();
    return d + clock::duration(static_cast<clock::duration::rep>(extra));
}

std::string what_is_wrong() {
    try {
        throw;
    } catch (const std::exception& x) {
        return x.what();
    } catch (...) {
        return "an exception of unknown type";
    }
}

bool is_cancellation(const std::exception_ptr& e) noexcept {
    try {
        std::rethrow_exception(e);
    } catch (const boost::system::system_error& s) {
        return s.code() == condition::cancelled;
    } catch (...) {
        return false;
    }
}

asio::awaitable<bool> cancelled() {
    const auto asked = co_await asio::this_coro::cancellation_state;
    co_return asked.cancelled() != asio::cancellation_type::none;
}

namespace {

/// Work in a group of its own. Whatever happens, it must be joined: it may use what the caller owns.
struct child_work {
    explicit child_work(const asio::any_io_executor& executor) : group(executor), done(executor) {
        group.on_error([this](std::exception_ptr e) { end(std::move(e)); }); // it could not begin
    }
    void end(std::exception_ptr e) {
        failed = std::move(e);
        finished = true;
        done.notify();
    }
    static asio::awaitable<void> carry(std::shared_ptr<child_work> w, asio::awaitable<void> work) {
        std::exception_ptr thrown;
        try {
            co_await std::move(work);
        } catch (...) {
            thrown = std::current_exception();
        }
        w->end(std::move(thrown));
    }
    static std::shared_ptr<child_work> begin(const asio::any_io_executor& executor, asio::awaitable<void> work) {
        auto w = std::make_shared<child_work>(executor);
        w->group.spawn(carry(w, std::move(work)));
        return w;
    }

    task_group group;
    async_event done;
    bool finished = false;
    std::exception_ptr failed;
};

asio::awaitable<bool> run_by(informer::clock* c, informer::clock::time_point deadline, asio::awaitable<void> work) {
    const auto executor = co_await asio::this_coro::executor;
    const auto w = child_work::begin(executor, std::move(work));
    std::exception_ptr broken; // thrown by the clock
    try {
        co_await w->done.wait_until(*c, deadline);
    } catch (...) {
        broken = std::current_exception();
    }
    const bool in_time = w->finished;
    const auto asked = co_await asio::this_coro::cancellation_state;
    const bool by_deadline = !in_time && asked.cancelled() == asio::cancellation_type::none;
    w->group.stop();
    co_await w->group.join();
    if (broken) std::rethrow_exception(broken);
    if (w->failed && !(by_deadline && is_cancellation(w->failed))) std::rethrow_exception(w->failed);
    co_return in_time;
}

asio::awaitable<std::exception_ptr> to_its_end(asio::any_io_executor executor, asio::awaitable<void> work,
                                               std::function<void()> ask_to_end) {
    const auto w = child_work::begin(executor, std::move(work));
    co_await w->done.wait();
    ask_to_end();
    co_await w->group.join();
    co_return w->failed;
}

} // namespace

asio::awaitable<bool> run_until(informer::clock& c, informer::clock::time_point deadline, asio::awaitable<void> work) {
    return quietly(run_by(&c, deadline, std::move(work)));
}

asio::awaitable<std::exception_ptr> run_to_end(asio::any_io_executor executor, asio::awaitable<void> work,
                                               std::function<void()> ask_to_end) {
    return quietly(to_its_end(std::move(executor), std::move(work), std::move(ask_to_end)));
}

} // namespace informer::detail
