// A reflector by itself: its decisions, without any request.
#pragma once

#include <informer/cache/reflector.hpp>

#include <catch2/catch_test_macros.hpp>

#include <chrono>
#include <optional>
#include <string>
#include <utility>

namespace informer::testing {

using namespace std::chrono_literals;

using step = reflector::step;
using verdict = reflector::verdict;
using page = reflector::page_verdict;

inline resource_version rv(const std::string& v) {
    return resource_version(v);
}

inline failure status(int code, const std::string& reason = "", std::optional<std::chrono::seconds> retry_after = {}) {
    api_status s;
    s.code = code;
    s.reason = reason;
    s.retry_after = retry_after;
    return failure(std::move(s), "test");
}

inline failure too_large() {
    api_status s;
    s.code = 504;
    s.reason = "Timeout";
    s.causes.push_back({"ResourceVersionTooLarge", "Too large resource version", ""});
    return failure(std::move(s), "test");
}

inline const failure refused(errc::connection_refused, "test");
inline const failure cut_off(errc::connection_lost, "test");
inline const failure held_back(errc::header_timeout, "test");
inline const failure ended_by_us(errc::cancelled, "test");

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
    /// The next step is due at once.
    bool at_once() { return !waits(); }

    list_result answer(const std::string& version, const std::string& continue_token = "", std::uint64_t items = 0) {
        list_result l;
        l.items = items;
        l.resource_version = rv(version);
        l.continue_token = continue_token;
        return l;
    }
    page page_done(const std::string& version, const std::string& continue_token = "", std::uint64_t items = 0) {
        r.opened(now);
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
    /// By a list: synced at this version, and a watch from there is asked for.
    void list(const std::string& version) {
        REQUIRE(next().what == step::list);
        REQUIRE(page_done(version) == page::complete);
        REQUIRE(next().what == step::watch);
    }
    failure watch_done(const failure& f = failure()) { return r.watch_done(now, f); }
    /// The watch ends with 410: the server no longer has its version. The wait that follows is over.
    void expire() {
        watch_done(status(410, "Expired"));
        wait();
    }
    /// This watch and the next one are refused; the wait after each is over.
    void fail_twice() {
        watch_done(refused);
        wait();
        next();
        watch_done(refused);
        wait();
        REQUIRE(r.attempts() == 2);
    }
    /// The next watch stays open for a second, so that it counts as a success.
    void stay_open() {
        next();
        stay_proven();
    }
    void stay_proven() {
        r.opened(now);
        pass(1s);
        REQUIRE_FALSE(r.tick(now));
    }
    verdict event(const std::string& version, watch_event_type t = watch_event_type::modified) {
        return r.event_seen(now, t, rv(version), true);
    }

    reflector r;
    clock::time_point now = clock::time_point() + 1h;
    reflector::action last;
    failure why;
};

inline reflector_options no_watch_list() {
    reflector_options o;
    o.watch_list_ = false;
    return o;
}

} // namespace informer::testing
