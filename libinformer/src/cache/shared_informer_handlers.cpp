// The listeners: subscriptions, their resyncs, and event handlers on top of them.
#include "root/while_it_lasts.hpp"
#include "shared_informer_impl.hpp"

#include <boost/asio/post.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/core/demangle.hpp>

#include <algorithm>
#include <iterator>
#include <typeinfo>
#include <utility>
#include <vector>

namespace informer {

namespace {

constexpr std::size_t most_logged_kinds = 16;            // of exceptions, for each handler
constexpr std::size_t calls_at_once = 16;                // between two looks at the clock
constexpr auto longest_sleep = std::chrono::seconds(30); // until a resync: its subscriber may close long before

} // namespace

shared_informer::impl::subscriber shared_informer::impl::add_subscriber(subscription_options o) {
    const bool resyncs = o.resync_ > std::chrono::seconds::zero();
    let_go_newcomers();
    auto one = std::make_shared<subscription::state>(std::move(o), store->index.seed());
    if (stopping) {
        one->end(why_ended());
        return one;
    }
    try {
        if (store->has_synced()) {
            // What is published but not delivered yet is in this snapshot; its events go only to those that subscribed
            // before.
            const cache_snapshot now_there = store->index.snapshot();
            one->start(now_there, now_there.resource_version());
            subscribers.push_back(one);
        } else {
            waiting.push_back(one);
        }
        if (resyncs) {
            resyncs_waiting.push_back(one);
            start_waiting_children();
        }
    } catch (...) { // nobody has it: open, it might hold up the informer for ever
        std::erase(resyncs_waiting, one);
        one->close(subscription::pending_events::discard);
        throw;
    }
    return one;
}

/// Those that it cannot start for lack of memory go on waiting.
void shared_informer::impl::start_waiting_children() {
    if (!live || !live->going) return;
    const auto self_here = shared_from_this();
    live->handlers.insert(live->handlers.end(), handlers_waiting.begin(), handlers_waiting.end());
    handlers_waiting.clear();
    if (!live->handlers.empty() && !live->calling) {
        live->tasks.spawn(call_handlers(self_here));
        live->calling = true;
    }
    handlers_are_due();
    while (!resyncs_waiting.empty()) {
        live->tasks.spawn(keep_resyncing(self_here, resyncs_waiting.back()));
        resyncs_waiting.pop_back();
    }
}

asio::awaitable<void> shared_informer::impl::keep_resyncing(self s, subscriber of) {
    co_await asio::this_coro::throw_if_cancelled(false);
    const auto period = of->options().resync_;
    for (clock::time_point due = detail::later(s->now(), period);;) {
        const bool slept = co_await s->rt.clock().sleep_until(std::min(due, s->now() + longest_sleep));
        if (!slept || s->stopping || of->closed()) co_return;
        if (s->now() < due) continue;
        due = detail::later(s->now(), period);
        if (!s->store->has_synced()) continue;
        const bool waits = std::any_of(s->resync_due.begin(), s->resync_due.end(),
                                       [&of](const auto& weak) { return weak.lock() == of; });
        if (waits) continue; // the last one has not been served yet
        s->resync_due.push_back(of);
        s->live->queue.push(delta(delta::kind::resync));
    }
}

void shared_informer::impl::handlers_are_due() {
    handlers_owed = false;
    if (live && live->calling) live->handlers_due.notify();
}

/// All handlers are called by one coroutine, or by the consumer at the end of its turn: they run on the informer's
/// executor anyway, and so a batch of events costs one wake-up or none, however many handlers there are.
asio::awaitable<void> shared_informer::impl::call_handlers(self s) {
    co_await asio::this_coro::throw_if_cancelled(false);
    for (;;) {
        const bool all = s->call_handlers_a_slice();
        if (s->stopping) co_return;
        if (all) {
            const bool due = co_await s->live->handlers_due.wait();
            if (!due) co_return;
        } else {
            co_await asio::post(s->rt.executor(), asio::use_awaitable);
        }
        if (s->stopping) co_return;
    }
}

/// Called by the consumer before it waits. What does not fit into a slice is left to the handlers' coroutine.
void shared_informer::impl::call_owed_handlers() {
    if (!std::exchange(handlers_owed, false) || !live->calling || stopping) return;
    const bool all = call_handlers_a_slice();
    if (!all && !stopping) live->handlers_due.notify();
}

/// Goes on where the last slice stopped. False: the slice is used up, or the informer stops, before all events were
/// delivered.
bool shared_informer::impl::call_handlers_a_slice() {
    machinery& m = *live;
    machinery::round& r = m.calls;
    if (r.under_way) { // a handler runs the io_context itself
        r.more = true;
        return true;
    }
    const detail::while_it_lasts under_way(r.under_way);
    if (r.at) m.handlers[r.who]->in_hand.store(0, std::memory_order_relaxed);
    detail::slice_watch calling;
    std::size_t calls = 0;
    for (;;) {
        for (; r.who < m.handlers.size(); ++r.who) { // a handler may add others; only this function removes some
            handler_handle::state& h = *m.handlers[r.who];
            if (!r.at && !h.removed) {
                r.events = h.from->poll_portion();
                r.more = r.more || r.events.more;
                r.at = r.events.begin();
            }
            while (!h.removed && r.at != r.events.end()) {
                const event& e = *r.at++;
                if (e.kind == event_kind::synced) {
                    h.synced.store(true, std::memory_order_release);
                } else {
                    call(h, e);
                }
                if (++calls % calls_at_once != 0) continue;
                if (stopping) return false;
                calling
                    .begin(); // not before: mostly there are but few calls, and reading the clock costs as much as one
                if (calling.used_up()) {
                    h.in_hand.store(static_cast<std::size_t>(r.events.end() - r.at), std::memory_order_relaxed);
                    return false;
                }
            }
            r.at = nullptr;
            r.events = subscription::state::portion();
        }
        r.who = 0;
        let_go_removed();
        if (!std::exchange(r.more, false)) return true;
        if (stopping) return false;
    }
}

/// Releasing a handler may add others, so the list is brought in order first.
void shared_informer::impl::let_go_removed() {
    auto& all = live->handlers;
    // Not std::stable_partition: clang warns of what it calls in libstdc++ 12.
    auto those = std::find_if(all.begin(), all.end(), [](const auto& h) { return h->removed.load(); });
    for (auto h = those; h != all.end(); ++h)
        if (!(*h)->removed) std::swap(*those++, *h);
    const std::vector<std::shared_ptr<handler_handle::state>> gone(std::make_move_iterator(those),
                                                                   std::make_move_iterator(all.end()));
    all.erase(those, all.end());
    for (const auto& h : gone) h->let_go();
}

/// Contains what a handler threw (contract X10); called while the exception is being handled.
void shared_informer::impl::handler_threw(handler_handle::state& h, const event& e) {
    std::string kind;
    try {
        throw;
    } catch (const std::exception& x) {
        kind = boost::core::demangle(typeid(x).name()) + ": " + x.what();
    } catch (...) {
        kind = "not a std::exception";
    }
    h.exceptions.fetch_add(1, std::memory_order_relaxed);
    count("informer_handler_exceptions_total", 1);
    if (std::find(h.logged.begin(), h.logged.end(), kind) != h.logged.end()) return;
    if (h.logged.size() >= most_logged_kinds) return;
    std::string line = name + ": a handler threw at " + e.key().str() + ": " + kind;
    h.logged.push_back(std::move(kind));
    if (h.logged.size() == most_logged_kinds) line += "; other exceptions of this handler are only counted from now on";
    rt.log(log_level::error, line);
}

/// A state for which the filter throws does not pass, whenever the filter is asked: otherwise an object that the
/// handler knows might never be reported as deleted.
bool shared_informer::impl::passes(handler_handle::state& h, const event& e, const object& o) {
    try {
        return !h.of || h.of(o);
    } catch (...) {
        handler_threw(h, e);
        return false;
    }
}

/// `previous` is the state before in this listener's own sequence, so the filter's answer for it tells what the handler
/// knows.
void shared_informer::impl::call(handler_handle::state& h, const event& e) {
    const bool before = e.kind != event_kind::added && passes(h, e, e.previous ? e.previous : e.current);
    const bool now = e.kind != event_kind::deleted && passes(h, e, e.current);
    try {
        if (before && now) {
            if (h.on_update) h.on_update(e.previous, e.current);
        } else if (now) {
            if (h.on_add) h.on_add(e.current, e.initial);
        } else if (before && h.on_delete) {
            h.on_delete(e.kind == event_kind::deleted ? e.current : e.previous, e.final_state_known);
        }
    } catch (...) {
        handler_threw(h, e);
    }
}

shared_informer::handler_handle shared_informer::add_event_handler(add_function on_add, update_function on_update,
                                                                   delete_function on_delete,
                                                                   subscription_options options) {
    return add_event_handler(nullptr, std::move(on_add), std::move(on_update), std::move(on_delete),
                             std::move(options));
}

shared_informer::handler_handle shared_informer::add_event_handler(filter_function of, add_function on_add,
                                                                   update_function on_update, delete_function on_delete,
                                                                   subscription_options options) {
    options.sync_marks();
    auto h = std::make_shared<handler_handle::state>();
    h->from = impl_->add_subscriber(narrowed(std::move(options)));
    if (!impl_->stopping) { // else it is never called, and must not keep alive what it owns
        h->of = std::move(of);
        h->on_add = std::move(on_add);
        h->on_update = std::move(on_update);
        h->on_delete = std::move(on_delete);
        try {
            impl_->handlers_waiting.push_back(h);
            impl_->start_waiting_children();
        } catch (...) { // nobody could remove it
            std::erase(impl_->handlers_waiting, h);
            h->removed = true;
            h->let_go();
            throw;
        }
    }
    return handler_handle(h);
}

bool shared_informer::handler_handle::has_synced() const noexcept {
    return state_->synced.load(std::memory_order_acquire);
}

void shared_informer::handler_handle::remove() {
    state_->removed = true;
    state_->from->close(subscription::pending_events::discard);
}

std::uint64_t shared_informer::handler_handle::exceptions() const noexcept {
    return state_->exceptions.load(std::memory_order_relaxed);
}

subscription_figures shared_informer::handler_handle::figures() const {
    return state_->figures();
}

} // namespace informer
