// Events that did not arrive at once: when they are tried again, and that each is written once.
#include "event_scene.hpp"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

using namespace server_test;

namespace {

/// A running recorder, while the clock stands still.
struct scene {
    explicit scene(asio::any_io_executor ex, event_recorder_options o = event_recorder_options("c"))
        : b(ex), recorder(b.rt, b.client, std::move(o)), group(ex) {
        group.spawn(recorder.run());
    }

    bench b;
    event_recorder recorder;
    task_group group;

    std::size_t tries() const { return b.asked("create", "events"); }
    /// Whether the recorder waits for the next try. During a request it does not sleep, and otherwise it sleeps for
    /// minutes, until series are over.
    bool asleep() const {
        const auto next = b.clock->next_deadline();
        return next && *next <= b.clock->now() + 13s;
    }
    std::vector<json::value> stored() const { return b.server.list("events.events.k8s.io", "default"); }
    asio::awaitable<void> over() {
        group.stop();
        co_await group.join();
        co_await b.server.stop();
    }
};

constexpr auto ever = std::chrono::nanoseconds::max();

asio::awaitable<void> unreachable() {
    scene s(co_await asio::this_coro::executor);
    s.b.server.inject(fault(fault::kind::refuse).repeat(1000));
    for (int i = 0; i < 5; ++i) s.recorder.event(about("a" + std::to_string(i)));
    for (std::size_t n = 1; n <= 3; ++n) { // one event is tried on behalf of all
        const std::function<bool()> tried = [&] { return s.tries() >= n && s.asleep(); };
        const bool ok = co_await eventually(tried);
        REQUIRE(ok);
        CHECK(s.tries() == n);
        s.recorder.event(about("late" + std::to_string(n)));
        co_await settle(100);
        CHECK(s.tries() == n);
        if (n == 3) s.b.server.clear_faults();
        s.b.clock->advance(13s);
    }
    const bool sent = co_await s.recorder.flush(ever);
    CHECK(sent);
    CHECK(s.recorder.figures().written == 8);
    CHECK(s.stored().size() == 8);
    co_await s.over();
}

asio::awaitable<void> spread() {
    event_recorder_options o("c");
    o.tries(1000).limits(event_limits().series_over(ever));
    scene s(co_await asio::this_coro::executor, o);
    s.b.server.inject(fault(fault::kind::status).with_code(500).repeat(1000));
    s.recorder.event(about("a"));
    clock::duration least = 1h, most{};
    for (std::size_t n = 1; n <= 100; ++n) {
        const std::function<bool()> tried = [&] { return s.tries() == n && s.asleep(); };
        const bool ok = co_await eventually(tried);
        REQUIRE(ok);
        const auto d = *s.b.clock->next_deadline() - s.b.clock->now();
        least = std::min(least, d);
        most = std::max(most, d);
        s.b.clock->advance(d);
    }
    CHECK(least >= 10s);
    CHECK(least < 10250ms);
    CHECK(most <= 12500ms);
    CHECK(most > 12250ms);
    co_await s.over();
}

/// The server stores the event, but the answer is cut off.
asio::awaitable<void> answer_lost() {
    scene s(co_await asio::this_coro::executor);
    s.b.server.inject(fault(fault::kind::cut_after).after_bytes(10).verb("create"));
    s.recorder.event(about("a"));
    const std::function<bool()> waits = [&] { return s.asleep(); };
    const bool ok = co_await eventually(waits);
    REQUIRE(ok);
    CHECK(s.stored().size() == 1);
    CHECK(s.recorder.figures().written == 0);
    s.b.clock->advance(13s);
    bool sent = co_await s.recorder.flush(ever);
    CHECK(sent);
    CHECK(s.tries() == 2); // the second: AlreadyExists
    CHECK(s.recorder.figures().written == 1);
    CHECK(s.recorder.figures().failed == 0);
    s.recorder.event(about("a")); // continues the series of that event
    sent = co_await s.recorder.flush(ever);
    CHECK(sent);
    const auto events = s.stored();
    REQUIRE(events.size() == 1);
    CHECK(events[0].at_pointer("/series/count") == 2);
    co_await s.over();
}

/// Events live for an hour on the server, and somebody may delete them.
asio::awaitable<void> gone() {
    scene s(co_await asio::this_coro::executor);
    s.recorder.event(about("a"));
    bool sent = co_await s.recorder.flush(ever);
    CHECK(sent);
    const auto before = s.stored();
    REQUIRE(before.size() == 1);
    const std::string name(before[0].at_pointer("/metadata/name").as_string());
    s.b.server.remove("events.events.k8s.io", "default", name);
    s.b.clock->advance(5min);
    s.recorder.event(about("a"));
    sent = co_await s.recorder.flush(ever);
    CHECK(sent);
    CHECK(s.b.asked("patch", "events") == 1);
    CHECK(s.recorder.figures().failed == 0);
    const auto events = s.stored();
    REQUIRE(events.size() == 1);
    CHECK(events[0].at("note") == "all is well");
    CHECK(events[0].at_pointer("/series/count") == 2);
    co_await s.over();
}

/// The next event of the kind of one that never came to the server.
asio::awaitable<void> next_of(scene& s) { // lint: law2 the caller keeps it
    s.recorder.event(about("b"));
    const bool sent = co_await s.recorder.flush(ever);
    CHECK(sent);
    CHECK(s.b.asked("patch", "events") == 0);
    const auto events = s.stored();
    REQUIRE_FALSE(events.empty());
    CHECK_FALSE(events.back().as_object().contains("series"));
}

asio::awaitable<void> refused_event() {
    scene s(co_await asio::this_coro::executor);
    s.b.server.inject(fault(fault::kind::status).with_code(422).verb("create"));
    s.recorder.event(about("b"));
    const bool sent = co_await s.recorder.flush(ever);
    CHECK(sent);
    CHECK(s.recorder.figures().failed == 1);
    co_await next_of(s);
    CHECK(s.stored().size() == 1);
    co_await s.over();
}

asio::awaitable<void> dropped_event() {
    scene s(co_await asio::this_coro::executor, event_recorder_options("c").capacity(1));
    s.recorder.event(about("a"));
    s.recorder.event(about("b")); // no room
    const bool sent = co_await s.recorder.flush(ever);
    CHECK(sent);
    CHECK(s.recorder.figures().dropped == 1);
    co_await next_of(s);
    CHECK(s.stored().size() == 2);
    co_await s.over();
}

} // namespace

TEST_CASE("EV1 an event that the server refused, or that had no room, begins no series: the next one is created") {
    SECTION("refused") {
        run_test(refused_event());
    }
    SECTION("no room") {
        run_test(dropped_event());
    }
}
TEST_CASE("EV1 while the server cannot be reached, one event at a time is tried, and all others wait with it") {
    run_test(unreachable());
}
TEST_CASE("EV1 an event is tried again after ten seconds and up to a quarter more") {
    run_test(spread());
}
TEST_CASE("EV1 an event whose answer was lost is found at the next try, and counts as written") {
    run_test(answer_lost());
}
TEST_CASE("EV1 a series whose event was deleted is created again") {
    run_test(gone());
}
