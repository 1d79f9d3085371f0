// The reflector's decisions where lists have no resource version, or a resource has no watch.
#include "reflector_machine.hpp"

#include <catch2/generators/catch_generators.hpp>

using namespace informer;
using namespace informer::testing;

namespace {

/// Listed without a version, and in the watch that follows.
void follow_unversioned(machine& m) {
    m.list("");
    m.r.opened(m.now);
}

const failure no_watch = status(405, "MethodNotAllowed");

} // namespace

TEST_CASE("W14 a list without a resource version is complete, and its watch has none either", "[reflector]") {
    machine m(no_watch_list());
    CHECK(m.next().what == step::list);
    CHECK(m.page_done("") == page::complete);
    CHECK(m.r.phase() == informer_phase::watching);
    CHECK(m.at_once());
    CHECK(m.next().what == step::watch);
    CHECK(m.last.watch.resource_version_.empty());
    CHECK_FALSE(m.last.watch.send_initial_events_);
}

TEST_CASE("W14 pages without a resource version are one list; the first version of any page counts", "[reflector]") {
    const bool later = GENERATE(true, false);
    machine m(no_watch_list());
    m.next();
    CHECK(m.page_done("", "t1") == page::more);
    CHECK(m.next().list.continue_ == "t1");
    CHECK(m.page_done(later ? "7" : "") == page::complete);
    CHECK(m.next().watch.resource_version_ == (later ? "7" : ""));
}

TEST_CASE("W14 without a version any end of a watch leads to a new list, as there is nothing to resume from",
          "[reflector]") {
    const failure end =
        GENERATE(as<failure>(), failure(), cut_off, refused, no_watch, too_large(), status(401), status(403),
                 status(404), status(410, "Expired"), status(429), status(500), status(400));
    machine m(no_watch_list());
    follow_unversioned(m);
    m.event("20", watch_event_type::added); // the version of an object, not one to resume from
    m.r.bookmark_seen(m.now, rv("21"), false);
    CHECK(m.r.version().empty());
    m.pass(m.last.watch.timeout_);
    m.watch_done(end);
    if (m.waits()) m.wait();
    CHECK(m.next().what == step::list);
    CHECK(m.last.fresh);
    CHECK_FALSE(m.last.check);
    CHECK(m.last.list.resource_version_.empty());
}

TEST_CASE("W14 without a version the next list comes at once after a watch that lasted, and waits after a short one",
          "[reflector]") {
    machine m(no_watch_list());
    follow_unversioned(m);
    m.pass(30s);
    CHECK_FALSE(m.watch_done());
    CHECK(m.at_once());
    follow_unversioned(m);
    m.event("20", watch_event_type::added); // all that exists, as each time
    m.pass(29s);
    CHECK_FALSE(m.watch_done());
    CHECK(m.wait() == 800ms);
    CHECK(m.r.attempts() == 0);
    follow_unversioned(m);
    m.event("20", watch_event_type::added);
    m.pass(999ms);
    CHECK(m.watch_done());
    CHECK(m.wait() == 1600ms);
    CHECK(m.r.attempts() == 1);
}

TEST_CASE("W14 without a version a 410 after a watch that lasted is an end like any other, and no failure",
          "[reflector]") {
    const bool opened = GENERATE(true, false);
    machine m(no_watch_list());
    m.list("");
    if (opened) m.r.opened(m.now);
    m.pass(30s);
    m.watch_done(status(410, "Expired"));
    CHECK(m.r.attempts() == 0);
    CHECK(m.at_once());
}

TEST_CASE("W14 without a version a watch that never opened is a failure, however long that took", "[reflector]") {
    const failure f = GENERATE(as<failure>(), refused, held_back, no_watch, status(500), status(429));
    machine m(no_watch_list());
    m.list("");
    m.pass(40s);
    m.watch_done(f);
    CHECK(m.r.attempts() == 1);
    CHECK(m.r.phase() == informer_phase::backing_off);
    CHECK(m.wait() == 800ms);
    CHECK(m.next().what == step::list);
    m.page_done("");
    CHECK(m.r.phase() == informer_phase::backing_off); // lists that work do not end it
}

TEST_CASE("W14 once the lists of a server have versions, it is followed from there", "[reflector]") {
    machine m(no_watch_list());
    follow_unversioned(m);
    m.pass(1min);
    m.watch_done();
    m.next();
    CHECK(m.page_done("30") == page::complete);
    CHECK(m.next().watch.resource_version_ == "30");
    m.r.opened(m.now);
    m.event("31");
    m.pass(1min);
    m.watch_done();
    CHECK(m.next().watch.resource_version_ == "31");
    CHECK(m.r.epoch() == 1);
}

TEST_CASE("W14 a list that suddenly has no version is asked for once more before it is believed", "[reflector]") {
    const bool again = GENERATE(true, false);
    machine m(no_watch_list());
    m.list("20");
    m.r.opened(m.now);
    m.expire();
    CHECK(m.next().list.resource_version_ == "20");
    CHECK(m.page_done("") == page::more);
    CHECK(m.next().what == step::list);
    CHECK(m.last.list.resource_version_.empty());
    CHECK(m.page_done(again ? "" : "25") == page::complete);
    CHECK(m.next().watch.resource_version_ == (again ? "" : "25"));
    CHECK(m.r.epoch() == 1);
}

TEST_CASE("W14 watches that report what exists and end at once are failures that count in a row", "[reflector]") {
    machine m(no_watch_list());
    for (unsigned i = 1; i <= 5; ++i) {
        follow_unversioned(m);
        m.event("20", watch_event_type::added);
        CHECK(m.r.attempts() == i - 1);
        m.watch_done();
        CHECK(m.r.attempts() == i);
        CHECK(m.r.phase() == informer_phase::backing_off);
        m.wait();
    }
}

TEST_CASE("W14 an informer that may list but not watch is not parked", "[reflector]") {
    machine m(no_watch_list());
    m.list("");
    m.watch_done(status(403, "Forbidden"));
    CHECK(m.r.phase() == informer_phase::backing_off);
    m.wait();
    CHECK(m.next().what == step::list);
    CHECK(m.page_done("") == page::complete);
    CHECK(m.r.phase() == informer_phase::backing_off);
}

TEST_CASE("W14 an end bookmark without a version completes a watch-list, as a list would", "[reflector]") {
    machine m;
    m.next();
    m.r.opened(m.now);
    m.event("9", watch_event_type::added);
    CHECK(m.r.bookmark_seen(m.now, rv(""), true) == verdict::complete);
    CHECK(m.r.support() == watch_list_support::yes);
    CHECK(m.event("10") == verdict::apply);
    m.pass(1min);
    m.watch_done();
    CHECK(m.next().fresh);
    CHECK(m.last.watch.send_initial_events_);
    CHECK(m.last.watch.resource_version_.empty());
}

TEST_CASE("a watch that is refused with 405 or 501 is replaced by lists at the pace of the back-off", "[reflector]") {
    const std::string version = GENERATE("", "20"); // lists with and without a version
    const failure refusal = GENERATE(as<failure>(), no_watch, status(501, "NotImplemented"));
    machine m(no_watch_list());
    for (const auto expected : {800ms, 1600ms, 3200ms, 6400ms, 12800ms, 25600ms, 30000ms, 30000ms}) {
        CHECK(m.next().what == step::list);
        CHECK(m.page_done(version) == page::complete);
        CHECK(m.at_once());
        CHECK(m.next().what == step::watch); // watches may be supported by now
        m.watch_done(refusal);
        CHECK(m.r.phase() == informer_phase::backing_off);
        CHECK(m.wait() == expected);
    }
    // A list that works is expected and does not end the failure; a watch that stays open does.
    CHECK(m.r.attempts() == 8);
    m.next();
    m.page_done(version);
    CHECK(m.r.attempts() == 8);
    CHECK(m.r.phase() == informer_phase::backing_off);
    m.stay_open();
    CHECK(m.r.attempts() == 0);
    CHECK(m.r.phase() == informer_phase::watching);
}

TEST_CASE("where watches are forbidden and lists are not, lists at the pace of the back-off show what changes",
          "[reflector]") {
    machine m(no_watch_list());
    m.next();
    m.page_done("20");
    const failure forbidden = status(403, "Forbidden");
    for (const auto expected : {800ms, 1600ms, 3200ms}) { // a server that starts answers so for a moment
        CHECK(m.next().watch.resource_version_ == "20");
        m.watch_done(forbidden);
        CHECK(m.r.phase() == informer_phase::parked);
        CHECK(m.wait() == expected);
    }
    // Nothing new: our state is still current, and the watch may be allowed by now.
    CHECK(m.next().check);
    CHECK(m.page_done("20") == page::checked);
    CHECK(m.r.phase() == informer_phase::backing_off);
    CHECK(m.r.relists());
    std::string version = "20";
    for (const auto expected : {6400ms, 12800ms, 25600ms, 30000ms}) {
        CHECK(m.next().watch.resource_version_ == version);
        m.watch_done(forbidden);
        CHECK(m.r.phase() == informer_phase::backing_off);
        CHECK(m.wait() == expected);
        CHECK(m.next().check);
        version += "0";
        CHECK(m.page_done(version) == page::checked);
        CHECK(m.next().what == step::list);
        CHECK(m.last.fresh);
        CHECK(m.page_done(version) == page::complete);
        CHECK(m.r.phase() == informer_phase::backing_off); // lists that work do not end it
    }
    SECTION("until a watch is allowed") {
        m.stay_open();
        CHECK(m.r.phase() == informer_phase::watching);
        CHECK(m.r.attempts() == 0);
        m.watch_done();
        m.next();
        m.watch_done(forbidden);
        m.wait();
        CHECK(m.next().what == step::watch);
    }
    SECTION("or lists are forbidden, too") {
        m.next();
        m.watch_done(forbidden);
        m.wait();
        CHECK(m.next().check);
        m.list_failed(forbidden);
        CHECK(m.r.phase() == informer_phase::parked);
        m.wait();
        CHECK(m.next().watch.resource_version_ == version);
        m.watch_done(forbidden);
        CHECK(m.r.phase() == informer_phase::parked);
    }
}

TEST_CASE("a watch-list refused with 405 says nothing about other resources, and is not tried with each list",
          "[reflector]") {
    machine m;
    CHECK(m.next().watch.send_initial_events_);
    m.watch_done(no_watch);
    for (int i = 0; i < 3; ++i) {
        CHECK(m.next().what == step::list);
        CHECK(m.page_done("", "", 1) == page::complete);
        CHECK(m.next().what == step::watch);
        CHECK_FALSE(m.last.watch.send_initial_events_);
        m.watch_done(no_watch);
        m.wait();
    }
    CHECK(m.r.support() == watch_list_support::unknown);
}
