// What each of a controller's sources leads to: which keys, at what priority, and what a controller says of a source it has lost.
#include "controller_fixture.hpp"

#include "support/recording_sink.hpp"

#include <algorithm>
#include <set>
#include <stdexcept>

using namespace controller_test;

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

failure refused(int code, const std::string& reason) {
    api_status s;
    s.code = code;
    s.reason = reason;
    return failure(std::move(s), "test");
}

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
    for (int i = 0; i < 3; ++i) { // it is asked a few times before it is believed
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

asio::awaitable<void> given_up() {
    const auto ex = co_await asio::this_coro::executor;
    bench b(ex);
    b.serve({foo("a", 1)});
    const auto fails = [] { return reconcile_result::error(failure(errc::conflict, "test")); };
    b.answers["a"] = {fails, fails, [] { return reconcile_result::terminal(failure(errc::invalid, "test")); }};
    controller c = b.of_foos().build(b.noting());
    b.start(c);
    const std::function<bool()> tried = [&] {
        b.clock->advance(1s);
        return b.count("a") == 3 && c.figures().active == 0;
    };
    const bool ok = co_await eventually(tried);
    CHECK(ok);
    CHECK(b.attempts == std::vector<std::uint32_t>{0, 1, 2});
    CHECK(c.attempts(object_key("ns", "a")) == 0);
    CHECK(c.figures().queue.known == 0);
    co_await b.finish(c);
}

asio::awaitable<void> timed() {
    const auto ex = co_await asio::this_coro::executor;
    bench b(ex);
    const auto sink = std::make_shared<informer::testing::recording_sink>();
    b.rt.with_metrics(sink);
    b.serve({foo("a", 1)});
    reconciler f = [&](reconcile_request) -> asio::awaitable<reconcile_result> {
        b.seen.push_back("a");
        if (b.seen.size() == 1) co_await b.clock->sleep_for(1h);
        b.clock->advance(3s);
        co_return reconcile_result::done();
    };
    controller c = b.of_foos().options(controller_options().reconcile_timeout(10s)).build(f);
    b.start(c);
    const std::function<bool()> waits = [&] { return b.seen.size() == 1; };
    bool ok = co_await eventually(waits);
    CHECK(ok);
    b.clock->advance(10s);
    const std::function<bool()> late = [&] { return c.figures().timeouts == 1; };
    ok = co_await eventually(late);
    CHECK(ok);
    const std::function<bool()> again = [&] {
        b.clock->advance(1s);
        return c.figures().succeeded == 1;
    };
    ok = co_await eventually(again);
    CHECK(ok);
    CHECK(sink->counters["controller_runtime_reconcile_timeouts_total controller=foos"] == 1);
    const auto& took = sink->samples["controller_runtime_reconcile_time_seconds controller=foos"];
    REQUIRE(took.size() == 2);
    CHECK(took[0] >= 10);
    CHECK(took[1] >= 3);
    CHECK(b.has_logged("reconcile: cancelled after 10 s"));
    co_await b.finish(c);
}

asio::awaitable<void> aged(std::uint32_t share) {
    const auto ex = co_await asio::this_coro::executor;
    bench b(ex);
    b.serve({});
    controller c = b.of_foos().options(controller_options().ageing(share)).build(b.noting());
    c.enqueue(object_key("ns", "low"), low_priority);
    for (int i = 0; i < 40; ++i) c.enqueue(object_key("ns", "k" + std::to_string(i)));
    b.start(c);
    const std::function<bool()> all = [&] { return b.seen.size() == 41; };
    const bool ok = co_await eventually(all);
    CHECK(ok);
    CHECK((b.seen.back() == "low") == (share == 0));
    co_await b.finish(c);
}

} // namespace

TEST_CASE("a resync repeats every object of its source at low priority") {
    run_test(resyncs());
}
TEST_CASE("keys enter at the priority of their source, those of its initial state no higher than low") {
    run_test(priorities());
}
TEST_CASE("a source of one namespace reconciles no other, though its informer has all of them") {
    run_test(one_namespace_of_a_wider_cache());
}
TEST_CASE("owns: all owners are told where any of them is asked for") {
    run_test(any_owner());
}
TEST_CASE("a controller whose source may not be read any more is not ready, though it has synced") {
    run_test(lost_after_the_sync());
}
TEST_CASE("a key that is given up for good leaves nothing behind") {
    run_test(given_up());
}
TEST_CASE("a reconcile that took too long is counted, and the time of each is told") {
    run_test(timed());
}
TEST_CASE("the ageing of its queue is the controller's to choose") {
    run_test(aged(0));
    run_test(aged(4));
}
TEST_CASE("a controller's limits are the documented ones unless others are given") {
    const controller_options o;
    CHECK(o.workers_ == 1);
    CHECK(o.reconcile_timeout_ == 0s);
    CHECK(o.sync_timeout_ == 2min);
    CHECK(o.shutdown_timeout_ == 30s);
    CHECK(o.ageing_ == 16);
}
