// Cancellation that is checked, not thrown: for one call, whatever setting its caller has.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/this_coro.hpp>

#include <exception>
#include <optional>
#include <utility>

namespace informer::detail {

/// Runs `work` so that no co_await in it throws because it was cancelled (Asio's do, before they begin). The setting
/// belongs to the whole chain of coroutines, so the caller's setting is restored, also if `work` throws: otherwise the
/// caller's next co_await would not throw.
template <class T>
boost::asio::awaitable<T> quietly(boost::asio::awaitable<T> work) {
    const bool throwing = co_await boost::asio::this_coro::throw_if_cancelled();
    co_await boost::asio::this_coro::throw_if_cancelled(false);
    std::optional<T> result;
    std::exception_ptr failed;
    try {
        T made = co_await std::move(work);
        result.emplace(std::move(made));
    } catch (...) {
        failed = std::current_exception();
    }
    co_await boost::asio::this_coro::throw_if_cancelled(throwing);
    if (failed) std::rethrow_exception(failed);
    co_return *std::move(result);
}
inline boost::asio::awaitable<void> quietly(boost::asio::awaitable<void> work) {
    const bool throwing = co_await boost::asio::this_coro::throw_if_cancelled();
    co_await boost::asio::this_coro::throw_if_cancelled(false);
    std::exception_ptr failed;
    try {
        co_await std::move(work);
    } catch (...) {
        failed = std::current_exception();
    }
    co_await boost::asio::this_coro::throw_if_cancelled(throwing);
    if (failed) std::rethrow_exception(failed);
}

} // namespace informer::detail
