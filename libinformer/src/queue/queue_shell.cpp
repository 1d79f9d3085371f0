#include <informer/queue/detail/queue_shell.hpp>

#include "root/executor_home.hpp"
#include "root/parking.hpp"
#include "root/series.hpp"

#include <informer/detail/async.hpp>
#include <informer/task_group.hpp>

#include <boost/asio/post.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <array>
#include <utility>

namespace informer::detail {

void ticket_line::push(queue_ticket& t) noexcept {
    t.line = this;
    t.previous = tail_;
    t.next = nullptr;
    (tail_ != nullptr ? tail_->next : head_) = &t;
    tail_ = &t;
}

void ticket_line::leave(queue_ticket& t) noexcept {
    ticket_line* const from = std::exchange(t.line, nullptr);
    if (from == nullptr) return;
    (t.previous != nullptr ? t.previous->next : from->head_) = t.next;
    (t.next != nullptr ? t.next->previous : from->tail_) = t.previous;
}

/// The one coroutine that sleeps for all delayed items of a queue; it ends when there is nothing to wait for. What
/// depends on the executor lives no longer than its frame, since the queue, which items and triggers may hold, can
/// outlive the context.
class queue_timer {
public:
    explicit queue_timer(const asio::any_io_executor& e) : event_(e), group_(e) {}

    /// Starts the timer, or makes it look again. On the runtime's executor.
    static void poke(const std::shared_ptr<queue_shell>& s) {
        try {
            if (s->timer_) {
                s->timer_->event_.notify();
                return;
            }
            const auto timer = s->timer_ = std::make_shared<queue_timer>(s->rt_.executor());
            timer->group_.spawn(run(frame(s)));
        } catch (...) { // no memory
            s->timer_lost();
        }
    }

private:
    class frame {
    public:
        explicit frame(std::shared_ptr<queue_shell> s) noexcept : shell(std::move(s)) {}
        frame(frame&&) noexcept = default;
        frame& operator=(frame&&) = delete;
        ~frame() {
            if (!shell) return;
            if (!ended) shell->timer_lost();
            shell->timer_.reset();
        }
        std::shared_ptr<queue_shell> shell;
        bool ended = false;
    };

    static asio::awaitable<void> run(frame f) {
        queue_shell& s = *f.shell;
        const auto executor = co_await asio::this_coro::executor;
        try {
            for (;;) {
                const informer::clock::time_point now = s.rt_.clock().now();
                const informer::clock::time_point when = s.ring_anyway(now);
                if (when == informer::clock::time_point::max()) break;
                if (when <= now) { // more is due than fits into a slice: others may run in between
                    co_await asio::post(executor, asio::use_awaitable);
                    continue;
                }
                co_await s.timer_->event_.wait_until(s.rt_.clock(), when);
            }
            f.ended = true;
        } catch (...) { // no memory for the wait, or the user's clock threw
            if (is_cancellation(std::current_exception())) throw;
            s.complain("the timer of delayed keys ended, and begins anew with the next request or getter");
        }
    }

    async_event event_;
    task_group group_;
};

queue_shell::queue_shell(runtime rt, std::string name)
    : rt_(std::move(rt)), name_(std::move(name)), sink_(name_.empty() ? nullptr : rt_.metrics()),
      series_(std::make_unique<series_share>(sink_, "queue", name_)) {
    // A counter that appears with its first event hides that event from `increase()`.
    if (sink_ == nullptr) return;
    for (const auto* counter : {"workqueue_adds_total", "workqueue_retries_total"})
        sink_->add(counter, 0, {{"name", name_}});
}

queue_shell::~queue_shell() {
    if (!series_->leave()) return;
    constexpr std::array gauges = {"workqueue_depth", "workqueue_unfinished_work_seconds",
                                   "workqueue_longest_running_processor_seconds"};
    constexpr std::array others = {"workqueue_adds_total", "workqueue_retries_total",
                                   "workqueue_queue_duration_seconds", "workqueue_work_duration_seconds"};
    const metrics_sink::label name("name", name_);
    end_gauges(*sink_, gauges, {name});
    end_series(*sink_, others, {name});
}

/// In a catch block.
void queue_shell::complain(std::string_view what) noexcept {
    try {
        rt_.log(log_level::error, "work queue " + name_ + ": " + std::string(what) + ": " + what_is_wrong());
    } catch (...) { // NOLINT(bugprone-empty-catch) no memory for the words
    }
}

queue_shell::time_point queue_shell::ring_anyway(time_point now) {
    try {
        const time_point next = ring(now);
        failing_ = false;
        return next;
    } catch (...) {
        if (!std::exchange(failing_, true)) complain("keys that are due wait for memory");
        const guard lock(lock_);
        return armed_ = now + tick;
    }
}

queue_report& queue_shell::report_of(aftermath& a) const {
    if (!a.report) a.report = std::make_unique<queue_report>();
    return *a.report;
}

void queue_shell::answer(ticket_line& line, item_index handed, aftermath& a) noexcept {
    queue_ticket& t = *line.front();
    if (t.waiter) a.add(std::move(t.waiter));
    ticket_line::leave(t);
    t.handed = handed;
    t.answered = true;
}

void queue_shell::park(queue_ticket& t, const std::shared_ptr<detail::waiter>& w) {
    {
        const guard lock(lock_);
        if (!t.answered) {
            t.waiter = w;
            return;
        }
    }
    detail::wake(w);
}

class queue_shell::parker {
public:
    parker(std::shared_ptr<queue_shell> s, queue_ticket* t) : shell_(std::move(s)), ticket_(t) {}
    void operator()(const waiter_ptr& w) const { shell_->park(*ticket_, w); }

private:
    std::shared_ptr<queue_shell> shell_;
    queue_ticket* ticket_;
};

asio::awaitable<bool> queue_shell::wait(std::shared_ptr<queue_shell> s, queue_ticket* t) {
    parker park(std::move(s), t);
    const bool woken = co_await wait_parked(std::move(park));
    co_return woken;
}

void queue_shell::carry_out(aftermath& a) noexcept {
    if (a.first) wake_soon([&] { detail::wake(a.first); });
    if (!a.wake.empty()) wake_soon([&] { detail::wake_all(a.wake); });
    try {
        if (a.arm) home_of(rt_).post([s = shared_from_this()] { queue_timer::poke(s); });
    } catch (...) {
        timer_lost(); // the next call that needs it arms it
    }
    if (a.report) publish(*a.report);
}

// A runtime's sink does not throw.
void queue_shell::publish(const queue_report& r) noexcept {
    const metrics_sink::label name("name", name_);
    if (r.added != 0) sink_->add("workqueue_adds_total", static_cast<double>(r.added), {name});
    if (r.retried != 0) sink_->add("workqueue_retries_total", static_cast<double>(r.retried), {name});
    for (const double s : r.waited) sink_->observe("workqueue_queue_duration_seconds", s, {name});
    for (const double s : r.worked) sink_->observe("workqueue_work_duration_seconds", s, {name});
    if (untold_.fetch_add(1, std::memory_order_acq_rel) == 0) tell_depth();
}

/// In one thread at a time, and under no lock: the sink may use the queue. A thread that comes meanwhile leaves it to
/// the first one to go round again, so the gauge ends with the last value. After some rounds the executor goes on, so
/// that a busy queue does not hold up the calling thread.
void queue_shell::tell_depth() noexcept {
    constexpr int most_rounds = 16;
    const metrics_sink::label name("name", name_);
    for (int round = 1;; ++round) {
        const std::size_t telling = untold_.load(std::memory_order_acquire);
        sink_->set("workqueue_depth", static_cast<double>(depth_.load(std::memory_order_relaxed)), {name});
        if (untold_.fetch_sub(telling, std::memory_order_acq_rel) == telling) return;
        if (round % most_rounds != 0) continue;
        try {
            if (home_of(rt_).post([s = shared_from_this()] { s->tell_depth(); })) return;
        } catch (...) { // NOLINT(bugprone-empty-catch) no memory: then this thread goes on
        }
    }
}

void queue_shell::publish_unfinished(double all, double oldest) noexcept {
    if (sink_ == nullptr) return;
    const metrics_sink::label name("name", name_);
    sink_->set("workqueue_unfinished_work_seconds", all, {name});
    sink_->set("workqueue_longest_running_processor_seconds", oldest, {name});
}

} // namespace informer::detail
