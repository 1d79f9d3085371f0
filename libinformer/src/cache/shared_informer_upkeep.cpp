// What keeps the memory small: dead objects are freed and live ones moved together, in slices.
#include "shared_informer_impl.hpp"

#include <algorithm>
#include <boost/asio/this_coro.hpp>
#include <utility>

namespace informer {

namespace {

constexpr std::size_t collect_budget = 4'000; // nodes a slice
constexpr auto between_compactions = std::chrono::minutes(1);
constexpr auto between_tidyings = std::chrono::seconds(30); // when nothing comes

} // namespace

/// Frees dead objects, and now and then moves the live ones together.
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
        // What others certainly hold: old versions, mostly on their way to listeners, and what waits in the queue.
        const std::uint64_t objects = s->pool->statistics().objects, ours = s->store->index.current_size();
        const std::uint64_t kept = objects - std::min(objects, ours) + s->live->queue.size();
        if (!s->pool->wants_compaction(kept)) co_return;
        s->last_compaction = now;
        const bool pays = co_await compaction_pays(s, kept);
        if (!pays || s->stopping) co_return;
        co_await compact(s);
    }
}

/// Whether enough can be freed in spite of what others hold: listeners that keep the last state of each object would
/// keep the old copies of all that was moved.
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

/// What readers drop is freed after the next batch. If no batch comes for long, an empty one is sent through the queue,
/// so that only the consumer ever tidies. The slowest listener is measured on the way.
asio::awaitable<void> shared_informer::impl::keep_tidy(self s) {
    co_await asio::this_coro::throw_if_cancelled(false);
    for (;;) {
        const bool slept = co_await s->rt.clock().sleep_for(between_tidyings);
        if (!slept || s->stopping) co_return;
        s->note_slowest_listener();
        if (s->live->queue.size() == 0) s->live->queue.push(delta(delta::kind::resync)); // for no subscriber
    }
}

asio::awaitable<void> shared_informer::impl::compact(self s) {
    auto& index = s->store->index;
    s->pool->begin_generation();
    {
        detail::object_cursor all(index.snapshot());
        std::size_t steps = 0;
        while (const object* o = all.next()) {
            object moved = co_await moved_home(s, *o);
            if (s->stopping) co_return;
            if (!moved) break;
            s->home = moved.value().generation();
            index.put(std::move(moved), index.find_current(*o, all.hash()));
            if (++steps % 8 == 0) co_await breathe(s);
            if (s->stopping) co_return;
        }
    }
    detail::past_state old(index.snapshot());
    index.publish();
    s->news();
    co_await free_slowly(s, old);
}

/// An object that was decoded before the last compaction and comes to the cache after it would keep the whole old
/// generation alive.
bool shared_informer::impl::is_away(const object& o) const {
    return home && o.value().generation() != home;
}

/// Moves an object to the current generation, in slices. Empty when the informer stops, or if there is no room: an
/// object that was not moved keeps its old generation alive, and does no other harm.
asio::awaitable<object> shared_informer::impl::moved_home(self s, object o) {
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

/// Replaces the object by its moved copy, if it can be moved.
// lint: law2 the caller keeps it
asio::awaitable<void> shared_informer::impl::bring_home(self s, object& o) {
    object moved = co_await moved_home(s, o);
    if (moved) o = std::move(moved);
}

// lint: law2 the caller keeps it
asio::awaitable<void> shared_informer::impl::free_slowly(self s, detail::past_state& old) {
    while (!old.step(256) && !s->stopping) co_await breathe(s);
}

} // namespace informer
