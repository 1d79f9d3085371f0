// The throwing form of a verb, made of the one that reports in a failure.
#pragma once

#include <informer/error.hpp>

#include <boost/asio/awaitable.hpp>

#include <utility>

namespace informer::kubernetes::detail {

/// `Start` holds its arguments; it is no coroutine itself.
template <class T, class Start>
boost::asio::awaitable<T> or_throw(Start start) {
    failure f;
    auto work = start(f);
    T result = co_await std::move(work);
    throw_on(f);
    co_return result;
}

template <class Start>
boost::asio::awaitable<void> or_throw_only(Start start) {
    failure f;
    auto work = start(f);
    co_await std::move(work);
    throw_on(f);
}

} // namespace informer::kubernetes::detail
