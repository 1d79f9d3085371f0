// The decisions of leader election without a server and a clock: the test says what the server answers, and when.
#pragma once

#include "controller/election_logic.hpp"
#include "lease_scene.hpp"

#include <catch2/catch_test_macros.hpp>

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>

namespace election_logic_test {

using namespace informer;
using namespace informer::detail;
using namespace informer::testing;
using action = election_logic::action;

inline leader_election_options me() {
    leader_election_options o("ns", "lock");
    o.identity("me");
    return o;
}

inline lease_record held_by(const std::string& who, const std::string& renewed = "1", std::chrono::seconds d = 15s,
                            std::int64_t transitions = 3) {
    lease_record r;
    r.holder = who;
    r.duration = d;
    r.acquire_time = "0";
    r.renew_time = renewed;
    r.transitions = transitions;
    return r;
}

inline const failure conflict = refused(409, "Conflict");
inline const failure broken = refused(500, "InternalError");
inline const failure silent(errc::request_timeout, "test");
inline const fencing_token token(resource_version("77"), 4);

/// Asks the logic for its next action, and reports outcomes to it.
struct bench {
    explicit bench(leader_election_options o = me()) : logic(std::move(o), 1) {}

    election_logic logic;
    clock::time_point now = start;

    action next() { return logic.next(now).what; }
    clock::duration wait() {
        const auto s = logic.next(now);
        REQUIRE(s.what == action::wait);
        return s.until - now;
    }
    void write() { logic.written(now, now, logic.desired(wall), token); }
    /// Wins the election by creating the Lease, and starts the work.
    void lead() {
        REQUIRE(next() == action::get);
        logic.missing();
        REQUIRE(next() == action::create);
        write();
        REQUIRE(logic.work_wanted());
        logic.work_started();
    }
    /// Leads until it is stopped; then the work ends.
    void lead_and_stop() {
        lead();
        logic.stop();
        logic.work_over(now);
    }
};

} // namespace election_logic_test
