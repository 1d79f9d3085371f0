// The queue between the stream and the cache: bounded, with one producer and one consumer.
#pragma once

#include <informer/object/object.hpp>
#include <informer/runtime.hpp>
#include <informer/source/list_watch.hpp>

#include <boost/asio/awaitable.hpp>

#include <cstddef>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

namespace informer {

namespace detail {
struct replacement; // a whole new state, collected from a list or from the initial events of a watch-list
class async_event;
} // namespace detail

/// One step from one state of the cache to the next.
class delta {
public:
    enum class kind {
        upsert,   ///< ADDED or MODIFIED; the cache's content decides which of them, as in client-go
        erase,    ///< DELETED
        foreign,  ///< of another part: not ours, and what had its name before is no longer ours either
        bookmark, ///< only the version advances
        replace,  ///< replaces everything at once
        bad,      ///< an event that could not be used
        resync,   ///< a subscriber's resync is due
        whole,    ///< all parts of a change have arrived
    };
    explicit delta(kind k) : what(k) {}

    kind what;
    watch_event_type type = watch_event_type::added;
    std::size_t part = 0; ///< of a change, counted from 1; 0: not part of a change
    object current;
    informer::resource_version version;       ///< of the event
    std::shared_ptr<detail::replacement> all; ///< of replace
    std::shared_ptr<const bad_object> bad;    ///< of bad
    clock::time_point received{};             ///< when it was read, if the lag is measured
};

/// Deltas on their way to the cache, in stream order; nothing is merged here.
///
/// *Executor*: producer and consumer run on the same executor. *Bound*: the producer pushes what it read in one slice
/// and then awaits `room()`, so the queue exceeds `capacity` by at most one slice, or one change
/// (`object_sink::begin_change`). *Cancellation*: any type; it ends the waits.
class delta_queue {
public:
    delta_queue(asio::any_io_executor executor, std::size_t capacity);
    ~delta_queue();
    delta_queue(const delta_queue&) = delete;
    delta_queue& operator=(const delta_queue&) = delete;

    /// False when the queue is closed.
    bool push(delta d);
    /// Waits until fewer than `capacity` deltas are queued; false when cancelled or closed.
    asio::awaitable<bool> room();
    /// Returns up to `max` deltas, and up to 1,000, at least one; empty when cancelled, or when closed and drained.
    asio::awaitable<std::vector<delta>> pop(std::size_t max);
    /// What is queued can still be popped; nothing more can be pushed.
    void close();

    std::size_t size() const noexcept { return size_; }
    std::size_t peak() const noexcept { return peak_; }
    std::size_t capacity() const noexcept { return capacity_; }

private:
    // In blocks, so that no waiting delta is moved when others come or go.
    std::deque<std::vector<delta>> full_;
    std::vector<delta> last_;
    std::size_t capacity_, size_ = 0, peak_ = 0;
    bool closed_ = false;
    std::unique_ptr<detail::async_event> filled_, drained_;
};

} // namespace informer
