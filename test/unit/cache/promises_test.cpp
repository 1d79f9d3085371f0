// What an informer promises beyond client-go; each test bears the name of its promise (docs/promises.md).
#include "informer_fixture.hpp"
#include "root/in_seconds.hpp"

#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <atomic>
#include <map>
#include <thread>

using namespace informer;
using namespace informer::testing;
using namespace std::chrono_literals;
using Catch::Matchers::ContainsSubstring;

namespace {

words sorted(words w) {
    std::sort(w.begin(), w.end());
    return w;
}

/// Runs a coroutine of the test beside the informer and keeps how it ended.
struct spawned {
    bool done = false;
    std::string what;
    error_code code;
};
std::shared_ptr<spawned> spawn(bench& b, asio::awaitable<void> work) {
    auto s = std::make_shared<spawned>();
    asio::co_spawn(b.context, std::move(work), [s](std::exception_ptr e) {
        s->done = true;
        if (!e) return;
        try {
            std::rethrow_exception(e);
        } catch (const error& x) {
            s->what = x.what();
            s->code = x.code();
        }
    });
    b.settle();
    return s;
}

/// Makes the watch end with 410 and the next fetch give these objects.
std::shared_ptr<watch_script> relist(bench& b, watch_script& old, std::vector<std::string> objects, int v) {
    auto next = b.source->on_watch();
    for (auto& o : objects) next->added(std::move(o));
    next->bookmark(std::to_string(v), true);
    old.fail(status_failure(410, "Expired"));
    b.settle();
    b.pass(5s);
    return next;
}

} // namespace

TEST_CASE("completeness: a reader sees the whole old or the whole new state across a relist", "[informer][promise]") {
    constexpr int n = 2000;
    std::vector<std::string> old_state, new_state;
    for (int i = 0; i < n; ++i) old_state.push_back(pod("p" + std::to_string(i), 5, "old"));
    for (int i = n / 2; i < n + n / 2; ++i) new_state.push_back(pod("p" + std::to_string(i), 50, "new"));
    bench b;
    const auto w = b.sync_with(old_state, 100);
    REQUIRE(b.pods.snapshot().size() == n);

    auto next = b.source->on_watch();
    for (auto& o : new_state) next->added(std::move(o));
    next->bookmark("200", true);
    w->fail(status_failure(410, "Expired"));
    b.settle();
    b.clock->advance(2s);
    std::atomic<bool> stop{false};
    std::atomic<int> mixed{0}, seen_old{0}, seen_new{0};
    std::thread reader([&] {
        const informer::lister pods = b.pods.lister();
        while (!stop) {
            int olds = 0, news = 0;
            pods.snapshot().for_each([&](const object& o) {
                ++(o.at_pointer("/spec/note").string_or_empty() == "old" ? olds : news);
                return true;
            });
            if (olds == n && news == 0) {
                ++seen_old;
            } else if (olds == 0 && news == n) {
                ++seen_new;
            } else {
                ++mixed;
            }
        }
    });
    // Step by step, with a look after each one, so that a mixture between two steps is also seen without luck.
    b.context.restart();
    int steps = 0;
    while (b.context.poll_one() != 0) {
        ++steps;
        const auto snapshot = b.pods.snapshot();
        const bool whole = snapshot.size() == n && (snapshot.get("default/p0") ? !snapshot.get("default/p2500")
                                                                               : bool(snapshot.get("default/p2500")));
        if (!whole) ++mixed;
        if (snapshot.get("default/p2500")) break;
    }
    b.settle();
    while (seen_new == 0) std::this_thread::yield();
    stop = true;
    reader.join();
    CHECK(mixed == 0);
    CHECK(steps > 10);
    CHECK(b.note("p0") == "(absent)");
    CHECK(b.note("p2500") == "new");
}

TEST_CASE("order: events come in stream order, and the cache holds them before they are delivered",
          "[informer][promise]") {
    bench b;
    auto events = b.pods.subscribe();
    const auto w = b.sync_with({}, 5);
    bool ahead = true;
    words seen;
    const auto h = b.pods.add_event_handler(
        [&](const object& o, bool) {
            const auto now = b.pods.get(o.key().str());
            ahead = ahead && now && now.resource_version() >= o.resource_version();
            seen.push_back("+" + o.key().name);
        },
        [&](const object&, const object& o) {
            const auto now = b.pods.get(o.key().str());
            ahead = ahead && now && now.resource_version() >= o.resource_version();
            seen.push_back("~" + o.key().name);
        },
        [&](const object& o, bool) {
            ahead = ahead && !b.pods.get(o.key().str());
            seen.push_back("-" + o.key().name);
        });
    b.settle();
    words expected, expected_events;
    int version = 10;
    for (int round = 0; round < 50; ++round) {
        const std::string a = "a" + std::to_string(round);
        w->added(pod(a, version));
        expected_events.push_back("+" + a + ":" + std::to_string(version++));
        w->modified(pod(a, version, "x"));
        expected_events.push_back("~" + a + ":" + std::to_string(version++));
        w->deleted(pod(a, version, "x"));
        expected_events.push_back("-" + a + ":" + std::to_string(version++));
        for (const char* c : {"+", "~", "-"}) expected.push_back(c + a);
        if (round % 7 == 0) b.settle();
    }
    b.settle();
    CHECK(read_all(events) == expected_events);
    CHECK(seen.size() == expected.size());
    CHECK(seen == expected);
    CHECK(ahead);
}

TEST_CASE("bounded and lossless: a slow subscriber coalesces and ends in the final state", "[informer][promise]") {
    bench b;
    auto slow = b.pods.subscribe(subscription_options().capacity(4));
    auto quick = b.pods.subscribe();
    const auto w = b.sync_with({pod("a", 1), pod("b", 1)}, 5);
    read_all(slow);
    read_all(quick);
    for (int i = 0; i < 100; ++i) w->modified(pod(i % 2 ? "a" : "b", 10 + i, std::to_string(i)));
    w->deleted(pod("b", 200));
    b.settle();
    CHECK(read_all(quick).size() == 101);
    CHECK(slow.figures().pending <= 4);
    std::map<std::string, std::string> last;
    while (auto e = slow.try_next())
        last[e->key().name] = e->kind == event_kind::deleted ? "-" : e->current.resource_version().str();
    CHECK(last == std::map<std::string, std::string>{{"a", "109"}, {"b", "-"}});
    CHECK(slow.figures().coalesced > 90);
}

TEST_CASE("late subscribers: nothing missed, nothing twice, at whatever moment they come", "[informer][promise]") {
    // The moment is a number of handlers after new events came in.
    bool behind_everything = false;
    for (int moment = 0; moment < 400 && !behind_everything; ++moment) {
        bench b;
        const auto w = b.sync_with({pod("a", 1), pod("b", 2)}, 5);
        auto stalling = b.pods.subscribe(subscription_options().capacity(1).policy(overflow_policy::back_pressure));
        for (int i = 0; i < 6; ++i) w->modified(pod("a", 10 + i, std::to_string(i)));
        w->deleted(pod("b", 20)).added(pod("c", 21));
        b.context.restart();
        for (int k = 0; k < moment; ++k) {
            if (b.context.poll_one() == 0) {
                stalling.try_next(); // lets the informer go on
                b.context.restart();
                if (b.context.poll_one() == 0 && w->pending() == 0) behind_everything = true;
            }
        }
        auto late = b.pods.subscribe();
        std::map<std::string, std::string> state;
        bool twice = false;
        const auto take = [&] {
            while (auto e = late.try_next()) {
                const std::string name = e->key().name;
                const std::string v = e->current.resource_version().str();
                if (e->kind == event_kind::deleted) {
                    twice = twice || !state.contains(name);
                    state.erase(name);
                } else {
                    twice = twice || (e->kind == event_kind::added) == state.contains(name) || state[name] == v;
                    if (e->kind == event_kind::updated)
                        twice = twice || e->previous.resource_version().str() != state[name];
                    state[name] = v;
                }
            }
        };
        for (int i = 0; i < 60; ++i) {
            b.settle();
            stalling.try_next();
            take();
        }
        INFO("moment " << moment);
        CHECK_FALSE(twice);
        CHECK(state == std::map<std::string, std::string>{{"a", "15"}, {"c", "21"}});
    }
    CHECK(behind_everything);
}

TEST_CASE("unsubscribing: no delivery afterwards", "[informer][promise]") {
    bench b;
    const auto w = b.sync_with({pod("a", 1)}, 5);
    auto s = b.pods.subscribe();
    read_all(s);
    int calls = 0;
    auto h = b.pods.add_event_handler([&](const object&, bool) { ++calls; }, nullptr, nullptr);
    b.settle();
    CHECK(calls == 1);
    w->added(pod("b", 6)).added(pod("c", 7));
    b.settle();
    CHECK(calls == 3);
    s.close();
    h.remove();
    w->added(pod("d", 8));
    b.settle();
    CHECK_FALSE(s.try_next());
    CHECK(calls == 3);
    h.remove(); // the second call does nothing
}

TEST_CASE("sync is per subscription", "[informer][promise]") {
    bench b;
    auto early = b.pods.subscribe();
    CHECK_FALSE(early.has_synced());
    b.sync_with({pod("a", 1), pod("b", 1)}, 5);
    auto late = b.pods.subscribe();
    CHECK(b.pods.has_synced());
    CHECK_FALSE(early.has_synced());
    CHECK_FALSE(late.has_synced());
    read_all(early);
    CHECK(early.has_synced());
    CHECK_FALSE(late.has_synced());
    read_all(late);
    CHECK(late.has_synced());
}

TEST_CASE("sync can fail: synced() says which informer and its last error", "[informer][promise]") {
    bench b(informer_options().name("the pods"));
    b.source->on_watch_fail(status_failure(403, "Forbidden", "user x cannot watch pods"));
    list_script refused;
    refused.fail(status_failure(403, "Forbidden", "user x cannot list pods"));
    b.source->on_list(refused);
    b.start();
    const auto waiting = spawn(b, b.pods.synced(10s));
    CHECK_FALSE(waiting->done);
    b.pass(10s);
    REQUIRE(waiting->done);
    CHECK(waiting->code == errc::deadline_exceeded);
    CHECK_THAT(waiting->what, ContainsSubstring("the pods") && ContainsSubstring("user x cannot list pods"));
    CHECK(b.pods.status().phase == informer_phase::parked);

    SECTION("and with stopped when it ends") {
        const auto again = spawn(b, b.pods.synced(1h));
        b.pods.stop();
        b.settle();
        CHECK(again->code == errc::stopped);
    }
    SECTION("and returns when it succeeds after all") {
        const auto again = spawn(b, b.pods.synced(1h));
        b.source->on_watch()->added(pod("a", 1)).bookmark("2", true);
        b.pass(1min);
        CHECK(again->done);
        CHECK_FALSE(again->code);
    }
}

TEST_CASE("sync can fail: synced() says that a server accepts and never answers", "[informer][promise]") {
    bench b;
    b.source->on_watch();
    b.start();
    const auto waiting = spawn(b, b.pods.synced(10s));
    b.pass(10s);
    REQUIRE(waiting->done);
    CHECK(waiting->code == errc::deadline_exceeded);
    CHECK_THAT(waiting->what, ContainsSubstring("nothing has come from the server"));
    b.pass(20s);
    CHECK(b.pods.status().last_error == errc::header_timeout);
}

TEST_CASE("sync can fail: synced() of a subscription says which informer ended and its last error",
          "[informer][promise]") {
    bench b(informer_options().name("the pods"));
    b.source->on_watch_fail(status_failure(403, "Forbidden", "user x cannot watch pods"));
    list_script refused;
    refused.fail(status_failure(403, "Forbidden", "user x cannot list pods"));
    b.source->on_list(refused);
    auto mine = b.pods.subscribe(subscription_options().name("mine"));
    auto closed = b.pods.subscribe();
    b.start();
    const auto waiting = spawn(b, mine.synced());
    const auto given_up = spawn(b, closed.synced());
    closed.close();
    b.settle();
    CHECK(given_up->code == errc::stopped);
    CHECK_THAT(given_up->what, ContainsSubstring("subscription: closed before its initial state was complete"));
    CHECK_FALSE(waiting->done);
    b.pods.stop();
    b.settle();
    CHECK(waiting->code == errc::stopped);
    auto late = b.pods.subscribe(subscription_options().name("mine"));
    for (const auto& told : {waiting, spawn(b, mine.synced()), spawn(b, late.synced())}) { // also if asked later
        CHECK_THAT(told->what, ContainsSubstring("subscription mine") && ContainsSubstring("the pods") &&
                                   ContainsSubstring("user x cannot list pods"));
    }
}

TEST_CASE("read your writes: wait_until returns when the version is in the cache", "[informer][promise]") {
    bench b;
    const auto w = b.sync_with({pod("a", 1)}, 5);
    const auto there = spawn(b, b.pods.wait_until(resource_version("5"), 1h));
    CHECK(there->done);
    CHECK_FALSE(there->code);
    const auto coming = spawn(b, b.pods.wait_until(resource_version("10000000000000000000000000"), 1h));
    w->modified(pod("a", 9, "x"));
    b.settle();
    CHECK_FALSE(coming->done);
    w->bookmark("10000000000000000000000001");
    b.settle();
    CHECK(coming->done);
    CHECK_FALSE(coming->code);
    const auto never = spawn(b, b.pods.wait_until(resource_version("20000000000000000000000000"), 5s));
    b.pass(5s);
    CHECK(never->code == errc::deadline_exceeded);
    CHECK(spawn(b, b.pods.wait_until(resource_version("abc"), 5s))->code == errc::bad_configuration);
}

TEST_CASE("read your writes: a new epoch ends the wait", "[informer][promise]") {
    bench b;
    auto events = b.pods.subscribe();
    const auto w = b.sync_with({pod("a", 50), pod("b", 51), pod("c", 52)}, 100);
    read_all(events);
    const auto waiting = spawn(b, b.pods.wait_until(resource_version("200"), 1h));
    w->bookmark("90"); // below the last version seen
    list_script check;
    check.version("70");
    b.source->on_list(check);
    auto next = b.source->on_watch();
    next->added(pod("a", 50)).added(pod("b", 49, "older")).bookmark("70", true);
    b.settle();
    b.pass(2s);
    CHECK(waiting->code == errc::new_epoch);
    CHECK(b.pods.status().epoch == 2);
    CHECK(b.pods.snapshot().resource_version().str() == "70");
    CHECK(b.note("b") == "older"); // replaced by difference, also backwards
    CHECK(sorted(read_all(events)) == words{"-c:52?#", "~b:49#"});
    CHECK(b.log.contains("back in time"));
    const auto in_new = spawn(b, b.pods.wait_until(resource_version("71"), 1h));
    next->modified(pod("b", 72));
    b.settle();
    CHECK(in_new->done);
    CHECK_FALSE(in_new->code);
}

TEST_CASE("nothing hides: status tells when the server last showed that the cache is not behind it",
          "[informer][promise]") {
    bench b;
    const auto behind_for = [&] { return b.clock->wall() - b.pods.status().confirmed; };
    CHECK(b.pods.status().confirmed == std::chrono::system_clock::time_point());
    auto w = b.sync_with({pod("a", 5)}, 6);
    CHECK(behind_for() == 0s);
    b.pass(10s);
    CHECK(behind_for() == 10s);
    w->modified(pod("a", 7));
    b.settle();
    CHECK(behind_for() == 0s);
    b.pass(20s);
    w->bookmark("8", false);
    b.settle();
    CHECK(behind_for() == 0s);

    // Neither a failed attempt, nor a watch that opens and stays silent, nor a 410 shows it.
    b.source->on_watch_fail(failure(errc::connection_refused, "watch pods"));
    auto silent = b.source->on_watch();
    silent->open();
    w->fail(failure(errc::connection_lost, "watch pods"));
    for (int i = 0; i < 5; ++i) b.pass(2s);
    REQUIRE(b.pods.status().phase == informer_phase::watching);
    CHECK(behind_for() == 10s);
    auto again = b.source->on_watch();
    silent->fail(status_failure(410, "Expired"));
    for (int i = 0; i < 5; ++i) b.pass(2s);
    CHECK(behind_for() == 20s);
    again->added(pod("a", 9));
    b.settle();
    CHECK(behind_for() == 20s); // the new state is not complete
    again->bookmark("10", true);
    b.settle();
    CHECK(behind_for() == 0s);
}

TEST_CASE("nothing hides: status tells the phase, the last error with the server's text, and since when",
          "[informer][promise]") {
    bench b;
    CHECK(b.pods.status().phase == informer_phase::idle);
    words phases, errors;
    b.pods.on_state_change([&](const informer_status& s) {
        const std::string p(to_string(s.phase));
        if (phases.empty() || phases.back() != p) phases.push_back(p);
    });
    b.pods.on_error([&](std::string_view phase, const failure& f) {
        errors.push_back(std::string(phase) + " " + std::string(f.code().message()));
    });
    auto w = b.sync_with({pod("a", 5)}, 6);
    auto s = b.pods.status();
    CHECK(s.resource == "pods");
    CHECK(s.synced);
    CHECK(s.objects == 1);
    CHECK(s.bytes > 0);
    CHECK(s.watch_lists == 1);
    CHECK(s.bytes_received > 100);
    CHECK(s.last_contact == b.clock->wall());
    const auto since = s.since;

    b.clock->advance(10s);
    for (int i = 0; i < 5; ++i) b.source->on_watch_fail(status_failure(500, "InternalError", "etcd is on fire"));
    w->fail(failure(errc::connection_lost, "watch pods"));
    b.settle();
    s = b.pods.status();
    CHECK(s.phase == informer_phase::backing_off);
    CHECK(s.attempts == 1);
    CHECK_THAT(s.last_error.what(), ContainsSubstring("etcd is on fire"));
    CHECK(s.last_error_phase == "open");
    CHECK(s.since > since);
    // The log says when: "… etcd is on fire; will be tried again in 1.3 s".
    const auto pause = std::chrono::duration_cast<std::chrono::milliseconds>(s.next_attempt - b.clock->wall());
    CHECK(b.log.contains("etcd is on fire; will be tried again in " + informer::detail::roughly(pause)));
    CHECK(b.log.contains(": synced, 1 object at version "));
    for (int i = 0; i < 3; ++i) b.pass(1min);
    CHECK(b.pods.status().attempts == 4);
    CHECK(b.log.count(log_level::warning) == 1); // once per change, not per retry

    w = b.source->on_watch();
    w->bookmark("10").open();
    for (int i = 0; i < 3; ++i) b.pass(1min);
    w->added(pod("z", 99)); // whichever watch or fetch gets this: the informer is alive
    b.settle();
    b.pods.stop();
    b.settle();
    CHECK(errors.size() >= 5);
    CHECK(errors[0] == "stream " + make_error_code(errc::connection_lost).message());
    CHECK(phases.back() == "stopped");
    CHECK(phases[0] == "listing");
    CHECK(phases[1] == "watching");
}

TEST_CASE("nothing hides: a removed resource parks the informer until it is back, the cache stays",
          "[informer][promise]") {
    bench b;
    const auto w = b.sync_with({pod("a", 5)}, 6);
    b.source->on_watch_fail(status_failure(404, "NotFound", "the server could not find the requested resource"));
    b.source->on_watch_fail(status_failure(404, "NotFound", "the server could not find the requested resource"));
    w->end();
    b.settle();
    const auto s = b.pods.status();
    CHECK(s.phase == informer_phase::parked);
    CHECK_THAT(s.last_error.what(), ContainsSubstring("could not find"));
    CHECK(s.next_attempt > b.clock->wall());
    CHECK(s.next_attempt <= b.clock->wall() + 2s);
    CHECK(b.pods.snapshot().size() == 1);
    b.pass(2min);
    CHECK(b.pods.status().phase == informer_phase::parked);
    b.source->on_watch()->added(pod("b", 8)).bookmark("9", true);
    b.pass(2min);
    CHECK(b.pods.status().phase == informer_phase::watching);
    CHECK(b.pods.status().next_attempt == std::chrono::system_clock::time_point());
    CHECK_FALSE(b.pods.status().last_error);
    CHECK(b.note("a") == "(absent)");
    CHECK(b.pods.snapshot().size() == 1);
}

TEST_CASE("typed events: events that a relist reveals say so", "[informer][promise]") {
    bench b;
    auto events = b.pods.subscribe(subscription_options().sync_marks());
    const auto w = b.sync_with({pod("a", 1), pod("b", 2), pod("c", 3)}, 5);
    read_all(events);
    const auto next = relist(b, *w, {pod("a", 1), pod("b", 7, "new"), pod("d", 8)}, 9);
    auto got = read_all(events);
    REQUIRE(got.size() == 4);
    CHECK(got[0] == "-c:3?#"); // C5: deletes first
    CHECK(got[3] == "*9");
    CHECK(sorted(got) == words{"*9", "+d:8#", "-c:3?#", "~b:7#"});
    // Also when a relist finds no difference.
    relist(b, *next, {pod("a", 1), pod("b", 7, "new"), pod("d", 8)}, 12);
    CHECK(read_all(events) == words{"*12"});
}

TEST_CASE("typed events: a key whose uid changed is deleted and added", "[informer][promise]") {
    bench b;
    auto events = b.pods.subscribe();
    const auto w = b.sync_with({pod("a", 1, "", "u1")}, 5);
    read_all(events);
    w->modified(pod("a", 6, "", "u2"));
    b.settle();
    CHECK(read_all(events) == words{"-a:1?", "+a:6"});
    relist(b, *w, {pod("a", 8, "", "u3")}, 9);
    CHECK(read_all(events) == words{"-a:6?#", "+a:8#"});
}

TEST_CASE("completeness: a watch that misses a deletion makes the informer fetch the state again",
          "[informer][promise]") {
    bench b;
    auto events = b.pods.subscribe();
    const auto w = b.sync_with({pod("a", 1, "", "u1"), pod("b", 2)}, 5);
    read_all(events);
    SECTION("another object has taken the place of ours") {
        w->modified(pod("a", 7, "", "u2"));
        b.settle();
        CHECK(read_all(events) == words{"-a:1?", "+a:7"});
    }
    SECTION("an object other than the cached one was deleted") {
        w->deleted(pod("a", 7, "", "u2"));
        b.settle();
        const auto gone = events.try_next(); // ours: the other one was never reported
        REQUIRE(gone);
        CHECK(gone->kind == event_kind::deleted);
        CHECK_FALSE(gone->final_state_known);
        CHECK(gone->current.meta().uid() == "u1");
        CHECK(gone->version.str() == "1");
        CHECK_FALSE(events.try_next());
    }
    b.source->on_watch()->added(pod("a", 8, "", "u3")).bookmark("9", true); // b is gone, too
    CHECK(b.pods.snapshot().size() >= 1);
    b.pass(2s); // within two seconds
    b.settle();
    CHECK(b.pods.snapshot().size() == 1);
    CHECK(b.pods.status().relists == 1);
    CHECK(b.log.count("nothing told that that was deleted") == 1);
}

TEST_CASE("nothing starts by itself: reading does not start an informer", "[informer][promise]") {
    bench b;
    CHECK(b.pods.snapshot().size() == 0);
    CHECK_THROWS_AS(b.pods.lister().get("default/a"), error);
    auto s = b.pods.subscribe();
    b.settle();
    CHECK(b.source->calls().empty());
    CHECK_FALSE(s.try_next());
}
