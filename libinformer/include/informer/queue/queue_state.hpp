// The rules of a work queue, without clock, threads or coroutines.
#pragma once

#include <informer/queue/detail/delay_queue.hpp>
#include <informer/queue/detail/item_table.hpp>
#include <informer/queue/detail/ready_lanes.hpp>
#include <informer/queue/rate_limiter.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <new>
#include <optional>
#include <utility>
#include <vector>

namespace informer {

/// A key that was still delayed when its queue was shut down.
template <class Key>
class delayed_item {
public:
    delayed_item(Key k, informer::clock::time_point d, int p) : key(std::move(k)), due(d), priority(p) {}
    Key key;
    informer::clock::time_point due;
    int priority;
};

/// Takes what happened and when, and answers what to hand out: all of `work_queue` except the waiting.
///
/// A key is in at most one of these states at a time: *ready* (in line) or *processing* (handed out, not done). It may
/// be *delayed* or, while processing, *dirty* (asked for again: goes to the tail when done). An item that was handed to
/// a getter which has not gone on yet is *promised*: it is in processing, but as good as in line. A key is delayed
/// once: the earliest time and the highest priority that were asked for win, and a request for now is the earliest of
/// all.
///
/// *Thread safety*: none. *Complexity*: O(1), with delays O(log n). *Errors*: those of allocation and of copying keys;
/// the queue is then as before. The end of work cannot fail.
template <class Key, class Hash = queue_hash<Key>, class Equal = std::equal_to<>>
class queue_state {
public:
    using time_point = informer::clock::time_point;
    using index = detail::item_index;
    static constexpr index none = detail::no_item;
    using group_function = std::function<std::uint64_t(const Key&)>;

    /// `timed`: keep the times that `times_of()` returns.
    queue_state(rate_limiter_ptr limiter, std::uint32_t ageing, group_function group_by, bool timed)
        : items_(timed), lanes_(static_cast<bool>(group_by), ageing), limiter_(std::move(limiter)),
          group_by_(std::move(group_by)) {}

    // ---- requests; false: nothing new (already asked for, or shut down) ---------------------------------------------
    template <class K>
    bool add(const K& key, int priority, time_point now) {
        if (shut_down_) return false;
        const index i = items_.find_or_add(key);
        const idle_guard guard(*this, i);
        return request(i, priority, now);
    }
    template <class K>
    bool add_at(const K& key, time_point when, int priority) {
        if (shut_down_) return false;
        const index i = items_.find_or_add(key);
        const idle_guard guard(*this, i);
        return delay(i, when, priority);
    }
    /// Asks the limiter; zero if the key is in line already, nullopt if shut down.
    template <class K>
    std::optional<rate_limiter::duration> add_rate_limited(const K& key, int priority, time_point now) {
        if (shut_down_) return std::nullopt;
        const index i = items_.find_or_add(key);
        const idle_guard guard(*this, i);
        return limit(i, priority, now);
    }

    // ---- the same for an item in processing -------------------------------------------------------------------------
    bool request(index i, int priority, time_point now) {
        if (shut_down_) return false;
        item& it = items_[i];
        if (it.delayed()) {
            priority = std::max(priority, static_cast<int>(it.priority));
            if (!it.processing) {
                enqueue(i, prepare(i, priority), priority, now); // may throw
                end_delay(i);
                return true;
            }
            end_delay(i);
        } else if (it.asked()) {
            raise(i, priority);
            return false;
        }
        if (!it.processing) {
            enqueue(i, prepare(i, priority), priority, now);
            return true;
        }
        it.dirty = true;
        ++dirty_;
        it.priority = priority;
        if (items_.with_times()) items_.times(i).added = now;
        ++added_;
        return true;
    }
    bool delay(index i, time_point when, int priority) {
        if (shut_down_) return false;
        const item& it = items_[i];
        if (it.asked()) {
            raise(i, priority);
            return false;
        }
        return delay_until(i, when, priority, false);
    }
    /// The limiter is asked only about keys that wait because of it. A key that is in line already is tried again
    /// without it: its failure counts, but takes no turn from others. A key that is asked for earlier than the limiter
    /// said gives its turn back.
    std::optional<rate_limiter::duration> limit(index i, int priority, time_point now) {
        if (shut_down_) return std::nullopt;
        item& it = items_[i];
        const bool ask = limiter_ && !it.asked();
        const rate_limiter::duration d = ask ? limiter_->delay(it.requeues, now) : rate_limiter::duration(0);
        if (d.count() <= 0) {
            request(i, priority, now); // this and the other may throw
        } else {
            delay_until(i, later(now, d), priority, true);
        }
        if (it.requeues != 0xffffffffU) ++it.requeues;
        return d;
    }
    /// `now + d` without overflow.
    static time_point later(time_point now, std::chrono::nanoseconds d) noexcept {
        if (d.count() > 0 && now > time_point::max() - d) return time_point::max();
        return now + d;
    }

    // ---- hand-outs --------------------------------------------------------------------------------------------------
    /// The next item, now in processing; `none` when nothing is ready.
    index take(time_point now) noexcept {
        if (lanes_.size() == 0) return none;
        const index i = lanes_.pop(items_);
        item& it = items_[i];
        it.ready = false;
        it.processing = true;
        it.previous = last_started_;
        (last_started_ != none ? items_[last_started_].next : first_started_) = i;
        last_started_ = i;
        ++processing_;
        if (items_.with_times()) {
            items_.times(i).started = now;
            started_sum_ += ticks(now);
        }
        return i;
    }
    /// The item that was taken waits for its holder: until `begin()` the work on it has not begun, and covers what is
    /// asked for.
    void promise(index i) noexcept { items_[i].lane = item::is_promised; }
    void begin(index i) noexcept { items_[i].lane = 0; }
    /// The work is done; true if the item goes to the tail because it was asked for meanwhile.
    bool finish(index i) noexcept {
        if (items_[i].dirty) {
            line_up_again(i, false);
            return true;
        }
        stop_processing(i);
        release_if_idle(i);
        return false;
    }
    /// The holder of the item in processing will end that by its key.
    void release(index i) noexcept { items_[i].lane = item::is_released; }
    bool released(index i) const noexcept { return items_[i].released(); }
    /// An item that nobody saw goes back to the head of its level.
    void give_back(index i, int priority) noexcept {
        item& it = items_[i];
        if (it.delayed()) end_delay(i);
        if (!std::exchange(it.dirty, true)) ++dirty_;
        it.priority = std::max(priority, static_cast<int>(it.priority)); // it may have been asked for meanwhile
        line_up_again(i, true);
    }
    /// Items that are done and should be in line, but for which there was no memory. They are still in processing.
    std::size_t ended() const noexcept { return ended_; }
    /// Puts them into line, at the tail, as far as there is memory.
    void line_up_ended() noexcept {
        for (index i = first_started_; ended_ != 0 && i != none;) {
            const index next = items_[i].next;
            if (items_[i].ended() && !line_up_again(i, false)) return;
            i = next;
        }
    }

    // ---- time -------------------------------------------------------------------------------------------------------
    /// Moves due items into line, at most `limit` of them. Returns how many.
    std::size_t advance(time_point now, std::size_t limit) {
        std::size_t moved = 0;
        for (; moved < limit && !delays_.empty() && delays_.next() <= now; ++moved) {
            const index i = delays_.front();
            const int priority = items_[i].priority;
            items_[i].limited = false; // its turn has come
            if (items_[i].processing) {
                request(i, priority, now);
                continue;
            }
            enqueue(i, prepare_anyway(i, priority), priority, now);
            delays_.remove(items_, i);
        }
        return moved;
    }
    /// When the first delayed item is due; `time_point::max()` when there is none.
    time_point next_due() const noexcept { return delays_.empty() ? time_point::max() : delays_.next(); }

    // ---- keys -------------------------------------------------------------------------------------------------------
    template <class K>
    index find(const K& key) const {
        return items_.find(key);
    }
    bool in_processing(index i) const noexcept { return items_[i].processing; }
    const Key& key_of(index i) const noexcept { return items_[i].key; } ///< stays where it is until the item is done
    int priority_of(index i) const noexcept { return items_[i].priority; }
    std::uint32_t requeues_of(index i) const noexcept { return items_[i].requeues; }
    detail::item_times times_of(index i) const noexcept { return items_.times(i); } ///< only when `timed`
    /// Forgets that the item was rate-limited.
    void forget(index i) noexcept {
        items_[i].requeues = 0;
        release_if_idle(i);
    }

    // ---- the end ----------------------------------------------------------------------------------------------------
    /// Takes no more requests; what is ready is still handed out. Idempotent.
    void shut_down() noexcept { shut_down_ = true; }
    bool is_shut_down() const noexcept { return shut_down_; }
    /// After `shut_down()`: gives up delayed items, at most `limit` of them, earliest first: `take(key, due,
    /// priority)`. True if more are delayed.
    template <class Take>
    bool give_up_delayed(const Take& take, std::size_t limit) {
        for (; limit > 0 && !delays_.empty(); --limit) {
            const index i = delays_.front();
            take(items_[i].key, delays_.next(), static_cast<int>(items_[i].priority));
            delays_.remove(items_, i);
            items_[i].requeues = 0;
            release_if_idle(i);
        }
        return !delays_.empty();
    }

    // ---- figures ----------------------------------------------------------------------------------------------------
    std::size_t ready() const noexcept { return lanes_.size(); }
    std::size_t delayed() const noexcept { return delays_.size(); }
    std::size_t processing() const noexcept { return processing_; }
    std::size_t dirty() const noexcept { return dirty_; } ///< of those in processing
    std::size_t known() const noexcept {
        return items_.size();
    }                                                       ///< also those that are only remembered as rate-limited
    std::uint64_t added() const noexcept { return added_; } ///< requests that were new
    /// Seconds of work begun and not done: of all items together, and of the oldest; only when `timed`.
    std::pair<double, double> unfinished(time_point now) const noexcept {
        if (processing_ == 0) return {0.0, 0.0};
        using seconds = std::chrono::duration<double>;
        const seconds all =
            std::chrono::nanoseconds(static_cast<std::int64_t>(ticks(now) * processing_ - started_sum_));
        const seconds oldest = now - items_.times(first_started_).started;
        return {all.count(), oldest.count()};
    }
    /// Without what the keys own.
    std::size_t bytes() const noexcept { return items_.bytes() + delays_.bytes() + lanes_.bytes(); }

private:
    using table = detail::item_table<Key, Hash, Equal>;
    using item = typename table::item;

    // Removes a new key for which nothing could be done.
    class idle_guard {
    public:
        idle_guard(queue_state& s, index i) noexcept : state_(s), item_(i) {}
        idle_guard(const idle_guard&) = delete;
        idle_guard& operator=(const idle_guard&) = delete;
        ~idle_guard() { state_.release_if_idle(item_); }

    private:
        queue_state& state_;
        index item_;
    };

    static std::uint64_t ticks(time_point t) noexcept {
        return static_cast<std::uint64_t>(std::chrono::nanoseconds(t.time_since_epoch()).count());
    }
    std::uint32_t prepare(index i, int priority) {
        return lanes_.prepare(priority, group_by_ ? group_by_(items_[i].key) : 0);
    }
    /// For a key that is in the queue and must go on: if the group function throws, it goes on without a group.
    std::uint32_t prepare_anyway(index i, int priority) {
        std::uint64_t group = 0;
        try {
            if (group_by_) group = group_by_(items_[i].key);
        } catch (...) { // NOLINT(bugprone-empty-catch) its caller has gone on long ago
        }
        return lanes_.prepare(priority, group);
    }
    void line_up(index i, std::uint32_t lane, bool front) noexcept {
        items_[i].ready = true;
        lanes_.push(items_, i, lane, front);
    }
    // Ends the processing of a dirty item. False: there is no memory for its place in line.
    bool line_up_again(index i, bool front) noexcept {
        item& it = items_[i];
        std::uint32_t lane = 0;
        try {
            lane = prepare_anyway(i, it.priority);
        } catch (const std::bad_alloc&) {
            if (!it.ended()) ++ended_;
            it.lane = item::has_ended;
            return false;
        }
        if (it.ended()) --ended_;
        stop_processing(i);
        it.dirty = false;
        --dirty_;
        line_up(i, lane, front);
        return true;
    }
    // A request that is new.
    void enqueue(index i, std::uint32_t lane, int priority, time_point now) noexcept {
        items_[i].priority = priority;
        line_up(i, lane, false);
        if (items_.with_times()) items_.times(i).added = now;
        ++added_;
    }
    // For an item that is neither ready nor dirty. `limited`: the limiter said when.
    bool delay_until(index i, time_point when, int priority, bool limited) {
        item& it = items_[i];
        if (!it.delayed()) {
            delays_.push(items_, i, when);
            it.priority = priority;
            it.limited = limited;
            return true;
        }
        it.priority = std::max(priority, static_cast<int>(it.priority));
        if (when >= delays_.when(items_, i)) {
            if (limited) limiter_->give_back();
            return false;
        }
        delays_.bring_forward(items_, i, when);
        if (std::exchange(it.limited, limited)) limiter_->give_back();
        return true;
    }
    // Ends a delay before it was due.
    void end_delay(index i) noexcept {
        delays_.remove(items_, i);
        if (std::exchange(items_[i].limited, false)) limiter_->give_back();
    }
    // Moves the item to the end of the line of its new level.
    void raise(index i, int priority) {
        item& it = items_[i];
        if (priority <= it.priority) return;
        if (it.ready) {
            const std::uint32_t lane = prepare(i, priority);
            lanes_.remove(items_, i);
            lanes_.push(items_, i, lane, false);
        }
        it.priority = priority;
    }
    void stop_processing(index i) noexcept {
        item& it = items_[i];
        (it.previous != none ? items_[it.previous].next : first_started_) = it.next;
        (it.next != none ? items_[it.next].previous : last_started_) = it.previous;
        it.next = it.previous = none;
        it.processing = false;
        --processing_;
        if (items_.with_times()) started_sum_ -= ticks(items_.times(i).started);
    }
    void release_if_idle(index i) noexcept {
        if (items_[i].idle()) items_.erase(i);
    }

    table items_;
    detail::ready_lanes<table> lanes_;
    detail::delay_queue<table> delays_;
    rate_limiter_ptr limiter_;
    group_function group_by_;
    index first_started_ = none, last_started_ = none; ///< those in processing, by when they were handed out
    std::size_t processing_ = 0, dirty_ = 0, ended_ = 0;
    std::uint64_t started_sum_ = 0; ///< of the same; may wrap: differences are right
    std::uint64_t added_ = 0;
    bool shut_down_ = false;
};

} // namespace informer
