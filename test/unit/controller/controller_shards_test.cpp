// Controllers that share their keys: replicas with clocks of their own over one embedded API server.
#include "lease_world.hpp"
#include "slow_steps.hpp"

#include <informer/cache/informer_factory.hpp>
#include <informer/controller/controller.hpp>
#include <informer/controller/key_sharding.hpp>
#include <informer/task_group.hpp>

#include <boost/asio/post.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/json.hpp>

#include <map>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>

using namespace lease_test;

namespace {

constexpr const char* space = "default";
constexpr int objects = 40;
constexpr const char* poison = "poison";
const api_resource configmaps("", "v1", "configmaps", "ConfigMap");

std::string name_of(int i) {
    return "shared-" + std::to_string(i);
}

/// What all replicas do, seen from outside.
struct ledger {
    std::set<std::string> running;                          ///< keys that are being reconciled, by any replica
    std::map<std::string, std::map<std::string, int>> done; ///< reconciles by key and replica
    bool twice = false;                                     ///< a key ran in two places at the same time
    int by(const std::string& replica) const {
        int n = 0;
        for (const auto& [key, who] : done) n += who.contains(replica) ? 1 : 0;
        return n;
    }
    std::size_t keys() const { return done.size(); }
};

std::string text_of(const object_key& key) {
    if (key.name == poison) throw std::runtime_error("no text");
    return key.str();
}

struct worker {
    worker(world& w, ledger& l, std::string name, std::chrono::nanoseconds takes = 0s,
           std::function<bool(const object_key&)> only = nullptr, predicate when = {}, map_function map = nullptr)
        : all(w), self(w.add(name)), factory(self.rt, self.client->list_watches()) {
        shard_group_options o(space, "shop");
        o.identity(name);
        group = std::make_shared<shard_group>(self.rt, *self.client, o);
        reconciler f = [&l, name, takes, c = self.clock](reconcile_request q) {
            return note(&l, name, takes, c, q.key.name);
        };
        controller_builder builder(self.rt, factory, "configs");
        const source_options source = source_options().name_space(space).when(std::move(when));
        if (map)
            builder.watches(configmaps, std::move(map), source);
        else
            builder.for_(configmaps, source);
        builder.options(controller_options().workers(4).sharded_by(group, text_of).only_keys(std::move(only)));
        work.emplace(builder.build(std::move(f)));
    }
    ~worker() {
        work->stop();
        all.close(self);
    }
    worker(const worker&) = delete;
    worker& operator=(const worker&) = delete;

    static asio::awaitable<reconcile_result> note(ledger* l, std::string who, std::chrono::nanoseconds takes,
                                                  std::shared_ptr<testing::manual_clock> c, std::string key) {
        if (!l->running.insert(key).second) l->twice = true;
        co_await asio::this_coro::throw_if_cancelled(false);
        bool whole = true;
        if (takes > 0s) whole = co_await c->sleep_for(takes);
        l->running.erase(key);
        if (whole) ++l->done[key][who];
        co_return reconcile_result::done();
    }
    static asio::awaitable<void> live(worker* w) {
        const auto executor = co_await asio::this_coro::executor;
        co_await asio::this_coro::throw_if_cancelled(false);
        task_group sharing(executor), working(executor);
        sharing.spawn(w->group->run());
        working.spawn(w->work->run());
        co_await working.join(); // first: running reconciles still hold their keys
        sharing.stop();
        co_await sharing.join();
        co_await w->factory.shutdown();
    }
    void start() { self.start(live(this)); }
    /// Runs everything except the workers.
    static asio::awaitable<void> stand_by(worker* w) {
        const auto executor = co_await asio::this_coro::executor;
        co_await asio::this_coro::throw_if_cancelled(false);
        task_group sharing(executor), following(executor);
        sharing.spawn(w->group->run());
        following.spawn(w->work->run_sources());
        co_await following.join();
        sharing.stop();
        co_await sharing.join();
        co_await w->factory.shutdown();
    }

    world& all;
    replica& self;
    informer_factory factory;
    std::shared_ptr<shard_group> group;
    std::optional<controller> work;
};

void put(world& w, int i, const std::string& text) {
    boost::json::value o = {{"apiVersion", "v1"},
                            {"kind", "ConfigMap"},
                            {"metadata", {{"namespace", space}, {"name", name_of(i)}}},
                            {"data", {{"text", text}}}};
    if (w.server->get("configmaps", space, name_of(i)).is_null())
        w.server->create(std::move(o));
    else
        w.server->update(std::move(o));
}

/// Two replicas that have reconciled all objects.
struct pair {
    explicit pair(world& in) : w(in) {
        for (int i = 0; i < objects; ++i) put(w, i, "first");
        a.start();
        b.start();
        w.run(40s);
        CHECK(l.keys() == objects);
        l.done.clear();
    }
    void change_all() {
        for (int i = 0; i < objects; ++i) put(w, i, "second");
        w.run(2s);
    }
    world& w;
    ledger l;
    worker a{w, l, "a"}, b{w, l, "b"};
};

} // namespace

TEST_CASE("sharded controllers: each object is reconciled by exactly one of the replicas, and its changes too") {
    world w;
    pair p(w);
    p.change_all();
    CHECK(p.l.keys() == objects);
    for (const auto& [key, who] : p.l.done) CHECK(who.size() == 1);
    CHECK(p.l.by("a") > 5);
    CHECK(p.l.by("b") > 5);
    CHECK(p.a.work->figures().foreign > 0);
    CHECK_FALSE(p.l.twice);
}

TEST_CASE("sharded controllers: the keys of a crashed replica are reconciled by the others, though nothing changed") {
    world w;
    pair p(w);
    p.change_all();
    std::set<std::string> of_a;
    for (const auto& [key, who] : p.l.done)
        if (who.contains("a")) of_a.insert(key);
    REQUIRE(of_a.size() > 5);
    p.l.done.clear();
    p.a.self.paused = true;
    w.run(25s);
    for (const auto& key : of_a) CHECK(p.l.done[key].contains("b"));
    CHECK(p.l.keys() == of_a.size()); // what b owned before is not reconciled again
    // Replica a wakes up and joins anew, and reconciles the keys that come back to it.
    p.l.done.clear();
    p.a.self.paused = false;
    w.run(40s);
    for (const auto& key : of_a) CHECK(p.l.done[key].contains("a"));
    CHECK_FALSE(p.l.twice);
}

TEST_CASE("sharded controllers: a reconcile whose key is lost has ended before another replica begins one") {
    world w;
    for (int i = 0; i < objects; ++i) put(w, i, "first");
    ledger l;
    worker a(w, l, "a", 7s), b(w, l, "b", 7s), c(w, l, "c", 7s);
    a.start();
    w.run(30s);
    b.start();
    w.run(60s);
    c.start();
    w.run(60s);
    b.work->stop(); // running reconciles may finish, under the Lease
    w.run(60s);
    CHECK(b.self.ended);
    CHECK(l.keys() == objects);
    CHECK_FALSE(l.twice);
    CHECK(l.by("c") > 0);
}

TEST_CASE("sharded controllers: a key whose shard text cannot be made holds back no other key of its object") {
    world w;
    const map_function two = [](const object& o) {
        return std::vector<object_key>{object_key(space, poison), o.key()};
    };
    ledger l;
    for (int i = 0; i < objects; ++i) put(w, i, "first");
    worker a(w, l, "a", 0s, nullptr, {}, two), b(w, l, "b", 0s, nullptr, {}, two);
    a.start();
    b.start();
    w.run(40s);
    REQUIRE(l.keys() == objects);
    l.done.clear();
    b.self.paused = true;
    w.run(25s);
    CHECK(l.by("a") > 5);
    put(w, 0, "second");
    w.run(2s);
    CHECK_FALSE(l.done.contains(poison));
    CHECK(a.work->figures().source_errors > 0);
}

TEST_CASE("sharded controllers: while the server refuses Leases no work is done; then all keys are reconciled again") {
    world w;
    for (int i = 0; i < objects; ++i) put(w, i, "first");
    ledger l;
    worker a(w, l, "a");
    a.start();
    w.run(10s);
    REQUIRE(l.keys() == objects);
    l.done.clear();
    const auto about_leases = [](const testing::request_info& i) { return i.resource == "leases"; };
    w.server->inject(testing::fault(testing::fault::kind::status).on(about_leases).repeat(1'000'000).with_code(503));
    w.run(12s);
    CHECK_FALSE(a.group->view().active());
    put(w, 1, "second"); // seen while no replica owns the key
    w.run(2s);
    CHECK(l.keys() == 0);
    w.server->clear_faults();
    w.run(30s);
    CHECK(l.keys() == objects);
}

TEST_CASE("sharded controllers: going through all objects for new keys lets other work have its turn") {
    world w;
    for (int i = 0; i < 4 * objects; ++i) put(w, i, "first");
    ledger l;
    std::optional<slow_steps> looks;
    const predicate slow([&looks](const event&) {
        (*looks)();
        return true;
    });
    worker a(w, l, "a", 0s, nullptr, slow), b(w, l, "b");
    looks.emplace(a.self.io.get_executor());
    a.start();
    b.start();
    w.run(40s);
    l.done.clear();
    looks->start_over();
    b.self.paused = true;
    w.run(25s);
    CHECK(l.by("a") > objects);
    CHECK(looks->most() > 0); // it has gone through the objects again
    CHECK(looks->most() <= 32);
}

TEST_CASE("sharded controllers: an owned key that only_keys refuses is dropped, and not tried again") {
    world w;
    ledger l;
    for (int i = 0; i < objects; ++i) put(w, i, "first");
    worker a{w, l, "a", 0s, [](const object_key& k) { return k.name != name_of(0); }};
    a.start();
    w.run(40s);
    CHECK(l.keys() == objects - 1);
    const auto before = a.work->figures().foreign;
    w.run(10s);
    CHECK(a.work->figures().foreign == before);
}

TEST_CASE("sharded controllers: a reconcile that was cut off before it began is asked for again") {
    world w;
    ledger l;
    put(w, 0, "first");
    worker a(w, l, "a");
    a.self.start(worker::stand_by(&a));
    w.run(10s);
    task_group term(a.self.io.get_executor());
    term.spawn(a.work->run_workers());
    w.settle();
    REQUIRE(l.keys() == 1);
    l.done.clear();
    // The Lease is lost at the moment when a worker gets its key.
    asio::post(a.self.io, [&] {
        term.stop();
        a.work->enqueue(object_key(space, name_of(0)));
    });
    w.settle();
    REQUIRE(term.size() == 0);
    CHECK(l.keys() == 0);
    CHECK(a.work->figures().queue.ready == 1);
}

TEST_CASE("sharded controllers: group changes while the sources are gone through for an earlier one lose no key") {
    world w;
    bool blocked = false;
    const map_function slow = [&blocked](const object& o) {
        if (blocked) throw error(errc::not_synced, "another cache");
        return std::vector<object_key>{o.key()};
    };
    ledger l;
    for (int i = 0; i < objects; ++i) put(w, i, "first");
    worker a(w, l, "a", 0s, nullptr, {}, slow), b(w, l, "b"), c(w, l, "c"), d(w, l, "d");
    for (worker* one : {&a, &b, &c, &d}) one->start();
    w.run(60s);
    REQUIRE(l.keys() == objects);
    for (int i = 0; i < objects; ++i) put(w, i, "second");
    l.done.clear();
    w.run(2s);
    std::set<std::string> of_others;
    for (const auto& [key, who] : l.done)
        if (!who.contains("a")) of_others.insert(key);
    l.done.clear();
    blocked = true;
    // each death is another change of the group; a is held up while it handles the first
    for (worker* one : {&b, &c, &d}) {
        one->self.paused = true;
        w.run(25s);
    }
    blocked = false;
    w.run(5s);
    for (const auto& key : of_others) CHECK(l.done[key].contains("a"));
    for (worker* one : {&b, &c, &d}) one->self.paused = false;
}
