// Waiting for a condition, for tests.
#pragma once

#include <boost/asio/awaitable.hpp>

#include <chrono>
#include <functional>
#include <string>

namespace informer::testing {

namespace asio = boost::asio;

/// Waits until `holds()` is true: asks at once, and then every ten milliseconds, on the executor of the caller.
///
///     const std::function<bool()> there = [&] { return !server.get("configmaps", "default", "web-info").is_null(); };
///     co_await informer::testing::eventually("a Deployment gets its ConfigMap", there);
///
/// Name the condition first, as here: g++ 12 miscompiles a capturing lambda inside of the co_await statement.
///
/// *Time*: real. If what you wait for goes by a `manual_clock`, nobody else turns it meanwhile: turn it in `holds`.
/// *Errors*: throws `error(errc::deadline_exceeded)`, which says `what`, if it does not hold after `at_most`, and what
/// `holds` throws. *Cancellation*: any type; throws `error(errc::cancelled)`.
asio::awaitable<void> eventually(std::string what, std::function<bool()> holds,
                                 std::chrono::milliseconds at_most = std::chrono::seconds(10));

} // namespace informer::testing
