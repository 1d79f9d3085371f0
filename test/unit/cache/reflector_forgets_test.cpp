// What a reflector remembers of the past, and when it forgets that.
#include "reflector_machine.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <string>

using namespace informer;
using namespace informer::testing;

TEST_CASE("WL7 broken watch-lists count only in a row: one that came to its end is between them", "[reflector]") {
    machine m;
    const auto breaks = [&m] {
        m.next();
        REQUIRE(m.last.watch.send_initial_events_);
        m.r.opened(m.now);
        m.event("1", watch_event_type::added);
        m.watch_done(cut_off);
        m.wait();
    };
    breaks();
    m.follow("20");
    m.expire();
    breaks();
    CHECK(m.next().what == step::watch); // and no list
}

TEST_CASE("WL7 once a server is no longer assumed to lack watch-list, a single refusal proves nothing again",
          "[reflector]") {
    machine m;
    const auto refuse_and_list = [&m](const std::string& version) {
        m.next();
        REQUIRE(m.last.watch.send_initial_events_);
        m.watch_done(status(403, "Forbidden"));
        m.list(version);
        m.r.opened(m.now);
        m.event(version + "1");
    };
    refuse_and_list("5");
    m.expire();
    refuse_and_list("60");
    REQUIRE(m.r.support() == watch_list_support::no);
    m.pass(2h);
    m.expire();
    refuse_and_list("700");
    CHECK(m.r.support() == watch_list_support::unknown);
}

TEST_CASE("R5 the newest state is read once: later lists are at the last seen version", "[reflector]") {
    machine m(no_watch_list());
    m.list("5");
    m.expire();
    REQUIRE(m.next().list.resource_version_ == "5");
    m.list_failed(status(410, "Expired"));
    REQUIRE(m.next().list.resource_version_.empty());
    REQUIRE(m.page_done("9") == page::complete);
    REQUIRE(m.next().what == step::watch);
    m.r.opened(m.now);
    m.event("10");
    m.expire();
    CHECK(m.next().list.resource_version_ == "10");
}

TEST_CASE("WL10 a refusal by 403 counts once, not again with a list that comes for another reason", "[reflector]") {
    machine m;
    m.next();
    m.watch_done(status(403, "Forbidden"));
    m.list("20");
    m.r.opened(m.now);
    m.expire();
    CHECK(m.next().watch.send_initial_events_);
    m.watch_done(status(500, "InternalError")); // lists this time
    m.list("21");
    CHECK(m.r.support() == watch_list_support::unknown);
}

TEST_CASE("PG failures are counted for each page by itself", "[reflector]") {
    machine m(no_watch_list());
    m.next();
    REQUIRE(m.page_done("5", "a") == page::more);
    for (unsigned page_of = 0; page_of < 3; ++page_of) {
        for (unsigned i = 0; i + 1 < reflector::most_page_failures; ++i) {
            m.next();
            REQUIRE(m.list_failed(cut_off));
            m.wait();
        }
        m.next();
        REQUIRE(m.page_done("5", "b" + std::to_string(page_of)) == page::more);
    }
}

TEST_CASE("R15 where watches are forbidden, a newer state is listed from the server's cache", "[reflector]") {
    machine m(no_watch_list());
    m.list("5");
    for (unsigned i = 1; i < reflector::most_watch_refusals; ++i) {
        m.watch_done(status(403, "Forbidden"));
        m.wait();
        m.next();
    }
    m.watch_done(status(403, "Forbidden"));
    m.wait();
    REQUIRE(m.next().check);
    REQUIRE(m.page_done("7") == page::checked);
    REQUIRE(m.next().what == step::list);
    CHECK(m.last.list.resource_version_ == "5"); // not older than that, without reading all from etcd every half minute
}

TEST_CASE("R15 a watch that is forbidden while it is open does not count as one that never opened", "[reflector]") {
    machine m;
    m.follow("20");
    for (unsigned refusals = 0; refusals <= reflector::most_watch_refusals; ++refusals) {
        REQUIRE_FALSE(m.last.check);
        m.watch_done(status(403, "Forbidden"));
        m.wait();
        m.next();
    }
    CHECK(m.last.check);
}

TEST_CASE("R14 a 410 between watches that are refused after each list does not end that failure", "[reflector]") {
    machine m(no_watch_list());
    m.list("20");
    for (unsigned i = 0; i < reflector::most_watch_refusals; ++i) {
        m.watch_done(status(400, "BadRequest"));
        m.wait();
        m.list("20");
    }
    const auto attempts = m.r.attempts();
    REQUIRE(m.r.phase() == informer_phase::backing_off);
    m.expire();
    CHECK(m.r.attempts() == attempts);
    CHECK(m.r.phase() == informer_phase::backing_off);
    CHECK(m.r.relists());
    m.list("20");
    CHECK(m.r.phase() == informer_phase::backing_off);
    m.stay_proven();
    CHECK(m.r.attempts() == 0);
    CHECK(m.r.phase() == informer_phase::watching);
}

TEST_CASE("WL7 a watch-list that works makes earlier refusals not count", "[reflector]") {
    machine m;
    m.next();
    m.watch_done(status(403, "Forbidden"));
    m.list("5");
    m.r.opened(m.now);
    m.event("6");
    m.expire();
    m.follow("20");
    m.event("21");
    m.expire();
    REQUIRE(m.next().watch.send_initial_events_);
    m.watch_done(status(403, "Forbidden")); // a server that starts
    m.list("30");
    CHECK(m.r.support() == watch_list_support::yes);
}

TEST_CASE("WL7 a refusal that the list met, too, is forgotten: it does not count with a later one", "[reflector]") {
    machine m;
    m.next();
    m.watch_done(status(403, "Forbidden")); // a server that starts
    m.next();
    m.list_failed(status(403, "Forbidden"));
    m.wait();
    REQUIRE(m.next().watch.send_initial_events_);
    m.watch_done(status(500, "InternalError"));
    m.list("5");
    m.r.opened(m.now);
    m.event("6");
    m.expire();
    REQUIRE(m.next().watch.send_initial_events_);
    m.watch_done(status(403, "Forbidden"));
    m.list("9");
    CHECK(m.r.support() == watch_list_support::unknown);
}

TEST_CASE("PG each list looks for circles in its own tokens only: a server may reuse those of an earlier list",
          "[reflector]") {
    machine m(no_watch_list());
    m.next();
    REQUIRE(m.page_done("5", "second") == page::more);
    m.next();
    REQUIRE(m.page_done("5") == page::complete);
    m.next();
    m.r.opened(m.now);
    m.event("6");
    m.expire();
    m.next();
    CHECK(m.page_done("7", "second") == page::more);
}

TEST_CASE("X5 silence of an empty resource proves nothing, whatever an earlier list had", "[reflector]") {
    machine m;
    for (int i = 0; i < 2; ++i) {
        m.next();
        m.r.opened(m.now);
        m.watch_done(cut_off);
        m.wait();
    }
    REQUIRE(m.next().what == step::list);
    REQUIRE(m.page_done("5", "", 3) == page::complete);
    m.next();
    m.r.opened(m.now);
    m.event("6");
    m.expire();
    REQUIRE(m.next().watch.send_initial_events_);
    m.r.opened(m.now);
    m.pass(reflector::silence);
    REQUIRE(m.r.tick(m.now));
    m.watch_done(ended_by_us);
    REQUIRE(m.next().what == step::list);
    REQUIRE(m.page_done("7", "", 0) == page::complete);
    CHECK(m.r.support() == watch_list_support::unknown);
}

TEST_CASE("WL a watch-list does not stay open longer than it was asked for, even if it makes progress", "[reflector]") {
    machine m(reflector_options(), watch_list_support::yes);
    m.next();
    m.r.opened(m.now);
    const auto end = m.now + m.last.watch.timeout_ + reflector::overtime;
    while (m.now + 20s < end) {
        m.pass(20s);
        m.r.progress(m.now);
        REQUIRE_FALSE(m.r.tick(m.now));
    }
    CHECK(m.r.deadline() == end);
    m.now = end;
    CHECK(m.r.tick(m.now)); // else a caller that asks for the deadline again gets the same one, which has passed
}

TEST_CASE("R14 healthy time shortens the delays after a 410 and a 404 again", "[reflector]") {
    const failure f = GENERATE(as<failure>(), status(410, "Expired"), status(404, "NotFound"));
    machine m;
    m.follow("20");
    for (int i = 0; i < 6; ++i) { // without anything in between
        m.watch_done(f);
        m.wait();
        m.sync(std::to_string(30 + 2 * i));
        m.watch_done(f);
        m.wait();
        m.sync(std::to_string(31 + 2 * i));
    }
    m.event("90");
    m.pass(1h);
    m.watch_done();
    m.next();
    m.r.opened(m.now);
    m.event("91");
    m.watch_done(f);
    CHECK(m.wait() <= 800ms);
}

TEST_CASE("R11 healthy time shortens the delays of a server that says when to come again, too", "[reflector]") {
    const failure f = status(429, "TooManyRequests", 1s);
    machine m;
    m.follow("20");
    for (int i = 0; i < 6; ++i) {
        m.watch_done(f);
        m.wait();
        m.next();
    }
    m.r.opened(m.now);
    m.event("30");
    m.pass(1h);
    m.watch_done();
    m.next();
    m.watch_done(f);
    CHECK(m.wait() == 1s);
}

TEST_CASE("X5 a stalled watch-list does not discredit a server that is known for it, even if the list works",
          "[reflector]") {
    const bool opened = GENERATE(true, false);
    machine m(reflector_options(), watch_list_support::yes);
    m.next();
    if (opened) {
        m.r.opened(m.now);
        m.pass(30s);
        REQUIRE(m.r.tick(m.now));
        m.watch_done(ended_by_us);
    } else {
        m.watch_done(held_back);
    }
    CHECK(m.wait() == 800ms);
    REQUIRE(m.next().what == step::list);
    REQUIRE(m.page_done("7", "", 1) == page::complete);
    CHECK(m.r.support() == watch_list_support::yes);
}

TEST_CASE("R16 a server that answers watches with 500 is not asked for its state before the fifth time",
          "[reflector]") {
    machine m;
    m.follow("20");
    m.pass(10s);
    m.watch_done();
    for (int i = 1; i <= 5; ++i) {
        REQUIRE(m.next().what == step::watch);
        REQUIRE_FALSE(m.last.watch.send_initial_events_);
        m.watch_done(status(500, "InternalError"));
        m.wait();
    }
    CHECK(m.next().watch.send_initial_events_);
}

TEST_CASE("X1 time in which a watch only repeated what is known is healthy, too", "[reflector]") {
    machine m;
    m.follow("20");
    m.watch_done(refused);
    m.wait();
    m.next();
    m.watch_done(refused);
    m.wait();
    m.next();
    m.r.opened(m.now);
    m.r.bookmark_seen(m.now, rv("20"), false);
    m.pass(3min);
    m.watch_done(cut_off);
    m.next();
    m.watch_done(refused);
    CHECK(m.wait() == 800ms);
}

TEST_CASE("R17 errors at one version are counted anew once the state was fetched because of them", "[reflector]") {
    machine m;
    m.follow("20");
    const failure error_event = status(500, "InternalError");
    m.watch_done(error_event);
    m.wait();
    m.next();
    m.r.opened(m.now);
    m.watch_done(error_event);
    m.wait();
    m.follow("20"); // fetched again, and still the same
    m.watch_done(error_event);
    m.wait();
    CHECK_FALSE(m.next().watch.send_initial_events_);
}
