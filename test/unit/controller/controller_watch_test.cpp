// Sources that are added to a controller, before and while it runs.
#include "controller_pods.hpp"

#include "support/refusal.hpp"

#include <map>
#include <utility>

using namespace controller_test;
using informer::testing::refused;

namespace {

asio::awaitable<void> added() {
    const auto ex = co_await asio::this_coro::executor;
    pods_bench b(ex);
    b.serve({foo("f", 1)});
    std::map<std::string, int> priorities;
    const reconciler noting = [&](reconcile_request q) -> asio::awaitable<reconcile_result> {
        b.seen.push_back(q.key.str());
        priorities[q.key.name] = q.priority;
        co_return reconcile_result::done();
    };
    controller c = b.of_foos().build(noting);
    co_await b.start_and_sync(c);
    bool ok = co_await eventually(b.has_seen("ns/f"));
    CHECK(ok);

    const controller_source east = c.watch(b.pod_factory, pods, b.in("east"));
    CHECK_FALSE(east.has_synced());
    const auto watch = b.serve_pods("east", {pod("east", "old", 3)});
    co_await east.synced(0s);
    CHECK(east.has_synced());
    CHECK(east.not_ready().empty());
    ok = co_await eventually(b.has_seen("east/old"));
    CHECK(ok);
    watch->added(pod("east", "fresh", 11)).deleted(pod("east", "old", 12));
    ok = co_await eventually(b.has_seen("east/fresh"));
    CHECK(ok);
    ok = co_await eventually(b.has_seen("east/old", 2));
    CHECK(ok);
    CHECK(priorities.at("fresh") == 0);

    const map_function to_f = [](const object&) { return std::vector<object_key>{object_key("ns", "f")}; };
    const controller_source mapped = c.watch(b.pod_factory, pods, to_f, b.in("west").priority(5));
    const auto west = b.serve_pods("west", {});
    co_await mapped.synced(0s);
    west->added(pod("west", "any", 11));
    ok = co_await eventually(b.has_seen("ns/f", 2));
    CHECK(ok);
    CHECK(priorities.at("f") == 5);
    CHECK(b.seen.size() == 5);
    co_await b.finish_all(c);
}

asio::awaitable<void> initial_state_at_low_priority() {
    const auto ex = co_await asio::this_coro::executor;
    pods_bench b(ex);
    b.serve({});
    std::vector<int> priorities;
    const reconciler noting = [&](reconcile_request q) -> asio::awaitable<reconcile_result> {
        priorities.push_back(q.priority);
        co_return reconcile_result::done();
    };
    controller c = b.of_foos().build(noting);
    co_await b.start_and_sync(c);
    const controller_source east = c.watch(b.pod_factory, pods, b.in("east"));
    const auto watch = b.serve_pods("east", {pod("east", "a", 3), pod("east", "b", 4)});
    const std::function<bool()> both = [&] { return priorities.size() == 2; };
    const bool ok = co_await eventually(both);
    CHECK(ok);
    CHECK(priorities == std::vector<int>{low_priority, low_priority});
    co_await b.finish_all(c);
}

asio::awaitable<void> nobody_waits() {
    const auto ex = co_await asio::this_coro::executor;
    pods_bench b(ex);
    b.serve({});
    controller c = b.of_foos().build(b.noting());
    co_await b.start_and_sync(c);
    const controller_source late = c.watch(b.pod_factory, pods, b.in("east"));
    CHECK(c.not_ready().empty());
    CHECK(c.has_synced());
    b.foo_watch->added(foo("f", 11));
    bool ok = co_await eventually(b.has_seen("f"));
    CHECK(ok);
    co_await c.synced(1s); // does not wait for it
    CHECK(late.not_ready().starts_with("pods in east is not in sync: "));

    auto text = std::make_shared<std::string>();
    const auto over = std::make_shared<bool>(false);
    b.group.spawn(bench::keep_error(late.synced(10s), text, over));
    co_await settle();
    b.clock->advance(10s);
    const std::function<bool()> told = [over] { return *over; };
    ok = co_await eventually(told);
    CHECK(ok);
    CHECK(text->find("controller foos: pods in east is not in sync after 10 s") != std::string::npos);

    const auto watch = b.serve_pods("east", {});
    co_await late.synced(0s);
    // From now on it is like the others.
    b.by_namespace.at("east")->on_watch_fail(refused(403, "Forbidden"));
    watch->end();
    for (int i = 0; i < 3; ++i) {
        b.by_namespace.at("east")->on_watch_fail(refused(403, "Forbidden"));
        b.by_namespace.at("east")->on_list(list_script().fail(refused(403, "Forbidden")));
    }
    const std::function<bool()> lost = [&] {
        b.clock->advance(1s);
        return c.not_ready().starts_with("pods in east: ");
    };
    ok = co_await eventually(lost);
    CHECK(ok);
    co_await b.finish_all(c);
}

/// New workers, as after a change of the leader, do not wait either.
asio::awaitable<void> no_worker_waits() {
    const auto ex = co_await asio::this_coro::executor;
    pods_bench b(ex);
    b.serve({foo("f", 1)});
    controller c = b.of_foos().build(b.noting());
    task_group sources(ex);
    sources.spawn(c.run_sources());
    co_await c.synced(0s);
    const controller_source missing = c.watch(b.pod_factory, pods, b.in("nowhere"));
    task_group workers(ex);
    workers.spawn(c.run_workers());
    const bool ok = co_await eventually(b.has_seen("f"));
    CHECK(ok);
    c.stop();
    co_await workers.join();
    co_await sources.join();
    co_await b.end();
    co_await b.pod_factory.shutdown();
}

asio::awaitable<void> waited_for() {
    const auto ex = co_await asio::this_coro::executor;
    pods_bench b(ex);
    b.serve({foo("f", 1)});
    controller c = b.of_foos().build(b.noting());
    const controller_source early = c.watch(b.pod_factory, pods, b.in("east"));
    b.start(c);
    const std::function<bool()> waiting = [&] { return c.figures().queue.ready == 1; };
    bool ok = co_await eventually(waiting);
    CHECK(ok);
    co_await settle(100);
    CHECK(b.seen.empty());
    CHECK_FALSE(c.has_synced());
    CHECK(c.not_ready().starts_with("pods in east is not in sync: "));
    const auto watch = b.serve_pods("east", {});
    ok = co_await eventually(b.has_seen("f"));
    CHECK(ok);
    co_await b.finish_all(c);
}

/// A source among several namespaces of one handle, and one that others read, too.
asio::awaitable<void> several_in_one_handle() {
    const auto ex = co_await asio::this_coro::executor;
    pods_bench b(ex);
    b.serve({});
    controller c = b.of_foos().build(b.noting());
    co_await b.start_and_sync(c);
    const informer_handle others = b.pod_factory.get(pods, "east", b.plain());
    controller_source both = c.watch(b.pod_factory, pods, b.source().name_spaces({"east", "west"}));
    const auto eastern = b.serve_pods("east", {pod("east", "e", 3)});
    bool ok = co_await eventually(b.has_seen("e"));
    CHECK(ok);
    CHECK_FALSE(both.has_synced());
    CHECK(both.not_ready().starts_with("pods in west is not in sync: "));
    const auto western = b.serve_pods("west", {pod("west", "w", 3)});
    co_await both.synced(0s);
    both.remove();
    const std::function<bool()> released = [&] { return b.pod_factory.status().size() == 1; };
    ok = co_await eventually(released);
    CHECK(ok);
    CHECK(others->has_synced());
    eastern->added(pod("east", "later", 11));
    const std::function<bool()> cached = [&] { return others->snapshot().size() == 2; };
    ok = co_await eventually(cached);
    CHECK(ok);
    co_await settle();
    CHECK(b.count("later") == 0);
    co_await b.finish_all(c);
}

asio::awaitable<void> refusals() {
    const auto ex = co_await asio::this_coro::executor;
    pods_bench b(ex);
    b.serve({});
    controller c = b.of_foos().build(b.noting());
    const auto refusal = [&](const map_function& map) {
        try {
            static_cast<void>(c.watch(b.pod_factory, pods, map));
        } catch (const error& e) {
            return e.failure();
        }
        return failure();
    };
    CHECK(refusal(map_function()) == errc::bad_configuration);
    co_await b.start_and_sync(c);
    c.stop();
    CHECK(refusal(mapping::to_self()) == errc::stopped);
    CHECK(b.pod_factory.status().empty());
    co_await b.finish_all(c);
    CHECK(refusal(mapping::to_self()) == errc::stopped);
}

/// Sources that were cancelled, while the controller was not stopped.
asio::awaitable<void> no_more_sources() {
    const auto ex = co_await asio::this_coro::executor;
    pods_bench b(ex);
    b.serve({});
    controller c = b.of_foos().build(b.noting());
    task_group sources(ex);
    sources.spawn(c.run_sources());
    co_await c.synced(0s);
    const controller_source kept = c.watch(b.pod_factory, pods, b.in("east"));
    sources.stop();
    co_await sources.join();
    failure f;
    try {
        static_cast<void>(c.watch(b.pod_factory, pods));
    } catch (const error& e) {
        f = e.failure();
    }
    CHECK(f == errc::stopped);
    co_await b.end();
    co_await b.pod_factory.shutdown();
}

asio::awaitable<void> its_informer_ends() {
    const auto ex = co_await asio::this_coro::executor;
    pods_bench b(ex);
    b.serve({});
    controller c = b.of_foos().build(b.noting());
    co_await b.start_and_sync(c);
    const controller_source east = c.watch(b.pod_factory, pods, b.in("east"));
    const auto watch = b.serve_pods("east", {});
    co_await east.synced(0s);
    co_await b.pod_factory.shutdown();
    const std::function<bool()> ended = [&] { return *b.ended; };
    const bool ok = co_await eventually(ended);
    CHECK(ok);
    CHECK(b.error_of_run->find("the informer of pods in east has ended") != std::string::npos);
    co_await b.end();
}

/// run() has begun, but its sources have not: what is added then is opened with the others.
asio::awaitable<void> added_as_the_run_begins(int turns) {
    const auto ex = co_await asio::this_coro::executor;
    pods_bench b(ex);
    b.serve({foo("f", 1)});
    controller c = b.of_foos().build(b.noting());
    controller_source east;
    b.start(c);
    for (int i = 0; i < turns; ++i) co_await asio::post(ex, asio::use_awaitable);
    east = c.watch(b.pod_factory, pods, b.in("east")); // nobody serves it
    const std::function<bool()> listed = [&] { return c.figures().queue.added > 0; };
    const bool ok = co_await eventually(listed);
    CHECK(ok);
    co_await settle(100);
    INFO(turns << ": " << c.not_ready());
    CHECK(b.seen.empty() == !c.has_synced()); // waited for like the others, or left out
    co_await b.finish_all(c);
}

/// Workers wait for the sources, which do not run yet.
asio::awaitable<void> added_while_workers_wait() {
    const auto ex = co_await asio::this_coro::executor;
    pods_bench b(ex);
    b.serve({foo("f", 1)});
    controller c = b.of_foos().build(b.noting());
    const auto text = std::make_shared<std::string>();
    const auto over = std::make_shared<bool>(false);
    b.group.spawn(bench::keep_error(c.run_workers(), text, over));
    co_await settle();
    const controller_source east = c.watch(b.pod_factory, pods, b.in("east")); // nobody serves it
    b.group.spawn(bench::keep_error(c.run_sources(), b.error_of_run, b.ended));
    const std::function<bool()> listed = [&] { return c.figures().queue.ready == 1; };
    bool ok = co_await eventually(listed);
    CHECK(ok);
    co_await settle(100);
    CHECK_FALSE(c.has_synced());
    CHECK(b.seen.empty());
    const auto watch = b.serve_pods("east", {});
    ok = co_await eventually(b.has_seen("f"));
    CHECK(ok);
    co_await b.finish_all(c);
}

/// A metrics sink that adds a source when the controller begins its series.
class adding_sink final : public metrics_sink {
public:
    void add(std::string_view, double, labels) override {}
    void set(std::string_view, double, labels) override {
        if (const auto f = std::exchange(then, nullptr)) f();
    }
    void observe(std::string_view, double, labels) override {}
    std::function<void()> then;
};

asio::awaitable<void> added_by_the_metrics_sink() {
    const auto ex = co_await asio::this_coro::executor;
    pods_bench b(ex);
    const auto sink = std::make_shared<adding_sink>();
    b.rt.with_metrics(sink);
    b.serve({foo("f", 1)});
    controller c = b.of_foos().build(b.noting());
    controller_source east;
    sink->then = [&] { east = c.watch(b.pod_factory, pods, b.in("east")); };
    b.start(c);
    const std::function<bool()> there = [&] { return b.by_namespace.contains("east"); };
    bool ok = co_await eventually(there);
    CHECK(ok);
    const auto watch = b.serve_pods("east", {pod("east", "a", 3)});
    ok = co_await eventually(b.has_seen("a"));
    CHECK(ok);
    CHECK_FALSE(c.stopping());
    CHECK(*b.error_of_run == "");
    co_await b.finish_all(c);
}

/// Of two clusters an object of the same name.
asio::awaitable<void> two_clusters() {
    const auto ex = co_await asio::this_coro::executor;
    pods_bench b(ex);
    b.serve({foo("f", 1)});
    std::map<std::string, std::string> clusters; // by the key as it came
    const reconciler noting = [&](reconcile_request q) -> asio::awaitable<reconcile_result> {
        const cluster_key of = cluster_key::parse(q.key);
        b.seen.push_back(of.key.str());
        clusters[q.key.str()] = of.cluster;
        co_return reconcile_result::done();
    };
    controller c = b.of_foos().build(noting);
    co_await b.start_and_sync(c);
    const controller_source west = c.watch(b.pod_factory, pods, mapping::of_cluster("west"), b.in("ns"));
    const auto watch = b.serve_pods("ns", {pod("ns", "f", 3)});
    const bool ok = co_await eventually(b.has_seen("ns/f", 2));
    CHECK(ok);
    CHECK(clusters == std::map<std::string, std::string>{{"ns/f", ""}, {"west:ns/f", "west"}});
    co_await b.finish_all(c);
}

} // namespace

TEST_CASE("a source that is added to a running controller leads to keys as the others do") {
    run_test(added());
}
TEST_CASE("the initial state of an added source enters at low priority") {
    run_test(initial_state_at_low_priority());
}
TEST_CASE("nobody waits for a source that was added while the controller ran; its handle tells how it is") {
    run_test(nobody_waits());
}
TEST_CASE("workers that begin later do not wait for an added source") {
    run_test(no_worker_waits());
}
TEST_CASE("a source that was added before the run is waited for like the others") {
    run_test(waited_for());
}
TEST_CASE("one handle holds the sources of several namespaces; an informer that others hold goes on without them") {
    run_test(several_in_one_handle());
}
TEST_CASE("a source is refused without a mapping and after a stop, and its informer is not started") {
    run_test(refusals());
}
TEST_CASE("a source is refused when the sources have ended, though the controller was not stopped") {
    run_test(no_more_sources());
}
TEST_CASE("the end of an added source's informer stops the controller") {
    run_test(its_informer_ends());
}
TEST_CASE("a source that is added as the run begins is waited for like the others, or left out") {
    for (int turns = 0; turns < 8; ++turns) run_test(added_as_the_run_begins(turns));
}
TEST_CASE("workers that wait for the sources wait for one that is added meanwhile, too") {
    run_test(added_while_workers_wait());
}
TEST_CASE("a metrics sink may add a source, which is followed once") {
    run_test(added_by_the_metrics_sink());
}
TEST_CASE("objects of two clusters that have the same name are reconciled as two, and their keys tell which is which") {
    run_test(two_clusters());
}
