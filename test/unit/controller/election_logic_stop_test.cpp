// The decisions of leader election, step by step: how a Lease is given up when its holder is stopped or has done its
// work.
#include "election_logic_scene.hpp"

#include <catch2/generators/catch_generators.hpp>

#include <chrono>

using namespace election_logic_test;

TEST_CASE("LE5 on a clean stop the Lease is renewed until the work has ended, then given up") {
    bench b;
    b.lead();
    b.logic.stop();
    CHECK_FALSE(b.logic.work_wanted());
    CHECK(b.logic.holding(b.now));
    for (int i = 0; i < 20; ++i) {
        b.now += b.wait();
        REQUIRE(b.next() == action::update);
        CHECK_FALSE(b.logic.abandon(b.now));
        b.write();
    }
    CHECK(b.logic.holding(b.now));
    b.logic.work_over(b.now);
    CHECK(b.next() == action::get);
    CHECK_FALSE(b.logic.holding(b.now));
    b.logic.found(b.now, held_by("me", "9", 15s, 6));
    CHECK(b.next() == action::update);
    const auto r = b.logic.desired(wall);
    CHECK(r.holder.empty());
    CHECK(r.duration == 1s);
    CHECK(r.transitions == 6);
    b.write();
    CHECK(b.next() == action::over);
    CHECK(b.logic.end() == election_end::stopped);
    CHECK(b.logic.holder().empty());
}

TEST_CASE("LE5 a conflict while giving up reads again and tries again") {
    bench b;
    b.lead_and_stop();
    REQUIRE(b.next() == action::get);
    b.logic.found(b.now, held_by("me"));
    REQUIRE(b.next() == action::update);
    b.logic.failed(b.now, conflict);
    REQUIRE(b.next() == action::get);
    b.logic.found(b.now, held_by("me", "5"));
    REQUIRE(b.next() == action::update);
    b.write();
    CHECK(b.next() == action::over);
}

TEST_CASE("LE5 a Lease that is not ours is not given up") {
    bench b;
    b.lead_and_stop();
    SECTION("held by another") {
        REQUIRE(b.next() == action::get);
        b.logic.found(b.now, held_by("you"));
    }
    SECTION("gone") {
        REQUIRE(b.next() == action::get);
        b.logic.missing();
    }
    CHECK(b.next() == action::over);
    CHECK(b.logic.end() == election_end::stopped);
}

TEST_CASE("LE5 giving up takes the renew deadline at most") {
    bench b;
    b.lead_and_stop();
    const auto from = b.now;
    while (b.next() != action::over) {
        const auto s = b.logic.next(b.now);
        REQUIRE(b.now - from < 11s);
        b.now = s.until;
        if (s.what != action::wait) b.logic.failed(b.now, silent);
    }
    CHECK(b.now - from == 10s);
}

TEST_CASE("LE5 without release_on_stop the Lease is left to expire") {
    bench b(me().release_on_stop(false));
    b.lead();
    b.logic.stop();
    CHECK(b.next() == action::wait);
    b.logic.work_over(b.now);
    CHECK(b.next() == action::over);
}

TEST_CASE("an acquisition of unknown outcome is undone when the candidate is stopped") {
    bench b;
    REQUIRE(b.next() == action::get);
    b.logic.missing();
    REQUIRE(b.next() == action::create);
    b.logic.stop();
    CHECK(b.logic.abandon(b.now));
    b.logic.failed(b.now, silent);
    REQUIRE(b.next() == action::get);
    b.logic.found(b.now, held_by("me"));
    REQUIRE(b.next() == action::update);
    CHECK(b.logic.desired(wall).holder.empty());
    b.write();
    CHECK(b.next() == action::over);
    CHECK(b.logic.end() == election_end::stopped);
}

TEST_CASE("a candidate that is stopped is over at once, and leaves the Lease alone") {
    bench b;
    REQUIRE(b.next() == action::get);
    b.logic.found(b.now, held_by("you"));
    REQUIRE(b.next() == action::wait);
    b.logic.stop();
    CHECK(b.next() == action::over);
    CHECK(b.logic.end() == election_end::stopped);
}

TEST_CASE("an acquisition that succeeds after the stop is given up without any work") {
    bench b;
    REQUIRE(b.next() == action::get);
    b.logic.missing();
    REQUIRE(b.next() == action::create);
    b.logic.stop();
    b.write();
    CHECK_FALSE(b.logic.work_wanted());
    REQUIRE(b.next() == action::get);
    b.logic.found(b.now, held_by("me"));
    REQUIRE(b.next() == action::update);
    b.write();
    CHECK(b.next() == action::over);
}

TEST_CASE("when the work returns by itself, the Lease is given up") {
    bench b;
    b.lead();
    b.logic.work_over(b.now);
    CHECK_FALSE(b.logic.work_wanted());
    REQUIRE(b.next() == action::get);
    b.logic.found(b.now, held_by("me"));
    REQUIRE(b.next() == action::update);
    b.write();
    CHECK(b.next() == action::over);
    CHECK(b.logic.end() == election_end::finished);
}

TEST_CASE("a leader that was stopped or had finished ends as such, even if its last renewal outlasts the Lease") {
    const bool stopped = GENERATE(true, false);
    bench b;
    b.lead();
    b.now += b.wait();
    REQUIRE(b.next() == action::update);
    if (stopped) b.logic.stop();
    b.logic.work_over(b.now);
    CHECK(b.logic.abandon(b.now));
    b.now += 1min;
    b.logic.failed(b.now, silent);
    REQUIRE(b.next() == action::get); // the Lease may still be ours
    b.logic.found(b.now, held_by("you"));
    CHECK(b.next() == action::over);
    CHECK(b.logic.end() == (stopped ? election_end::stopped : election_end::finished));
}

TEST_CASE("a leader that was stopped has lost all the same if its work still ran when its Lease became invalid") {
    const bool looked = GENERATE(true, false); // whether the logic is asked before the work is over
    bench b;
    b.lead();
    b.logic.stop();
    b.now = b.logic.valid_until();
    if (looked) CHECK(b.next() == action::wait);
    b.logic.work_over(b.now);
    CHECK(b.next() == action::over);
    CHECK(b.logic.end() == election_end::lost);
}
