// The consumer: applies deltas to the cache and publishes; shared_informer_delivery.cpp then tells the subscribers.
#include "shared_informer_impl.hpp"

#include <boost/asio/post.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <algorithm>
#include <utility>

namespace informer {

namespace {

constexpr std::size_t batch_size = 1000;      // RealFIFO's
constexpr std::size_t collect_budget = 4'000; // nodes a slice
constexpr auto between_compactions = std::chrono::minutes(1);
constexpr auto between_tidyings = std::chrono::seconds(30); // where nothing comes

/// One of the same name, but not the same one.
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
    for (;;) {
        const auto asked = co_await asio::this_coro::cancellation_state;
        if (asked.cancelled() != asio::cancellation_type::none || s->stopping) co_return;
        std::vector<delta> batch = co_await s->live->queue.pop(batch_size);
        if (batch.empty()) co_return;
        s->batch_under_way = true;
        const clock::time_point oldest = batch.front().received;
        s->applying.begin();
        s->count_deltas(batch);
        std::vector<event> events;
        events.reserve(batch.size());
        std::size_t i = 0;
        while (i < batch.size()) {
            delta d = std::move(batch[i++]);
            const bool alone = d.what == delta::kind::replace || d.what == delta::kind::resync;
            if (d.what == delta::kind::upsert && s->is_away(d.current)) {
                object moved = co_await bring_home(s, d.current);
                if (s->stopping) co_return;
                if (moved) d.current = std::move(moved);
            }
            if (!alone) s->apply(d, events);
            if (i % 32 == 0) co_await breathe(s);
            if (!alone && i < batch.size()) continue;
            // Everything before a replacement must be seen before it.
            s->store->index.publish();
            s->news();
            const std::size_t to = s->listeners(); // also where there is nothing to tell: who has left is let go
            if (!events.empty()) {
                std::vector<event> now = std::move(events);
                events = std::vector<event>();
                co_await deliver(s, std::move(now), to);
                if (s->stopping) co_return;
            }
            if (d.what == delta::kind::replace) co_await replace(s, std::move(d.all));
            if (d.what == delta::kind::resync) {
                // One, and not all that are due: meanwhile others become so, and a slow one again; the stream has its turn.
                if (!s->resync_due.empty()) {
                    subscriber of = s->resync_due.front().lock();
                    s->resync_due.pop_front();
                    if (of && !of->closed()) co_await repeat(s, std::move(of));
                }
                s->handlers_owed = true; // also where nobody's was: those that were removed are let go
            }
            if (s->stopping) co_return;
        }
        batch.clear(); // before what died is collected
        s->observe_lag(oldest);
        co_await tidy(s);
        s->applying.end();
        s->consumer_held_up = s->batch_under_way = false;
        s->refresh_figures();
        s->call_owed_handlers();
        // What came meanwhile is the next turn's: batches of bookmarks, or handlers after each, would hold the executor for all of them.
        if (s->live->queue.size() != 0 && !s->stopping) co_await asio::post(s->rt.executor(), asio::use_awaitable);
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

void shared_informer::impl::apply(const delta& d, std::vector<event>& events) {
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
        if (!before) clear_quarantine(key); // it never was good
        // Nothing to tell of what nobody knows; and a resumed watch may repeat the end of a predecessor.
        if (!before || is_repetition(d.current.resource_version(), before.resource_version(), before)) break;
        // What is gone is one of whom nobody told us, and ours before it, whose end we missed.
        const bool another = is_another(d.current.meta(), before.meta());
        if (another) doubt_state();
        forget(key);
        event e(event_kind::deleted, another ? before : d.current, before, event_reason::watch);
        e.final_state_known = !another;
        e.version = e.current.resource_version();
        events.push_back(std::move(e));
        break;
    }
    case delta::kind::foreign: {
        index.set_resource_version(d.version);
        if (!bad.empty()) clear_quarantine(d.current.key(), d.version);
        const object before = index.find_current(d.current).before;
        if (!before || is_repetition(d.version, before.resource_version(), before)) break;
        if (!is_another(d.current.meta(), before.meta())) break;
        // Ours was deleted, and nobody told us.
        doubt_state();
        index.erase(before.key());
        of_old_epoch.erase(before.key());
        event e(event_kind::deleted, before, before, event_reason::watch);
        e.final_state_known = false;
        e.version = before.resource_version();
        events.push_back(std::move(e));
        break;
    }
    case delta::kind::bookmark: index.set_resource_version(d.version); break;
    case delta::kind::bad: {
        index.set_resource_version(d.version);
        const object before = d.bad->key.empty() ? object() : index.current(d.bad->key);
        if (before && is_repetition(d.version, before.resource_version(), before)) break;
        if (d.type == watch_event_type::deleted && before) {
            // Its last state cannot be read, but that it is gone can.
            forget(d.bad->key);
            event e(event_kind::deleted, before, before, event_reason::watch);
            e.final_state_known = false;
            e.version = d.version.empty() ? before.resource_version() : d.version;
            events.push_back(std::move(e));
        } else if (d.type == watch_event_type::deleted && !d.bad->key.empty()) {
            clear_quarantine(d.bad->key); // it never was good, if it was there at all
        } else {
            quarantine(*d.bad);
        }
        break;
    }
    case delta::kind::replace:
    case delta::kind::resync: break;
    }
}

/// Decoded before the last compaction, it comes to the cache after it, and would keep the whole old generation alive.
bool shared_informer::impl::is_away(const object& o) const {
    return home && o.value().generation() != home;
}

/// Moves it, in slices. Empty when the informer stops, or where there is no room: what was not moved keeps its old generation
/// alive, no more.
asio::awaitable<object> shared_informer::impl::bring_home(self s, object o) {
    const auto steps = s->pool->begin_move(o);
    while (!steps->step()) {
        co_await breathe(s);
        if (s->stopping) co_return object();
    }
    failure f;
    object moved = steps->finish(f);
    if (f) co_return object();
    co_return moved;
}

/// Puts an object and says what that means; the cache's content decides, not the type of the watch event (C3).
/// `version`: the object's. `guarded`: an older one than the cached one is a repetition and is dropped.
void shared_informer::impl::upsert(const object& o, const indexer::place& there, const informer::resource_version& version,
                                   event_reason why, bool guarded, std::vector<event>& events) {
    auto& index = store->index;
    const object& before = there.before;
    if (!bad.empty() || bad_unnamed_count != 0) clear_quarantine(o.key(), version);
    if (!before) {
        index.put(o, there);
        event e(event_kind::added, o, object(), why);
        e.version = version;
        events.push_back(std::move(e));
        return;
    }
    if (before.same_as(o)) return;
    const object_meta old = before.meta();
    const informer::resource_version known = old.resource_version();
    if (known.view() == version.view() && before == o) return; // else they differ in this at least
    if (guarded && is_repetition(version, known, before)) return;
    if (!of_old_epoch.empty()) of_old_epoch.erase(before.key());
    index.put(o, there);
    if (is_another(o.meta(), old)) {
        // Another object under the same name: its predecessor was deleted, and nobody told us.
        if (why == event_reason::watch) doubt_state();
        event gone(event_kind::deleted, before, before, why);
        gone.final_state_known = false;
        gone.version = before.resource_version();
        events.push_back(std::move(gone));
        event e(event_kind::added, o, object(), why);
        e.version = version;
        events.push_back(std::move(e));
        return;
    }
    event e(event_kind::updated, o, before, why);
    e.version = version;
    events.push_back(std::move(e));
}

/// Where the list has none: it is as new as the newest of its objects.
asio::awaitable<informer::resource_version>
shared_informer::impl::newest_version(self s, std::shared_ptr<detail::replacement> all) {
    informer::resource_version newest;
    std::size_t steps = 0;
    detail::object_map::cursor each(all->objects());
    while (const object* o = each.next()) {
        if (++steps % 32 == 0) co_await breathe(s);
        if (s->stopping) break;
        informer::resource_version theirs = o->resource_version();
        if (theirs.comparable() && !(theirs <= newest)) newest = std::move(theirs);
    }
    co_return newest;
}

/// What of the list cannot be used, each told of.
asio::awaitable<void> shared_informer::impl::quarantine_all(self s, std::shared_ptr<detail::replacement> all) {
    const std::vector<detail::replacement::story> stories = all->stories();
    const auto before = std::exchange(s->bad, {});
    s->bad_unnamed.clear();
    const std::size_t unnamed_before = std::exchange(s->bad_unnamed_count, 0);
    std::size_t told = 0, news = 0;
    for (const detail::replacement::story& b : stories) {
        if ((told + 1) % 32 == 0) co_await breathe(s);
        if (s->stopping) co_return;
        // Nobody knows which the nameless are: more of them than there were are news.
        const bool is_new = told < all->bad_unnamed.size() ? told >= unnamed_before : !before.contains(b->key);
        s->quarantine(*b, is_new && news < detail::most_bad_told);
        news += is_new;
        ++told;
    }
    const std::size_t bad = all->bad_keys.size() + all->unnamed;
    if (bad > told) s->count("informer_bad_objects_total", static_cast<double>(bad - told));
    if (news > detail::most_bad_told && s->rt.logs(log_level::warning))
        s->rt.log(log_level::warning,
                  s->name + ": " + std::to_string(bad) + " objects of the list cannot be used in all");
    s->bad_unnamed_count = all->unnamed; // also those that nobody can be told of
}

/// The old state goes and the new one comes in one step for every reader.
asio::awaitable<void> shared_informer::impl::replace(self s, std::shared_ptr<detail::replacement> all) {
    auto& index = s->store->index;
    const bool first = !s->store->has_synced();
    std::vector<event> events;
    std::size_t steps = 0, unproven = 0;
    std::shared_ptr<const detail::arrivals> order;

    // Both are walked in the order of the same hashes: what did not change is found where the walk is anyway, and of the object
    // itself nothing is read.
    const detail::object_map& listed = all->objects();
    const bool new_epoch = all->epoch != s->epoch;
    if (!first) {
        std::set<object_key> of_old_epoch;
        detail::object_map::cursor old(index.snapshot().contents()->objects);
        while (const object* o = old.next()) {
            if (++steps % 32 == 0) co_await breathe(s);
            if (s->stopping) co_return;
            if (listed.find(*o, old.hash())) continue;
            const object_key key = o->key();
            if (!all->proves_absence(key)) { // it is there, or may be, but cannot be read
                if (!all->bad_keys.contains(key)) ++unproven;
                if (new_epoch || s->is_of_old_epoch(key)) of_old_epoch.insert(key);
                continue;
            }
            const object last = index.erase(key);
            event e(event_kind::deleted, last, last, event_reason::relist);
            e.final_state_known = false;
            e.version = last.resource_version();
            events.push_back(std::move(e));
        }
        s->of_old_epoch = std::move(of_old_epoch);
    }
    if (first && !s->home && index.current_size() == 0) {
        // Nobody has been told anything yet: no events to make, and no second map.
        const auto collected = std::make_shared<cache_snapshot::data>();
        collected->objects = listed;
        index.begin_fill(cache_snapshot(collected), all->draft());
        order = all->order();
        while (!index.fill_step(32)) {
            co_await breathe(s);
            if (s->stopping) co_return;
        }
    } else {
        detail::object_map::cursor fresh(listed);
        while (const object* o = fresh.next()) {
            if (++steps % 32 == 0) co_await breathe(s);
            if (s->stopping) co_return;
            const indexer::place there = index.find_current(*o, fresh.hash());
            if (there.before.same_as(*o)) continue;
            object ours = *o;
            if (s->is_away(ours)) {
                object moved = co_await bring_home(s, ours);
                if (s->stopping) co_return;
                if (moved) ours = std::move(moved);
            }
            if (first)
                index.put(std::move(ours), there);
            else
                s->upsert(ours, there, ours.resource_version(), event_reason::relist, false, events);
        }
    }
    informer::resource_version version = all->version;
    if (version.empty()) version = co_await newest_version(s, all);
    if (s->stopping) co_return;
    co_await quarantine_all(s, all);
    if (s->stopping) co_return;

    s->epoch = all->epoch;
    // Without versions of lists it goes with the objects, also down: the newest may be the one that went.
    const bool unversioned = all->version.empty();
    if (new_epoch || unversioned || s->unversioned) {
        index.force_resource_version(version);
    } else {
        index.set_resource_version(version);
    }
    index.publish();
    s->unversioned = unversioned;
    const bool routine = all->routine && !first;
    const std::size_t objects = listed.size();
    all.reset();

    // Who comes from now on starts from what was just published; who came before gets the difference.
    const std::size_t to = s->listeners();
    std::vector<subscriber> beginners = std::move(s->waiting);
    s->waiting.clear();
    for (const subscriber& one : beginners) {
        one->start(index.snapshot(), version, order);
        s->subscribers.push_back(one);
    }
    s->store->synced.store(true, std::memory_order_release);
    {
        const std::lock_guard lock(s->mutex);
        if (first) {
            s->figures.synced = true;
        } else {
            ++s->figures.relists;
        }
        s->figures.epoch = s->epoch;
        s->figures.unproven = unproven;
        if (s->machine.attempts() == 0) { // else it is the watch that fails
            s->figures.last_error = failure();
            s->figures.last_error_phase.clear();
        }
    }
    s->tell_absence(unproven == 0);
    s->refresh_figures();
    s->news();
    if (unproven != 0 && s->rt.logs(log_level::warning)) {
        s->rt.log(log_level::warning, s->name + ": " + std::to_string(unproven) +
                                          " objects are not in the list, which has some that cannot be read: they stay until "
                                          "another list tells");
    }
    const auto level = routine ? log_level::debug : log_level::info;
    if (s->rt.logs(level)) {
        const std::string what = new_epoch ? ": the server went back in time; replaced, "
                                 : first   ? ": synced, "
                                           : ": relisted, ";
        const std::string at = version.empty() ? " objects" : " objects at version " + version.str();
        s->rt.log(level, s->name + what + std::to_string(objects) + at);
    }
    const bool turned = s->note_phase(); // now it is what the reflector says
    if (!turned) s->tell_state();
    if (!first) s->count("informer_relists_total", 1);

    co_await deliver(s, std::move(events), to);
    if (s->stopping) co_return; // not all of them were told: nobody is at this version
    for (std::size_t i = 0; i < to; ++i) s->subscribers[i]->relisted(version);
    s->handlers_owed = true;
}

/// Frees what died, and now and then moves what lives together.
asio::awaitable<void> shared_informer::impl::tidy(self s) {
    for (bool moved = false;; moved = true) {
        for (;;) {
            const bool clean = s->pool->collect(collect_budget);
            if (clean || s->stopping) break;
            co_await breathe(s);
        }
        // Not while a new state is collected: its objects would keep the old generation alive.
        if (moved || !s->pool->wants_compaction() || s->collecting() || s->stopping) co_return;
        const auto now = s->now();
        if (s->last_compaction != clock::time_point::min() && now - s->last_compaction < between_compactions) co_return;
        // What others surely have: old versions, mostly on their way to listeners, and what waits in the queue.
        const std::uint64_t objects = s->pool->statistics().objects, ours = s->store->index.current_size();
        const std::uint64_t kept = objects - std::min(objects, ours) + s->live->queue.size();
        if (!s->pool->wants_compaction(kept)) co_return;
        s->last_compaction = now;
        const bool pays = co_await compaction_pays(s, kept);
        if (!pays || s->stopping) co_return;
        co_await compact(s);
    }
}

/// Whether others leave enough to be freed: those who keep the last state of each object would keep all that was moved.
asio::awaitable<bool> shared_informer::impl::compaction_pays(self s, std::uint64_t kept) {
    detail::object_cursor all(s->store->index.snapshot());
    std::size_t steps = 0;
    while (const object* o = all.next()) {
        if (s->store->index.is_kept_elsewhere(*o)) ++kept;
        if (++steps % 32 != 0) continue;
        if (!s->pool->wants_compaction(kept)) co_return false;
        co_await breathe(s);
        if (s->stopping) co_return false;
    }
    co_return s->pool->wants_compaction(kept);
}

/// What readers drop is freed behind the next batch. Where none comes for long, an empty one is sent through the queue: then
/// there is still only one that tidies.
asio::awaitable<void> shared_informer::impl::keep_tidy(self s) {
    co_await asio::this_coro::throw_if_cancelled(false);
    for (;;) {
        const bool slept = co_await s->rt.clock().sleep_for(between_tidyings);
        if (!slept || s->stopping) co_return;
        if (s->live->queue.size() == 0) s->live->queue.push(delta(delta::kind::resync)); // of nobody
    }
}

asio::awaitable<void> shared_informer::impl::compact(self s) {
    auto& index = s->store->index;
    s->pool->begin_generation();
    {
        detail::object_cursor all(index.snapshot());
        std::size_t steps = 0;
        while (const object* o = all.next()) {
            object moved = co_await bring_home(s, *o);
            if (s->stopping) co_return;
            if (!moved) break;
            s->home = moved.value().generation();
            index.put(std::move(moved), index.find_current(*o, all.hash()));
            if (++steps % 8 == 0) co_await breathe(s);
            if (s->stopping) co_return;
        }
    }
    index.publish();
    s->news();
}

void shared_informer::impl::quarantine(const bad_object& b, bool logged) {
    count("informer_bad_objects_total", 1);
    const bool nameless = b.key.empty() || (bad.size() >= detail::most_bad_keys && !bad.contains(b.key));
    // What has no name may be one object again and again, once a second.
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
    clear_quarantine(key);
}

void shared_informer::impl::clear_quarantine(const object_key& key) {
    bad.erase(key);
}

void shared_informer::impl::clear_quarantine(const object_key& key, const informer::resource_version& by) {
    const auto there = bad.find(key);
    if (there != bad.end() && !(by < there->second.resource_version)) bad.erase(there);
}

} // namespace informer
