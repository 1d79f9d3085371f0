// The informer: one list and watch, one cache, any number of listeners.
#pragma once

#include <informer/backoff.hpp>
#include <informer/cache/event.hpp>
#include <informer/cache/indexer.hpp>
#include <informer/cache/lister.hpp>
#include <informer/cache/status.hpp>
#include <informer/cache/subscription.hpp>
#include <informer/runtime.hpp>
#include <informer/source/list_watch.hpp>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace informer {

class informer_options {
public:
    informer_options() {}
    // clang-format off
    informer_options& labels(std::string selector) { label_selector_ = std::move(selector); return *this; }
    informer_options& fields(std::string selector) { field_selector_ = std::move(selector); return *this; }
    /// Of the objects this part only, for one of several replicas. Whether the server chooses or we do, the cache is the same.
    informer_options& shard(shard_selector s) { shard_ = std::move(s); return *this; }
    /// See `metadata_only` for what must not be done with objects of a projection or a `transform`.
    informer_options& decode(decode_options d) { decode_ = std::move(d); return *this; }
    // clang-format on
    informer_options& index(std::string name, index_function f) {
        indexes_.emplace_back(std::move(name), std::move(f));
        return *this;
    }
    /// Watch-list first (default), else list and watch only.
    // clang-format off
    informer_options& watch_list(bool on) { watch_list_ = on; return *this; }
    /// Page size of lists; 0: in one piece. One that you give holds for all lists but one: after a continue token expired the state is
    /// asked for in one piece, or the next token might expire, too. Unless you give one it is 500 (client-go's), but a list after a
    /// 410 comes in one piece, since servers answer that from their cache only so.
    informer_options& page_size(std::uint64_t n) { page_size_ = n; return *this; }
    /// Allows the first list to be served from any version the server has (resourceVersion=0).
    informer_options& any_version(bool on = true) { any_version_ = on; return *this; }
    informer_options& backoff(backoff_options b) { backoff_ = b; return *this; }
    /// Watches ask for a time-out drawn uniformly from [d, 2d], d at least a second and at most a year. client-go: 5 min. After the
    /// server was out of reach, or held a watch's header back, it is one of 30 to 60 s unless that is shorter still.
    informer_options& watch_timeout(std::chrono::seconds d) { watch_timeout_ = d; return *this; }
    /// Deltas between the stream and the cache before the socket is not read any more.
    informer_options& queue_capacity(std::size_t n) { queue_capacity_ = n; return *this; }
    /// For logs, errors, `informer_status::name` and the label of its metrics. By default the resource and namespace, the selectors,
    /// and whether it is of metadata only: informers that differ in anything else (cluster, projection) would report into the same
    /// series, and need names.
    informer_options& name(std::string n) { name_ = std::move(n); return *this; }
    /// Caches of each object apiVersion, kind and metadata: the server sends no more (PartialObjectMetadata), and of what a
    /// server that cannot do that sends no more is kept. Objects keep the kind of their resource. A projection of your own
    /// takes the place of ours.
    ///
    /// An object of which a part is cached, be it so or by a projection or a `transform`, must not be written back by `client::update`:
    /// it has its kind and version, so the server would take it, and what is not cached would be gone. `patch` what changes, or use
    /// `update_with_retry`, which reads the whole object first.
    informer_options& metadata_only(bool on = true) { metadata_only_ = on; return *this; }
    // clang-format on

    std::string label_selector_, field_selector_, name_;
    shard_selector shard_;
    decode_options decode_;
    std::vector<std::pair<std::string, index_function>> indexes_;
    bool watch_list_ = true, any_version_ = false, metadata_only_ = false;
    std::optional<std::uint64_t> page_size_;
    backoff_options backoff_;
    std::chrono::seconds watch_timeout_ = std::chrono::minutes(5);
    std::size_t queue_capacity_ = 1000;
};

/// What an informer tells of itself; what is left out is not told. See `shared_informer::observe`.
class informer_observer {
public:
    informer_observer() {}
    /// At each change of phase, at each failed attempt, and after each list.
    // clang-format off
    informer_observer& on_state_change(std::function<void(const informer_status&)> f) { state_change_ = std::move(f); return *this; }
    /// For every error that ends a list or a watch, with its phase.
    informer_observer& on_error(std::function<void(std::string_view phase, const failure& f)> f) { error_ = std::move(f); return *this; }
    /// For every object that cannot be used (see `informer_status::quarantine`), again after a relist that brings it again. Of a list
    /// with more than 10,000 that say which they are, and of its nameless ones, the first 10,000; the rest is counted.
    informer_observer& on_bad_object(std::function<void(const bad_object& b)> f) { bad_object_ = std::move(f); return *this; }
    // clang-format on

    std::function<void(const informer_status&)> state_change_;
    std::function<void(std::string_view phase, const failure& f)> error_;
    std::function<void(const bad_object& b)> bad_object_;
};

/// Keeps an indexed cache of one resource and fans its changes out.
///
/// The promises (each has a test of its name): *completeness* across relists, *order*, *bounded and lossless*
/// subscriptions, *late subscribers*, *unsubscribing*, *sync per subscription*, *read your writes*, *nothing hides*,
/// *typed events*. See docs/promises.md.
///
/// *Thread safety*: `status()`, `lister()`, `snapshot()`, `get()`, `has_synced()`, `resource()` from any thread; `synced`,
/// `wait_until`, `until` and `index_ready` may be called and awaited on any executor (a condition is asked on the runtime's);
/// everything else on the runtime's: `run`, `stop`, `retry_now`, `subscribe`, `add_event_handler`, `add_index`, `observe`,
/// `on_state_change`, `on_error`, `on_bad_object`. *Lifetime*: a handle; copies share one informer, and may outlive the executor
/// and its context (one that was never run may not: it has its source still). Views of the cache outlive it. Handlers and observers
/// may own the informer, and who owns them their handles: they are let go when it has stopped, as it has when the context it ran in
/// is destroyed; one that is never run needs `stop()` for that. *Cancellation*: cancelling `run()` (terminal) or `stop()` ends it:
/// the watch is closed, subscriptions end, `run()` returns when no coroutine is left.
class shared_informer {
public:
    /// Throws `error(errc::bad_configuration)`: no source, a resource without its kind, an index without a function;
    /// `error(errc::duplicate_index)`; `error(errc::bad_selector)` for selectors that cannot be parsed.
    shared_informer(runtime r, std::shared_ptr<list_watch> from, informer_options options = informer_options());
    ~shared_informer();
    shared_informer(const shared_informer&);
    shared_informer& operator=(const shared_informer&);
    shared_informer(shared_informer&&) noexcept;
    shared_informer& operator=(shared_informer&&) noexcept;

    /// Lists, watches, and goes on for ever. Exactly once; a second call throws `error(errc::already_running)`. Nothing that a server
    /// does ends it; an exception that ends one of its coroutines does (no memory, a clock that throws) and is thrown on.
    asio::awaitable<void> run();
    /// Asks `run()` to end. Idempotent.
    void stop();
    /// Ends the wait in front of the next attempt, where there is one (`status().next_attempt`): for who knows that the server is there
    /// again, or what was refused allowed. The back-off is not forgotten: where that attempt fails, too, the wait is as long as ever.
    void retry_now();

    const api_resource& resource() const noexcept;
    bool has_synced() const noexcept;
    /// Waits until the cache is complete for the first time. Throws `error(errc::deadline_exceeded)` that says which
    /// informer and its last error; `error(errc::stopped)`. *Cancellation*: any type; throws `error(errc::cancelled)`.
    asio::awaitable<void> synced(clock::duration at_most);
    /// Read your writes: waits until the cache holds at least `version`. Throws like `synced`, and
    /// `error(errc::new_epoch)`; an incomparable version is `error(errc::bad_configuration)`. Where the server's lists have no
    /// version that of their newest object counts; where objects have none either, no version ever comes.
    ///
    /// The cache's version moves by what its own watch is told: an informer with selectors, of one namespace or of a part may hear
    /// nothing of a write to what it does not have. Such a wait lasts until something else or a bookmark comes (about a minute), or
    /// until its deadline.
    asio::awaitable<void> wait_until(informer::resource_version version, clock::duration at_most);
    /// Waits until `condition` holds of the object with this key, as the cache has it (an empty one while it has none: a deletion can be
    /// waited for, too), and answers with that. It is looked at behind each batch of changes: what was so for a moment may be passed over.
    /// Throws like `synced`, before which nothing is looked at, and what `condition` throws; bad_configuration where there is none.
    ///
    ///     const auto ready = [](const object& pod) { return is_condition_true(pod, "Ready"); };
    ///     const object web = co_await pods.until("default/web", ready, 1min);
    asio::awaitable<object> until(object_key key, std::function<bool(const object&)> condition,
                                  clock::duration at_most);
    template <detail::text_of_key Text>
    asio::awaitable<object> until(const Text& key, std::function<bool(const object&)> condition,
                                  clock::duration at_most) {
        return until(object_key::parse(key), std::move(condition), at_most);
    }

    informer_status status() const;
    /// Calls `o` on the executor, until what this returns is destroyed (there, too) or the informer has stopped; what it throws is
    /// dropped. For components that share an informer: any number can observe it.
    [[nodiscard]] std::shared_ptr<void> observe(informer_observer o);
    // The same for the only one that observes: there is one of each kind for all handles of an informer, and a second call takes the
    // place of the first. Without a function: none.
    void on_state_change(std::function<void(const informer_status&)> f);
    void on_error(std::function<void(std::string_view phase, const failure& f)> f);
    void on_bad_object(std::function<void(const bad_object& b)> f);

    /// Of an informer that has stopped: one that has ended.
    subscription subscribe(subscription_options options = subscription_options());

    class handler_handle {
    public:
        struct state;
        explicit handler_handle(std::shared_ptr<state> s) noexcept : state_(std::move(s)) {}
        bool has_synced() const noexcept; ///< all initial `on_add` calls have returned
        /// On the executor: no call begins after this returned. On another thread one may just be beginning. What was called is
        /// let go a little later, not at once: it may be what runs at this moment.
        void remove();
        std::uint64_t exceptions() const noexcept;

    private:
        std::shared_ptr<state> state_;
    };
    using add_function = std::function<void(const object& current, bool initial)>;
    using update_function = std::function<void(const object& previous, const object& current)>;
    using delete_function = std::function<void(const object& last, bool final_state_known)>;
    using filter_function = std::function<bool(const object&)>;
    /// Sugar over a subscription: calls on the executor, one at a time. An exception is contained, counted and logged
    /// once per kind. Dropping the handle does not remove the handler. One that is added to an informer that has stopped
    /// is never called, and never synced. A handler that runs the io_context itself is not called again meanwhile, and must not wait
    /// there for the cache, which goes on when the handler has returned.
    handler_handle add_event_handler(add_function on_add, update_function on_update, delete_function on_delete,
                                     subscription_options options = subscription_options());
    /// The same for the objects that `of` is true for, as if there were no others: where an update makes it so the object is added, where
    /// it ceases to be it is deleted, `last` being what it was while it was. Who was told of an object is told of its deletion, whatever
    /// its final state. `of` depends on nothing but the object, and is called for the previous state, too; what it throws is the
    /// handler's, and means false.
    handler_handle add_event_handler(filter_function of, add_function on_add, update_function on_update,
                                     delete_function on_delete, subscription_options options = subscription_options());

    /// Also on a running informer. Throws `error(errc::duplicate_index)`; `error(errc::bad_configuration)` without a function.
    ///
    /// Returns at once. While there is next to nothing in the cache (or `run()` has not begun, or has ended) the index is
    /// complete then; otherwise it is built in slices that leave the executor free, and becomes visible whole. Until then
    /// reading it throws `error(errc::not_synced)`, which says so: `co_await index_ready(name, …)` first.
    void add_index(std::string name, index_function f);
    /// Waits until the index can be read: the first state is there, and it is complete. Throws like `synced`, and
    /// `error(errc::unknown_index)` if it was never added.
    asio::awaitable<void> index_ready(std::string name, clock::duration at_most);
    informer::lister lister() const;
    cache_snapshot snapshot() const; ///< empty before the first list is complete
    /// Of the cache as it is: empty where there is no such object, and for all of them before the first list is complete. A
    /// `lister()` tells the two apart.
    object get(const object_key& key) const { return snapshot().get(key); }
    template <detail::text_of_key Text>
    object get(const Text& key) const {
        return snapshot().get(key);
    }

    struct impl;

private:
    friend class informer_handle;
    std::shared_ptr<impl> impl_;
    std::string name_space_; ///< what `lister()` is narrowed to
};

} // namespace informer
