// The work of a leader and its end, against the embedded API server: a stop, a loss, a return, an exception.
#include "election_scene.hpp"

#include <boost/asio/co_spawn.hpp>
#include <catch2/matchers/catch_matchers.hpp>

#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

using namespace lease_test;

TEST_CASE("LE5 a clean stop gives the Lease up after the work has ended, and the next leads at once") {
    world w;
    stander a(w, options("a")), b(w, options("b"));
    watch_over(w, {&a, &b});
    a.unwinding = 60s; // far longer than the Lease
    a.start();
    w.run(1s);
    b.start();
    w.run(10s);
    a.self.stop();
    w.run(50s);
    CHECK(a.working);
    CHECK_FALSE(a.self.ended);
    CHECK(lease(w).at_pointer("/spec/holderIdentity") == "a");
    const auto waited = w.run_until([&] { return a.self.ended; }, 60s);
    CHECK(waited <= 11s);
    CHECK(a.end == election_end::stopped);
    const auto then = w.run_until([&] { return b.working; }, 60s);
    CHECK(then <= 4600ms);
    CHECK(a.seen == std::vector<std::string>{"a", ""});
    CHECK(b.seen.back() == "b");
    CHECK(a.terms[0].version < b.terms[0].version);
}

TEST_CASE("LE5 a Lease that is given up has no holder and a duration of one second") {
    world w;
    stander a(w, options("a"));
    a.start();
    w.run(5s);
    a.self.stop();
    w.settle();
    CHECK(a.self.ended);
    CHECK(a.end == election_end::stopped);
    CHECK(lease(w).at_pointer("/spec/holderIdentity") == "");
    CHECK(lease(w).at_pointer("/spec/leaseDurationSeconds") == 1);
    CHECK(lease(w).at_pointer("/spec/leaseTransitions") == 0);
}

TEST_CASE("LE5 a stop in the middle of a renewal still gives the Lease up") {
    for (const std::string verb : {"update", "get"}) {
        world w;
        stander a(w, options("a"));
        a.start();
        w.run(5s);
        if (verb == "get") // so that the renewal has to read
            w.server->merge_patch("leases.coordination.k8s.io", space, "lock",
                                  {{"metadata", {{"labels", {{"x", "1"}}}}}});
        auto f = testing::fault(testing::fault::kind::stall_after).on(about_leases);
        w.server->inject(f.verb(verb));
        w.run(2s);
        a.self.stop();
        w.settle();
        CHECK(a.self.ended);
        CHECK(lease(w).at_pointer("/spec/holderIdentity") == "");
    }
}

TEST_CASE("LE5 a stop while the acquisition is on its way leaves the Lease without a holder") {
    world w;
    stander a(w, options("a"));
    auto f = testing::fault(testing::fault::kind::cut_after).on(about_leases);
    // Created, but the answer is lost.
    w.server->inject(f.verb("create").after_bytes(10));
    a.start();
    w.settle();
    REQUIRE(lease(w).at_pointer("/spec/holderIdentity") == "a");
    CHECK_FALSE(a.working);
    a.self.stop();
    w.settle();
    CHECK(a.self.ended);
    CHECK(lease(w).at_pointer("/spec/holderIdentity") == "");
    CHECK(a.terms.empty());
}

TEST_CASE("LE5 a hanging API server delays a stop by the renew deadline at most") {
    world w;
    stander a(w, options("a"));
    a.start();
    w.run(5s);
    w.server->inject(hang());
    a.self.stop();
    const auto waited = w.run_until([&] { return a.self.ended; }, 60s);
    CHECK(waited <= 10200ms);
    CHECK(a.end == election_end::stopped);
}

TEST_CASE("a stop before the election returns at once, even if the server asked for a pause (Retry-After)") {
    world w;
    stander a(w, options("a"));
    auto f = refuse_with(429).with_retry_after(30);
    w.server->inject(f.verb("create"));
    a.start();
    w.run(7s);
    CHECK(a.elector->last_error() == errc::too_many_requests);
    w.server->inject(hang()); // nothing has to be undone, so no request is needed
    a.self.stop();
    w.settle();
    CHECK(a.self.ended);
    CHECK(a.end == election_end::stopped);
}

TEST_CASE("run() twice at once is an error") {
    world w;
    stander a(w, options("a"));
    a.start();
    w.run(1s);
    std::exception_ptr failed;
    asio::co_spawn(a.self.io, stander::stand(&a), [&](std::exception_ptr e) { failed = std::move(e); });
    w.settle();
    REQUIRE(failed);
    CHECK_THROWS_AS(std::rethrow_exception(failed), error);
    CHECK(a.working);
}

TEST_CASE("run() without work is an error before any request") {
    world w;
    stander a(w, options("a"));
    std::exception_ptr failed;
    asio::co_spawn(a.self.io, a.elector->run(nullptr),
                   [&](std::exception_ptr e, election_end) { failed = std::move(e); });
    w.run(5s);
    REQUIRE(failed);
    CHECK_THROWS_AS(std::rethrow_exception(failed), error);
    CHECK(w.server->requests().empty());
}

TEST_CASE("when the work returns, the Lease is given up; run() throws what the work throws") {
    for (const bool throws : {false, true}) {
        world w;
        stander a(w, options("a"));
        a.returns_after = 5s;
        a.throws = throws;
        a.start();
        w.run(4s);
        CHECK(a.working);
        w.run(2s);
        REQUIRE(a.self.ended);
        CHECK(lease(w).at_pointer("/spec/holderIdentity") == "");
        if (throws) {
            REQUIRE(a.self.failed);
            CHECK_THROWS_WITH(std::rethrow_exception(a.self.failed), "the work is broken");
        } else {
            CHECK(a.end == election_end::finished);
        }
    }
}

TEST_CASE("the leading work, and what it owns, is destroyed when run() or its io_context ends") {
    // A service that owns its elector, and whose work refers to the service.
    struct service {
        std::optional<leader_elector> elector;
        static asio::awaitable<void> work(std::shared_ptr<service>, std::shared_ptr<informer::clock> time) {
            co_await asio::this_coro::throw_if_cancelled(false);
            co_await time->sleep_for(1h);
        }
        static asio::awaitable<void> stand(std::shared_ptr<service> s, std::shared_ptr<informer::clock> time) {
            std::function<asio::awaitable<void>(leadership)> lead = [s, time](const leadership&) {
                return work(s, time);
            };
            co_await s->elector->run(std::move(lead));
        }
    };
    for (const bool ends : {true, false}) {
        world w;
        replica& r = w.add("a");
        auto s = std::make_shared<service>();
        s->elector.emplace(r.rt, *r.client, options("a"));
        r.start(service::stand(s, r.clock));
        const std::weak_ptr<service> there = std::exchange(s, nullptr);
        w.run(3s);
        REQUIRE(there.lock()->elector->is_leader());
        if (ends) {
            r.stop();
            w.run(5s);
            CHECK(r.ended);
        } else {
            w.replicas.clear();
        }
        CAPTURE(ends);
        CHECK(there.expired());
    }
}

TEST_CASE("work that throws ends run(), even after a loss and with re-election") {
    world w;
    stander a(w, options("a").re_elect());
    a.throws = true;
    a.start();
    w.run(5s);
    w.server->stop_listening(true);
    w.run(12s);
    REQUIRE(a.self.ended);
    REQUIRE(a.self.failed);
    CHECK_THROWS_WITH(std::rethrow_exception(a.self.failed), "the work is broken");
    w.server->start_listening();
}

TEST_CASE("work that does not end when its Lease is lost is logged, and waited for") {
    world w;
    stander a(w, options("a"));
    a.unwinding = 30s;
    a.start();
    w.run(5s);
    w.server->inject(hang());
    w.run(9900ms);
    CHECK_FALSE(a.elector->is_leader());
    CHECK_FALSE(a.self.log.contains("outlives its Lease"));
    w.run(6s);
    CHECK(a.self.log.contains("outlives its Lease"));
    CHECK_FALSE(a.self.ended);
    w.run(30s);
    CHECK(a.self.ended);
    CHECK(a.end == election_end::lost);
}

TEST_CASE("LE8 work that does not end when its Lease is lost makes the process unhealthy, until it has ended") {
    world w;
    stander a(w, options("a").re_elect());
    a.unwinding = 60s;
    a.start();
    w.run(5s);
    w.server->inject(hang());
    w.run(12s); // lost
    REQUIRE_FALSE(a.elector->is_leader());
    REQUIRE(a.working);
    CHECK_FALSE(a.elector->check(5s));
    w.run(13s); // the Lease expired 15 s after its last renewal; 5 s more are tolerated
    const failure f = a.elector->check(5s);
    CHECK(f == errc::deadline_exceeded);
    CHECK(f.what().find("has not ended") != std::string::npos);
    CHECK_FALSE(a.elector->check(30s));
    w.run(60s);
    REQUIRE_FALSE(a.working);
    CHECK_FALSE(a.elector->check(0s)); // a candidate again
}
