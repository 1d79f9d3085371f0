// A queue of keys to be worked on: de-duplicated, delayed, rate-limited, by priority, awaitable.
#pragma once

#include <informer/error.hpp>
#include <informer/queue/detail/queue_core.hpp>
#include <informer/queue/queue_state.hpp>
#include <informer/queue/rate_limiter.hpp>
#include <informer/runtime.hpp>

#include <boost/asio/awaitable.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace informer {

class work_queue_options {
public:
    work_queue_options() {}
    /// The label `name` of the metrics. A queue without a name has no metrics (as in client-go).
    work_queue_options& name(std::string n) {
        name_ = std::move(n);
        return *this;
    }
    /// The limiter for `add_rate_limited()`; belongs to this queue alone. Default: `default_controller_rate_limiter()`.
    work_queue_options& limiter(rate_limiter_ptr l) {
        limiter_ = std::move(l);
        return *this;
    }
    /// One of every `share` hand-outs goes to a lower priority while one waits. 0: never (a low priority may starve). 1
    /// counts as 2, as otherwise the highest priority would starve.
    work_queue_options& ageing(std::uint32_t share) {
        ageing_ = share;
        return *this;
    }

    std::string name_;
    rate_limiter_ptr limiter_;
    std::uint32_t ageing_ = 16;
};

/// How many keys are in which state, and what happened since the beginning.
class work_queue_figures {
public:
    std::size_t ready = 0;      ///< waiting to be handed out (workqueue_depth also counts `marked`)
    std::size_t delayed = 0;    ///< not due yet
    std::size_t processing = 0; ///< handed out and not done
    std::size_t marked = 0;     ///< of these: asked for again meanwhile
    std::size_t known = 0;      ///< all of these, and those that are remembered as rate-limited
    std::uint64_t added = 0;    ///< requests that were new (workqueue_adds_total)
    std::uint64_t retried = 0;  ///< delayed and rate-limited requests (workqueue_retries_total)
    std::size_t bytes = 0;      ///< memory, without what the keys own themselves
};

/// A key that was handed out. Its holder is the only one that works on this key. The destructor ends the work as
/// `done()` does, unless the key was never looked at and nothing was requested of the handle: then nobody can have
/// worked on it, so the key goes back to the head of its level. An item is therefore not lost when, for example, a
/// time-out wins the race against `get()`.
///
/// *Thread safety*: one thread at a time; may be moved to another. *Lifetime*: may outlive the queue.
template <class Key, class Hash = queue_hash<Key>, class Equal = std::equal_to<>>
class work_item {
    using core = detail::queue_core<Key, Hash, Equal>;

public:
    work_item() = default; ///< empty
    work_item(work_item&& o) noexcept
        : core_(std::exchange(o.core_, nullptr)), key_(o.key_), item_(o.item_), priority_(o.priority_), seen_(o.seen_) {
    }
    work_item& operator=(work_item&& o) noexcept {
        if (this == &o) return *this;
        leave();
        core_ = std::exchange(o.core_, nullptr);
        key_ = o.key_;
        item_ = o.item_;
        priority_ = o.priority_;
        seen_ = o.seen_;
        return *this;
    }
    ~work_item() { leave(); }

    /// False if empty; from `get()` that means that the queue is shut down and nothing is left.
    explicit operator bool() const noexcept { return core_ != nullptr; }
    /// Valid until done.
    const Key& key() const noexcept {
        seen_ = true;
        return *key_;
    }
    const Key& operator*() const noexcept { return key(); }
    const Key* operator->() const noexcept { return &key(); }
    /// The priority it was handed out with.
    int priority() const noexcept { return priority_; }
    /// How often it was rate-limited since it was forgotten.
    std::uint32_t requeues() const { return core_->requeues_of(item_); }

    /// Ends the work; the handle is empty afterwards. If the key was asked for meanwhile, it goes to the tail.
    void done() {
        if (core* c = std::exchange(core_, nullptr)) c->finish(item_);
    }
    /// The same as `add`, `add_after`, `add_rate_limited`, `forget` of this key at its own priority, without a look-up.
    /// Call them before `done()`, which they do not imply.
    void requeue() { asked().request(item_, priority_); }
    void requeue_after(std::chrono::nanoseconds d) { asked().delay(item_, d, priority_); }
    std::chrono::nanoseconds requeue_rate_limited() { return asked().limit(item_, priority_); }
    void forget() { asked().forget_item(item_); }
    /// Ends the handle without `done()`: `work_queue::done(key)` must follow.
    Key release() {
        Key k = key();
        if (core* c = std::exchange(core_, nullptr)) c->detach(item_);
        return k;
    }

private:
    friend core;
    work_item(core* c, detail::item_index i, const Key* k, int priority) noexcept
        : core_(c), key_(k), item_(i), priority_(priority) {}
    /// For requests of the handle: its key counts as looked at.
    core& asked() noexcept {
        seen_ = true;
        return *core_;
    }
    void leave() noexcept {
        if (core_ == nullptr) return;
        core* c = std::exchange(core_, nullptr);
        c->drop(item_, priority_, seen_);
    }

    core* core_ = nullptr;
    const Key* key_ = nullptr;
    detail::item_index item_ = detail::no_item;
    int priority_ = 0;
    mutable bool seen_ = false;
};

/// The queue between event handlers and workers. Contract: client-go's util/workqueue.
///
/// Promises.
/// - *Once*: a key that waits already is not queued twice; it waits until the getter that it was handed to goes on. A
///   key that is added while it is being worked on is handed out again after `done`, from the tail, and never to two
///   workers at once.
/// - *Earliest wins*: a key has one due time and one priority: the earliest time and the highest priority that were
///   asked for. An `add` of a delayed key makes it due now. (client-go keeps the delayed request beside it and hands
///   the key out a second time.)
/// - *Order*: higher priorities first; FIFO within a priority. A waiting key that is added with a higher priority moves
///   to the end of that level; a lower one changes nothing. With a group function the groups of a level take turns.
/// - *No starvation*: while lower levels wait, one of every `ageing` hand-outs goes to one of them, the one that was
///   served longest ago. With L lower levels waiting, an item with p items before it in its own level is handed out
///   after at most ageing · L · (p + 1) hand-outs, however many urgent items keep coming. With a group function, p + 1
///   is the item's place in its group times the number of groups that wait.
/// - *No loss*: an item whose getter was cancelled or destroyed after it had been handed out goes back to the head.
/// - *Shutdown*: from then on adds are ignored. What is ready is still handed out, then `get()` returns empty items;
///   with `drain()`, not before the keys that were asked for during the work on them were handed out again. What is
///   delayed is returned to the caller and logged, not silently dropped.
///
/// Priorities are any integers, meant for few levels; 0 is normal; controllers use -100 for initial and resync events.
/// The key, its rate-limit count and its times are in one slot, which is free for other keys once the key is forgotten
/// and not asked for. A free slot keeps its last key until another key takes it (which reuses the buffer of a string),
/// so what such a key owns, for example an `object`, lives on.
///
/// Keys must be default-constructible and copy-assignable. If `Hash` and `Equal` are transparent, `add()` takes what
/// they take (a std::string queue takes string_views).
///
/// *Thread safety*: all functions from any thread; that thread itself calls the logger and the metrics sink.
/// *Executor*: `get()` resumes on the awaiter's executor, by a post, never inline. Delayed keys come in by a timer on
/// the runtime's executor, which must be a serial one. *Lifetime*: the destructor shuts down; waiting getters get empty
/// items. The queue must not outlive the runtime's execution context. While a key is delayed, or in processing in a
/// queue with metrics, the timer is work in that context; after `shut_down()` nothing of it is left. *Complexity*:
/// O(1); delayed keys O(log n). In a steady state only a `get()` that must wait, and metrics, allocate.
/// Metrics (named queues, when the runtime has a sink): client-go's `workqueue_depth`, `_adds_total`, `_retries_total`,
/// `_queue_duration_seconds`, `_work_duration_seconds`, `_unfinished_work_seconds`,
/// `_longest_running_processor_seconds`.
template <class Key = std::string, class Hash = queue_hash<Key>, class Equal = std::equal_to<>>
class work_queue {
    using core = detail::queue_core<Key, Hash, Equal>;

public:
    using key_type = Key;
    using item = work_item<Key, Hash, Equal>;
    using left_over = std::vector<delayed_item<Key>>;
    /// Keys with the same number share one turn, for example the hash of their namespace.
    using group_function = std::function<std::uint64_t(const Key&)>;

    /// `group_by` is called under the queue's lock, so it must not call the queue. What it throws comes out of `add`;
    /// a key that is in the queue goes on without a group.
    explicit work_queue(runtime rt, work_queue_options options = work_queue_options(),
                        group_function group_by = nullptr)
        : core_(std::make_shared<core>(std::move(rt), std::move(options), std::move(group_by))) {}
    work_queue(work_queue&&) noexcept = default;
    work_queue& operator=(work_queue&& o) noexcept {
        if (this == &o) return *this;
        if (core_) core_->close();
        core_ = std::move(o.core_);
        return *this;
    }
    ~work_queue() {
        if (core_) core_->close();
    }

    /// Asks for a key to be worked on now.
    template <class K = Key>
    void add(const K& key, int priority = 0) {
        core_->add(key, priority);
    }
    /// The same, but not before `d` from now; at once if d <= 0.
    template <class K = Key>
    void add_after(const K& key, std::chrono::nanoseconds d, int priority = 0) {
        core_->add_after(key, d, priority);
    }
    /// The same, but after the delay that the rate limiter says, which is returned. Each call counts until `forget()`.
    /// A key that is ready, or asked for again while it is being worked on, is not made to wait: then the limiter is
    /// not asked, and zero is returned.
    template <class K = Key>
    std::chrono::nanoseconds add_rate_limited(const K& key, int priority = 0) {
        return core_->add_rate_limited(key, priority);
    }
    /// Sets the rate-limit count of the key to 0: the work on it succeeded, or will not be tried again. Does not take
    /// the key out of the queue.
    template <class K = Key>
    void forget(const K& key) {
        core_->forget(key);
    }
    /// How often it was rate-limited since it was forgotten.
    template <class K = Key>
    std::uint32_t num_requeues(const K& key) const {
        return core_->num_requeues(key);
    }

    /// The next item; empty once the queue is shut down and nothing is left. Getters are served in the order in which
    /// they came. *Cancellation*: any type; throws `error(errc::cancelled)`, and no item is lost: one that was handed
    /// out before the cancellation is returned all the same.
    asio::awaitable<item> get() { return core::get_one(core_); }
    /// At least one and up to `max` items that are ready; none if the queue is shut down and nothing is left. A batch
    /// that is dropped without a look goes back in reverse order.
    asio::awaitable<std::vector<item>> get_batch(std::size_t max) { return core::get_many(core_, max); }
    /// The next item, without waiting; empty if nothing is ready, or if what is ready is promised to waiting getters. A
    /// worker that calls this first, and awaits `get()` only when it is empty, saves a coroutine for every item while
    /// it is busy.
    item try_get() { return core_->try_get(); }
    /// Appends up to `max` items that are ready; returns how many.
    std::size_t try_get_batch(std::vector<item>& into, std::size_t max) { return core_->try_get_batch(into, max); }
    /// For keys that were taken out of their handle by `release()`. For other keys it does nothing: their handle ends
    /// the work, in its destructor at the latest.
    template <class K = Key>
    void done(const K& key) {
        core_->done(key);
    }

    /// Takes no more requests; what is ready is still handed out. A key that was asked for during the work on it is
    /// handed out if somebody still asks when that work is done: `get()` does not wait for it. Returns what was delayed
    /// (the first time). Also ends a waiting `drain()`.
    left_over shut_down() { return core_->shut_down(); }
    /// Shuts down, when it is called and not only when it is awaited, and waits until everything that was asked for is
    /// handed out and done. Returns what was delayed. Needs workers: without them it waits for ever, or until
    /// `shut_down()`. *Cancellation*: any type; throws `error(errc::cancelled)`. The queue stays shut down, and
    /// `shut_down()` returns what was delayed.
    asio::awaitable<left_over> drain() { return core::drain(core_); }
    bool is_shut_down() const { return core_->is_shut_down(); }

    /// How many are ready (client-go's Len).
    std::size_t size() const { return core_->size(); }
    bool empty() const { return size() == 0; }
    work_queue_figures figures() const { return core_->figures(); }

private:
    std::shared_ptr<core> core_;
};

} // namespace informer
