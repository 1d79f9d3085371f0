// The inside of an informer: a producer (requests), a consumer (cache and events), and what they share.
#pragma once

#include "cache_data.hpp"
#include "event_shares.hpp"
#include "past_state.hpp"
#include "replacement.hpp"
#include "root/series.hpp"
#include "root/turn_watch.hpp"
#include "subscription_state.hpp"

#include <informer/cache/delta_queue.hpp>
#include <informer/cache/reflector.hpp>
#include <informer/cache/shared_informer.hpp>
#include <informer/detail/async.hpp>
#include <informer/task_group.hpp>

#include <atomic>
#include <deque>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace informer {

namespace detail {

/// What listers hold: the cache, which outlives the informer.
class cache_store final : public lister::source {
public:
    cache_store(const list_watch& from, std::uint64_t seed)
        : index(seed), name_(from.describe()), name_space_(from.name_space()), namespaced_(from.resource().namespaced) {
    }
    cache_snapshot snapshot() const override { return index.snapshot(); }
    object get(std::string_view name_space, std::string_view name) const override {
        return index.get(name_space, name);
    }
    bool has_synced() const noexcept override { return synced.load(std::memory_order_acquire); }
    std::string describe() const override { return name_; }
    bool namespaced() const noexcept override { return namespaced_; }
    std::string_view name_space() const noexcept override { return name_space_; }

    indexer index;
    std::atomic<bool> synced{false};

private:
    const std::string name_, name_space_;
    const bool namespaced_;
};

/// Measures how long the executor is held, and keeps the longest time.
class slice_watch {
public:
    using real = std::chrono::steady_clock;
    void begin() noexcept {
        if (!running_) start_ = real::now();
        running_ = true;
    }
    void end() noexcept {
        if (!running_) return;
        running_ = false;
        longest_ = std::max<std::chrono::nanoseconds>(longest_, real::now() - start_);
    }
    bool used_up() const noexcept { return running_ && real::now() - start_ >= longest_turn; }
    std::chrono::nanoseconds longest() const noexcept { return longest_; }

private:
    real::time_point start_{};
    std::chrono::nanoseconds longest_{};
    bool running_ = false;
};

} // namespace detail

struct shared_informer::handler_handle::state {
    state() = default;
    state(const state&) = delete;
    state& operator=(const state&) = delete;
    ~state() {
        if (from) from->close(subscription::pending_events::discard);
    }

    std::shared_ptr<subscription::state> from;
    /// The holder of a handle may be owned by the handler's functions, so these are released. Nor may a handle keep
    /// what was not delivered: that may be the whole cache.
    void let_go() {
        if (from) from->close(subscription::pending_events::discard);
        const auto filter = std::exchange(of, nullptr);
        const auto add = std::exchange(on_add, nullptr);
        const auto update = std::exchange(on_update, nullptr);
        const auto remove = std::exchange(on_delete, nullptr);
    }

    filter_function of; ///< empty: all objects pass
    add_function on_add;
    update_function on_update;
    delete_function on_delete;
    std::atomic<bool> synced{false}, removed{false};
    std::atomic<std::uint64_t> exceptions{0};
    std::atomic<std::size_t> in_hand{0}; ///< events of a portion that the next slice of calls goes on with

    /// What was taken out of the queue in one piece waits all the same, until the handler was called with it.
    subscription_figures figures() const {
        subscription_figures f = from->figures();
        const std::uint64_t taken = std::min<std::uint64_t>(in_hand.load(std::memory_order_relaxed), f.delivered);
        f.pending += taken;
        f.delivered -= taken;
        return f;
    }
    std::vector<std::string> logged; ///< kinds of exceptions that were logged
};

/// *Executor*: everything runs on the runtime's, except for what the mutex guards.
struct shared_informer::impl : std::enable_shared_from_this<shared_informer::impl> {
    impl(runtime r, std::shared_ptr<list_watch> source, informer_options o);
    ~impl();

    using self = std::shared_ptr<impl>;

    /// Everything that depends on the executor. It lives in the frame of run(), and so never longer than the executor's
    /// context, whatever becomes of the handles.
    struct machinery {
        explicit machinery(self s)
            : owner(std::move(s)), from(owner->from), queue(owner->rt.executor(), owner->options.queue_capacity_),
              tasks(owner->rt.executor()), stop_asked(owner->rt.executor()), handlers_due(owner->rt.executor()),
              replaced(owner->rt.executor()) {
            tasks.on_error([this](std::exception_ptr e) { // called by children, which are joined
                if (!failed) failed = std::move(e);
                stop_asked.notify();
            });
            owner->from.reset(); // from here on nothing can fail
            owner->live = this;
        }
        ~machinery() {
            owner->live = nullptr;
            if (!owner->ended) owner->end_early(); // dropped before it began, or the context is destroyed
            owner->news();                         // also if run() ended by an exception
            if (series.leave()) owner->end_metrics();
            owner->let_go();
            for (const auto& h : handlers) h->let_go();
        }
        machinery(const machinery&) = delete;
        machinery& operator=(const machinery&) = delete;

        self owner;
        std::shared_ptr<list_watch> from; ///< may hold timers and sockets of its own
        delta_queue queue;
        task_group tasks;
        detail::async_event stop_asked;           ///< a stop was asked for, or a child failed
        std::optional<detail::async_event> hurry; ///< while the next attempt is waited for
        std::exception_ptr failed;                ///< the first exception that left a child
        std::vector<std::shared_ptr<handler_handle::state>> handlers;
        detail::async_event handlers_due; ///< there may be events to call them with
        bool calling = false;             ///< the handlers' coroutine runs
        struct round {
            std::size_t who = 0;
            subscription::state::portion events; ///< of handler `who`
            const event* at = nullptr;           ///< the next event; null: events must be fetched
            bool more = false;                   ///< there is another round
            bool under_way = false;
        };
        round calls;        ///< where the last slice of calls ended
        bool going = false; ///< run() was resumed for the first time
        detail::series_share series;
        std::size_t replacing = 0;    ///< whole states on their way to the cache and the listeners
        detail::async_event replaced; ///< there may be none any more
    };
    using subscriber = std::shared_ptr<subscription::state>;

    // ---- shared_informer.cpp: life, waiting ------------------------------------------------------------------------
    static asio::awaitable<void> run(self s, std::shared_ptr<machinery> m);
    static asio::awaitable<void> synced(self s, clock::duration at_most);
    static asio::awaitable<void> wait_until(self s, informer::resource_version version, clock::duration at_most);
    static asio::awaitable<object> until(self s, object_key key, std::function<bool(const object&)> condition,
                                         clock::duration at_most);
    /// Looks at the state. Returns nothing (go on waiting), `errc{}` (what is waited for is there), or why it will
    /// never be.
    using look = std::function<std::optional<errc>()>;
    static asio::awaitable<void> wait_for(self s, std::string doing, clock::duration at_most, look at);
    static asio::awaitable<void> wait_for_news(self s, clock::time_point until);
    void stop();
    void end_early(); ///< without run(), which was never called or cannot go on
    void note_stopped() noexcept;
    std::string last_words() const; ///< the last error, if it still counts
    std::shared_ptr<const std::string> why_ended() const;
    [[noreturn]] void give_up(const std::string& doing, errc why) const;
    void news(); ///< wakes those that wait for a state of the cache
    void end_subscribers();
    void let_go();
    clock::time_point now() const { return rt.clock().now(); }

    // ---- shared_informer_status.cpp --------------------------------------------------------------------------------
    informer_status status() const;
    informer_phase phase() const noexcept;
    bool note_phase(); ///< true: it changed, and observers were told
    std::chrono::system_clock::time_point wall_of(clock::time_point t) const; ///< `t` may mean never
    void note_next_attempt();
    std::string when_again() const; ///< "in 1.3 s"
    void report(std::string_view phase, const failure& f);
    template <class F, class... Arguments>
    void tell(F informer_observer::*what, const Arguments&... arguments);
    void tell_state();
    void tell_bad(const bad_object& b);
    void refresh_figures();
    void note_held_up_by(std::string who);
    void note_confirmed();
    void note_depth() const; ///< of the queue
    void note_slowest_listener() const;
    void note_index_errors();
    bool is_told(const std::string& where, const failure& f, bool failing); ///< in the log, in these words or nearly so
    failure out_of_memory() const { return failure(errc::pool_full, name + ": out of memory"); }
    void forget_error(); ///< under the mutex
    void forget_old_error();
    void count(std::string_view counter, double n) const;
    void count(std::string_view counter, double n, std::string_view label, std::string_view value) const;
    void gauge(std::string_view name, double value) const;
    void begin_metrics();
    void end_metrics() const;

    // ---- shared_informer_producer.cpp, shared_informer_sink.hpp -----------------------------------------------------
    class sink;
    struct request;
    struct change;
    static asio::awaitable<void> produce(self s);
    static asio::awaitable<void> perform(self s, std::shared_ptr<list_watch> from, reflector::action a,
                                         std::shared_ptr<request> r);
    static asio::awaitable<void> guard(self s, std::shared_ptr<request> r);
    void count_request(const reflector::action& a);
    static asio::awaitable<bool> until_done(self s, reflector::action a, std::shared_ptr<request> r);
    failure list_ended(failure why, const list_result& result);
    failure watch_ended(const failure& why, bool broken);
    void tell_source(watch_list_support known_before);
    static asio::awaitable<bool> carry_out(self s, reflector::action a);
    bool collecting() const noexcept; ///< a new state is being collected
    void replace_by(std::shared_ptr<detail::replacement> all);
    static asio::awaitable<bool> wait_until_replaced(self s);
    void tell_absence(bool proven); ///< `proven`: by the state that was applied last
    void doubt_state();             ///< a watch contradicts the cache

    // ---- shared_informer_consumer.cpp ------------------------------------------------------------------------------
    static asio::awaitable<void> consume(self s);
    static asio::awaitable<void> apply_all(self s, std::deque<delta>& parts, detail::event_shares& events);
    static asio::awaitable<void> show(self s, detail::event_shares events);
    subscriber take_resync_due();
    static asio::awaitable<void> breathe(self s);
    void count_deltas(const std::vector<delta>& batch);
    void apply(const delta& d, detail::event_shares& events);
    void upsert(const object& o, const indexer::place& there, const informer::resource_version& version,
                event_reason why, bool guarded, detail::event_shares& events);
    bool is_of_old_epoch(const object_key& key) const { return !of_old_epoch.empty() && of_old_epoch.contains(key); }
    /// True for an event from the end of the previous watch, which a resumed watch may repeat; `known`: the version of
    /// `before`. If that is beyond all that the server has reported, it proves nothing: it would keep out each later
    /// change.
    bool is_repetition(const informer::resource_version& version, const informer::resource_version& known,
                       const object& before) const {
        return version < known && (unversioned || !(machine.version() < known)) && !is_of_old_epoch(before.key());
    }
    void forget(const object_key& key); ///< the object is gone
    void quarantine(const bad_object& b, bool logged = true);
    void clear_quarantine(const object_key& key, const informer::resource_version& by); ///< unless `by` is older

    // ---- shared_informer_replace.cpp -------------------------------------------------------------------------------
    /// What is reported about a replacement when it is done.
    struct replaced {
        bool first, routine, new_epoch;
        std::size_t objects, unproven; ///< unproven: those that the list lacks, but that may exist
        informer::resource_version version;
    };
    static asio::awaitable<void> replace(self s, std::shared_ptr<detail::replacement> all);
    static asio::awaitable<std::size_t> drop_absent(self s, std::shared_ptr<detail::replacement> all,
                                                    detail::event_shares& events);
    static asio::awaitable<void> take_first(self s, std::shared_ptr<detail::replacement> all);
    static asio::awaitable<void> take_listed(self s, std::shared_ptr<detail::replacement> all,
                                             detail::event_shares& events);
    void welcome(const informer::resource_version& version, const std::shared_ptr<const detail::arrivals>& order);
    void tell_replaced(const replaced& what);
    static asio::awaitable<informer::resource_version> newest_version(self s, std::shared_ptr<detail::replacement> all);
    static asio::awaitable<void> quarantine_all(self s, std::shared_ptr<detail::replacement> all);

    // ---- shared_informer_upkeep.cpp --------------------------------------------------------------------------------
    static asio::awaitable<void> tidy(self s);
    static asio::awaitable<void> keep_tidy(self s);
    static asio::awaitable<bool> compaction_pays(self s, std::uint64_t kept);
    static asio::awaitable<void> compact(self s);
    static asio::awaitable<void> free_slowly(self s, detail::past_state& old);
    bool is_away(const object& o) const;
    bool is_away(const delta& d) const { return d.what == delta::kind::upsert && is_away(d.current); }
    static asio::awaitable<object> moved_home(self s, object o);
    static asio::awaitable<void> bring_home(self s, object& o);

    // ---- shared_informer_delivery.cpp ------------------------------------------------------------------------------
    static void hand_out(const subscription::state::shared_events& events, std::span<const subscriber> to,
                         detail::wake_list& to_wake, std::vector<subscriber>& behind);
    static asio::awaitable<void> deliver(self s, detail::event_shares events, std::size_t to);
    static asio::awaitable<void> repeat(self s, subscriber to);
    static asio::awaitable<bool> wait_for_room(self s, subscriber of);
    std::size_t listeners(); ///< how many there are; removes those that were closed
    void let_go_closed(std::size_t first);
    void let_go_newcomers(); ///< removes those that were closed before a delivery counts them
    void count_events(const std::vector<event>& share) const;
    /// From the arrival of the oldest delta of a batch until the last one is delivered.
    void observe_lag(clock::time_point oldest) const;

    // ---- shared_informer_handlers.cpp ------------------------------------------------------------------------------
    subscriber add_subscriber(subscription_options o);
    static asio::awaitable<void> keep_resyncing(self s, subscriber of);
    static asio::awaitable<void> call_handlers(self s);
    bool call_handlers_a_slice();
    void call_owed_handlers();
    void let_go_removed();
    void handlers_are_due();
    void call(handler_handle::state& h, const event& e);
    bool passes(handler_handle::state& h, const event& e, const object& o);
    void handler_threw(handler_handle::state& h, const event& e);
    void start_waiting_children();

    // ---- shared_informer_indexes.cpp -------------------------------------------------------------------------------
    void add_index(std::string name, index_function f);
    static asio::awaitable<void> build_indexes(self s);
    static asio::awaitable<void> index_ready(self s, std::string name, clock::duration at_most);

    runtime rt;
    std::shared_ptr<list_watch> from; ///< until run() takes it
    api_resource resource;
    informer_options options;
    std::string name; ///< for logs, errors and metrics
    std::shared_ptr<detail::cache_store> store;
    std::shared_ptr<document_pool> pool;
    reflector machine;
    machinery* live = nullptr; ///< in run()'s frame, while that exists
    // Children that wait for run(). They are no coroutines yet, whose frames would hold the informer for ever.
    std::vector<std::shared_ptr<handler_handle::state>> handlers_waiting;
    std::vector<subscriber> resyncs_waiting;
    bool started = false, stopping = false, ended = false;

    // producer
    std::unique_ptr<sink> into;
    bool held_up = false;                       ///< the request under way waits for room: that time does not count
    std::optional<clock::time_point> confirmed; ///< as it was reported last
    bool consumer_held_up = false; ///< by a subscriber: figures are reported before the batch ends, if it ever does
    bool batch_under_way = false;  ///< deltas are between queue and cache, or parts of a change wait for others
    detail::slice_watch reading;
    std::string api_version; ///< of the resource

    // indexes that are added to a filled cache
    detail::slice_watch indexing;
    bool building_indexes = false;
    std::vector<std::string> bad_indexes; ///< those whose functions threw, which was logged

    // consumer
    detail::slice_watch applying;
    std::uint64_t epoch = 1;
    bool unversioned = false; ///< the last list had no version
    /// Objects that a list of a new epoch neither had nor proved absent: their versions are of the old epoch, and do
    /// not tell what is newer.
    std::set<object_key> of_old_epoch;
    std::vector<subscriber> subscribers; ///< they get everything from now on
    std::vector<subscriber> waiting;     ///< those that came before the first state was complete
    std::size_t delivered_to = 0;        ///< so many of the first `subscribers` get what is being delivered
    std::size_t many_subscribers = 64;   ///< from this number on, it is worth looking for closed ones
    bool handlers_owed = false;          ///< handlers must be called at the end of this turn
    std::deque<std::weak_ptr<subscription::state>> resync_due;
    std::map<object_key, bad_object> bad;
    std::vector<bad_object> bad_unnamed;
    std::size_t bad_unnamed_count = 0;
    clock::time_point last_compaction = clock::time_point::min();
    const detail::generation* home = nullptr; ///< where the last compaction moved everything to
    std::uint64_t bytes_counted = 0;          ///< for the metrics

    // failures
    bool forbidden = false; ///< a request got 403, and still may: an outage since then does not change that
    clock::time_point failed_at{};
    /// The error that was logged last, one per phase: a watch-list and the list in its place may be refused in turn.
    struct told_error {
        std::string where;
        error_code code;
        std::string words;
        bool failing = false;
        clock::time_point at{}, seen{}; ///< when logged; when seen last, logged or not
    };
    std::vector<told_error> told_errors;

    std::vector<std::weak_ptr<detail::async_event>> waiters;
    informer_observer observer;
    std::vector<std::weak_ptr<informer_observer>> observers; ///< those of observe()

    mutable std::mutex mutex;
    informer_status figures; ///< under the mutex
};

} // namespace informer
