// What a controller asks of its reconciler, and what it gets back.
#pragma once

#include <informer/error.hpp>
#include <informer/object/object_key.hpp>

#include <boost/asio/awaitable.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>

namespace informer {

namespace asio = boost::asio;

/// The priority of events that are not changes: initial state and resync. A change that happens while 100,000 of them
/// wait is reconciled before them. The value is controller-runtime's.
inline constexpr int low_priority = -100;

/// One key to reconcile. It does not tell which event led here: reconcile the state, not the change.
class reconcile_request {
public:
    explicit reconcile_request(object_key k, std::uint32_t attempt = 0, int p = 0)
        : key(std::move(k)), attempts(attempt), priority(p) {}
    object_key key;
    std::uint32_t attempts; ///< attempts in a row before this one that failed or asked for `requeue`
    int priority;
};

/// The outcome of one reconcile.
class [[nodiscard]] reconcile_result {
public:
    enum class outcome {
        done,          ///< nothing to do until something changes
        requeue_after, ///< look again after `d` at the latest; earlier failures are forgotten
        requeue,  ///< look again as the rate limiter says; no error, but it counts as an attempt, and each waits longer
                  ///< than the one before, up to 1000 s: to poll steadily, use `requeue_after`
        error,    ///< failed; tried again as the rate limiter says
        terminal, ///< failed, and trying again will not help; nothing is done until something changes
    };
    /// The same as `done()`.
    reconcile_result() = default;
    static reconcile_result done() { return reconcile_result(); }
    /// An earlier request takes the place of this one, so each reconcile must ask again. If d <= 0, the key is
    /// reconciled again at once, without any limit (controller-runtime: not at all).
    static reconcile_result requeue_after(std::chrono::nanoseconds d) {
        return reconcile_result(outcome::requeue_after, d, {});
    }
    static reconcile_result requeue() { return reconcile_result(outcome::requeue, {}, {}); }
    static reconcile_result error(failure why) { return reconcile_result(outcome::error, {}, std::move(why)); }
    static reconcile_result terminal(failure why) { return reconcile_result(outcome::terminal, {}, std::move(why)); }

    outcome what() const noexcept { return outcome_; }
    std::chrono::nanoseconds after() const noexcept { return after_; }
    const failure& why() const noexcept { return why_; }

private:
    reconcile_result(outcome o, std::chrono::nanoseconds after, failure why)
        : outcome_(o), after_(after), why_(std::move(why)) {}
    outcome outcome_ = outcome::done;
    std::chrono::nanoseconds after_{};
    failure why_;
};

/// Reconciles one key. Level-triggered: it reads the cache, compares, acts, and may be called again at any time.
///
/// If an `informer::error` or another `system_error` leaves it, that counts as `error`; any other exception
/// (`errc::callback_failed`) counts as a panic, too. The controller goes on. *Executor*: the controller's runtime.
/// *Cancellation*: terminal, when its time-out passes, the lease is lost or the controller ends at once; the key is
/// then asked for again. *Lifetime*: the controller keeps the function until the controller is destroyed and every call
/// has ended, so a lambda coroutine may use its captures. The request lives as long as the call, so it may be taken by
/// value or by reference.
using reconciler = std::function<asio::awaitable<reconcile_result>(const reconcile_request&)>;

} // namespace informer
