// When a watch that has gone silent is given up, judged by the bookmarks that came on it.
#include "reflector_machine.hpp"

using namespace informer;
using namespace informer::testing;

namespace {

/// `n` bookmarks, one a minute.
void bookmarks(machine& m, int n) {
    for (int i = 0; i < n; ++i) {
        m.pass(1min);
        REQUIRE_FALSE(m.r.tick(m.now));
        REQUIRE(m.r.bookmark_seen(m.now, m.r.version(), false) == verdict::apply);
    }
}

} // namespace

TEST_CASE("a silent watch that had regular bookmarks is given up after two and a half intervals, and resumed",
          "[reflector]") {
    reflector_options o;
    o.watch_timeout_ = 10min; // beyond what this is about
    machine m(o);
    m.follow("20");
    bookmarks(m, 3);
    CHECK(m.r.deadline() == m.now + 150s);
    m.pass(149s);
    CHECK_FALSE(m.r.tick(m.now));
    m.pass(1s);
    CHECK(m.r.tick(m.now));
    CHECK(m.watch_done(ended_by_us) == errc::body_idle_timeout);
    CHECK(m.at_once());
    CHECK(m.r.phase() == informer_phase::watching);
    const auto a = m.next();
    CHECK(a.what == step::watch);
    CHECK(a.watch.resource_version_ == "20");
    // What is known of the server holds for the next watch, too; any bytes are a sign of life.
    m.r.opened(m.now);
    m.pass(100s);
    m.event("21");
    m.pass(200s);
    m.r.progress(m.now);
    CHECK_FALSE(m.r.tick(m.now));
    CHECK(m.r.deadline() > m.now);
}

TEST_CASE("if bookmarks stop for good, watches are not given up for that again and again", "[reflector]") {
    machine m;
    m.follow("20");
    bookmarks(m, 3);
    int cuts = 0;
    for (const auto end = m.now + 24h; m.now < end;) {
        m.now = m.r.deadline();
        REQUIRE(m.r.tick(m.now));
        if (m.watch_done(ended_by_us) == errc::body_idle_timeout) ++cuts;
        if (m.next().check) {
            m.page_done("20");
            m.next();
        }
        m.stay_proven();
    }
    CHECK(cuts >= 2);
    CHECK(cuts <= 3); // 150, 300, and perhaps 600 s: watches do not last longer
    // When they come again, the usual patience returns.
    bookmarks(m, 2); // the first one 61 s after the watch began
    CHECK(m.r.deadline() == m.now + 150s);
}

TEST_CASE("if bookmarks stop for good, changes now and then do not make watches be given up again and again",
          "[reflector]") {
    machine m;
    m.follow("20");
    bookmarks(m, 3);
    int cuts = 0, version = 21;
    for (auto change = m.now + 170s, end = m.now + 12h; m.now < end;) {
        m.now = std::min(change, m.r.deadline());
        if (m.now == change) {
            REQUIRE(m.event(std::to_string(version++)) == verdict::apply);
            change += 170s;
        }
        if (!m.r.tick(m.now)) continue;
        if (m.watch_done(ended_by_us) == errc::body_idle_timeout) ++cuts;
        m.next();
        m.r.opened(m.now);
    }
    CHECK(cuts >= 1);
    CHECK(cuts <= 3);
}

TEST_CASE("a watch is not given up because bookmarks come less often than before", "[reflector]") {
    machine m;
    m.follow("20");
    for (int i = 0; i < 5; ++i) { // a busy time
        m.pass(1s);
        m.r.tick(m.now);
        m.r.bookmark_seen(m.now, m.r.version(), false);
    }
    int cuts = 0;
    for (auto bookmark = m.now + 100s, end = m.now + 12h; m.now < end;) {
        m.now = std::min(bookmark, m.r.deadline());
        if (m.now == bookmark) {
            REQUIRE(m.r.bookmark_seen(m.now, m.r.version(), false) == verdict::apply);
            bookmark = m.now + 100s;
        }
        if (!m.r.tick(m.now)) continue;
        if (m.watch_done(ended_by_us) == errc::body_idle_timeout) ++cuts;
        m.next();
        m.r.opened(m.now);
        bookmark = m.now + 100s; // the interval counts from there, as in kube-apiserver
    }
    CHECK(cuts <= 1);
}

TEST_CASE("a watch that is shorter than two bookmark intervals is not given up before its first bookmark",
          "[reflector]") {
    reflector_options o;
    o.watch_timeout_ = 60s;
    machine m(o);
    m.follow("20");
    // Like kube-apiserver's bookmarks: a minute after the beginning, and two seconds before the end.
    for (int watch = 0; watch < 5; ++watch) {
        m.pass(61s);
        REQUIRE_FALSE(m.r.tick(m.now));
        m.r.bookmark_seen(m.now, m.r.version(), false);
        m.pass(2s);
        m.r.bookmark_seen(m.now, m.r.version(), false);
        m.pass(2s);
        m.watch_done();
        m.next();
        m.r.opened(m.now);
    }
}

TEST_CASE("without regular bookmarks a quiet watch is not given up", "[reflector]") {
    for (const int seen : {0, 1, 2}) {
        machine m;
        m.follow("20");
        m.pass(1s);
        m.r.tick(m.now);
        const auto end = m.r.deadline();
        bookmarks(m, seen);
        CHECK(m.r.deadline() == end);
    }
    machine m; // bookmarks as far apart as a watch is long
    m.follow("20");
    for (int i = 0; i < 4; ++i) {
        m.pass(290s);
        m.r.bookmark_seen(m.now, m.r.version(), false);
        m.pass(290s);
        m.r.bookmark_seen(m.now, m.r.version(), false);
        m.watch_done();
        m.next();
        m.r.opened(m.now);
    }
    m.pass(1s);
    m.r.tick(m.now);
    CHECK(m.r.deadline() >= m.now + 5min);
}
