// The consumer: applies deltas to the cache and publishes; shared_informer_delivery.cpp then delivers to the
// subscribers. The replacement of the whole state is in shared_informer_replace.cpp.
#include "shared_informer_impl.hpp"

#include <boost/asio/post.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <deque>
#include <optional>
#include <utility>

namespace informer {

namespace {

constexpr std::size_t batch_size = 1000; // RealFIFO's

/// Another object with the same name.
bool is_another(const object_meta& now, const object_meta& before) {
    const text was = before.uid(), is = now.uid();
    return !was.empty() && !is.empty() && was != is;
}

} // namespace

/// Gives the executor a turn when the slice is used up.
asio::awaitable<void> shared_informer::impl::breathe(self s) {
    if (s->applying.used_up()) {
        s->applying.end();
        if (s->handlers_owed) s->handlers_are_due();
        co_await asio::post(s->rt.executor(), asio::use_awaitable);
        s->applying.begin();
    }
}

asio::awaitable<void> shared_informer::impl::consume(self s) {
    co_await asio::this_coro::throw_if_cancelled(false);
    std::deque<delta> parts; // of one change; applied when all of them have arrived
    for (;;) {
        const auto asked = co_await asio::this_coro::cancellation_state;
        if (asked.cancelled() != asio::cancellation_type::none || s->stopping) co_return;
        std::vector<delta> batch = co_await s->live->queue.pop(batch_size);
        if (batch.empty()) co_return;
        s->batch_under_way = true;
        const clock::time_point oldest = parts.empty() ? batch.front().received : parts.front().received;
        s->applying.begin();
        s->count_deltas(batch);
        detail::event_shares events(batch.size());
        std::size_t i = 0;
        while (i < batch.size()) {
            delta d = std::move(batch[i++]);
            const bool alone = d.what == delta::kind::replace || d.what == delta::kind::resync;
            // the other parts of an earlier change never come
            if (d.part <= 1 && d.what != delta::kind::whole && d.what != delta::kind::resync) parts.clear();
            if (d.part != 0) {
                parts.push_back(std::move(d));
            } else if (d.what == delta::kind::whole) {
                co_await apply_all(s, parts, events);
                if (s->stopping) co_return;
            } else if (!alone) {
                if (s->is_away(d)) {
                    co_await bring_home(s, d.current);
                    if (s->stopping) co_return;
                }
                s->apply(d, events);
            }
            if (i % 32 == 0) co_await breathe(s);
            if (!alone && i < batch.size()) continue;
            // Everything before a replacement must be seen before it.
            co_await show(s, std::exchange(events, detail::event_shares()));
            if (s->stopping) co_return;
            if (d.what == delta::kind::replace) {
                co_await replace(s, std::move(d.all));
                if (--s->live->replacing == 0) s->live->replaced.notify();
            }
            if (d.what == delta::kind::resync) {
                subscriber of = s->take_resync_due();
                if (of) co_await repeat(s, std::move(of));
                s->handlers_owed = true; // even if none was due: handlers that were removed are released
            }
            if (s->stopping) co_return;
        }
        batch.clear(); // before tidy() collects what died
        if (parts.empty()) s->observe_lag(oldest);
        co_await tidy(s);
        s->applying.end();
        s->consumer_held_up = false;
        s->batch_under_way = !parts.empty();
        s->refresh_figures();
        s->call_owed_handlers();
        // What came meanwhile waits for the next turn: otherwise batches of bookmarks, or the handlers after each
        // batch, would hold the executor until the queue is empty.
        if (s->live->queue.size() != 0 && !s->stopping) co_await asio::post(s->rt.executor(), asio::use_awaitable);
    }
}

/// Publishes what was applied, and delivers its events.
asio::awaitable<void> shared_informer::impl::show(self s, detail::event_shares events) {
    std::optional<detail::past_state> old;
    if (events.size() > batch_size) old.emplace(s->store->index.snapshot());
    s->store->index.publish();
    s->news();
    const std::size_t to = s->listeners(); // also without events: it removes closed subscribers
    if (!events.empty()) co_await deliver(s, std::move(events), to);
    if (old && !s->stopping) co_await free_slowly(s, *old);
}

/// Only one of those that are due: meanwhile others become due, and a slow one again, but the stream must get its turn.
shared_informer::impl::subscriber shared_informer::impl::take_resync_due() {
    if (resync_due.empty()) return nullptr;
    subscriber of = resync_due.front().lock();
    resync_due.pop_front();
    return of && !of->closed() ? of : nullptr;
}

/// Applies the parts of a change, which are published together.
// lint: law2 the caller keeps them
asio::awaitable<void> shared_informer::impl::apply_all(self s, std::deque<delta>& parts, detail::event_shares& events) {
    for (std::size_t steps = 1; !parts.empty(); ++steps, parts.pop_front()) {
        delta& d = parts.front();
        if (s->is_away(d)) {
            co_await bring_home(s, d.current);
            if (s->stopping) co_return;
        }
        s->apply(d, events);
        if (steps % 32 != 0) continue;
        co_await breathe(s);
        if (s->stopping) co_return;
    }
}

void shared_informer::impl::count_deltas(const std::vector<delta>& batch) {
    const std::lock_guard lock(mutex);
    for (const delta& d : batch) {
        switch (d.what) {
        case delta::kind::upsert:
            ++(d.type == watch_event_type::added ? figures.events_added : figures.events_modified);
            break;
        case delta::kind::erase: ++figures.events_deleted; break;
        case delta::kind::bookmark: ++figures.bookmarks; break;
        default: break;
        }
    }
}

void shared_informer::impl::apply(const delta& d, detail::event_shares& events) {
    auto& index = store->index;
    switch (d.what) {
    case delta::kind::upsert:
        upsert(d.current, store->index.find_current(d.current), d.version, event_reason::watch, true, events);
        index.set_resource_version(d.version);
        break;
    case delta::kind::erase: {
        const object_key key = d.current.key();
        const object before = index.current(key);
        index.set_resource_version(d.current.resource_version());
        if (!before) clear_quarantine(key, d.current.resource_version()); // it never was usable
        // There is nothing to report about an unknown object; and a resumed watch may repeat the deletion of a
        // predecessor.
        if (!before || is_repetition(d.current.resource_version(), before.resource_version(), before)) break;
        // The deleted object was never reported to us, and ours was deleted before it, which we missed.
        const bool another = is_another(d.current.meta(), before.meta());
        if (another) doubt_state();
        forget(key);
        if (another)
            events.push_end_of(before, before.resource_version(), event_reason::watch);
        else
            events.push_back(event_kind::deleted, d.current, before, d.current.resource_version(), event_reason::watch);
        break;
    }
    case delta::kind::foreign: {
        index.set_resource_version(d.version);
        if (!bad.empty()) clear_quarantine(d.current.key(), d.version);
        const object before = index.find_current(d.current).before;
        if (!before || is_repetition(d.version, before.resource_version(), before)) break;
        if (!is_another(d.current.meta(), before.meta())) break;
        // Ours was deleted, and that was not reported.
        doubt_state();
        index.erase(before.key());
        of_old_epoch.erase(before.key());
        events.push_end_of(before, before.resource_version(), event_reason::watch);
        break;
    }
    case delta::kind::bookmark: index.set_resource_version(d.version); break;
    case delta::kind::bad: {
        index.set_resource_version(d.version);
        const object before = d.bad->key.empty() ? object() : index.current(d.bad->key);
        if (before && is_repetition(d.version, before.resource_version(), before)) break;
        // Ours was deleted, and that was not reported; or this is a repetition whose version cannot be read: a list
        // tells. With a version it is no repetition, as was asked above.
        const bool another = before && detail::is_another(*d.bad, before);
        if (another) doubt_state();
        if (d.type == watch_event_type::deleted && before && (!another || d.version.comparable())) {
            // Its last state cannot be read, but it is certain that it is gone.
            forget(d.bad->key);
            events.push_end_of(before, d.version.empty() ? before.resource_version() : d.version, event_reason::watch);
        } else if (d.type == watch_event_type::deleted && !d.bad->key.empty()) {
            clear_quarantine(d.bad->key, d.version); // it never was usable, if it existed at all
        } else {
            quarantine(*d.bad);
        }
        break;
    }
    case delta::kind::replace:
    case delta::kind::whole:
    case delta::kind::resync: break;
    }
}

/// Puts an object and adds the event for that; the cache's content decides which, not the type of the watch event (C3).
/// `version`: that of the object. `guarded`: an object older than the cached one is a repetition and is dropped.
void shared_informer::impl::upsert(const object& o, const indexer::place& there,
                                   const informer::resource_version& version, event_reason why, bool guarded,
                                   detail::event_shares& events) {
    auto& index = store->index;
    const object& before = there.before;
    if (!bad.empty()) clear_quarantine(o.key(), version);
    if (!before) {
        index.put(o, there);
        events.push_back(event_kind::added, o, object(), version, why);
        return;
    }
    if (before.same_as(o)) return;
    const object_meta old = before.meta();
    const informer::resource_version known = old.resource_version();
    if (known.view() == version.view() && before == o) return; // else they differ at least in the version
    if (guarded && is_repetition(version, known, before)) return;
    if (!of_old_epoch.empty()) of_old_epoch.erase(before.key());
    index.put(o, there);
    if (is_another(o.meta(), old)) {
        // Another object under the same name: its predecessor was deleted, and that was not reported.
        if (why == event_reason::watch) doubt_state();
        events.push_end_of(before, known, why);
        events.push_back(event_kind::added, o, object(), version, why);
        return;
    }
    events.push_back(event_kind::updated, o, before, version, why);
}

void shared_informer::impl::quarantine(const bad_object& b, bool logged) {
    count("informer_bad_objects_total", 1);
    const bool nameless = b.key.empty() || (bad.size() >= detail::most_bad_keys && !bad.contains(b.key));
    // Bad objects without a name may be one object again and again, once a second.
    const bool told_before = nameless ? bad_unnamed.size() >= detail::most_bad_told : bad.contains(b.key);
    if (logged && !told_before && rt.logs(log_level::warning)) {
        const std::string which = b.key.empty() ? "object " + std::to_string(b.position) : b.key.str();
        rt.log(log_level::warning, name + ": " + which + " cannot be used: " + b.why.what());
    }
    if (nameless) {
        ++bad_unnamed_count;
        if (bad_unnamed.size() < detail::most_bad_told) bad_unnamed.push_back(b);
    } else {
        bad.insert_or_assign(b.key, b);
    }
    tell_bad(b);
}

void shared_informer::impl::forget(const object_key& key) {
    store->index.erase(key);
    of_old_epoch.erase(key);
    bad.erase(key);
}

void shared_informer::impl::clear_quarantine(const object_key& key, const informer::resource_version& by) {
    const auto there = bad.find(key);
    if (there != bad.end() && !(by < there->second.resource_version)) bad.erase(there);
}

} // namespace informer
