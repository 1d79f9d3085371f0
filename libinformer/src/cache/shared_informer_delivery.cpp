// How published changes get to the subscribers, at the end of a batch or in a resync, and the figures of that.
#include "shared_informer_impl.hpp"

#include <boost/asio/recycling_allocator.hpp>
#include <boost/asio/this_coro.hpp>

#include <algorithm>
#include <span>
#include <utility>

namespace informer {

/// Waits while a subscriber under back-pressure is full. It may never read again, so what there is to report is
/// reported first. False when cancelled.
asio::awaitable<bool> shared_informer::impl::wait_for_room(self s, subscriber of) {
    s->note_held_up_by(detail::name_of(of->options()));
    if (!std::exchange(s->consumer_held_up, true)) s->refresh_figures();
    bool go_on = true;
    while (go_on && of->over() && !of->closed() && !s->stopping) {
        s->handlers_are_due(); // the subscriber may be a handler's
        s->applying.end();
        co_await of->room();
        s->applying.begin();
        const auto asked = co_await asio::this_coro::cancellation_state;
        go_on = asked.cancelled() == asio::cancellation_type::none;
    }
    s->note_held_up_by({});
    co_return go_on;
}

/// Those that have no room for all of the events are added to `behind`.
void shared_informer::impl::hand_out(const subscription::state::shared_events& events, std::span<const subscriber> to,
                                     detail::wake_list& to_wake, std::vector<subscriber>& behind) {
    for (const subscriber& one : to)
        if (!one->push_all(events, to_wake)) behind.push_back(one);
}

/// Delivers in stream order to the first `to` subscribers: those that existed when the state that the events lead to
/// was published. Others may be added behind them meanwhile; none of the first is removed before the next listeners().
asio::awaitable<void> shared_informer::impl::deliver(self s, detail::event_shares events, std::size_t to) {
    std::size_t steps = 0;
    detail::wake_list to_wake; // empty whenever this coroutine waits
    for (std::size_t share = 0; share < events.shares(); ++share) {
        std::vector<event> one_share = events.take_share(share);
        s->count_events(one_share);
        if (to == 0) { // nobody to deliver to: the events are freed here
            one_share.clear();
            co_await breathe(s);
            if (s->stopping) co_return;
            continue;
        }
        const subscription::state::shared_events some =
            std::allocate_shared<std::vector<event>>(asio::recycling_allocator<void>(), std::move(one_share));
        std::vector<subscriber> behind; // no room for all events: pushed to them one by one, which may merge or wait
        for (std::size_t i = 0; i < to;) {
            const std::size_t n = std::min(to - i, 32 - steps % 32);
            hand_out(some, std::span(s->subscribers).subspan(i, n), to_wake, behind);
            i += n;
            steps += n;
            if (steps % 32 != 0) break;
            to_wake.wake_all();
            co_await breathe(s);
            if (s->stopping) co_return;
        }
        to_wake.wake_all();
        s->handlers_owed = true;
        if (behind.empty()) continue;
        for (const event& e : *some) {
            for (const subscriber& one : behind) {
                if (one->over()) {
                    const bool go_on = co_await wait_for_room(s, one);
                    if (!go_on) co_return;
                }
                if (s->stopping) co_return;
                one->push(e);
                if (++steps % 32 == 0) co_await breathe(s);
            }
        }
        s->handlers_owed = true;
    }
}

/// A resync: delivers everything again to one subscriber, between two batches, so that the order is kept. The caller
/// sees to it that handlers are called.
asio::awaitable<void> shared_informer::impl::repeat(self s, subscriber to) {
    detail::object_cursor all(s->store->index.snapshot(), to->options().name_space_);
    std::size_t steps = 0;
    while (const object* o = all.next()) {
        if (!to->wants(*o)) continue;
        if (to->over()) {
            const bool go_on = co_await wait_for_room(s, to);
            if (!go_on) co_return;
        }
        if (to->closed() || s->stopping) co_return;
        to->push(event(event_kind::updated, *o, *o, event_reason::resync));
        if (++steps % 32 == 0) co_await breathe(s);
    }
}

void shared_informer::impl::observe_lag(clock::time_point oldest) const {
    auto* m = rt.metrics();
    if (m == nullptr || oldest == clock::time_point()) return;
    const std::chrono::duration<double> lag = rt.clock().now() - oldest;
    m->observe("informer_lag_seconds", lag.count(), {{"resource", name}});
}

void shared_informer::impl::count_events(const std::vector<event>& share) const {
    if (!rt.metrics()) return;
    for (const auto kind : {event_kind::added, event_kind::updated, event_kind::deleted}) {
        const auto n = std::count_if(share.begin(), share.end(), [kind](const event& e) { return e.kind == kind; });
        if (n != 0) count("informer_events_total", static_cast<double>(n), "type", to_string(kind));
    }
}

/// Removes closed subscribers; those before `first` keep their places.
void shared_informer::impl::let_go_closed(std::size_t first) {
    const auto gone = [](const subscriber& one) { return one->closed(); };
    subscribers.erase(std::remove_if(subscribers.begin() + static_cast<std::ptrdiff_t>(first), subscribers.end(), gone),
                      subscribers.end());
    std::erase_if(waiting, gone);
}

std::size_t shared_informer::impl::listeners() {
    let_go_closed(0);
    return delivered_to = subscribers.size();
}

/// A delivery may wait for one subscriber for ever while others come and go. Those that the delivery counts stay.
void shared_informer::impl::let_go_newcomers() {
    if (subscribers.size() + waiting.size() < many_subscribers) return;
    let_go_closed(std::min(delivered_to, subscribers.size()));
    many_subscribers = 2 * (subscribers.size() + waiting.size()) + 64;
}

} // namespace informer
