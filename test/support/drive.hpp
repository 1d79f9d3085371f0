// Driving a coroutine from a synchronous test, step by step.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <catch2/catch_test_macros.hpp>

#include <chrono>
#include <exception>
#include <functional>
#include <optional>
#include <utility>

namespace informer::testing {

/// Runs until `there` holds, for at most 20 seconds of real time; calls `meanwhile` after each step.
template <class There, class Meanwhile>
void step_until(boost::asio::io_context& io, const There& there, const Meanwhile& meanwhile) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!there() && std::chrono::steady_clock::now() < end) {
        io.restart();
        io.run_one_for(std::chrono::milliseconds(20));
        if (!there()) meanwhile();
    }
    REQUIRE(there());
}
inline void step_until(boost::asio::io_context& io, const std::function<bool()>& there) {
    step_until(io, there, [] {});
}

/// Returns or throws what the coroutine does. `drive` gets a predicate and must run until it holds.
template <class T, class Drive>
T driven(boost::asio::io_context& io, boost::asio::awaitable<T> work, const Drive& drive) {
    std::optional<T> result;
    std::exception_ptr failed;
    bool done = false;
    boost::asio::co_spawn(io, std::move(work), [&](std::exception_ptr e, T r) {
        failed = std::move(e);
        result.emplace(std::move(r));
        done = true;
    });
    drive([&] { return done; });
    if (failed) std::rethrow_exception(failed);
    return std::move(*result);
}
template <class Drive>
void driven(boost::asio::io_context& io, boost::asio::awaitable<void> work, const Drive& drive) {
    std::exception_ptr failed;
    bool done = false;
    boost::asio::co_spawn(io, std::move(work), [&](std::exception_ptr e) {
        failed = std::move(e);
        done = true;
    });
    drive([&] { return done; });
    if (failed) std::rethrow_exception(failed);
}

} // namespace informer::testing
