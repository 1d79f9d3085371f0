// What the sources of a controller lead to: which keys, and at what priority; and what a controller reports about a
// source that does not sync, or that it has lost.
#include "controller_fixture.hpp"

#include "support/refusal.hpp"

#include <algorithm>
#include <map>
#include <set>

using namespace controller_test;
using informer::testing::refused;

namespace {

/// Keys with the priority at which they were handed out.
class priority_notes {
public:
    reconciler noting() {
        return [this](reconcile_request q) -> asio::awaitable<reconcile_result> {
            all.emplace_back(q.key.name, q.priority);
            co_return reconcile_result::done();
        };
    }
    std::function<bool()> are(std::size_t n) const {
        return [this, n] { return all.size() == n; };
    }
    std::vector<std::pair<std::string, int>> all;
};

asio::awaitable<void> resyncs() {
    const auto ex = co_await asio::this_coro::executor;
    bench b(ex);
    b.serve({foo("a", 1), foo("b", 2)});
    priority_notes notes;
    controller c = b.build().for_(foos, b.source().resync(60s)).build(notes.noting());
    b.start(c);
    bool ok = co_await eventually(notes.are(2));
    CHECK(ok);
    b.foo_watch->added(foo("fresh", 11));
    ok = co_await eventually(notes.are(3));
    CHECK(ok);
    CHECK(notes.all[2] == std::pair<std::string, int>("fresh", 0));
    notes.all.clear();
    b.clock->advance(60s);
    ok = co_await eventually(notes.are(3));
    CHECK(ok);
    std::set<std::string> names;
    for (const auto& [name, priority] : notes.all) {
        CHECK(priority == low_priority);
        names.insert(name);
    }
    CHECK(names == std::set<std::string>{"a", "b", "fresh"});
    co_await b.finish(c);
}

asio::awaitable<void> priorities() {
    const auto ex = co_await asio::this_coro::executor;
    bench b(ex);
    b.serve({foo("a", 1)}, {deployment("d", 2, "of-d")});
    priority_notes notes;
    controller c =
        b.build().for_(foos, b.source().priority(7)).owns(deployments, b.source().priority(-200)).build(notes.noting());
    b.start(c);
    bool ok = co_await eventually(notes.are(2));
    CHECK(ok);
    b.foo_watch->added(foo("b", 11));
    ok = co_await eventually(notes.are(3));
    CHECK(ok);
    b.deployment_watch->added(deployment("e", 12, "of-e"));
    ok = co_await eventually(notes.are(4));
    CHECK(ok);
    std::sort(notes.all.begin(), notes.all.end());
    CHECK(notes.all ==
          std::vector<std::pair<std::string, int>>{{"a", low_priority}, {"b", 7}, {"of-d", -200}, {"of-e", -200}});
    co_await b.finish(c);
}

asio::awaitable<void> priorities_of_second_looks() {
    const auto ex = co_await asio::this_coro::executor;
    bench b(ex);
    b.serve({foo("error", 1), foo("requeue", 2), foo("after", 3)});
    priority_notes notes;
    const reconciler reconcile = [&notes](reconcile_request q) -> asio::awaitable<reconcile_result> {
        notes.all.emplace_back(q.key.name, q.priority);
        if (q.key.name == "after") co_return reconcile_result::requeue_after(1s);
        if (q.key.name == "requeue") co_return reconcile_result::requeue();
        co_return reconcile_result::error(failure(errc::bad_request, "not yet"));
    };
    controller c = b.of_foos().build(reconcile);
    b.start(c);
    bool ok = co_await eventually(notes.are(3));
    CHECK(ok);
    b.clock->advance(1s);
    ok = co_await eventually(notes.are(6));
    CHECK(ok);
    std::map<std::string, int> low;
    for (const auto& [name, priority] : notes.all) low[name] += priority == low_priority;
    CHECK(low == std::map<std::string, int>{{"after", 2}, {"error", 2}, {"requeue", 2}});
    co_await b.finish(c);
}

asio::awaitable<void> one_namespace_of_a_wider_cache() {
    const auto elsewhere = [](std::string text) { return text.replace(text.find(R"("ns")"), 4, R"("elsewhere")"); };
    const auto ex = co_await asio::this_coro::executor;
    bench b(ex);
    b.serve({foo("a", 1), elsewhere(foo("foreign", 2))});
    const informer_handle wider = b.factory.get(foos, "", b.plain());
    controller c = b.build().for_(foos, b.source().name_space("ns")).build(b.noting());
    b.start(c);
    const std::function<bool()> first = [&] { return b.count("a") == 1; };
    bool ok = co_await eventually(first);
    CHECK(ok);
    REQUIRE(wider->snapshot().size() == 2);
    b.foo_watch->added(elsewhere(foo("later", 11))).added(foo("last", 12));
    const std::function<bool()> last = [&] { return b.count("last") == 1; };
    ok = co_await eventually(last);
    CHECK(ok);
    co_await settle();
    CHECK(b.seen == std::vector<std::string>{"a", "last"});
    co_await b.finish(c);
}

asio::awaitable<void> any_owner() {
    const auto ex = co_await asio::this_coro::executor;
    bench b(ex);
    b.serve({});
    controller c = b.of_foos().owns(deployments, b.source().owners(owner_kind::any)).build(b.noting());
    b.start(c);
    b.deployment_watch->added(deployment("d", 11, "z", false));
    const std::function<bool()> told = [&] { return b.count("z") == 1; };
    const bool ok = co_await eventually(told);
    CHECK(ok);
    co_await b.finish(c);
}

asio::awaitable<void> lost_after_the_sync() {
    const auto ex = co_await asio::this_coro::executor;
    bench b(ex);
    b.serve({foo("a", 1)});
    controller c = b.of_foos().build(b.noting());
    b.start(c);
    const std::function<bool()> ready = [&] { return c.not_ready().empty(); };
    bool ok = co_await eventually(ready);
    CHECK(ok);
    b.foo_source->on_watch_fail(refused(403, "Forbidden"));
    b.foo_watch->end();
    for (int i = 0; i < 3; ++i) { // the server is asked a few times before its refusal is believed
        b.foo_source->on_watch_fail(refused(403, "Forbidden"));
        b.foo_source->on_list(list_script().fail(refused(403, "Forbidden")));
    }
    const std::function<bool()> lost = [&] {
        b.clock->advance(1s);
        return !c.not_ready().empty();
    };
    ok = co_await eventually(lost);
    CHECK(ok);
    CHECK(c.has_synced());
    CHECK(c.not_ready().starts_with("foos.samplecontroller.k8s.io: "));
    co_await b.finish(c);
}

asio::awaitable<void> no_namespaces() {
    const auto ex = co_await asio::this_coro::executor;
    bench b(ex);
    api_resource nodes("", "v1", "nodes", "Node", false);
    b.deployment_source = std::make_shared<scripted_list_watch>(ex, nodes);
    b.serve({}, {R"({"apiVersion":"v1","kind":"Node","metadata":{"name":"n1","uid":"u","resourceVersion":"3"}})"});
    controller c = b.of_foos().watches(nodes, mapping::to_self(), b.source().name_space("ns")).build(b.noting());
    b.start(c);
    const std::function<bool()> told = [&] { return b.count("n1") == 1; };
    const bool ok = co_await eventually(told);
    CHECK(ok);
    co_await b.finish(c);
}

std::string pod_of(const std::string& name_space, const std::string& name, const std::string& version) {
    return R"({"apiVersion":"v1","kind":"Pod","metadata":{"namespace":")" + name_space + R"(","name":")" + name +
           R"(","uid":"u-)" + name_space + name + R"(","resourceVersion":")" + version + R"("}})";
}

asio::awaitable<void> several_namespaces() {
    const auto ex = co_await asio::this_coro::executor;
    bench b(ex);
    const api_resource pods("", "v1", "pods", "Pod");
    std::map<std::string, std::shared_ptr<scripted_list_watch>> sources;
    std::vector<std::shared_ptr<watch_script>> watches;
    informer_factory factory(b.rt, [&](const api_resource& r, const std::string& ns) -> std::shared_ptr<list_watch> {
        auto& made = sources[ns];
        CHECK(made == nullptr); // one informer per namespace
        made = std::make_shared<scripted_list_watch>(ex, r);
        return made;
    });
    controller_builder builder(b.rt, factory, "pods");
    builder.for_(pods, b.source().name_spaces({"east", "west", "east"}));
    controller c = builder.build(b.noting());
    REQUIRE(sources.size() == 2);
    b.start(c);
    sources.at("east")->on_list(list_script().items({pod_of("east", "e1", "3")}).version("10"));
    watches.push_back(sources.at("east")->on_watch());
    watches.back()->open();
    co_await settle(100);
    CHECK(b.seen.empty()); // not before all have synced
    CHECK(c.not_ready().find("pods in west") != std::string::npos);
    sources.at("west")->on_list(list_script().items({pod_of("west", "w1", "3")}).version("20"));
    watches.push_back(sources.at("west")->on_watch());
    watches.back()->open();
    const std::function<bool()> both = [&] { return b.count("e1") == 1 && b.count("w1") == 1; };
    bool ok = co_await eventually(both);
    CHECK(ok);
    CHECK(factory.lister(pods, "east").list().size() == 1);
    CHECK(factory.lister(pods, "west").find("w1"));
    watches.front()->modified(pod_of("east", "e1", "11"));
    const std::function<bool()> again = [&] { return b.count("e1") == 2; };
    ok = co_await eventually(again);
    CHECK(ok);
    CHECK(b.count("w1") == 1);
    co_await b.finish(c);
    co_await factory.shutdown();
}

asio::awaitable<void> culprit() {
    const auto ex = co_await asio::this_coro::executor;
    bench b(ex);
    b.foo_source->on_list(list_script().version("10"));
    b.foo_watch = b.foo_source->on_watch();
    b.foo_watch->open();
    b.deployment_source->on_list(list_script().fail(failure(errc::forbidden, "list deployments")));
    controller c =
        b.of_foos().owns(deployments, b.source()).options(controller_options().sync_timeout(60s)).build(b.noting());
    b.start(c);
    const std::function<bool()> refused = [&] { return b.deployment_source->lists() == 1; };
    bool ok = co_await eventually(refused);
    CHECK(ok);
    co_await settle(100);
    CHECK_FALSE(*b.ended);
    b.clock->advance(60s);
    const std::function<bool()> over = [&] { return *b.ended; };
    ok = co_await eventually(over);
    CHECK(ok);
    INFO(*b.error_of_run);
    CHECK(b.error_of_run->find("deployments.apps is not in sync after 60 s") != std::string::npos);
    CHECK(b.error_of_run->find("list deployments") != std::string::npos);
    CHECK(b.has_logged(*b.error_of_run)); // logged as well: the caller may not look at the exception
    co_await b.end();
}

} // namespace

TEST_CASE("a resync repeats every object of its source at low priority") {
    run_test(resyncs());
}
TEST_CASE("keys enter at the priority of their source; those of the initial state at low priority at most") {
    run_test(priorities());
}
TEST_CASE("a key of the initial state that fails, or asks for another look, comes back at low priority") {
    run_test(priorities_of_second_looks());
}
TEST_CASE("a source of one namespace reconciles no other, though its informer has all namespaces") {
    run_test(one_namespace_of_a_wider_cache());
}
TEST_CASE("owns with owner_kind::any: an owner that is not the controller is reconciled, too") {
    run_test(any_owner());
}
TEST_CASE("a controller whose source may not be read any more is not ready, though it has synced") {
    run_test(lost_after_the_sync());
}
TEST_CASE("a source of a cluster-scoped resource is not narrowed to a namespace") {
    run_test(no_namespaces());
}
TEST_CASE("a source of several namespaces follows each of them, once, and waits for all") {
    run_test(several_namespaces());
}
TEST_CASE("a source that does not sync in time is named with its last error") {
    run_test(culprit());
}
