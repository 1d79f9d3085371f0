// How the reflector finds out that the server went back in time, step by step: versions that fall, and silence.
#include "reflector_machine.hpp"

#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <string>

using namespace informer;
using namespace informer::testing;

namespace {

/// The watch breaks off, the server is away for a moment, and the watch opened then reports nothing.
void quiet_after_an_absence(machine& m) {
    m.pass(2s);
    m.watch_done(cut_off);
    m.next();
    m.watch_done(refused);
    m.wait();
    m.next();
    m.r.opened(m.now);
    m.pass(m.last.watch.timeout_);
    m.watch_done();
}

} // namespace

TEST_CASE("epoch: a bookmark below the last version asks for the newest one", "[reflector]") {
    machine m;
    m.follow("20");
    CHECK(m.r.bookmark_seen(m.now, rv("19"), false) == verdict::end);
    CHECK(m.watch_done());
    m.wait();
    const auto a = m.next();
    CHECK(a.what == step::list);
    CHECK(a.check);
    CHECK(a.list.limit_ == 1);
    CHECK(a.list.resource_version_.empty());
    SECTION("the server is not older: it was only the bookmark") {
        CHECK(m.page_done("25") == page::checked);
        CHECK(m.r.attempts() == 0); // it answers, so nothing fails any more
        CHECK(m.r.phase() == informer_phase::watching);
        CHECK(m.next().what == step::watch);
        CHECK(m.last.watch.resource_version_ == "20");
        CHECK(m.r.epoch() == 1);
    }
    SECTION("the server went back in time: a new epoch, fetched from the newest state") {
        CHECK(m.page_done("15") == page::checked);
        CHECK(m.r.epoch() == 1);
        CHECK(m.next().watch.send_initial_events_);
        CHECK(m.last.watch.resource_version_.empty());
        m.r.opened(m.now);
        m.event("12", watch_event_type::added);
        CHECK(m.r.bookmark_seen(m.now, rv("16"), true) == verdict::complete);
        CHECK(m.r.epoch() == 2);
        CHECK(m.r.version().str() == "16");
        CHECK(m.event("17") == verdict::apply);
        CHECK(m.r.version().str() == "17");
    }
    SECTION("the check fails: watch again, the next silence will tell") {
        CHECK_FALSE(m.list_failed(refused));
        m.wait();
        CHECK(m.next().watch.resource_version_ == "20");
    }
}

TEST_CASE("epoch: a whole time-out without event or bookmark asks for the newest version", "[reflector]") {
    const bool clean = GENERATE(true, false);
    machine m;
    m.follow("20");
    m.pass(m.last.watch.timeout_);
    m.watch_done(clean ? failure() : cut_off);
    CHECK(m.next().check);
    CHECK(m.page_done("20") == page::checked);
    CHECK(m.r.confirmed() == m.now);
    CHECK(m.next().watch.resource_version_ == "20");
    m.r.opened(m.now);
    m.event("22");
    m.pass(m.last.watch.timeout_);
    m.watch_done();
    CHECK_FALSE(m.next().check);
}

TEST_CASE("epoch: a check that is answered without a version confirms nothing and leads to a list", "[reflector]") {
    const bool by_chance = GENERATE(true, false);
    machine m;
    m.follow("20");
    m.pass(m.last.watch.timeout_);
    m.watch_done();
    const auto confirmed = m.r.confirmed();
    CHECK(m.next().check);
    CHECK(m.page_done("") == page::checked);
    CHECK(m.r.confirmed() == confirmed);
    CHECK(m.next().what == step::list);
    CHECK(m.last.fresh);
    CHECK(m.last.list.resource_version_.empty());
    const std::string version = by_chance ? "21" : "";
    CHECK(m.page_done(version) == page::complete);
    CHECK(m.r.confirmed() == m.now);
    CHECK(m.r.epoch() == 1);
    CHECK(m.next().watch.resource_version_ == version);
}

TEST_CASE("epoch: another version that cannot be compared counts as newer, and the same one does not", "[reflector]") {
    machine m;
    m.follow("a7");
    const auto confirmed = m.r.confirmed();
    quiet_after_an_absence(m);
    CHECK(m.next().check);
    CHECK(m.page_done("a8") == page::checked);
    CHECK(m.r.confirmed() == confirmed);
    CHECK(m.next().watch.resource_version_ == "a7");
    m.r.opened(m.now);
    m.pass(m.last.watch.timeout_);
    m.watch_done();
    CHECK(m.next().check);
    const bool same = GENERATE(true, false);
    CHECK(m.page_done(same ? "a7" : "a8") == page::checked);
    CHECK(m.r.confirmed() == (same ? m.now : confirmed));
    CHECK(m.next().what == (same ? step::watch : step::list));
}

TEST_CASE("epoch: initial events are no sign that the watch they came with reports anything", "[reflector]") {
    machine m;
    m.sync("20");
    m.pass(m.last.watch.timeout_);
    m.watch_done();
    CHECK(m.next().check);
}

TEST_CASE("epoch: a newer version that no watch reported is fetched once a whole time-out has passed", "[reflector]") {
    machine m;
    m.follow("20");
    const auto confirmed = m.r.confirmed();
    quiet_after_an_absence(m);
    CHECK(m.next().check); // early, since the server was away
    CHECK(m.page_done("21") == page::checked);
    CHECK(m.next().what == step::watch); // newer perhaps by objects that are not ours
    CHECK(m.r.confirmed() == confirmed);
    m.r.opened(m.now);
    m.pass(m.last.watch.timeout_);
    m.watch_done();
    CHECK(m.next().check);
    CHECK(m.page_done("22") == page::checked);
    CHECK(m.r.confirmed() == confirmed);
    CHECK(m.next().what == step::list);
    CHECK_FALSE(m.last.check);
    CHECK(m.last.list.resource_version_.empty()); // past the server's watch cache, which stands still
    CHECK(m.page_done("22") == page::complete);
    CHECK(m.r.confirmed() == m.now);
    CHECK(m.r.epoch() == 1);
    CHECK(m.r.attempts() == 0);
    CHECK(m.next().watch.resource_version_ == "22");
}

TEST_CASE("epoch: if watches report everything, a newer version is not ours, unless the server was away",
          "[reflector]") {
    reflector_options o;
    o.tells_all_ = true;
    machine m(std::move(o));
    m.follow("20");
    for (int i = 21; i < 24; ++i) {
        m.r.opened(m.now);
        m.pass(m.last.watch.timeout_);
        m.watch_done();
        CHECK(m.next().check);
        CHECK(m.page_done(std::to_string(i)) == page::checked);
        CHECK(m.next().what == step::watch);
        CHECK(m.last.watch.resource_version_ == "20");
    }
    quiet_after_an_absence(m);
    CHECK(m.next().check);
    CHECK(m.page_done("25") == page::checked); // of another history, perhaps
    CHECK(m.next().what == step::list);
    CHECK(m.last.list.resource_version_.empty());
    CHECK(m.page_done("25") == page::complete);
    CHECK(m.r.epoch() == 1);
}

TEST_CASE("epoch: where the version may not be asked for, watches do not stay short after the server was away",
          "[reflector]") {
    machine m;
    m.follow("20");
    quiet_after_an_absence(m);
    CHECK(m.next().check);
    m.list_failed(status(403, "Forbidden"));
    m.wait();
    CHECK(m.next().what == step::watch);
    CHECK(m.last.watch.timeout_ >= 5min);
}

TEST_CASE("epoch: after the server was away a watch is short, so that silence shows early", "[reflector]") {
    const failure f = GENERATE(as<failure>(), refused, status(503, "ServiceUnavailable"));
    machine m;
    m.follow("20");
    m.pass(2s);
    m.watch_done(cut_off);
    CHECK(m.next().watch.timeout_ >= 5min);
    m.watch_done(f);
    m.wait();
    CHECK(m.next().watch.resource_version_ == "20");
    CHECK(m.last.watch.timeout_ >= reflector::doubt);
    CHECK(m.last.watch.timeout_ <= 2 * reflector::doubt);
    m.r.opened(m.now);
    SECTION("nothing came") {
        m.pass(m.last.watch.timeout_);
        m.watch_done();
        CHECK(m.next().check);
        CHECK(m.page_done("21") == page::checked);
    }
    SECTION("nothing came, and it was cut before its time-out") {
        m.pass(2s);
        m.watch_done(cut_off);
        CHECK(m.next().watch.timeout_ <= 2 * reflector::doubt);
        m.r.opened(m.now);
        m.pass(20s);
        m.watch_done(cut_off);
        CHECK(m.next().check);
        CHECK(m.page_done("21") == page::checked);
    }
    SECTION("an event") {
        m.event("22");
    }
    SECTION("a bookmark") {
        CHECK(m.r.bookmark_seen(m.now, rv("20"), false) == verdict::apply);
    }
    m.pass(2s);
    m.watch_done();
    CHECK(m.next().what == step::watch);
    CHECK(m.last.watch.timeout_ >= 5min);
}

TEST_CASE("epoch: a watch that is not answered in all its time leads to a check of the newest version", "[reflector]") {
    const bool by_us = GENERATE(true, false);
    machine m;
    m.follow("20");
    m.pass(10s);
    m.watch_done();
    std::uint64_t failures = 0;
    for (int i = 0; i < 3; ++i) {
        const std::string known = std::to_string(20 + i), newer = std::to_string(21 + i);
        m.next();
        m.watch_done(held_back);
        m.wait();
        CHECK(m.next().watch.late_header_);
        m.pass(m.last.watch.timeout_ + reflector::overtime);
        CHECK(m.r.tick(m.now));
        const failure f = m.watch_done(by_us ? ended_by_us : failure(errc::request_timeout, "test"));
        CHECK(f == errc::header_timeout); // the log sees one failure, not two in turn
        m.wait();
        CHECK(m.next().check);
        CHECK(m.page_done(known) == page::checked);
        CHECK_FALSE(m.next().watch.late_header_); // the usual patience has its turn again
        CHECK(m.last.watch.resource_version_ == known);
        // Lists that work do not make the watch healthy.
        CHECK(m.r.attempts() >= failures + 2);
        failures = m.r.attempts();
        CHECK(m.r.phase() == informer_phase::backing_off);
        // And if there is something newer, it is fetched: no watch reports it.
        m.watch_done(held_back);
        m.wait();
        m.next();
        m.pass(m.last.watch.timeout_ + reflector::overtime);
        m.watch_done(failure(errc::request_timeout, "test"));
        m.wait();
        CHECK(m.next().check);
        CHECK(m.page_done(newer) == page::checked);
        CHECK(m.next().what == step::list);
        CHECK_FALSE(m.last.check);
        CHECK(m.page_done(newer) == page::complete);
        CHECK(m.r.phase() == informer_phase::backing_off);
        failures = m.r.attempts();
    }
    m.stay_open();
    CHECK(m.r.attempts() == 0);
    CHECK(m.r.phase() == informer_phase::watching);
}

TEST_CASE("epoch: silence adds up over watches that are cut", "[reflector]") {
    machine m;
    m.follow("20");
    for (int round = 0; round < 2; ++round) {
        for (int i = 0; i < 4; ++i) {
            m.pass(1min);
            m.watch_done(cut_off);
            CHECK(m.next().watch.resource_version_ == "20");
            m.r.opened(m.now);
        }
        m.pass(1min);
        m.watch_done(cut_off);
        CHECK(m.next().check);
        // A client that may watch may not be allowed to list: it asks again after as long a silence, not at each cut.
        CHECK_FALSE(m.list_failed(status(403, "Forbidden")));
        m.wait();
        CHECK(m.next().watch.resource_version_ == "20");
        m.r.opened(m.now);
    }
}

TEST_CASE("epoch: a list below the last version is asked for again as a consistent read", "[reflector]") {
    machine m(no_watch_list());
    m.list("20");
    m.expire();
    CHECK(m.next().list.resource_version_ == "20");
    CHECK(m.page_done("12") == page::more);
    CHECK(m.next().fresh);
    CHECK(m.last.list.resource_version_.empty());
    CHECK(m.page_done("13") == page::complete);
    CHECK(m.r.epoch() == 2);
    CHECK(m.r.version().str() == "13");
}

TEST_CASE("epoch: a list in place of a watch-list is repeated as a list if it is below the last version",
          "[reflector]") {
    machine m;
    m.follow("20");
    m.expire();
    REQUIRE(m.next().watch.send_initial_events_);
    m.watch_done(status(500, "InternalError"));
    CHECK(m.next().list.resource_version_ == "20");
    CHECK(m.page_done("12") == page::more);
    CHECK(m.next().what == step::list); // and not the watch-list that has just failed
    CHECK(m.last.list.resource_version_.empty());
    CHECK(m.page_done("13") == page::complete);
    CHECK(m.r.epoch() == 2);
}

TEST_CASE("epoch: a too large version on a watch is checked", "[reflector]") {
    machine m;
    m.follow("20");
    m.watch_done(too_large());
    m.wait();
    CHECK(m.next().check);
}

TEST_CASE("a state that a watch contradicts is fetched again: after a second, and later if that happens often",
          "[reflector]") {
    reflector_options long_watches;
    long_watches.watch_timeout_ = 3h;
    machine m(long_watches);
    m.follow("20");
    for (const auto after : {1s, 2s, 4s}) {
        m.r.contradicted(m.now);
        m.r.contradicted(m.now); // by the same missing event
        REQUIRE_FALSE(m.r.tick(m.now + after - 1ms));
        m.pass(after);
        REQUIRE(m.r.tick(m.now));
        CHECK_THAT(m.watch_done(ended_by_us).what(), Catch::Matchers::ContainsSubstring("nothing told"));
        m.sync("30");
        m.pass(10s);
        REQUIRE_FALSE(m.r.tick(m.now));
    }
    // A server may never report deletions: that then costs lists, but not many.
    clock::duration longest{};
    for (int i = 0; i < 20; ++i) {
        m.r.contradicted(m.now);
        const auto since = m.now;
        do m.now = m.r.deadline();
        while (!m.r.tick(m.now));
        CHECK(m.now - since >= longest);
        longest = m.now - since;
        m.watch_done(ended_by_us);
        m.sync(std::to_string(40 + i));
    }
    CHECK(longest == 15min);
    m.pass(70min);
    m.watch_done();
    m.stay_open();
    m.r.contradicted(m.now);
    CHECK(m.r.deadline() == m.now + 1s);
}

TEST_CASE("a contradiction does not delay a fetch that is due sooner", "[reflector]") {
    machine m;
    m.follow("20");
    m.r.contradicted(m.now);
    m.pass(1s);
    m.r.tick(m.now);
    m.watch_done(ended_by_us);
    m.sync("30");
    m.r.absence(m.now, false); // in 30 s
    m.pass(29s);
    m.r.contradicted(m.now); // in 2 s
    REQUIRE_FALSE(m.r.tick(m.now));
    CHECK(m.r.deadline() == m.now + 1s);
    m.pass(1s);
    REQUIRE(m.r.tick(m.now));
    CHECK_THAT(m.watch_done(ended_by_us).what(), Catch::Matchers::ContainsSubstring("cannot be read"));
}

TEST_CASE("a contradiction brings forward a fetch that is due later", "[reflector]") {
    machine m;
    m.follow("20");
    m.stay_proven();
    for (int i = 0; i < 3; ++i) m.r.absence(m.now, false);
    REQUIRE(m.r.deadline() == m.now + 2min);
    m.r.contradicted(m.now);
    CHECK(m.r.deadline() == m.now + 1s);
    m.pass(1s);
    REQUIRE(m.r.tick(m.now));
    CHECK_THAT(m.watch_done(ended_by_us).what(), Catch::Matchers::ContainsSubstring("nothing told"));
    m.sync("30");
    m.pass(2min);
    CHECK_FALSE(m.r.tick(m.now)); // once: the new state is what both waited for
}
