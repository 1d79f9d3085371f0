// What a reflector does when something comes late, early, only in part, or again.
#include "reflector_machine.hpp"

#include <catch2/generators/catch_generators.hpp>

#include <set>
#include <string>

using namespace informer;
using namespace informer::testing;

// ---- lists ----------------------------------------------------------------------------------------------------------

TEST_CASE("epoch: a list of several pages below the last version is asked for again from its first page",
          "[reflector]") {
    reflector_options o = no_watch_list();
    o.page_size_ = 10;
    machine m(o);
    m.list("20");
    m.expire();
    REQUIRE(m.next().list.resource_version_ == "20");
    REQUIRE(m.page_done("12", "second") == page::more);
    m.next();
    const bool expires = GENERATE(false, true);
    if (expires) {
        m.list_failed(status(410, "Expired"));
        REQUIRE(m.next().list.limit_ == 0); // in one piece, this time
    }
    REQUIRE(m.page_done("12") == page::more);
    CHECK(m.next().fresh);
    CHECK(m.last.list.continue_.empty());
    CHECK(m.last.list.resource_version_.empty());
    CHECK(m.last.list.limit_ == 10);
    CHECK(m.page_done("13") == page::complete);
}

TEST_CASE("R3 a list that nobody answered is asked for at the last version again", "[reflector]") {
    machine m(no_watch_list());
    m.list("20");
    m.expire();
    REQUIRE(m.next().list.resource_version_ == "20");
    m.list_failed(refused);
    m.wait();
    CHECK(m.next().list.resource_version_ == "20"); // from the server's cache, and not from etcd
}

TEST_CASE("a fetch that is due does not begin one anew that is under way", "[reflector]") {
    machine m(no_watch_list());
    m.list("10");
    m.r.opened(m.now);
    m.r.absence(m.now, false);
    m.expire();
    m.next();
    REQUIRE(m.page_done("12", "second") == page::more);
    m.pass(1min);
    CHECK(m.next().list.continue_ == "second");
}

TEST_CASE("a contradiction from before a state was applied does not lead to another fetch", "[reflector]") {
    machine m;
    m.follow("10");
    m.expire();
    m.sync("12");
    m.r.contradicted(m.now);
    m.r.absence(m.now, true);
    m.pass(2min);
    CHECK_FALSE(m.r.tick(m.now));
}

TEST_CASE("a state that does not prove what is gone is fetched within half an hour, however much delays are spread",
          "[reflector]") {
    reflector_options o;
    o.watch_timeout_ = 24h;
    machine m(o);
    o.backoff_.jitter(9);
    m.r = reflector(o);
    m.follow("10");
    m.stay_proven();
    for (int i = 0; i < 20; ++i) {
        m.r.absence(m.now, false);
        REQUIRE(m.r.deadline() <= m.now + 30min);
    }
}

// ---- watch-lists ----------------------------------------------------------------------------------------------------

TEST_CASE("WL7 a watch-list at the newest state that is refused with 410 waits before it is asked for again",
          "[reflector]") {
    const failure f = GENERATE(as<failure>(), status(410, "Expired"), too_large());
    machine m;
    REQUIRE(m.next().watch.resource_version_.empty());
    m.watch_done(f);
    CHECK(m.wait() >= 800ms);
    CHECK(m.next().watch.send_initial_events_);
}

TEST_CASE("WL7 a watch-list with a deletion that does not say of what waits before it is asked for again",
          "[reflector]") {
    machine m;
    m.next();
    m.r.opened(m.now);
    m.event("9", watch_event_type::deleted);
    m.r.deletion_lost();
    m.watch_done(ended_by_us);
    CHECK(m.wait() >= 800ms);
}

TEST_CASE("WL7 that a server refused watch-list counts for the next list only", "[reflector]") {
    const auto breaks_twice = [](machine& m) {
        for (int i = 0; i < 2; ++i) {
            REQUIRE(m.next().watch.send_initial_events_);
            m.r.opened(m.now);
            m.watch_done(cut_off);
            m.wait();
        }
    };
    const failure no_such_option = status(400, "BadRequest");
    machine m;
    REQUIRE(m.next().watch.send_initial_events_);
    m.watch_done(no_such_option);
    SECTION("which worked") {
        m.list("5");
        REQUIRE(m.r.support() == watch_list_support::no);
        m.pass(2h);
        m.r.opened(m.now);
        m.expire();
    }
    SECTION("which was refused, too") {
        m.next();
        m.list_failed(no_such_option);
        m.wait();
    }
    breaks_twice(m);
    m.list("9");
    CHECK(m.r.support() == watch_list_support::unknown);
}

TEST_CASE("X5 the hour of a server without watch-list begins when that is found, also after a list of pages",
          "[reflector]") {
    machine m;
    m.next();
    m.watch_done(status(400, "BadRequest"));
    m.next();
    m.page_done("5", "second");
    m.next();
    REQUIRE(m.page_done("5") == page::complete);
    REQUIRE(m.r.support() == watch_list_support::no);
    m.next();
    m.r.opened(m.now);
    m.pass(61min);
    m.expire();
    CHECK(m.next().watch.send_initial_events_);
}

TEST_CASE("X5 that a server has watch-list is not forgotten", "[reflector]") {
    machine m;
    m.follow("20");
    for (int i = 0; i < 20; ++i) {
        m.event(std::to_string(21 + i));
        m.pass(10min);
        m.watch_done();
        m.next();
        m.r.opened(m.now);
    }
    CHECK(m.r.support() == watch_list_support::yes);
}

TEST_CASE("X5 silence that is noticed late is still silence: it proves nothing if the resource is empty",
          "[reflector]") {
    machine m;
    m.next();
    m.r.opened(m.now);
    m.pass(10s); // the process was suspended
    REQUIRE(m.r.tick(m.now));
    m.watch_done(ended_by_us);
    REQUIRE(m.next().what == step::list);
    m.page_done("7", "", 0);
    CHECK(m.r.support() == watch_list_support::unknown);
}

TEST_CASE("X5 what comes after a watch-list was given up does not count", "[reflector]") {
    machine m;
    m.next();
    m.r.opened(m.now);
    m.pass(reflector::silence);
    REQUIRE(m.r.tick(m.now));
    CHECK(m.event("7", watch_event_type::added) == verdict::end);
    CHECK(m.r.bookmark_seen(m.now, rv("9"), true) == verdict::end);
    m.watch_done(ended_by_us);
    CHECK(m.next().what == step::list);
    CHECK(m.r.version().empty());
}

TEST_CASE("X1 a watch-list that came to its end is healthy, even if nothing follows", "[reflector]") {
    machine m;
    for (int i = 0; i < 2; ++i) {
        m.next();
        m.watch_done(refused);
        m.wait();
    }
    m.sync("20");
    m.pass(3min);
    m.watch_done(cut_off);
    m.next();
    m.watch_done(refused);
    CHECK(m.wait() == 800ms);
}

// ---- watches --------------------------------------------------------------------------------------------------------

TEST_CASE("R13 a watch that brought something and ended at once is no failure", "[reflector]") {
    machine m;
    m.follow("20");
    m.event("21");
    m.watch_done();
    m.next();
    m.r.opened(m.now);
    m.event("22");
    CHECK_FALSE(m.watch_done());
    CHECK(m.at_once());
    CHECK(m.r.attempts() == 0);
}

TEST_CASE("W14 without a version a watch that ends with an error is a failure, however long it lasted", "[reflector]") {
    machine m(no_watch_list());
    m.next();
    REQUIRE(m.page_done("") == page::complete);
    m.next();
    m.r.opened(m.now);
    m.pass(10min);
    CHECK(m.watch_done(status(500, "InternalError")));
    CHECK(m.r.attempts() == 1);
    CHECK(m.wait() >= 800ms);
}

TEST_CASE("a watch that has not been open for a second yet is no success, however often one looks", "[reflector]") {
    machine m;
    m.follow("20");
    m.pass(10s);
    m.watch_done();
    m.next();
    m.fail_twice();
    m.next();
    m.pass(5s);
    CHECK_FALSE(m.r.tick(m.now));
    CHECK(m.r.attempts() == 2);
    m.r.opened(m.now);
    m.pass(999ms);
    CHECK_FALSE(m.r.tick(m.now));
    CHECK(m.r.attempts() == 2);
}

TEST_CASE("R15 once a watch or a watch-list works again, lists are no longer all there is", "[reflector]") {
    machine m;
    const auto lists_after = [&m](const failure& f) {
        REQUIRE(m.next().watch.send_initial_events_);
        m.watch_done(f);
        m.list("20");
    };
    const failure fails = status(500, "InternalError"); // says nothing about watch-list
    for (unsigned i = 0; i < reflector::most_watch_refusals; ++i) {
        lists_after(fails);
        m.watch_done(status(400, "BadRequest"));
        m.wait();
    }
    REQUIRE(m.r.relists());
    SECTION("a watch") {
        lists_after(fails);
        m.stay_proven();
    }
    SECTION("a watch-list") {
        m.sync("20");
    }
    CHECK_FALSE(m.r.relists());
    CHECK(m.r.attempts() == 0);
    CHECK(m.r.phase() == informer_phase::watching);
}

TEST_CASE("a list whose header comes in time does not say that a watch's does", "[reflector]") {
    machine m(no_watch_list());
    m.list("20");
    m.r.absence(m.now, false);
    m.watch_done(held_back);
    m.wait();
    REQUIRE(m.next().watch.late_header_);
    m.watch_done(held_back);
    m.wait();
    m.pass(1min);
    m.list("21");
    CHECK(m.last.watch.late_header_);
}

TEST_CASE("the time that the initial events take is no interval between bookmarks", "[reflector]") {
    reflector_options o;
    o.watch_timeout_ = 1h;
    machine m(o, watch_list_support::yes);
    m.next();
    m.r.opened(m.now);
    for (int i = 0; i < 20; ++i) {
        m.pass(20s);
        m.event("7", watch_event_type::added);
    }
    REQUIRE(m.r.bookmark_seen(m.now, rv("20"), true) == verdict::complete);
    for (int i = 0; i < 3; ++i) {
        m.pass(1min);
        REQUIRE_FALSE(m.r.tick(m.now));
        m.r.bookmark_seen(m.now, rv("20"), false);
    }
    CHECK(m.r.deadline() == m.now + 150s);
}

// ---- after the server was away --------------------------------------------------------------------------------------

namespace {

/// Follows, and then a watch finds nobody there; the wait is over.
void be_away(machine& m) {
    m.follow("20");
    m.pass(2s);
    m.watch_done(cut_off);
    m.next();
    m.watch_done(refused);
    m.wait();
}

} // namespace

TEST_CASE("epoch: if the check after an absence fails as well, watches stay short", "[reflector]") {
    machine m;
    be_away(m);
    m.next();
    m.r.opened(m.now);
    m.pass(m.last.watch.timeout_);
    m.watch_done();
    REQUIRE(m.next().check);
    m.list_failed(refused);
    m.wait();
    CHECK(m.next().what == step::watch);
    CHECK(m.last.watch.timeout_ <= 2 * reflector::doubt);
}

TEST_CASE("epoch: a watch-list is not short, as a large state may take long", "[reflector]") {
    machine m;
    be_away(m);
    m.next();
    m.watch_done(status(404, "NotFound"));
    m.wait();
    REQUIRE(m.next().watch.send_initial_events_);
    CHECK(m.last.watch.timeout_ >= 5min);
}

TEST_CASE("epoch: the short time-outs after an absence are spread", "[reflector]") {
    machine m;
    be_away(m);
    std::set<std::chrono::seconds> drawn;
    for (int i = 0; i < 100; ++i) {
        drawn.insert(m.next().watch.timeout_);
        m.watch_done(refused);
        m.wait();
    }
    CHECK(drawn.size() > 15); // of 31
    CHECK(*drawn.begin() >= reflector::doubt);
    CHECK(*drawn.rbegin() <= 2 * reflector::doubt);
}

TEST_CASE("epoch: after an absence a watch is not longer than was asked for, and as long a silence is checked",
          "[reflector]") {
    reflector_options o;
    o.watch_timeout_ = 13s;
    machine m(o);
    be_away(m);
    CHECK(m.next().watch.timeout_ <= 26s);
    m.r.opened(m.now);
    m.pass(11s);
    m.watch_done();
    CHECK(m.next().check);
}
