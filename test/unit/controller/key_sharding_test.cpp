// Key sharding against the embedded API server: replicas with clocks of their own, which join, leave, crash and pause.
#include "lease_world.hpp"

#include <informer/controller/key_sharding.hpp>

#include <boost/asio/detached.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/json.hpp>

#include <malloc.h>

#include <optional>
#include <set>

using namespace lease_test;

namespace {

constexpr const char* space = "default";
constexpr int keys = 60;

std::string key(int i) {
    return "ns/key-" + std::to_string(i);
}

/// One replica of the group, and what tests observe of it.
struct sharer {
    sharer(world& w, std::string name, double rate = 1, std::chrono::nanoseconds wall = 0s)
        : all(w), self(w.add(name, rate, wall)) {
        shard_group_options o(space, "shop");
        o.identity(name).on_change([this](const shard_change& c) {
            changes.push_back(c);
            for (int i = 0; i < keys; ++i) {
                if (c.gained(key(i))) mine.insert(i);
                if (c.lost(key(i))) mine.erase(i);
            }
        });
        group.emplace(self.rt, *self.client, o);
    }
    ~sharer() { all.close(self); }
    sharer(const sharer&) = delete;
    sharer& operator=(const sharer&) = delete;
    void start() { self.start(group->run()); }
    std::set<int> owned() const {
        std::set<int> s;
        for (int i = 0; i < keys; ++i)
            if (group->owns(key(i))) s.insert(i);
        return s;
    }
    bool owns_something() const { return !owned().empty(); }

    world& all;
    replica& self;
    std::optional<shard_group> group;
    std::vector<shard_change> changes;
    std::set<int> mine; ///< keys that are owned according to `on_change`
};

/// Checks after each step that no key has two owners, and that on_change and owns() agree.
void watch_over(world& w, std::vector<sharer*> all) {
    w.after_each = [all = std::move(all)] {
        std::set<int> seen;
        for (const auto* s : all) {
            const auto owned = s->owned();
            for (const int i : owned) REQUIRE(seen.insert(i).second);
            if (!s->self.paused) REQUIRE(owned == s->mine);
        }
    };
}

std::size_t total(std::initializer_list<const sharer*> all) {
    std::size_t n = 0;
    for (const auto* s : all) n += s->owned().size();
    return n;
}

std::size_t leases(world& w) {
    return w.server->list("leases.coordination.k8s.io", space).size();
}
bool about_leases(const testing::request_info& i) {
    return i.resource == "leases";
}

/// Work on one key, as a controller's worker would do it.
struct job {
    bool running = false;
    std::optional<owned_end> end;
    std::optional<clock::time_point> told;
    std::chrono::nanoseconds takes = 1h, unwinding{};

    static asio::awaitable<void> work(std::shared_ptr<job> j, std::shared_ptr<testing::manual_clock> c) {
        j->running = true;
        co_await asio::this_coro::throw_if_cancelled(false);
        const bool slept = co_await c->sleep_for(j->takes);
        if (!slept) {
            j->told = c->now();
            co_await asio::this_coro::reset_cancellation_state(asio::disable_cancellation());
            const auto until = c->now() + j->unwinding;
            while (c->now() < until) co_await c->sleep_until(until);
        }
        j->running = false;
    }
    static asio::awaitable<void> guarded(std::shared_ptr<job> j, sharer* s, std::string k) {
        j->end = co_await s->group->run_owned(std::move(k), work(j, s->self.clock));
    }
};

std::shared_ptr<job> start_job(sharer& s, int k, std::chrono::nanoseconds takes,
                               std::chrono::nanoseconds unwinding = 0s) {
    auto j = std::make_shared<job>();
    j->takes = takes;
    j->unwinding = unwinding;
    asio::co_spawn(s.self.io, job::guarded(j, &s, key(k)), asio::detached);
    s.all.settle();
    return j;
}

/// Three replicas that share all keys.
struct trio {
    explicit trio(world& w) : a(w, "a"), b(w, "b", 1, 9h), c(w, "c", 1, -9h) {
        watch_over(w, {&a, &b, &c});
        for (auto* s : {&a, &b, &c}) s->start();
        w.run(20s);
        REQUIRE(total({&a, &b, &c}) == keys);
        // Their names are random. Each owns 20 keys on average; 8 or fewer have a probability of one in a thousand, 2
        // or fewer of one in ten million.
        for (const auto* s : {&a, &b, &c}) REQUIRE(s->owned().size() > 2);
    }
    sharer a, b, c;
};

} // namespace

TEST_CASE(
    "sharding: the first replica owns everything at once; on a join the keys that move wait for the lease duration") {
    world w;
    sharer a(w, "a"), b(w, "b");
    watch_over(w, {&a, &b});
    a.start();
    w.run(200ms);
    CHECK(a.owned().size() == keys);
    CHECK(a.group->member().starts_with("shop-a-"));
    w.run(5s);
    b.start();
    w.run(3s);
    const auto kept = a.owned();
    CHECK(kept.size() < keys);
    CHECK_FALSE(b.owns_something());
    const auto waited = w.run_until([&] { return b.owns_something(); }, 60s);
    CHECK(waited > 11s);
    CHECK(waited <= 15s);
    CHECK(a.owned() == kept);
    CHECK(total({&a, &b}) == keys);
    CHECK(a.group->view().members() == b.group->view().members());
    CHECK(b.self.metrics->gauges.at("informer_shard_members") == 2);
    CHECK(b.self.metrics->gauges.at("informer_shard_active") == 1);
}

TEST_CASE("sharding: a replica that leaves deletes its Lease, and the others own its keys after the next list") {
    world w;
    trio t(w);
    CHECK(leases(w) == 3);
    const auto before = t.a.owned();
    t.c.self.stop();
    w.settle();
    CHECK(t.c.self.ended);
    CHECK(leases(w) == 2);
    CHECK_FALSE(t.c.owns_something());
    const auto waited = w.run_until([&] { return total({&t.a, &t.b}) == keys; }, 60s);
    CHECK(waited <= 2600ms);
    for (const int k : before) CHECK(t.a.owned().contains(k));
    CHECK(t.c.group->token() <= t.a.group->token());
}

TEST_CASE("sharding: the keys of a crashed replica are taken after the lease duration, and its Lease is deleted") {
    world w;
    trio t(w);
    t.c.self.paused = true;
    const auto waited = w.run_until([&] { return total({&t.a, &t.b}) == keys; }, 60s);
    CHECK(waited > 12s);
    CHECK(waited <= 15s + 4800ms + 400ms);
    CHECK(leases(w) == 3);
    w.run(50s);
    CHECK(leases(w) == 2);
}

TEST_CASE("sharding: more dead Leases than fit into a list are deleted, and the group goes on by itself") {
    world w;
    constexpr std::size_t dead = shard_group_options::most_members + 10;
    for (std::size_t i = 0; i < dead; ++i) {
        const std::string name = "shop-old-" + std::to_string(i);
        const boost::json::value lease{
            {"apiVersion", "coordination.k8s.io/v1"},
            {"kind", "Lease"},
            {"metadata",
             {{"namespace", "default"},
              {"name", name},
              {"labels", {{std::string(shard_group_options::label_key), "shop"}}}}},
            {"spec",
             {{"holderIdentity", name}, {"leaseDurationSeconds", 15}, {"renewTime", "2026-11-01T00:00:00.000000Z"}}}};
        w.server->create(lease);
    }
    sharer a(w, "a"), b(w, "b");
    watch_over(w, {&a, &b});
    a.start();
    b.start();
    w.run(30s);
    CHECK_FALSE(a.owns_something());
    CHECK_FALSE(b.owns_something());
    CHECK(leases(w) == dead + 2);
    w.run_until([&] { return total({&a, &b}) == keys; }, 120s);
    CHECK(total({&a, &b}) == keys);
    w.run(60s);
    CHECK(leases(w) == 2);
}

TEST_CASE("sharding: a paused replica owns nothing when it wakes, and joins again") {
    world w;
    trio t(w);
    t.c.self.paused = true;
    w.run(30s);
    CHECK_FALSE(t.c.owns_something()); // asked without its executor having run
    CHECK(total({&t.a, &t.b}) == keys);
    t.c.self.paused = false;
    w.run(3s);
    CHECK_FALSE(t.c.owns_something());
    w.run(17s);
    CHECK(t.c.owns_something());
    CHECK(total({&t.a, &t.b, &t.c}) == keys);
    // It joins again, too, if its Lease has been deleted meanwhile.
    t.b.self.paused = true;
    w.run(90s);
    t.b.self.paused = false;
    w.run(25s);
    CHECK(total({&t.a, &t.b, &t.c}) == keys);
    CHECK(leases(w) == 3);
}

TEST_CASE("sharding: without an API server no key has an owner after the renew deadline, until the server is back") {
    for (const bool hangs : {false, true}) {
        world w;
        trio t(w);
        if (hangs)
            w.server->inject(testing::fault(testing::fault::kind::stall_after).on(about_leases).repeat(1'000'000));
        else
            w.server->stop_listening(true);
        const auto waited = w.run_until([&] { return total({&t.a, &t.b, &t.c}) == 0; }, 60s);
        CHECK(waited > 7s);
        CHECK(waited <= 10200ms);
        w.run(30s);
        CHECK(t.a.group->last_error());
        w.server->clear_faults();
        if (!hangs) w.server->start_listening();
        w.run(25s);
        CHECK(total({&t.a, &t.b, &t.c}) == keys);
        CHECK_FALSE(t.a.group->last_error());
    }
}

TEST_CASE("sharding: a server that refuses only lists, or only writes, ends ownership, too") {
    for (const std::string verb : {"list", "update"}) {
        world w;
        trio t(w);
        auto f = testing::fault(testing::fault::kind::status).on(about_leases).repeat(1'000'000).with_code(403);
        w.server->inject(f.verb(verb));
        w.run(11s);
        CHECK(total({&t.a, &t.b, &t.c}) == 0);
        CHECK(t.a.self.log.count("a fault was injected into this server") == 1);
        w.server->clear_faults();
        w.run(20s);
        CHECK(total({&t.a, &t.b, &t.c}) == keys);
    }
}

TEST_CASE("sharding: a lasting refusal is logged once, though other requests succeed in between") {
    world w;
    sharer a(w, "a"), b(w, "b");
    a.start();
    b.start();
    w.run(25s);
    b.self.paused = true; // its Lease will expire, and the server refuses to delete it
    auto f = testing::fault(testing::fault::kind::status).on(about_leases).repeat(1'000'000).with_code(403);
    w.server->inject(f.verb("delete"));
    const auto refused = [&w] {
        const auto asked = w.server->requests();
        return std::count_if(asked.begin(), asked.end(), [](const auto& q) { return q.verb == "delete"; });
    };
    w.run_until([&] { return refused() != 0; }, 120s);
    w.after_each = [&a] { REQUIRE(a.group->last_error() == errc::forbidden); };
    w.run(60s);
    CHECK(refused() > 10);
    CHECK(a.self.log.count("a fault was injected into this server") == 1);
    w.after_each = nullptr;
    w.server->clear_faults();
    w.run(5s);
    CHECK_FALSE(a.group->last_error());
    CHECK(leases(w) == 1);
}

TEST_CASE("sharding: refusals for less than the renew deadline cost nothing, whatever their Retry-After says") {
    for (const std::string verb : {"list", "update"}) {
        world w;
        sharer a(w, "a");
        a.start();
        w.run(20s);
        REQUIRE(a.owns_something());
        auto f = testing::fault(testing::fault::kind::status).on(about_leases).repeat(1'000'000).with_code(429);
        w.server->inject(f.verb(verb).with_retry_after(30));
        const auto changes = a.changes.size();
        w.run(6s);
        CHECK(a.owns_something());
        CHECK(a.self.log.contains("a fault was injected into this server")); // the reason is logged
        w.server->clear_faults();
        w.run(5s);
        CHECK(a.owns_something());
        CHECK(a.changes.size() == changes);
        CHECK_FALSE(a.group->last_error());
    }
}

TEST_CASE("sharding: clocks that run at different rates never lead to two owners") {
    for (const double rate : {0.8, 1.25}) {
        world w;
        sharer a(w, "a", rate, 5h), b(w, "b", 1, -7h);
        watch_over(w, {&a, &b});
        a.start();
        b.start();
        w.run(30s);
        for (int i = 0; i < 3; ++i) {
            (i % 2 ? a : b).self.paused = true;
            w.run(40s);
            (i % 2 ? a : b).self.paused = false;
            w.run(30s);
            CHECK(total({&a, &b}) == keys);
        }
    }
}

TEST_CASE("sharding: a Lease that is deleted by hand is created again") {
    world w;
    trio t(w);
    w.server->remove("leases.coordination.k8s.io", space, t.a.group->member());
    w.after_each = nullptr; // two owners are possible after a deletion, as the header warns
    w.run(25s);
    CHECK(total({&t.a, &t.b, &t.c}) == keys);
    CHECK(t.a.owns_something());
}

TEST_CASE("sharding: run_owned runs work on an owned key, and refuses other keys") {
    world w;
    trio t(w);
    const int ours = *t.a.owned().begin();
    const int others = *t.b.owned().begin();
    const auto mine = start_job(t.a, ours, 3s);
    const auto theirs = start_job(t.a, others, 3s);
    CHECK(mine->running);
    CHECK(theirs->end == owned_end::not_owned);
    CHECK_FALSE(theirs->running);
    w.run(4s);
    CHECK(mine->end == owned_end::done);
}

TEST_CASE("sharding: run_owned reports the cancellation of its caller as such, not as a lost key") {
    world w;
    sharer a(w, "a");
    a.start();
    w.run(1s);
    REQUIRE(a.group->owns(key(0)));
    const auto j = std::make_shared<job>();
    j->unwinding = 1s;
    asio::cancellation_signal signal;
    asio::co_spawn(a.self.io, job::guarded(j, &a, key(0)), asio::bind_cancellation_slot(signal.slot(), asio::detached));
    w.run(1s);
    CHECK(j->running);
    signal.emit(asio::cancellation_type::terminal);
    w.settle();
    CHECK(j->running); // the caller waits for the work to end
    w.run(2s);
    CHECK_FALSE(j->running);
    CHECK(j->end == owned_end::cancelled);
    CHECK(a.group->owns(key(0)));
}

TEST_CASE("sharding: work on a lost key is cancelled after half the hand-over time, and ends before another begins") {
    world w;
    sharer a(w, "a"), b(w, "b");
    watch_over(w, {&a, &b});
    a.start();
    w.run(1s);
    std::vector<std::shared_ptr<job>> jobs;
    for (int k = 0; k < keys; ++k) jobs.push_back(start_job(a, k, 1h, 2s));
    const auto quick = start_job(a, 0, 4s);
    b.start();
    w.run_until([&] { return a.owned().size() < keys; }, 10s);
    const auto lost = a.self.clock->now();
    REQUIRE(a.owned().size() < keys);
    const auto kept = a.owned();
    w.run(2s);
    for (const auto& j : jobs) CHECK(j->running);
    CHECK_FALSE(quick->told);
    w.run(3s);
    for (int k = 0; k < keys; ++k) {
        const auto& j = jobs[std::size_t(k)];
        CHECK(j->running == kept.contains(k));
        if (kept.contains(k)) continue;
        CHECK(j->end == owned_end::lost);
        REQUIRE(j->told);
        CHECK(*j->told - lost >= 2300ms);
        CHECK(*j->told - lost <= 2700ms);
    }
    CHECK_FALSE(b.owns_something());
    CHECK_FALSE(a.self.log.contains("outlives our ownership"));
    // The rest ends with the replica.
    a.self.stop();
    w.run(2s);
    CHECK_FALSE(a.self.ended);
    CHECK(leases(w) == 2);
    w.run(3s);
    CHECK(a.self.ended);
    for (const auto& j : jobs) CHECK_FALSE(j->running);
    CHECK(leases(w) == 1);
}

TEST_CASE("sharding: work that outlives its ownership is logged; a leaving replica keeps its Lease until it ends") {
    world w;
    sharer a(w, "a");
    a.start();
    w.run(1s);
    const auto j = start_job(a, 1, 1h, 60s);
    a.self.stop();
    w.run(40s);
    CHECK(j->running);
    CHECK_FALSE(a.self.ended);
    CHECK(leases(w) == 1);
    CHECK(a.self.log.contains("outlives our ownership"));
    w.run(30s);
    CHECK_FALSE(j->running);
    CHECK(a.self.ended);
    CHECK(leases(w) == 0);
}

TEST_CASE("sharding: run_owned throws what the work throws") {
    world w;
    sharer a(w, "a");
    a.start();
    w.run(1s);
    const auto broken = []() -> asio::awaitable<void> {
        throw std::runtime_error("broken work");
        co_return;
    };
    std::string text;
    asio::co_spawn(a.self.io, a.group->run_owned("x", broken()), [&](std::exception_ptr e, owned_end) {
        try {
            if (e) std::rethrow_exception(e);
        } catch (const std::exception& x) {
            text = x.what();
        }
    });
    w.settle();
    CHECK(text == "broken work");
}

TEST_CASE("sharding: a callback that throws is contained, and run() twice at once is an error") {
    world w;
    auto& r = w.add("r");
    shard_group_options o(space, "shop");
    o.identity("r").on_change([](const shard_change&) { throw std::runtime_error("observer"); });
    shard_group g(r.rt, *r.client, o);
    r.start(g.run());
    w.run(1s);
    CHECK(g.owns("x"));
    CHECK(r.log.contains("on_change threw: observer"));
    std::exception_ptr failed;
    asio::co_spawn(r.io, g.run(), [&](std::exception_ptr e) { failed = std::move(e); });
    w.settle();
    REQUIRE(failed);
    CHECK_THROWS_AS(std::rethrow_exception(failed), error);
    CHECK(g.owns("x"));
    w.close(r);
    CHECK(r.ended);
    CHECK(leases(w) == 0);
    // The group can be run again.
    r.start(g.run());
    w.run(1s);
    CHECK(g.owns("x"));
    w.close(r);
}

TEST_CASE("sharding: listeners that are gone leave nothing behind") {
    world w;
    sharer a(w, "a");
    const auto rounds = [&a](int n) {
        for (int i = 0; i < n; ++i) static_cast<void>(a.group->listen([](const shard_change&) {}));
        return mallinfo2().uordblks; // always zero under the sanitizers
    };
    const std::size_t before = rounds(100);
    CHECK(rounds(10'000) < before + 50'000);
}

TEST_CASE("sharding: a request that fails at any place never leads to two owners, and never hangs the group") {
    using kind = testing::fault::kind;
    for (const auto what : {kind::refuse, kind::cut_after, kind::stall_after, kind::status, kind::garbage_body}) {
        for (std::size_t nth = 0; nth < 8; ++nth) {
            world w;
            sharer a(w, "a"), b(w, "b");
            watch_over(w, {&a, &b});
            testing::fault f(what);
            f.on(about_leases).skipping(nth).with_text("{").with_code(500);
            w.server->inject(f);
            a.start();
            b.start();
            w.run(25s, 500ms);
            CHECK(total({&a, &b}) == keys);
            a.self.stop();
            w.run(6s, 500ms);
            CHECK(a.self.ended);
            CHECK(total({&b}) == keys);
        }
    }
}
