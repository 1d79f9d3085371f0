// The reflector's decisions about watch-lists, step by step. Names carry the items of the contract they pin.
#include "reflector_machine.hpp"

#include <catch2/generators/catch_generators.hpp>

using namespace informer;
using namespace informer::testing;

TEST_CASE("WL2 the first request is a watch-list at the newest state", "[reflector]") {
    reflector_options o;
    o.labels_ = "a=b";
    o.fields_ = "c=d";
    machine m(o);
    const auto a = m.next();
    CHECK(a.what == step::watch);
    CHECK(a.fresh);
    CHECK(a.watch.send_initial_events_);
    CHECK(a.watch.bookmarks_);
    CHECK(a.watch.resource_version_.empty());
    CHECK(a.watch.label_selector_ == "a=b");
    CHECK(a.watch.field_selector_ == "c=d");
    CHECK(m.r.phase() == informer_phase::listing);
}

TEST_CASE("R10 a watch asks for a time-out drawn from [d, 2d] in whole seconds", "[reflector]") {
    reflector_options o;
    o.watch_timeout_ = 5min;
    machine m(o);
    bool differs = false;
    std::chrono::seconds first{};
    m.sync("5");
    for (int i = 0; i < 100; ++i) {
        m.pass(10s);
        m.watch_done();
        const auto d = m.next().watch.timeout_;
        CHECK(d >= 300s);
        CHECK(d <= 600s);
        if (i == 0) first = d;
        differs = differs || d != first;
        m.r.opened(m.now);
        m.event(std::to_string(10 + i));
    }
    CHECK(differs);
}

TEST_CASE("R10 the longest watch time-out is cut to a year or two", "[reflector]") {
    reflector_options o;
    o.watch_timeout_ = std::chrono::seconds::max();
    machine m(o);
    m.follow("5");
    CHECK(m.last.watch.timeout_ >= std::chrono::hours(24 * 365));
    CHECK(m.last.watch.timeout_ <= std::chrono::hours(2 * 24 * 365));
    m.pass(2s);
    CHECK_FALSE(m.r.tick(m.now)); // the watch is proven now
    CHECK(m.r.deadline() > m.now + std::chrono::hours(24 * 365));
    m.pass(std::chrono::hours(24));
    m.watch_done(cut_off);
    CHECK_FALSE(m.next().check);
}

TEST_CASE("R10 a watch time-out of zero or less becomes a second: watches that end at once still back off",
          "[reflector]") {
    for (const auto none : {0s, -5s}) {
        reflector_options o;
        o.watch_timeout_ = none;
        machine m(o);
        m.sync("5");
        m.watch_done();
        CHECK(m.next().what == step::watch);
        CHECK(m.last.watch.timeout_ >= 1s);
        CHECK(m.last.watch.timeout_ <= 2s);
        m.r.opened(m.now);
        m.watch_done(); // at once, without an event
        CHECK(m.waits());
    }
}

TEST_CASE("WL3 events before the end bookmark are collected, with changes and deletes of reported objects",
          "[reflector]") {
    machine m;
    m.next();
    m.r.opened(m.now);
    CHECK(m.r.event_seen(m.now, watch_event_type::added, rv("9"), false) == verdict::collect);
    CHECK(m.r.event_seen(m.now, watch_event_type::modified, rv("10"), true) == verdict::collect);
    CHECK(m.r.event_seen(m.now, watch_event_type::deleted, rv("11"), true) == verdict::collect);
    CHECK(m.r.version().empty()); // WL5: versions of initial events are not recorded
}

TEST_CASE("WL4 only the annotated bookmark ends the initial events, and the stream goes on as the watch",
          "[reflector]") {
    machine m;
    m.next();
    m.r.opened(m.now);
    m.r.event_seen(m.now, watch_event_type::added, rv("9"), false);
    CHECK(m.r.bookmark_seen(m.now, rv("12"), false) == verdict::ignore);
    CHECK(m.r.collecting());
    CHECK(m.r.bookmark_seen(m.now, rv("13"), true) == verdict::complete);
    CHECK_FALSE(m.r.collecting());
    CHECK(m.r.version().str() == "13");
    CHECK(m.event("14") == verdict::apply);
    CHECK(m.r.version().str() == "14");
    CHECK(m.r.support() == watch_list_support::yes);
    CHECK(m.r.phase() == informer_phase::watching);
}

TEST_CASE("WL9 after a watch-list stream ends a plain watch follows at once", "[reflector]") {
    machine m;
    m.sync("13");
    m.watch_done();
    const auto a = m.next();
    CHECK(a.what == step::watch);
    CHECK_FALSE(a.fresh);
    CHECK_FALSE(a.watch.send_initial_events_);
    CHECK(a.watch.resource_version_ == "13");
}

TEST_CASE("WL7 a server that refuses watch-list is listed at once, and that is remembered when the list works",
          "[reflector]") {
    const int code = GENERATE(400, 422);
    machine m;
    m.next();
    m.watch_done(status(code, code == 400 ? "BadRequest" : "Invalid"));
    CHECK(m.next().what == step::list);
    CHECK(m.last.list.limit_ == 500);
    CHECK(m.r.support() == watch_list_support::unknown);
    CHECK(m.page_done("7") == page::complete);
    CHECK(m.r.support() == watch_list_support::no);
    CHECK(m.r.version().str() == "7");
    CHECK(m.next().what == step::watch);
    CHECK(m.last.watch.resource_version_ == "7");
}

TEST_CASE("WL7 a refusal that the list gets, too, says nothing about watch-list", "[reflector]") {
    machine m;
    m.next();
    m.watch_done(status(400, "BadRequest")); // a selector with a field that is not supported
    CHECK(m.next().what == step::list);
    CHECK_FALSE(m.list_failed(status(400, "BadRequest")));
    CHECK(m.wait() == 800ms);
    CHECK(m.next().watch.send_initial_events_);
    m.sync("7");
    CHECK(m.r.support() == watch_list_support::yes);
}

TEST_CASE("WL7 one ERROR event with 500 does not discredit a server whose watch-list has worked", "[reflector]") {
    machine m(reflector_options(), watch_list_support::yes);
    m.next();
    m.r.opened(m.now);
    m.watch_done(status(500, "InternalError"));
    CHECK(m.next().what == step::list);
    CHECK(m.page_done("7") == page::complete);
    CHECK(m.r.support() == watch_list_support::yes);
}

TEST_CASE("X5 a watch-list that is not answered for 30 s is listed instead, and remembered when the list works",
          "[reflector]") {
    const bool works = GENERATE(true, false);
    machine m;
    m.next();
    m.pass(30s);
    CHECK(m.r.tick(m.now));
    m.watch_done(ended_by_us);
    CHECK(m.next().what == step::list);
    CHECK(m.r.support() == watch_list_support::unknown); // it may be the whole server that is silent
    if (works)
        m.page_done("7");
    else
        m.list_failed(ended_by_us);
    CHECK(m.r.support() == (works ? watch_list_support::no : watch_list_support::unknown));
}

TEST_CASE("X5 a watch-list whose header is held back is listed instead, and the next watch may wait for its header",
          "[reflector]") {
    const bool by_us = GENERATE(true, false);
    machine m;
    m.next();
    m.pass(30s);
    if (by_us) CHECK(m.r.tick(m.now));
    m.watch_done(by_us ? ended_by_us : held_back);
    CHECK(m.next().what == step::list);
    m.page_done("7");
    CHECK(m.r.support() == watch_list_support::no);
    CHECK(m.next().what == step::watch);
    CHECK(m.last.watch.late_header_);
}

TEST_CASE("WL10 403 on a watch-list: if the list works, twice, then watch-list is what was refused", "[reflector]") {
    machine m;
    m.next();
    m.watch_done(status(403, "Forbidden"));
    CHECK(m.next().what == step::list);
    CHECK(m.r.support() == watch_list_support::unknown);
    SECTION("the list works") {
        CHECK(m.page_done("7") == page::complete);
        // A server that starts forbids everything for a moment: one refusal is no proof.
        CHECK(m.r.support() == watch_list_support::unknown);
        CHECK(m.next().what == step::watch);
        m.expire();
        CHECK(m.next().watch.send_initial_events_);
        m.watch_done(status(403, "Forbidden"));
        CHECK(m.next().what == step::list);
        CHECK(m.page_done("9") == page::complete);
        CHECK(m.r.support() == watch_list_support::no);
    }
    SECTION("the list is forbidden too: parked, and watch-list is tried again") {
        CHECK_FALSE(m.list_failed(status(403, "Forbidden")));
        CHECK(m.r.phase() == informer_phase::parked);
        CHECK(m.wait() == 800ms);
        CHECK(m.next().watch.send_initial_events_);
        CHECK(m.r.support() == watch_list_support::unknown);
    }
}

TEST_CASE("WL7 an ERROR event with 500 in a watch-list means list and watch, and is remembered when the list works",
          "[reflector]") {
    machine m;
    m.next();
    m.r.opened(m.now);
    m.watch_done(status(500, "InternalError"));
    CHECK(m.next().what == step::list);
    CHECK(m.r.support() == watch_list_support::unknown);
    m.page_done("7");
    CHECK(m.r.support() == watch_list_support::no);
}

TEST_CASE("WL7 a 500 on opening a watch-list lists this time, and is not remembered", "[reflector]") {
    machine m;
    m.next();
    m.watch_done(status(500, "InternalError"));
    CHECK(m.next().what == step::list);
    CHECK(m.r.support() == watch_list_support::unknown);
    m.list_failed(status(500, "InternalError"));
    m.wait();
    CHECK(m.next().watch.send_initial_events_);
}

TEST_CASE("WL7 refused or throttled watch-lists wait and are tried again", "[reflector]") {
    machine m;
    m.next();
    m.watch_done(refused);
    CHECK(m.wait() == 800ms);
    CHECK(m.next().watch.send_initial_events_);
    m.watch_done(status(429, "TooManyRequests"));
    CHECK(m.wait() == 1600ms);
    CHECK(m.next().watch.send_initial_events_);
    CHECK(m.r.attempts() == 2);
    CHECK(m.r.phase() == informer_phase::backing_off);
}

TEST_CASE("WL7 a server that says when to come again is no server without watch-list: it is asked again then",
          "[reflector]") {
    const int code = GENERATE(429, 500, 503, 504);
    const bool opened = GENERATE(true, false);
    machine m;
    m.next();
    if (opened) m.r.opened(m.now);
    m.watch_done(status(code, "", 5s));
    CHECK(m.wait() == 5s);
    CHECK(m.next().watch.send_initial_events_);
}

TEST_CASE("WL7 a 407 on a watch-list is a proxy's, and no list follows it at once", "[reflector]") {
    machine m;
    for (int i = 0; i < 3; ++i) {
        CHECK(m.next().watch.send_initial_events_);
        m.watch_done(status(407));
        CHECK(m.wait() == 800ms * (1 << i));
    }
    CHECK(m.next().watch.send_initial_events_);
    CHECK(m.r.support() == watch_list_support::unknown);
    CHECK(m.r.phase() != informer_phase::parked);
}

TEST_CASE("WL7 410 or a too large version on a watch-list falls back to the newest state at once", "[reflector]") {
    const bool gone = GENERATE(true, false);
    machine m;
    m.follow("20");
    m.expire();
    CHECK(m.next().watch.send_initial_events_);
    CHECK(m.last.watch.resource_version_ == "20"); // WL2: never older than what was seen
    m.watch_done(gone ? status(410, "Expired") : too_large());
    CHECK(m.at_once());
    CHECK(m.next().watch.send_initial_events_);
    CHECK(m.last.watch.resource_version_.empty());
}

TEST_CASE(
    "X5 two seconds of silence on an opened watch-list: list and watch, remembered if there was something to send",
    "[reflector]") {
    machine m;
    m.next();
    m.pass(10s);
    CHECK_FALSE(m.r.tick(m.now)); // not open yet: not counted as silence
    m.r.opened(m.now);
    CHECK(m.r.deadline() == m.now + 2s);
    m.pass(1999ms);
    CHECK_FALSE(m.r.tick(m.now));
    m.pass(1ms);
    CHECK(m.r.tick(m.now));
    const failure told = m.watch_done(ended_by_us);
    CHECK(told == errc::bad_response);
    CHECK(m.next().what == step::list);
    SECTION("an item on any page") {
        const bool first = GENERATE(true, false);
        m.page_done("7", "more", first ? 1 : 0);
        CHECK(m.next().what == step::list);
        m.page_done("7", "", first ? 0 : 1);
        CHECK(m.r.support() == watch_list_support::no);
    }
    SECTION("a list that fails is tried again as a list") {
        m.list_failed(refused);
        m.wait();
        CHECK(m.next().what == step::list);
        m.page_done("7", "", 1);
        CHECK(m.r.support() == watch_list_support::no);
    }
    SECTION("nothing at all: the server may know watch-list and be slow, it is tried again next time") {
        m.page_done("7", "", 0);
        CHECK(m.r.support() == watch_list_support::unknown);
        CHECK(m.next().what == step::watch);
        CHECK_FALSE(m.last.watch.send_initial_events_);
        m.r.opened(m.now);
        m.event("8");
        m.expire();
        CHECK(m.next().watch.send_initial_events_);
    }
}

TEST_CASE("X5 a server known for watch-list is given 30 s without progress, and a list comes after a back-off",
          "[reflector]") {
    machine m(reflector_options(), watch_list_support::yes);
    m.next();
    m.r.opened(m.now);
    CHECK(m.r.deadline() == m.now + 30s);
    m.pass(29s);
    CHECK_FALSE(m.r.tick(m.now));
    m.r.progress(m.now);
    m.pass(29s);
    CHECK_FALSE(m.r.tick(m.now));
    m.pass(1s);
    CHECK(m.r.tick(m.now));
    CHECK(m.watch_done(ended_by_us) == errc::body_idle_timeout);
    CHECK(m.wait() == 800ms);
    CHECK(m.next().what == step::list);
    CHECK(m.r.support() == watch_list_support::yes); // this time by list, later by watch-list again
}

TEST_CASE("X5 bytes without events are progress", "[reflector]") {
    machine m;
    m.next();
    m.r.opened(m.now);
    for (int i = 0; i < 20; ++i) {
        m.pass(1900ms);
        m.r.progress(m.now);
        CHECK_FALSE(m.r.tick(m.now));
    }
}

TEST_CASE("X5 plain watch events show that the server knows no watch-list", "[reflector]") {
    machine m;
    m.next();
    m.r.opened(m.now);
    SECTION("a change of an object that was not reported: at once") {
        const auto type = GENERATE(watch_event_type::modified, watch_event_type::deleted);
        CHECK(m.r.event_seen(m.now, type, rv("9"), false) == verdict::end);
    }
    SECTION("initial events, and then silence") {
        CHECK(m.r.event_seen(m.now, watch_event_type::added, rv("9"), false) == verdict::collect);
        m.pass(4999ms);
        CHECK_FALSE(m.r.tick(m.now));
        m.pass(1ms);
        CHECK(m.r.tick(m.now));
    }
    SECTION("changes of reported objects for half a minute, without a pause") {
        m.event("9", watch_event_type::added);
        for (int i = 0; i < 30; ++i) { // these alone may be an initial state
            m.pass(3s);
            m.event(std::to_string(10 + 2 * i), watch_event_type::added);
            REQUIRE_FALSE(m.r.tick(m.now));
        }
        m.event("99", watch_event_type::modified);
        for (int i = 0; i < 9; ++i) {
            m.pass(3s);
            const auto type = i % 2 != 0 ? watch_event_type::deleted : watch_event_type::modified;
            REQUIRE(m.event(std::to_string(100 + i), type) == verdict::collect);
            REQUIRE_FALSE(m.r.tick(m.now));
        }
        CHECK(m.r.deadline() == m.now + 3s);
        m.pass(3s);
        m.event("200");
        CHECK(m.r.tick(m.now));
    }
    m.watch_done();
    CHECK(m.next().what == step::list);
    CHECK(m.r.support() == watch_list_support::no);
}

TEST_CASE("X5 a server is assumed to lack watch-list for an hour: a path that stalls looks the same", "[reflector]") {
    machine m(reflector_options(), watch_list_support::no);
    m.list("5");
    m.pass(59min);
    m.expire();
    CHECK(m.next().what == step::list);
    CHECK(m.page_done("7", "more") == page::more);
    m.pass(2min);
    CHECK(m.next().what == step::list); // not between two pages
    CHECK(m.page_done("7") == page::complete);
    CHECK(m.next().what == step::watch);
    m.expire();
    CHECK(m.next().watch.send_initial_events_);
    CHECK(m.r.support() == watch_list_support::unknown);
    m.r.opened(m.now);
    m.event("9", watch_event_type::added);
    CHECK(m.r.event_seen(m.now, watch_event_type::deleted, rv("9"), false) == verdict::end);
    m.watch_done();
    CHECK(m.r.support() == watch_list_support::no);
    m.list("10");
    m.pass(59min);
    m.expire();
    CHECK(m.next().what == step::list); // a new hour has begun
}

TEST_CASE("X5 changes amid the initial events do not limit the time of a server that is known for watch-list",
          "[reflector]") {
    machine m(reflector_options(), watch_list_support::yes);
    m.next();
    m.r.opened(m.now);
    m.event("9", watch_event_type::added);
    for (int i = 0; i < 30; ++i) {
        m.pass(3s);
        REQUIRE(m.event(std::to_string(10 + i)) == verdict::collect);
        REQUIRE_FALSE(m.r.tick(m.now));
    }
    CHECK(m.r.bookmark_seen(m.now, rv("50"), true) == verdict::complete);
}

TEST_CASE("X5 a watch-list that breaks is tried again after a back-off, and listed when it breaks again",
          "[reflector]") {
    machine m;
    m.next();
    m.r.opened(m.now);
    m.event("9", watch_event_type::added);
    CHECK(m.watch_done()); // a clean end before the end bookmark is a failure
    CHECK(m.wait() == 800ms);
    CHECK(m.next().watch.send_initial_events_);
    CHECK(m.last.fresh);
    m.r.opened(m.now);
    m.watch_done(cut_off);
    CHECK(m.wait() == 1600ms);
    CHECK(m.next().what == step::list);
    CHECK(m.r.support() == watch_list_support::unknown);
}

TEST_CASE(
    "X5 a watch-list that is cut before its header is listed when that happens again; one that finds no server is not",
    "[reflector]") {
    machine m;
    for (int i = 0; i < 3; ++i) {
        CHECK(m.next().watch.send_initial_events_);
        m.watch_done(refused);
        m.wait();
    }
    for (int i = 0; i < 2; ++i) {
        CHECK(m.next().watch.send_initial_events_);
        CHECK(m.watch_done(cut_off));
        m.wait();
    }
    CHECK(m.next().what == step::list);
    SECTION("which works") {
        CHECK(m.page_done("7", "", 1) == page::complete);
        CHECK(m.r.support() == watch_list_support::unknown);
    }
    SECTION("or is cut, too: both in turn") {
        m.list_failed(cut_off);
        m.wait();
        CHECK(m.next().watch.send_initial_events_);
        m.watch_done(cut_off);
        m.wait();
        CHECK(m.next().what == step::list);
    }
}

TEST_CASE("epoch: initial events that end below the last version are asked for again as a consistent read",
          "[reflector]") {
    machine m;
    m.follow("90");
    m.expire();
    auto a = m.next();
    REQUIRE(a.watch.send_initial_events_);
    REQUIRE(a.watch.resource_version_ == "90");
    m.r.opened(m.now);
    m.event("7", watch_event_type::added);
    REQUIRE(m.r.bookmark_seen(m.now, rv("8"), true) == verdict::end); // it was restored from a backup
    const failure why = m.watch_done(ended_by_us);
    CHECK(why.what().find("older than version 90") != std::string::npos);
    REQUIRE(m.at_once());
    a = m.next();
    CHECK(a.watch.send_initial_events_);
    CHECK(a.watch.resource_version_.empty());
    const auto epoch = m.r.epoch();
    m.r.opened(m.now);
    CHECK(m.r.bookmark_seen(m.now, rv("8"), true) == verdict::complete);
    CHECK(m.r.epoch() == epoch + 1);
    CHECK(m.r.version().str() == "8");
}

TEST_CASE("X5 an answer that says nothing about watch-list, such as a redirection, is not remembered", "[reflector]") {
    machine m;
    m.next();
    m.watch_done(failure(errc::unexpected_status, "test"));
    while (m.waits()) m.wait();
    CHECK(m.next().what == step::list);
    m.page_done("10");
    CHECK(m.r.support() == watch_list_support::unknown);
    // As the answer to a watch, it does not make the version worthless.
    m.next();
    CHECK_FALSE(m.last.watch.send_initial_events_);
    m.watch_done(failure(errc::unexpected_status, "test"));
    m.wait();
    CHECK(m.next().what == step::watch);
    CHECK(m.last.watch.resource_version_ == "10");
}

TEST_CASE("X5 a refused watch-list is not tried again while the list that would explain the refusal fails",
          "[reflector]") {
    machine m;
    m.next();
    m.watch_done(status(400));
    for (const failure& f : {status(500), refused, status(429)}) {
        CHECK(m.next().what == step::list);
        m.list_failed(f);
        m.wait();
    }
    CHECK(m.next().what == step::list);
    m.page_done("10");
    CHECK(m.r.support() == watch_list_support::no);
}
