// A whole new state, by a list or a watch-list.
#include "shared_informer_impl.hpp"

#include <set>
#include <utility>

namespace informer {

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
    detail::event_shares events;
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
                co_await bring_home(s, ours);
                if (s->stopping) co_return;
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
    detail::past_state old(index.snapshot());
    index.publish();
    s->unversioned = unversioned;
    const bool routine = all->routine && !first;
    const std::size_t objects = listed.size();
    old.add(std::move(all->objects()));
    all.reset();

    // Who comes from now on starts from what was just published; who came before gets the difference.
    const std::size_t to = s->listeners();
    s->subscribers.reserve(s->subscribers.size() + s->waiting.size());
    // each is in one of the lists, whatever throws: else nobody would tell it of the end
    for (const subscriber& one : s->waiting) {
        one->start(index.snapshot(), version, order);
        s->subscribers.push_back(one);
    }
    s->waiting.clear();
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
        if (s->machine.attempts() == 0) s->forget_error(); // else it is the watch that fails
    }
    s->tell_absence(unproven == 0);
    s->refresh_figures();
    s->news();
    if (unproven != 0 && s->rt.logs(log_level::warning)) {
        s->rt.log(log_level::warning,
                  s->name + ": " + std::to_string(unproven) +
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
    co_await free_slowly(s, old);
}

} // namespace informer
