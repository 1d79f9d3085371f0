// How a reflector meets failures: back-off, Retry-After, parking, and what counts as success. Names carry the items of
// the contract they pin.
#include "reflector_machine.hpp"

#include <catch2/generators/catch_generators.hpp>

using namespace informer;
using namespace informer::testing;

TEST_CASE("R11 connection refused or 429 on a watch: back off and watch again, no relist", "[reflector]") {
    const failure f =
        GENERATE(as<failure>(), refused, status(429, "TooManyRequests"), status(503, "ServiceUnavailable"));
    machine m;
    m.follow("20");
    m.pass(10s);
    m.watch_done();
    for (int i = 0; i < 40; ++i) {
        m.next();
        CHECK(m.last.what == step::watch);
        CHECK(m.last.watch.resource_version_ == "20");
        CHECK_FALSE(m.last.watch.send_initial_events_);
        m.watch_done(f);
        const auto d = m.wait();
        if (i >= 6) CHECK(d == 30s);
    }
    CHECK(m.r.attempts() == 40);
    CHECK(m.r.phase() == informer_phase::backing_off);
}

TEST_CASE("R11 Retry-After is waited for at least", "[reflector]") {
    const int code = GENERATE(429, 503);
    machine m;
    m.follow("20");
    m.watch_done(status(code, "", 17s));
    CHECK(m.wait() == 17s);
    m.next();
    m.watch_done(status(code, "", std::chrono::seconds(1'000'000'000)));
    CHECK(m.wait() == reflector::longest_retry_after); // a server cannot stop us for ever
    m.next();
    m.watch_done(status(code, "", 1s));
    CHECK(m.wait() == 3200ms);
}

TEST_CASE("R11 a server that says when to come again is not asked later because of earlier failures", "[reflector]") {
    machine m;
    m.follow("20");
    for (int i = 0; i < 10; ++i) { // it was away
        m.watch_done(refused);
        m.wait();
        m.next();
    }
    m.watch_done(status(429, "TooManyRequests", 1s));
    CHECK(m.wait() == 1s);
    m.next();
    m.watch_done(status(429, "TooManyRequests", 1s));
    CHECK(m.wait() == 1600ms); // told so again: asks less often
    m.next();
    m.watch_done(refused);
    CHECK(m.wait() == 30s); // the outage is not forgotten either
}

TEST_CASE("that a resource was missing for long does not slow down later retries", "[reflector]") {
    machine m(no_watch_list());
    for (int i = 0; i < 8; ++i) {
        REQUIRE(m.next().what == step::list);
        m.list_failed(status(404, "NotFound"));
        m.wait();
    }
    m.list("5"); // its CustomResourceDefinition came
    m.r.opened(m.now);
    m.event("6");
    m.pass(30s);
    m.watch_done(cut_off);
    REQUIRE(m.next().what == step::watch);
    m.watch_done(refused);
    CHECK(m.wait() == 800ms);
    // A resource that comes and goes is still not asked for without a pause.
    REQUIRE(m.next().what == step::watch);
    m.watch_done(status(404, "NotFound"));
    CHECK(m.wait() >= 8s);
}

TEST_CASE("401, 403 and 404 park at once and are tried again: a server that starts answers so for a moment",
          "[reflector]") {
    machine m;
    m.follow("20");
    SECTION("401 and 403 on a watch: the same watch again, no relist; up to 30 s apart") {
        const int code = GENERATE(401, 403);
        int watches = 0;
        for (const auto expected : {800ms, 1600ms, 3200ms, 6400ms, 12800ms, 25600ms, 30000ms, 30000ms, 30000ms}) {
            if (m.last.check) { // after some 403s on opening: perhaps lists are allowed
                m.list_failed(status(code));
            } else {
                m.watch_done(status(code));
                ++watches;
            }
            CHECK(m.r.phase() == informer_phase::parked);
            CHECK(m.wait() == expected);
            if (m.next().check) continue;
            CHECK(m.last.watch.resource_version_ == "20");
            CHECK_FALSE(m.last.fresh);
        }
        CHECK(watches == (code == 401 ? 9 : 7));
    }
    SECTION("404: the resource was removed; up to 10 s apart, and its state is fetched when it is back") {
        for (const auto expected : {800ms, 1600ms, 3200ms, 6400ms}) {
            m.watch_done(status(404, "NotFound"));
            CHECK(m.r.phase() == informer_phase::parked);
            CHECK(m.wait() == expected);
            CHECK(m.next().fresh);
        }
        for (int i = 0; i < 20; ++i) {
            m.watch_done(status(404, "NotFound"));
            const auto waited = m.wait();
            CHECK(waited >= 8s);
            CHECK(waited <= 10s);
            m.next();
        }
        m.r.opened(m.now);
        m.event("30", watch_event_type::added);
        m.r.bookmark_seen(m.now, rv("31"), true);
        CHECK(m.r.phase() == informer_phase::watching);
        CHECK(m.r.attempts() == 0);
    }
}

TEST_CASE("X1 failing for long never resets the back-off, healthy time does", "[reflector]") {
    machine m;
    m.follow("20");
    m.event("21");
    m.watch_done();
    m.next();
    for (int i = 0; i < 10; ++i) {
        m.watch_done(refused);
        m.wait();
        m.next();
    }
    m.pass(24h);
    m.watch_done(refused);
    CHECK(m.wait() == 30s);
    SECTION("a silent watch is not healthy time") {
        m.next();
        m.r.opened(m.now);
        m.pass(3min);
        m.watch_done();
        m.next();
        m.watch_done(refused);
        CHECK(m.wait() == 30s);
    }
    SECTION("two minutes of watches that delivered, summed up") {
        for (int i = 0; i < 4; ++i) {
            m.next();
            m.r.opened(m.now);
            m.event(std::to_string(50 + i));
            m.pass(31s);
            m.watch_done();
        }
        m.next();
        m.watch_done(refused);
        CHECK(m.wait() == 800ms);
    }
}

TEST_CASE("an event or a bookmark ends the failures in a row", "[reflector]") {
    for (const bool by_bookmark : {true, false}) {
        machine m;
        m.follow("10");
        m.fail_twice();
        CHECK(m.r.phase() == informer_phase::backing_off);
        m.next();
        m.r.opened(m.now);
        CHECK(m.r.attempts() == 2);
        if (by_bookmark)
            CHECK(m.r.bookmark_seen(m.now, rv("11"), false) == verdict::apply);
        else
            CHECK(m.event("11") == verdict::apply);
        CHECK(m.r.attempts() == 0);
        CHECK(m.r.phase() == informer_phase::watching);
    }
}

TEST_CASE("failures that the reflector itself finds name the resource, like those of a source", "[reflector]") {
    reflector_options o;
    o.of_ = "pods in ns1";
    machine m(o);
    m.follow("20");
    m.pass(m.last.watch.timeout_ + reflector::overtime);
    REQUIRE(m.r.tick(m.now));
    CHECK(m.watch_done(ended_by_us).message() == "watch pods in ns1: open long after its time-out");
    o.watch_list_ = false;
    machine lists(o);
    lists.next();
    lists.pass(2min);
    REQUIRE(lists.r.tick(lists.now));
    lists.list_failed(ended_by_us);
    CHECK(lists.why.message() == "list pods in ns1: no progress");
}

TEST_CASE("a list without a byte for two minutes is ended and tried again", "[reflector]") {
    machine m(no_watch_list());
    m.next();
    m.pass(119s);
    CHECK_FALSE(m.r.tick(m.now));
    m.r.progress(m.now);
    CHECK(m.r.deadline() == m.now + 2min);
    m.pass(2min);
    CHECK(m.r.tick(m.now));
    CHECK_FALSE(m.list_failed(ended_by_us));
    CHECK(m.why == errc::body_idle_timeout);
    CHECK(m.wait() == 800ms);
    CHECK(m.next().what == step::list);
}

TEST_CASE("a watch that stays open for a second is a successful attempt", "[reflector]") {
    machine m;
    m.follow("20");
    m.fail_twice();
    m.next();
    m.r.opened(m.now);
    CHECK(m.r.deadline() == m.now + 1s);
    CHECK(m.r.phase() == informer_phase::backing_off);
    m.pass(1s);
    CHECK_FALSE(m.r.tick(m.now));
    CHECK(m.r.attempts() == 0);
    CHECK(m.r.phase() == informer_phase::watching);
}

TEST_CASE("watches that are refused after each list that works are one lasting failure", "[reflector]") {
    const failure no = GENERATE(as<failure>(), status(400, "BadRequest"), status(404, "NotFound"));
    machine m(no_watch_list());
    m.list("20");
    std::uint64_t attempts = 0;
    for (unsigned round = 0; round < 6; ++round) {
        m.watch_done(no);
        const auto pause = m.wait();
        CHECK(pause <= 1min);
        if (round >= reflector::most_watch_refusals) {
            CHECK(m.r.attempts() > attempts);
            CHECK(m.r.phase() == informer_phase::backing_off);
        }
        attempts = m.r.attempts();
        CHECK(m.next().what == step::list);
        // Once it is known that only lists work, they may come from the server's cache.
        if (round > reflector::most_watch_refusals) CHECK_FALSE(m.last.list.resource_version_.empty());
        CHECK(m.page_done(std::to_string(21 + round)) == page::complete);
        m.next();
    }
    m.stay_proven();
    CHECK(m.r.attempts() == 0);
    CHECK(m.r.phase() == informer_phase::watching);
}
