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
    /// Several, for who may read no others: each has an informer and a cache of its own, read by `factory.lister(resource, ns)`, and
    /// all of them must have synced. None, or "" among them, is all there are. Resources of the cluster are in none.
    source_options& name_spaces(std::vector<std::string> all) {
        name_spaces_ = std::move(all);
        return *this;
    }
    /// Selectors, indexes, projection … of the informer. Equal ones share it.
    source_options& informer(informer_options o) {
        informer_ = std::move(o);
        return *this;
    }
    /// Several are combined with "and".
    source_options& when(predicate p) {
        when_ = std::move(when_) && std::move(p);
        return *this;
    }
    /// `owns` only.
    source_options& owners(owner_kind k) {
        owners_ = k;
        return *this;
    }
    /// Of keys that changes ask for. Those of initial state and resync enter at `low_priority` if that is lower.
    source_options& priority(int p) {
        priority_ = p;
        return *this;
    }
    /// Repeats every object at this period, at low priority. Zero: never. To a predicate of `when` it is an update that changed nothing:
    /// those of the kind `…_changed` let none of them through.
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
    /// How many keys are reconciled at the same time; never one key twice. client-go's sample: 2, controller-runtime: 1.
    controller_options& workers(std::size_t n) {
        workers_ = n;
        return *this;
    }
    /// How long one reconcile may take before it is cancelled (an error, tried again). Zero: for ever.
    controller_options& reconcile_timeout(std::chrono::nanoseconds d) {
        reconcile_timeout_ = d;
        return *this;
    }
    /// How long `run()` and `run_workers()` wait for the first sync of every source before they fail and name the culprit. Zero: for ever
    /// (what is missing shows in `not_ready()`). controller-runtime: 2 min.
    controller_options& sync_timeout(std::chrono::nanoseconds d) {
        sync_timeout_ = d;
        return *this;
    }
    /// How long running reconciles may go on after `stop()`. controller-runtime: 30 s.
    controller_options& shutdown_timeout(std::chrono::nanoseconds d) {
        shutdown_timeout_ = d;
        return *this;
    }
    /// Instead of the default one (5 ms … 1000 s per key, 10/s with bursts of 100 for all).
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
    /// Keys for which it answers false are dropped when their turn comes.
    controller_options& only_keys(std::function<bool(const object_key&)> f) {
        only_keys_ = std::move(f);
        return *this;
    }
    /// Shares the keys with other replicas: each is reconciled by the one that owns it in the group, never by two at the same time
    /// (`shard_group` says under which conditions). A key of another's is dropped when its turn comes; a reconcile whose key is
    /// lost is cancelled after the grace that `shard_group::run_owned` gives. When keys become ours, all sources are gone through
    /// as if they had just been synced, and what asks for such a key is queued, at low priority. So an object that is *deleted*
    /// while its key has no owner is not reconciled again, as after a restart: what must happen then needs a finalizer or an owner
    /// reference. And what only `triggered_by` and `enqueue` know of, no source, is *lost* where they ask for it while it has no
    /// owner, as during a hand-over: ask again, at intervals or when the group changes (`shard_group::listen`).
    ///
    /// The group is run by the caller: from before `run()` until after it, so that running reconciles keep their Lease. `text`
    /// makes what is hashed from a key; without it "namespace/name". `[](const object_key& k) { return k.name_space; }` keeps a
    /// namespace together.
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

/// Asks a controller for keys, from outside of any watch. Cheap to copy.
///
/// *Thread safety*: any thread. *Lifetime*: may outlive the controller; then it does nothing.
class controller_trigger {
public:
    using queue = work_queue<object_key>;
    explicit controller_trigger(std::weak_ptr<queue> q) noexcept : queue_(std::move(q)) {}
    void operator()(const object_key& key, int priority = 0) const {
        if (const auto q = queue_.lock()) q->add(key, priority);
    }
    void after(const object_key& key, std::chrono::nanoseconds d, int priority = 0) const {
        if (const auto q = queue_.lock()) q->add_after(key, d, priority);
    }

private:
    std::weak_ptr<queue> queue_;
};

/// A coroutine that asks for keys while its controller runs: a poll of another system, a message queue. What it is given lives as long.
using trigger_source = std::function<asio::awaitable<void>(const controller_trigger&)>;

class controller_figures {
public:
    std::uint64_t succeeded = 0, failed = 0, requeued = 0, terminal = 0, panics = 0, timeouts = 0;
    std::size_t active = 0; ///< reconciles that run now
    /// keys dropped: `only_keys` refused them, or another replica's, also amid their reconcile
    std::uint64_t foreign = 0;
    std::uint64_t source_errors = 0; ///< predicates, mappings and triggers that failed
    work_queue_figures queue;
};

/// Made by `controller_builder`. A handle; copies are the same controller.
///
/// Promises.
/// - *One at a time*: a key is never reconciled twice at the same time, however many workers there are.
/// - *Nothing lost*: a change during a reconcile leads to another one; a reconcile that is cut off is asked for again. Predicates
///   and mappings are shown each change by itself, none is merged with another. The price: while the sources run, their informers
///   wait where more than 1024 changes are ahead of them, for all who share these informers. So predicates and mappings should be
///   quick, as a look-up by an index is, and the executor must go on.
/// - *After the sync*: no reconcile begins before every source has delivered its initial state, and the indexes that were asked for with
///   it are built: what the cache does not have does not exist. A mapping that reads a cache before that is asked again (`map_function`).
/// - *Fresh first*: initial state and resyncs enter at `low_priority` (and are not starved: see `work_queue`).
/// - *Contained*: exceptions of reconcilers, predicates, mappings and triggers are counted and logged; the controller goes on. What a mapping
///   throws costs the keys of the one state it was shown; a trigger is called again.
///
/// *Thread safety*: none but `enqueue`, `trigger`, `figures`, `attempts`: use it on the runtime's executor, the factory's too.
/// *Lifetime*: the factory must outlive `run()`. It holds its informers until it is destroyed, and must not outlive the execution
/// context. *Shutdown*: `stop()` takes no more events and begins no reconcile; running ones may finish within the shutdown
/// time-out, then they are cancelled, as they are at once by a second `stop()` or by cancelling `run()` (terminal). In every case
/// `run()` returns when none is left; at once where `stop()` came before it had begun. Should one of its own coroutines end by an
/// exception (no memory, a limiter that throws), it stops as well, and throws that. *Metrics*: `controller_runtime_*` with the
/// label `controller`, `workqueue_*` with `name`. A name is one controller's at a time: who goes takes its series along.
class controller {
public:
    const std::string& name() const noexcept;

    /// Sources and workers, until stopped. *Errors*: throws `error(errc::deadline_exceeded)` when a source is not in sync in
    /// time (which, and its last error; logged as well), `error(errc::stopped)` when a source's informer ended;
    /// `error(errc::already_running)`.
    asio::awaitable<void> run();
    /// Warm standby, the two halves of `run()`: a replica that does not lead runs its sources (its cache and queue are filled) and
    /// runs workers only while it leads. Workers may run again after they were cancelled; sources run once. While no worker runs,
    /// keys of `for_` objects that are gone are forgotten, but for the newest 1024: more than 4096 keys wait only where about half
    /// of them are of objects. Without `for_` nothing tells whose keys they are: beyond 4096 all are forgotten but for the newest 1024.
    /// Who works next then goes through its sources as if they had just been synced, at low priority. What became of the forgotten
    /// ones needs a finalizer, as after a restart; a key that only `triggered_by` or `enqueue` knows of is not asked for again (so
    /// without any source nothing is forgotten).
    asio::awaitable<void> run_sources();
    asio::awaitable<void> run_workers();
    void stop();
    bool stopping() const noexcept;

    bool has_synced() const noexcept;
    /// Waits until every source has delivered its initial state and its indexes are built, also before they run. Throws like
    /// `run()`; zero: for ever.
    asio::awaitable<void> synced(std::chrono::nanoseconds at_most);
    /// Empty when it is in sync and every source is being followed; else why not, for /readyz. So it is from a stop on, and when the
    /// sources have ended, however they did. An informer that is backing off counts as followed: its cache stays, and an API server
    /// that is away for a while makes no replica unready.
    std::string not_ready() const;

    void enqueue(const object_key& key, int priority = 0) const;
    controller_trigger trigger() const;
    /// Attempts in a row of a key that failed or asked for `requeue`.
    std::uint32_t attempts(const object_key& key) const;
    controller_figures figures() const;

    struct impl;

private:
    friend class controller_builder;
    explicit controller(std::shared_ptr<impl> i) noexcept : impl_(std::move(i)) {}
    std::shared_ptr<impl> impl_;
};

/// Says what a controller watches.
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

    /// The resource whose keys are reconciled. Once; `owns` needs it.
    controller_builder& for_(api_resource resource, source_options options = source_options());
    /// Objects made by the controller: they lead to their owner.
    controller_builder& owns(api_resource resource, source_options options = source_options());
    controller_builder& watches(api_resource resource, map_function map, source_options options = source_options());
    /// Runs beside the sources, in every replica. One that returns has ended; one that throws is called again after a pause (0.8 s,
    /// doubled up to 30 s, as an informer's). See `sharded_by` about keys that no source knows.
    controller_builder& triggered_by(std::string name, trigger_source source);
    controller_builder& options(controller_options o);

    /// Asks the factory for the informers, which starts them, so that `factory.lister(resource)` can be had; events are
    /// taken from `run()` on. Throws `error(errc::bad_configuration)`: neither source nor trigger, `owns` without `for_` or of what has no
    /// kind, no workers, no reconciler; and what `informer_factory::get` throws.
    controller build(reconciler reconcile);

private:
    struct plan;
    std::unique_ptr<plan> plan_;
};

} // namespace informer
