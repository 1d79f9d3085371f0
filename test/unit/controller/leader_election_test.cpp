// Leader election against the embedded API server: replicas with clocks of their own, which are killed, paused and cut
// off.
#include "election_scene.hpp"

#include <exception>
#include <stdexcept>
#include <string>
#include <vector>

using namespace lease_test;

TEST_CASE("LE2 the first replica leads, the other stands by; both know who leads") {
    world w;
    stander a(w, options("a")), b(w, options("b"));
    watch_over(w, {&a, &b});
    a.start();
    w.run(1s);
    b.start();
    w.run(60s);
    CHECK(a.working);
    CHECK_FALSE(b.working);
    CHECK(a.elector->is_leader());
    CHECK_FALSE(b.elector->is_leader());
    CHECK(b.elector->leader() == "a");
    CHECK(a.seen == std::vector<std::string>{"a"});
    CHECK(b.seen == std::vector<std::string>{"a"});
    CHECK(a.office->held());
    CHECK(a.terms.size() == 1);
    CHECK_FALSE(a.elector->check(0s));
    CHECK(a.self.metrics->gauges.at("leader_election_master_status") == 1);
    CHECK(b.self.metrics->gauges.at("leader_election_master_status") == 0); // also set for a replica that never led
    CHECK(a.self.metrics->seen.at("name") == "lock");
    CHECK(a.self.metrics->counters.count("leader_election_slowpath_total") == 0);
    const auto l = lease(w);
    CHECK(l.at_pointer("/spec/holderIdentity") == "a");
    CHECK(l.at_pointer("/spec/leaseDurationSeconds") == 15);
    CHECK(l.at_pointer("/spec/leaseTransitions") == 0);
}

TEST_CASE("LE3 requests: get and create to acquire, then an update every retry period and nothing else") {
    world w;
    stander a(w, options("a"));
    a.start();
    w.run(21s);
    auto all = verbs(w);
    REQUIRE(all.size() == 12);
    CHECK(all[0] == "get");
    CHECK(all[1] == "create");
    for (std::size_t i = 2; i < all.size(); ++i) CHECK(all[i] == "update");

    // Somebody else touches the Lease: the next renewal has to read it again.
    w.server->forget_requests();
    const boost::json::value patch = {{"metadata", {{"labels", {{"theirs", "1"}}}}}};
    w.server->merge_patch("leases.coordination.k8s.io", space, "lock", patch);
    w.run(4s);
    all = verbs(w);
    CHECK(all == std::vector<std::string>{"update", "get", "update", "update"});
    CHECK(a.self.metrics->counters.at("leader_election_slowpath_total") == 1);
    CHECK(lease(w).at_pointer("/metadata/labels/theirs") == "1");
    CHECK(a.working);
}

TEST_CASE("a killed leader is followed after its whole lease duration, and not before") {
    world w;
    stander a(w, options("a")), b(w, options("b"));
    a.start();
    w.run(1s);
    b.start();
    w.run(20s);
    REQUIRE(a.working);
    a.self.paused = true; // never heard of again
    const auto waited = w.run_until([&] { return b.working; }, 60s);
    // The last renewal was up to 2 s ago, and b had seen it up to 4.4 s after it was made.
    CHECK(waited > 12s);
    CHECK(waited <= 15s + 8800ms + 1s);
    CHECK(b.seen == std::vector<std::string>{"a", "b"});
    CHECK(lease(w).at_pointer("/spec/leaseTransitions") == 1);
    CHECK(a.terms[0].version < b.terms[0].version);
    CHECK(b.terms[0].transitions == 1);
}

TEST_CASE("a paused leader finds out at once that it lost, by its own clock, and another leads") {
    world w;
    stander a(w, options("a")), b(w, options("b"));
    a.start();
    w.run(1s);
    b.start();
    w.run(5s);
    a.self.paused = true;
    w.run(9s);
    CHECK(a.office->held());
    w.run(2s);
    CHECK_FALSE(a.office->held()); // asked without the executor having run
    CHECK_FALSE(a.elector->is_leader());
    w.run_until([&] { return b.working; }, 60s);
    REQUIRE(b.working);
    CHECK(a.working); // its executor has not run yet: this is what the fencing token is for
    a.self.paused = false;
    w.settle();
    CHECK_FALSE(a.working);
    w.run(1s);
    CHECK(a.end == election_end::lost);
    CHECK(a.terms[0].version < b.terms[0].version);
    CHECK(b.working);
    CHECK(a.self.metrics->gauges.at("leader_election_master_status") == 0);
}

TEST_CASE("LE4 a hanging API server cannot keep a leader in office") {
    world w;
    stander a(w, options("a")), b(w, options("b"));
    watch_over(w, {&a, &b});
    a.start();
    w.run(1s);
    b.start();
    w.run(5s);
    REQUIRE(a.working);
    w.server->inject(hang());
    const auto waited = w.run_until([&] { return !a.working; }, 60s);
    CHECK(waited > 7s);
    CHECK(waited <= 10s);
    w.run(1s);
    CHECK(a.end == election_end::lost);
    CHECK(a.self.log.contains("could not be renewed in time"));
    CHECK_FALSE(b.working);
    w.server->clear_faults();
    w.server->drop_connections();
    w.run_until([&] { return b.working; }, 60s);
    CHECK(b.working);
}

TEST_CASE("LE4 with an unreachable API server the leader steps down after the renew deadline; all stand again") {
    world w;
    stander a(w, options("a").re_elect()), b(w, options("b").re_elect());
    watch_over(w, {&a, &b});
    a.start();
    b.start();
    w.run(10s);
    w.server->stop_listening(true);
    const auto waited = w.run_until([&] { return !a.working && !b.working; }, 60s);
    CHECK(waited > 7s);
    CHECK(waited <= 10s);
    w.run(30s);
    CHECK_FALSE(a.end);
    CHECK_FALSE(b.end);
    w.server->start_listening();
    w.run(30s);
    CHECK((a.working || b.working));
    CHECK(a.terms.size() + b.terms.size() == 2);
}

TEST_CASE("an API server that is away for less than the renew deadline costs nothing") {
    world w;
    stander a(w, options("a"));
    a.start();
    w.run(5s);
    for (const int code : {500, 503, 403, 429}) {
        // Retry-After does not count: the server may be back before that, and the Lease cannot wait.
        for (const int retry_after : {-1, 1, 5, 30}) {
            w.server->inject(refuse_with(code).with_retry_after(retry_after));
            w.run(6s);
            const auto* why = a.elector->last_error().status();
            CHECK((why && why->code == code));
            w.server->clear_faults();
            w.run(5s);
            CHECK(a.working);
        }
    }
    w.server->stop_listening(true);
    w.run(6s);
    w.server->start_listening();
    w.run(5s);
    CHECK(a.working);
    CHECK(a.terms.size() == 1);
    CHECK_FALSE(a.elector->last_error());
}

TEST_CASE("leader election: a lasting refusal is logged once, though other requests succeed in between") {
    world w;
    stander a(w, options("a"));
    const auto told = [&a] { return a.self.log.count("a fault was injected into this server"); };
    auto f = refuse_with(403);
    w.server->inject(f.verb("create")); // each round begins with a get that works
    a.start();
    w.run(5s);
    w.after_each = [&a] { REQUIRE(a.elector->last_error() == errc::forbidden); }; // and last_error() does not flap
    w.run(60s);
    CHECK(told() == 1);
    w.after_each = nullptr;
    w.server->clear_faults();
    w.run(10s);
    CHECK(a.working);
    CHECK_FALSE(a.elector->last_error());
    w.server->inject(refuse_with(403).verb("update"));
    w.run(5s);
    CHECK(told() == 2); // a new failure is logged again
}

TEST_CASE("a candidate forgets a past failure once it sees a leader") {
    world w;
    stander a(w, options("a")), b(w, options("b"));
    auto f = refuse_with(403);
    w.server->inject(f.verb("create"));
    a.start();
    w.run(5s);
    CHECK(a.elector->last_error() == errc::forbidden);
    w.server->clear_faults();
    b.start();
    w.run(20s);
    (a.working ? b : a).self.stop();
    CHECK_FALSE(a.elector->last_error());
    CHECK_FALSE(b.elector->last_error());
}

TEST_CASE("LE6 LE7 observers and events are called, and their exceptions are contained") {
    world w;
    auto o = options("a");
    stander a(w, o);
    a.elector.reset();
    o.on_new_leader([](const std::string&) { throw std::runtime_error("observer"); });
    o.on_event([](const object&, const std::string&) { throw std::runtime_error("recorder"); });
    a.elector.emplace(a.self.rt, *a.self.client, o);
    stander b(w, options("b"));
    a.start();
    w.run(3s);
    CHECK(a.working);
    CHECK(a.self.log.contains("on_new_leader threw: observer"));
    CHECK(a.self.log.contains("on_event threw: recorder"));
    b.start();
    w.run(3s);
    a.self.stop();
    w.run(5s);
    CHECK(b.seen == std::vector<std::string>{"a", "b"});
    CHECK(b.events == std::vector<std::string>{"default/lock b became leader"});
    b.self.stop();
    w.run(1s);
    CHECK(b.events.back() == "default/lock b stopped leading");
    CHECK(b.seen.back().empty());
}

TEST_CASE("clock skew: replicas whose dates are hours apart and whose clocks differ in rate never lead together") {
    for (const double rate : {0.75, 1.0, 1.3}) {
        world w;
        stander a(w, options("a").re_elect(), rate, 5h), b(w, options("b").re_elect(), 1, -7h),
            c(w, options("c").re_elect(), 1.1, 0s);
        watch_over(w, {&a, &b, &c});
        for (auto* s : {&a, &b, &c}) s->unwinding = 500ms;
        a.start();
        b.start();
        c.start();
        w.run(30s);
        const std::size_t before = a.terms.size() + b.terms.size() + c.terms.size();
        CHECK(before == 1);
        // Cut all replicas off for longer than the Lease, several times.
        for (int i = 0; i < 3; ++i) {
            w.server->stop_listening(true);
            w.run(25s);
            w.server->start_listening();
            w.run(25s);
            CHECK(int(a.working) + int(b.working) + int(c.working) == 1);
        }
        CHECK(a.terms.size() + b.terms.size() + c.terms.size() == before + 3);
    }
}

TEST_CASE("fencing tokens grow from leader to leader") {
    world w;
    stander a(w, options("a").re_elect()), b(w, options("b").re_elect());
    a.start();
    b.start();
    std::vector<resource_version> tokens;
    for (int i = 0; i < 6; ++i) {
        w.run_until([&] { return a.working || b.working; }, 60s);
        stander& leads = a.working ? a : b;
        REQUIRE(leads.working);
        tokens.push_back(leads.terms.back().version);
        leads.self.paused = true;
        w.run(30s);
        leads.self.paused = false;
        w.run(1s);
    }
    for (std::size_t i = 1; i < tokens.size(); ++i) CHECK(tokens[i - 1] < tokens[i]);
}

TEST_CASE("re-election: run() may be called again after a loss") {
    world w;
    stander a(w, options("a"));
    a.start();
    w.run(5s);
    const boost::json::value patch = {{"spec", {{"holderIdentity", "thief"}, {"leaseDurationSeconds", 5}}}};
    w.server->merge_patch("leases.coordination.k8s.io", space, "lock", patch);
    w.run(3s);
    REQUIRE(a.self.ended);
    CHECK(a.end == election_end::lost);
    CHECK(a.self.log.contains("held by thief"));
    CHECK(a.elector->leader() == "thief");
    a.start();
    w.run(20s);
    CHECK(a.working);
    CHECK(a.terms.size() == 2);
    CHECK(a.terms[1].transitions == 1);
    CHECK(a.seen == std::vector<std::string>{"a", "thief", "thief", "a"});
}

TEST_CASE("a Lease that is deleted under its leader is created again") {
    world w;
    stander a(w, options("a"));
    a.start();
    w.run(5s);
    w.server->remove("leases.coordination.k8s.io", space, "lock");
    w.run(5s);
    CHECK(a.working);
    CHECK(lease(w).at_pointer("/spec/holderIdentity") == "a");
}

TEST_CASE("labels of the options are put on the Lease") {
    world w;
    stander a(w, options("a").label("app", "x"));
    a.start();
    w.run(1s);
    CHECK(lease(w).at_pointer("/metadata/labels/app") == "x");
}

TEST_CASE("the default identity names the host and differs each time") {
    world w;
    auto& r = w.add("r");
    const leader_elector a(r.rt, *r.client, leader_election_options(space, "lock"));
    const leader_elector b(r.rt, *r.client, leader_election_options(space, "lock"));
    CHECK(a.identity() != b.identity());
    CHECK(a.identity().size() > 17);
    CHECK_THROWS_AS(leader_elector(r.rt, *r.client, leader_election_options(space, "lock").lease_duration(1s)), error);
}

TEST_CASE("a request that fails at any place never leads to two leaders, and never hangs the election") {
    using kind = testing::fault::kind;
    for (const auto what : {kind::refuse, kind::cut_after, kind::stall_after, kind::status, kind::garbage_body}) {
        for (std::size_t nth = 0; nth < 8; ++nth) {
            world w;
            stander a(w, options("a").re_elect()), b(w, options("b").re_elect());
            watch_over(w, {&a, &b});
            testing::fault f(what);
            f.on(about_leases).skipping(nth).with_text("{").with_code(500);
            w.server->inject(f);
            a.start();
            b.start();
            w.run(30s, 500ms);
            CHECK(int(a.working) + int(b.working) == 1);
            replica& leader = (a.working ? a : b).self;
            leader.stop();
            w.run(8s, 500ms);
            CHECK(leader.ended);
            CHECK(int(a.working) + int(b.working) == 1);
        }
    }
}
