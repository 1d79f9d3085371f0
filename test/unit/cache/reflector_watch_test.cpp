// The reflector's decisions about watches and versions, step by step. Names carry the items of the contract they pin.
#include "reflector_machine.hpp"

using namespace informer;
using namespace informer::testing;

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

TEST_CASE("what is known about the source is used: no watch-list if the server has none", "[reflector]") {
    machine m(reflector_options(), watch_list_support::no);
    CHECK(m.next().what == step::list);
    CHECK(m.last.list.limit_ == 500);
}
