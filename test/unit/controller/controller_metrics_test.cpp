// The figures of a controller: its metric series, what is counted, and sinks that ask for the figures.
#include "controller_fixture.hpp"

#include "support/recording_sink.hpp"

#include <algorithm>
#include <future>
#include <map>
#include <optional>
#include <stdexcept>
#include <thread>

using namespace controller_test;

namespace {

/// A sink that asks for the controller's figures whenever it is called. It asks from another thread, so that the test
/// can give up waiting for a call that blocks.
class asking_sink final : public metrics_sink {
public:
    ~asking_sink() override {
        for (auto& t : asking_) t.join();
    }
    void add(std::string_view, double, labels) override { ask(); }
    void set(std::string_view, double, labels) override { ask(); }
    void observe(std::string_view, double, labels) override { ask(); }
    std::optional<controller> whom;
    int answers = 0;
    bool stuck = false;

private:
    void ask() {
        if (!whom || stuck) return;
        auto answered = std::make_shared<std::promise<void>>();
        auto told = answered->get_future();
        asking_.emplace_back([answered, c = &*whom] { // no copy: it might be the last one to be destroyed
            (void)c->figures();
            answered->set_value();
        });
        stuck = told.wait_for(5s) != std::future_status::ready;
        ++answers;
        if (stuck) return;
        asking_.back().join();
        asking_.pop_back();
    }
    std::vector<std::thread> asking_;
};

asio::awaitable<void> asked_by_the_sink() {
    const auto ex = co_await asio::this_coro::executor;
    bench b(ex);
    const auto sink = std::make_shared<asking_sink>();
    b.rt.with_metrics(sink);
    b.serve({foo("a", 1), foo("late", 2)});
    reconciler f = [&](reconcile_request q) -> asio::awaitable<reconcile_result> {
        if (q.key.name == "a") throw std::runtime_error("a panic");
        co_await b.clock->sleep_for(1h);
        co_return reconcile_result::done();
    };
    controller c = b.of_foos().options(controller_options().reconcile_timeout(10s).workers(2)).build(f);
    sink->whom.emplace(c);
    b.start(c);
    const std::function<bool()> at_work = [&] { return c.figures().panics == 1 && c.figures().active == 1; };
    bool ok = co_await eventually(at_work);
    CHECK(ok);
    b.clock->advance(10s);
    const std::function<bool()> late = [&] { return c.figures().timeouts >= 1; };
    ok = co_await eventually(late);
    CHECK(ok);
    co_await b.finish(c);
    CHECK(sink->answers > 5);
    CHECK_FALSE(sink->stuck);
    sink->whom.reset(); // the controller holds the sink
}

/// The sink asks when a running reconcile is cut off.
asio::awaitable<void> asked_when_cut() {
    const auto ex = co_await asio::this_coro::executor;
    bench b(ex);
    const auto sink = std::make_shared<asking_sink>();
    b.rt.with_metrics(sink);
    b.serve({foo("a", 1)});
    reconciler f = [&](reconcile_request) -> asio::awaitable<reconcile_result> {
        const bool slept = co_await b.clock->sleep_for(1h);
        co_return slept ? reconcile_result::done() : reconcile_result::error(failure(errc::cancelled, "sleep"));
    };
    controller c = b.of_foos().build(f);
    b.start(c);
    const std::function<bool()> at_work = [&] { return c.figures().active == 1; };
    bool ok = co_await eventually(at_work);
    CHECK(ok);
    sink->whom.emplace(c);
    b.group.stop();
    const auto over = b.ended;
    const std::function<bool()> done = [over] { return *over; };
    ok = co_await eventually(done);
    CHECK(ok);
    CHECK(sink->answers > 0);
    CHECK_FALSE(sink->stuck);
    co_await b.end();
    sink->whom.reset(); // the controller holds the sink
}

/// `apart`: a standby, whose sources run without workers.
asio::awaitable<void> series_at_zero(bool apart) {
    const auto ex = co_await asio::this_coro::executor;
    bench b(ex);
    const auto sink = std::make_shared<informer::testing::recording_sink>();
    b.rt.with_metrics(sink);
    b.serve({});
    controller c = b.of_foos().options(controller_options().workers(3)).build(b.noting());
    if (apart)
        b.group.spawn(bench::keep_error(c.run_sources(), b.error_of_run, b.ended));
    else
        b.start(c);
    const std::function<bool()> synced = [&] { return c.has_synced(); };
    const bool ok = co_await eventually(synced);
    CHECK(ok);
    for (const char* what :
         {"reconcile_total controller=foos result=success", "reconcile_total controller=foos result=error",
          "reconcile_total controller=foos result=requeue", "reconcile_total controller=foos result=requeue_after",
          "reconcile_errors_total controller=foos", "terminal_reconcile_errors_total controller=foos",
          "reconcile_panics_total controller=foos", "reconcile_timeouts_total controller=foos"}) {
        INFO(what);
        const auto found = sink->counters.find("controller_runtime_" + std::string(what));
        CHECK((found != sink->counters.end() && found->second == 0));
    }
    const auto active = sink->gauges.find("controller_runtime_active_workers controller=foos");
    CHECK((active != sink->gauges.end() && active->second == 0));
    CHECK(sink->gauges["controller_runtime_max_concurrent_reconciles controller=foos"] == 3);
    co_await b.finish(c);
}

asio::awaitable<void> series_end() {
    const auto ex = co_await asio::this_coro::executor;
    bench b(ex);
    const auto sink = std::make_shared<informer::testing::recording_sink>();
    b.rt.with_metrics(sink);
    b.serve({foo("good", 1), foo("bad", 2)});
    b.answers["bad"] = {[] { return reconcile_result::error(failure(errc::conflict, "test")); }};
    const auto of_it = [&] {
        return std::count_if(sink->live.begin(), sink->live.end(), [](const std::string& s) {
            return s.starts_with("controller_runtime_") || s.starts_with("workqueue_");
        });
    };
    {
        controller c = b.of_foos().build(b.noting());
        b.start(c);
        const std::function<bool()> both = [&] { return b.seen.size() >= 2; };
        const bool ok = co_await eventually(both);
        CHECK(ok);
        CHECK(of_it() > 10);
        co_await b.finish(c);
    }
    const std::function<bool()> none = [&] { return of_it() == 0; };
    const bool gone = co_await eventually(none);
    CHECK(gone);
}

asio::awaitable<void> counted_by_result() {
    const auto ex = co_await asio::this_coro::executor;
    bench b(ex);
    const auto sink = std::make_shared<informer::testing::recording_sink>();
    b.rt.with_metrics(sink);
    b.serve({foo("good", 1), foo("bad", 2), foo("hopeless", 3), foo("panics", 4), foo("again", 5), foo("later", 6)});
    const failure why(errc::bad_response, "test");
    b.answers["bad"] = {[why] { return reconcile_result::error(why); }};
    b.answers["hopeless"] = {[why] { return reconcile_result::terminal(why); }};
    b.answers["panics"] = {[]() -> reconcile_result { throw std::runtime_error("panic"); }};
    b.answers["again"] = {[] { return reconcile_result::requeue(); }};
    b.answers["later"] = {[] { return reconcile_result::requeue_after(1h); }};
    controller c = b.of_foos().build(b.noting());
    b.start(c);
    const std::function<bool()> all = [&] { return b.seen.size() == 6 && c.figures().active == 0; };
    const bool ok = co_await eventually(all); // the clock stands still: nothing is tried again
    CHECK(ok);
    const std::map<std::string, double> expected = {{"reconcile_total controller=foos result=success", 1},
                                                    {"reconcile_total controller=foos result=error", 3},
                                                    {"reconcile_total controller=foos result=requeue", 1},
                                                    {"reconcile_total controller=foos result=requeue_after", 1},
                                                    {"reconcile_errors_total controller=foos", 3},
                                                    {"terminal_reconcile_errors_total controller=foos", 1},
                                                    {"reconcile_panics_total controller=foos", 1},
                                                    {"reconcile_timeouts_total controller=foos", 0}};
    for (const auto& [what, n] : expected) {
        INFO(what);
        CHECK(sink->counters["controller_runtime_" + what] == n);
    }
    CHECK(c.figures().panics == 1);
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

} // namespace

TEST_CASE("a metrics sink may ask for the controller's figures") {
    run_test(asked_by_the_sink());
    run_test(asked_when_cut());
}
TEST_CASE("the series of a controller are there from its start, at zero") {
    run_test(series_at_zero(false));
    run_test(series_at_zero(true));
}
TEST_CASE("the series of a controller are removed with it, so that names may change without end") {
    run_test(series_end());
}
TEST_CASE("a controller counts its reconciles by result") {
    run_test(counted_by_result());
}
TEST_CASE("a reconcile that took too long is counted, and the duration of each is reported") {
    run_test(timed());
}
