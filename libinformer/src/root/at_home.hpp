// Runs work on the executor that it belongs to, on whichever executor it is awaited.
#pragma once

#include "root/quietly.hpp"

#include <informer/runtime.hpp>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <exception>
#include <optional>
#include <utility>

namespace informer::detail {

/// If threads serve both executors, Asio resumes the awaiting coroutine inside the handler of the other executor, and
/// whatever that coroutine does next would hold up the other one's strand. So it comes back through a post.
template <class T>
boost::asio::awaitable<T> and_come_back(boost::asio::any_io_executor here, boost::asio::awaitable<T> there) {
    std::optional<T> result;
    std::exception_ptr failed;
    try {
        T made = co_await std::move(there);
        result.emplace(std::move(made));
    } catch (...) {
        failed = std::current_exception();
    }
    co_await boost::asio::post(here, boost::asio::use_awaitable);
    if (failed) std::rethrow_exception(failed);
    co_return *std::move(result);
}
inline boost::asio::awaitable<void> and_come_back(boost::asio::any_io_executor here,
                                                  boost::asio::awaitable<void> there) {
    std::exception_ptr failed;
    try {
        co_await std::move(there);
    } catch (...) {
        failed = std::current_exception();
    }
    co_await boost::asio::post(here, boost::asio::use_awaitable);
    if (failed) std::rethrow_exception(failed);
}

/// Runs `work` on `home` and comes back; without a detour if the awaiter is there already (or the context of `home` is
/// gone). The awaiter's context must exist until the awaiter has come back: as always with Asio, `work` does not notice
/// its end. *Cancellation*: the awaiter's is emitted on `home`.
template <class T>
boost::asio::awaitable<T> at_home(boost::asio::any_io_executor home, boost::asio::awaitable<T> work) {
    const boost::asio::any_io_executor here = co_await boost::asio::this_coro::executor;
    if (home && here != home) {
        auto there = boost::asio::co_spawn(home, std::move(work), boost::asio::use_awaitable);
        work = quietly(and_come_back(here, std::move(there)));
    }
    co_return co_await std::move(work);
}

/// The same, quietly: for public operations of the library that may be awaited on any executor.
template <class T>
boost::asio::awaitable<T> quietly_at_home(const runtime& rt, boost::asio::awaitable<T> work) {
    return at_home(rt.executor(), quietly(std::move(work)));
}

} // namespace informer::detail
