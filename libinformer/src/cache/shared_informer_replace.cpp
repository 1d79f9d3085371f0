// How a whole new state, from a list or a watch-list, replaces the cache.
#include "shared_informer_impl.hpp"

#include <informer/detail/counted.hpp>

#include <set>
#include <utility>

namespace informer {

/// For a list without a version: it is as new as its newest object.
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

/// Quarantines and reports each object of the list that cannot be used.
asio::awaitable<void> shared_informer::impl::quarantine_all(self s, std::shared_ptr<detail::replacement> all) {
    const std::vector<detail::replacement::story> stories = all->stories();
    const auto before = std::exchange(s->bad, {});
    s->bad_unnamed.clear();
    const std::size_t unnamed_before = std::exchange(s->bad_unnamed_count, 0);
    std::size_t told = 0, news = 0;
    for (const detail::replacement::story& b : stories) {
        if ((told + 1) % 32 == 0) co_await breathe(s);
        if (s->stopping) co_return;
        // Nameless objects cannot be told apart: those beyond the previous number are news.
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
    s->bad_unnamed_count = all->unnamed; // also those that are not reported one by one
}

/// Removes the objects that the list lacks, except those that it contains, or may contain, in a form that cannot be
/// read; returns how many it only may contain. Cache and list are walked in the same order, that of the hashes: what
/// did not change is found where the walk is anyway, and nothing of the object itself is read.
// lint: law2 the caller keeps them
asio::awaitable<std::size_t> shared_informer::impl::drop_absent(self s, std::shared_ptr<detail::replacement> all,
                                                                detail::event_shares& events) {
    auto& index = s->store->index;
    const detail::object_map& listed = all->objects();
    std::set<object_key> of_old_epoch;
    std::size_t steps = 0, unproven = 0;
    detail::object_map::cursor old(index.snapshot().contents()->objects);
    while (const object* o = old.next()) {
        if (++steps % 32 == 0) co_await breathe(s);
        if (s->stopping) co_return unproven;
        if (listed.find(*o, old.hash())) continue;
        const object_key key = o->key();
        if (!all->proves_absence(key) && !all->replaces(key, *o)) {
            if (!all->bad_keys.contains(key)) ++unproven;
            if (all->epoch != s->epoch || s->is_of_old_epoch(key)) of_old_epoch.insert(key);
            continue;
        }
        const object last = index.erase(key);
        events.push_end_of(last, last.resource_version(), event_reason::relist);
    }
    s->of_old_epoch = std::move(of_old_epoch);
    co_return unproven;
}

/// The list becomes the content of the empty cache: without events, as no subscriber knows a state yet, and without a
/// second map.
asio::awaitable<void> shared_informer::impl::take_first(self s, std::shared_ptr<detail::replacement> all) {
    auto& index = s->store->index;
    const auto collected = std::make_shared<cache_snapshot::data>();
    collected->objects = all->objects();
    index.begin_fill(cache_snapshot(collected), all->draft());
    while (!s->stopping && !index.fill_step(32)) co_await breathe(s);
}

/// Puts in what is new or changed.
// lint: law2 the caller keeps them
asio::awaitable<void> shared_informer::impl::take_listed(self s, std::shared_ptr<detail::replacement> all,
                                                         detail::event_shares& events) {
    auto& index = s->store->index;
    const bool first = !s->store->has_synced();
    std::size_t steps = 0;
    detail::object_map::cursor fresh(all->objects());
    while (const object* o = fresh.next()) {
        if (++steps % 32 == 0) co_await breathe(s);
        if (s->stopping) co_return;
        const indexer::place there = index.find_current(*o, fresh.hash());
        if (there.before.same_as(*o)) continue;
        object ours = *o;
        if (s->is_away(ours)) {
            co_await bring_home(s, ours);
            if (s->stopping) co_return;
        }
        if (first)
            index.put(std::move(ours), there);
        else
            s->upsert(ours, there, ours.resource_version(), event_reason::relist, false, events);
    }
}

/// Subscribers that waited for the first state start from what was just published, as do those that come from now on.
void shared_informer::impl::welcome(const informer::resource_version& version,
                                    const std::shared_ptr<const detail::arrivals>& order) {
    subscribers.reserve(subscribers.size() + waiting.size());
    // whatever throws, each is in one of the lists: otherwise it would not be notified of the end
    for (const subscriber& one : waiting) {
        one->start(store->index.snapshot(), version, order);
        subscribers.push_back(one);
    }
    waiting.clear();
    store->synced.store(true, std::memory_order_release);
}

void shared_informer::impl::tell_replaced(const replaced& what) {
    {
        const std::lock_guard lock(mutex);
        if (what.first) {
            figures.synced = true;
        } else {
            ++figures.relists;
        }
        figures.epoch = epoch;
        figures.unproven = what.unproven;
        if (machine.attempts() == 0) forget_error(); // else it is the error of a watch that fails
    }
    tell_absence(what.unproven == 0);
    refresh_figures();
    news();
    if (what.unproven != 0 && rt.logs(log_level::warning)) {
        rt.log(log_level::warning, name +
                                       ": kept until another list tells: " + detail::counted(what.unproven, "object") +
                                       " not in the list, which has some that cannot be read");
    }
    const auto level = what.routine && !what.first ? log_level::debug : log_level::info;
    if (rt.logs(level)) {
        const std::string how = what.new_epoch ? ": the server went back in time; replaced, "
                                : what.first   ? ": synced, "
                                               : ": relisted, ";
        const std::string at = what.version.empty() ? std::string() : " at version " + what.version.str();
        rt.log(level, name + how + detail::counted(what.objects, "object") + at);
    }
    const bool turned = note_phase(); // now the phase is what the reflector says
    if (!turned) tell_state();
    if (!what.first) count("informer_relists_total", 1);
}

/// The new state takes the place of the old one in one step for every reader.
asio::awaitable<void> shared_informer::impl::replace(self s, std::shared_ptr<detail::replacement> all) {
    auto& index = s->store->index;
    replaced what{};
    what.first = !s->store->has_synced();
    what.routine = all->routine;
    what.new_epoch = all->epoch != s->epoch;
    what.objects = all->objects().size();
    detail::event_shares events;
    std::shared_ptr<const detail::arrivals> order;
    if (!what.first) {
        what.unproven = co_await drop_absent(s, all, events);
        if (s->stopping) co_return;
    }
    if (what.first && !s->home && index.current_size() == 0) {
        order = all->order();
        co_await take_first(s, all);
    } else {
        co_await take_listed(s, all, events);
    }
    if (s->stopping) co_return;
    what.version = all->version;
    if (what.version.empty()) what.version = co_await newest_version(s, all);
    if (s->stopping) co_return;
    co_await quarantine_all(s, all);
    if (s->stopping) co_return;

    s->epoch = all->epoch;
    // If lists have no versions, the cache's version follows the objects, also downwards: the newest object may be the
    // one that was deleted.
    const bool unversioned = all->version.empty();
    if (what.new_epoch || unversioned || s->unversioned) {
        index.force_resource_version(what.version);
    } else {
        index.set_resource_version(what.version);
    }
    detail::past_state old(index.snapshot());
    index.publish();
    s->unversioned = unversioned;
    old.add(std::move(all->objects()));
    all.reset();

    const std::size_t to = s->listeners(); // those that came before get the difference
    s->welcome(what.version, order);
    s->tell_replaced(what);
    co_await deliver(s, std::move(events), to);
    if (s->stopping) co_return; // not all events were delivered: no subscriber is at this version
    for (std::size_t i = 0; i < to; ++i) s->subscribers[i]->relisted(what.version);
    s->handlers_owed = true;
    co_await free_slowly(s, old);
}

} // namespace informer
