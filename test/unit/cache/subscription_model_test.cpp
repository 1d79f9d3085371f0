// Subscriptions under random changes, and on many threads.
#include "subscription_scene.hpp"

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/thread_pool.hpp>
#include <catch2/catch_test_macros.hpp>

#include <cstddef>
#include <exception>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

using namespace informer;
using namespace informer::testing;

// ---- model ----------------------------------------------------------------------------------------------------------

namespace {

// Random changes of some keys, and a consumer that takes events now and then. Checks that each key's events make sense
// to the consumer and that it ends with the actual state.
void random_life(unsigned seed, std::size_t capacity, bool late) {
    CAPTURE(seed, capacity, late);
    std::mt19937 random(seed);
    const auto below = [&](unsigned n) { return static_cast<unsigned>(random() % n); };
    const auto state = make_state(subscription_options().capacity(capacity).sync_marks(seed % 2 == 0));
    subscription sub(state);
    indexer cache;
    int version = 0;
    const auto fresh = [&](const std::string& name, const std::string& uid) {
        return make_pod("ns", name, std::to_string(++version), uid);
    };
    std::map<std::string, object> told;
    std::size_t marks = 0, delivered = 0;
    bool initial_is_over = false;
    const auto check = [&](const event& e) {
        ++delivered;
        if (e.kind == event_kind::synced) {
            ++marks;
            initial_is_over = true;
            return;
        }
        const std::string name = e.key().name;
        if (e.initial) REQUIRE_FALSE(initial_is_over);
        const auto there = told.find(name);
        switch (e.kind) {
        case event_kind::added:
            REQUIRE(there == told.end());
            REQUIRE_FALSE(e.previous);
            told[name] = e.current;
            break;
        case event_kind::updated:
        case event_kind::deleted:
            REQUIRE(there != told.end());
            REQUIRE(e.previous.same_as(there->second));
            REQUIRE(e.current.uid() == there->second.uid());
            if (e.kind == event_kind::updated)
                there->second = e.current;
            else
                told.erase(there);
            break;
        default: break;
        }
    };
    for (int i = 0; late && i < 5; ++i) cache.put(fresh("k" + std::to_string(i), "u"));
    cache.publish();
    if (late) {
        state->start(cache.snapshot(), resource_version("1"));
    } else {
        state->initial_complete(resource_version("1"));
    }
    for (int step = 0; step < 400; ++step) {
        const std::string name = "k" + std::to_string(below(8));
        const object before = cache.current("ns/" + name);
        switch (below(10)) {
        case 0:
        case 1:
        case 2:
        case 3:
        case 4: {
            const object now = fresh(name, before ? before.uid() : "u" + std::to_string(below(2)));
            state->push(before ? updated(before, now) : added(now));
            cache.put(now);
            break;
        }
        case 5:
        case 6:
            if (!before) break;
            state->push(deleted(fresh(name, before.uid()), before));
            cache.erase(before.key());
            break;
        case 7: {
            if (!before) break;
            const object now = fresh(name, before.uid() + "x");
            state->push(deleted(before, before, event_reason::relist));
            state->push(added(now, event_reason::relist));
            cache.put(now);
            break;
        }
        case 8:
            if (before) state->push(updated(before, before, event_reason::resync));
            break;
        default: state->relisted(resource_version(std::to_string(version)));
        }
        if (below(60) == 0) {
            while (const auto e = sub.try_next()) check(*e);
        }
        for (unsigned n = below(3); n > 0; --n) {
            if (const auto e = sub.try_next()) check(*e);
        }
    }
    REQUIRE(sub.figures().peak_pending <= capacity + 2 * 8 + 2);
    REQUIRE(sub.figures().delivered == delivered);
    while (const auto e = sub.try_next()) check(*e);
    REQUIRE(told.size() == cache.current_size());
    for (const auto& [name, o] : told) REQUIRE(cache.current("ns/" + name).same_as(o));
    REQUIRE(sub.has_synced());
    if (seed % 2 == 0) REQUIRE(marks >= 2);
}

} // namespace

TEST_CASE("coalesce, model: each key's events make sense and the consumer ends with the actual state") {
    for (unsigned seed = 0; seed < 150; ++seed) {
        random_life(seed, 1 + seed % 7, false);
        random_life(seed, 1 + seed % 5, true);
        random_life(seed, 1000, seed % 3 == 0);
    }
}

// ---- threads --------------------------------------------------------------------------------------------------------

namespace {

struct tally {
    std::map<std::string, int> last; // of each key
    int events = 0;
    bool ordered = true;
    bool ended = false;
};

asio::awaitable<void> count_events(state_ptr state, tally& t) { // lint: law2 outlives the test
    subscription sub(state);
    for (;;) {
        const auto e = co_await sub.next();
        if (!e) break;
        if (e->kind == event_kind::synced) continue;
        const int version = std::stoi(e->version.str());
        int& last = t.last[e->key().name];
        t.ordered = t.ordered && version > last;
        last = version;
        ++t.events;
    }
    t.ended = true;
}

// lint: law2 outlives the test
asio::awaitable<void> feed(const std::vector<state_ptr>& states, const std::vector<object>& versions, bool wait) {
    for (std::size_t i = 0; i < versions.size(); ++i) {
        const object& now = versions[i];
        for (const state_ptr& s : states) {
            if (wait && s->over()) co_await s->room();
            s->push(i < 10 ? added(now) : updated(versions[i - 10], now));
        }
        if (i == 9) {
            for (const state_ptr& s : states) s->initial_complete(now.resource_version());
        }
    }
    for (const state_ptr& s : states) s->end();
}

void many(std::size_t subscribers, int events, overflow_policy policy) {
    std::vector<object> versions;
    for (int i = 0; i < events; ++i) versions.push_back(pod(i + 1, "k" + std::to_string(i % 10)));
    std::vector<state_ptr> states;
    std::vector<tally> tallies(subscribers);
    asio::thread_pool consumers(3);
    for (std::size_t i = 0; i < subscribers; ++i) {
        states.push_back(make_state(subscription_options().capacity(8).policy(policy)));
        asio::co_spawn(consumers, count_events(states.back(), tallies[i]), asio::detached);
    }
    asio::io_context producer(1);
    std::exception_ptr failed;
    asio::co_spawn(producer, feed(states, versions, policy == overflow_policy::back_pressure),
                   [&](std::exception_ptr e) { failed = e; });
    producer.run();
    REQUIRE_FALSE(failed);
    consumers.join();
    for (const tally& t : tallies) {
        REQUIRE(t.ended);
        REQUIRE(t.ordered);
        REQUIRE(t.last.size() == 10);
        for (const auto& [name, last] : t.last) REQUIRE(last == events - 9 + (name.back() - '0'));
        if (policy == overflow_policy::back_pressure) REQUIRE(t.events == events);
    }
    for (const state_ptr& s : states) REQUIRE(s->has_synced());
}

} // namespace

TEST_CASE("threads: one producer and one consumer on different threads") {
    many(1, 5000, overflow_policy::coalesce);
    many(1, 2000, overflow_policy::back_pressure);
}

TEST_CASE("threads: one producer and 100 subscribers") {
    many(100, 200, overflow_policy::coalesce);
    many(100, 100, overflow_policy::back_pressure);
}

TEST_CASE("threads: a batch of the whole initial state is taken in portions, with the lock free between them") {
    constexpr std::size_t n = 100'000; // it takes longer than a thread's turn, so the other one has its turn amid it
    indexer cache;
    const cache_snapshot all = snapshot_of(n, cache);
    std::atomic<bool> seen = false;
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (!seen && std::chrono::steady_clock::now() < deadline) {
        const auto state = make_state();
        state->start(all, resource_version("1"));
        std::atomic<bool> begun = false, over = false;
        std::thread producer([&] {
            while (!over) {
                begun = true;
                const auto taken = state->figures().delivered;
                if (taken != 0 && taken < n) seen = true;
            }
        });
        while (!begun) std::this_thread::yield(); // on a busy machine it would be there when all is over
        asio::io_context context(1);
        std::vector<event> batch;
        asio::co_spawn(context, state->next_batch(2 * n),
                       [&batch](std::exception_ptr, std::vector<event> b) { batch = std::move(b); });
        context.run();
        over = true;
        producer.join();
        REQUIRE(batch.size() == n);
        REQUIRE_FALSE(state->has_synced()); // as ever, not before the consumer comes back
    }
    REQUIRE(seen);
}

TEST_CASE("threads: consumers that close at any moment") {
    asio::thread_pool consumers(2);
    std::vector<state_ptr> states;
    std::vector<tally> tallies(50);
    for (std::size_t i = 0; i < 50; ++i) {
        states.push_back(make_state(subscription_options().capacity(4)));
        asio::co_spawn(consumers, count_events(states.back(), tallies[i]), asio::detached);
    }
    std::thread closer([&] {
        for (const state_ptr& s : states) s->close(subscription::pending_events::discard);
    });
    for (int i = 0; i < 200; ++i) {
        for (const state_ptr& s : states) s->push(added(pod(i + 1, "k" + std::to_string(i))));
    }
    closer.join();
    consumers.join();
    for (const tally& t : tallies) REQUIRE(t.ended);
}
