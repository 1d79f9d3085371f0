// A controller: sources fill a work queue with keys, workers reconcile them.
#pragma once

#include <informer/cache/informer_factory.hpp>
#include <informer/controller/mapping.hpp>
#include <informer/controller/predicate.hpp>
#include <informer/controller/reconcile.hpp>
#include <informer/queue/work_queue.hpp>
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

class shard_group;

/// One source of a controller.
class source_options {
public:
    source_options() {}
    /// Default: all namespaces.
    source_options& name_space(std::string ns) {
        name_spaces_ = {std::move(ns)};
        return *this;
    }
    /// Several namespaces, for a client that may not read others. Each has an informer and a cache of its own, which
    /// `factory.lister(resource, ns)` reads, and all of them must have synced. An empty list, or "" in it, means all
    /// namespaces. Cluster-scoped resources are in none.
    source_options& name_spaces(std::vector<std::string> all) {
        name_spaces_ = std::move(all);
        return *this;
    }
    /// Selectors, indexes, projection … of the informer. Sources with equal options share it.
    source_options& informer(informer_options o) {
        informer_ = std::move(o);
        return *this;
    }
    /// Several predicates are combined with "and".
    source_options& when(predicate p) {
        when_ = std::move(when_) && std::move(p);
        return *this;
    }
    /// For `owns` only.
    source_options& owners(owner_kind k) {
        owners_ = k;
        return *this;
    }
    /// The priority of keys that changes ask for. Keys from initial state and resyncs enter at `low_priority` if that
    /// is lower.
    source_options& priority(int p) {
        priority_ = p;
        return *this;
    }
    /// Repeats every object at this period, at low priority. Zero: never. A predicate given to `when` sees a repetition
    /// as an update that changed nothing, so the `…_changed` predicates let none through.
    source_options& resync(std::chrono::seconds period) {
        resync_ = period;
        return *this;
    }

    std::vector<std::string> name_spaces_;
    informer_options informer_;
    predicate when_;
    owner_kind owners_ = owner_kind::controller;
    int priority_ = 0;
    std::chrono::seconds resync_{0};
};

class controller_options {
public:
    controller_options() {}
    /// The number of keys that are reconciled at the same time; never one key twice. client-go's sample: 2,
    /// controller-runtime: 1.
    controller_options& workers(std::size_t n) {
        workers_ = n;
        return *this;
    }
    /// How long one reconcile may take before it is cancelled (which is an error, and retried). Zero: no limit.
    controller_options& reconcile_timeout(std::chrono::nanoseconds d) {
        reconcile_timeout_ = d;
        return *this;
    }
    /// How long `run()` and `run_workers()` wait for the first sync of every source before they fail and name the
    /// source that is late. Zero: for ever (`not_ready()` shows what is missing). controller-runtime: 2 min.
    controller_options& sync_timeout(std::chrono::nanoseconds d) {
        sync_timeout_ = d;
        return *this;
    }
    /// How long running reconciles may go on after `stop()`. controller-runtime: 30 s.
    controller_options& shutdown_timeout(std::chrono::nanoseconds d) {
        shutdown_timeout_ = d;
        return *this;
    }
    /// Replaces the default rate limiter (5 ms … 1000 s per key; 10/s with bursts of 100 for all keys).
    controller_options& limiter(rate_limiter_ptr l) {
        limiter_ = std::move(l);
        return *this;
    }
    /// See `work_queue_options::ageing`.
    controller_options& ageing(std::uint32_t share) {
        ageing_ = share;
        return *this;
    }
    /// Namespaces take turns within a priority: a noisy one does not hold up the others.
    controller_options& fair_namespaces(bool on = true) {
        fair_namespaces_ = on;
        return *this;
    }
    /// Keys for which `f` returns false are dropped when their turn comes.
    controller_options& only_keys(std::function<bool(const object_key&)> f) {
        only_keys_ = std::move(f);
        return *this;
    }
    /// Shares the keys with other replicas. Each key is reconciled by the replica that owns it in the group, never by
    /// two at the same time (`shard_group` states the conditions). A key that another replica owns is dropped when its
    /// turn comes. A reconcile whose key is lost is cancelled after the grace period that `shard_group::run_owned`
    /// gives. When this replica gains keys, it goes through all sources as if they had just synced, and queues the
    /// gained keys that they ask for, at low priority. So an object that is *deleted* while its key has no owner is not
    /// reconciled again, as after a restart: what must happen then needs a finalizer or an owner reference. A key that
    /// only `triggered_by` or `enqueue` knows of, and no source, is *lost* if it is asked for while it has no owner, as
    /// during a hand-over: ask again, at intervals or when the group changes (`shard_group::listen`).
    ///
    /// The caller runs the group, from before `run()` until after it, so that running reconciles keep their Lease.
    /// `text` makes the text that is hashed from a key; the default is "namespace/name".
    /// `[](const object_key& k) { return k.name_space; }` keeps the keys of a namespace together.
    controller_options& sharded_by(std::shared_ptr<shard_group> group,
                                   std::function<std::string(const object_key&)> text = {}) {
        shards_ = std::move(group);
        shard_text_ = std::move(text);
        return *this;
    }

    std::size_t workers_ = 1;
    std::chrono::nanoseconds reconcile_timeout_{0};
    std::chrono::nanoseconds sync_timeout_ = std::chrono::minutes(2);
    std::chrono::nanoseconds shutdown_timeout_ = std::chrono::seconds(30);
    rate_limiter_ptr limiter_;
    std::uint32_t ageing_ = work_queue_options().ageing_;
    bool fair_namespaces_ = false;
    std::function<bool(const object_key&)> only_keys_;
    std::shared_ptr<shard_group> shards_;
    std::function<std::string(const object_key&)> shard_text_;
};

/// Asks a controller to reconcile keys, from outside of any watch. Cheap to copy.
///
/// *Thread safety*: any thread. *Lifetime*: may outlive the controller; calls then do nothing.
class controller_trigger {
public:
    using queue = work_queue<object_key>;
    explicit controller_trigger(std::weak_ptr<queue> q) noexcept : queue_(std::move(q)) {}
    void operator()(const object_key& key, int priority = 0) const {
        if (const auto q = queue_.lock()) q->add(key, priority);
    }
    /// After a delay. A request for the same key that is due earlier replaces this one, unlike in client-go, where both
    /// are fulfilled: to ask again in any case, ask from the reconciler (`reconcile_result::requeue_after`).
    void after(const object_key& key, std::chrono::nanoseconds d, int priority = 0) const {
        if (const auto q = queue_.lock()) q->add_after(key, d, priority);
    }

private:
    std::weak_ptr<queue> queue_;
};

/// A coroutine that asks for keys while its controller runs: it polls another system, or reads a message queue. Its
/// argument lives as long as the coroutine.
using trigger_source = std::function<asio::awaitable<void>(const controller_trigger&)>;

class controller_figures {
public:
    std::uint64_t succeeded = 0, failed = 0, requeued = 0, terminal = 0, panics = 0, timeouts = 0;
    std::size_t active = 0; ///< reconciles that run now
    /// keys dropped because `only_keys` refused them or another replica owns them, also in the middle of a reconcile
    std::uint64_t foreign = 0;
    std::uint64_t source_errors = 0; ///< predicates, mappings and triggers that failed
    work_queue_figures queue;
};

/// A source that was added to a controller by `watch`. A handle: the source goes with its last copy, or by `remove()`.
/// It keeps neither the controller nor the informer.
///
/// *Thread safety*: none; use it, and drop it, on the runtime's executor.
class controller_source {
public:
    controller_source() = default; ///< of no controller
    explicit operator bool() const noexcept { return state_ != nullptr; }
    /// Whether it has delivered its initial state and its indexes are built.
    bool has_synced() const;
    /// Waits for that. Zero: for ever. *Errors*: throws `error(errc::deadline_exceeded)`; `error(errc::stopped)` if it
    /// was removed, or the controller stopped.
    asio::awaitable<void> synced(std::chrono::nanoseconds at_most) const;
    /// Empty when it is in sync and followed; otherwise the reason, as `controller::not_ready`.
    std::string not_ready() const;
    /// Takes the source back: no event leads to a key any more, and its informer is released. Keys that it asked for
    /// stay in the queue, and nothing is queued for the objects that are cached no more.
    void remove() noexcept;

private:
    friend class controller;
    struct state;
    explicit controller_source(std::shared_ptr<state> s) noexcept : state_(std::move(s)) {}
    std::shared_ptr<state> state_;
};

/// Made by `controller_builder`. A handle: copies refer to the same controller.
///
/// Promises.
/// - *One at a time*: a key is never reconciled twice at the same time, however many workers there are.
/// - *Nothing lost*: a change during a reconcile leads to another one; a reconcile that is cut off is asked for again.
///   Predicates and mappings see each change by itself; none is merged with another. The price: while the sources run,
///   their informers wait, for everybody who shares them, when more than 1024 changes are ahead of the predicates and
///   mappings. So these should be fast, as an index look-up is, and the executor must keep running.
/// - *After the sync*: no reconcile begins before every source has delivered its initial state and the indexes that
///   were requested with it are built (but for sources that `watch` adds later). So what the cache does not have does
///   not exist. A mapping that reads a cache before that is called again (`map_function`).
/// - *Fresh first*: initial state and resyncs enter at `low_priority` (and are not starved: see `work_queue`).
/// - *Contained*: exceptions of reconcilers, predicates, mappings and triggers are counted and logged; the controller
///   goes on. A mapping that throws costs the keys of the one state it was called with; a trigger that throws is called
///   again.
///
/// *Thread safety*: `enqueue`, `trigger`, `figures` and `attempts` from any thread. Use everything else on the
/// runtime's executor, which is the factory's too. *Lifetime*: the factory must outlive `run()`. The controller
/// holds its informers until it is destroyed (those of `watch`, until they are taken back), and must not outlive the
/// execution context. *Shutdown*: after `stop()`
/// the controller takes no more events and begins no reconcile. Running reconciles may finish within the shutdown
/// time-out, then they are cancelled; a second `stop()`, or cancelling `run()` (terminal), cancels them at once. In
/// every case `run()` returns when none is left; it returns at once if `stop()` came before it began. If one of the
/// controller's own coroutines ends with an exception (no memory, a limiter that throws), the controller stops as well,
/// and throws that exception. *Metrics*: `controller_runtime_*` with the label `controller`, `workqueue_*` with `name`.
/// A name belongs to one controller at a time: a controller that is destroyed removes its series.
class controller {
public:
    const std::string& name() const noexcept;

    /// Runs sources and workers until stopped. *Errors*: throws `error(errc::deadline_exceeded)` if a source does not
    /// sync in time (it names the source and its last error; also logged), `error(errc::stopped)` if a source's
    /// informer ended, `error(errc::already_running)`.
    asio::awaitable<void> run();
    /// Warm standby: the two halves of `run()`. A replica that does not lead runs its sources, so its cache and queue
    /// are filled, and runs workers only while it leads. Workers may run again after they were cancelled; sources run
    /// once. While no worker runs, keys of `for_` objects that are gone are forgotten, except the newest 1024: more
    /// than 4096 keys wait only if about half of them belong to objects. Without `for_` nothing tells which objects the
    /// keys belong to: beyond 4096, all are forgotten except the newest 1024. The next workers then go through all
    /// sources as if they had just synced, at low priority. What must happen for the forgotten keys needs a finalizer,
    /// as after a restart. A key that only `triggered_by` or `enqueue` knows of is not asked for again (so without any
    /// source nothing is forgotten).
    asio::awaitable<void> run_sources();
    asio::awaitable<void> run_workers();
    void stop();
    bool stopping() const noexcept;

    bool has_synced() const noexcept;
    /// Waits until every source has delivered its initial state and its indexes are built. May be called before the
    /// sources run. Throws like `run()`. Zero: waits for ever.
    asio::awaitable<void> synced(std::chrono::nanoseconds at_most);
    /// Empty when the controller is in sync and follows every source; otherwise the reason, for /readyz. It is not
    /// empty after a stop, nor once the sources have ended, however they did. An informer that is backing off counts as
    /// followed: its cache stays, so an API server that is away for a while makes no replica unready.
    std::string not_ready() const;

    /// Adds a source, whether the controller runs or not: for namespaces and resources that come and go, or the factory
    /// of another cluster, which must outlive `run()`, too. Without a mapping a key is that of the object, as with
    /// `for_`; `mapping::of_cluster` makes keys that tell clusters apart. The handle takes it back.
    ///
    /// What is added while the sources run is followed at once, and nobody waits for it: reconciles go on, and
    /// `has_synced`, `synced` and `not_ready` leave it out until it is in sync. So a resource that does not exist yet
    /// makes no replica unready. Await `controller_source::synced` where a reconcile must see all of it. Its informer
    /// must not end before it is taken back, else the controller stops, as with any source.
    ///
    /// Throws `error(errc::stopped)` after a stop or the end of the sources, `error(errc::bad_configuration)` without
    /// a mapping, and what `informer_factory::get` throws; then nothing was added.
    [[nodiscard]] controller_source watch(informer_factory& factory, api_resource resource,
                                          source_options options = source_options());
    [[nodiscard]] controller_source watch(informer_factory& factory, api_resource resource, map_function map,
                                          source_options options = source_options());

    void enqueue(const object_key& key, int priority = 0) const;
    controller_trigger trigger() const;
    /// How many attempts in a row failed or asked for `requeue`, for this key.
    std::uint32_t attempts(const object_key& key) const;
    controller_figures figures() const;

    struct impl;

private:
    friend class controller_builder;
    explicit controller(std::shared_ptr<impl> i) noexcept : impl_(std::move(i)) {}
    std::shared_ptr<impl> impl_;
};

/// Describes what a controller watches.
///
///     auto c = controller_builder(rt, factory, "foos")
///                  .for_(foos)
///                  .owns(deployments)
///                  .options(controller_options().workers(2))
///                  .build(reconcile);
///     co_await c.run();
class controller_builder {
public:
    controller_builder(runtime rt, informer_factory& factory, std::string name);
    ~controller_builder();
    controller_builder(controller_builder&&) noexcept;
    controller_builder& operator=(controller_builder&&) noexcept;

    /// The resource whose keys are reconciled. May be called once; `owns` needs it.
    controller_builder& for_(api_resource resource, source_options options = source_options());
    /// Objects that the controller makes; each maps to its owner.
    controller_builder& owns(api_resource resource, source_options options = source_options());
    controller_builder& watches(api_resource resource, map_function map, source_options options = source_options());
    /// Runs beside the sources, in every replica. A trigger that returns has ended; one that throws is called again
    /// after a pause (0.8 s, doubled up to 30 s, as an informer's). See `sharded_by` about keys that no source knows.
    controller_builder& triggered_by(std::string name, trigger_source source);
    controller_builder& options(controller_options o);

    /// Gets the informers from the factory, which starts them, so that `factory.lister(resource)` works; events are
    /// taken from `run()` on. Throws `error(errc::bad_configuration)` if there is neither a source nor a trigger, no
    /// worker or no reconciler, and for `owns` without `for_` or with a `for_` resource that has no kind. Throws what
    /// `informer_factory::get` throws.
    controller build(reconciler reconcile);

private:
    struct plan;
    std::unique_ptr<plan> plan_;
};

} // namespace informer
