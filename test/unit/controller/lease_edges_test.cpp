// Elections and shard groups whose process is paused at the most awkward moment, or whose clock fails.
#include "lease_world.hpp"

#include <informer/controller/key_sharding.hpp>
#include <informer/controller/leader_election.hpp>

#include <boost/asio/this_coro.hpp>

#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

using namespace lease_test;

namespace {

constexpr const char* space = "default";

/// A replica's clock: the process can be paused while it reads the time, and timers can fail.
struct odd_clock final : informer::clock {
    explicit odd_clock(std::shared_ptr<testing::manual_clock> c) : inner(std::move(c)) {}
    time_point now() const override {
        // The process is paused at this place.
        if (calls_to_pause > 0 && --calls_to_pause == 0) inner->advance(pause);
        return inner->now();
    }
    std::chrono::system_clock::time_point wall() const override { return inner->wall(); }
    asio::awaitable<bool> sleep_until(time_point when) override {
        if (broken) throw std::runtime_error("no more timers");
        return inner->sleep_until(when);
    }
    void pause_in(int calls, duration d) {
        calls_to_pause = calls;
        pause = d;
    }

    std::shared_ptr<testing::manual_clock> inner;
    mutable int calls_to_pause = 0;
    duration pause{};
    bool broken = false;
};

struct odd_replica {
    explicit odd_replica(world& in)
        : w(in), self(w.add("a")), time(std::make_shared<odd_clock>(self.clock)), rt(self.rt) {
        rt.with_clock(time);
    }
    ~odd_replica() { w.close(self); }
    odd_replica(const odd_replica&) = delete;
    odd_replica& operator=(const odd_replica&) = delete;
    std::string why() const {
        try {
            if (self.failed) std::rethrow_exception(self.failed);
        } catch (const std::exception& x) {
            return x.what();
        }
        return {};
    }

    world& w;
    replica& self;
    std::shared_ptr<odd_clock> time;
    runtime rt;
};

/// Runs until it is cancelled; notes its beginning and its end.
asio::awaitable<void> work_until_told(bool* begun, bool* ended, std::shared_ptr<testing::manual_clock> c) {
    co_await asio::this_coro::throw_if_cancelled(false);
    *begun = true;
    co_await c->sleep_for(1h);
    *ended = true;
}

} // namespace

TEST_CASE("sharding: run_owned ends when its key is lost before the work could begin") {
    for (const int calls : {1, 2, 3, 4}) {
        world w;
        odd_replica a(w);
        shard_group_options o(space, "shop");
        o.identity("a");
        shard_group g(a.rt, *a.self.client, o);
        a.self.start(g.run());
        w.run(1s);
        REQUIRE(g.owns("x"));
        bool begun = false, ended = false;
        std::optional<owned_end> end;
        asio::co_spawn(a.self.io, g.run_owned("x", work_until_told(&begun, &ended, a.self.clock)),
                       [&end](std::exception_ptr, owned_end e) { end = e; });
        a.time->pause_in(calls, 20s);
        w.run(60s);
        CAPTURE(calls);
        CHECK(begun == ended);
        CHECK(end);
    }
}

TEST_CASE("leader election: run() ends when the Lease is lost before the work could begin") {
    for (int calls = 1; calls < 24; ++calls) {
        world w;
        odd_replica a(w);
        leader_election_options o(space, "lock");
        o.identity("a");
        leader_elector e(a.rt, *a.self.client, o);
        bool begun = false, ended = false;
        const std::function<asio::awaitable<void>(leadership)> lead = [&](leadership) {
            return work_until_told(&begun, &ended, a.self.clock);
        };
        std::optional<election_end> end;
        a.self.signal = std::make_unique<asio::cancellation_signal>();
        const auto over = [&](std::exception_ptr x, election_end how) {
            end = how;
            a.self.failed = x;
            a.self.ended = true;
        };
        asio::co_spawn(a.self.io, e.run(lead), asio::bind_cancellation_slot(a.self.signal->slot(), over));
        a.time->pause_in(calls, 20s);
        w.run(60s);
        CAPTURE(calls);
        CHECK((end || e.is_leader())); // still leader: the pause came too early to matter
        if (end) CHECK(begun == ended);
        w.close(a.self); // while the variables that it refers to exist
        CHECK(begun == ended);
    }
}

TEST_CASE("leader election: run() ends if its clock fails, and the work with it") {
    world w;
    odd_replica a(w);
    leader_election_options o(space, "lock");
    o.identity("a");
    leader_elector e(a.rt, *a.self.client, o);
    bool begun = false, ended = false;
    const std::function<asio::awaitable<void>(leadership)> lead = [&](leadership) {
        return work_until_told(&begun, &ended, a.self.clock);
    };
    const auto stand = [](leader_elector* who,
                          std::function<asio::awaitable<void>(leadership)> work) -> asio::awaitable<void> {
        co_await who->run(std::move(work));
    };
    a.self.start(stand(&e, lead));
    w.run(1s);
    REQUIRE(begun);
    a.time->broken = true;
    w.run(5s);
    CHECK(a.self.ended);
    CHECK(a.why() == "no more timers");
    CHECK(ended);
    CHECK_FALSE(e.is_leader());
    a.time->broken = false;
}

TEST_CASE("sharding: run() ends if its clock fails, and the work with it") {
    world w;
    odd_replica a(w);
    shard_group_options o(space, "shop");
    o.identity("a");
    shard_group g(a.rt, *a.self.client, o);
    a.self.start(g.run());
    w.run(1s);
    bool begun = false, ended = false, returned = false;
    asio::co_spawn(a.self.io, g.run_owned("x", work_until_told(&begun, &ended, a.self.clock)),
                   [&](std::exception_ptr, owned_end) {
                       returned = true;
                       CHECK(ended); // run_owned returns only after the work has ended
                   });
    w.settle();
    REQUIRE(begun);
    a.time->broken = true;
    w.run(5s);
    CHECK(a.self.ended);
    CHECK(a.why() == "no more timers");
    CHECK_FALSE(g.owns("x"));
    CHECK(ended);
    CHECK(returned);
    a.time->broken = false;
}
