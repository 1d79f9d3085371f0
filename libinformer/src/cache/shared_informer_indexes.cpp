// Indexes that are added when the cache is already filled.
#include "shared_informer_impl.hpp"

#include <boost/asio/post.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <utility>

namespace informer {

namespace {

constexpr std::size_t indexed_at_once = 250; // objects; a millisecond at most
constexpr std::size_t objects_a_step = 16;   // between two looks at the clock

} // namespace

void shared_informer::impl::add_index(std::string index, index_function f) {
    if (ended) store->index.revert(); // its end may have had no memory for that
    const bool running = live && live->going && !stopping;
    if (!running || (!building_indexes && store->index.current_size() <= indexed_at_once)) {
        store->index.add_index(std::move(index), std::move(f));
        try {
            note_index_errors();
        } catch (...) { // NOLINT(bugprone-empty-catch) it is there; its errors are noted with the next batch
        }
        return;
    }
    // First, because nothing takes back an index that was begun. It finds nothing to do if the rest fails.
    if (!building_indexes && !store->index.knows_index(index)) {
        live->tasks.spawn(build_indexes(shared_from_this()));
        building_indexes = true;
    }
    store->index.begin_index(std::move(index), std::move(f));
}

/// Builds all indexes that were begun, one after the other.
asio::awaitable<void> shared_informer::impl::build_indexes(self s) {
    co_await asio::this_coro::throw_if_cancelled(false);
    for (;;) {
        s->indexing.begin();
        bool all = s->store->index.add_index_step(objects_a_step);
        while (!all && !s->indexing.used_up()) all = s->store->index.add_index_step(objects_a_step);
        s->news(); // one of the indexes may be complete
        s->indexing.end();
        if (all) break;
        co_await asio::post(s->rt.executor(), asio::use_awaitable);
        if (s->stopping) co_return;
    }
    s->building_indexes = false;
    s->refresh_figures();
}

/// Not a coroutine itself: what is wrong is thrown where the result is awaited.
asio::awaitable<void> shared_informer::impl::index_ready(self s, std::string index, clock::duration at_most) {
    std::string doing = "wait for index \"" + index + "\"";
    look at = [store = s->store, index = std::move(index)]() -> std::optional<errc> {
        if (!store->index.knows_index(index)) return errc::unknown_index;
        // The indexes of the options are complete at once, but over a cache that is still empty.
        if (store->has_synced() && store->index.snapshot().has_index(index)) return errc{};
        return std::nullopt;
    };
    return wait_for(std::move(s), std::move(doing), at_most, std::move(at));
}

} // namespace informer
