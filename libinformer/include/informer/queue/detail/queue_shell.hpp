// What a work queue needs from its environment: a lock, waiting coroutines, one timer, metrics. Not a template.
#pragma once

#include <informer/detail/spin_lock.hpp>
#include <informer/queue/detail/item_table.hpp>
#include <informer/runtime.hpp>

#include <boost/asio/awaitable.hpp>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace informer::detail {

class waiter;
class series_share;
class queue_timer;
class ticket_line;

/// A coroutine that waits for an answer of the queue. Lives in that coroutine's frame.
class queue_ticket {
public:
    queue_ticket() = default;
    queue_ticket(const queue_ticket&) = delete;
    queue_ticket& operator=(const queue_ticket&) = delete;

    // Under the queue's lock.
    item_index handed = no_item;
    bool answered = false;
    ticket_line* line = nullptr; ///< where it waits
    queue_ticket *next = nullptr, *previous = nullptr;
    std::shared_ptr<detail::waiter> waiter;
};

/// First come, first served.
class ticket_line {
public:
    bool empty() const noexcept { return head_ == nullptr; }
    queue_ticket* front() const noexcept { return head_; }
    void push(queue_ticket& t) noexcept;
    static void leave(queue_ticket& t) noexcept; ///< wherever it waits

private:
    queue_ticket *head_ = nullptr, *tail_ = nullptr;
};

/// What one locked section leaves to report to the metrics sink.
class queue_report {
public:
    std::uint64_t added = 0, retried = 0;
    std::vector<double> waited, worked; ///< seconds
};

class queue_shell : public std::enable_shared_from_this<queue_shell> {
public:
    using time_point = informer::clock::time_point;
    queue_shell(runtime rt, std::string name);
    queue_shell(const queue_shell&) = delete;
    queue_shell& operator=(const queue_shell&) = delete;
    virtual ~queue_shell();

protected:
    static constexpr informer::clock::duration tick =
        std::chrono::milliseconds(500);       ///< client-go's, for unfinished work
    static constexpr std::size_t slice = 256; ///< items that one locked section moves at most

    /// What must be done once the lock is free again.
    class aftermath {
    public:
        explicit aftermath(queue_shell& s) noexcept : shell_(s) {}
        aftermath(const aftermath&) = delete;
        aftermath& operator=(const aftermath&) = delete;
        ~aftermath() {
            if (any()) shell_.carry_out(*this);
        }
        /// the waiter to wake; usually the only one, and there is always room for one
        std::shared_ptr<detail::waiter> first;
        std::vector<std::shared_ptr<detail::waiter>> wake; ///< the others
        std::unique_ptr<queue_report> report;
        std::shared_ptr<queue_shell> last; ///< the queue itself, if nobody else may hold it any more
        bool arm = false;
        /// Makes room for one more waiter to wake; false: no memory.
        bool make_room() noexcept {
            if (!first) return true;
            try {
                if (wake.size() == wake.capacity()) wake.reserve(2 * wake.size() + 1);
                return true;
            } catch (const std::bad_alloc&) {
                return false;
            }
        }
        void add(std::shared_ptr<detail::waiter>&& w) noexcept {
            if (first)
                wake.push_back(std::move(w));
            else
                first = std::move(w);
        }
        bool any() const noexcept { return arm || report || first; }

    private:
        queue_shell& shell_;
    };
    using guard = std::lock_guard<spin_lock>;

    bool timed() const noexcept { return sink_ != nullptr; }
    /// The current time if figures are wanted.
    time_point stamp() const { return sink_ != nullptr ? rt_.clock().now() : time_point(); }
    queue_report& report_of(aftermath& a) const;
    const runtime& world() const noexcept { return rt_; }
    const std::string& name() const noexcept { return name_; }

    /// Answers a waiting coroutine; call `make_room` before. Under the lock.
    static void answer(ticket_line& line, item_index handed, aftermath& a) noexcept;
    /// Answers all of them; false: there was no memory for that. Under the lock.
    static bool answer_all(ticket_line& line, aftermath& a) noexcept {
        while (!line.empty()) {
            if (!a.make_room()) return false;
            answer(line, no_item, a);
        }
        return true;
    }
    /// Suspends until the ticket is answered (true) or the caller is cancelled (false).
    static asio::awaitable<bool> wait(std::shared_ptr<queue_shell> s, queue_ticket* t);
    /// The timer must ring at `when`. Under the lock.
    void need(time_point when, aftermath& a) noexcept {
        if (when >= armed_) return;
        armed_ = when;
        a.arm = true;
    }
    /// The timer must look again. Under the lock.
    void poke(aftermath& a) noexcept {
        if (armed_ != time_point::max()) a.arm = true;
    }
    /// The timer rang, or must look again: does what is due, and returns when it must ring next (`max()`: never).
    virtual time_point ring(time_point now) = 0;
    void rings_at(time_point when) noexcept { armed_ = when; } ///< under the lock, by ring()
    time_point rings_at() const noexcept { return armed_; }

    void publish_unfinished(double all, double oldest) noexcept;
    void publish_depth(std::size_t depth) noexcept {
        depth_.store(depth, std::memory_order_relaxed);
    } ///< under the lock

    mutable spin_lock lock_;

private:
    friend class queue_timer;
    class parker;
    void carry_out(aftermath& a) noexcept;
    /// The timer could not begin, or its context goes: the next call that needs it, or that waits, must start it.
    void timer_lost() noexcept {
        const guard lock(lock_);
        armed_ = time_point::max();
    }
    /// `ring`; if that fails, it is tried again after a tick.
    time_point ring_anyway(time_point now);
    void complain(std::string_view what) noexcept;
    void publish(const queue_report& r) noexcept;
    void tell_depth() noexcept;
    void park(queue_ticket& t, const std::shared_ptr<detail::waiter>& w);

    const runtime rt_;
    const std::string name_;
    metrics_sink* const sink_; ///< null: nobody wants figures, and none are made
    const std::unique_ptr<series_share> series_;
    std::atomic<std::size_t> depth_{0};
    std::atomic<std::size_t> untold_{0};   ///< changes of depth_ not told to the sink; the thread that makes it 1 tells
    time_point armed_ = time_point::max(); ///< when the timer rings, or is about to be told to
    std::shared_ptr<queue_timer> timer_;   ///< while it runs; used on the runtime's executor only
    bool failing_ = false;                 ///< the timer's last ring failed; likewise
};

} // namespace informer::detail
