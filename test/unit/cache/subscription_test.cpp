#include <informer/cache/subscription.hpp>

#include "cache/subscription_state.hpp"
#include "pods.hpp"
#include "support/run.hpp"

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/thread_pool.hpp>
#include <catch2/catch_test_macros.hpp>

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

using namespace informer;
using informer::testing::make_pod;
using informer::testing::run_test;
using informer::testing::settle;

namespace {

using state_ptr = std::shared_ptr<subscription::state>;

state_ptr make_state(subscription_options o = subscription_options()) {
    return std::make_shared<subscription::state>(std::move(o));
}

object pod(int version, std::string_view name = "a", std::string_view uid = "u") {
    return make_pod("ns", name, std::to_string(version), uid);
}
event added(object o, event_reason why = event_reason::watch) { return event(event_kind::added, o, object(), why); }
event updated(object before, object o, event_reason why = event_reason::watch) {
    return event(event_kind::updated, o, before, why);
}
event deleted(object o, object before, event_reason why = event_reason::watch) {
    return event(event_kind::deleted, o, before, why);
}
event initial(object o) {
    event e = added(o, event_reason::snapshot);
    e.initial = true;
    return e;
}

// "ADDED a@1", "MODIFIED a@1>2", "DELETED a@2(1)": versions; in brackets what was told before.
std::string line(const event& e) {
    std::string s(to_string(e.kind));
    if (e.kind == event_kind::synced) return s + " " + e.version.str();
    s += " " + e.key().name + "@";
    const std::string before = e.previous ? e.previous.resource_version().str() : "";
    if (e.kind == event_kind::updated) s += before + ">";
    s += e.current.resource_version().str();
    if (e.kind == event_kind::deleted && !before.empty()) s += "(" + before + ")";
    return s;
}

using lines = std::vector<std::string>;
lines drain(subscription& s) {
    lines all;
    while (const auto e = s.try_next()) all.push_back(line(*e));
    return all;
}

// A subscription that is full, with one event of another key, so that whatever follows is merged.
struct full_one {
    full_one() : state(make_state(subscription_options().capacity(1))), sub(state) { state->push(added(pod(1, "first"))); }
    lines rest() {
        lines all = drain(sub);
        REQUIRE(all.front() == "ADDED first@1");
        all.erase(all.begin());
        return all;
    }
    state_ptr state;
    subscription sub;
};

cache_snapshot snapshot_of(int pods, indexer& cache) {
    for (int i = 0; i < pods; ++i) cache.put(pod(1, "p" + std::to_string(i)));
    cache.publish();
    return cache.snapshot();
}

} // namespace

// ---- order ----------------------------------------------------------------------------------------------------------

TEST_CASE("subscription: events come in stream order, unmerged below capacity") {
    const auto state = make_state();
    subscription sub(state);
    const object a1 = pod(1), a2 = pod(2), b = pod(3, "b"), a4 = pod(4);
    state->push(added(a1));
    state->push(updated(a1, a2));
    state->push(added(b));
    state->push(deleted(a4, a2));
    REQUIRE(sub.figures().pending == 4);
    REQUIRE(drain(sub) == lines{"ADDED a@1", "MODIFIED a@1>2", "ADDED b@3", "DELETED a@4(2)"});
    const subscription_figures f = sub.figures();
    REQUIRE(f.pending == 0);
    REQUIRE(f.delivered == 4);
    REQUIRE(f.coalesced == 0);
    REQUIRE(f.peak_pending == 4);
}

TEST_CASE("subscription: an event carries the version of its object") {
    const auto state = make_state();
    subscription sub(state);
    state->push(added(pod(17)));
    REQUIRE(sub.try_next()->version.str() == "17");
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
        f.state->push(added(pod(5, "a", "w"))); // and again: the place of the first is known
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

TEST_CASE("coalesce: it ends when the consumer has caught up") {
    full_one f;
    f.state->push(added(pod(1)));
    f.state->push(updated(pod(1), pod(2)));
    REQUIRE(f.rest() == lines{"ADDED a@2"});
    f.state->push(updated(pod(2), pod(3)));
    REQUIRE(drain(f.sub) == lines{"MODIFIED a@2>3"});
}

TEST_CASE("coalesce: memory is bounded by capacity + number of keys, and the final state is never lost") {
    const auto state = make_state(subscription_options().capacity(16));
    subscription sub(state);
    std::map<std::string, object> told;
    for (int i = 0; i < 50; ++i) {
        const std::string name = "k" + std::to_string(i % 10);
        const object now = pod(i + 1, name);
        state->push(told.count(name) ? updated(told[name], now) : added(now));
        told[name] = now;
    }
    // Short-lived keys leave nothing behind.
    for (int i = 0; i < 10'000; ++i) {
        const object o = pod(i, "short" + std::to_string(i));
        state->push(added(o));
        state->push(deleted(o, o));
    }
    REQUIRE(sub.figures().pending <= 16 + 10);
    REQUIRE(sub.figures().peak_pending <= 16 + 10 + 1);
    std::map<std::string, std::string> seen;
    while (const auto e = sub.try_next()) seen[e->key().name] = e->current.resource_version().str();
    REQUIRE(seen.size() == 10);
    for (const auto& [name, o] : told) REQUIRE(seen[name] == o.resource_version().str());
}

TEST_CASE("resync: skips keys with a pending event, below capacity too") {
    const auto state = make_state();
    subscription sub(state);
    const object a1 = pod(1), a2 = pod(2), b = pod(3, "b");
    state->push(updated(a1, a2));
    state->push(updated(a2, a2, event_reason::resync));
    state->push(updated(b, b, event_reason::resync));
    REQUIRE(sub.figures().coalesced == 1);
    REQUIRE(sub.try_next()->reason == event_reason::watch);
    const auto e = sub.try_next();
    REQUIRE(line(*e) == "MODIFIED b@3>3");
    REQUIRE(e->reason == event_reason::resync);
    REQUIRE_FALSE(sub.try_next());
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

asio::awaitable<void> produce_with_room(state_ptr state, int events, int& pushed) { // lint: law2 outlives the test
    for (int i = 0; i < events; ++i) {
        if (state->over()) co_await state->room();
        state->push(added(pod(i, "p" + std::to_string(i))));
        ++pushed;
    }
}

asio::awaitable<void> stalls_and_merges_nothing() {
    const auto state = make_state(subscription_options().capacity(4).policy(overflow_policy::back_pressure));
    subscription sub(state);
    int pushed = 0;
    asio::co_spawn(co_await asio::this_coro::executor, produce_with_room(state, 20, pushed), asio::detached);
    co_await settle();
    REQUIRE(pushed == 4);
    REQUIRE(state->over());
    for (int i = 0; i < 20; ++i) {
        const auto e = co_await sub.next();
        REQUIRE(e);
        REQUIRE(e->key().name == "p" + std::to_string(i));
        co_await settle(3);
    }
    REQUIRE(pushed == 20);
    REQUIRE(sub.figures().coalesced == 0);
    REQUIRE(sub.figures().peak_pending == 4);
}

asio::awaitable<void> closing_frees_the_producer(subscription::pending_events how) {
    const auto state = make_state(subscription_options().capacity(2).policy(overflow_policy::back_pressure));
    subscription sub(state);
    int pushed = 0;
    asio::co_spawn(co_await asio::this_coro::executor, produce_with_room(state, 10, pushed), asio::detached);
    co_await settle();
    REQUIRE(pushed == 2);
    sub.close(how);
    co_await settle();
    REQUIRE(pushed == 10);
    REQUIRE(state->closed());
}

} // namespace

TEST_CASE("back pressure: the informer waits for room and nothing is merged") { run_test(stalls_and_merges_nothing()); }

TEST_CASE("back pressure: a subscriber that closes frees the informer") {
    run_test(closing_frees_the_producer(subscription::pending_events::discard));
    run_test(closing_frees_the_producer(subscription::pending_events::drain));
}

TEST_CASE("back pressure: without the policy there is always room") {
    const auto state = make_state(subscription_options().capacity(1));
    subscription sub(state);
    state->push(added(pod(1, "a")));
    state->push(added(pod(2, "b")));
    REQUIRE_FALSE(state->over());
}

TEST_CASE("back pressure: the initial state of a late subscriber does not count") {
    indexer cache;
    const auto state = make_state(subscription_options().capacity(2).policy(overflow_policy::back_pressure));
    subscription sub(state);
    state->start(snapshot_of(100, cache), resource_version("9"));
    REQUIRE_FALSE(state->over());
    state->push(added(pod(1, "x")));
    state->push(added(pod(2, "y")));
    REQUIRE(state->over());
}

// ---- late subscribers and sync --------------------------------------------------------------------------------------

TEST_CASE("late subscriber: the state as initial added events, then live events, nothing missed, nothing twice") {
    indexer cache;
    const auto state = make_state(subscription_options().sync_marks().capacity(2));
    subscription sub(state);
    state->start(snapshot_of(50, cache), resource_version("9"));
    const object p1 = cache.current("ns/p1"), p2 = pod(2, "p1");
    state->push(updated(p1, p2));
    cache.put(p2); // what the informer does later does not show in the initial state
    cache.publish();
    std::map<std::string, int> seen;
    for (int i = 0; i < 50; ++i) {
        const auto e = sub.try_next();
        REQUIRE(e->kind == event_kind::added);
        REQUIRE(e->initial);
        REQUIRE(e->reason == event_reason::snapshot);
        REQUIRE(e->current.resource_version().str() == "1");
        REQUIRE(e->version.str() == "1");
        ++seen[e->key().name];
        if (i == 20) state->push(added(pod(3, "new")));
    }
    REQUIRE(seen.size() == 50);
    REQUIRE_FALSE(sub.has_synced());
    const auto mark = sub.try_next();
    REQUIRE(line(*mark) == "SYNCED 9");
    REQUIRE(mark->initial);
    REQUIRE(sub.has_synced());
    REQUIRE(drain(sub) == lines{"MODIFIED p1@1>2", "ADDED new@3"});
}

TEST_CASE("late subscriber: the initial state is not queued") {
    indexer cache;
    const auto state = make_state();
    subscription sub(state);
    state->start(snapshot_of(1000, cache), resource_version("9"));
    REQUIRE(sub.figures().pending == 0);
    REQUIRE(drain(sub).size() == 1000);
    REQUIRE(sub.figures().peak_pending == 0);
    REQUIRE(sub.figures().delivered == 1000);
}

TEST_CASE("late subscriber: no resync while the initial state lasts") {
    indexer cache;
    const auto state = make_state();
    subscription sub(state);
    state->start(snapshot_of(2, cache), resource_version("9"));
    const object p = cache.current("ns/p0");
    state->push(updated(p, p, event_reason::resync));
    REQUIRE(drain(sub).size() == 2);
    state->push(updated(p, p, event_reason::resync));
    REQUIRE(drain(sub).size() == 1);
}

TEST_CASE("sync: true when the consumer was handed everything initial and has come back") {
    const auto state = make_state();
    subscription sub(state);
    state->push(initial(pod(1, "a")));
    state->push(initial(pod(2, "b")));
    REQUIRE(sub.try_next());
    state->initial_complete(resource_version("5"));
    state->push(added(pod(6, "live")));
    REQUIRE(sub.try_next()->initial);
    REQUIRE_FALSE(sub.has_synced());
    REQUIRE(line(*sub.try_next()) == "ADDED live@6"); // no mark: not asked for
    REQUIRE(sub.has_synced());
    REQUIRE_FALSE(sub.try_next());
}

TEST_CASE("sync: also when initial events were merged away") {
    const auto state = make_state(subscription_options().capacity(1));
    subscription sub(state);
    state->push(initial(pod(1, "a")));
    state->push(initial(pod(2, "b")));
    state->initial_complete(resource_version("5"));
    state->push(deleted(pod(6, "b"), pod(2, "b")));
    state->push(deleted(pod(7, "a"), pod(1, "a")));
    REQUIRE(sub.has_synced()); // nothing initial is left to be handed out
    REQUIRE_FALSE(sub.try_next());
}

TEST_CASE("sync: an empty initial state is synced at once") {
    const auto state = make_state();
    subscription sub(state);
    REQUIRE_FALSE(sub.has_synced());
    SECTION("pushed") { state->initial_complete(resource_version("5")); }
    SECTION("late") { state->start(cache_snapshot(), resource_version("5")); }
    REQUIRE(sub.has_synced());
}

TEST_CASE("sync: a batch ends at the end of the initial state") {
    run_test([]() -> asio::awaitable<void> {
        indexer cache;
        const auto state = make_state();
        subscription sub(state);
        state->start(snapshot_of(5, cache), resource_version("9"));
        state->push(added(pod(6, "live")));
        const auto first = co_await sub.next_batch(100);
        REQUIRE(first.size() == 5);
        REQUIRE_FALSE(sub.has_synced());
        const auto second = co_await sub.next_batch(100);
        REQUIRE(second.size() == 1);
        REQUIRE(sub.has_synced());
    }());
}

TEST_CASE("sync marks: in stream order, after the initial state and after each relist") {
    const auto state = make_state(subscription_options().sync_marks());
    subscription sub(state);
    state->push(initial(pod(1, "a")));
    state->initial_complete(resource_version("5"));
    state->push(added(pod(6, "b")));
    state->relisted(resource_version("7"));
    state->relisted(resource_version("8"));
    REQUIRE(drain(sub) == lines{"ADDED a@1", "SYNCED 5", "ADDED b@6", "SYNCED 7", "SYNCED 8"});
}

TEST_CASE("sync marks: when full, repeated ones merge into the last place; the first and the last are never lost") {
    const auto state = make_state(subscription_options().sync_marks().capacity(2));
    subscription sub(state);
    state->push(initial(pod(1, "a")));
    state->initial_complete(resource_version("5"));
    for (int i = 0; i < 100; ++i) {
        state->push(added(pod(10 + i, "k" + std::to_string(i % 3))));
        state->relisted(resource_version(std::to_string(10 + i)));
    }
    REQUIRE(sub.figures().pending == 6);
    REQUIRE(drain(sub) == lines{"ADDED a@1", "SYNCED 5", "ADDED k0@109", "ADDED k1@107", "ADDED k2@108", "SYNCED 109"});
}

namespace {

asio::awaitable<void> wait_synced(state_ptr state, std::string& result) { // lint: law2 outlives the test
    try {
        co_await state->synced();
        result = "synced";
    } catch (const error& e) {
        result = e.failure() == errc::stopped ? "stopped" : e.failure() == errc::cancelled ? "cancelled" : e.what();
    }
}

asio::awaitable<void> synced_waits(std::string expected, std::function<void(subscription::state&, subscription&)> act) {
    const auto state = make_state();
    subscription sub(state);
    state->push(initial(pod(1)));
    std::string one, two;
    asio::co_spawn(co_await asio::this_coro::executor, wait_synced(state, one), asio::detached);
    asio::co_spawn(co_await asio::this_coro::executor, wait_synced(state, two), asio::detached);
    co_await settle();
    REQUIRE(one.empty());
    act(*state, sub);
    co_await settle();
    REQUIRE(one == expected);
    REQUIRE(two == expected);
}

} // namespace

TEST_CASE("synced(): waits for the consumer, and says stopped when the initial state cannot come any more") {
    run_test(synced_waits("synced", [](subscription::state& state, subscription& sub) {
        REQUIRE(sub.try_next());
        state.initial_complete(resource_version("1"));
        REQUIRE_FALSE(sub.try_next());
    }));
    run_test(synced_waits("synced", [](subscription::state& state, subscription& sub) {
        state.initial_complete(resource_version("1"));
        state.end();
        REQUIRE(sub.try_next());
        REQUIRE_FALSE(sub.try_next());
    }));
    run_test(synced_waits("stopped", [](subscription::state& state, subscription&) { state.end(); }));
    run_test(synced_waits("stopped", [](subscription::state&, subscription& sub) { sub.close(); }));
    run_test(synced_waits("stopped", [](subscription::state& state, subscription& sub) {
        state.initial_complete(resource_version("1"));
        sub.close();
    }));
}

// ---- waiting, closing, ending ---------------------------------------------------------------------------------------

namespace {

asio::awaitable<void> consume(state_ptr state, lines& got) { // lint: law2 outlives the test
    subscription sub(state);
    for (;;) {
        const auto e = co_await sub.next();
        if (!e) break;
        got.push_back(line(*e));
    }
    got.push_back("end");
}

asio::awaitable<void> consume_once(subscription& sub, std::string& result) { // lint: law2 outlives the test
    try {
        const auto e = co_await sub.next();
        result = e ? line(*e) : "end";
    } catch (const error& e) {
        result = e.failure() == errc::cancelled ? "cancelled" : e.what();
    }
}

asio::awaitable<void> wakes() {
    const auto state = make_state();
    lines got;
    asio::co_spawn(co_await asio::this_coro::executor, consume(state, got), asio::detached);
    co_await settle();
    state->push(added(pod(1)));
    REQUIRE(got.empty()); // never inline
    co_await settle();
    REQUIRE(got == lines{"ADDED a@1"});
    state->initial_complete(resource_version("1"));
    REQUIRE(state->has_synced()); // it has come back for more
    state->push(added(pod(2, "b")));
    state->end();
    state->push(added(pod(3, "c")));
    co_await settle();
    REQUIRE(got == lines{"ADDED a@1", "ADDED b@2", "end"});
}

/// Two consumers, one after the other.
struct two_consumers {
    explicit two_consumers(asio::any_io_executor e) : executor(std::move(e)) {
        asio::co_spawn(executor, consume_once(sub, first), asio::bind_cancellation_slot(stop.slot(), asio::detached));
    }
    void cancel_first() { stop.emit(asio::cancellation_type::terminal); }
    void begin_second() { asio::co_spawn(executor, consume_once(sub, second), asio::detached); }

    asio::any_io_executor executor;
    std::shared_ptr<subscription::state> state = make_state();
    subscription sub{state};
    asio::cancellation_signal stop;
    std::string first, second;
};

asio::awaitable<void> cancels(bool event_at_once) {
    const auto executor = co_await asio::this_coro::executor;
    two_consumers c(executor);
    co_await settle();
    if (event_at_once) c.state->push(added(pod(1)));
    c.cancel_first();
    co_await settle();
    REQUIRE(c.first == "cancelled");
    if (!event_at_once) c.state->push(added(pod(1)));
    c.begin_second();
    co_await settle();
    REQUIRE(c.second == "ADDED a@1");
}

asio::awaitable<void> cancelled_but_not_gone() {
    const auto executor = co_await asio::this_coro::executor;
    two_consumers c(executor);
    co_await settle();
    c.cancel_first();
    c.begin_second();
    REQUIRE(c.first.empty()); // resumed after the second has begun
    co_await settle();
    REQUIRE(c.first == "cancelled");
    REQUIRE(c.second.empty());
    c.state->push(added(pod(1)));
    co_await settle();
    REQUIRE(c.second == "ADDED a@1");
}

asio::awaitable<void> closes(subscription::pending_events how, lines expected) {
    const auto state = make_state(subscription_options().sync_marks());
    indexer cache;
    subscription sub(state);
    state->start(snapshot_of(1, cache), resource_version("1"));
    state->push(added(pod(1)));
    sub.close(how);
    state->push(added(pod(2, "b")));
    REQUIRE(state->closed());
    lines got;
    for (;;) {
        const auto e = co_await sub.next();
        if (!e) break;
        got.push_back(line(*e));
    }
    REQUIRE(got == expected);
}

asio::awaitable<void> close_wakes() {
    const auto state = make_state();
    subscription sub(state);
    std::string result;
    asio::co_spawn(co_await asio::this_coro::executor, consume_once(sub, result), asio::detached);
    co_await settle();
    state->push(added(pod(1))); // the consumer is on its way, but has not got it
    sub.close();
    co_await settle();
    REQUIRE(result == "end");
}

asio::awaitable<void> second_consumer() {
    const auto state = make_state();
    subscription sub(state);
    std::string first, second;
    const auto executor = co_await asio::this_coro::executor;
    asio::co_spawn(executor, consume_once(sub, first), asio::detached);
    asio::co_spawn(executor, consume_once(sub, second), asio::detached);
    co_await settle();
    REQUIRE(second.find("two consumers") != std::string::npos);
    state->push(added(pod(1)));
    co_await settle();
    REQUIRE(first == "ADDED a@1");
}

asio::awaitable<void> batches() {
    const auto state = make_state();
    subscription sub(state);
    for (int i = 0; i < 10; ++i) state->push(added(pod(i, "p" + std::to_string(i))));
    auto some = co_await sub.next_batch(4);
    REQUIRE(some.size() == 4);
    some = co_await sub.next_batch(100);
    REQUIRE(some.size() == 6);
    state->end();
    some = co_await sub.next_batch(100);
    REQUIRE(some.empty());
}

} // namespace

TEST_CASE("next(): waits, wakes on the awaiter's executor, ends after what is pending") { run_test(wakes()); }
TEST_CASE("next_batch(): what is ready, at most so many, empty at the end") { run_test(batches()); }

TEST_CASE("next(): cancelling it loses no event") {
    run_test(cancels(false));
    run_test(cancels(true));
}

TEST_CASE("next(): the next consumer need not wait until a cancelled one has ended") { run_test(cancelled_but_not_gone()); }

TEST_CASE("next(): a consumer may move from context to context, from one too that was destroyed while it waited there") {
    const auto state = make_state();
    subscription sub(state);
    int version = 0;
    for (const bool in_strand : {false, true, false, true}) {
        for (const bool woken : {false, true}) {
            std::string lost, got;
            {
                asio::io_context context;
                asio::co_spawn(context, consume_once(sub, lost), asio::detached);
                context.poll();
                if (woken) state->push(added(pod(++version)));
            }
            REQUIRE(lost.empty());
            asio::io_context context;
            if (in_strand)
                asio::co_spawn(asio::make_strand(context), consume_once(sub, got), asio::detached);
            else
                asio::co_spawn(context, consume_once(sub, got), asio::detached);
            context.poll();
            REQUIRE(got.empty() != woken);
            if (!woken) state->push(added(pod(++version)));
            context.run();
            REQUIRE(got == "ADDED a@" + std::to_string(version));
        }
    }
}

TEST_CASE("close: pending events are dropped, or drained, as asked") {
    run_test(closes(subscription::pending_events::discard, {}));
    run_test(closes(subscription::pending_events::drain, {"ADDED p0@1", "SYNCED 1", "ADDED a@1"}));
}

TEST_CASE("close: nothing is delivered after it returned, not even to a consumer that was woken already") {
    run_test(close_wakes());
}

TEST_CASE("next(): a second consumer at the same time is an error") { run_test(second_consumer()); }

TEST_CASE("subscription: its destructor and an assignment to it close it") {
    const auto one = make_state(), two = make_state();
    {
        subscription sub(one);
        sub = subscription(two);
        REQUIRE(one->closed());
        REQUIRE_FALSE(two->closed());
        subscription moved(std::move(sub));
        REQUIRE_FALSE(two->closed());
    }
    REQUIRE(two->closed());
}

TEST_CASE("subscription: destroying the io_context under a waiting consumer and a waiting producer frees both") {
    const auto full = make_state(subscription_options().capacity(1).policy(overflow_policy::back_pressure));
    const auto empty = make_state();
    const std::weak_ptr<subscription::state> watch_full = full, watch_empty = empty;
    lines got;
    std::string synced;
    int pushed = 0;
    {
        asio::io_context context(1);
        asio::co_spawn(context, consume(empty, got), asio::detached);
        asio::co_spawn(context, wait_synced(empty, synced), asio::detached);
        asio::co_spawn(context, produce_with_room(full, 5, pushed), asio::detached);
        for (int i = 0; i < 20; ++i) context.poll();
        REQUIRE(pushed == 1);
        empty->push(added(pod(1))); // woken, but never run
    }
    REQUIRE(got.empty());
    REQUIRE(empty->closed());
    full->close(subscription::pending_events::discard);
    empty->end();
    REQUIRE(watch_full.use_count() == 1);
    REQUIRE(watch_empty.use_count() == 1);
}

// ---- model ----------------------------------------------------------------------------------------------------------

namespace {

// Random life of some keys, a consumer that takes events now and then. Checks that each key's events make sense to the
// consumer and that it ends with the state that there is.
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
            REQUIRE(there != told.end());
            REQUIRE(e.previous.same_as(there->second));
            REQUIRE(e.current.uid() == there->second.uid());
            told[name] = e.current;
            break;
        case event_kind::deleted:
            REQUIRE(there != told.end());
            REQUIRE(e.previous.same_as(there->second));
            REQUIRE(e.current.uid() == there->second.uid());
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
        case 0: case 1: case 2: case 3: case 4: {
            const object now = fresh(name, before ? before.uid() : "u" + std::to_string(below(2)));
            state->push(before ? updated(before, now) : added(now));
            cache.put(now);
            break;
        }
        case 5: case 6:
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

TEST_CASE("coalesce, model: each key's events make sense and the consumer ends with the state that there is") {
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
