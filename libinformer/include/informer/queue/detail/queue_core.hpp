// The rules of a queue, behind its lock.
#pragma once

#include <informer/detail/counted.hpp>
#include <informer/error.hpp>
#include <informer/queue/detail/queue_shell.hpp>
#include <informer/queue/queue_state.hpp>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/this_coro.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace informer {

class work_queue_options;
class work_queue_figures;
template <class Key, class Hash, class Equal>
class work_item;

namespace detail {

template <class Key, class Hash, class Equal>
class queue_core final : public queue_shell {
    using state = queue_state<Key, Hash, Equal>;
    using duration = std::chrono::nanoseconds;

public:
    using item = work_item<Key, Hash, Equal>;
    using left_over = std::vector<delayed_item<Key>>;

    template <class Options, class Group>
    queue_core(runtime rt, Options options, Group group_by)
        : queue_shell(std::move(rt), std::move(options.name_)),
          state_(options.limiter_ ? std::move(options.limiter_) : default_controller_rate_limiter(), options.ageing_,
                 std::move(group_by), timed()) {}

    // ---- requests ---------------------------------------------------------------------------------------------------
    template <class K>
    void add(const K& key, int priority) {
        const time_point now = stamp();
        aftermath a(*this);
        const guard lock(lock_);
        if (state_.add(key, priority, now)) settle(a, now);
    }
    template <class K>
    void add_after(const K& key, duration d, int priority) {
        const time_point now = world().clock().now();
        aftermath a(*this);
        const guard lock(lock_);
        if (state_.is_shut_down()) return;
        retry(a);
        if (d.count() <= 0) {
            state_.add(key, priority, now);
        } else {
            state_.add_at(key, state::later(now, d), priority);
        }
        settle(a, now);
    }
    template <class K>
    duration add_rate_limited(const K& key, int priority) {
        const time_point now = world().clock().now();
        aftermath a(*this);
        const guard lock(lock_);
        const auto d = state_.add_rate_limited(key, priority, now);
        if (!d) return duration(0);
        retry(a);
        settle(a, now);
        return *d;
    }
    template <class K>
    void forget(const K& key) {
        const guard lock(lock_);
        const item_index i = state_.find(key);
        if (i != no_item) state_.forget(i);
    }
    template <class K>
    std::uint32_t num_requeues(const K& key) const {
        const guard lock(lock_);
        const item_index i = state_.find(key);
        return i == no_item ? 0 : state_.requeues_of(i);
    }

    // ---- of an item in processing -----------------------------------------------------------------------------------
    void request(item_index i, int priority) {
        const time_point now = stamp();
        aftermath a(*this);
        const guard lock(lock_);
        state_.request(i, priority, now);
        settle(a, now);
    }
    void delay(item_index i, duration d, int priority) {
        const time_point now = world().clock().now();
        aftermath a(*this);
        const guard lock(lock_);
        if (state_.is_shut_down()) return;
        retry(a);
        if (d.count() <= 0) {
            state_.request(i, priority, now);
        } else {
            state_.delay(i, state::later(now, d), priority);
        }
        settle(a, now);
    }
    duration limit(item_index i, int priority) {
        const time_point now = world().clock().now();
        aftermath a(*this);
        const guard lock(lock_);
        const auto d = state_.limit(i, priority, now);
        if (!d) return duration(0);
        retry(a);
        settle(a, now);
        return *d;
    }
    void forget_item(item_index i) {
        const guard lock(lock_);
        state_.forget(i);
    }
    std::uint32_t requeues_of(item_index i) const {
        const guard lock(lock_);
        return state_.requeues_of(i);
    }
    void finish(item_index i) {
        const time_point now = stamp();
        aftermath a(*this);
        const guard lock(lock_);
        const end_of_handle ends(*this, a);
        finish_locked(i, now, a);
    }
    /// The destructor of a handle.
    void drop(item_index i, int priority, bool seen) noexcept {
        if (seen) return finish(i);
        const time_point now = stamp();
        aftermath a(*this);
        const guard lock(lock_);
        const end_of_handle ends(*this, a);
        state_.give_back(i, priority);
        settle(a, now);
    }
    /// The handle ends, the item stays in processing.
    void detach(item_index i) {
        aftermath a(*this);
        const guard lock(lock_);
        const end_of_handle ends(*this, a);
        state_.release(i);
    }
    template <class K>
    void done(const K& key) {
        const time_point now = stamp();
        aftermath a(*this);
        const guard lock(lock_);
        const item_index i = state_.find(key);
        if (i != no_item && state_.released(i)) finish_locked(i, now, a); // else its handle ends it
    }

    // ---- hand-outs --------------------------------------------------------------------------------------------------
    item try_get() {
        const time_point now = stamp();
        aftermath a(*this);
        const guard lock(lock_);
        return next_item(now, a);
    }
    std::size_t try_get_batch(std::vector<item>& into, std::size_t max) {
        const time_point now = stamp();
        into.reserve(into.size() + std::min(max, size()));
        aftermath a(*this);
        const guard lock(lock_);
        return fill(into, max, now, a);
    }
    static asio::awaitable<item> get_one(std::shared_ptr<queue_core> c) {
        const asio::cancellation_state asked = co_await asio::this_coro::cancellation_state;
        // Checked before anything is taken.
        if (asked.cancelled() != asio::cancellation_type::none) throw c->cancelled();
        getter t(*c);
        item one = c->take_or_wait(t);
        if (!t.waiting) co_return one;
        co_await wait(c, &t);
        co_return c->taken(t);
    }
    static asio::awaitable<std::vector<item>> get_many(std::shared_ptr<queue_core> c, std::size_t max) {
        std::vector<item> many;
        item first = co_await get_one(c);
        if (!first) co_return many;
        many.push_back(std::move(first));
        if (max > 1) c->try_get_batch(many, max - 1);
        co_return many;
    }

    // ---- the end ----------------------------------------------------------------------------------------------------
    left_over shut_down() {
        begin_end(false);
        aftermath a(*this);
        const guard lock(lock_);
        if (!answer_all(drainers_, a)) again_soon(a);
        return std::move(left_);
    }
    static asio::awaitable<left_over> drain(std::shared_ptr<queue_core> c) {
        c->begin_end(true); // not in `drained`: if the caller was cancelled, that does not begin
        return drained(std::move(c));
    }
    static asio::awaitable<left_over> drained(std::shared_ptr<queue_core> c) {
        const asio::cancellation_state asked = co_await asio::this_coro::cancellation_state;
        if (asked.cancelled() != asio::cancellation_type::none) throw c->cancelled();
        getter t(*c);
        if (!c->join_drainers(t)) {
            co_await wait(c, &t);
            if (!c->was_answered(t)) throw c->cancelled();
        }
        co_return c->take_left();
    }
    /// The queue object is destroyed.
    void close() noexcept {
        give_up();
        aftermath a(*this);
        const guard lock(lock_);
        if (!answer_all(drainers_, a)) again_soon(a);
        closed_ = true;
        if (handles_ != 0) self_ = this->shared_from_this();
    }
    bool is_shut_down() const {
        const guard lock(lock_);
        return state_.is_shut_down();
    }

    std::size_t size() const {
        const guard lock(lock_);
        return state_.ready();
    }
    auto figures() const { return figures_as<work_queue_figures>(); }

private:
    // A ticket that gives back the item it was handed if nobody took it.
    class getter : public queue_ticket {
    public:
        explicit getter(queue_core& c) noexcept : core_(c) {}
        ~getter() {
            if (waiting) core_.abandon(*this);
        }
        bool waiting = false; ///< used by its coroutine alone

    private:
        queue_core& core_;
    };

    // Its destructor is the last thing done under the lock: once the lock is free, the queue may be gone.
    class end_of_handle {
    public:
        end_of_handle(queue_core& c, aftermath& a) noexcept : core_(c), a_(a) {}
        end_of_handle(const end_of_handle&) = delete;
        end_of_handle& operator=(const end_of_handle&) = delete;
        ~end_of_handle() {
            if (--core_.handles_ == 0 && core_.self_)
                a_.last = std::move(core_.self_);
            else if (a_.any()) // another handle may be the last one to end before `a` is carried out
                a_.last = core_.shared_from_this();
        }

    private:
        queue_core& core_;
        aftermath& a_;
    };

    template <class Figures>
    Figures figures_as() const {
        Figures f;
        const guard lock(lock_);
        f.ready = state_.ready();
        f.delayed = state_.delayed();
        f.processing = state_.processing();
        f.marked = state_.dirty();
        f.known = state_.known();
        f.added = state_.added();
        f.retried = retried_;
        f.bytes = sizeof(*this) + state_.bytes();
        return f;
    }

    // ---- under the lock ---------------------------------------------------------------------------------------------
    item handle(item_index i, int priority) noexcept {
        ++handles_;
        // For a getter that was answered before `close`: its frame, which holds the queue, is about to go.
        if (closed_ && !self_) [[unlikely]]
            self_ = this->shared_from_this();
        return item(this, i, &state_.key_of(i), priority);
    }
    item_index take(time_point now, aftermath& a) {
        item_index i = state_.take(now);
        if (i == no_item && state_.delayed() != 0) { // the timer may be late
            const time_point due = world().clock().now();
            if (due < state_.next_due()) return i;
            state_.advance(due, slice);
            settle(a, due); // waiting getters come first
            i = state_.take(now);
        }
        if (i != no_item && timed()) took(i, now, a);
        return i;
    }
    item next_item(time_point now, aftermath& a) {
        const item_index i = take(now, a);
        if (i == no_item) return item();
        return handle(i, state_.priority_of(i));
    }
    std::size_t fill(std::vector<item>& into, std::size_t max, time_point now, aftermath& a) {
        std::size_t taken = 0;
        for (; taken < max && into.size() < into.capacity(); ++taken) {
            item one = next_item(now, a);
            if (!one) break;
            into.push_back(std::move(one));
        }
        return taken;
    }
    void took(item_index i, time_point now, aftermath& a) {
        const std::chrono::duration<double> waited = now - state_.times_of(i).added;
        note([&] { report_of(a).waited.push_back(std::max(0.0, waited.count())); });
        count(a, now);
    }
    void retry(aftermath& a) {
        ++retried_;
        if (timed()) note([&] { ++report_of(a).retried; });
    }
    /// A figure is not worth a key: if there is no memory for it, the figure is lost and the work goes on.
    template <class F>
    static void note(F f) noexcept {
        try {
            f();
        } catch (const std::bad_alloc&) { // NOLINT(bugprone-empty-catch)
        }
    }
    void finish_locked(item_index i, time_point now, aftermath& a) {
        if (timed()) {
            const std::chrono::duration<double> worked = now - state_.times_of(i).started;
            note([&] { report_of(a).worked.push_back(std::max(0.0, worked.count())); });
        }
        state_.finish(i);
        settle(a, now);
    }
    // Something changed: serves those that wait for it.
    void settle(aftermath& a, time_point now) {
        state_.line_up_ended();
        bool room = state_.ended() == 0; // made before anything is taken
        while (!getters_.empty() && state_.ready() != 0) {
            if (!a.make_room()) {
                room = false;
                break;
            }
            hand_out(a, now);
        }
        if (state_.is_shut_down()) room = settle_end(a) && room;
        need(state_.next_due(), a);
        if (!room) again_soon(a);
        if (timed()) count(a, now);
    }
    /// There was no memory to wake a waiter, or for a place in line: the timer looks again.
    void again_soon(aftermath& a) { need(state::later(world().clock().now(), tick), a); }
    void hand_out(aftermath& a, time_point now) {
        const item_index i = state_.take(now);
        if (timed()) took(i, now, a);
        state_.promise(i);
        answer(getters_, i, a);
    }
    /// A key that was asked for while it is worked on is handed out once more before a drained queue ends. (If the
    /// queue was merely shut down, those who wait are not held up by a key that its worker may never finish.)
    bool is_over() const noexcept {
        return state_.is_shut_down() && state_.ready() == 0 && !(draining_ && state_.dirty() != 0);
    }
    bool settle_end(aftermath& a) {
        if (!is_over()) return true;
        if (!answer_all(getters_, a)) return false;
        return state_.processing() != 0 || answer_all(drainers_, a);
    }
    void count(aftermath& a, time_point now) {
        note([&] { report_of(a).added += state_.added() - std::exchange(reported_, state_.added()); });
        publish_depth(state_.ready() + state_.dirty()); // client-go's: what was added and not handed out since
        if (state_.processing() == 0 || state_.is_shut_down() || next_tick_ != time_point::max()) return;
        next_tick_ = now + tick;
        need(next_tick_, a);
    }

    // ---- steps of coroutines ----------------------------------------------------------------------------------------
    item take_or_wait(getter& t) {
        const time_point now = stamp();
        aftermath a(*this);
        const guard lock(lock_);
        item one = next_item(now, a);
        if (one || is_over()) return one;
        getters_.push(t);
        t.waiting = true;
        need(state_.next_due(), a); // the timer may have ended for lack of memory
        if (state_.ended() != 0) again_soon(a);
        return one;
    }
    item taken(getter& t) {
        const guard lock(lock_);
        if (!t.answered) throw cancelled();
        t.waiting = false;
        if (t.handed == no_item) return item();
        state_.begin(t.handed);
        return handle(t.handed, state_.priority_of(t.handed)); // may have risen
    }
    bool join_drainers(getter& t) {
        const guard lock(lock_);
        if (state_.ready() == 0 && state_.processing() == 0) return true;
        drainers_.push(t);
        t.waiting = true;
        return false;
    }
    bool was_answered(getter& t) {
        const guard lock(lock_);
        return t.answered;
    }
    void abandon(getter& t) noexcept {
        aftermath a(*this);
        const guard lock(lock_);
        ticket_line::leave(t);
        if (t.handed == no_item) return;
        state_.give_back(t.handed, state_.priority_of(t.handed));
        settle(a, stamp());
    }
    error cancelled() const { return error(errc::cancelled, name().empty() ? "work queue" : "work queue " + name()); }

    /// `drains`: somebody waits for the work on all keys that were asked for.
    void begin_end(bool drains) {
        give_up_delayed(
            drains, [this](const Key& key, time_point due, int priority) { left_.emplace_back(key, due, priority); });
    }
    /// The same without keeping what is given up: nobody can ask for it any more.
    void give_up() noexcept {
        give_up_delayed(false, [](const Key&, time_point, int) {});
    }
    template <class Take>
    void give_up_delayed(bool drains, const Take& take) {
        std::size_t given_up = 0;
        bool first = false;
        for (bool more = true; more;) {
            aftermath a(*this);
            const guard lock(lock_);
            first = first || !state_.is_shut_down();
            state_.shut_down();
            draining_ = drains;
            const std::size_t before = state_.delayed();
            more = state_.give_up_delayed(take, slice);
            given_up += before - state_.delayed();
            settle(a, stamp()); // also hands out a key for which there was no memory before
            if (!more) poke(a);
        }
        if (!first || given_up == 0) return;
        note([&] {
            world().log(log_level::info, "work queue " + name() + ": shut down with " +
                                             counted(given_up, "delayed key") + ", which will not be handed out");
        });
    }
    left_over take_left() {
        const guard lock(lock_);
        return std::move(left_);
    }

    time_point ring(time_point now) override {
        std::pair<double, double> unfinished(0.0, 0.0);
        bool publish = false;
        time_point next = time_point::max();
        {
            aftermath a(*this);
            const guard lock(lock_);
            state_.advance(now, slice);
            rings_at(time_point::max());
            if (now >= next_tick_) {
                publish = true;
                unfinished = state_.unfinished(now);
                next_tick_ = time_point::max();
            }
            if (state_.is_shut_down()) next_tick_ = time_point::max();
            settle(a, now);
            a.arm = false;
            next = std::min(rings_at(), next_tick_); // what settling asked for
            rings_at(next);
        }
        if (publish) publish_unfinished(unfinished.first, unfinished.second);
        return next;
    }

    state state_;
    ticket_line getters_, drainers_;
    std::size_t handles_ = 0;           ///< live work items
    std::shared_ptr<queue_shell> self_; ///< when the queue object is gone and handles are not
    bool closed_ = false;               ///< the queue object is gone
    bool draining_ = false;             ///< shut down, by `drain()`
    left_over left_;                    ///< what was delayed at shutdown, until somebody asks for it
    std::uint64_t retried_ = 0, reported_ = 0;
    time_point next_tick_ = time_point::max(); ///< when figures of unfinished work are due
};

} // namespace detail
} // namespace informer
