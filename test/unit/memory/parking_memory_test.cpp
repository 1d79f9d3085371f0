// Waking when the system refuses memory: no coroutine is lost.
#include "refusal.hpp"

#include "support/parking_place.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/strand.hpp>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <cstddef>
#include <new>
#include <vector>

namespace asio = boost::asio;
using informer::detail::wait_parked;
using informer::detail::waiter_ptr;
using informer::detail::wake;
using informer::detail::wake_all;
using informer::testing::lack;
using informer::testing::place;
using informer::testing::refusal;

namespace {

asio::awaitable<void> waits(waiter_ptr* where, int* resumed) {
    const place here(where);
    co_await wait_parked(here);
    ++*resumed;
}

void wake_without_memory(const waiter_ptr& w) {
    refusal all;
    all.handlers = true;
    const lack none(all);
    CHECK_THROWS_AS(wake(w), std::bad_alloc);
}

} // namespace

TEST_CASE("a wake-up without memory throws, and its coroutine is resumed with the next one that is woken") {
    asio::io_context io;
    std::vector<waiter_ptr> waiters(2);
    int resumed = 0;
    for (waiter_ptr& w : waiters) asio::co_spawn(io, waits(&w, &resumed), asio::detached);
    io.poll();
    wake_without_memory(waiters[0]);
    io.poll();
    CHECK(resumed == 0);
    wake(waiters[1]);
    io.run();
    CHECK(resumed == 2);
}

TEST_CASE("a wake-up without memory in one context resumes the waiters of the others") {
    asio::io_context first, second;
    std::vector<waiter_ptr> waiters(2);
    int resumed = 0;
    asio::co_spawn(first, waits(&waiters[0], &resumed), asio::detached);
    asio::co_spawn(second, waits(&waiters[1], &resumed), asio::detached);
    first.poll();
    second.poll();
    {
        std::vector<waiter_ptr> all = waiters;
        refusal one;
        one.handlers = one.once = true;
        const lack none(one);
        CHECK_THROWS_AS(wake_all(all), std::bad_alloc);
    }
    second.restart();
    second.run();
    CHECK(resumed == 1);
} // and the waiter does not prevent the end of the first context

TEST_CASE("a coroutine woken on a strand without memory is resumed with the next one, or ends with the context") {
    const bool again = GENERATE(true, false);
    std::vector<waiter_ptr> waiters(2);
    int resumed = 0;
    {
        asio::io_context io;
        const auto strand = asio::make_strand(io);
        for (waiter_ptr& w : waiters) asio::co_spawn(strand, waits(&w, &resumed), asio::detached);
        io.poll();
        wake_without_memory(waiters[0]);
        io.poll();
        CHECK(resumed == 0);
        if (again) {
            wake(waiters[1]);
            io.run();
        }
    }
    CHECK(resumed == (again ? 2 : 0));
}
