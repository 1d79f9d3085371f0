#include "scenario.hpp"
#include "support/run.hpp"

#include <informer/detail/async.hpp>
#include <informer/task_group.hpp>
#include <informer/testing/manual_clock.hpp>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <catch2/matchers/catch_matchers.hpp>

#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

using namespace informer;
using namespace std::chrono_literals;
using detail::async_event;
using testing::manual_clock;
using testing::run_test;
using testing::settle;

namespace {

using clock_ptr = std::shared_ptr<manual_clock>;

clock_ptr make_clock() {
    return std::make_shared<manual_clock>();
}

asio::awaitable<void> notifies(std::shared_ptr<async_event> event, int turns) {
    co_await settle(turns);
    event->notify();
}

asio::awaitable<void> remembers_once() {
    const auto executor = co_await asio::this_coro::executor;
    async_event event(executor);
    event.notify();
    event.notify();
    const bool first = co_await event.wait();
    CHECK(first);
    const auto clock = make_clock();
    const bool second = co_await event.wait_until(*clock, clock->now());
    CHECK_FALSE(second);
}

asio::awaitable<void> clock_fails() {
    struct broken_clock final : informer::clock {
        time_point now() const override { return {}; }
        std::chrono::system_clock::time_point wall() const override { return {}; }
        asio::awaitable<bool> sleep_until(time_point) override { throw std::runtime_error("no more timers"); }
    };
    const auto executor = co_await asio::this_coro::executor;
    async_event event(executor);
    broken_clock clock;
    std::string why;
    try {
        co_await event.wait_until(clock, clock.now() + 1s);
    } catch (const std::runtime_error& x) {
        why = x.what();
    }
    CHECK(why == "no more timers");
}

asio::awaitable<void> wakes() {
    const auto executor = co_await asio::this_coro::executor;
    const auto event = std::make_shared<async_event>(executor);
    task_group group(executor);
    for (int i = 0; i < 3; ++i) {
        group.spawn(notifies(event, i));
        const bool woken = co_await event->wait();
        CHECK(woken);
    }
    co_await group.join();
}

asio::awaitable<void> advances(clock_ptr clock, informer::clock::duration by) {
    co_await settle();
    clock->advance(by);
}

asio::awaitable<void> times_out() {
    const auto executor = co_await asio::this_coro::executor;
    const auto event = std::make_shared<async_event>(executor);
    const auto clock = make_clock();
    task_group group(executor);
    group.spawn(advances(clock, 999ms));
    group.spawn(advances(clock, 1ms));
    const auto start = clock->now();
    const bool woken = co_await event->wait_until(*clock, start + 1s);
    CHECK_FALSE(woken);
    CHECK(clock->now() == start + 1s);
    // Notified in time: the wait on the clock ends at once.
    group.spawn(notifies(event, 10));
    const bool notified = co_await event->wait_until(*clock, clock->now() + 1s);
    CHECK(notified);
    CHECK(clock->waiters() == 0);
    co_await group.join();
}

asio::awaitable<void> times_out_for_real() {
    const auto executor = co_await asio::this_coro::executor;
    const auto event = std::make_shared<async_event>(executor);
    const auto clock = system_clock();
    const auto start = clock->now();
    const bool woken = co_await event->wait_until(*clock, start + 3ms);
    CHECK_FALSE(woken);
    CHECK(clock->now() >= start + 3ms);
    task_group group(executor);
    group.spawn(notifies(event, 5));
    const bool notified = co_await event->wait_until(*clock, start + 1h);
    CHECK(notified);
    co_await group.join();
}

asio::awaitable<void> expects_false_of(async_event* event, bool* done) {
    const bool woken = co_await event->wait();
    CHECK_FALSE(woken);
    *done = true;
}

asio::awaitable<void> dies_under_a_waiter() {
    const auto executor = co_await asio::this_coro::executor;
    auto event = std::make_unique<async_event>(executor);
    bool done = false;
    task_group group(executor);
    group.spawn(expects_false_of(event.get(), &done));
    co_await settle();
    event.reset();
    co_await group.join();
    CHECK(done);
}

asio::awaitable<void> waits_for(std::shared_ptr<async_event> event, std::string name, std::vector<std::string>* ends) {
    const bool woken = co_await event->wait();
    ends->push_back(name + (woken ? " woken" : " cancelled"));
}

asio::awaitable<void> waits_behind_a_cancelled_one() {
    const auto executor = co_await asio::this_coro::executor;
    const auto event = std::make_shared<async_event>(executor);
    std::vector<std::string> ends;
    asio::cancellation_signal stop;
    asio::co_spawn(executor, waits_for(event, "first", &ends),
                   asio::bind_cancellation_slot(stop.slot(), asio::detached));
    co_await settle();
    asio::co_spawn(executor, waits_for(event, "second", &ends), asio::detached);
    stop.emit(asio::cancellation_type::terminal); // resumes the first after the second has begun
    co_await settle();
    CHECK(ends == std::vector<std::string>{"first cancelled"});
    event->notify();
    co_await settle();
    CHECK(ends == std::vector<std::string>{"first cancelled", "second woken"});
}

// Enables total cancellation, so that all types of cancellation arrive.
asio::awaitable<void> waits(int* count, bool throwing, bool with_clock, clock_ptr clock, bool* result) {
    const scenario::alive here(*count);
    co_await asio::this_coro::reset_cancellation_state(asio::enable_total_cancellation());
    co_await asio::this_coro::throw_if_cancelled(throwing);
    const auto executor = co_await asio::this_coro::executor;
    const auto event = std::make_shared<async_event>(executor);
    if (with_clock) {
        const bool woken = co_await event->wait_until(*clock, clock->now() + 1h);
        *result = woken;
    } else {
        const bool woken = co_await event->wait();
        *result = woken;
    }
}

} // namespace

TEST_CASE("async_event: a waiter whose clock fails gets the exception of the clock", "[async]") {
    run_test(clock_fails());
}

TEST_CASE("a stretched duration is never above the maximum and never negative", "[async]") {
    using informer::detail::stretched;
    using duration = clock::duration;
    CHECK(stretched(duration(100), 0.5) == duration(150));
    CHECK(stretched(duration::max(), 0.5) == duration::max());
    CHECK(stretched(duration(-1), 0.5) == duration(0));
    CHECK(stretched(duration::min(), 0.5) == duration(0));
}
TEST_CASE("async_event remembers one notification", "[async]") {
    run_test(remembers_once());
}
TEST_CASE("async_event wakes its waiter", "[async]") {
    run_test(wakes());
}
TEST_CASE("async_event times out by the clock it is given", "[async]") {
    run_test(times_out());
}
TEST_CASE("async_event times out by the system clock", "[async]") {
    run_test(times_out_for_real());
}
TEST_CASE("a waiter survives its async_event", "[async]") {
    run_test(dies_under_a_waiter());
}

TEST_CASE("async_event: the end of a cancelled wait does not affect the next waiter", "[async]") {
    run_test(waits_behind_a_cancelled_one());
}

TEST_CASE("a coroutine that waits for an async_event of its own is destroyed with its context", "[async]") {
    int count = 0;
    bool result = false;
    {
        asio::io_context context;
        task_group group(context.get_executor());
        group.spawn(waits(&count, false, false, clock_ptr(), &result));
        context.poll();
        CHECK(count == 1);
    }
    CHECK(count == 0);
}

TEST_CASE("async_event waits end with each type of cancellation at every point", "[async]") {
    using scenario::stop_by;
    for (const auto how : {stop_by::total, stop_by::partial, stop_by::terminal, stop_by::destruction})
        for (const bool throwing : {true, false})
            for (const bool with_clock : {true, false})
                for (int k = 0; k < 12; ++k) {
                    CAPTURE(static_cast<int>(how), throwing, with_clock, k);
                    const auto clock = make_clock();
                    int count = 0;
                    bool woken = true;
                    const auto r =
                        scenario::run(waits(&count, throwing, with_clock, clock, &woken), k, how, [] { return false; });
                    CHECK(count == 0);
                    CHECK(clock->waiters() == 0);
                    if (how == stop_by::destruction) continue;
                    // Before its first step the coroutine accepts terminal cancellation only; the others are lost.
                    if (!r.ended) {
                        CHECK(k <= 1);
                        CHECK(how != stop_by::terminal);
                        continue;
                    }
                    if (!r.thrown) CHECK_FALSE(woken);
                }
}

// ---- run_until ----

namespace {

asio::awaitable<void> short_work(int turns, bool* done) {
    co_await settle(turns);
    *done = true;
}

asio::awaitable<void> in_time(int turns) {
    const auto clock = make_clock();
    bool done = false;
    const bool finished = co_await detail::run_until(*clock, clock->now() + 1s, short_work(turns, &done));
    CHECK(finished);
    CHECK(done);
    CHECK(clock->waiters() == 0);
}

asio::awaitable<void> returns_inline() {
    co_return;
}

asio::awaitable<void> in_time_at_once() {
    const auto clock = make_clock();
    const bool finished = co_await detail::run_until(*clock, clock->now() + 1s, returns_inline());
    CHECK(finished);
}

// Ends only by cancellation, and then takes a while to clean up.
asio::awaitable<void> endless(int* count, bool* unwound, bool rethrows) {
    const scenario::alive here(*count);
    const auto executor = co_await asio::this_coro::executor;
    asio::steady_timer timer(executor, asio::steady_timer::time_point::max());
    const auto [ec] = co_await timer.async_wait(asio::as_tuple(asio::use_awaitable));
    co_await asio::this_coro::throw_if_cancelled(false);
    co_await settle(5);
    *unwound = true;
    if (rethrows) throw boost::system::system_error(ec);
}

asio::awaitable<void> too_late(bool rethrows) {
    const auto executor = co_await asio::this_coro::executor;
    const auto clock = make_clock();
    task_group group(executor);
    group.spawn(advances(clock, 1s));
    int count = 0;
    bool unwound = false;
    const bool finished = co_await detail::run_until(*clock, clock->now() + 1s, endless(&count, &unwound, rethrows));
    CHECK_FALSE(finished);
    CHECK(unwound);
    CHECK(count == 0);
    const bool is_cancelled = co_await detail::cancelled();
    CHECK_FALSE(is_cancelled);
    co_await group.join();
}

asio::awaitable<void> deadline_passed() {
    const auto clock = make_clock();
    int count = 0;
    bool unwound = false;
    const bool finished = co_await detail::run_until(*clock, clock->now() - 1s, endless(&count, &unwound, true));
    CHECK_FALSE(finished);
    CHECK(count == 0);
}

asio::awaitable<void> throws_after(int turns) {
    co_await settle(turns);
    throw std::runtime_error("broken");
}

asio::awaitable<void> exception_comes_through(int turns) {
    const auto clock = make_clock();
    const bool finished = co_await detail::run_until(*clock, clock->now() + 1s, throws_after(turns));
    CHECK_FALSE(finished); // not reached
}

asio::awaitable<void> throws_when_stopped() {
    const auto executor = co_await asio::this_coro::executor;
    asio::steady_timer timer(executor, asio::steady_timer::time_point::max());
    const auto [ec] = co_await timer.async_wait(asio::as_tuple(asio::use_awaitable));
    static_cast<void>(ec);
    throw std::runtime_error("broken while stopping");
}

asio::awaitable<void> exception_of_stopping_comes_through() {
    const auto executor = co_await asio::this_coro::executor;
    const auto clock = make_clock();
    task_group group(executor);
    group.spawn(advances(clock, 1s));
    const bool finished = co_await detail::run_until(*clock, clock->now() + 1s, throws_when_stopped());
    CHECK_FALSE(finished); // not reached
}

asio::awaitable<void> bounded(int* count, bool* unwound, clock_ptr clock, bool throwing, bool rethrows, int* outcome) {
    const scenario::alive here(*count);
    co_await asio::this_coro::reset_cancellation_state(asio::enable_total_cancellation());
    co_await asio::this_coro::throw_if_cancelled(throwing);
    const bool finished = co_await detail::run_until(*clock, clock->now() + 1s, endless(count, unwound, rethrows));
    *outcome = finished ? 1 : 0;
    const bool still = co_await asio::this_coro::throw_if_cancelled();
    CHECK(still == throwing);
}

} // namespace

TEST_CASE("run_until lets work finish in time", "[async]") {
    for (int turns = 0; turns < 5; ++turns) run_test(in_time(turns));
    run_test(in_time_at_once());
}
TEST_CASE("run_until cancels at the deadline and waits for the work to unwind", "[async]") {
    run_test(too_late(false));
    run_test(too_late(true));
}
TEST_CASE("run_until with a deadline in the past", "[async]") {
    run_test(deadline_passed());
}
TEST_CASE("run_until passes exceptions of the work on", "[async]") {
    for (int turns = 0; turns < 5; ++turns) CHECK_THROWS_WITH(run_test(exception_comes_through(turns)), "broken");
    CHECK_THROWS_WITH(run_test(exception_of_stopping_comes_through()), "broken while stopping");
}

TEST_CASE("run_until leaves nothing behind wherever its caller is cancelled or its context destroyed", "[async]") {
    using scenario::stop_by;
    int stopped_inside = 0;
    for (const auto how : {stop_by::nothing, stop_by::total, stop_by::partial, stop_by::terminal, stop_by::destruction})
        for (const bool throwing : {true, false})
            for (const bool rethrows : {true, false})
                for (int k = 0; k < 40; ++k) {
                    CAPTURE(static_cast<int>(how), throwing, rethrows, k);
                    const auto clock = make_clock();
                    int count = 0, outcome = -1;
                    bool unwound = false;
                    const auto r =
                        scenario::run(bounded(&count, &unwound, clock, throwing, rethrows, &outcome), k, how, [&] {
                            if (clock->waiters() == 0) return false;
                            clock->advance(1s);
                            return true;
                        });
                    CHECK(count == 0);
                    CHECK(clock->waiters() == 0);
                    if (how == stop_by::destruction) continue;
                    CHECK(r.ended);
                    CHECK(outcome != 1); // endless work never finishes
                    if (!r.had_time && !r.thrown && how != stop_by::nothing) ++stopped_inside;
                    if (r.thrown) {
                        try {
                            std::rethrow_exception(r.thrown);
                        } catch (const boost::system::system_error& e) {
                            CHECK(e.code() == condition::cancelled);
                        }
                    }
                }
    CHECK(stopped_inside > 10);
}

namespace {

asio::awaitable<void> works_until(std::shared_ptr<async_event> asked, bool* ended) {
    const bool told = co_await asked->wait();
    CHECK(told);
    co_await settle(3);
    const bool reached = co_await detail::cancelled();
    CHECK_FALSE(reached);
    *ended = true;
}

asio::awaitable<void> waits_to_end(int* count, bool* ended, bool throwing) {
    const scenario::alive here(*count);
    co_await asio::this_coro::reset_cancellation_state(asio::enable_total_cancellation());
    co_await asio::this_coro::throw_if_cancelled(throwing);
    const auto executor = co_await asio::this_coro::executor;
    const auto asked = std::make_shared<async_event>(executor);
    std::function<void()> ask = [asked] { asked->notify(); };
    const std::exception_ptr failed = co_await detail::run_to_end(executor, works_until(asked, ended), std::move(ask));
    CHECK_FALSE(failed);
    CHECK(*ended);
}

asio::awaitable<void> hands_back_exception(int turns) {
    int asked = 0;
    std::function<void()> ask = [&asked] { ++asked; };
    const auto executor = co_await asio::this_coro::executor;
    const std::exception_ptr failed = co_await detail::run_to_end(executor, throws_after(turns), std::move(ask));
    CHECK(asked == 1);
    REQUIRE(failed);
    CHECK_THROWS_WITH(std::rethrow_exception(failed), "broken");
}

} // namespace

TEST_CASE("run_to_end: a cancelled caller asks the work to end, and waits until it has", "[async]") {
    using scenario::stop_by;
    int waited = 0;
    for (const auto how : {stop_by::total, stop_by::partial, stop_by::terminal, stop_by::destruction})
        for (const bool throwing : {true, false})
            for (int k = 0; k < 10; ++k) {
                CAPTURE(static_cast<int>(how), throwing, k);
                int count = 0;
                bool ended = false;
                const auto r = scenario::run(waits_to_end(&count, &ended, throwing), k, how, [] { return false; });
                CHECK(count == 0);
                CHECK(r.ended == (how != stop_by::destruction));
                if (r.ended && !r.thrown) ++waited;
            }
    CHECK(waited > 10);
}
TEST_CASE("run_to_end hands back the exception of the work", "[async]") {
    for (int turns = 0; turns < 3; ++turns) run_test(hands_back_exception(turns));
}

namespace {

asio::awaitable<void> asks(bool* before, bool* after, bool* ready) {
    co_await asio::this_coro::throw_if_cancelled(false);
    *before = co_await detail::cancelled();
    const auto executor = co_await asio::this_coro::executor;
    asio::steady_timer timer(executor, asio::steady_timer::time_point::max());
    *ready = true;
    const auto [ec] = co_await timer.async_wait(asio::as_tuple(asio::use_awaitable));
    CHECK(ec);
    *after = co_await detail::cancelled();
}

asio::awaitable<void> is_told() {
    const auto executor = co_await asio::this_coro::executor;
    bool before = true, after = false, ready = false;
    task_group group(executor);
    group.spawn(asks(&before, &after, &ready));
    const std::function<bool()> is_ready = [&ready] { return ready; };
    const bool seen = co_await testing::eventually(is_ready);
    CHECK(seen);
    group.stop();
    co_await group.join();
    CHECK_FALSE(before);
    CHECK(after);
}

} // namespace

TEST_CASE("cancelled() tells whether this coroutine was asked to stop", "[async]") {
    run_test(is_told());
}
