// What a subscription hands out, and when.
#include "subscription_scene.hpp"
#include "support/run.hpp"

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/this_coro.hpp>
#include <catch2/catch_test_macros.hpp>

#include <cstddef>
#include <map>
#include <string>

using namespace informer;
using namespace informer::testing;

namespace {

lines drain(subscription& s) {
    lines all;
    while (const auto e = s.try_next()) all.push_back(line(*e));
    return all;
}

// A subscription that is full, with one event of another key, so that whatever follows is merged.
struct full_one : subscribed {
    full_one() : subscribed(subscription_options().capacity(1)) { state->push(added(pod(1, "first"))); }
    lines rest() {
        lines all = drain(sub);
        REQUIRE(all.front() == "ADDED first@1");
        all.erase(all.begin());
        return all;
    }
};

} // namespace

// ---- order ----------------------------------------------------------------------------------------------------------

TEST_CASE("subscription: events come in stream order, unmerged below capacity") {
    subscribed s;
    const object a1 = pod(1), a2 = pod(2), b = pod(3, "b"), a4 = pod(4);
    s.state->push(added(a1));
    s.state->push(updated(a1, a2));
    s.state->push(added(b));
    s.state->push(deleted(a4, a2));
    REQUIRE(s.sub.figures().pending == 4);
    REQUIRE(drain(s.sub) == lines{"ADDED a@1", "MODIFIED a@1>2", "ADDED b@3", "DELETED a@4(2)"});
    const subscription_figures f = s.sub.figures();
    REQUIRE(f.pending == 0);
    REQUIRE(f.delivered == 4);
    REQUIRE(f.coalesced == 0);
    REQUIRE(f.peak_pending == 4);
}

TEST_CASE("subscription: an event carries the version of its object") {
    subscribed s;
    s.state->push(added(pod(17)));
    REQUIRE(s.sub.try_next()->version.str() == "17");
}

TEST_CASE("subscription: the events of a batch carry the versions of their objects") {
    run_test([]() -> asio::awaitable<void> {
        subscribed s;
        s.state->push(added(pod(17, "a")));
        s.state->push(added(pod(18, "b")));
        const auto taken = co_await s.sub.next_batch(10);
        REQUIRE(taken.size() == 2);
        REQUIRE(taken[0].version.str() == "17");
        REQUIRE(taken[1].version.str() == "18");
    }());
}

// ---- the table of coalescing ----------------------------------------------------------------------------------------

TEST_CASE("coalesce: added + updated is added with the newest state") {
    full_one f;
    const object a1 = pod(1), a2 = pod(2), a3 = pod(3);
    f.state->push(added(a1));
    f.state->push(updated(a1, a2));
    f.state->push(updated(a2, a3));
    REQUIRE(f.sub.figures().coalesced == 2);
    REQUIRE(f.rest() == lines{"ADDED a@3"});
}

TEST_CASE("coalesce: added + deleted is nothing") {
    full_one f;
    f.state->push(added(pod(1)));
    f.state->push(deleted(pod(2), pod(1)));
    REQUIRE(f.sub.figures().pending == 1);
    REQUIRE(f.rest().empty());
}

TEST_CASE("coalesce: updated + updated keeps the first previous and the newest state") {
    full_one f;
    const object a1 = pod(1), a2 = pod(2), a3 = pod(3), a4 = pod(4);
    f.state->push(updated(a1, a2));
    f.state->push(updated(a2, a3));
    f.state->push(updated(a3, a4));
    REQUIRE(f.rest() == lines{"MODIFIED a@1>4"});
}

TEST_CASE("coalesce: updated + deleted is deleted, with the last delivered state as previous") {
    full_one f;
    const object a1 = pod(1), a2 = pod(2), a3 = pod(3);
    f.state->push(updated(a1, a2));
    event gone = deleted(a3, a2, event_reason::relist);
    gone.final_state_known = false;
    f.state->push(gone);
    REQUIRE(f.sub.try_next());
    const auto e = f.sub.try_next();
    REQUIRE(line(*e) == "DELETED a@3(1)");
    REQUIRE_FALSE(e->final_state_known);
    REQUIRE(e->reason == event_reason::relist);
}

TEST_CASE("coalesce: deleted + added of one uid is updated") {
    full_one f;
    f.state->push(deleted(pod(2), pod(1)));
    f.state->push(added(pod(3)));
    f.state->push(updated(pod(3), pod(4)));
    REQUIRE(f.rest() == lines{"MODIFIED a@1>4"});
}

TEST_CASE("coalesce: deleted + added is updated from the state that was deleted, if the event names no other") {
    subscribed s(subscription_options().capacity(1));
    s.state->push(event(event_kind::deleted, pod(1), object(), event_reason::watch));
    s.state->push(added(pod(2)));
    REQUIRE(drain(s.sub) == lines{"MODIFIED a@1>2"});
}

TEST_CASE("coalesce: deleted + added of another uid stay two events") {
    full_one f;
    f.state->push(deleted(pod(2), pod(1)));
    f.state->push(added(pod(3, "a", "v")));
    f.state->push(updated(pod(3, "a", "v"), pod(4, "a", "v")));
    REQUIRE(f.rest() == lines{"DELETED a@2(1)", "ADDED a@4"});
}

TEST_CASE("coalesce: deleted + added + deleted is deleted") {
    SECTION("another uid") {
        full_one f;
        f.state->push(deleted(pod(2), pod(1)));
        f.state->push(added(pod(3, "a", "v")));
        f.state->push(deleted(pod(4, "a", "v"), pod(3, "a", "v")));
        REQUIRE(f.sub.figures().pending == 2);
        f.state->push(added(pod(5, "a", "w"))); // and once more: the place of the first event is still known
        f.state->push(deleted(pod(6, "a", "w"), pod(5, "a", "w")));
        REQUIRE(f.rest() == lines{"DELETED a@2(1)"});
    }
    SECTION("the same uid") {
        full_one f;
        f.state->push(deleted(pod(2), pod(1)));
        f.state->push(added(pod(3)));
        f.state->push(deleted(pod(4), pod(3)));
        REQUIRE(f.rest() == lines{"DELETED a@4(1)"});
    }
}

TEST_CASE("coalesce: a key keeps its place in line") {
    full_one f;
    f.state->push(added(pod(1, "a")));
    f.state->push(added(pod(2, "b")));
    f.state->push(updated(pod(1, "a"), pod(3, "a")));
    f.state->push(added(pod(4, "c")));
    f.state->push(updated(pod(2, "b"), pod(5, "b")));
    REQUIRE(f.rest() == lines{"ADDED a@3", "ADDED b@5", "ADDED c@4"});
}

TEST_CASE("coalesce: merging ends when the consumer has caught up") {
    full_one f;
    f.state->push(added(pod(1)));
    f.state->push(updated(pod(1), pod(2)));
    REQUIRE(f.rest() == lines{"ADDED a@2"});
    f.state->push(updated(pod(2), pod(3)));
    REQUIRE(drain(f.sub) == lines{"MODIFIED a@2>3"});
}

TEST_CASE("coalesce: memory is bounded by capacity + number of keys, and the final state is never lost") {
    subscribed s(subscription_options().capacity(16));
    std::map<std::string, object> told;
    for (int i = 0; i < 50; ++i) {
        const std::string name = "k" + std::to_string(i % 10);
        const object now = pod(i + 1, name);
        s.state->push(told.count(name) ? updated(told[name], now) : added(now));
        told[name] = now;
    }
    // Short-lived keys leave nothing behind.
    for (int i = 0; i < 10'000; ++i) {
        const object o = pod(i, "short" + std::to_string(i));
        s.state->push(added(o));
        s.state->push(deleted(o, o));
    }
    REQUIRE(s.sub.figures().pending <= 16 + 10);
    REQUIRE(s.sub.figures().peak_pending <= 16 + 10 + 1);
    std::map<std::string, std::string> seen;
    while (const auto e = s.sub.try_next()) seen[e->key().name] = e->current.resource_version().str();
    REQUIRE(seen.size() == 10);
    for (const auto& [name, o] : told) REQUIRE(seen[name] == o.resource_version().str());
}

TEST_CASE("resync: skips keys with a pending event, below capacity too") {
    subscribed s;
    const object a1 = pod(1), a2 = pod(2), b = pod(3, "b");
    s.state->push(updated(a1, a2));
    s.state->push(updated(a2, a2, event_reason::resync));
    s.state->push(updated(b, b, event_reason::resync));
    REQUIRE(s.sub.figures().coalesced == 1);
    REQUIRE(s.sub.try_next()->reason == event_reason::watch);
    const auto e = s.sub.try_next();
    REQUIRE(line(*e) == "MODIFIED b@3>3");
    REQUIRE(e->reason == event_reason::resync);
    REQUIRE_FALSE(s.sub.try_next());
}

TEST_CASE("resync: a change after a pending resync makes it a change") {
    full_one f;
    const object a1 = pod(1), a2 = pod(2);
    f.state->push(updated(a1, a1, event_reason::resync));
    f.state->push(updated(a1, a2));
    REQUIRE(f.sub.try_next());
    const auto e = f.sub.try_next();
    REQUIRE(line(*e) == "MODIFIED a@1>2");
    REQUIRE(e->reason == event_reason::watch);
}

// ---- back-pressure --------------------------------------------------------------------------------------------------

namespace {

// A producer that waits for room: its subscription is full.
struct stalled : subscribed {
    explicit stalled(std::size_t n)
        : subscribed(subscription_options().capacity(n).policy(overflow_policy::back_pressure)),
          room(static_cast<int>(n)) {}
    static asio::awaitable<void> begin(stalled* s, int events) {
        asio::co_spawn(co_await asio::this_coro::executor, produce_with_room(s->state, events, s->pushed),
                       asio::detached);
        co_await settle();
        REQUIRE(s->pushed == s->room);
    }
    const int room;
    int pushed = 0;
};

asio::awaitable<void> stalls_and_merges_nothing() {
    stalled s(4);
    co_await stalled::begin(&s, 20);
    REQUIRE(s.state->over());
    for (int i = 0; i < 20; ++i) {
        const auto e = co_await s.sub.next();
        REQUIRE(e);
        REQUIRE(e->key().name == "p" + std::to_string(i));
        co_await settle(3);
    }
    REQUIRE(s.pushed == 20);
    REQUIRE(s.sub.figures().coalesced == 0);
    REQUIRE(s.sub.figures().peak_pending == 4);
}

asio::awaitable<void> goes_on_when_half_was_taken(std::size_t capacity) {
    stalled s(capacity);
    co_await stalled::begin(&s, 100);
    int taken = 0;
    while (s.pushed == s.room) {
        REQUIRE(taken < s.room);
        REQUIRE(s.sub.try_next());
        ++taken;
        co_await settle();
    }
    REQUIRE(taken == (s.room + 1) / 2);
    REQUIRE(s.pushed == s.room + taken); // and then until it is full again
    s.sub.close();                       // the producer writes to `s` and must not outlive it
    co_await settle();
    REQUIRE(s.pushed == 100);
}

asio::awaitable<void> closing_frees_the_producer(subscription::pending_events how) {
    stalled s(2);
    co_await stalled::begin(&s, 10);
    s.sub.close(how);
    co_await settle();
    REQUIRE(s.pushed == 10);
    REQUIRE(s.state->closed());
}

asio::awaitable<void> ending_frees_the_producer() {
    stalled s(2);
    co_await stalled::begin(&s, 10);
    s.state->end();
    co_await settle();
    REQUIRE(s.pushed == 10); // the rest was ignored
    REQUIRE(s.sub.figures().pending == 2);
}

} // namespace

TEST_CASE("back pressure: the end of the stream frees a producer that waits for room") {
    run_test(ending_frees_the_producer());
}

TEST_CASE("back pressure: the informer waits for room and nothing is merged") {
    run_test(stalls_and_merges_nothing());
}

TEST_CASE("back pressure: a waiting producer goes on when half of the capacity was taken, not at every event") {
    for (const std::size_t capacity : {1U, 2U, 5U, 16U}) {
        INFO(capacity);
        run_test(goes_on_when_half_was_taken(capacity));
    }
}

TEST_CASE("back pressure: a subscriber that closes frees the informer") {
    run_test(closing_frees_the_producer(subscription::pending_events::discard));
    run_test(closing_frees_the_producer(subscription::pending_events::drain));
}

TEST_CASE("back pressure: without the policy there is always room") {
    subscribed s(subscription_options().capacity(1));
    s.state->push(added(pod(1, "a")));
    s.state->push(added(pod(2, "b")));
    REQUIRE_FALSE(s.state->over());
}

TEST_CASE("a capacity of 0 counts as 1") {
    subscribed s(subscription_options().capacity(0).policy(overflow_policy::back_pressure));
    REQUIRE_FALSE(s.state->over());
    s.state->push(added(pod(1)));
    REQUIRE(s.state->over());
    REQUIRE(drain(s.sub) == lines{"ADDED a@1"});
    REQUIRE_FALSE(s.state->over());
}

TEST_CASE("what was discarded is not pending any more") {
    subscribed s;
    for (const char* name : {"a", "b"}) s.state->push(added(pod(1, name)));
    REQUIRE(s.sub.figures().pending == 2);
    s.sub.close();
    REQUIRE(s.sub.figures().pending == 0);
    REQUIRE(s.sub.figures().delivered == 0);
}

TEST_CASE("back pressure: the initial state of a late subscriber does not count") {
    subscribed_late s(100, subscription_options().capacity(2).policy(overflow_policy::back_pressure));
    REQUIRE_FALSE(s.state->over());
    s.state->push(added(pod(1, "x")));
    s.state->push(added(pod(2, "y")));
    REQUIRE(s.state->over());
}

// ---- late subscribers and sync --------------------------------------------------------------------------------------

TEST_CASE("late subscriber: the state as initial added events, then live events, nothing missed, nothing twice") {
    subscribed_late s(50, subscription_options().sync_marks().capacity(2));
    const object p1 = s.cache.current("ns/p1"), p2 = pod(2, "p1");
    s.state->push(updated(p1, p2));
    s.cache.put(p2); // what the informer does later does not show in the initial state
    s.cache.publish();
    std::map<std::string, int> seen;
    for (int i = 0; i < 50; ++i) {
        const auto e = s.sub.try_next();
        REQUIRE(e->kind == event_kind::added);
        REQUIRE(e->initial);
        REQUIRE(e->reason == event_reason::snapshot);
        REQUIRE(e->current.resource_version().str() == "1");
        REQUIRE(e->version.str() == "1");
        ++seen[e->key().name];
        if (i == 20) s.state->push(added(pod(3, "new")));
    }
    REQUIRE(seen.size() == 50);
    REQUIRE_FALSE(s.sub.has_synced());
    const auto mark = s.sub.try_next();
    REQUIRE(line(*mark) == "SYNCED 9");
    REQUIRE(mark->initial);
    REQUIRE(s.sub.has_synced());
    REQUIRE(drain(s.sub) == lines{"MODIFIED p1@1>2", "ADDED new@3"});
}

TEST_CASE("late subscriber: the initial state is not queued") {
    subscribed_late s(1000);
    REQUIRE(s.sub.figures().pending == 0);
    REQUIRE(drain(s.sub).size() == 1000);
    REQUIRE(s.sub.figures().peak_pending == 0);
    REQUIRE(s.sub.figures().delivered == 1000);
}

TEST_CASE("late subscriber: no resync while the initial state lasts") {
    subscribed_late s(2);
    const object p = s.cache.current("ns/p0");
    s.state->push(updated(p, p, event_reason::resync));
    REQUIRE(drain(s.sub).size() == 2);
    s.state->push(updated(p, p, event_reason::resync));
    REQUIRE(drain(s.sub).size() == 1);
}

TEST_CASE("sync: true once the consumer was handed the whole initial state and has come back") {
    subscribed s;
    s.state->push(initial(pod(1, "a")));
    s.state->push(initial(pod(2, "b")));
    REQUIRE(s.sub.try_next());
    s.state->initial_complete(resource_version("5"));
    s.state->push(added(pod(6, "live")));
    REQUIRE(s.sub.try_next()->initial);
    REQUIRE_FALSE(s.sub.has_synced());
    REQUIRE(line(*s.sub.try_next()) == "ADDED live@6"); // no mark: not asked for
    REQUIRE(s.sub.has_synced());
    REQUIRE_FALSE(s.sub.try_next());
}

TEST_CASE("sync: not while the consumer has shared events in hand") {
    run_test([]() -> asio::awaitable<void> {
        subscribed s;
        const auto all = std::make_shared<std::vector<event>>();
        all->push_back(initial(pod(1, "a")));
        all->push_back(initial(pod(2, "b")));
        {
            informer::detail::wake_list nobody;
            REQUIRE(s.state->push_all(all, nobody));
        }
        const auto taken = co_await s.sub.next_batch(10);
        REQUIRE(taken.size() == 2);
        s.state->initial_complete(resource_version("5"));
        REQUIRE_FALSE(s.sub.has_synced());
        REQUIRE_FALSE(s.sub.try_next());
        REQUIRE(s.sub.has_synced());
    }());
}

TEST_CASE("sync: not while the consumer has a single one of them in hand") {
    subscribed s;
    const auto all = std::make_shared<std::vector<event>>();
    for (const char* name : {"a", "b"}) all->push_back(initial(pod(1, name)));
    {
        informer::detail::wake_list nobody;
        REQUIRE(s.state->push_all(all, nobody));
    }
    for (int n = 0; n < 2; ++n) REQUIRE(s.sub.try_next());
    s.state->initial_complete(resource_version("5"));
    REQUIRE_FALSE(s.sub.has_synced());
    REQUIRE_FALSE(s.sub.try_next());
    REQUIRE(s.sub.has_synced());
}

TEST_CASE("sync: also when initial events were merged away") {
    subscribed s(subscription_options().capacity(1));
    s.state->push(initial(pod(1, "a")));
    s.state->push(initial(pod(2, "b")));
    s.state->initial_complete(resource_version("5"));
    s.state->push(deleted(pod(6, "b"), pod(2, "b")));
    s.state->push(deleted(pod(7, "a"), pod(1, "a")));
    REQUIRE(s.sub.has_synced()); // nothing initial is left to be handed out
    REQUIRE_FALSE(s.sub.try_next());
}

TEST_CASE("sync: an empty initial state is synced at once") {
    subscribed s;
    REQUIRE_FALSE(s.sub.has_synced());
    SECTION("pushed") {
        s.state->initial_complete(resource_version("5"));
    }
    SECTION("late") {
        s.state->start(cache_snapshot(), resource_version("5"));
    }
    REQUIRE(s.sub.has_synced());
}

TEST_CASE("sync: a batch ends at the end of the initial state") {
    run_test([]() -> asio::awaitable<void> {
        subscribed_late s(5);
        s.state->push(added(pod(6, "live")));
        const auto first = co_await s.sub.next_batch(100);
        REQUIRE(first.size() == 5);
        REQUIRE_FALSE(s.sub.has_synced());
        const auto second = co_await s.sub.next_batch(100);
        REQUIRE(second.size() == 1);
        REQUIRE(s.sub.has_synced());
    }());
}

TEST_CASE("sync marks: in stream order, after the initial state and after each relist") {
    subscribed s(subscription_options().sync_marks());
    s.state->push(initial(pod(1, "a")));
    s.state->initial_complete(resource_version("5"));
    s.state->push(added(pod(6, "b")));
    s.state->relisted(resource_version("7"));
    s.state->relisted(resource_version("8"));
    REQUIRE(drain(s.sub) == lines{"ADDED a@1", "SYNCED 5", "ADDED b@6", "SYNCED 7", "SYNCED 8"});
}

TEST_CASE("sync marks: those of many relists without events are merged, even under back pressure") {
    subscribed s(subscription_options().sync_marks().capacity(2).policy(overflow_policy::back_pressure));
    s.state->push(initial(pod(1, "a")));
    s.state->initial_complete(resource_version("5"));
    for (int i = 0; i < 100; ++i) s.state->relisted(resource_version(std::to_string(10 + i)));
    REQUIRE(s.sub.figures().pending == 3);
    REQUIRE(s.sub.figures().coalesced == 99);
    REQUIRE(drain(s.sub) == lines{"ADDED a@1", "SYNCED 5", "SYNCED 109"});
}

TEST_CASE("sync marks: when full, repeated ones merge into the last place; the first and the last are never lost") {
    subscribed s(subscription_options().sync_marks().capacity(2));
    s.state->push(initial(pod(1, "a")));
    s.state->initial_complete(resource_version("5"));
    for (int i = 0; i < 100; ++i) {
        s.state->push(added(pod(10 + i, "k" + std::to_string(i % 3))));
        s.state->relisted(resource_version(std::to_string(10 + i)));
    }
    REQUIRE(s.sub.figures().pending == 6);
    REQUIRE(drain(s.sub) ==
            lines{"ADDED a@1", "SYNCED 5", "ADDED k0@109", "ADDED k1@107", "ADDED k2@108", "SYNCED 109"});
}
