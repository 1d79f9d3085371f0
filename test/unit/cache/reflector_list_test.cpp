// The reflector's decisions about lists and their pages, step by step. Names carry the items of the contract they pin.
#include "reflector_machine.hpp"

#include <catch2/generators/catch_generators.hpp>

using namespace informer;
using namespace informer::testing;

TEST_CASE("R3 without watch-list the first list is a consistent read of 500 a page", "[reflector]") {
    machine m(no_watch_list());
    const auto a = m.next();
    CHECK(a.what == step::list);
    CHECK(a.fresh);
    CHECK(a.list.resource_version_.empty());
    CHECK(a.list.limit_ == 500);
    CHECK(a.list.continue_.empty());
}

TEST_CASE("R3 any_version lists at 0 first", "[reflector]") {
    auto o = no_watch_list();
    o.any_version_ = true;
    machine m(o);
    CHECK(m.next().list.resource_version_ == "0");
    CHECK(m.last.list.resource_version_match_.empty());
    CHECK(m.last.list.limit_ == 500);
    m.page_done("10");
    m.next();
    m.r.opened(m.now);
    m.expire();
    CHECK(m.next().list.resource_version_ == "10"); // later never older than what was seen
}

TEST_CASE("selectors and metadata_only are sent with every list, each of its pages, version checks and watches",
          "[reflector]") {
    reflector_options o = no_watch_list();
    o.labels_ = "app=web";
    o.fields_ = "spec.nodeName=n1";
    o.metadata_only_ = true;
    machine m(o);
    const auto selects = [](const auto& query) {
        return query.label_selector_ == "app=web" && query.field_selector_ == "spec.nodeName=n1" &&
               query.metadata_only_;
    };
    CHECK(selects(m.next().list));
    m.page_done("20", "more", 1);
    CHECK(selects(m.next().list)); // the second page
    m.page_done("20", "", 1);
    CHECK(selects(m.next().watch));
    m.r.opened(m.now);
    m.r.bookmark_seen(m.now, rv("7"), false);
    m.watch_done();
    m.wait();
    REQUIRE(m.next().check);
    CHECK(selects(m.last.list));
    o.watch_list_ = true;
    machine by_watch_list(o);
    REQUIRE(by_watch_list.next().watch.send_initial_events_);
    CHECK(selects(by_watch_list.last.watch));
}

TEST_CASE("R4 a relist at a version is not paged", "[reflector]") {
    machine m(no_watch_list());
    m.list("10");
    m.expire();
    CHECK(m.next().list.resource_version_ == "10");
    CHECK(m.last.list.limit_ == 0);
}

TEST_CASE("R4 that a consistent list came in pages says nothing about the server's cache: a relist is not paged",
          "[reflector]") {
    machine m(no_watch_list());
    m.next();
    CHECK(m.page_done("10", "t1") == page::more);
    m.list("10");
    m.expire();
    CHECK(m.next().list.resource_version_ == "10");
    CHECK(m.last.list.limit_ == 0);
}

TEST_CASE("R4 an explicit page size holds for a relist at a version, too, whose pages are not older than that",
          "[reflector]") {
    auto o = no_watch_list();
    o.page_size_ = 4;
    machine m(o);
    CHECK(m.next().list.limit_ == 4);
    m.page_done("10");
    m.next();
    m.expire();
    CHECK(m.next().list.resource_version_ == "10");
    CHECK(m.last.list.limit_ == 4);
    CHECK(m.last.list.resource_version_match_ == "NotOlderThan");
    m.page_done("12", "t1");
    CHECK(m.next().list.limit_ == 4);
    CHECK(m.last.list.continue_ == "t1");
    CHECK(m.last.list.resource_version_match_.empty());
}

TEST_CASE("R4 without pages no match rule is sent: the server lists at a version from its cache", "[reflector]") {
    auto o = no_watch_list();
    o.page_size_ = 0;
    machine m(o);
    m.list("10");
    m.expire();
    CHECK(m.next().list.resource_version_ == "10");
    CHECK(m.last.list.limit_ == 0);
    CHECK(m.last.list.resource_version_match_.empty());
}

TEST_CASE("R4 relists stay paged if a list at any version came in pages: that server has no cache", "[reflector]") {
    const bool paged = GENERATE(true, false);
    auto o = no_watch_list();
    o.any_version_ = true;
    machine m(o);
    m.next();
    if (paged) {
        m.page_done("10", "t1");
        m.next();
    }
    m.page_done("10");
    m.next();
    m.expire();
    CHECK(m.next().list.resource_version_ == "10");
    CHECK(m.last.list.limit_ == (paged ? 500 : 0));
    CHECK(m.last.list.resource_version_match_ == (paged ? "NotOlderThan" : ""));
}

TEST_CASE("R5 expired list falls back to a consistent read", "[reflector]") {
    const bool gone = GENERATE(true, false);
    machine m(no_watch_list());
    m.list("10");
    m.watch_done(status(410, "Gone"));
    m.wait();
    m.next();
    CHECK_FALSE(m.list_failed(gone ? status(410, "Expired") : too_large()));
    CHECK(m.at_once());
    CHECK(m.next().list.resource_version_.empty());
    CHECK(m.last.list.limit_ == 500);
    m.list_failed(gone ? status(410, "Expired") : too_large());
    CHECK(m.waits()); // a second refusal is a failure
    m.wait();
    CHECK(m.next().list.resource_version_.empty());
    CHECK(m.page_done("11") == page::complete);
    CHECK(m.r.version().str() == "11");
}

TEST_CASE("PG2 X18 pages after the first carry the token alone, and the first page's version counts", "[reflector]") {
    machine m(no_watch_list());
    m.next();
    CHECK(m.page_done("10", "t1") == page::more);
    CHECK(m.next().what == step::list);
    CHECK_FALSE(m.last.fresh);
    CHECK(m.last.list.continue_ == "t1");
    CHECK(m.last.list.resource_version_.empty());
    CHECK(m.last.list.resource_version_match_.empty());
    CHECK(m.last.list.limit_ == 500);
    CHECK(m.page_done("12", "t2") == page::more);
    m.next();
    CHECK(m.page_done("13") == page::complete);
    CHECK(m.r.version().str() == "10");
}

TEST_CASE("PG3 X17 an expired continue token: the whole list in one piece, without the token that is offered",
          "[reflector]") {
    machine m(no_watch_list());
    m.next();
    m.page_done("10", "t1");
    m.next();
    api_status s;
    s.code = 410;
    s.reason = "Expired";
    s.continue_token = "inconsistent";
    CHECK_FALSE(m.list_failed(failure(s, "test")));
    CHECK(m.at_once());
    CHECK(m.next().fresh);
    CHECK(m.last.list.continue_.empty());
    CHECK(m.last.list.limit_ == 0);
    CHECK(m.page_done("20") == page::complete);
    // The next list is paged again.
    m.next();
    m.watch_done(status(400, "BadRequest"));
    m.wait();
    CHECK(m.next().list.limit_ == 500);
}

TEST_CASE("PG3 if a list expires between pages that nobody asked for, the newest state is read", "[reflector]") {
    machine m(no_watch_list());
    m.list("10");
    m.expire();
    for (const bool again : {false, true}) {
        CHECK(m.next().fresh);
        CHECK(m.last.list.resource_version_ == "10");
        CHECK(m.last.list.limit_ == 0);
        CHECK(m.page_done("10", "t1") == page::more);
        m.next();
        CHECK_FALSE(m.list_failed(status(410, "Expired")));
        CHECK(m.waits() == again);
    }
    m.wait();
    CHECK(m.next().fresh);
    CHECK(m.last.list.resource_version_.empty());
    CHECK(m.last.list.limit_ == 500);
}

TEST_CASE("PG a page that could not be fetched is asked for again, the pages before it stay", "[reflector]") {
    const failure f = GENERATE(as<failure>(), refused, cut_off, status(503, "ServiceUnavailable"), status(429));
    machine m(no_watch_list());
    m.next();
    m.page_done("10", "t1");
    m.next();
    CHECK(m.list_failed(f));
    m.wait();
    CHECK_FALSE(m.next().fresh);
    CHECK(m.last.list.continue_ == "t1");
}

TEST_CASE("PG a page that fails again and again ends its list, which begins anew", "[reflector]") {
    machine m(no_watch_list());
    m.next();
    m.page_done("10", "t1");
    for (int i = 0; i < 5; ++i) {
        m.next();
        CHECK(m.last.list.continue_ == "t1");
        CHECK(m.list_failed(status(500)));
        m.wait();
    }
    m.next();
    CHECK_FALSE(m.list_failed(status(500)));
    m.wait();
    CHECK(m.next().fresh);
    CHECK(m.last.list.continue_.empty());
    m.page_done("11", "t2");
    m.next();
    CHECK(m.list_failed(status(500))); // counted anew
}

TEST_CASE("PG continue tokens that lead round in a circle are an error, not an endless list", "[reflector]") {
    const unsigned circle = GENERATE(2U, 3U, 7U);
    machine m(no_watch_list());
    m.next();
    m.page_done("10", "once");
    unsigned pages = 0;
    bool more = true;
    while (more && pages < 100) {
        m.next();
        more = m.page_done("10", "t" + std::to_string(pages++ % circle)) == page::more;
    }
    CHECK(pages < 40);
    CHECK(m.why == errc::bad_response);
    CHECK(m.waits());
    m.wait();
    CHECK(m.next().list.continue_.empty());
    // But a list may be as long as it likes if all its tokens differ.
    more = m.page_done("11", "u") == page::more;
    for (int i = 0; more && i < 1000; ++i) {
        m.next();
        more = m.page_done("11", "u" + std::to_string(i)) == page::more;
    }
    CHECK(more);
}

TEST_CASE("PG the same continue token twice is an error, not an endless list", "[reflector]") {
    machine m(no_watch_list());
    m.next();
    CHECK(m.page_done("10", "t1") == page::more);
    m.next();
    CHECK(m.page_done("10", "t1") == page::failed);
    CHECK(m.why == errc::bad_response);
    m.wait();
    CHECK(m.next().fresh);
}

TEST_CASE("R1 the longest back-off never ends", "[reflector]") {
    auto o = no_watch_list();
    o.backoff_.initial(std::chrono::nanoseconds::max()).cap(std::chrono::nanoseconds::max());
    machine m(o);
    m.next();
    m.list_failed(status(500));
    const auto a = m.next();
    CHECK(a.what == step::wait);
    CHECK(a.until == clock::time_point::max());
}

TEST_CASE(
    "a version that the server cannot read, or that makes a request too long for it, is not asked for again and again",
    "[reflector]") {
    const int code = GENERATE(400, 414, 431);
    machine m(no_watch_list());
    m.list("abc");
    SECTION("a list at it") {
        m.expire();
        CHECK(m.next().list.resource_version_ == "abc");
        m.list_failed(status(code));
        CHECK(m.wait() >= 500ms);
    }
    SECTION("a watch from it") {
        m.watch_done(status(code));
        m.wait();
    }
    CHECK(m.next().what == step::list);
    CHECK(m.last.list.resource_version_.empty());
    CHECK(m.page_done("def") == page::complete);
    CHECK(m.next().watch.resource_version_ == "def");
}

TEST_CASE("version 0 counts as none: a watch from it reports what exists, but not what was deleted since",
          "[reflector]") {
    SECTION("of a list") {
        machine m(no_watch_list());
        m.next();
        CHECK(m.page_done("0") == page::complete);
        CHECK(m.next().what == step::watch);
        CHECK(m.last.watch.resource_version_.empty());
        CHECK(m.r.relists()); // there is nothing to resume at
    }
    SECTION("of a watch-list") {
        machine m;
        m.next();
        m.r.opened(m.now);
        m.r.event_seen(m.now, watch_event_type::added, rv("1"), false);
        CHECK(m.r.bookmark_seen(m.now, rv("0"), true) == verdict::complete);
        CHECK(m.r.version().empty());
        CHECK(m.r.relists());
    }
}
