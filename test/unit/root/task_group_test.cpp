#include "scenario.hpp"
#include "support/run.hpp"

#include <informer/task_group.hpp>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <atomic>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

using namespace informer;
using testing::run_test;
using testing::settle;

namespace {

asio::awaitable<void> counts(int* count, int turns) {
    co_await settle(turns);
    ++*count;
}

asio::awaitable<void> never_suspends(int* count) {
    ++*count;
    co_return;
}

asio::awaitable<void> sleeps_for_ever(int* count, int* stopped) {
    const scenario::alive here(*count);
    const auto executor = co_await asio::this_coro::executor;
    asio::steady_timer timer(executor, asio::steady_timer::time_point::max());
    const auto [ec] = co_await timer.async_wait(asio::as_tuple(asio::use_awaitable));
    if (ec == condition::cancelled) ++*stopped;
}

asio::awaitable<void> throws(int turns, const char* what) {
    co_await asio::this_coro::throw_if_cancelled(false);
    co_await settle(turns);
    throw std::runtime_error(what);
}

asio::awaitable<void> throws_aborted() {
    const auto executor = co_await asio::this_coro::executor;
    asio::steady_timer timer(executor, asio::steady_timer::time_point::max());
    co_await timer.async_wait(asio::use_awaitable);
}

asio::awaitable<void> joins_all() {
    const auto executor = co_await asio::this_coro::executor;
    task_group group(executor);
    co_await group.join(); // without children
    int count = 0;
    for (int i = 0; i < 5; ++i) group.spawn(counts(&count, i));
    group.spawn(never_suspends(&count));
    CHECK(count == 0); // by post, never inline
    CHECK(group.size() == 6);
    co_await group.join();
    CHECK(count == 6);
    CHECK(group.size() == 0);
    co_await group.join();
}

asio::awaitable<void> stops_all() {
    const auto executor = co_await asio::this_coro::executor;
    task_group group(executor);
    int count = 0, stopped = 0;
    for (int i = 0; i < 5; ++i) group.spawn(sleeps_for_ever(&count, &stopped));
    co_await settle();
    CHECK(count == 5);
    CHECK_FALSE(group.stopped());
    group.stop();
    group.stop();
    CHECK(group.stopped());
    co_await group.join();
    CHECK(count == 0);
    CHECK(stopped == 5);
}

asio::awaitable<void> drops_late_children() {
    const auto executor = co_await asio::this_coro::executor;
    task_group group(executor);
    int count = 0;
    group.spawn(never_suspends(&count)); // not started yet when the group stops
    group.stop();
    group.spawn(never_suspends(&count));
    co_await group.join();
    CHECK(count == 0);
}

asio::awaitable<void> rethrows_first() {
    const auto executor = co_await asio::this_coro::executor;
    task_group group(executor);
    int count = 0;
    group.spawn(throws(5, "second"));
    group.spawn(throws(1, "first"));
    group.spawn(counts(&count, 9));
    std::string what;
    try {
        co_await group.join();
    } catch (const std::runtime_error& e) {
        what = e.what();
    }
    CHECK(what == "first");
    CHECK(count == 1);     // siblings go on
    co_await group.join(); // reported once
}

asio::awaitable<void> reports_each() {
    const auto executor = co_await asio::this_coro::executor;
    task_group group(executor);
    std::vector<std::string> seen;
    group.on_error([&seen](std::exception_ptr e) {
        try {
            std::rethrow_exception(e);
        } catch (const std::exception& x) {
            seen.emplace_back(x.what());
        }
    });
    group.spawn(throws(0, "a"));
    group.spawn(throws(2, "b"));
    co_await group.join();
    CHECK(seen == std::vector<std::string>{"a", "b"});
}

asio::awaitable<void> replaces_its_handler() {
    const auto executor = co_await asio::this_coro::executor;
    task_group group(executor);
    const std::string mine(100, 'x'); // the capture must stay alive until the call ends
    std::vector<std::string> seen;
    group.on_error([&group, &seen, mine](std::exception_ptr) {
        group.on_error([&seen](std::exception_ptr) { seen.emplace_back("second"); });
        seen.push_back(mine);
    });
    group.spawn(throws(0, "a"));
    group.spawn(throws(2, "b"));
    co_await group.join();
    CHECK(seen == std::vector<std::string>{mine, "second"});
}

asio::awaitable<void> cancellation_is_no_error() {
    const auto executor = co_await asio::this_coro::executor;
    task_group group(executor);
    group.spawn(throws_aborted());
    co_await settle();
    group.stop();
    co_await group.join();
}

asio::awaitable<void> errors_while_stopping_count() {
    const auto executor = co_await asio::this_coro::executor;
    task_group group(executor);
    group.spawn(throws(3, "late"));
    co_await settle(2);
    group.stop();
    co_await group.join();
}

asio::awaitable<void> stops_its_group(std::shared_ptr<task_group> group, int* count) {
    ++*count;
    group->stop();
    co_return;
}

asio::awaitable<void> a_child_stops_the_group() {
    const auto executor = co_await asio::this_coro::executor;
    const auto group = std::make_shared<task_group>(executor);
    int count = 0, sleeping = 0, stopped = 0;
    group->spawn(sleeps_for_ever(&sleeping, &stopped));
    group->spawn(stops_its_group(group, &count));
    group->spawn(never_suspends(&count)); // dropped
    co_await group->join();
    CHECK(count == 1);
    CHECK(stopped == 1);
}

asio::awaitable<void> spawns_more(std::shared_ptr<task_group> group, int depth, int* count) {
    ++*count;
    if (depth > 0) {
        group->spawn(spawns_more(group, depth - 1, count));
        group->spawn(spawns_more(group, depth - 1, count));
    }
    co_return;
}

asio::awaitable<void> joins_grandchildren() {
    const auto executor = co_await asio::this_coro::executor;
    const auto group = std::make_shared<task_group>(executor);
    int count = 0;
    group->spawn(spawns_more(group, 5, &count));
    co_await group->join();
    CHECK(count == 63);
}

asio::awaitable<void> destroyed_early(int* count, int* stopped) {
    const auto executor = co_await asio::this_coro::executor;
    {
        task_group group(executor);
        for (int i = 0; i < 3; ++i) group.spawn(sleeps_for_ever(count, stopped));
        co_await settle();
        group.spawn(sleeps_for_ever(count, stopped));
    }
    const std::function<bool()> gone = [count] { return *count == 0; };
    const bool seen = co_await testing::eventually(gone);
    CHECK(seen);
}

asio::awaitable<void> throws_when_told_to_stop() {
    co_await asio::this_coro::throw_if_cancelled(false);
    const auto executor = co_await asio::this_coro::executor;
    asio::steady_timer timer(executor, asio::steady_timer::time_point::max());
    co_await timer.async_wait(asio::as_tuple(asio::use_awaitable));
    throw std::runtime_error("told to stop");
}

asio::awaitable<void> destroyed_before_its_children_fail() {
    const auto executor = co_await asio::this_coro::executor;
    int told = 0;
    auto kept = std::make_shared<int>();
    const std::weak_ptr<int> there = kept;
    {
        task_group group(executor);
        group.on_error([&told, kept = std::move(kept)](std::exception_ptr) { ++told; });
        group.spawn(throws(5, "late"));
        group.spawn(throws_when_told_to_stop());
        co_await settle(2);
        CHECK_FALSE(there.expired());
    }
    CHECK(there.expired());
    co_await settle(20);
    CHECK(told == 0);
}

// Joins its children although it was cancelled itself.
asio::awaitable<void> cancelled_joiner(int* count, int* stopped, bool* joined) {
    const auto executor = co_await asio::this_coro::executor;
    task_group group(executor);
    group.spawn(sleeps_for_ever(count, stopped));
    asio::steady_timer timer(executor, asio::steady_timer::time_point::max());
    co_await asio::this_coro::throw_if_cancelled(false);
    const auto [ec] = co_await timer.async_wait(asio::as_tuple(asio::use_awaitable));
    CHECK(ec);
    group.stop();
    co_await group.join();
    CHECK(*count == 0);
    *joined = true;
}

asio::awaitable<void> family(int* count, int* stopped) {
    const scenario::alive here(*count);
    const auto executor = co_await asio::this_coro::executor;
    task_group group(executor);
    for (int i = 0; i < 3; ++i) group.spawn(sleeps_for_ever(count, stopped));
    group.spawn(counts(stopped, 3));
    co_await asio::this_coro::throw_if_cancelled(false);
    co_await settle(5);
    group.stop();
    co_await group.join();
}

asio::awaitable<void> keeps_what_it_calls() {
    const auto executor = co_await asio::this_coro::executor;
    task_group group(executor);
    const auto owned = std::make_shared<std::string>("something that is long enough to be on the heap");
    std::string seen;
    std::weak_ptr<std::string> left;
    {
        auto keep = std::make_shared<std::string>(*owned);
        left = keep;
        group.spawn([keep = std::move(keep), &seen]() -> asio::awaitable<void> {
            co_await settle(3);
            seen = *keep;
        });
    }
    CHECK_FALSE(left.expired());
    co_await group.join();
    CHECK(seen == *owned);
    CHECK(left.expired());
    group.stop();
    bool begun = false;
    group.spawn([&begun]() -> asio::awaitable<void> {
        begun = true;
        co_return;
    });
    co_await group.join();
    CHECK_FALSE(begun);
}

} // namespace

TEST_CASE("a spawned function is kept until its coroutine has ended, and no longer", "[task_group]") {
    run_test(keeps_what_it_calls());
}
TEST_CASE("join waits for every child", "[task_group]") {
    run_test(joins_all());
}
TEST_CASE("stop cancels every child", "[task_group]") {
    run_test(stops_all());
}
TEST_CASE("children spawned after stop, or not started yet, are dropped", "[task_group]") {
    run_test(drops_late_children());
}
TEST_CASE("join rethrows the first exception once", "[task_group]") {
    run_test(rethrows_first());
}
TEST_CASE("on_error gets every exception, and join none", "[task_group]") {
    run_test(reports_each());
}
TEST_CASE("on_error may replace itself during its call", "[task_group]") {
    run_test(replaces_its_handler());
}
TEST_CASE("a child that ends by the requested cancellation is no error", "[task_group]") {
    run_test(cancellation_is_no_error());
    CHECK_THROWS(run_test(errors_while_stopping_count()));
}
TEST_CASE("a child may stop its group without suspending", "[task_group]") {
    run_test(a_child_stops_the_group());
}
TEST_CASE("children may spawn children", "[task_group]") {
    run_test(joins_grandchildren());
}
TEST_CASE("destroying a group stops its children", "[task_group]") {
    int count = 0, stopped = 0;
    run_test(destroyed_early(&count, &stopped));
    CHECK(stopped == 3);
}

TEST_CASE("on_error is not called once the group is gone", "[task_group]") {
    run_test(destroyed_before_its_children_fail());
}

TEST_CASE("a cancelled coroutine can join its children", "[task_group]") {
    for (int k = 0; k < 12; ++k) {
        CAPTURE(k);
        int count = 0, stopped = 0;
        bool joined = false;
        const auto r = scenario::run(cancelled_joiner(&count, &stopped, &joined), k, scenario::stop_by::terminal,
                                     [] { return false; });
        CHECK(r.ended);
        CHECK(count == 0);
        if (k > 1) CHECK(joined);
    }
}

TEST_CASE("no child is leaked wherever the context is destroyed", "[task_group]") {
    for (int k = 0; k < 60; ++k) {
        CAPTURE(k);
        int count = 0, stopped = 0;
        scenario::run(family(&count, &stopped), k, scenario::stop_by::destruction, [] { return false; });
        CHECK(count == 0);
    }
}

namespace {

asio::awaitable<void> notes_thread(std::thread::id* where, std::atomic<int>* started, std::atomic<int>* stopped) {
    const auto executor = co_await asio::this_coro::executor;
    asio::steady_timer timer(executor, asio::steady_timer::time_point::max());
    *where = std::this_thread::get_id();
    ++*started;
    const auto [ec] = co_await timer.async_wait(asio::as_tuple(asio::use_awaitable));
    CHECK(ec);
    CHECK(std::this_thread::get_id() == *where); // cancellation is emitted on the child's thread
    ++*stopped;
}

asio::awaitable<void> other_executors(asio::any_io_executor other, std::thread::id* where, std::atomic<int>* started,
                                      std::atomic<int>* stopped) {
    const auto executor = co_await asio::this_coro::executor;
    task_group group(executor);
    for (int i = 0; i < 10; ++i) group.spawn_on(other, notes_thread(where, started, stopped));
    const std::function<bool()> all = [started] { return *started == 10; };
    const bool seen = co_await testing::eventually(all);
    CHECK(seen);
    group.stop();
    co_await group.join();
    CHECK(*stopped == 10);
    CHECK(*where != std::this_thread::get_id());
}

} // namespace

TEST_CASE("children on another executor run, stop and are joined across threads", "[task_group]") {
    asio::thread_pool other(1);
    std::thread::id where;
    std::atomic<int> started{0}, stopped{0};
    run_test(other_executors(other.get_executor(), &where, &started, &stopped));
    other.join();
}

TEST_CASE("a group works on a strand", "[task_group]") {
    asio::io_context context(1);
    run_test(context, joins_all());
    const auto strand = asio::make_strand(context);
    bool done = false;
    asio::co_spawn(strand, stops_all(), [&done](std::exception_ptr e) {
        CHECK_FALSE(e);
        done = true;
    });
    context.restart();
    context.run();
    CHECK(done);
}

namespace {

/// Refuses the n-th piece of work, as if there were no memory.
class failing_executor {
public:
    failing_executor(asio::io_context& c, int& fail) : inner_(c.get_executor()), fail_(&fail) {}
    asio::execution_context& query(asio::execution::context_t) const noexcept { return inner_.context(); }
    static constexpr asio::execution::blocking_t query(asio::execution::blocking_t) noexcept {
        return asio::execution::blocking.never;
    }
    template <class F>
    void execute(F f) const {
        if (*fail_ != 0 && --*fail_ == 0) throw std::bad_alloc();
        asio::post(inner_, std::move(f));
    }
    friend bool operator==(const failing_executor& a, const failing_executor& b) noexcept {
        return a.inner_ == b.inner_;
    }

private:
    asio::io_context::executor_type inner_;
    int* fail_;
};

} // namespace

TEST_CASE("task_group: a child that cannot be started is not waited for") {
    asio::io_context context(1);
    int fail = 0, ran = 0;
    task_group group(failing_executor(context, fail));
    fail = 1;
    CHECK_THROWS_AS(group.spawn(never_suspends(&ran)), std::bad_alloc);
    CHECK(group.size() == 0);
    fail = 2; // when the child is to begin
    group.spawn(never_suspends(&ran));
    CHECK(group.size() == 1);
    context.run();
    CHECK(fail == 0);
    CHECK(group.size() == 0);
    std::exception_ptr joined;
    asio::co_spawn(context, group.join(), [&joined](std::exception_ptr e) { joined = std::move(e); });
    context.restart();
    context.run();
    REQUIRE(joined);
    CHECK_THROWS_AS(std::rethrow_exception(joined), std::bad_alloc);
    CHECK(ran == 0);
}
