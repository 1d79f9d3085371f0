// Running coroutines in tests.
#pragma once

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <chrono>
#include <exception>
#include <functional>
#include <utility>

namespace informer::testing {

using real_duration = std::chrono::steady_clock::duration;

/// Runs `test` on `context` until nothing is left to do. Rethrows what leaves the coroutine; fails the test when it is
/// not done after `deadline` of real time, or when it leaves work behind in the context.
inline void run_test(boost::asio::io_context& context, boost::asio::awaitable<void> test,
                     real_duration deadline = std::chrono::seconds(30)) {
    using std::chrono::steady_clock;
    std::exception_ptr failed;
    bool finished = false;
    context.restart();
    boost::asio::co_spawn(context, std::move(test), [&](std::exception_ptr e) {
        failed = std::move(e);
        finished = true;
        context.stop();
    });
    const auto until = steady_clock::now() + deadline;
    context.run_until(until);
    if (failed) std::rethrow_exception(failed);
    if (!finished && context.stopped()) FAIL("the coroutine waits for something that never comes");
    if (!finished) FAIL("the coroutine did not end in time");
    // Work that the coroutine left behind may finish, but must end.
    context.restart();
    context.run_until(std::min(until, steady_clock::now() + std::chrono::seconds(5)));
    if (!context.stopped()) FAIL("the test left work in its io_context");
}

/// The same on a fresh single-threaded io_context.
inline void run_test(boost::asio::awaitable<void> test, real_duration deadline = std::chrono::seconds(30)) {
    boost::asio::io_context context(1);
    run_test(context, std::move(test), deadline);
}

/// True in the destructor of a fixture when the test has failed: the context must not run any more, because coroutines
/// that still wait would use objects that are gone.
inline bool leaving_failed() noexcept {
    return std::uncaught_exceptions() > 0;
}

/// Lets all ready work run: `turns` rounds through the executor's queue.
inline boost::asio::awaitable<void> settle(int turns = 20) {
    const auto executor = co_await boost::asio::this_coro::executor;
    for (int i = 0; i < turns; ++i) co_await boost::asio::post(executor, boost::asio::use_awaitable);
}

/// Waits until `predicate` holds; false when it does not within `deadline` of real time. Between two tries it yields,
/// and after 100 tries it sleeps for a millisecond. Give the predicate a name: a capturing lambda must not stand inside
/// a co_await expression, which g++ 12 miscompiles.
inline boost::asio::awaitable<bool> eventually(std::function<bool()> predicate,
                                               real_duration deadline = std::chrono::seconds(10)) {
    const auto executor = co_await boost::asio::this_coro::executor;
    boost::asio::steady_timer timer(executor);
    const auto until = std::chrono::steady_clock::now() + deadline;
    for (int round = 0;; ++round) {
        if (predicate()) co_return true;
        if (std::chrono::steady_clock::now() >= until) co_return false;
        if (round < 100) {
            co_await boost::asio::post(executor, boost::asio::use_awaitable);
        } else {
            timer.expires_after(std::chrono::milliseconds(1));
            const auto [ec] = co_await timer.async_wait(boost::asio::as_tuple(boost::asio::use_awaitable));
            if (ec) co_return predicate();
        }
    }
}
/// The same for an asynchronous predicate, which asks a server, for example: pauses 20 ms after each answer.
inline boost::asio::awaitable<bool> eventually(std::function<boost::asio::awaitable<bool>()> asks,
                                               real_duration deadline = std::chrono::seconds(10)) {
    boost::asio::steady_timer timer(co_await boost::asio::this_coro::executor);
    const auto until = std::chrono::steady_clock::now() + deadline;
    for (;;) {
        const bool holds = co_await asks();
        if (holds || std::chrono::steady_clock::now() >= until) co_return holds;
        timer.expires_after(std::chrono::milliseconds(20));
        co_await timer.async_wait(boost::asio::use_awaitable);
    }
}

} // namespace informer::testing
