#include <informer/detail/async.hpp>
#include <informer/task_group.hpp>

#include "quietly.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <list>
#include <utility>

namespace informer {

struct task_group::state : std::enable_shared_from_this<task_group::state> {
    explicit state(asio::any_io_executor e) : executor(std::move(e)), empty(executor) {
        empty.expires_at(asio::steady_timer::time_point::max());
    }

    struct child {
        std::shared_ptr<asio::cancellation_signal> signal;
        std::list<child>* in; ///< the list it is on
    };
    using children = std::list<child>;

    asio::any_io_executor executor;
    asio::steady_timer empty; ///< cancelled when the last child is gone
    children running, told;   ///< `told`: asked to stop
    std::size_t count = 0;    ///< children running or waiting to be started
    bool stopping = false;
    std::exception_ptr first;
    using handler = std::function<void(std::exception_ptr)>;
    std::shared_ptr<const handler> on_error;

    void start(const asio::any_io_executor& on, asio::awaitable<void> work, children one);
    void take_off(children::iterator at) noexcept { at->in->erase(at); }
    void finish(std::exception_ptr e) noexcept;
    static asio::awaitable<void> run(asio::awaitable<void> child);
    static asio::awaitable<void> join(std::shared_ptr<state> s);
};

asio::awaitable<void> task_group::state::run(asio::awaitable<void> child) {
    std::exception_ptr failed;
    try {
        co_await std::move(child);
    } catch (...) {
        failed = std::current_exception();
    }
    // co_spawn's own frame awaits a post if a child never suspended. If the child was cancelled meanwhile, that await
    // would throw out of io_context::run().
    co_await asio::this_coro::throw_if_cancelled(false);
    if (failed) std::rethrow_exception(failed);
}

/// `one`: the child's place in the list, allocated in spawn_on(), where a bad_alloc reaches the caller.
void task_group::state::start(const asio::any_io_executor& on, asio::awaitable<void> work, children one) {
    if (stopping) {
        finish(nullptr);
        return;
    }
    const auto at = one.begin();
    at->in = &running;
    running.splice(running.end(), one);
    try {
        auto done = [self = shared_from_this(), on, at](std::exception_ptr e) mutable {
            if (on == self->executor) {
                self->take_off(at);
                self->finish(std::move(e));
                return;
            }
            const auto home = self->executor;
            asio::post(home, [self = std::move(self), at, e = std::move(e)]() mutable {
                self->take_off(at);
                self->finish(std::move(e));
            });
        };
        auto token = asio::bind_cancellation_slot(at->signal->slot(), asio::bind_executor(on, std::move(done)));
        asio::co_spawn(on, run(std::move(work)), std::move(token));
    } catch (...) { // no memory: it never began
        take_off(at);
        finish(std::current_exception());
    }
}

void task_group::state::finish(std::exception_ptr e) noexcept {
    --count;
    if (e && !(stopping && detail::is_cancellation(e))) {
        if (const auto called = on_error) { // the handler may set another
            try {
                (*called)(std::move(e));
            } catch (...) {
                if (!first) first = std::current_exception();
            }
        } else if (!first) {
            first = std::move(e);
        }
    }
    if (count == 0) empty.cancel();
}

task_group::task_group(asio::any_io_executor executor) : state_(std::make_shared<state>(std::move(executor))) {}

task_group::~task_group() {
    // First drop the handler: children may end during stop(), and what the handler refers to may be gone already.
    const auto called = std::exchange(state_->on_error, nullptr);
    stop();
}

void task_group::on_error(std::function<void(std::exception_ptr)> handler) {
    state_->on_error = handler ? std::make_shared<const state::handler>(std::move(handler)) : nullptr;
}

void task_group::spawn(asio::awaitable<void> child) {
    spawn_on(state_->executor, std::move(child));
}

void task_group::spawn_on(asio::any_io_executor executor, asio::awaitable<void> child) {
    if (state_->stopping) return;
    state::children one;
    one.push_back({std::make_shared<asio::cancellation_signal>(), &one});
    ++state_->count;
    // The signals belong to the group's executor, so the child is started from there.
    const auto home = state_->executor;
    try {
        asio::post(home, [s = state_, on = std::move(executor), child = std::move(child),
                          one = std::move(one)]() mutable { s->start(on, std::move(child), std::move(one)); });
    } catch (...) {
        state_->finish(nullptr);
        throw;
    }
}

void task_group::stop() {
    if (std::exchange(state_->stopping, true)) return;
    // Emitting may end children, which takes them off their list. Nothing is allocated: the destructor calls this.
    const auto s = state_;
    while (!s->running.empty()) {
        s->told.splice(s->told.end(), s->running, s->running.begin());
        s->told.back().in = &s->told;
        const auto signal = s->told.back().signal;
        signal->emit(asio::cancellation_type::terminal);
    }
}

bool task_group::stopped() const noexcept {
    return state_->stopping;
}

std::size_t task_group::size() const noexcept {
    return state_->count;
}

asio::awaitable<void> task_group::state::join(std::shared_ptr<state> s) {
    while (s->count != 0) {
        const auto [ec] = co_await s->empty.async_wait(asio::as_tuple(asio::use_awaitable));
        static_cast<void>(ec); // woken by the last child, or by a cancellation that does not concern us
    }
    if (s->first) std::rethrow_exception(std::exchange(s->first, nullptr));
}

asio::awaitable<void> task_group::join() {
    return detail::quietly(state::join(state_)); // the group may be destroyed during the wait
}

} // namespace informer
