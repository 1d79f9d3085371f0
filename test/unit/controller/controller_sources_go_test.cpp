// Sources that are taken back, and what a standby makes of those that come and go.
#include "controller_pods.hpp"

#include <map>
#include <memory>

using namespace controller_test;

namespace {

asio::awaitable<void> taken_back(bool by_drop) {
    const auto ex = co_await asio::this_coro::executor;
    pods_bench b(ex);
    b.serve({});
    controller c = b.of_foos().build(b.noting());
    co_await b.start_and_sync(c);
    controller_source east = c.watch(b.pod_factory, pods, b.in("east"));
    controller_source west = c.watch(b.pod_factory, pods, b.in("west"));
    const auto eastern = b.serve_pods("east", {}), western = b.serve_pods("west", {});
    co_await east.synced(0s);
    co_await west.synced(0s);
    REQUIRE(b.pod_factory.status().size() == 2);
    if (by_drop)
        east = controller_source();
    else
        east.remove();
    CHECK_FALSE(east.has_synced());
    CHECK_FALSE(east.not_ready().empty());
    const std::function<bool()> released = [&] { return b.pod_factory.status().size() == 1; };
    bool ok = co_await eventually(released);
    CHECK(ok);
    western->added(pod("west", "w", 11));
    ok = co_await eventually(b.has_seen("w"));
    CHECK(ok);
    CHECK(c.not_ready().empty());
    CHECK(b.seen == std::vector<std::string>{"w"});
    CHECK_FALSE(*b.ended);

    // The namespace comes again.
    east = c.watch(b.pod_factory, pods, b.in("east"));
    const auto again = b.serve_pods("east", {pod("east", "e", 3)});
    ok = co_await eventually(b.has_seen("e"));
    CHECK(ok);
    co_await b.finish_all(c);
}

/// The namespaces that it follows are those that its own objects name.
asio::awaitable<void> by_its_own_reconciler() {
    const auto ex = co_await asio::this_coro::executor;
    pods_bench b(ex);
    b.serve({});
    std::unique_ptr<controller> self;
    std::map<std::string, controller_source> followed;
    const reconciler reconcile = [&](reconcile_request q) -> asio::awaitable<reconcile_result> {
        b.seen.push_back(q.key.name);
        if (q.key.name_space != "ns") co_return reconcile_result::done();
        if (!b.factory.lister(foos).find(q.key))
            followed.erase(q.key.name);
        else if (!followed.contains(q.key.name))
            followed[q.key.name] = self->watch(b.pod_factory, pods, b.in(q.key.name));
        co_return reconcile_result::done();
    };
    self = std::make_unique<controller>(b.of_foos().build(reconcile));
    co_await b.start_and_sync(*self);
    for (int round = 0; round < 3; ++round) {
        const auto n = static_cast<std::size_t>(round);
        b.foo_watch->added(foo("east", 11 + 2 * round));
        const std::function<bool()> begun = [&] { return followed.contains("east"); };
        bool ok = co_await eventually(begun);
        CHECK(ok);
        const auto eastern = b.serve_pods("east", {pod("east", "e", 3)});
        ok = co_await eventually(b.has_seen("e", n + 1));
        CHECK(ok);
        b.foo_watch->deleted(foo("east", 12 + 2 * round));
        const std::function<bool()> gone = [&] { return b.pod_factory.status().empty(); };
        ok = co_await eventually(gone);
        CHECK(ok);
    }
    CHECK(b.count("e") == 3);
    co_await b.finish_all(*self);
}

/// The mapping takes its own source back, in the middle of a batch.
asio::awaitable<void> by_its_own_mapping() {
    const auto ex = co_await asio::this_coro::executor;
    pods_bench b(ex);
    b.serve({});
    controller c = b.of_foos().build(b.noting());
    co_await b.start_and_sync(c);
    controller_source east;
    int called = 0;
    const map_function once = [&](const object& o) {
        ++called;
        east.remove();
        return std::vector<object_key>{o.key()};
    };
    east = c.watch(b.pod_factory, pods, once, b.in("east"));
    const auto watch = b.serve_pods("east", {pod("east", "a", 3), pod("east", "b", 4), pod("east", "c", 5)});
    const std::function<bool()> gone = [&] { return called > 0 && b.pod_factory.status().empty(); };
    bool ok = co_await eventually(gone);
    CHECK(ok);
    CHECK(called == 1);
    const std::function<bool()> one = [&] { return b.seen.size() == 1; };
    ok = co_await eventually(one);
    CHECK(ok);
    CHECK(c.not_ready().empty());
    co_await b.finish_all(c);
}

asio::awaitable<void> taken_back_while_its_mapping_waits() {
    const auto ex = co_await asio::this_coro::executor;
    pods_bench b(ex);
    b.serve({});
    controller c = b.of_foos().build(b.noting());
    co_await b.start_and_sync(c);
    int called = 0;
    const map_function waits = [&called](const object&) -> std::vector<object_key> {
        ++called;
        throw error(errc::not_synced, "secrets");
    };
    controller_source east = c.watch(b.pod_factory, pods, waits, b.in("east"));
    const auto watch = b.serve_pods("east", {pod("east", "a", 3)});
    const std::function<bool()> waiting = [&] { return called == 1; };
    bool ok = co_await eventually(waiting);
    CHECK(ok);
    east.remove();
    const std::function<bool()> gone = [&] {
        b.clock->advance(50ms);
        return b.pod_factory.status().empty();
    };
    ok = co_await eventually(gone);
    CHECK(ok);
    CHECK(called == 1);
    CHECK(c.not_ready().empty());
    co_await b.finish_all(c);
}

asio::awaitable<void> taken_back_while_awaited() {
    const auto ex = co_await asio::this_coro::executor;
    pods_bench b(ex);
    b.serve({foo("f", 1)});
    controller c = b.of_foos().build(b.noting());
    controller_source before = c.watch(b.pod_factory, pods, b.in("east")); // run() waits for it
    auto text = std::make_shared<std::string>(), late = std::make_shared<std::string>();
    const auto over = std::make_shared<bool>(false), late_over = std::make_shared<bool>(false);
    b.group.spawn(bench::keep_error(before.synced(0s), text, over));
    co_await settle();
    b.start(c);
    const std::function<bool()> waiting = [&] { return c.figures().queue.ready == 1; };
    bool ok = co_await eventually(waiting);
    CHECK(ok);
    CHECK(b.seen.empty());
    CHECK_FALSE(*over);
    before.remove();
    ok = co_await eventually(b.has_seen("f")); // the others are in sync
    CHECK(ok);
    const std::function<bool()> told = [over] { return *over; };
    ok = co_await eventually(told);
    CHECK(ok);
    CHECK(text->find("controller foos: pods in east was removed") != std::string::npos);

    controller_source after = c.watch(b.pod_factory, pods, b.in("west"));
    b.group.spawn(bench::keep_error(after.synced(0s), late, late_over));
    co_await settle();
    after = controller_source(); // one that is awaited does not keep it
    const std::function<bool()> late_told = [late_over] { return *late_over; };
    ok = co_await eventually(late_told);
    CHECK(ok);
    CHECK(late->find("pods in west was removed") != std::string::npos);
    bool refused_at_once = false;
    try {
        co_await after.synced(0s);
    } catch (const error& e) {
        refused_at_once = e.code() == errc::stopped;
    }
    CHECK(refused_at_once);
    co_await b.finish_all(c);
}

asio::awaitable<void> removed_before_the_run() {
    const auto ex = co_await asio::this_coro::executor;
    pods_bench b(ex);
    b.serve({foo("f", 1)});
    controller c = b.of_foos().build(b.noting());
    auto text = std::make_shared<std::string>();
    const auto over = std::make_shared<bool>(false);
    {
        const controller_source none = c.watch(b.pod_factory, pods, b.in("east"));
        b.group.spawn(bench::keep_error(none.synced(0s), text, over));
        co_await settle();
    }
    const std::function<bool()> told = [over] { return *over; };
    bool ok = co_await eventually(told);
    CHECK(ok);
    CHECK(text->find("pods in east was removed") != std::string::npos);
    CHECK(b.pod_factory.status().empty());
    b.start(c);
    ok = co_await eventually(b.has_seen("f"));
    CHECK(ok);
    co_await b.finish_all(c);
}

asio::awaitable<void> handles_outlive() {
    const auto ex = co_await asio::this_coro::executor;
    pods_bench b(ex);
    b.serve({});
    controller_source left;
    {
        controller c = b.of_foos().build(b.noting());
        co_await b.start_and_sync(c);
        left = c.watch(b.pod_factory, pods, b.in("east"));
        co_await b.finish(c);
    }
    CHECK(b.pod_factory.status().empty()); // the controller held the informer, the handle does not
    CHECK_FALSE(left.has_synced());
    CHECK(left.not_ready() == "there is no source");
    left.remove();
    co_await b.pod_factory.shutdown();
}

/// Runs the sources alone, lets keys of objects that are gone pile up until some are forgotten, then runs workers.
class standby {
public:
    explicit standby(pods_bench& b, controller c)
        : bench_(b), c_(std::move(c)), sources_(b.rt.executor()), workers_(b.rt.executor()) {}
    asio::awaitable<void> follow() {
        sources_.spawn(c_.run_sources());
        co_await c_.synced(0s);
    }
    asio::awaitable<void> forget() {
        for (int i = 0; i < 5000; ++i) c_.enqueue(object_key("ns", "gone" + std::to_string(i)));
        bench_.foo_watch->added(foo("f", 11)); // an event makes it look
        const std::function<bool()> forgot = [this] {
            const auto f = c_.figures(); // while it looks, it has keys in hand, and few are ready
            return f.queue.ready < 1200 && f.queue.processing == 0;
        };
        const bool ok = co_await eventually(forgot);
        CHECK(ok);
    }
    asio::awaitable<void> lead() {
        workers_.spawn(c_.run_workers());
        const std::function<bool()> idle = [this] {
            const auto f = c_.figures();
            return f.succeeded > 0 && f.queue.ready == 0 && f.active == 0;
        };
        const bool ok = co_await eventually(idle);
        CHECK(ok);
    }
    asio::awaitable<void> end() {
        c_.stop();
        co_await workers_.join();
        co_await sources_.join();
        co_await bench_.end();
        co_await bench_.pod_factory.shutdown();
    }

private:
    pods_bench& bench_;
    controller c_;
    task_group sources_, workers_;
};

/// A source that never comes into sync does not keep a standby from forgetting keys.
asio::awaitable<void> standby_forgets() {
    const auto ex = co_await asio::this_coro::executor;
    pods_bench b(ex);
    b.serve({});
    std::map<std::string, int> priorities;
    const reconciler noting = [&priorities](reconcile_request q) -> asio::awaitable<reconcile_result> {
        priorities.emplace(q.key.name, q.priority);
        co_return reconcile_result::done();
    };
    controller c = b.of_foos().build(noting);
    standby s(b, c);
    co_await s.follow();
    const controller_source missing = c.watch(b.pod_factory, pods, b.in("nowhere"));
    const controller_source east = c.watch(b.pod_factory, pods, b.in("east"));
    const auto watch = b.serve_pods("east", {});
    co_await east.synced(0s);
    watch->added(pod("east", "stays", 11));
    const std::function<bool()> asked = [&] { return c.figures().queue.ready == 1; };
    const bool ok = co_await eventually(asked);
    CHECK(ok);
    co_await s.forget();
    co_await s.lead();
    CHECK(priorities.at("stays") == 0); // its object exists, so it was kept: one that is asked for again has a low one
    co_await s.end();
}

/// A key that nothing but an added source asks for is forgotten while no worker runs, and asked for again by the next.
asio::awaitable<void> standby_asks_again() {
    const auto ex = co_await asio::this_coro::executor;
    pods_bench b(ex);
    b.serve({});
    controller c = b.of_foos().build(b.noting());
    standby s(b, c);
    co_await s.follow();
    controller_source leaves; // the first that is gone through
    int mapped = 0;
    const auto map_to = [](const object& o) {
        return std::vector<object_key>{object_key("ns", "of-" + o.name().str())};
    };
    const map_function map = map_to;
    const map_function takes_itself_back = [&](const object& o) {
        if (++mapped == 4) leaves.remove(); // when the three are gone through again
        return map_to(o);
    };
    leaves = c.watch(b.pod_factory, pods, takes_itself_back, b.in("south"));
    const controller_source east = c.watch(b.pod_factory, pods, map, b.in("east"));
    controller_source west = c.watch(b.pod_factory, pods, map, b.in("west"));
    const auto eastern = b.serve_pods("east", {pod("east", "e", 3)});
    const auto western = b.serve_pods("west", {pod("west", "w", 3)});
    const auto southern = b.serve_pods("south", {pod("south", "s1", 3), pod("south", "s2", 4), pod("south", "s3", 5)});
    const std::function<bool()> asked = [&] { return c.figures().queue.ready == 5; };
    const bool ok = co_await eventually(asked);
    CHECK(ok);
    co_await s.forget();
    west.remove();
    co_await s.lead();
    CHECK(b.count("of-e") == 1);
    CHECK(b.count("of-w") == 0);
    CHECK(mapped == 4);
    CHECK(b.count("of-s1") + b.count("of-s2") + b.count("of-s3") == 1);
    co_await s.end();
}

} // namespace

TEST_CASE("a source that is taken back leads to no key and lets its informer go; the others go on; it may come again") {
    run_test(taken_back(false));
    run_test(taken_back(true));
}
TEST_CASE("a reconciler may add and take back sources, again and again") {
    run_test(by_its_own_reconciler());
}
TEST_CASE("a mapping may take its own source back: the rest of the batch is not mapped") {
    run_test(by_its_own_mapping());
}
TEST_CASE("a source is taken back while its mapping waits for a cache") {
    run_test(taken_back_while_its_mapping_waits());
}
TEST_CASE("a source that is taken back holds up nobody who waits for the others; who waits for it is told") {
    run_test(taken_back_while_awaited());
}
TEST_CASE("a source that is taken back before the run is as if it had never been") {
    run_test(removed_before_the_run());
}
TEST_CASE("the handle of a source keeps neither controller nor informer") {
    run_test(handles_outlive());
}
TEST_CASE("a standby forgets keys although an added source is not in sync, and keeps those of its objects") {
    run_test(standby_forgets());
}
TEST_CASE("workers that begin go through added sources, too, for keys that were forgotten; not those taken back") {
    run_test(standby_asks_again());
}
