// A controller that is slower than its sources: no change is lost, and informers do not wait for a controller that does
// not run.
#include "controller_fixture.hpp"

#include "support/refusal.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>

#include <chrono>
#include <set>

using namespace controller_test;

namespace {

constexpr int many = 3000; // more than a subscription has room for

std::string numbered(char letter, int n) {
    return letter + std::to_string(n);
}

/// Ends the watch of the Deployments; the list that follows has `many` more.
asio::awaitable<void> relist(bench* b) {
    b->deployment_watch->fail(informer::testing::refused(410, "Expired"));
    std::vector<std::string> all;
    for (int i = 0; i < many; ++i) all.push_back(deployment(numbered('d', i), 100, numbered('o', i)));
    b->deployment_source->on_list(list_script().items(std::move(all)).version("200"));
    b->deployment_watch = b->deployment_source->on_watch();
    b->deployment_watch->open();
    co_await settle(50);
    b->clock->advance(60s);
}

/// A relist makes the cache run ahead of the controller. Some owners are reconciled for another reason and see
/// Deployments whose events have not reached the controller yet. Each of those Deployments is deleted, or gets another
/// owner, at once.
asio::awaitable<void> seen_before_told() {
    const auto ex = co_await asio::this_coro::executor;
    bench b(ex);
    b.serve({});
    std::map<std::string, bool> sees; // owner → what its last reconcile saw
    std::set<std::string> told, changed;
    int version = 300;
    reconciler f = [&](reconcile_request q) -> asio::awaitable<reconcile_result> {
        const std::string& owner = q.key.name;
        const std::string name = "d" + owner.substr(1);
        const object d = b.factory.lister(deployments).find("ns/" + name);
        sees[owner] = d && mapping::to_owner(foos)(d).front().name == owner;
        if (!sees[owner] || told.contains(name) || !changed.insert(owner).second) co_return reconcile_result::done();
        ++version;
        if (changed.size() % 2 == 0)
            b.deployment_watch->deleted(deployment(name, version, owner));
        else
            b.deployment_watch->modified(deployment(name, version, "other"));
        co_return reconcile_result::done();
    };
    std::function<void()> once;
    predicate slow([&](const event& e) {
        told.insert(e.key().name);
        if (once) std::exchange(once, nullptr)();
        const auto until = std::chrono::steady_clock::now() + 30us;
        while (std::chrono::steady_clock::now() < until) {
        }
        return true;
    });
    controller c = b.of_foos().owns(deployments, b.source().when(slow)).build(f);
    once = [c] {
        for (int i = 0; i < 100; ++i) c.enqueue(object_key("ns", numbered('o', i)), 1);
    };
    b.start(c);
    co_await relist(&b);
    const std::function<bool()> all = [&] {
        return told.size() == many && b.deployment_watch->pending() == 0 && c.figures().queue.ready == 0;
    };
    const bool ok = co_await eventually(all);
    CHECK(ok);
    co_await settle(100);
    CHECK(changed.size() > 10);
    int outdated = 0;
    for (const std::string& owner : changed) outdated += sees[owner] ? 1 : 0;
    CHECK(outdated == 0);
    co_await b.finish(c);
}

/// The mapping waits for a cache that is not filled, so it is as slow as a mapping can be.
asio::awaitable<void> held_up() {
    const auto ex = co_await asio::this_coro::executor;
    bench b(ex);
    constexpr int changes = 6000;
    const informer_handle read = b.factory.get(deployments, "", b.plain()); // its list is not answered yet
    b.foo_source->on_list(list_script().version("10"));
    b.foo_watch = b.foo_source->on_watch();
    b.foo_watch->open();
    std::set<std::string> told; // by version
    map_function slow = [&](const object& f) -> std::vector<object_key> {
        static_cast<void>(b.factory.lister(deployments).find("ns/any"));
        told.insert(f.resource_version().str());
        return {f.key()};
    };
    controller c = b.build().watches(foos, slow, b.source()).build(b.noting());
    b.start(c);
    const std::function<bool()> synced = [&] { return c.has_synced(); };
    bool ok = co_await eventually(synced);
    CHECK(ok);
    for (int i = 0; i < changes; ++i) {
        const std::string one = foo(numbered('f', i % 10), 11 + i);
        if (i < 10)
            b.foo_watch->added(one);
        else
            b.foo_watch->modified(one);
    }
    std::size_t left = 0;
    const std::function<bool()> begun = [&] { return b.has_logged("its mapping waits"); };
    ok = co_await eventually(begun);
    CHECK(ok);
    for (std::size_t before = changes; before != left;) { // until nothing moves
        before = b.foo_watch->pending();
        co_await settle(1000);
        left = b.foo_watch->pending();
    }
    CHECK(told.empty());
    CHECK(left > changes / 2);
    CHECK(left < changes - 1024);
    CHECK(b.factory.lister(foos).list().size() == 10);
    b.deployment_source->on_list(list_script().version("10"));
    const std::function<bool()> all = [&] {
        b.clock->advance(50ms);
        return told.size() == changes;
    };
    ok = co_await eventually(all);
    CHECK(ok);
    CHECK(b.foo_watch->pending() == 0);
    CHECK(c.figures().source_errors == 0);
    co_await b.finish(c);
}

/// States of a controller in which it must not hold up its informers.
enum class idle { never_run, stopped, cancelled, dropped };

asio::awaitable<void> left_alone(idle how) {
    const auto ex = co_await asio::this_coro::executor;
    bench b(ex);
    b.serve({});
    controller c = b.of_foos().owns(deployments, b.source()).build(b.noting());
    const std::function<bool()> synced = [&] { return c.has_synced(); };
    bool ok = true;
    if (how == idle::stopped || how == idle::cancelled) {
        b.start(c);
        ok = co_await eventually(synced);
        if (how == idle::stopped)
            c.stop();
        else
            b.group.stop();
        const std::function<bool()> over = [&] { return *b.ended; };
        ok = co_await eventually(over);
    } else if (how == idle::dropped) {
        asio::io_context other;
        asio::co_spawn(other, c.run_sources(), asio::detached);
        const std::function<bool()> goes_on = [&] {
            other.poll();
            return c.has_synced();
        };
        ok = co_await eventually(goes_on);
    }
    CHECK(ok);
    co_await relist(&b);
    const informer_handle informer = b.factory.get(deployments, "", b.plain());
    const std::function<bool()> listed = [&] { return informer->status().relists == 1; };
    ok = co_await eventually(listed);
    CHECK(ok);
    b.deployment_watch->added(deployment("last", 300, "o")); // comes after all objects of the list
    const std::function<bool()> went_on = [&] {
        return static_cast<bool>(b.factory.lister(deployments).find("ns/last"));
    };
    ok = co_await eventually(went_on);
    CHECK(ok);
    co_await b.end();
}

/// The deletion brings a new last state, with another owner. The owner in the state before has not been told yet that
/// the Deployment is no longer its own.
asio::awaitable<void> deleted_elsewhere() {
    const auto ex = co_await asio::this_coro::executor;
    bench b(ex);
    b.serve({}, {deployment("d", 1, "x")});
    controller c = b.of_foos().owns(deployments, b.source()).build(b.noting());
    b.start(c);
    const std::function<bool()> first = [&] { return b.count("x") == 1; };
    bool ok = co_await eventually(first);
    CHECK(ok);
    b.deployment_watch->deleted(deployment("d", 11, "y"));
    const std::function<bool()> both = [&] { return b.count("x") == 2 && b.count("y") == 1; };
    ok = co_await eventually(both);
    CHECK(ok);
    co_await b.finish(c);
}

/// A caller may wait for the sync before the sources run.
asio::awaitable<void> waits_for_sources(bool runs) {
    const auto ex = co_await asio::this_coro::executor;
    bench b(ex);
    b.serve({foo("a", 1)});
    controller c = b.of_foos().build(b.noting());
    const auto ended = std::make_shared<std::vector<std::string>>();
    const std::function<asio::awaitable<void>(std::chrono::seconds)> wait =
        [&c, ended](std::chrono::seconds at_most) -> asio::awaitable<void> {
        std::string why = "in sync";
        try {
            co_await c.synced(at_most);
        } catch (const error& e) {
            why = e.what();
        }
        ended->push_back(why);
    };
    for (const auto at_most : {0s, 10s}) b.group.spawn(wait(at_most));
    co_await settle(100);
    CHECK(ended->empty());
    CHECK_FALSE(c.not_ready().empty());
    if (runs)
        b.start(c);
    else
        c.stop();
    const std::function<bool()> both = [&] { return ended->size() == 2; };
    const bool ok = co_await eventually(both);
    CHECK(ok);
    for (const std::string& why : *ended) CHECK((why == "in sync") == runs);
    if (runs)
        co_await b.finish(c);
    else
        co_await b.end();
}

} // namespace

TEST_CASE("nothing lost: a state that a reconcile saw ahead of its event, and that was undone, is reconciled again") {
    run_test(seen_before_told());
}
TEST_CASE("one at a time: a controller more than 1024 changes behind holds up its informers, and gets each change") {
    run_test(held_up());
}
TEST_CASE("a controller that does not run does not hold up its informers") {
    run_test(left_alone(idle::never_run));
    run_test(left_alone(idle::stopped));
    run_test(left_alone(idle::cancelled));
    run_test(left_alone(idle::dropped));
}
TEST_CASE("a deletion concerns the owners of both states: the last one reported before, and the one it brings") {
    run_test(deleted_elsewhere());
}
TEST_CASE("a caller may wait for a controller's sync before its sources run") {
    run_test(waits_for_sources(true));
    run_test(waits_for_sources(false));
}
