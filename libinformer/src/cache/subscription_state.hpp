// What a subscription and its informer share: the queue between them.
#pragma once

#include "object_cursor.hpp"
#include "root/parking.hpp"

#include <informer/cache/subscription.hpp>
#include <informer/detail/spin_lock.hpp>

#include <boost/unordered/unordered_flat_set.hpp>

#include <algorithm>
#include <atomic>
#include <cassert>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace informer {

namespace detail {
std::string name_of(const subscription_options& o); ///< in errors
} // namespace detail

/// *Thread safety*: all functions from any thread; one producer, one consumer at a time.
///
/// How the informer uses it: as soon as the cache is filled, it calls `start(snapshot, version)`, before the first
/// `push()`; the snapshot must be exactly the state before that first event (no event already in it may be pushed).
/// After every later relist, it calls `relisted(version)`. While `over()`, it awaits `room()` before it pushes on. It
/// drops the state when that is `closed()`, and calls `end()` when it ends itself.
class subscription::state : public std::enable_shared_from_this<subscription::state> {
public:
    /// `hash_seed`: servers choose keys, and must not be able to prepare collisions.
    explicit state(subscription_options options, std::uint64_t hash_seed = 0);
    ~state();
    const subscription_options& options() const noexcept { return options_; }
    /// False: the object is of another namespace than the one that was asked for.
    bool wants(const object& o) const noexcept {
        return options_.name_space_.empty() || o.name_space() == options_.name_space_;
    }

    // ---- producer's side -------------------------------------------------------------------------------------------
    // What is of another namespace than `options().name_space_` is passed over by all of these.
    /// The initial state of a late subscriber, complete. It is not copied but walked as the consumer asks for it, and
    /// does not count towards the capacity. Resync events are ignored while it lasts. `order`: the order to walk it in,
    /// if known.
    void start(cache_snapshot initial, informer::resource_version version,
               std::shared_ptr<const detail::arrivals> order = nullptr);
    /// Queues an event, or merges it into a pending one when `capacity` is reached (policy coalesce). A resync event of
    /// a key with a pending event is dropped. Ignored when closed or ended.
    void push(event e);
    /// The same for many events with their versions, which all subscribers share: costs one lock and at most one
    /// wake-up, whatever their number, and allocates nothing per event. Returns false, and does nothing, if they do not
    /// all fit into the capacity: push them one by one. A consumer that must be woken is added to `to_wake`.
    using shared_events = std::shared_ptr<std::vector<event>>; ///< only a sole owner changes it
    bool push_all(const shared_events& events, detail::wake_list& to_wake) {
        if (!wants_all_) return queue_wanted(events, to_wake);
        const guard lock(mutex_);
        return give(events, to_wake) || queue(events, to_wake);
    }
    /// Queues the mark behind the initial state, as `start` does.
    void initial_complete(informer::resource_version version);
    /// A relist is complete; all its events have been pushed.
    void relisted(informer::resource_version version);
    /// Nothing more will come; what is pending can still be read. Idempotent. `why`: for those that wait for the
    /// initial state.
    void end(std::shared_ptr<const std::string> why = nullptr);
    /// The consumer closed it.
    bool closed() const noexcept { return closed_.load(std::memory_order_acquire); }
    /// Policy back_pressure: wait for room() before the next push().
    bool over() const;
    /// Waits until at most half of the capacity is pending, or it is closed or ended. *Cancellation*: any type;
    /// returns.
    asio::awaitable<void> room();

    // ---- consumer's side: see class subscription -------------------------------------------------------------------
    asio::awaitable<std::optional<event>> next() { return next_of(shared_from_this()); }
    asio::awaitable<std::vector<event>> next_batch(std::size_t max) { return next_batch_of(shared_from_this(), max); }
    /// The same for a caller that has a pointer at hand.
    static asio::awaitable<std::optional<event>> next_of(std::shared_ptr<state> s);
    static asio::awaitable<std::vector<event>> next_batch_of(std::shared_ptr<state> s, std::size_t max);
    std::optional<event> try_next();
    static asio::awaitable<void> ready_of(std::shared_ptr<state> s);
    bool finished() const;
    /// What is ready, without copies if possible: a part of what all subscribers share, or events of its own. Does not
    /// wait; empty when there is nothing. For handlers, which get no versions: these may be missing.
    struct portion {
        shared_events shared;
        std::size_t from = 0;
        std::vector<event> own;
        bool more = false; ///< ask again: there may be more
        const event* begin() const noexcept { return shared ? shared->data() + from : own.data(); }
        const event* end() const noexcept { return shared ? shared->data() + shared->size() : own.data() + own.size(); }
    };
    static constexpr std::size_t portion_size = 256; ///< events of its own; also the most that are taken under one lock
    portion poll_portion();
    /// True only if there is nothing to take and more may come, so the consumer may as well wait without looking first.
    /// Without the mutex a hint.
    bool drained() const noexcept { return drained_.load(std::memory_order_relaxed); }
    bool has_synced() const noexcept { return synced_.load(std::memory_order_acquire); }
    asio::awaitable<void> synced();
    void close(pending_events p);
    subscription_figures figures() const;

private:
    struct entry {
        explicit entry(event e) : what(std::move(e)) {}
        event what;
        std::uint64_t sequence = 0;
        std::uint64_t hash = 0;         // of its key, kept once computed: a growing table would read all keys again
        bool completes_initial = false; // the mark of the initial state
        // The pending event of the same key before this one; still pending if its sequence number is not below the
        // front's.
        entry* before = nullptr;
        std::uint64_t before_sequence = 0;
        std::list<entry>::iterator self;
        bool mark() const noexcept { return what.kind == event_kind::synced; }
    };
    struct entry_hash {
        std::size_t operator()(const entry* e) const noexcept { return e->hash; }
    };
    struct entry_equal {
        bool operator()(const entry* a, const entry* b) const noexcept {
            return detail::object_traits().equal(a->what.current, b->what.current);
        }
    };
    using entries = std::list<entry>;
    /// Pending events that are shared with other subscribers; those before `at` are already taken.
    struct segment {
        shared_events events;
        std::size_t at = 0;
    };
    using guard = std::lock_guard<detail::spin_lock>;
    using index = boost::unordered_flat_set<entry*, entry_hash, entry_equal>;
    struct aftermath; // what must be destroyed or woken, but not under the mutex

    // All of these need the mutex.
    bool hidden(const entry& e) const noexcept { return e.mark() && !options_.sync_marks_; }
    bool nothing_pending() const noexcept { return pending_.empty() && segments_.empty() && !returned_; }
    /// A gift that the consumer has not taken yet may come back: nobody else may overtake it.
    bool in_flight() const noexcept { return given_ && consumer_->leaving(); }
    void note_drained() noexcept {
        drained_.store(!initial_ && nothing_pending() && !closed_ && !ended_, std::memory_order_relaxed);
    }
    /// Only shared events are pending, as is usual: nothing to merge, no mark, no producer to wake when they are taken.
    bool plain() const noexcept {
        return !initial_ && pending_.empty() && !returned_ && !segments_.empty() && !producer_ && !in_flight();
    }
    void append(entries& one);
    void unfold(aftermath& a);
    void counted_out(std::size_t n, aftermath& a);
    bool merge(entry& incoming, aftermath& a);
    void hash(entry& e) const noexcept;
    entry* last_of_key(entry& like);
    void remember(entry& e);
    void drop(entry& e, aftermath& a);
    void pass_hidden_marks(aftermath& a);
    const object* next_initial(aftermath& a);
    std::unique_ptr<detail::object_cursor> walk_of(const cache_snapshot& initial,
                                                   std::shared_ptr<const detail::arrivals> order) const;
    shared_events wanted(const shared_events& events) const;
    bool queue_wanted(const shared_events& events, detail::wake_list& to_wake);
    bool queue(const shared_events& events, detail::wake_list& to_wake);
    bool give(const shared_events& events, detail::wake_list& to_wake);
    bool take(event& into, aftermath& a);
    void wake_consumer(aftermath& a);
    void wake_sync_waiters(aftermath& a);
    void wake_all_at_the_end(aftermath& a);
    void set_synced(aftermath& a);
    bool over_locked() const noexcept;
    bool sync_is_hopeless() const noexcept;

    void mark(informer::resource_version version, bool completes_initial);
    enum class outcome { taken, finished, nothing };
    struct share {
        shared_events events; // null: use `take`, which handles everything
        std::size_t from = 0, until = 0;
        bool more = false;
    };
    std::size_t next_share(std::size_t max);
    share take_share(std::size_t max);
    bool take_plain(std::optional<event>& into, shared_events& last);
    outcome poll(std::vector<event>& into, std::size_t max, bool versions = true);
    /// The event that was taken is in `into`, or it is the last one of `last`.
    outcome poll(std::optional<event>& into, shared_events& last);
    outcome nothing_taken() const;
    bool has_something();
    outcome poll_sync();
    std::string why_not_synced() const;

    /// Events that the producer handed to a waiting consumer, past the queue: that saves a lock and the way through the
    /// queue. A gift lives in the frame of the consumer's coroutine; what the consumer does not take goes back to the
    /// front of the queue.
    class gift {
    public:
        gift(state* s, std::size_t most) noexcept : state_(s), most_(most) {} // the coroutine keeps the state alive
        gift(const gift&) = delete;
        gift& operator=(const gift&) = delete;
        ~gift() { give_back(); }
        explicit operator bool() const noexcept { return events_ != nullptr; }
        /// The last event, of which a copy is all that the consumer needs.
        const event& take_last() noexcept {
            taken_ = true;
            return events_->back();
        }
        /// Moves the events if nobody else holds them (any more), else copies them.
        std::vector<event> take_all() {
            std::vector<event> all = is_alone(events_) ? std::move(*events_) : *events_;
            events_.reset(); // not before: if the copy finds no memory, they go back
            return all;
        }
        shared_events& place() noexcept { return events_; } ///< for other events, taken and returned at once
        void give_back() noexcept {
            if (events_ && !taken_) state_->give_back(std::move(events_));
        }

    private:
        friend class state;
        static bool is_alone(const shared_events& taken) noexcept {
            if (taken.use_count() != 1) return false;
            std::atomic_thread_fence(std::memory_order_acquire); // pairs with the releases of other owners
            return true;
        }
        state* state_;
        std::size_t most_; ///< it takes no more events than that
        shared_events events_;
        bool taken_ = false;
    };

    // Made before the coroutine suspends, with the memory that the wait takes: an exception thrown after that would
    // leave io_context::run().
    //
    // What a coroutine can wait for: for an event, in the consumer's waiter, which all waits for events share; or (see
    // parker) for something else, in a waiter of its own. park() keeps that waiter, or wakes it at once when there is
    // nothing to wait for.
    class event_wait {
    public:
        explicit event_wait(gift* to) : to_(to) {
            state* const s = to->state_;
            if (!s->can_wait_.load(std::memory_order_relaxed)) s->make_waiter();
        }
        template <class Handler>
        [[gnu::always_inline]] void operator()(Handler&& h) const {
            state* const s = to_->state_;
            for (bool came_back = false; !s->wait_for_event(h, to_); came_back = true) {
                if (came_back) return detail::wake(detail::make_waiter(std::forward<Handler>(h))); // to look again
                s->come_back();
            }
        }

    private:
        gift* to_;
    };
    template <class Handler>
    [[gnu::always_inline]] bool wait_for_event(Handler& h, gift* to) {
        const guard lock(mutex_);
        if (!drained() && (initial_ || !nothing_pending() || closed_ || ended_)) return false;
        if (!consumer_->idle()) return false; // a second consumer, or one that is woken but not resumed yet
        in_hand_ = false;
        gift_ = to;
        gift_most_ = to->most_;
        given_ = false;
        consumer_->wait(std::move(h));
        return true;
    }
    void make_waiter();
    void make_room_for_sync_waiter();
    void give_back(shared_events events) noexcept;
    void restore_returned(aftermath& a);
    void come_back();
    enum class wait { room, synced };
    class parker {
    public:
        parker(state* s, wait w) : state_(s), wait_(w) {
            if (w == wait::synced) s->make_room_for_sync_waiter();
        }
        void operator()(detail::waiter_ptr w) const { state_->park(wait_, std::move(w)); }

    private:
        state* state_;
        wait wait_;
    };
    void park(wait w, detail::waiter_ptr p);
    static asio::awaitable<void> synced_of(std::shared_ptr<state> s);
    static asio::awaitable<void> room_of(std::shared_ptr<state> s);

    // First what every event touches, close together in memory: with many listeners it is not in the nearest cache.
    mutable detail::spin_lock mutex_;
    bool in_hand_ = false; // the consumer has not come back since it was handed an event
    bool ended_ = false;
    bool given_ = false;   // to the consumer that waited last
    const bool wants_all_; // it has no namespace
    std::atomic<bool> closed_{false};
    std::atomic<bool> synced_{false};
    std::atomic<bool> drained_{false};
    std::atomic<bool> can_wait_{false}; // there is a waiter
    std::size_t queued_ = 0;            // without hidden marks
    std::size_t peak_ = 0;
    std::uint64_t delivered_ = 0;
    std::uint64_t next_sequence_ = 1;
    std::uint64_t gift_sequence_ = 0;                // that of the last gift's first event
    detail::waiter_ptr consumer_;                    // made when it is first needed
    gift* gift_ = nullptr;                           // of the consumer that waits there
    std::size_t gift_most_ = 0;                      // so many events fit into it
    std::unique_ptr<detail::object_cursor> initial_; // what is left of a late subscriber's initial state
    entries pending_;
    std::vector<segment> segments_;      // behind pending_
    shared_events returned_;             // before pending_: a gift that came back when others were there
    const subscription_options options_; // of it, the first two members
    const std::uint64_t hash_seed_;
    detail::waiter_ptr producer_;
    // the last pending event of each key; made when first needed, and kept until nothing is pending
    std::optional<index> by_key_;
    std::vector<detail::waiter_ptr> sync_waiters_;
    std::shared_ptr<const std::string> why_ended_;
    std::uint64_t coalesced_ = 0;
    bool discarded_ = false;      // by close()
    std::size_t marks_ = 0;       // in pending_
    entries::iterator last_mark_; // if there are any
};

/// Hands the events to a consumer that waits, if its gift takes so many. While it waits there is nothing else to take:
/// whatever comes or ends claims it under the same mutex. Inline: each listener that is woken singly costs this.
inline bool subscription::state::give(const shared_events& events, detail::wake_list& to_wake) {
    const std::size_t n = events->size();
    assert(n > 0);
    if (n > gift_most_ || !to_wake.add(*consumer_)) return false;
    assert(!initial_ && nothing_pending() && !closed_ && !ended_);
    gift_->events_ = events;
    given_ = in_hand_ = true;
    gift_sequence_ = next_sequence_;
    next_sequence_ += n;
    peak_ = std::max(peak_, n);
    delivered_ += n;
    drained_.store(true, std::memory_order_relaxed);
    return true;
}

} // namespace informer
