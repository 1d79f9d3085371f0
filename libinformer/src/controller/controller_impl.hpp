// What a controller is made of.
#pragma once

#include <informer/controller/controller.hpp>
#include <informer/controller/key_sharding.hpp>
#include <informer/detail/async.hpp>
#include <informer/task_group.hpp>

#include "root/series.hpp"
#include "root/turn_watch.hpp"

#include <boost/asio/steady_timer.hpp>

#include <atomic>
#include <exception>
#include <mutex>
#include <optional>
#include <string_view>

namespace informer {

struct controller::impl : std::enable_shared_from_this<impl> {
    using queue = work_queue<object_key>;
    using item = queue::item;
    static constexpr std::size_t batch = 128; ///< events taken at a time

    struct source {
        std::string name;
        informer_handle informer;
        map_function map;
        predicate when;
        bool of_main = false; ///< the resource whose keys are reconciled
        int priority = 0;
        subscription_options options;
        std::shared_ptr<subscription> events; ///< null until the sources run
        std::vector<std::string> told;        ///< errors of its functions that were logged already
        std::vector<std::string> indexes;     ///< names of the indexes that were requested with it
        std::string waits_for; ///< the error about the cache that its mapping waits for; empty: it does not wait
        bool awaited = true;   ///< by the workers: it was there when the sources began
        bool removed = false;
        bool has_synced() const noexcept { return events && events->has_synced(); }
        bool readable() const noexcept; ///< has_synced(), and its indexes are built
    };
    using source_ptr = std::shared_ptr<source>;
    enum class stage : std::uint8_t { not_yet, about_to, now, no_more };
    /// A change of the group of replicas for which the sources have not been gone through yet.
    struct shard_news {
        explicit shard_news(const asio::any_io_executor& e) : wake(e) {}
        detail::async_event wake;
        std::optional<shard_view> before; ///< set while a change waits: the view to compare with
        std::shared_ptr<void> listening;
    };
    /// State about the keys that wait while no worker runs.
    struct keys_in_vain {
        std::size_t waiting = 0; ///< how many were left when keys were forgotten last
        bool forgetting = false; ///< forget_what_is_gone() runs
        bool forgot = false;     ///< some keys, and no workers have gone through the sources since
    };
    struct trigger {
        std::string name;
        trigger_source run;
    };

    impl(runtime r, std::string n, controller_options o, reconciler f);
    ~impl();
    impl(const impl&) = delete;
    impl& operator=(const impl&) = delete;

    runtime rt;
    const std::string name;
    const controller_options options;
    const reconciler reconcile;
    std::vector<source_ptr> sources; ///< may change at each co_await, and wherever a function of the user is called
    std::vector<trigger> triggers;
    std::shared_ptr<queue> keys;

    asio::steady_timer begun; ///< wakes those who wait for the sync: cancelled when the sources run, and at a stop
    unsigned stops = 0;       ///< how often `stop()` was called
    bool runs = false, workers_run = false;
    stage following = stage::not_yet; ///< the sources
    task_group* followers = nullptr;  ///< of the sources; while they are followed
    failure broken;                   ///< why it had to stop by itself
    clock::time_point stopped_at{};
    detail::async_event workers_news; ///< a stop, or a worker has ended
    detail::async_event sources_news;
    shard_news shards;
    detail::series_share series;
    keys_in_vain standby;
    std::size_t workers_alive = 0;

    mutable std::mutex mutex; ///< protects `figures`
    controller_figures figures;

    // controller_sources.cpp
    class listening;
    static asio::awaitable<void> run_sources(std::shared_ptr<impl> s);
    static asio::awaitable<void> follow_sources(std::shared_ptr<impl> s); ///< the caller has set `about_to`
    static asio::awaitable<void> follow(std::shared_ptr<impl> s, source_ptr of);
    static asio::awaitable<void> pull(std::shared_ptr<impl> s, std::size_t index);
    static asio::awaitable<void> synced(std::shared_ptr<impl> s, std::chrono::nanoseconds at_most);
    struct waiting {
        waiting(clock::time_point now, std::chrono::nanoseconds most)
            : at_most(most), deadline(most.count() > 0 ? detail::later(now, most) : clock::time_point::max()) {}
        std::chrono::nanoseconds at_most; ///< zero: for ever
        clock::time_point deadline;
    };
    static asio::awaitable<void> synced_in_time(std::shared_ptr<impl> s, source_ptr of, waiting how);
    static asio::awaitable<void> source_synced(std::shared_ptr<impl> s, source_ptr of);
    /// Queues the keys that the event leads to; with `only`, just those that this replica gained by that change of the
    /// group. False: the mapping reads a cache that is not filled yet, so the event must be handled again later.
    bool handle(source& from, const event& e, const shard_change* only = nullptr);
    /// What threw while an event was handled: the predicate or the mapping, and why.
    using complaints = std::vector<std::pair<std::string_view, std::string>>;
    bool map(source& from, const object& state, std::vector<object_key>& asked, complaints& failed);
    /// Calls `handle` again until it succeeds; false if we were stopped or cancelled meanwhile.
    static asio::awaitable<bool> handle_later(std::shared_ptr<impl> s, source_ptr of, event e,
                                              const shard_change* only);
    bool gained(source& from, const shard_change& change, const object_key& key);
    void source_failed(source& from, std::string_view doing, std::string_view why);
    /// Lets other work have its turn on the executor; false if we were stopped or cancelled meanwhile.
    static asio::awaitable<bool> step_aside(std::shared_ptr<impl> s);
    bool has_synced() const noexcept;
    std::string last_error_of(const source& s) const;
    std::string why_not_ready(const source& from) const; ///< empty: it is in sync and followed

    // controller_watch.cpp
    /// One source for each namespace of the options. Starts their informers.
    static std::vector<source_ptr> make_sources(const std::string& name, informer_factory& factory,
                                                const api_resource& resource, map_function map, bool of_main,
                                                const source_options& how);
    std::shared_ptr<controller_source::state> watch(informer_factory& factory, const api_resource& resource,
                                                    map_function map, bool of_main, const source_options& how);
    void open(source& from) const;
    void add(const std::vector<source_ptr>& some);
    void remove(const source_ptr& from) noexcept;
    static asio::awaitable<void> added_synced(std::shared_ptr<impl> s, std::vector<source_ptr> added,
                                              std::chrono::nanoseconds at_most);

    // controller_shards.cpp
    std::string shard_text(const object_key& key) const;
    void listen_to_shards();
    static asio::awaitable<void> follow_shards(std::shared_ptr<impl> s);
    static asio::awaitable<void> replay(std::shared_ptr<impl> s, source_ptr of, std::optional<shard_change> change);
    static asio::awaitable<void> replay_all(std::shared_ptr<impl> s, std::optional<shard_change> change);

    // controller_standby.cpp
    bool waits_in_vain() const;
    bool has_main() const;
    bool is_gone(const object_key& key) const;
    static asio::awaitable<void> forget_what_is_gone(std::shared_ptr<impl> s);

    // controller.cpp
    static asio::awaitable<void> run(std::shared_ptr<impl> s);
    static asio::awaitable<void> lead(std::shared_ptr<impl> s);
    static asio::awaitable<void> lead_alone(std::shared_ptr<impl> s);
    static asio::awaitable<void> run_workers(std::shared_ptr<impl> s);
    static asio::awaitable<void> work(std::shared_ptr<impl> s);
    static asio::awaitable<void> process(std::shared_ptr<impl> s, item it);

    struct attempt {
        reconcile_result result;
        bool panic = false;
        bool in_time = true;
        void fail();
    };
    static asio::awaitable<void> timed(std::shared_ptr<impl> s, reconcile_request request,
                                       std::shared_ptr<attempt> out);
    static asio::awaitable<void> call(std::shared_ptr<impl> s, reconcile_request request, std::shared_ptr<attempt> out);
    void at_work(int change); ///< changes the number of active workers
    void drop(item& it);      ///< the key is another replica's, or `only_keys` refuses it
    void finish(item& it, attempt& a, bool cut, clock::duration took);
    void stop();
    void break_off(failure why);
    /// Stops the controller: without one of its coroutines it would only look alive.
    void child_failed(const std::exception_ptr& e);

    void count(std::string_view counter, std::string_view label = {}, std::string_view value = {}, double n = 1) const;
    void begin_series(); ///< at zero, so that a query for increases sees the first one
    void gauge(std::string_view what, double value) const;
    void log(log_level level, const std::string& line) const;
};

} // namespace informer
