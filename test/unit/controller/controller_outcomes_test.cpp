// What becomes of a reconcile: its outcome, its time-out, and which key comes next.
#include "controller_fixture.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <vector>

using namespace controller_test;

namespace {

asio::awaitable<void> outcomes() {
    const auto ex = co_await asio::this_coro::executor;
    bench b(ex);
    b.serve({});
    const failure broken(errc::conflict, "update foo");
    b.answers["error"] = {[&] { return reconcile_result::error(broken); },
                          [&]() -> reconcile_result { throw error(broken); }};
    b.answers["after"] = {[] { return reconcile_result::requeue_after(1h); }};
    b.answers["again"] = {[] { return reconcile_result::requeue(); }};
    b.answers["never"] = {[&] { return reconcile_result::terminal(broken); }};
    b.answers["panic"] = {[]() -> reconcile_result { throw std::runtime_error("a bug"); },
                          []() -> reconcile_result { throw 42; }};
    controller c = b.of_foos().build(b.noting());
    b.start(c);
    for (const char* name : {"error", "after", "again", "never", "panic"}) c.enqueue(object_key("ns", name));
    const std::function<bool()> first = [&] { return b.seen.size() == 5; };
    bool ok = co_await eventually(first);
    CHECK(ok);
    co_await settle();
    CHECK(c.attempts(object_key("ns", "error")) == 1);
    CHECK(c.attempts(object_key("ns", "never")) == 0);
    CHECK(c.attempts(object_key("ns", "after")) == 0);
    CHECK(b.has_logged("ns/error: update foo"));
    CHECK(b.has_logged("ns/never: update foo"));
    CHECK(b.has_logged("a bug"));
    // 5 ms, then 10 ms (client-go's constants).
    b.clock->advance(5ms);
    const std::function<bool()> second = [&] {
        return b.count("error") == 2 && b.count("again") == 2 && b.count("panic") == 2;
    };
    ok = co_await eventually(second);
    CHECK(ok);
    co_await settle();
    CHECK(c.attempts(object_key("ns", "error")) == 2);
    b.clock->advance(9ms);
    co_await settle();
    CHECK(b.count("error") == 2);
    b.clock->advance(1ms);
    const std::function<bool()> third = [&] { return b.count("error") == 3 && b.count("panic") == 3; };
    ok = co_await eventually(third);
    CHECK(ok);
    CHECK(*std::max_element(b.attempts.begin(), b.attempts.end()) == 2);
    co_await settle();
    CHECK(c.attempts(object_key("ns", "error")) == 0); // it succeeded
    CHECK(b.count("after") == 1);
    b.clock->advance(1h);
    const std::function<bool()> hour = [&] { return b.count("after") == 2; };
    ok = co_await eventually(hour);
    CHECK(ok);
    CHECK(b.count("never") == 1);
    const auto f = c.figures();
    CHECK(f.failed == 5); // error twice, panic twice, terminal
    CHECK(f.terminal == 1);
    CHECK(f.panics == 2);
    CHECK(f.requeued == 1);
    co_await b.finish(c);
}

asio::awaitable<void> time_outs() {
    const auto ex = co_await asio::this_coro::executor;
    bench b(ex);
    b.serve({foo("a", 1)});
    int calls = 0, cut = 0;
    const auto clock = b.clock;
    reconciler f = [&](reconcile_request) -> asio::awaitable<reconcile_result> {
        if (++calls > 1) co_return reconcile_result::done();
        const bool slept = co_await clock->sleep_for(24h);
        if (!slept) ++cut;
        co_return reconcile_result::done();
    };
    controller c = b.of_foos().options(controller_options().reconcile_timeout(10s)).build(f);
    b.start(c);
    const std::function<bool()> begun = [&] { return calls == 1 && b.clock->waiters() >= 2; };
    bool ok = co_await eventually(begun);
    CHECK(ok);
    b.clock->advance(10s);
    const std::function<bool()> ended = [&] { return c.figures().timeouts == 1; };
    ok = co_await eventually(ended);
    CHECK(ok);
    CHECK(cut == 1);
    b.clock->advance(1s);
    const std::function<bool()> again = [&] { return calls == 2; };
    ok = co_await eventually(again);
    CHECK(ok);
    co_await b.finish(c);
}

asio::awaitable<void> fresh_first() {
    const auto ex = co_await asio::this_coro::executor;
    bench b(ex);
    std::vector<std::string> initial;
    for (int i = 0; i < 10; ++i) initial.push_back(foo("old-" + std::to_string(i), i + 1));
    b.serve(initial);
    door d(ex);
    std::vector<std::string> seen;
    std::vector<int> priorities;
    reconciler f = [&](reconcile_request q) -> asio::awaitable<reconcile_result> {
        seen.push_back(q.key.name);
        priorities.push_back(q.priority);
        if (seen.size() == 1) co_await d.pass();
        co_return reconcile_result::done();
    };
    controller c = b.of_foos().build(f);
    b.start(c);
    const std::function<bool()> begun = [&] { return seen.size() == 1; };
    bool ok = co_await eventually(begun);
    CHECK(ok);
    b.foo_watch->added(foo("fresh", 20));
    const std::string changed = seen[0] == "old-9" ? "old-8" : "old-9"; // the order of a snapshot is unspecified
    b.foo_watch->modified(foo(changed, 21));
    const std::function<bool()> came = [&] { return c.figures().queue.ready == 10; };
    ok = co_await eventually(came);
    CHECK(ok);
    co_await settle();
    d.open();
    const std::function<bool()> all = [&] { return seen.size() == 11; };
    ok = co_await eventually(all);
    CHECK(ok);
    CHECK(seen[1] == "fresh");
    CHECK(seen[2] == changed);
    CHECK(priorities[0] == low_priority);
    CHECK(priorities[1] == 0);
    co_await b.finish(c);
}

asio::awaitable<void> fair(bool on) {
    const auto ex = co_await asio::this_coro::executor;
    bench b(ex);
    b.serve({});
    controller c = b.build().for_(foos, b.source()).options(controller_options().fair_namespaces(on)).build(b.noting());
    for (const char* name : {"noisy-1", "noisy-2", "noisy-3"}) c.enqueue(object_key("noisy", name));
    c.enqueue(object_key("quiet", "quiet"));
    b.start(c);
    const std::function<bool()> all = [&] { return b.seen.size() == 4; };
    const bool ok = co_await eventually(all);
    CHECK(ok);
    CHECK(b.seen[on ? 1 : 3] == "quiet");
    co_await b.finish(c);
}

} // namespace

TEST_CASE("outcomes: error and requeue back off, requeue_after waits, terminal waits for a change, exceptions are "
          "contained") {
    run_test(outcomes());
}
TEST_CASE("a reconcile that takes too long is cancelled, counted and tried again") {
    run_test(time_outs());
}
TEST_CASE("a fresh change is handled before the rest of the initial state") {
    run_test(fresh_first());
}
TEST_CASE("with fair_namespaces a noisy namespace does not hold up the others") {
    run_test(fair(true));
    run_test(fair(false));
}
