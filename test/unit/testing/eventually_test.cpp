#include "support/run.hpp"

#include <informer/error.hpp>
#include <informer/task_group.hpp>
#include <informer/testing/eventually.hpp>
#include <informer/testing/manual_clock.hpp>

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>

#include <string>

using namespace informer;
using namespace std::chrono_literals;
using testing::run_test;

namespace {

std::string words_of(const std::exception_ptr& e) {
    try {
        if (e) std::rethrow_exception(e);
    } catch (const error& x) {
        return x.what();
    }
    return "no error";
}

asio::awaitable<void> waits() {
    int asked = 0;
    const std::function<bool()> third_time = [&] { return ++asked == 3; };
    co_await testing::eventually("it is asked three times", third_time);
    CHECK(asked == 3);
    const std::function<bool()> at_once = [] { return true; };
    co_await testing::eventually("it holds", at_once, 0ms);
}

asio::awaitable<void> gives_up() {
    const std::function<bool()> never = [] { return false; };
    std::exception_ptr failed;
    try {
        co_await testing::eventually("the pod runs", never, 30ms);
    } catch (...) {
        failed = std::current_exception();
    }
    CHECK(words_of(failed) == "\"the pod runs\" did not come true within 30 ms: deadline exceeded");
}

asio::awaitable<void> sleeps(std::shared_ptr<testing::manual_clock> clock, bool* over) {
    *over = co_await clock->sleep_for(1h);
}

asio::awaitable<void> turns_the_clock() {
    const auto clock = std::make_shared<testing::manual_clock>();
    bool over = false;
    task_group group(co_await asio::this_coro::executor);
    group.spawn(sleeps(clock, &over));
    const std::function<bool()> slept = [&] {
        clock->advance(30min);
        return over;
    };
    co_await testing::eventually("an hour is over", slept);
    co_await group.join();
}

} // namespace

TEST_CASE("eventually: asks at once and again until it holds") {
    run_test(waits());
}

TEST_CASE("eventually: says what did not come true") {
    run_test(gives_up());
}

TEST_CASE("eventually: a condition may turn the clock by which it comes true") {
    run_test(turns_the_clock());
}

TEST_CASE("eventually: is cancelled") {
    asio::io_context io(1);
    asio::cancellation_signal stop;
    std::exception_ptr failed;
    asio::co_spawn(io, testing::eventually("the pod runs", [] { return false; }),
                   asio::bind_cancellation_slot(stop.slot(), [&](std::exception_ptr e) { failed = std::move(e); }));
    io.poll();
    stop.emit(asio::cancellation_type::terminal);
    io.restart();
    io.run_for(5s);
    CHECK(words_of(failed).starts_with("wait until \"the pod runs\": "));
}
