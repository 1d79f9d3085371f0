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
    /// Caches only this part of the objects, for one of several replicas. The cache is the same whether the server or
    /// the informer selects.
    informer_options& shard(shard_selector s) { shard_ = std::move(s); return *this; }
    /// See `metadata_only` for what must not be done with objects of a projection or a `transform`.
    informer_options& decode(decode_options d) { decode_ = std::move(d); return *this; }
    // clang-format on
    informer_options& index(std::string name, index_function f) {
        indexes_.emplace_back(std::move(name), std::move(f));
        return *this;
    }
    /// True (default): watch-list first. False: list and watch only.
    // clang-format off
    informer_options& watch_list(bool on) { watch_list_ = on; return *this; }
    /// Page size of lists; 0: in one piece. A size that you set applies to all lists but one: after a continue token
    /// expired, the state is requested in one piece, because the next token might expire, too. If you set none, it is
    /// 500 (client-go's), but a list after a 410 is not paged, because servers answer such a list from their cache only
    /// if it is not paged. After a second 410 in a row the list is a consistent one, and paged again.
    informer_options& page_size(std::uint64_t n) { page_size_ = n; return *this; }
    /// Allows the first list to be served from any version the server has (resourceVersion=0).
    informer_options& any_version(bool on = true) { any_version_ = on; return *this; }
    informer_options& backoff(backoff_options b) { backoff_ = b; return *this; }
    /// The time-out that watches ask for is drawn uniformly from [d, 2d], with d at least a second and at most a year.
    /// client-go: 5 min. After the server was unreachable, or held back the header of a watch, it is 30 to 60 s, unless
    /// the usual one is shorter.
    informer_options& watch_timeout(std::chrono::seconds d) { watch_timeout_ = d; return *this; }
    /// The number of deltas between the stream and the cache at which the socket is no longer read.
    informer_options& queue_capacity(std::size_t n) { queue_capacity_ = n; return *this; }
    /// The name for logs, errors, `informer_status::name` and the label of its metrics. The default is the resource and
    /// namespace, the selectors, and whether it is metadata only. Informers that differ only in something else
    /// (cluster, projection) would report into the same series, so they need names.
    informer_options& name(std::string n) { name_ = std::move(n); return *this; }
    /// Caches only apiVersion, kind and metadata of each object. The server sends no more (PartialObjectMetadata); if
    /// it cannot do that, the rest is dropped. Objects keep the kind of their resource. A projection of your own
    /// replaces the built-in one.
    ///
    /// Do not write a partially cached object (by this, a projection or a `transform`) back with `client::update`: it
    /// has its kind and version, so the server would accept it, and what is not cached would be lost. `patch` what
    /// changes, or use `update_with_retry`, which reads the whole object first.
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

/// What an informer reports about itself; a callback that is not set is not called. See `shared_informer::observe`.
class informer_observer {
public:
    informer_observer() {}
    /// Called at each change of phase, at each failed attempt, and after each list.
    // clang-format off
    informer_observer& on_state_change(std::function<void(const informer_status&)> f) { state_change_ = std::move(f); return *this; }
    /// Called for every error that ends a list or a watch, with its phase.
    informer_observer& on_error(std::function<void(std::string_view phase, const failure& f)> f) { error_ = std::move(f); return *this; }
    /// Called for every object that cannot be used (see `informer_status::quarantine`), and again after a relist that
    /// brings it again. Of one list, the first 10,000 that say which objects they are, and the first 10,000 of all
    /// others, are reported; the rest are counted.
    informer_observer& on_bad_object(std::function<void(const bad_object& b)> f) { bad_object_ = std::move(f); return *this; }
    // clang-format on

    std::function<void(const informer_status&)> state_change_;
    std::function<void(std::string_view phase, const failure& f)> error_;
    std::function<void(const bad_object& b)> bad_object_;
};

/// Keeps an indexed cache of one resource and fans out its changes.
///
/// The promises (each has a test of its name): *completeness* across relists, *order*, *bounded and lossless*
/// subscriptions, *late subscribers*, *unsubscribing*, *sync per subscription*, *read your writes*, *nothing hides*,
/// *typed events*. See docs/promises.md.
///
/// *Thread safety*: `status()`, `lister()`, `snapshot()`, `get()`, `has_synced()`, `resource()` from any thread;
/// `synced`, `wait_until`, `until` and `index_ready` may be called and awaited on any executor, whose context must live
/// until the wait has ended (a condition is evaluated on the runtime's); everything else on the runtime's: `run`,
/// `stop`, `retry_now`, `subscribe`, `add_event_handler`, `add_index`, `observe`, `on_state_change`, `on_error`,
/// `on_bad_object`. *Lifetime*: a handle. Copies share one informer, and may outlive the executor and its context
/// (except one that was never run, which still has its source). Views of the cache outlive it. Handlers and observers
/// may own the informer, and their owner may own their handles: they are destroyed when the informer has stopped. It
/// has stopped, too, when the context it ran in is destroyed; one that is never run needs `stop()` for that.
/// *Cancellation*: cancelling `run()` (terminal) or calling `stop()` ends it: the watch is closed, subscriptions end,
/// and `run()` returns when no coroutine is left.
class shared_informer {
public:
    /// Throws `error(errc::bad_configuration)` if there is no source, the resource has no kind or an index has no
    /// function; `error(errc::duplicate_index)`; `error(errc::bad_selector)` for selectors that cannot be parsed.
    shared_informer(runtime r, std::shared_ptr<list_watch> from, informer_options options = informer_options());
    ~shared_informer();
    shared_informer(const shared_informer&);
    shared_informer& operator=(const shared_informer&);
    shared_informer(shared_informer&&) noexcept;
    shared_informer& operator=(shared_informer&&) noexcept;

    /// Lists and watches, for ever. Call it exactly once; a second call throws `error(errc::already_running)`. Nothing
    /// that a server does ends it. An exception that ends one of its coroutines (no memory, a clock that throws) does,
    /// and is rethrown.
    asio::awaitable<void> run();
    /// Asks `run()` to end. Idempotent.
    void stop();
    /// Ends the wait before the next attempt, if there is one (`status().next_attempt`): for a caller that knows that
    /// the server is back, or that what was refused is now allowed. The back-off is not reset: if that attempt fails,
    /// too, the next wait is as long as ever.
    void retry_now();

    const api_resource& resource() const noexcept;
    bool has_synced() const noexcept;
    /// Waits until the cache is complete for the first time. Throws `error(errc::deadline_exceeded)`, which names the
    /// informer and its last error, or `error(errc::stopped)`. *Cancellation*: any type; throws
    /// `error(errc::cancelled)`.
    asio::awaitable<void> synced(clock::duration at_most);
    /// Read your writes: waits until the cache holds at least `version`. Throws like `synced`, and
    /// `error(errc::new_epoch)`; `error(errc::bad_configuration)` if the version is incomparable. If the server's lists
    /// have no version, that of their newest object counts; if objects have none either, no version is ever reached.
    ///
    /// The cache's version advances only with what its own watch receives. An informer with selectors, of one namespace
    /// or of a part may receive nothing of a write to what it does not have. Such a wait lasts until another event or a
    /// bookmark comes (about a minute), or until its deadline.
    asio::awaitable<void> wait_until(informer::resource_version version, clock::duration at_most);
    /// Waits until `condition` is true for the cached object with this key, and returns that object. While the cache
    /// has none, `condition` gets an empty one, so a deletion can be waited for, too. It is evaluated after each batch
    /// of changes: a state that lasts only a moment may be missed. Nothing is evaluated before the informer has synced.
    /// Throws like `synced`, and what `condition` throws; `error(errc::bad_configuration)` if there is no `condition`;
    /// `error(errc::not_cached)` if the informer has one namespace and the key is not in it.
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
    /// Calls the functions of `o` on the executor, until the returned value is destroyed (on the executor, too) or the
    /// informer has stopped. Their exceptions are dropped. For components that share an informer: any number can
    /// observe it.
    [[nodiscard]] std::shared_ptr<void> observe(informer_observer o);
    // The same for a single observer: there is one of each kind for all handles of an informer, and a second call
    // replaces the first. An empty function means none.
    void on_state_change(std::function<void(const informer_status&)> f);
    void on_error(std::function<void(std::string_view phase, const failure& f)> f);
    void on_bad_object(std::function<void(const bad_object& b)> f);

    /// If the informer has stopped, the subscription has already ended. Of a handle of one namespace, it is of that
    /// namespace. Throws `error(errc::not_cached)` if the options name another one than that of the handle or informer.
    subscription subscribe(subscription_options options = subscription_options());

    class handler_handle {
    public:
        struct state;
        explicit handler_handle(std::shared_ptr<state> s) noexcept : state_(std::move(s)) {}
        bool has_synced() const noexcept; ///< all initial `on_add` calls have returned
        /// If called on the executor, no call begins after this has returned. If called on another thread, one may just
        /// be beginning. The functions are destroyed a little later, not at once, because one may be running at this
        /// moment.
        void remove();
        std::uint64_t exceptions() const noexcept;
        /// How far behind it is. From any thread.
        subscription_figures figures() const;

    private:
        std::shared_ptr<state> state_;
    };
    using add_function = std::function<void(const object& current, bool initial)>;
    using update_function = std::function<void(const object& previous, const object& current)>;
    using delete_function = std::function<void(const object& last, bool final_state_known)>;
    using filter_function = std::function<bool(const object&)>;
    /// Sugar over a subscription: calls the functions on the executor, one at a time. An exception is contained,
    /// counted and logged once per kind. Dropping the handle does not remove the handler. A handler that is added to an
    /// informer that has stopped is never called, and never synced. A handler that runs the io_context itself is not
    /// called again meanwhile, and must not wait there for the cache, which goes on when the handler has returned.
    handler_handle add_event_handler(add_function on_add, update_function on_update, delete_function on_delete,
                                     subscription_options options = subscription_options());
    /// The same for the objects for which `of` is true, as if there were no others. If an update makes it true, the
    /// object is added; if an update makes it false, the object is deleted, and `last` is its last state for which it
    /// was true. A handler that was told of an object is told of its deletion, whatever its final state. `of` must
    /// depend on nothing but the object, and is called for the previous state, too. Its exceptions count as the
    /// handler's and mean false.
    handler_handle add_event_handler(filter_function of, add_function on_add, update_function on_update,
                                     delete_function on_delete, subscription_options options = subscription_options());

    /// Adds an index, even to a running informer. Throws `error(errc::duplicate_index)`;
    /// `error(errc::bad_configuration)` without a function. Whatever it throws, the index can then be added again.
    ///
    /// Returns at once. If there is next to nothing in the cache (or `run()` has not begun, or has ended), the index is
    /// then complete. Otherwise it is built in slices that leave the executor free, and becomes visible as a whole.
    /// Until then, reading it throws `error(errc::not_synced)`, which says so: `co_await index_ready(name, …)` first.
    void add_index(std::string name, index_function f);
    /// Waits until the index can be read: the first state is there, and the index is complete. Throws like `synced`,
    /// and `error(errc::unknown_index)` if it was never added.
    asio::awaitable<void> index_ready(std::string name, clock::duration at_most);
    informer::lister lister() const;
    cache_snapshot snapshot() const; ///< empty before the first list is complete
    /// Reads the cache as it is: empty if there is no such object, and for every key before the first list is complete.
    /// A `lister()` tells the two apart.
    object get(const object_key& key) const;
    template <detail::text_of_key Text>
    object get(const Text& key) const {
        return get_by_text(key);
    }

    struct impl;

private:
    friend class informer_handle;
    std::shared_ptr<impl> impl_;
    subscription_options narrowed(subscription_options options) const;
    object get_by_text(std::string_view key) const;
    object narrowed(object o) const {
        return name_space_.empty() || !o || o.name_space() == name_space_ ? std::move(o) : object();
    }

    std::string name_space_; ///< of a handle of one namespace; empty: all that the informer has
};

} // namespace informer
