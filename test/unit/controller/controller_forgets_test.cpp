// What a controller remembers of failures, and when it forgets them.
#include "controller_fixture.hpp"

#include <functional>
#include <stdexcept>

using namespace controller_test;

namespace {

/// A key that failed here and belongs to another replica now.
asio::awaitable<void> foreign_after_failures() {
    const auto ex = co_await asio::this_coro::executor;
    bench b(ex);
    b.serve({foo("a", 1)});
    bool mine = true;
    b.answers["a"] = {[] { return reconcile_result::error(failure(errc::bad_response, "broken")); }};
    controller c = b.of_foos()
                       .options(controller_options().only_keys([&mine](const object_key&) { return mine; }))
                       .build(b.noting());
    b.start(c);
    const std::function<bool()> failed = [&] { return c.attempts(object_key("ns", "a")) == 1; };
    bool ok = co_await eventually(failed);
    CHECK(ok);
    mine = false;
    b.clock->advance(1s);
    const std::function<bool()> dropped = [&] { return c.figures().foreign == 1; };
    ok = co_await eventually(dropped);
    CHECK(ok);
    CHECK(c.attempts(object_key("ns", "a")) == 0); // if the key comes back, it begins anew
    CHECK(c.figures().queue.known == 0);           // if it does not, it is not remembered for ever
    co_await b.finish(c);
}

/// A trigger that fails after it ran well for long is called again as soon as after its first failure.
asio::awaitable<void> trigger_after_health() {
    const auto ex = co_await asio::this_coro::executor;
    bench b(ex);
    b.serve({});
    int called = 0;
    trigger_source source = [&](controller_trigger) -> asio::awaitable<void> {
        if (++called == 8) co_await b.clock->sleep_for(1h);
        if (called == 9) co_return;
        throw std::runtime_error("the other system is away");
    };
    auto builder = b.build();
    controller c = builder.triggered_by("poll", source).build(b.noting());
    b.start(c);
    for (int n = 1; n <= 7; ++n) {
        const std::function<bool()> again = [&, n] { return called == n; };
        const bool ok = co_await eventually(again);
        CHECK(ok);
        co_await settle();
        b.clock->advance(1min);
    }
    const std::function<bool()> well = [&] { return called == 8; };
    bool ok = co_await eventually(well);
    CHECK(ok);
    co_await settle();
    b.clock->advance(1h);
    co_await settle();
    b.clock->advance(2s); // 0.8 s, drawn up to twice as long
    const std::function<bool()> soon = [&] { return called == 9; };
    ok = co_await eventually(soon);
    CHECK(ok);
    co_await b.finish(c);
}

asio::awaitable<void> requeue_after_forgets() {
    const auto ex = co_await asio::this_coro::executor;
    bench b(ex);
    b.serve({foo("a", 1)});
    b.answers["a"] = {[] { return reconcile_result::error(failure(errc::bad_response, "broken")); },
                      [] { return reconcile_result::requeue_after(1h); }};
    controller c = b.of_foos().build(b.noting());
    b.start(c);
    const std::function<bool()> failed = [&] { return c.attempts(object_key("ns", "a")) == 1; };
    bool ok = co_await eventually(failed);
    CHECK(ok);
    b.clock->advance(1s);
    const std::function<bool()> waits = [&] { return b.count("a") == 2 && c.figures().queue.delayed == 1; };
    ok = co_await eventually(waits);
    CHECK(ok);
    CHECK(c.attempts(object_key("ns", "a")) == 0);
    co_await b.finish(c);
}
asio::awaitable<void> stop_beside_a_key() {
    const auto ex = co_await asio::this_coro::executor;
    bench b(ex);
    b.serve({});
    controller c = b.of_foos().build(b.noting());
    b.start(c);
    const std::function<bool()> synced = [&] { return c.has_synced(); };
    const bool ok = co_await eventually(synced);
    CHECK(ok);
    co_await settle(); // the worker waits for a key
    c.enqueue(object_key("ns", "late"));
    c.stop(); // before the worker ran
    co_await settle();
    CHECK(b.count("late") == 0);
    co_await b.finish(c);
}

} // namespace

TEST_CASE("the failures of a key are forgotten when it is dropped as another replica's") {
    run_test(foreign_after_failures());
}
TEST_CASE("a trigger that ran well for long is called again soon when it fails") {
    run_test(trigger_after_health());
}
TEST_CASE("requeue_after forgets the failures before it") {
    run_test(requeue_after_forgets());
}
TEST_CASE("no reconcile begins after a stop, even if a worker has already been handed its key") {
    run_test(stop_beside_a_key());
}
