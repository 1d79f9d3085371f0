// The controller's promises, one test each.
#include "controller_fixture.hpp"

#include <algorithm>
#include <stdexcept>

using namespace controller_test;

namespace {

asio::awaitable<void> from_event_to_reconcile() {
    const auto ex = co_await asio::this_coro::executor;
    bench b(ex);
    b.serve({foo("a", 1)});
    controller c = b.of_foos().owns(deployments, b.source()).build(b.noting());
    b.start(c);
    const std::function<bool()> first = [&] { return b.count("a") == 1; };
    bool ok = co_await eventually(first);
    CHECK(ok);
    CHECK(c.has_synced());
    CHECK(c.not_ready().empty());
    b.foo_watch->added(foo("b", 11));
    const std::function<bool()> second = [&] { return b.count("b") == 1; };
    ok = co_await eventually(second);
    CHECK(ok);
    // A Deployment leads to its owner. A change of the owner concerns both owners; a deletion leads to the owner, too.
    b.deployment_watch->added(deployment("d", 12, "x"));
    const std::function<bool()> third = [&] { return b.count("x") == 1; };
    ok = co_await eventually(third);
    CHECK(ok);
    b.deployment_watch->modified(deployment("d", 13, "y"));
    const std::function<bool()> both = [&] { return b.count("x") == 2 && b.count("y") == 1; };
    ok = co_await eventually(both);
    CHECK(ok);
    b.deployment_watch->deleted(deployment("d", 14, "y"));
    const std::function<bool()> gone = [&] { return b.count("y") == 2; };
    ok = co_await eventually(gone);
    CHECK(ok);
    b.deployment_watch->added(deployment("e", 15, "z", false)); // not the controlling owner
    b.deployment_watch->added(deployment("f", 16, "w", true, "samplecontroller.k8s.io/v2"));
    const std::function<bool()> last = [&] { return b.count("w") == 1; };
    ok = co_await eventually(last);
    CHECK(ok);
    CHECK(b.count("z") == 0);
    CHECK(c.figures().succeeded == b.seen.size());
    co_await b.finish(c);
    CHECK(b.error_of_run->empty());
}

asio::awaitable<void> one_for_a_burst() {
    const auto ex = co_await asio::this_coro::executor;
    bench b(ex);
    b.serve({foo("a", 1)});
    controller c = b.of_foos().build(b.noting());
    b.start(c);
    const std::function<bool()> first = [&] { return b.count("a") == 1; };
    bool ok = co_await eventually(first);
    CHECK(ok);
    for (int burst = 0; burst < 10; ++burst) {
        for (int i = 0; i < 5; ++i) c.enqueue(object_key("default", "a"), i);
        const std::string other = "b" + std::to_string(burst);
        c.enqueue(object_key("default", other), -1); // is handed out behind it
        const std::function<bool()> last = [&] { return b.count(other) == 1; };
        ok = co_await eventually(last);
        CHECK(ok);
        CHECK(b.count("a") == static_cast<std::size_t>(2 + burst));
    }
    co_await b.finish(c);
}

asio::awaitable<void> after_the_sync() {
    const auto ex = co_await asio::this_coro::executor;
    bench b(ex);
    b.foo_source->on_list(list_script().item(foo("a", 1)).version("10"));
    b.foo_watch = b.foo_source->on_watch();
    b.foo_watch->open();
    controller c = b.of_foos().owns(deployments, b.source()).build(b.noting());
    b.start(c);
    const std::function<bool()> waiting = [&] { return c.figures().queue.ready == 1; };
    bool ok = co_await eventually(waiting);
    CHECK(ok);
    co_await settle(100);
    CHECK(b.seen.empty()); // the Deployments are not listed yet
    CHECK(c.not_ready().find("deployments.apps") != std::string::npos);
    b.deployment_source->on_list(list_script().version("10"));
    b.deployment_watch = b.deployment_source->on_watch();
    b.deployment_watch->open();
    const std::function<bool()> done = [&] { return b.count("a") == 1; };
    ok = co_await eventually(done);
    CHECK(ok);
    co_await b.finish(c);
}

asio::awaitable<void> one_at_a_time() {
    const auto ex = co_await asio::this_coro::executor;
    bench b(ex);
    b.serve({foo("a", 1), foo("b", 2), foo("c", 3)});
    door d(ex);
    int of_a = 0, most_of_a = 0, beside_a = 0;
    std::vector<std::string> seen;
    bool wait = true;
    reconciler f = [&](reconcile_request q) -> asio::awaitable<reconcile_result> {
        seen.push_back(q.key.name);
        const bool is_a = q.key.name == "a";
        if (is_a) most_of_a = std::max(most_of_a, ++of_a);
        if (!is_a && of_a > 0) ++beside_a;
        if (is_a && wait) co_await d.pass();
        if (is_a) --of_a;
        co_return reconcile_result::done();
    };
    controller c = b.of_foos().options(controller_options().workers(3)).build(f);
    b.start(c);
    const std::function<bool()> all = [&] { return seen.size() == 3; };
    bool ok = co_await eventually(all);
    CHECK(ok);
    c.enqueue(object_key("ns", "a")); // it is being reconciled
    c.enqueue(object_key("ns", "a"));
    co_await settle(100);
    CHECK(seen.size() == 3);
    wait = false;
    d.open();
    const std::function<bool()> again = [&] { return std::count(seen.begin(), seen.end(), "a") == 2; };
    ok = co_await eventually(again);
    CHECK(ok);
    co_await settle(100);
    CHECK(seen.size() == 4); // once more, not twice
    CHECK(most_of_a == 1);
    CHECK(beside_a == 2); // other keys go on meanwhile
    co_await b.finish(c);
}

asio::awaitable<void> filtered() {
    const auto ex = co_await asio::this_coro::executor;
    bench b(ex);
    b.serve({foo("a", 1, R"(,"generation":1)")});
    int asked = 0;
    predicate odd([&](const event&) -> bool {
        ++asked;
        throw std::runtime_error("odd predicate");
    });
    controller c = b.build()
                       .for_(foos, b.source().when(predicates::generation_changed()))
                       .watches(deployments, mapping::to_self(), b.source().when(odd))
                       .options(controller_options().only_keys([](const object_key& k) { return k.name != "foreign"; }))
                       .build(b.noting());
    b.start(c);
    const std::function<bool()> first = [&] { return b.count("a") == 1; };
    bool ok = co_await eventually(first);
    CHECK(ok);
    b.foo_watch->modified(foo("a", 11, R"(,"generation":1)")); // only its status changed
    b.foo_watch->modified(foo("a", 12, R"(,"generation":2)"));
    const std::function<bool()> second = [&] { return b.count("a") == 2; };
    ok = co_await eventually(second);
    CHECK(ok);
    // A predicate that throws lets its event through, and is logged once.
    b.deployment_watch->added(deployment("d", 12, "x"));
    b.deployment_watch->added(deployment("e", 13, "x"));
    const std::function<bool()> through = [&] { return b.count("d") == 1 && b.count("e") == 1; };
    ok = co_await eventually(through);
    CHECK(ok);
    CHECK(asked == 2);
    CHECK(c.figures().source_errors == 2);
    CHECK(std::count_if(b.logged->begin(), b.logged->end(),
                        [](const auto& l) { return l.find("odd predicate") != std::string::npos; }) == 1);
    c.enqueue(object_key("ns", "foreign"));
    c.enqueue(object_key("ns", "mine"));
    const std::function<bool()> mine = [&] { return b.count("mine") == 1; };
    ok = co_await eventually(mine);
    CHECK(ok);
    CHECK(b.count("foreign") == 0);
    CHECK(b.count("a") == 2);
    co_await b.finish(c);
}

asio::awaitable<void> triggers() {
    const auto ex = co_await asio::this_coro::executor;
    bench b(ex);
    b.serve({});
    trigger_source source = [](controller_trigger ask) -> asio::awaitable<void> {
        ask(object_key("ns", "pulled"));
        throw std::runtime_error("the other system is gone");
        co_return;
    };
    auto builder = b.build();
    builder.triggered_by("poll", source);
    controller_trigger later = [&] {
        controller c = builder.build(b.noting());
        b.start(c);
        return c.trigger();
    }();
    const std::function<bool()> pulled = [&] { return b.count("pulled") == 1; };
    bool ok = co_await eventually(pulled);
    CHECK(ok);
    CHECK(b.has_logged("the other system is gone"));
    CHECK_FALSE(*b.ended); // the controller goes on
    later.after(object_key("ns", "later"), 1min);
    co_await settle();
    CHECK(b.count("later") == 0);
    b.clock->advance(1min);
    const std::function<bool()> came = [&] { return b.count("later") == 1; };
    ok = co_await eventually(came);
    CHECK(ok);
    co_await b.end();
    later(object_key("ns", "too late")); // and nothing happens
}

asio::awaitable<void> bad_plans() {
    const auto ex = co_await asio::this_coro::executor;
    bench b(ex);
    b.serve({});
    const auto refused = [](auto&& build) {
        try {
            build();
        } catch (const error& e) {
            return e.code() == make_error_code(errc::bad_configuration);
        }
        return false;
    };
    CHECK(refused([&] { (void)b.build().build(b.noting()); }));
    CHECK(refused([&] { (void)b.build().owns(deployments, b.source()).build(b.noting()); }));
    CHECK(refused([&] { (void)b.of_foos().for_(deployments); }));
    CHECK(refused([&] { (void)b.of_foos().build(nullptr); }));
    CHECK(refused([&] { (void)b.of_foos().watches(deployments, nullptr); }));
    CHECK(refused([&] { (void)b.of_foos().options(controller_options().workers(0)).build(b.noting()); }));
    controller c = b.of_foos().build(b.noting());
    b.start(c);
    const std::function<bool()> synced = [&] { return c.has_synced(); };
    const bool ok = co_await eventually(synced);
    CHECK(ok);
    bool twice = false;
    try {
        co_await c.run();
    } catch (const error& e) {
        twice = e.code() == make_error_code(errc::already_running);
    }
    CHECK(twice);
    co_await b.finish(c);
}

} // namespace

TEST_CASE("for_ and owns: every change of an object, or of what it owns, leads to a reconcile of its key") {
    run_test(from_event_to_reconcile());
}
TEST_CASE("a burst of changes of one object leads to one reconcile, also of a controller that was idle") {
    run_test(one_for_a_burst());
}
TEST_CASE("no reconcile begins before every source has delivered its initial state") {
    run_test(after_the_sync());
}
TEST_CASE("a key is never reconciled twice at the same time; changes meanwhile lead to one more reconcile") {
    run_test(one_at_a_time());
}
TEST_CASE("predicates filter, a throwing one filters nothing; foreign keys are dropped") {
    run_test(filtered());
}
TEST_CASE("triggers ask for keys at any time; one that fails is logged, and the controller goes on") {
    run_test(triggers());
}
TEST_CASE("configurations that cannot work are refused") {
    run_test(bad_plans());
}
