// Controllers that are stopped, lose one of their coroutines or their source, are run twice, or leave the cancellation
// setting of their caller as it was.
#include "controller_fixture.hpp"

#include <informer/controller/event_recorder.hpp>
#include <informer/queue/rate_limiter.hpp>

#include <new>
#include <utility>

using namespace controller_test;

namespace {

class without_memory final : public rate_limiter {
public:
    duration delay(std::uint32_t, time_point) override {
        if (fails) throw std::bad_alloc();
        return 1ms;
    }
    bool fails = true;
};

/// A worker cannot go on when its limiter has no memory, and the key that it had must not be forgotten in silence.
asio::awaitable<void> lost_worker() {
    const auto ex = co_await asio::this_coro::executor;
    bench b(ex);
    b.serve({foo("a", 1)});
    b.answers["a"] = {[] { return reconcile_result::requeue(); }};
    controller c =
        b.of_foos().options(controller_options().limiter(std::make_shared<without_memory>())).build(b.noting());
    b.start(c);
    const std::function<bool()> over = [&] { return *b.ended; };
    const bool ok = co_await eventually(over);
    CHECK(ok);
    CHECK(b.error_of_run->find("bad_alloc") != std::string::npos);
    CHECK(b.has_logged("bad_alloc"));
    CHECK(c.not_ready().find("bad_alloc") != std::string::npos); // although its informer lives on
    co_await b.end();
}

/// A clock that throws once after `fails` was set.
class failing_clock final : public informer::clock {
public:
    explicit failing_clock(std::shared_ptr<informer::clock> c) : real_(std::move(c)) {}
    time_point now() const override {
        if (std::exchange(fails, false)) throw std::bad_alloc();
        return real_->now();
    }
    std::chrono::system_clock::time_point wall() const override { return real_->wall(); }
    asio::awaitable<bool> sleep_until(time_point when) override { return real_->sleep_until(when); }
    mutable bool fails = false;

private:
    std::shared_ptr<informer::clock> real_;
};

/// One worker is lost while the other reconciles, and the other at the end of its reconcile: no worker is left to wait
/// for.
asio::awaitable<void> lost_workers() {
    const auto ex = co_await asio::this_coro::executor;
    bench b(ex);
    b.serve({foo("a", 1), foo("b", 2)});
    const auto c = std::make_shared<failing_clock>(b.clock);
    b.rt.with_clock(c);
    door way(ex);
    std::size_t at_it = 0;
    reconciler f = [&](reconcile_request) -> asio::awaitable<reconcile_result> {
        if (++at_it == 2) co_await way.pass();
        c->fails = true;
        co_return reconcile_result::done();
    };
    controller both = b.of_foos().options(controller_options().workers(2)).build(f);
    b.start(both);
    const std::function<bool()> stops = [&] { return both.stopping() && at_it == 2; };
    bool ok = co_await eventually(stops);
    CHECK(ok);
    co_await settle(50);
    CHECK_FALSE(*b.ended);
    way.open();
    const std::function<bool()> over = [&] { return *b.ended; };
    ok = co_await eventually(over); // while the clock stands still
    CHECK(ok);
    CHECK(b.error_of_run->find("bad_alloc") != std::string::npos);
    CHECK_FALSE(b.has_logged("shutdown time-out"));
    co_await b.end();
}

asio::awaitable<void> unready_when_stopped() {
    const auto ex = co_await asio::this_coro::executor;
    bench b(ex);
    b.serve({foo("a", 1)});
    controller c = b.of_foos().build(b.noting());
    CHECK_FALSE(c.not_ready().empty());
    b.start(c);
    const std::function<bool()> ready = [&] { return c.not_ready().empty(); };
    const bool ok = co_await eventually(ready);
    CHECK(ok);
    co_await b.finish(c);
    CHECK(c.has_synced());
    CHECK(c.not_ready().find("stopped") != std::string::npos);
}

asio::awaitable<void> unready_without_sources() {
    const auto ex = co_await asio::this_coro::executor;
    bench b(ex);
    b.serve({foo("a", 1)});
    controller c = b.of_foos().build(b.noting());
    task_group standby(ex);
    standby.spawn(c.run_sources());
    const std::function<bool()> ready = [&] { return c.not_ready().empty(); };
    const bool ok = co_await eventually(ready);
    CHECK(ok);
    standby.stop();
    co_await standby.join();
    CHECK_FALSE(c.stopping());
    CHECK(c.not_ready().find("no more") != std::string::npos);
    co_await b.end();
}

/// The workers alone, as leading work runs them: after a cancellation they can be run again.
asio::awaitable<void> workers_again() {
    const auto ex = co_await asio::this_coro::executor;
    bench b(ex);
    b.serve({});
    controller c = b.of_foos().build(b.noting());
    b.group.spawn(c.run_sources());
    for (int i = 0; i < 2; ++i) {
        task_group leading(ex);
        leading.spawn(c.run_workers());
        c.enqueue(object_key("ns", "a"));
        const std::function<bool()> done = [&] { return b.count("a") == static_cast<std::size_t>(i + 1); };
        const bool ok = co_await eventually(done);
        CHECK(ok);
        leading.stop();
        co_await leading.join();
    }
    c.stop();
    co_await b.end();
}

asio::awaitable<void> run_and_note(asio::awaitable<void> work, bool* still_throws) {
    try {
        co_await std::move(work);
    } catch (const boost::system::system_error&) { // cancelled, or the controller's own error
    }
    *still_throws = co_await asio::this_coro::throw_if_cancelled();
}

/// A caller that was cancelled while it awaited the controller must get the exception at its next co_await.
asio::awaitable<void> callers_setting() {
    const auto ex = co_await asio::this_coro::executor;
    bench b(ex);
    b.serve({});
    controller whole = b.of_foos().build(b.noting());
    controller halves = b.of_foos().build(b.noting());
    controller twice = b.of_foos().build(b.noting());
    bool run = false, sources = false, workers = false, refused = false;
    task_group all(ex);
    all.spawn(run_and_note(whole.run(), &run));
    all.spawn(run_and_note(halves.run_sources(), &sources));
    all.spawn(run_and_note(halves.run_workers(), &workers));
    co_await settle(50);
    all.spawn(run_and_note(whole.run(), &refused));
    co_await settle(50);
    CHECK(refused);
    CHECK_FALSE(run);
    CHECK_FALSE(workers);
    all.stop();
    co_await all.join();
    CHECK(run);
    CHECK(sources);
    CHECK(workers);
    co_await b.end();
}

asio::awaitable<void> run_twice(asio::awaitable<void> (controller::*second)()) {
    const auto ex = co_await asio::this_coro::executor;
    bench b(ex);
    b.serve({foo("a", 1)});
    controller c = b.of_foos().build(b.noting());
    const auto second_error = std::make_shared<std::string>();
    const auto second_ended = std::make_shared<bool>(false);
    b.start(c);
    b.group.spawn(bench::keep_error((c.*second)(), second_error, second_ended)); // in the same turn
    const std::function<bool()> refused = [&] { return *second_ended; };
    bool ok = co_await eventually(refused);
    CHECK(ok);
    CHECK(*second_error != "");
    const std::function<bool()> goes_on = [&] { return b.count("a") == 1; };
    ok = co_await eventually(goes_on);
    CHECK(ok);
    CHECK_FALSE(*b.ended);
    CHECK_FALSE(c.stopping());
    co_await b.finish(c);
    CHECK(*b.error_of_run == "");
}

/// How `run()` is ended while a reconcile is under way.
enum class ending { graceful, twice, cancelled, too_slow };

asio::awaitable<void> stopping(ending how) {
    const auto ex = co_await asio::this_coro::executor;
    bench b(ex);
    b.serve({foo("a", 1), foo("b", 2)});
    door d(ex);
    int begun = 0, finished = 0, cut = 0;
    reconciler f = [&](reconcile_request) -> asio::awaitable<reconcile_result> {
        ++begun;
        co_await asio::this_coro::throw_if_cancelled(false);
        const bool passed = co_await d.pass();
        ++(passed ? finished : cut);
        co_return reconcile_result::done();
    };
    controller c = b.of_foos().options(controller_options().shutdown_timeout(30s)).build(f);
    b.start(c);
    const std::function<bool()> working = [&] { return begun == 1; };
    bool ok = co_await eventually(working);
    CHECK(ok);
    if (how == ending::cancelled) {
        b.group.stop();
    } else {
        c.stop();
        co_await settle(100);
        CHECK_FALSE(*b.ended); // it waits for the running reconcile
        if (how == ending::graceful) d.open();
        if (how == ending::twice) c.stop();
        if (how == ending::too_slow) b.clock->advance(30s);
    }
    const std::function<bool()> over = [&] { return *b.ended; };
    ok = co_await eventually(over);
    CHECK(ok);
    CHECK(b.error_of_run->empty());
    CHECK(begun == 1); // nothing was begun after the stop
    CHECK(finished == (how == ending::graceful ? 1 : 0));
    CHECK(cut == (how == ending::graceful ? 0 : 1));
    CHECK(b.has_logged("reconciles still run after the shutdown time-out") == (how == ending::too_slow));
    co_await b.end();
}

asio::awaitable<void> lost_source() {
    const auto ex = co_await asio::this_coro::executor;
    bench b(ex);
    b.serve({foo("a", 1)});
    controller c = b.of_foos().build(b.noting());
    b.start(c);
    const std::function<bool()> first = [&] { return b.count("a") == 1; };
    bool ok = co_await eventually(first);
    CHECK(ok);
    co_await b.factory.shutdown();
    const std::function<bool()> over = [&] { return *b.ended; };
    ok = co_await eventually(over);
    CHECK(ok);
    CHECK(b.error_of_run->find("the informer of foos.samplecontroller.k8s.io has ended") != std::string::npos);
    co_await b.end();
}

} // namespace

TEST_CASE("a controller that loses a worker ends with that error, instead of looking alive") {
    run_test(lost_worker());
}
TEST_CASE("a controller that loses its last worker while it stops does not wait for one") {
    run_test(lost_workers());
}
TEST_CASE("a controller is not ready once nothing follows its sources: stopped, broken, or cancelled in warm standby") {
    run_test(unready_when_stopped());
    run_test(lost_worker());
    run_test(unready_without_sources());
}
TEST_CASE("workers that were cancelled can be run again") {
    run_test(workers_again());
}
TEST_CASE("a controller leaves its caller's cancellation setting as it was") {
    run_test(callers_setting());
}
TEST_CASE("run() twice in one turn: the second one is refused, the first one goes on") {
    run_test(run_twice(&controller::run));
}
TEST_CASE("run_sources() or run_workers() beside run() is refused, and run() goes on") {
    SECTION("sources") {
        run_test(run_twice(&controller::run_sources));
    }
    SECTION("workers") {
        run_test(run_twice(&controller::run_workers));
    }
}
TEST_CASE("stop: running reconciles may finish; a second stop, cancellation and the time-out cut them") {
    run_test(stopping(ending::graceful));
    run_test(stopping(ending::twice));
    run_test(stopping(ending::cancelled));
    run_test(stopping(ending::too_slow));
}
TEST_CASE("a controller whose informer ends does not live on as if nothing had happened") {
    run_test(lost_source());
}
