// Edge cases of what users give a controller: functions that throw, infinite time-outs, resources that are polled; and
// what a controller leaves behind.
#include "controller_fixture.hpp"
#include "slow_steps.hpp"

#include <algorithm>
#include <stdexcept>

using namespace controller_test;

namespace {

/// User code may throw anything, also what is not a std::exception.
asio::awaitable<void> odd_exceptions() {
    const auto ex = co_await asio::this_coro::executor;
    bench b(ex);
    b.serve({});
    predicate odd([](const event& e) -> bool {
        if (e.key().name == "p") throw 1;
        return true;
    });
    map_function map = [](const object& o) -> std::vector<object_key> {
        if (o.name() == "m") throw 2;
        return {o.key()};
    };
    trigger_source source = [](controller_trigger) -> asio::awaitable<void> {
        throw 3;
        co_return;
    };
    int refused = 0;
    const auto picky = [&refused](const object_key& k) -> bool {
        if (k.name != "k") return true;
        if (++refused == 1) throw std::runtime_error("no idea whose that is");
        if (refused == 2) throw 4;
        return true;
    };
    controller c = b.of_foos()
                       .watches(deployments, map, b.source().when(odd))
                       .triggered_by("poll", source)
                       .options(controller_options().only_keys(picky))
                       .build(b.noting());
    b.start(c);
    for (const char* name : {"p", "m", "k", "last"}) b.deployment_watch->added(deployment(name, 11, "x"));
    const std::function<bool()> last = [&] { return b.count("last") == 1; };
    bool ok = co_await eventually(last);
    CHECK(ok);
    CHECK(b.count("p") == 1); // a predicate that throws lets the event through
    CHECK(b.count("m") == 0);
    CHECK(c.figures().source_errors == 3);
    CHECK(b.has_logged("trigger poll has ended"));
    CHECK(b.has_logged("no idea whose that is"));
    b.clock->advance(1s);
    const std::function<bool()> again = [&] { return refused == 2; };
    ok = co_await eventually(again);
    CHECK(ok);
    CHECK(b.count("k") == 0);
    b.clock->advance(1s);
    const std::function<bool()> in_the_end = [&] { return b.count("k") == 1; };
    ok = co_await eventually(in_the_end);
    CHECK(ok);
    CHECK(c.figures().panics == 2);
    co_await b.finish(c);
}

asio::awaitable<void> for_ever() {
    const auto ex = co_await asio::this_coro::executor;
    bench b(ex);
    door d(ex);
    int finished = 0;
    reconciler f = [&](reconcile_request) -> asio::awaitable<reconcile_result> {
        const bool passed = co_await d.pass();
        if (passed) ++finished;
        co_return reconcile_result::done();
    };
    const auto ever = std::chrono::nanoseconds::max();
    controller c = b.of_foos()
                       .options(controller_options().sync_timeout(ever).reconcile_timeout(ever).shutdown_timeout(ever))
                       .build(f);
    b.start(c);
    co_await settle(100);
    CHECK_FALSE(*b.ended);
    b.serve({foo("a", 1)});
    const std::function<bool()> begun = [&] { return c.figures().active == 1; };
    bool ok = co_await eventually(begun);
    CHECK(ok);
    c.stop();
    co_await settle(100);
    CHECK_FALSE(*b.ended);
    d.open();
    const std::function<bool()> over = [&] { return *b.ended; };
    ok = co_await eventually(over);
    CHECK(ok);
    CHECK(finished == 1);
    CHECK(c.figures().succeeded == 1);
    co_await b.end();
}

asio::awaitable<void> cut_off() {
    const auto ex = co_await asio::this_coro::executor;
    bench b(ex);
    b.serve({foo("a", 1)});
    door d(ex);
    int begun = 0;
    reconciler f = [&](reconcile_request) -> asio::awaitable<reconcile_result> {
        co_await asio::this_coro::throw_if_cancelled(false);
        if (++begun == 1) co_await d.pass();
        co_return reconcile_result::done();
    };
    controller c = b.of_foos().options(controller_options().reconcile_timeout(10s)).build(f);
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
    CHECK(c.figures().timeouts == 0);
    CHECK(c.figures().failed == 0);
    CHECK(c.figures().queue.ready == 1); // queued again at once
    CHECK(c.attempts(object_key("ns", "a")) == 0);
    b.group.spawn(c.run_workers());
    const std::function<bool()> again = [&] { return begun == 2; };
    const bool ok = co_await eventually(again);
    CHECK(ok);
    c.stop();
    co_await b.group.join();
    co_await b.end();
}

/// The sources run before their replica leads; meanwhile their informer ends.
asio::awaitable<void> broken_standby() {
    const auto ex = co_await asio::this_coro::executor;
    bench b(ex);
    b.serve({foo("a", 1)});
    controller c = b.of_foos().build(b.noting());
    const auto sources_ended = std::make_shared<bool>(false), workers_ended = std::make_shared<bool>(false);
    const auto why_sources = std::make_shared<std::string>(), why_workers = std::make_shared<std::string>();
    b.group.spawn(bench::keep_error(c.run_sources(), why_sources, sources_ended));
    const std::function<bool()> synced = [&] { return c.has_synced(); };
    bool ok = co_await eventually(synced);
    CHECK(ok);
    co_await b.factory.shutdown();
    const std::function<bool()> broken = [&] { return *sources_ended; };
    ok = co_await eventually(broken);
    CHECK(ok);
    b.group.spawn(bench::keep_error(c.run_workers(), why_workers, workers_ended));
    const std::function<bool()> over = [&] { return *workers_ended; };
    ok = co_await eventually(over);
    CHECK(ok);
    const std::string what = "the informer of foos.samplecontroller.k8s.io has ended";
    CHECK(why_sources->find(what) != std::string::npos);
    // an error, so that an election does not take it for finished work
    CHECK(why_workers->find(what) != std::string::npos);
    CHECK(b.seen.empty());
    co_await b.end();
}

asio::awaitable<void> own_exceptions() {
    const auto ex = co_await asio::this_coro::executor;
    bench b(ex);
    b.serve({foo("a", 1), foo("b", 2)});
    b.answers["a"] = {[]() -> reconcile_result { throw std::runtime_error("a bug"); }};
    b.answers["b"] = {[]() -> reconcile_result {
        throw boost::system::system_error(make_error_code(boost::system::errc::no_such_file_or_directory),
                                          "open /etc/x");
    }};
    controller c = b.of_foos().build(b.noting());
    b.start(c);
    const std::function<bool()> both = [&] { return c.figures().failed + c.figures().panics >= 2; };
    const bool ok = co_await eventually(both);
    CHECK(ok);
    CHECK(b.has_logged("ns/a: exception: a bug: callback failed"));
    CHECK(b.has_logged("ns/b: open /etc/x: No such file or directory"));
    CHECK_FALSE(b.has_logged("bad response"));
    co_await b.finish(c);
}

asio::awaitable<void> failures_that_alternate() {
    const auto ex = co_await asio::this_coro::executor;
    bench b(ex);
    b.serve({});
    int events = 0;
    predicate odd([&events](const event& e) -> bool {
        throw std::runtime_error(e.key().name.substr(0, 1) == "n" ? "no. " + std::to_string(++events)
                                                                  : "no. " + e.key().name);
    });
    controller c = b.of_foos().watches(deployments, mapping::to_self(), b.source().when(odd)).build(b.noting());
    b.start(c);
    const auto lines = [&b] {
        return std::count_if(b.logged->begin(), b.logged->end(),
                             [](const auto& line) { return line.find("predicate failed") != std::string::npos; });
    };
    int version = 10;
    for (int i = 0; i < 10; ++i)
        for (const char* name : {"a", "b"}) b.deployment_watch->modified(deployment(name, ++version, "x"));
    const std::function<bool()> ten = [&] { return c.figures().source_errors == 20; };
    bool ok = co_await eventually(ten);
    CHECK(ok);
    CHECK(lines() == 2);
    for (int i = 0; i < 50; ++i) b.deployment_watch->modified(deployment("n", ++version, "x"));
    const std::function<bool()> all = [&] { return c.figures().source_errors == 70; };
    ok = co_await eventually(all);
    CHECK(ok);
    CHECK(lines() == 16); // the limit, however many kinds there are
    co_await b.finish(c);
}

/// `apart`: sources and workers run separately, as in a program that stands for election.
asio::awaitable<void> stopped_too_early(bool apart) {
    const auto ex = co_await asio::this_coro::executor;
    bench b(ex);
    b.serve({foo("a", 1)});
    bool triggered = false;
    trigger_source t = [&](controller_trigger) -> asio::awaitable<void> {
        triggered = true;
        co_return;
    };
    controller c = b.of_foos().triggered_by("news", t).options(controller_options().sync_timeout(0s)).build(b.noting());
    auto workers_ended = std::make_shared<bool>(!apart);
    if (apart) {
        b.group.spawn(bench::keep_error(c.run_workers(), b.error_of_run, workers_ended));
        b.group.spawn(bench::keep_error(c.run_sources(), b.error_of_run, b.ended));
    } else {
        b.start(c);
    }
    c.stop(); // before any of them has begun
    const std::function<bool()> over = [&] { return *b.ended && *workers_ended; };
    const bool ok = co_await eventually(over);
    CHECK(ok);
    CHECK(b.error_of_run->empty());
    CHECK_FALSE(triggered);
    CHECK(b.seen.empty());
    co_await b.end();
}

/// Much work at once: the initial state of a late subscriber, and keys that are ready without a wait.
asio::awaitable<void> turns() {
    const auto ex = co_await asio::this_coro::executor;
    bench b(ex);
    std::vector<std::string> many;
    for (int i = 0; i < 300; ++i) many.push_back(foo("f" + std::to_string(i), i + 1));
    b.serve(many);
    controller first = b.of_foos().build(b.noting());
    b.start(first);
    const std::function<bool()> done = [&] { return b.seen.size() == many.size(); };
    bool ok = co_await eventually(done);
    CHECK(ok);

    const slow_steps events(ex), keys(ex);
    const predicate slow([events](const event&) {
        events();
        return true;
    });
    const auto none = [keys](const object_key&) {
        keys();
        return false;
    };
    controller late =
        b.build().for_(foos, b.source().when(slow)).options(controller_options().only_keys(none)).build(b.noting());
    const auto over = std::make_shared<bool>(false);
    b.group.spawn(bench::keep_error(late.run(), b.error_of_run, over));
    const std::function<bool()> refused = [&] { return late.figures().foreign == many.size(); };
    ok = co_await eventually(refused);
    CHECK(ok);
    CHECK(events.most() <= 32);
    CHECK(keys.most() <= 32);

    // A controller may be stopped in the middle of its initial state.
    controller again = b.build().for_(foos, b.source().when(slow)).build(b.noting());
    const auto ended = std::make_shared<bool>(false);
    const auto before = b.seen.size();
    b.group.spawn(bench::keep_error(again.run(), b.error_of_run, ended));
    const std::function<bool()> begun = [&] { return again.figures().queue.ready > 0; };
    ok = co_await eventually(begun);
    CHECK(ok);
    CHECK_FALSE(again.has_synced());
    again.stop();
    late.stop();
    const std::function<bool()> both = [&] { return *over && *ended; };
    ok = co_await eventually(both);
    CHECK(ok);
    CHECK(b.seen.size() == before);
    co_await b.finish(first);
    CHECK(b.error_of_run->empty());
}

/// The server has no watch for the resource (405), and its lists have no version.
asio::awaitable<void> polled() {
    const auto ex = co_await asio::this_coro::executor;
    bench b(ex);
    api_status no;
    no.code = 405;
    const auto poll = [&](std::vector<std::string> items) {
        b.foo_source->on_list(list_script().items(std::move(items)));
        b.foo_source->on_watch_fail(failure(no, "watch foos"));
    };
    poll({foo("a", 1), foo("b", 2)});
    controller c = b.of_foos().build(b.noting());
    b.start(c);
    const std::function<bool()> both = [&] { return b.count("a") == 1 && b.count("b") == 1; };
    bool ok = co_await eventually(both);
    CHECK(ok);
    poll({foo("a", 3), foo("b", 2), foo("c", 4)});
    b.clock->advance(2s);
    const std::function<bool()> changed = [&] { return b.count("a") == 2 && b.count("c") == 1; };
    ok = co_await eventually(changed);
    CHECK(ok);
    poll({foo("a", 3), foo("c", 4)});
    b.clock->advance(4s);
    const std::function<bool()> gone = [&] { return b.count("b") == 2; };
    ok = co_await eventually(gone);
    CHECK(ok);
    CHECK(b.seen.size() == 5);
    CHECK(c.not_ready().empty());
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

TEST_CASE("a controller that is stopped before it has begun ends at once") {
    run_test(stopped_too_early(false));
    run_test(stopped_too_early(true));
}
TEST_CASE("whatever predicates, mappings, triggers and only_keys throw, the controller goes on") {
    run_test(odd_exceptions());
}

TEST_CASE("infinite time-outs never expire") {
    run_test(for_ever());
}
TEST_CASE("a reconcile that is cut off by the end of its workers does not count as timed out") {
    run_test(cut_off());
}
TEST_CASE("workers whose sources have failed report that error, and do not end as if all were done") {
    run_test(broken_standby());
}
TEST_CASE("an exception of a reconciler is logged as its own error, with its own text") {
    run_test(own_exceptions());
}
TEST_CASE("failures of a source's functions are logged once per kind, and for a limited number of kinds") {
    run_test(failures_that_alternate());
}
TEST_CASE("a controller with much to do lets other work have its turn") {
    run_test(turns());
}
TEST_CASE("a controller of a resource that can only be listed sees each change once") {
    run_test(polled());
}
TEST_CASE("a key that is given up for good leaves nothing behind") {
    run_test(given_up());
}
TEST_CASE("the ageing of a controller's queue is an option") {
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
