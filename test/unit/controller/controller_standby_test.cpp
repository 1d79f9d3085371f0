// The keys that wait while no worker runs, and those that are asked for again when workers run.
#include "controller_fixture.hpp"

#include <stdexcept>

using namespace controller_test;

namespace {

constexpr int churned = 12'000; ///< objects that come and go
constexpr int steady = 2'000;   ///< objects that stay

std::string numbered(const char* prefix, int n) {
    return prefix + std::to_string(n);
}

/// A standby sees objects come and go; then it leads.
asio::awaitable<void> standby_of_many() {
    const auto ex = co_await asio::this_coro::executor;
    bench b(ex);
    std::vector<std::string> staying;
    for (int i = 0; i < steady; ++i) staying.push_back(foo(numbered("stays-", i), 1));
    b.serve(std::move(staying));
    // The key belongs to no Foo: the Deployment that leads to it asks for it again.
    map_function elsewhere = [](const object&) { return std::vector<object_key>{object_key("", "all-of-them")}; };
    controller c = b.of_foos().watches(deployments, elsewhere, b.source()).build(b.noting());
    b.group.spawn(c.run_sources());
    b.deployment_watch->added(deployment("d", 11, "x"));
    const std::function<bool()> warm = [&] { return c.has_synced() && c.figures().queue.ready == steady + 1; };
    bool ok = co_await eventually(warm, 60s);
    CHECK(ok);
    std::size_t most = 0;
    int version = 100;
    for (int i = 0; i < churned; ++i) {
        const std::string name = numbered("gone-", i);
        b.foo_watch->added(foo(name, ++version));
        b.foo_watch->deleted(foo(name, ++version));
        if (i % 100 != 0) continue;
        co_await settle();
        most = std::max(most, c.figures().queue.ready);
    }
    b.foo_watch->added(foo("last", ++version));
    const std::function<bool()> told = [&] {
        return b.foo_watch->pending() == 0 && b.factory.lister(foos).find("ns/last") &&
               c.figures().queue.processing == 0;
    };
    ok = co_await eventually(told, 60s);
    CHECK(ok);
    CHECK(most > steady + 1);
    CHECK(most <= 2 * (steady + 1024 + 2) + 1024); // the last 1024: keys that come between two looks
    CHECK(b.seen.empty());

    b.group.spawn(c.run_workers());
    const std::function<bool()> worked = [&] {
        return b.count("last") > 0 && b.count("all-of-them") > 0 && c.figures().queue.ready == 0 &&
               c.figures().queue.processing == 0;
    };
    ok = co_await eventually(worked, 60s);
    CHECK(ok);
    // Perhaps twice: once before the pass through the sources reaches the object, and once for that.
    for (const int i : {0, steady / 2, steady - 1}) CHECK(b.count(numbered("stays-", i)) >= 1);
    CHECK(b.count(numbered("gone-", churned - 1)) >= 1); // the last leader may not have seen the latest deletions
    CHECK(b.count(numbered("gone-", 0)) == 0);
    c.stop();
    co_await b.end();
}

/// Without `for_` nothing tells which objects the keys belong to.
asio::awaitable<void> standby_without_a_resource() {
    const auto ex = co_await asio::this_coro::executor;
    bench b(ex);
    b.serve({});
    map_function of_the_same_name = [](const object& o) { return std::vector<object_key>{o.key()}; };
    controller c = b.build().watches(deployments, of_the_same_name, b.source()).build(b.noting());
    b.group.spawn(c.run_sources());
    std::size_t most = 0;
    int version = 100;
    const auto told = [&] {
        most = std::max(most, c.figures().queue.ready);
        return b.deployment_watch->pending() == 0;
    };
    b.deployment_watch->added(deployment("stays", ++version, "x"));
    for (int i = 0; i < churned; ++i) {
        const std::string name = numbered("gone-", i);
        b.deployment_watch->added(deployment(name.c_str(), ++version, "x"));
        b.deployment_watch->deleted(deployment(name.c_str(), ++version, "x"));
        if (i % 100 == 0) co_await settle();
        told();
    }
    const std::function<bool()> over = told;
    bool ok = co_await eventually(over, 60s);
    CHECK(ok);
    CHECK(most > 2 * 1024);
    CHECK(most <= 4096 + 1024);

    b.group.spawn(c.run_workers());
    const std::function<bool()> worked = [&] {
        return b.count("stays") > 0 && c.figures().queue.ready == 0 && c.figures().queue.processing == 0;
    };
    ok = co_await eventually(worked, 60s);
    CHECK(ok);
    CHECK(b.count(numbered("gone-", churned - 1)) >= 1);
    CHECK(b.count(numbered("gone-", 0)) == 0);
    c.stop();
    co_await b.end();
}

/// The mapping cannot read the first state of an object, but it can read the state that repairs the object.
asio::awaitable<void> unreadable_before() {
    const auto ex = co_await asio::this_coro::executor;
    bench b(ex);
    b.serve({});
    map_function strict = [](const object& o) {
        const text target = o.value().at_pointer("/metadata/annotations/target").string_or_empty();
        if (target == "?") throw std::invalid_argument("no target");
        return std::vector<object_key>{object_key("ns", target.str())};
    };
    controller c = b.of_foos().watches(deployments, strict, b.source()).build(b.noting());
    b.start(c);
    const auto at = [](const char* target, int version) {
        return R"({"apiVersion":"apps/v1","kind":"Deployment","metadata":{"namespace":"ns","name":"d","uid":"u","resourceVersion":")" +
               std::to_string(version) + R"(","annotations":{"target":")" + target + R"("}}})";
    };
    b.deployment_watch->added(at("?", 11));
    b.deployment_watch->modified(at("good", 12));
    const std::function<bool()> repaired = [&] { return b.count("good") == 1; };
    bool ok = co_await eventually(repaired);
    CHECK(ok);
    b.deployment_watch->modified(at("?", 13)); // the state before still leads to its key
    const std::function<bool()> broken = [&] { return b.count("good") == 2; };
    ok = co_await eventually(broken);
    CHECK(ok);
    CHECK(c.figures().source_errors == 3);
    co_await b.finish(c);
}

/// A reconciler that returns `terminal` for each failure that a retry does not cure does so for its cancellation, too.
asio::awaitable<void> cut_and_called_terminal() {
    const auto ex = co_await asio::this_coro::executor;
    bench b(ex);
    b.serve({foo("a", 1)});
    door d(ex);
    int begun = 0;
    reconciler f = [&](reconcile_request) -> asio::awaitable<reconcile_result> {
        co_await asio::this_coro::throw_if_cancelled(false);
        if (++begun > 1) co_return reconcile_result::done();
        co_await d.pass();
        co_return reconcile_result::terminal(failure(errc::cancelled, "read the other system"));
    };
    controller c = b.of_foos().build(f);
    b.group.spawn(c.run_sources());
    {
        task_group term(ex);
        term.spawn(c.run_workers());
        const std::function<bool()> works = [&] { return begun == 1; };
        const bool ok = co_await eventually(works);
        CHECK(ok);
        term.stop(); // the lease is lost
        co_await term.join();
    }
    CHECK(c.figures().terminal == 0);
    CHECK(c.figures().queue.ready == 1);
    b.group.spawn(c.run_workers());
    const std::function<bool()> again = [&] { return begun == 2; };
    const bool ok = co_await eventually(again);
    CHECK(ok);
    c.stop();
    co_await b.end();
}

/// Arguments live as long as the coroutine that was called with them, even if it takes them by reference.
asio::awaitable<void> by_reference() {
    const auto ex = co_await asio::this_coro::executor;
    bench b(ex);
    b.serve({foo("a-name-that-is-too-long-for-the-string-itself", 1)});
    std::string seen;
    // lint: law2 the controller keeps it
    trigger_source source = [](const controller_trigger& ask) -> asio::awaitable<void> {
        co_await settle(5);
        ask(object_key("ns", "pulled"));
    };
    // lint: law2 the controller keeps it
    reconciler f = [&seen](const reconcile_request& request) -> asio::awaitable<reconcile_result> {
        co_await settle(5);
        seen += request.key.name + " ";
        co_return reconcile_result::done();
    };
    controller c = b.of_foos().triggered_by("poll", source).build(f);
    b.start(c);
    const std::function<bool()> both = [&] { return c.figures().succeeded == 2; };
    const bool ok = co_await eventually(both);
    CHECK(ok);
    CHECK(seen.find("a-name-that-is-too-long-for-the-string-itself ") != std::string::npos);
    CHECK(seen.find("pulled ") != std::string::npos);
    co_await b.finish(c);
}

asio::awaitable<void> trigger_again() {
    const auto ex = co_await asio::this_coro::executor;
    bench b(ex);
    b.serve({});
    int called = 0;
    trigger_source source = [&called](controller_trigger ask) -> asio::awaitable<void> {
        if (++called < 3) throw std::runtime_error("the other system is away");
        ask(object_key("ns", "pulled"));
        co_return;
    };
    auto builder = b.build();
    controller c = builder.triggered_by("poll", source).build(b.noting());
    b.start(c);
    const std::function<bool()> first = [&] { return called == 1 && b.clock->waiters() != 0; };
    bool ok = co_await eventually(first);
    CHECK(ok);
    co_await settle();
    CHECK(called == 1); // not without a pause
    b.clock->advance(2s);
    const std::function<bool()> second = [&] { return called == 2; };
    ok = co_await eventually(second);
    CHECK(ok);
    co_await settle();
    b.clock->advance(4s);
    const std::function<bool()> pulled = [&] { return b.count("pulled") == 1; };
    ok = co_await eventually(pulled);
    CHECK(ok);
    b.clock->advance(1h);
    co_await settle();
    CHECK(called == 3); // it has returned
    CHECK(c.figures().source_errors == 2);
    CHECK(b.has_logged("trigger poll has ended: the other system is away (called again in "));
    co_await b.finish(c);
}

/// If a term ends before the sources were gone through, the next term goes through them.
asio::awaitable<void> two_short_terms() {
    const auto ex = co_await asio::this_coro::executor;
    bench b(ex);
    std::vector<std::string> staying;
    for (int i = 0; i < 300; ++i) staying.push_back(foo("stays-" + std::to_string(i), 1));
    b.serve(staying);
    std::size_t looked = 0;
    controller_builder builder = b.build();
    builder.for_(foos, b.source().when(predicate([&looked](const event& e) {
        looked += e.current.meta().name().str().starts_with("stays-");
        return true;
    })));
    controller c = builder.build(b.noting());
    b.group.spawn(c.run_sources());
    const std::function<bool()> warm = [&] { return c.has_synced() && c.figures().queue.ready == 300; };
    bool ok = co_await eventually(warm, 60s);
    CHECK(ok);
    int version = 100;
    for (int i = 0; i < 6000; ++i) {
        b.foo_watch->added(foo("gone-" + std::to_string(i), ++version));
        b.foo_watch->deleted(foo("gone-" + std::to_string(i), ++version));
        if (i % 100 == 0) co_await settle();
    }
    const std::function<bool()> told = [&] { return b.foo_watch->pending() == 0 && c.figures().queue.processing == 0; };
    ok = co_await eventually(told, 60s);
    CHECK(ok);
    co_await settle();
    CHECK(c.figures().queue.ready < 6000); // some keys have been forgotten
    {
        task_group term(ex);
        term.spawn(c.run_workers());
        co_await asio::post(ex, asio::use_awaitable);
        term.stop();
        co_await term.join();
    }
    looked = 0;
    b.group.spawn(c.run_workers());
    const std::function<bool()> again = [&] { return looked >= 300; };
    ok = co_await eventually(again, 10s);
    CHECK(ok);
    c.stop();
    co_await b.end();
}

asio::awaitable<void> standby() {
    const auto ex = co_await asio::this_coro::executor;
    bench b(ex);
    b.serve({foo("a", 1)});
    door d(ex);
    int begun = 0;
    reconciler f = [&](reconcile_request) -> asio::awaitable<reconcile_result> {
        if (++begun > 1) co_return reconcile_result::done();
        co_await d.pass();
        const bool asked = co_await detail::cancelled();
        if (asked) throw error(errc::cancelled, "reconcile");
        co_return reconcile_result::done();
    };
    controller c = b.of_foos().build(f);
    b.group.spawn(c.run_sources());
    const std::function<bool()> warm = [&] { return c.has_synced() && c.figures().queue.ready == 1; };
    bool ok = co_await eventually(warm);
    CHECK(ok);
    CHECK(begun == 0);
    {
        task_group term(ex);
        term.spawn(c.run_workers());
        const std::function<bool()> works = [&] { return begun == 1; };
        ok = co_await eventually(works);
        CHECK(ok);
        term.stop(); // the lease is lost
        co_await term.join();
    }
    CHECK(c.figures().failed == 0);
    CHECK(c.figures().queue.ready == 1); // asked for again
    b.group.spawn(c.run_workers());
    const std::function<bool()> again = [&] { return begun == 2; };
    ok = co_await eventually(again);
    CHECK(ok);
    c.stop();
    co_await b.group.join();
    co_await b.end();
}

} // namespace

TEST_CASE("the queue of a standby does not grow by churn; the next workers go through all sources again") {
    run_test(standby_of_many());
}
TEST_CASE("a standby's queue does not grow in a controller without for_ either") {
    run_test(standby_without_a_resource(), 120s);
}
TEST_CASE("a mapping that throws for one state loses no key of the other state") {
    run_test(unreadable_before());
}
TEST_CASE("a reconcile that is cut off is asked for again, even if it returns its cancellation as terminal") {
    run_test(cut_and_called_terminal());
}
TEST_CASE("a reconciler may take its request by reference, and a trigger source its controller_trigger") {
    run_test(by_reference());
}
TEST_CASE("a trigger that throws is called again after a pause, one that returns is not") {
    run_test(trigger_again());
}

TEST_CASE("sources that one term did not go through to the end are gone through in the next") {
    run_test(two_short_terms());
}
TEST_CASE("warm standby: sources without workers fill the queue; workers that lost their lease give their key back") {
    run_test(standby());
}
