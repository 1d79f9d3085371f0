// The decisions of leader election, step by step: who acquires a Lease, renews it and loses it.
#include "election_logic_scene.hpp"

#include <algorithm>
#include <chrono>
#include <set>
#include <string>

using namespace election_logic_test;

TEST_CASE("LE1 options are checked, and the failure says what is wrong") {
    CHECK_FALSE(me().check());
    const auto wrong = [](leader_election_options o) {
        const failure f = o.check();
        CHECK(f == errc::bad_configuration);
        return f.message();
    };
    CHECK(wrong(me().renew_deadline(15s)).find("lease duration") != std::string::npos);
    CHECK(wrong(me().retry_period(8400ms)).find("1.2") != std::string::npos);
    CHECK_FALSE(me().retry_period(8300ms).check());
    CHECK(wrong(me().retry_period(0s)).find("retry period") != std::string::npos);
    CHECK_FALSE(me().identity("").check()); // there is a default
    CHECK(wrong(leader_election_options("", "x").identity("me")).find("namespace") != std::string::npos);
    CHECK(wrong(leader_election_options("ns", "").identity("me")).find("name") != std::string::npos);
    CHECK(wrong(me().lease_duration(std::chrono::hours(24 * 3650))).find("year") != std::string::npos);
    CHECK(wrong(me().request_timeout(-1s)).find("time-out") != std::string::npos);
}

TEST_CASE("LE1 the constants are client-go's") {
    const auto o = me();
    CHECK(o.lease_duration_ == 15s);
    CHECK(o.renew_deadline_ == 10s);
    CHECK(o.retry_period_ == 2s);
    CHECK(leader_election_options::jitter == 1.2);
    CHECK(o.effective_request_timeout() == 5s);
    CHECK(me().retry_period(100ms).renew_deadline(500ms).effective_request_timeout() == 1s);
}

TEST_CASE("LE2 a candidate asks again after one to 2.2 retry periods") {
    bench b;
    clock::duration least = 1h, most{};
    for (int i = 0; i < 500; ++i) {
        REQUIRE(b.next() == action::get);
        b.logic.failed(b.now, broken);
        const auto d = b.wait();
        least = std::min(least, d);
        most = std::max(most, d);
        b.now += d;
    }
    CHECK(least >= 2s);
    CHECK(least < 2050ms);
    CHECK(most <= 4400ms);
    CHECK(most > 4350ms);
}

TEST_CASE("LE3 no Lease: it is created, with no transition") {
    bench b;
    CHECK(b.next() == action::get);
    b.logic.missing();
    CHECK(b.next() == action::create);
    const auto r = b.logic.desired(wall);
    CHECK(r.holder == "me");
    CHECK(r.duration == 15s);
    CHECK(r.transitions == 0);
    CHECK(r.renew_time == "2023-11-14T22:13:20.000000Z");
    CHECK(r.acquire_time == r.renew_time);
    CHECK_FALSE(b.logic.work_wanted());
    b.write();
    CHECK(b.logic.work_wanted());
    CHECK(b.logic.holding(b.now));
    CHECK(b.logic.token().version == resource_version("77"));
}

TEST_CASE("LE3 a Lease that another held, and that was then deleted, is created with no transition") {
    bench b;
    REQUIRE(b.next() == action::get);
    b.logic.found(b.now, held_by("you"));
    b.now += b.wait();
    REQUIRE(b.next() == action::get);
    b.logic.missing();
    REQUIRE(b.next() == action::create);
    const auto r = b.logic.desired(wall);
    CHECK(r.holder == "me");
    CHECK(r.transitions == 0);
    CHECK(r.acquire_time == r.renew_time);
}

TEST_CASE("LE3 when another has won the creation, the candidate tries again later") {
    bench b;
    CHECK(b.next() == action::get);
    b.logic.missing();
    CHECK(b.next() == action::create);
    b.logic.failed(b.now, refused(409, "AlreadyExists"));
    b.now += b.wait();
    CHECK(b.next() == action::get);
    b.logic.found(b.now, held_by("you"));
    CHECK(b.wait() >= 2s);
}

TEST_CASE("LE3 a fresh record of another is respected; it is taken when it has not changed for its own duration") {
    bench b;
    const auto first = b.now;
    clock::duration waited{};
    while (true) {
        const auto what = b.next();
        if (what == action::wait) {
            b.now += b.wait();
            continue;
        }
        if (what == action::update) break;
        REQUIRE(what == action::get);
        b.logic.found(b.now, held_by("you", "1", 30s));
        waited = b.now - first;
        REQUIRE(waited < 40s);
    }
    // Its 30 s, not our 15 s.
    CHECK(waited >= 30s);
    const auto r = b.logic.desired(wall);
    CHECK(r.holder == "me");
    CHECK(r.transitions == 4);
    CHECK(r.acquire_time == r.renew_time);
    CHECK(r.duration == 15s);
}

TEST_CASE("LE3 each change of the record starts the time anew, whatever its timestamps say") {
    bench b;
    for (const std::string stamp : {"2099-01-01T00:00:00Z", "1970-01-01T00:00:00Z", "", "rubbish"}) {
        b.now += 14s;
        REQUIRE(b.next() == action::get);
        b.logic.found(b.now, held_by("you", stamp));
        CHECK(b.next() == action::wait);
    }
    b.now += 14s;
    REQUIRE(b.next() == action::get);
    b.logic.found(b.now, held_by("you", "rubbish"));
    CHECK(b.next() == action::wait);
    b.now += 5s;
    REQUIRE(b.next() == action::get);
    b.logic.found(b.now, held_by("you", "rubbish"));
    CHECK(b.next() == action::update);
}

TEST_CASE("LE3 an empty holder is taken at once, and counts as a transition") {
    bench b;
    REQUIRE(b.next() == action::get);
    b.logic.found(b.now, held_by("", "1", 1s));
    CHECK(b.next() == action::update);
    CHECK(b.logic.desired(wall).transitions == 4);
}

TEST_CASE("LE3 our own record from before is taken at once and is no transition") {
    bench b;
    REQUIRE(b.next() == action::get);
    b.logic.found(b.now, held_by("me"));
    CHECK(b.next() == action::update);
    CHECK(b.logic.desired(wall).transitions == 3);
    CHECK(b.logic.desired(wall).acquire_time == "0");
    b.write();
    CHECK(b.logic.work_wanted());
}

TEST_CASE("LE3 where our Lease has no acquire time, it gets one: an empty one would be refused again and again") {
    lease_record ours = held_by("me");
    ours.acquire_time.clear();
    bench b;
    SECTION("from before") {
        REQUIRE(b.next() == action::get);
        b.logic.found(b.now, ours);
    }
    SECTION("while it leads") {
        b.lead();
        b.now += 2s;
        REQUIRE(b.next() == action::update);
        b.logic.failed(b.now, conflict);
        REQUIRE(b.next() == action::get);
        b.logic.found(b.now, ours);
    }
    CHECK(b.next() == action::update);
    const auto r = b.logic.desired(wall);
    CHECK(r.acquire_time == r.renew_time);
    CHECK(r.transitions == 3);
}

TEST_CASE("LE3 a record without a duration counts for our own lease duration") {
    bench b;
    REQUIRE(b.next() == action::get);
    b.logic.found(b.now, held_by("you", "1", 0s));
    CHECK(b.next() == action::wait);
    b.now += 15s;
    REQUIRE(b.next() == action::get);
    b.logic.found(b.now, held_by("you", "1", 0s));
    CHECK(b.next() == action::update);
}

TEST_CASE("LE3 the leader renews without reading first, and reads only after a failure") {
    bench b;
    b.lead();
    CHECK(b.wait() == 2s);
    b.now += 2s;
    CHECK(b.next() == action::update);
    const auto r = b.logic.desired(wall + 2s);
    CHECK(r.transitions == 0);
    CHECK(r.acquire_time == "2023-11-14T22:13:20.000000Z");
    CHECK(r.renew_time == "2023-11-14T22:13:22.000000Z");
    b.write();
    CHECK(b.logic.slow_paths() == 0);
    b.now += 2s;
    CHECK(b.next() == action::update);
    b.logic.failed(b.now, conflict);
    CHECK(b.next() == action::get);
    b.logic.found(b.now, held_by("me", "9"));
    CHECK(b.logic.slow_paths() == 1);
    CHECK(b.next() == action::update);
    b.write();
    CHECK(b.wait() == 2s);
    CHECK(b.logic.work_wanted());
}

TEST_CASE("LE3 a Lease that was deleted under its leader is created again, with its history") {
    bench b;
    b.lead();
    b.now += 2s;
    REQUIRE(b.next() == action::update);
    b.logic.failed(b.now, refused(404, "NotFound"));
    REQUIRE(b.next() == action::get);
    b.logic.missing();
    REQUIRE(b.next() == action::create);
    CHECK(b.logic.desired(wall + 9s).acquire_time == "2023-11-14T22:13:20.000000Z");
    b.write();
    CHECK(b.logic.work_wanted());
}

TEST_CASE("LE3 a wall clock that stands still does not make renewals invisible") {
    bench b;
    b.lead();
    b.now += 2s;
    REQUIRE(b.next() == action::update);
    std::set<std::string> said{b.logic.desired(wall).renew_time};
    CHECK(said.contains("2023-11-14T22:13:20.000001Z"));
    for (int i = 0; i < 9; ++i) { // a reader that sees only every other renewal must see a change, too
        b.write();
        b.now += 2s;
        REQUIRE(b.next() == action::update);
        said.insert(b.logic.desired(wall).renew_time);
    }
    CHECK(said.size() == 10);
}

TEST_CASE("LE3 a wall clock set back by a second or more is followed at once, one set back by less is not") {
    renewal_times times;
    CHECK(times.next(wall + 1h, "") == "2023-11-14T23:13:20.000000Z");
    CHECK(times.next(wall, "") == "2023-11-14T22:13:20.000000Z");
    CHECK(times.next(wall - 999ms, "") == "2023-11-14T22:13:20.000001Z");
    CHECK(times.next(wall - 1s, "2023-11-14T22:13:19.000000Z") == "2023-11-14T22:13:19.000001Z");
}

TEST_CASE("LE4 a leader that cannot renew stops leading one renew deadline after its last renewal was sent") {
    bench b;
    b.lead();
    const auto sent = b.now;
    while (b.next() != action::wait || b.logic.work_wanted()) {
        REQUIRE(b.now - sent <= 10s);
        const auto s = b.logic.next(b.now);
        if (s.what == action::wait)
            b.now = s.until;
        else
            b.logic.failed(b.now, broken);
    }
    CHECK(b.now - sent == 10s);
    CHECK_FALSE(b.logic.holding(b.now));
    CHECK(b.logic.lost());
    b.logic.work_over(b.now);
    CHECK(b.next() == action::over);
    CHECK(b.logic.end() == election_end::lost);
}

TEST_CASE("LE4 a request that hangs ends in time to try again, and at the deadline at the latest") {
    bench b;
    b.lead();
    const auto sent = b.now;
    b.now += 2s;
    auto s = b.logic.next(b.now);
    CHECK(s.what == action::update);
    CHECK(s.until - b.now == 5s);
    b.now = s.until;
    b.logic.failed(b.now, silent);
    s = b.logic.next(b.now);
    CHECK(s.what == action::get);
    CHECK(s.until - sent == 10s);
    b.now = s.until;
    CHECK(b.logic.abandon(b.now));
    b.logic.failed(b.now, silent);
    CHECK(b.next() == action::wait);
    CHECK_FALSE(b.logic.work_wanted());
}

TEST_CASE("LE4 an infinite request time-out cuts no request short") {
    auto o = me();
    o.request_timeout(std::chrono::nanoseconds::max());
    REQUIRE_FALSE(o.check());
    bench b(o);
    CHECK(b.logic.next(b.now).until == clock::time_point::max());
    b.lead();
    b.now += b.wait();
    CHECK(b.logic.next(b.now).until == b.logic.valid_until());
}

TEST_CASE("LE4 the validity counts from the sending of a renewal, not from its answer") {
    bench b;
    b.lead();
    b.now += 2s;
    REQUIRE(b.next() == action::update);
    const auto sent = b.now;
    b.now += 4s;
    b.logic.written(sent, b.now, b.logic.desired(wall + 2s), token);
    CHECK(b.logic.valid_until() == sent + 10s);
    CHECK(b.logic.expires() == sent + 15s);
    CHECK(b.next() == action::update);
}

TEST_CASE("LE4 a leader that sees another holder stops at once") {
    for (const std::string who : {"you", ""}) {
        bench b;
        b.lead();
        b.now += 2s;
        REQUIRE(b.next() == action::update);
        b.logic.failed(b.now, conflict);
        REQUIRE(b.next() == action::get);
        b.logic.found(b.now, held_by(who));
        CHECK_FALSE(b.logic.work_wanted());
        CHECK_FALSE(b.logic.holding(b.now));
        CHECK(b.logic.lost());
        // It waits for its work to end, and does not touch the Lease any more.
        CHECK(b.next() == action::wait);
        b.logic.work_over(b.now);
        CHECK(b.next() == action::over);
        CHECK(b.logic.end() == election_end::lost);
    }
}

TEST_CASE("LE4 a process that was paused knows at once that it does not lead any more") {
    bench b;
    b.lead();
    b.now += 1h;
    CHECK_FALSE(b.logic.holding(b.now));
    CHECK(b.next() == action::wait);
    CHECK(b.logic.lost());
    CHECK(b.logic.overdue(b.now));
}

TEST_CASE("work that outlives the Lease is overdue once others may lead") {
    bench b;
    b.lead();
    b.now += 10s;
    auto s = b.logic.next(b.now);
    CHECK(s.what == action::wait);
    CHECK(s.until == start + 15s);
    CHECK_FALSE(b.logic.overdue(b.now));
    b.now = s.until;
    CHECK(b.logic.overdue(b.now));
    b.logic.work_over(b.now);
    CHECK_FALSE(b.logic.overdue(b.now));
}

TEST_CASE("re-election: after a loss the candidate stands again, once its work has ended") {
    bench b(me().re_elect());
    b.lead();
    b.now += 10s;
    REQUIRE(b.next() == action::wait);
    REQUIRE(b.logic.lost());
    b.now += 20s;
    REQUIRE(b.next() == action::wait);
    b.logic.work_over(b.now);
    REQUIRE(b.next() == action::get);
    b.logic.found(b.now, held_by("you"));
    REQUIRE(b.next() == action::wait);
    b.now += 16s;
    REQUIRE(b.next() == action::get);
    b.logic.found(b.now, held_by("you"));
    REQUIRE(b.next() == action::update);
    b.write();
    CHECK(b.logic.work_wanted());
    b.logic.stop();
    REQUIRE(b.next() == action::get);
    b.logic.missing();
    CHECK(b.next() == action::over);
    CHECK(b.logic.end() == election_end::stopped);
}

TEST_CASE("LE8 only a leader whose Lease expired long ago, or whose work goes on without it, is unhealthy") {
    bench b;
    CHECK_FALSE(b.logic.check(b.now, 5s));
    REQUIRE(b.next() == action::get);
    b.logic.found(b.now, held_by("you"));
    CHECK_FALSE(b.logic.check(b.now + 1h, 5s));
    bench l;
    l.lead();
    CHECK_FALSE(l.logic.check(l.now + 15s, 0s));
    CHECK_FALSE(l.logic.check(l.now + 20s, 5s));
    CHECK_FALSE(l.logic.check(l.now + 1h, clock::duration::max()));
    CHECK(l.logic.check(l.now + 20s + 1ms, 5s) == errc::deadline_exceeded);
    const auto expired = l.logic.expires();
    l.now += 10s;
    REQUIRE(l.next() == action::wait); // it has noticed, and no longer claims to lead
    CHECK_FALSE(l.logic.check(expired + 5s, 5s));
    CHECK_FALSE(l.logic.check(expired + 1h, clock::duration::max()));
    CHECK(l.logic.check(expired + 5s + 1ms, 5s) == errc::deadline_exceeded);
    l.logic.work_over(l.now);
    CHECK_FALSE(l.logic.check(expired + 1h, 5s));
}
