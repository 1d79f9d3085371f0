// What makes a reflector that follows fetch the state again. Names carry the items of the contract they pin.
#include "reflector_machine.hpp"

#include <catch2/generators/catch_generators.hpp>

#include <string>
#include <vector>

using namespace informer;
using namespace informer::testing;

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

TEST_CASE("a version that the server does not understand leads to a fetch of the newest state", "[reflector]") {
    machine m;
    m.follow("20");
    m.watch_done(status(400, "BadRequest"));
    m.wait();
    CHECK(m.next().fresh);
    CHECK(m.last.watch.resource_version_.empty());
}
