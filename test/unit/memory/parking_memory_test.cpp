// Waking where the system refuses memory: nobody is lost.
#include "refusal.hpp"

#include "support/parking_place.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>

#include <catch2/catch_test_macros.hpp>

#include <cstddef>
#include <new>
#include <vector>

namespace asio = boost::asio;
using informer::detail::wait_parked;
using informer::detail::waiter_ptr;
using informer::detail::wake;
using informer::testing::lack;
using informer::testing::place;
using informer::testing::refusal;

namespace {

asio::awaitable<void> waits(waiter_ptr* where, int* resumed) {
    const place here(where);
    co_await wait_parked(here);
    ++*resumed;
}

} // namespace

TEST_CASE("a wake-up that finds no memory says so, and who was woken comes with the next one") {
    asio::io_context io;
    std::vector<waiter_ptr> waiters(2);
    int resumed = 0;
    for (waiter_ptr& w : waiters) asio::co_spawn(io, waits(&w, &resumed), asio::detached);
    io.poll();
    {
        refusal all;
        all.handlers = true;
        const lack none(all);
        CHECK_THROWS_AS(wake(waiters[0]), std::bad_alloc);
    }
    io.poll();
    CHECK(resumed == 0);
    wake(waiters[1]);
    io.run();
    CHECK(resumed == 2);
}
