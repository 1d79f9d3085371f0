#include "support/run.hpp"

#include <informer/task_group.hpp>
#include <informer/testing/manual_clock.hpp>

#include <vector>

using namespace informer;
using namespace std::chrono_literals;
using testing::manual_clock;
using testing::run_test;
using testing::settle;

namespace {

using clock_ptr = std::shared_ptr<manual_clock>;

asio::awaitable<void> sleeper(clock_ptr clock, informer::clock::time_point when, int id, std::vector<int>* woken) {
    const bool slept = co_await clock->sleep_until(when);
    woken->push_back(slept ? id : -id);
}

asio::awaitable<void> wakes_in_order() {
    const auto executor = co_await asio::this_coro::executor;
    const auto clock = std::make_shared<manual_clock>();
    std::vector<int> woken;
    task_group group(executor);
    const auto t = clock->now();
    group.spawn(sleeper(clock, t + 3s, 3, &woken));
    group.spawn(sleeper(clock, t + 1s, 1, &woken));
    group.spawn(sleeper(clock, t + 2s, 2, &woken));
    group.spawn(sleeper(clock, t + 2s, 22, &woken));
    group.spawn(sleeper(clock, t + 9s, 9, &woken));
    group.spawn(sleeper(clock, t, 10, &woken)); // due already
    co_await settle();
    CHECK(woken == std::vector<int>{10});
    CHECK(clock->waiters() == 5);
    CHECK(clock->next_deadline() == t + 1s);
    clock->advance(999ms);
    co_await settle();
    CHECK(woken.size() == 1);
    clock->advance(3s);
    CHECK(clock->waiters() == 1);
    co_await settle();
    CHECK(woken == std::vector<int>{10, 1, 2, 22, 3});
    CHECK(clock->next_deadline() == t + 9s);
    group.stop();
    co_await group.join();
    CHECK(woken.back() == -9);
    CHECK(clock->waiters() == 0);
    CHECK_FALSE(clock->next_deadline());
}

asio::awaitable<void> outlives() {
    const auto executor = co_await asio::this_coro::executor;
    auto clock = std::make_unique<manual_clock>();
    task_group group(executor);
    asio::awaitable<bool> sleep = clock->sleep_for(1s);
    clock.reset();
    group.spawn([](asio::awaitable<bool> s) -> asio::awaitable<void> {
        const bool slept = co_await std::move(s);
        CHECK_FALSE(slept);
    }(std::move(sleep)));
    co_await settle();
    group.stop();
    co_await group.join();
}

} // namespace

TEST_CASE("manual clock wakes sleepers by deadline, then by arrival", "[manual_clock]") {
    run_test(wakes_in_order());
}

TEST_CASE("sleepers may outlive the manual clock", "[manual_clock]") {
    run_test(outlives());
}

TEST_CASE("manual time goes forward only, the wall clock in step", "[manual_clock]") {
    manual_clock clock;
    const auto t = clock.now();
    const auto w = clock.wall();
    CHECK(w == std::chrono::sys_days(std::chrono::year(2024) / 1 / 1));
    clock.advance(90s);
    CHECK(clock.now() == t + 90s);
    CHECK(clock.wall() == w + 90s);
    clock.advance(-10s);
    clock.set(t);
    CHECK(clock.now() == t + 90s);
    clock.set(t + 100s);
    CHECK(clock.now() == t + 100s);
    clock.set_wall(w - 24h);
    CHECK(clock.wall() == w - 24h);
    CHECK(clock.now() == t + 100s);
    clock.advance(1s);
    CHECK(clock.wall() == w - 24h + 1s);
}

TEST_CASE("both clocks stop at the end of their range", "[manual_clock]") {
    using wall_time = std::chrono::system_clock::time_point;
    manual_clock clock;
    const auto t = clock.now();
    clock.set(manual_clock::time_point::min()); // in the past: no effect
    CHECK(clock.now() == t);
    clock.advance(manual_clock::duration::max());
    CHECK(clock.now() == manual_clock::time_point::max());
    CHECK(clock.wall() == wall_time::max());
    clock.advance(1h);
    CHECK(clock.now() == manual_clock::time_point::max());
    CHECK(clock.wall() == wall_time::max());

    manual_clock other;
    other.set(manual_clock::time_point::max());
    CHECK(other.now() == manual_clock::time_point::max());
    CHECK(other.wall() == wall_time::max());

    manual_clock early(wall_time::min());
    early.advance(1h);
    CHECK(early.wall() == wall_time::min() + 1h);
}
