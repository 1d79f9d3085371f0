// The reflector's decisions about watches, back-off and versions, step by step. Names carry the items of the contract
// they pin.
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

TEST_CASE("R12 a watch that ends cleanly is resumed at once", "[reflector]") {
    machine m;
    m.follow("20");
    m.event("21");
    m.pass(1s);
    CHECK_FALSE(m.watch_done());
    CHECK(m.at_once());
    CHECK(m.next().watch.resource_version_ == "21");
    CHECK(m.r.attempts() == 0);
}

TEST_CASE("R12 a watch that is cut in mid-stream is resumed at once, and backs off when nobody answers",
          "[reflector]") {
    machine m;
    m.follow("20");
    m.event("21");
    CHECK(m.watch_done(cut_off) == errc::connection_lost); // X2: reported all the same
    CHECK(m.at_once());
    CHECK(m.next().watch.resource_version_ == "21");
    m.watch_done(refused);
    CHECK(m.wait() == 800ms);
}

TEST_CASE("R13 a very short watch backs off, then watches again from the last version", "[reflector]") {
    machine m;
    m.follow("20");
    m.pass(999ms);
    CHECK(m.watch_done()); // reported as a failure
    CHECK(m.r.phase() == informer_phase::backing_off);
    CHECK(m.wait() == 800ms);
    CHECK(m.next().what == step::watch);
    CHECK(m.last.watch.resource_version_ == "20");
    CHECK_FALSE(m.last.fresh);
    m.r.opened(m.now);
    m.pass(1s);
    CHECK_FALSE(m.watch_done());
    CHECK(m.at_once()); // a second is not short
}

TEST_CASE("R13 a watch that only repeats what is known and ends is no progress", "[reflector]") {
    machine m;
    m.follow("20");
    m.event("20");
    m.r.bookmark_seen(m.now, rv("20"), false);
    CHECK(m.watch_done());
    CHECK(m.wait() == 800ms);
    CHECK(m.next().watch.resource_version_ == "20");
}

TEST_CASE("R14 X17 410 on opening a watch or as ERROR event fetches the state again", "[reflector]") {
    const bool opened = GENERATE(true, false);
    machine m;
    m.sync("20");
    m.pass(10s);
    m.watch_done();
    m.next();
    if (opened) m.r.opened(m.now);
    CHECK(m.watch_done(status(410, "Expired")));
    CHECK(m.r.phase() == informer_phase::listing);
    CHECK(m.wait() == 800ms);
    CHECK(m.next().watch.send_initial_events_);
    CHECK(m.last.watch.resource_version_ == "20");
}

TEST_CASE("R14 410 after an outage: the state is fetched soon, whatever the outage made of the back-off",
          "[reflector]") {
    const bool parked = GENERATE(true, false);
    machine m;
    m.sync("20");
    m.pass(10s);
    m.watch_done(cut_off);
    for (int i = 0; i < 8; ++i) {
        m.next();
        m.watch_done(parked ? status(401) : refused);
        m.wait();
    }
    REQUIRE(m.r.phase() == (parked ? informer_phase::parked : informer_phase::backing_off));
    m.next();
    m.r.opened(m.now);
    m.watch_done(status(410, "Expired"));
    CHECK(m.r.phase() == informer_phase::listing);
    CHECK(m.r.attempts() == 0);
    CHECK(m.wait() == 800ms);
    CHECK(m.next().fresh);
    // Nor does that make the reflector forget the outage.
    m.watch_done(refused);
    CHECK(m.wait() == 30s);
}

TEST_CASE("R14 410 again and again: each fetch comes later", "[reflector]") {
    machine m;
    m.sync("20");
    for (const auto d : {800ms, 1600ms, 3200ms}) {
        m.watch_done(status(410, "Expired"));
        CHECK(m.wait() == d);
        m.sync("20");
    }
}

TEST_CASE("R14 410 again right after a relist: the newest state", "[reflector]") {
    machine m(no_watch_list());
    m.list("20");
    m.expire();
    m.list("20");
    m.expire();
    CHECK(m.next().list.resource_version_.empty());
}

TEST_CASE("R14 after an ERROR event the watch resumes at the last version; if it comes again, the state is fetched",
          "[reflector]") {
    machine m;
    m.follow("20");
    m.watch_done(status(500, "InternalError"));
    m.wait();
    CHECK(m.next().watch.resource_version_ == "20");
    CHECK_FALSE(m.last.fresh);
    m.r.opened(m.now);
    m.watch_done(status(500, "InternalError"));
    m.wait();
    CHECK(m.next().fresh);
}

TEST_CASE("R14 StorageReadError fetches the state again: the deletion of a corrupt object has no event",
          "[reflector]") {
    machine m;
    m.follow("20");
    m.watch_done(status(500, "StorageReadError"));
    m.wait();
    CHECK(m.next().fresh);
}

TEST_CASE("R14 progress between two errors keeps the watch", "[reflector]") {
    machine m;
    m.follow("20");
    for (int i = 0; i < 5; ++i) {
        m.watch_done(status(500, "InternalError"));
        m.wait();
        CHECK_FALSE(m.next().fresh);
        m.r.opened(m.now);
        m.event(std::to_string(30 + i));
    }
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

TEST_CASE("R16 versions only grow while following; unparsable ones are taken as they come", "[reflector]") {
    machine m;
    m.follow("20");
    CHECK(m.event("30") == verdict::apply);
    CHECK(m.event("25") == verdict::apply);
    CHECK(m.r.version().str() == "30");
    CHECK(m.event("") == verdict::apply);
    CHECK(m.r.version().str() == "30");
    CHECK(m.event("99999999999999999999999999") == verdict::apply);
    CHECK(m.r.version().str() == "99999999999999999999999999");
    CHECK(m.event("opaque") == verdict::apply);
    CHECK(m.r.version().str() == "opaque");
}

TEST_CASE("W22 the version of a deletion is where the watch resumes", "[reflector]") {
    machine m;
    m.follow("20");
    m.event("33", watch_event_type::deleted);
    m.watch_done();
    CHECK(m.next().watch.resource_version_ == "33");
}

TEST_CASE("W11 a bookmark moves the version on", "[reflector]") {
    machine m;
    m.follow("20");
    CHECK(m.r.bookmark_seen(m.now, rv("40"), false) == verdict::apply);
    m.pass(5s);
    m.watch_done();
    CHECK(m.next().watch.resource_version_ == "40");
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

TEST_CASE("after a watch whose header is held back, the next header may come with its watch's end, which is soon",
          "[reflector]") {
    machine m;
    m.follow("20");
    m.event("21");
    m.pass(10s);
    m.watch_done();
    CHECK_FALSE(m.next().watch.late_header_);
    m.pass(30s);
    CHECK(m.watch_done(held_back) == errc::header_timeout);
    CHECK(m.wait() == 800ms);
    for (int i = 0; i < 3; ++i) {
        CHECK(m.next().watch.resource_version_ == std::to_string(21 + i));
        CHECK(m.last.watch.late_header_);
        CHECK(m.last.watch.timeout_ >= 30s);
        CHECK(m.last.watch.timeout_ <= 60s);
        m.pass(m.last.watch.timeout_ + 5s);
        CHECK_FALSE(m.r.tick(m.now));
        m.r.opened(m.now);
        m.event(std::to_string(22 + i));
        CHECK_FALSE(m.watch_done());
        CHECK(m.at_once());
    }
    SECTION("silence is no failure, and leads to a check as ever") {
        int watches = 0;
        while (!m.next().check) {
            CHECK(m.last.watch.late_header_);
            m.pass(m.last.watch.timeout_);
            m.r.opened(m.now);
            CHECK_FALSE(m.watch_done());
            CHECK(m.r.attempts() == 0);
            CHECK(m.r.phase() == informer_phase::watching);
            ++watches;
        }
        CHECK(watches >= 5);
        CHECK(watches <= 10);
    }
    SECTION("until a header comes in time") {
        m.next();
        m.r.opened(m.now);
        m.event("30");
        m.pass(30s);
        m.watch_done();
        CHECK_FALSE(m.next().watch.late_header_);
        CHECK(m.last.watch.timeout_ >= 5min);
    }
}

TEST_CASE(
    "R12 a watch that lasted and ended cleanly is an attempt that succeeded, even if it was opened only with its end",
    "[reflector]") {
    machine m;
    m.follow("20");
    m.event("21");
    m.watch_done(status(429));
    m.wait();
    m.next();
    m.pass(40s);
    m.r.opened(m.now);
    CHECK_FALSE(m.watch_done());
    CHECK(m.r.attempts() == 0);
    CHECK(m.r.phase() == informer_phase::watching);
}

TEST_CASE("a state that does not prove what is gone is fetched again, at most half an hour later, until one does",
          "[reflector]") {
    machine m;
    m.follow("10");
    std::vector<informer::clock::duration> pauses;
    for (int i = 0; i < 8; ++i) {
        m.r.absence(m.now, false);
        m.r.bookmark_seen(m.now, rv("10"), false); // else the silence would lead to checks of its own
        const auto began = m.now;
        for (int watches = 0; watches < 10; ++watches) { // watches that end meanwhile change nothing
            m.now = m.r.deadline();
            if (!m.r.tick(m.now)) continue;
            const failure why = m.watch_done(ended_by_us);
            const auto next = m.next();
            REQUIRE(next.what == step::watch);
            m.r.opened(m.now);
            if (!next.watch.send_initial_events_) {
                m.r.bookmark_seen(m.now, rv("10"), false);
                continue;
            }
            CHECK(why == errc::bad_response);
            CHECK(next.watch.resource_version_ == "10");
            break;
        }
        REQUIRE(m.r.collecting());
        pauses.push_back(m.now - began);
        m.r.event_seen(m.now, watch_event_type::added, rv("1"), false);
        REQUIRE(m.r.bookmark_seen(m.now, rv("10"), true) == verdict::complete);
    }
    CHECK(pauses.front() == 30s);
    CHECK(pauses[1] == 1min);
    CHECK(pauses.back() == 15min);
    m.pass(2s);
    m.r.tick(m.now);
    m.r.absence(m.now, true);
    CHECK(m.r.deadline() - m.now > 4min);
    m.r.absence(m.now, false);
    CHECK(m.r.deadline() == m.now + 30s);
    SECTION("also when no watch is under way by then") {
        m.pass(20s);
        m.watch_done(refused);
        while (m.waits()) m.wait();
        m.pass(1min);
        CHECK(m.next().watch.send_initial_events_);
    }
}

TEST_CASE("a state that was fetched again is not fetched once more before it is known what it proves", "[reflector]") {
    machine m;
    m.follow("10");
    m.r.absence(m.now, false);
    m.pass(2min);
    REQUIRE(m.r.tick(m.now));
    m.watch_done(ended_by_us);
    m.sync("12");
    CHECK_FALSE(m.r.tick(m.now));
    m.pass(10s);
    m.watch_done();
    CHECK(m.next().what == step::watch);
    CHECK_FALSE(m.last.watch.send_initial_events_);
    CHECK_FALSE(m.r.tick(m.now));
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

TEST_CASE("W8 a watch open long after its time-out is ended and resumed", "[reflector]") {
    machine m;
    m.follow("20");
    m.event("21");
    m.r.tick(m.now + 2s);
    CHECK(m.r.deadline() == m.now + m.last.watch.timeout_ + reflector::overtime);
    m.pass(m.last.watch.timeout_ + reflector::overtime);
    CHECK(m.r.tick(m.now));
    CHECK(m.watch_done(ended_by_us) == errc::request_timeout);
    CHECK(m.at_once());
    CHECK(m.next().watch.resource_version_ == "21");
}

TEST_CASE("a deletion that does not say of what is looked for in the newest state", "[reflector]") {
    machine m;
    m.follow("20");
    m.event("", watch_event_type::deleted);
    m.r.deletion_lost();
    CHECK(m.watch_done());
    m.wait();
    CHECK(m.next().watch.send_initial_events_);
    CHECK(m.last.watch.resource_version_.empty()); // its version may be unreadable as well
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

TEST_CASE("a version that the server does not understand leads to a fetch of the newest state", "[reflector]") {
    machine m;
    m.follow("20");
    m.watch_done(status(400, "BadRequest"));
    m.wait();
    CHECK(m.next().fresh);
    CHECK(m.last.watch.resource_version_.empty());
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

TEST_CASE("what is known about the source is used: no watch-list if the server has none", "[reflector]") {
    machine m(reflector_options(), watch_list_support::no);
    CHECK(m.next().what == step::list);
    CHECK(m.last.list.limit_ == 500);
}
