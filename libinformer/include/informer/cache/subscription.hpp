// One listener's queue: bounded, lossless, awaitable from any executor.
#pragma once

#include <informer/cache/event.hpp>
#include <informer/error.hpp>
#include <informer/runtime.hpp>

#include <boost/asio/awaitable.hpp>

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace informer {

enum class overflow_policy {
    /// Beyond `capacity`, pending events are merged per key; memory is bounded by capacity + number of keys (a key
    /// whose uid changed counts twice).
    coalesce,
    /// Once `capacity` events are pending, the informer waits for this subscriber (and stops reading its watch) until
    /// half of them have been taken. No event is ever merged. Nor is a state fetched again before the last one that was
    /// fetched has been delivered.
    back_pressure,
};

class subscription_options {
public:
    subscription_options() {}
    // clang-format off
    subscription_options& capacity(std::size_t events) { capacity_ = events; return *this; }
    subscription_options& policy(overflow_policy p) { policy_ = p; return *this; }
    /// Delivers `event_kind::synced` when the initial state is complete, and again after every relist. In a
    /// subscription that fell behind, repeated marks merge into the latest; the first one stays in its place.
    subscription_options& sync_marks(bool on = true) { sync_marks_ = on; return *this; }
    /// Repeats every object as `updated` with reason resync at this period (keys with a pending event are skipped).
    subscription_options& resync(std::chrono::seconds period) { resync_ = period; return *this; }
    subscription_options& name(std::string n) { name_ = std::move(n); return *this; }
    /// Only the objects of this namespace, as if the informer had no others; empty (default): all that it has. Ignored
    /// if the resource is cluster-scoped.
    subscription_options& in(std::string name_space) { name_space_ = std::move(name_space); return *this; }
    // clang-format on

    std::size_t capacity_ = 1024;
    std::string name_space_;
    overflow_policy policy_ = overflow_policy::coalesce;
    bool sync_marks_ = false;
    std::chrono::seconds resync_ = std::chrono::seconds(0);
    std::string name_;
};

/// The initial state of a late subscriber is not queued, and so does not count as pending.
struct subscription_figures {
    std::size_t pending = 0; ///< events waiting
    std::uint64_t delivered = 0;
    std::uint64_t coalesced = 0; ///< events merged into a pending one
    std::size_t peak_pending = 0;
};

/// The consumer's end.
///
/// Promises. *Order*: stream order; the indexer holds an event's state before the event is delivered.
/// *Bounded and lossless*: see `overflow_policy`; with `coalesce`, pending + new event → pending: added+updated →
/// added(new) · added+deleted → nothing · updated+updated → updated(first previous, newest) · updated+deleted →
/// deleted · deleted+added → updated, or both if the uid differs · deleted+added+deleted → deleted. A key keeps its
/// place in line. *Late subscribers* get the current state as `added`, `initial`, in sequence with live delivery,
/// straight from a snapshot of the cache, which costs no memory per object.
///
/// *Thread safety*: one consumer at a time, on any thread; a second one gets `error(errc::already_running)`; `close()`,
/// `has_synced()`, `synced()` and `figures()` from any thread. *Executor*: `next()` resumes on the awaiter's executor.
/// While it waits, it counts as work of that executor's context, and destroying that context destroys the waiter.
/// *Lifetime*: the destructor closes it. Nothing is delivered after `close()` has returned, except what a consumer on
/// another thread was being handed at that moment. May outlive the informer.
class subscription {
public:
    class state;
    explicit subscription(std::shared_ptr<state> s) noexcept;
    subscription(subscription&&) noexcept;
    subscription& operator=(subscription&&) noexcept;
    ~subscription();

    /// The next event; nullopt once the subscription is closed or the informer has ended, and everything is delivered.
    /// *Cancellation*: any type; throws `error(errc::cancelled)`, and no event is lost. But `next() || other` keeps
    /// only one result, and both may be ready: the other one's event is taken, and lost. Next to anything but a timer,
    /// wait for `ready()`.
    asio::awaitable<std::optional<event>> next();
    /// Up to `max` events that are ready, at least one; empty at the end. *Cancellation*: like `next()`.
    asio::awaitable<std::vector<event>> next_batch(std::size_t max);
    /// Without waiting.
    std::optional<event> try_next();
    /// Returns when there is something to take, or when nothing more will come. It takes nothing: use it to wait for
    /// one of several subscriptions. Occasionally `try_next()` has nothing all the same. Once nothing more will come,
    /// it returns at once, for ever: a loop that goes on then would spin. *Cancellation*: like `next()`.
    ///
    ///     // of <boost/asio/experimental/awaitable_operators.hpp>
    ///     using namespace asio::experimental::awaitable_operators;
    ///     co_await (pods.ready() || nodes.ready());
    ///     while (auto e = pods.try_next()) …
    ///     while (auto e = nodes.try_next()) …
    ///     if (pods.finished() || nodes.finished()) break;
    asio::awaitable<void> ready();
    /// True if the subscription is closed or the informer has ended, and all is delivered: `next()` returns nullopt.
    bool finished() const;

    /// True once the consumer has received all of its initial state and has come back for more (or if there was none).
    /// With `sync_marks`, it comes back for the mark: true once it has received that, even if nothing came before it.
    bool has_synced() const noexcept;
    /// Waits until `has_synced()` (another coroutine must consume). Throws `error`: `stopped` if the subscription was
    /// closed or the informer ended first (it says which informer, and its last error). *Cancellation*: any type;
    /// throws `error(errc::cancelled)`.
    asio::awaitable<void> synced();

    enum class pending_events { discard, drain };
    /// Stops delivery. `drain`: what is pending can still be read, then `next()` returns nullopt.
    void close(pending_events p = pending_events::discard);
    subscription_figures figures() const;

private:
    std::shared_ptr<state> state_;
};

} // namespace informer
