// The reflector's decisions, step by step. Names carry the items of the contract they pin.
#include <informer/cache/reflector.hpp>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <chrono>
#include <string>

using namespace informer;
using namespace std::chrono_literals;

namespace {

using step = reflector::step;
using verdict = reflector::verdict;
using page = reflector::page_verdict;

resource_version rv(const std::string& v) {
    return resource_version(v);
}

failure status(int code, const std::string& reason = "", std::optional<std::chrono::seconds> retry_after = {}) {
    api_status s;
    s.code = code;
    s.reason = reason;
    s.retry_after = retry_after;
    return failure(std::move(s), "test");
}

failure too_large() {
    api_status s;
    s.code = 504;
    s.reason = "Timeout";
    s.causes.push_back({"ResourceVersionTooLarge", "Too large resource version", ""});
    return failure(std::move(s), "test");
}

const failure refused(errc::connection_refused, "test");
const failure cut_off(errc::connection_lost, "test");
const failure ended_by_us(errc::cancelled, "test");

/// A reflector and the time it lives in; back-off without jitter.
struct machine {
    explicit machine(reflector_options o = reflector_options(), watch_list_support s = watch_list_support::unknown)
        : r((o.backoff_.jitter(0), std::move(o)), s) {}

    reflector::action next() { return last = r.next(now); }
    void pass(clock::duration d) { now += d; }
    /// The reflector waits; returns for how long, and lets that time pass.
    clock::duration wait() {
        const auto a = r.next(now);
        REQUIRE(a.what == step::wait);
        const auto d = a.until - now;
        now = a.until;
        r.slept();
        return d;
    }
    bool waits() { return r.next(now).what == step::wait; }
    /// Not waiting: at once.
    bool at_once() { return !waits(); }

    list_result answer(const std::string& version, const std::string& continue_token = "", std::uint64_t items = 0) {
        list_result l;
        l.items = items;
        l.resource_version = rv(version);
        l.continue_token = continue_token;
        return l;
    }
    page page_done(const std::string& version, const std::string& continue_token = "", std::uint64_t items = 0) {
        why = failure();
        return r.page_done(now, answer(version, continue_token, items), why);
    }
    bool list_failed(failure f) {
        why = std::move(f);
        return r.list_failed(now, why);
    }
    /// By watch-list: synced at this version, the stream goes on.
    void sync(const std::string& version) {
        const auto a = next();
        REQUIRE(a.what == step::watch);
        REQUIRE(a.watch.send_initial_events_);
        r.opened(now);
        r.event_seen(now, watch_event_type::added, rv("1"), false);
        REQUIRE(r.bookmark_seen(now, rv(version), true) == verdict::complete);
    }
    /// Synced, and in a plain watch that is open.
    void follow(const std::string& version) {
        sync(version);
        pass(10s);
        r.watch_done(now, failure());
        REQUIRE(next().what == step::watch);
        REQUIRE_FALSE(last.watch.send_initial_events_);
        r.opened(now);
    }
    failure watch_done(const failure& f = failure()) { return r.watch_done(now, f); }
    verdict event(const std::string& version, watch_event_type t = watch_event_type::modified) {
        return r.event_seen(now, t, rv(version), true);
    }

    reflector r;
    clock::time_point now = clock::time_point() + 1h;
    reflector::action last;
    failure why;
};

reflector_options no_watch_list() {
    reflector_options o;
    o.watch_list_ = false;
    return o;
}

} // namespace

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

TEST_CASE("WL3 events before the end bookmark are collected, with changes and deletes of what was told",
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

TEST_CASE("WL7 a server that refuses watch-list is listed at once, and that is remembered", "[reflector]") {
    const int code = GENERATE(400, 422);
    machine m;
    m.next();
    m.watch_done(status(code, code == 400 ? "BadRequest" : "Invalid"));
    CHECK(m.next().what == step::list);
    CHECK(m.last.list.limit_ == 500);
    CHECK(m.r.support() == watch_list_support::no);
    CHECK(m.page_done("7") == page::complete);
    CHECK(m.r.version().str() == "7");
    CHECK(m.next().what == step::watch);
    CHECK(m.last.watch.resource_version_ == "7");
}

TEST_CASE("WL10 403 on a watch-list: if the list works, and again, watch-list is what was refused", "[reflector]") {
    machine m;
    m.next();
    m.watch_done(status(403, "Forbidden"));
    CHECK(m.next().what == step::list);
    CHECK(m.r.support() == watch_list_support::unknown);
    SECTION("the list works") {
        CHECK(m.page_done("7") == page::complete);
        // A server that starts forbids everything for a moment: once is no proof.
        CHECK(m.r.support() == watch_list_support::unknown);
        CHECK(m.next().what == step::watch);
        m.watch_done(status(410, "Expired"));
        m.wait();
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

TEST_CASE("WL7 an ERROR event with 500 in a watch-list means list and watch, and is remembered", "[reflector]") {
    machine m;
    m.next();
    m.r.opened(m.now);
    m.watch_done(status(500, "InternalError"));
    CHECK(m.next().what == step::list);
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

TEST_CASE("WL7 410 or a too large version on a watch-list falls back to the newest state at once", "[reflector]") {
    const bool gone = GENERATE(true, false);
    machine m;
    m.follow("20");
    m.watch_done(status(410, "Expired"));
    m.wait();
    CHECK(m.next().watch.send_initial_events_);
    CHECK(m.last.watch.resource_version_ == "20"); // WL2: never older than what was seen
    m.watch_done(gone ? status(410, "Expired") : too_large());
    CHECK(m.at_once());
    CHECK(m.next().watch.send_initial_events_);
    CHECK(m.last.watch.resource_version_.empty());
}

TEST_CASE(
    "X5 two seconds of silence on an opened watch-list: list and watch, remembered when there was something to send",
    "[reflector]") {
    machine m;
    m.next();
    m.pass(10s);
    CHECK_FALSE(m.r.tick(m.now)); // not open yet: no reason
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
        m.watch_done(status(410, "Expired"));
        m.wait();
        CHECK(m.next().watch.send_initial_events_);
    }
}

TEST_CASE("X5 a server known for watch-list is given 30 s without progress", "[reflector]") {
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
    m.watch_done(ended_by_us);
    CHECK(m.next().what == step::list);
    CHECK(m.r.support() == watch_list_support::yes); // not now, but another time
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
    SECTION("a change of something never told: at once") {
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
    SECTION("an end bookmark without a version") {
        CHECK(m.r.bookmark_seen(m.now, rv(""), true) == verdict::end);
    }
    m.watch_done();
    CHECK(m.next().what == step::list);
    CHECK(m.r.support() == watch_list_support::no);
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
    CHECK(m.last.list.limit_ == 500);
    m.page_done("10");
    m.next();
    m.r.opened(m.now);
    m.watch_done(status(410, "Expired"));
    m.wait();
    CHECK(m.next().list.resource_version_ == "10"); // later never older than what was seen
}

TEST_CASE("R4 a relist at a version is not paged", "[reflector]") {
    machine m(no_watch_list());
    m.next();
    m.page_done("10");
    m.next();
    m.watch_done(status(410, "Expired"));
    m.wait();
    CHECK(m.next().list.resource_version_ == "10");
    CHECK(m.last.list.limit_ == 0);
}

TEST_CASE("R5 expired list falls back to a consistent read", "[reflector]") {
    const bool gone = GENERATE(true, false);
    machine m(no_watch_list());
    m.next();
    m.page_done("10");
    m.next();
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

TEST_CASE("W14 a list without a resource version is an error", "[reflector]") {
    machine m(no_watch_list());
    m.next();
    CHECK(m.page_done("") == page::failed);
    CHECK(m.why == errc::bad_response);
    CHECK(m.wait() == 800ms);
    CHECK(m.next().what == step::list);
}

TEST_CASE("R11 connection refused or 429 on a watch: back off and watch again, no relist", "[reflector]") {
    const failure f =
        GENERATE(as<failure>(), refused, status(429, "TooManyRequests"), status(503, "ServiceUnavailable"));
    machine m;
    m.follow("20");
    m.pass(10s);
    m.watch_done();
    for (int i = 0; i < 40; ++i) {
        m.next();
        CHECK(m.last.what == step::watch);
        CHECK(m.last.watch.resource_version_ == "20");
        CHECK_FALSE(m.last.watch.send_initial_events_);
        m.watch_done(f);
        const auto d = m.wait();
        if (i >= 6) CHECK(d == 30s);
    }
    CHECK(m.r.attempts() == 40);
    CHECK(m.r.phase() == informer_phase::backing_off);
}

TEST_CASE("R11 Retry-After is waited for at least", "[reflector]") {
    const int code = GENERATE(429, 503);
    machine m;
    m.follow("20");
    m.watch_done(status(code, "", 17s));
    CHECK(m.wait() == 17s);
    m.next();
    m.watch_done(status(code, "", std::chrono::seconds(1'000'000'000)));
    CHECK(m.wait() == reflector::longest_retry_after); // a server cannot stop us for ever
    m.next();
    m.watch_done(status(code, "", 1s));
    CHECK(m.wait() == 3200ms);
}

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
    CHECK(m.watch_done(cut_off) == errc::connection_lost); // X2: told, all the same
    CHECK(m.at_once());
    CHECK(m.next().watch.resource_version_ == "21");
    m.watch_done(refused);
    CHECK(m.wait() == 800ms);
}

TEST_CASE("R13 a very short watch backs off, then watches again from the last version", "[reflector]") {
    machine m;
    m.follow("20");
    m.pass(999ms);
    CHECK(m.watch_done()); // told as a failure
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

TEST_CASE("R14 410 again right after a relist: the newest state", "[reflector]") {
    machine m(no_watch_list());
    m.next();
    m.page_done("20");
    m.next();
    m.watch_done(status(410, "Expired"));
    m.wait();
    m.next();
    m.page_done("20");
    m.next();
    m.watch_done(status(410, "Expired"));
    m.wait();
    CHECK(m.next().list.resource_version_.empty());
}

TEST_CASE("R14 an ERROR event watches again from the last version; only if it comes back the state is fetched",
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

TEST_CASE("R14 StoreReadError fetches the state again: the deletion of a corrupt object has no event", "[reflector]") {
    machine m;
    m.follow("20");
    m.watch_done(status(500, "StoreReadError"));
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

TEST_CASE("401, 403 and 404 park at once and are tried again: a server that starts answers so for a moment",
          "[reflector]") {
    machine m;
    m.follow("20");
    SECTION("401 and 403 on a watch: the same watch again, no relist; up to 30 s apart") {
        const int code = GENERATE(401, 403);
        for (const auto expected : {800ms, 1600ms, 3200ms, 6400ms, 12800ms, 25600ms, 30000ms, 30000ms}) {
            m.watch_done(status(code));
            CHECK(m.r.phase() == informer_phase::parked);
            CHECK(m.wait() == expected);
            CHECK(m.next().watch.resource_version_ == "20");
            CHECK_FALSE(m.last.fresh);
        }
    }
    SECTION("404: the resource was removed; up to 10 s apart, and its state is fetched when it is back") {
        for (const auto expected : {800ms, 1600ms, 3200ms, 6400ms}) {
            m.watch_done(status(404, "NotFound"));
            CHECK(m.r.phase() == informer_phase::parked);
            CHECK(m.wait() == expected);
            CHECK(m.next().fresh);
        }
        for (int i = 0; i < 20; ++i) {
            m.watch_done(status(404, "NotFound"));
            const auto waited = m.wait();
            CHECK(waited >= 10s);
            CHECK(waited <= 12500ms);
            m.next();
        }
        m.r.opened(m.now);
        m.event("30", watch_event_type::added);
        m.r.bookmark_seen(m.now, rv("31"), true);
        CHECK(m.r.phase() == informer_phase::watching);
        CHECK(m.r.attempts() == 0);
    }
}

TEST_CASE("X1 failing for long never resets the back-off, healthy time does", "[reflector]") {
    machine m;
    m.follow("20");
    m.event("21");
    m.watch_done();
    m.next();
    for (int i = 0; i < 10; ++i) {
        m.watch_done(refused);
        m.wait();
        m.next();
    }
    m.pass(24h);
    m.watch_done(refused);
    CHECK(m.wait() == 30s);
    SECTION("a silent watch is no health") {
        m.next();
        m.r.opened(m.now);
        m.pass(3min);
        m.watch_done();
        m.next();
        m.watch_done(refused);
        CHECK(m.wait() == 30s);
    }
    SECTION("two minutes of watches that delivered, summed up") {
        for (int i = 0; i < 4; ++i) {
            m.next();
            m.r.opened(m.now);
            m.event(std::to_string(50 + i));
            m.pass(31s);
            m.watch_done();
        }
        m.next();
        m.watch_done(refused);
        CHECK(m.wait() == 800ms);
    }
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
    CHECK(m.page_done("21") == page::checked);
    CHECK(m.next().watch.resource_version_ == "20");
    m.r.opened(m.now);
    m.event("22");
    m.pass(m.last.watch.timeout_);
    m.watch_done();
    CHECK_FALSE(m.next().check);
}

TEST_CASE("epoch: a list below the last version is asked for again as a consistent read", "[reflector]") {
    machine m(no_watch_list());
    m.next();
    m.page_done("20");
    m.next();
    m.watch_done(status(410, "Expired"));
    m.wait();
    CHECK(m.next().list.resource_version_ == "20");
    CHECK(m.page_done("12") == page::more);
    CHECK(m.next().fresh);
    CHECK(m.last.list.resource_version_.empty());
    CHECK(m.page_done("13") == page::complete);
    CHECK(m.r.epoch() == 2);
    CHECK(m.r.version().str() == "13");
}

TEST_CASE("epoch: a too large version on a watch is checked", "[reflector]") {
    machine m;
    m.follow("20");
    m.watch_done(too_large());
    m.wait();
    CHECK(m.next().check);
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

TEST_CASE("a list without a byte for two minutes is ended and tried again", "[reflector]") {
    machine m(no_watch_list());
    m.next();
    m.pass(119s);
    CHECK_FALSE(m.r.tick(m.now));
    m.r.progress(m.now);
    CHECK(m.r.deadline() == m.now + 2min);
    m.pass(2min);
    CHECK(m.r.tick(m.now));
    CHECK_FALSE(m.list_failed(ended_by_us));
    CHECK(m.why == errc::body_idle_timeout);
    CHECK(m.wait() == 800ms);
    CHECK(m.next().what == step::list);
}

TEST_CASE("a watch that stays open for a second is an attempt that succeeded", "[reflector]") {
    machine m;
    m.follow("20");
    m.watch_done(refused);
    m.wait();
    m.next();
    m.watch_done(refused);
    m.wait();
    CHECK(m.r.attempts() == 2);
    m.next();
    m.r.opened(m.now);
    CHECK(m.r.deadline() == m.now + 1s);
    CHECK(m.r.phase() == informer_phase::backing_off);
    m.pass(1s);
    CHECK_FALSE(m.r.tick(m.now));
    CHECK(m.r.attempts() == 0);
    CHECK(m.r.phase() == informer_phase::watching);
}

TEST_CASE("a version the server does not understand: the newest state", "[reflector]") {
    machine m;
    m.follow("20");
    m.watch_done(status(400, "BadRequest"));
    m.wait();
    CHECK(m.next().fresh);
    CHECK(m.last.watch.resource_version_.empty());
}

TEST_CASE("what is known of the source is used: no watch-list where there is none", "[reflector]") {
    machine m(reflector_options(), watch_list_support::no);
    CHECK(m.next().what == step::list);
    CHECK(m.last.list.limit_ == 500);
}
