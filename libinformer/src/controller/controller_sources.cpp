// From events to keys.
#include "controller_impl.hpp"

#include "root/in_seconds.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <algorithm>
#include <iterator>

namespace informer {

namespace {

constexpr std::size_t most_told_kinds = 16;                // of failures that are logged, for each source
constexpr auto look_again = std::chrono::milliseconds(50); // when a mapping waits for a cache

} // namespace

/// Opens and closes the sources' subscriptions. An informer waits for each of them (back-pressure), so they are open
/// only while the sources are followed. The destructor closes them even if the coroutine's frame is destroyed.
class controller::impl::listening {
public:
    explicit listening(impl* s) noexcept : s_(s) {}
    listening(const listening&) = delete;
    listening& operator=(const listening&) = delete;
    ~listening() { end(); }
    void begin(task_group& group) const {
        for (const source_ptr& from : s_->sources) s_->open(*from);
        s_->followers = &group;
        s_->following = stage::now;
        s_->begun.cancel();
    }
    void end() const {
        s_->followers = nullptr;
        s_->following = stage::no_more;
        for (const source_ptr& from : s_->sources)
            if (from->events) from->events->close();
    }

private:
    impl* s_;
};

void controller::impl::source_failed(source& from, std::string_view doing, std::string_view why) {
    {
        const std::lock_guard lock(mutex);
        ++figures.source_errors;
    }
    std::string line = from.name + ": " + std::string(doing) + " failed: " + std::string(why);
    if (std::find(from.told.begin(), from.told.end(), line) != from.told.end()) return; // once per kind of failure
    if (from.told.size() >= most_told_kinds) return;
    log(log_level::error, line);
    from.told.push_back(std::move(line));
}

/// If the shard text cannot be made, the key counts as gained: the worker that takes it tries again.
bool controller::impl::gained(source& from, const shard_change& change, const object_key& key) {
    try {
        return change.gained(shard_text(key));
    } catch (...) {
        source_failed(from, "shard text", detail::what_is_wrong());
        return true;
    }
}

/// Adds the keys that this state leads to. An exception of the mapping costs the keys of this state only. False: the
/// mapping reads a cache that is not filled yet.
bool controller::impl::map(source& from, const object& state, std::vector<object_key>& asked, complaints& failed) {
    try {
        std::vector<object_key> some = from.map(state);
        std::move(some.begin(), some.end(), std::back_inserter(asked));
    } catch (const error& x) {
        if (x.code() == errc::not_synced) {
            from.waits_for = x.what();
            return false;
        }
        failed.emplace_back("mapping", x.what());
    } catch (...) {
        failed.emplace_back("mapping", detail::what_is_wrong());
    }
    return true;
}

bool controller::impl::handle(source& from, const event& e, const shard_change* only) {
    complaints failed; // counted once, although an event that comes too early is handled again
    try {
        if (!from.when(e)) return true;
    } catch (...) {
        failed.emplace_back("predicate", detail::what_is_wrong()); // the event is let through
    }
    const bool news = !e.initial && e.reason != event_reason::resync;
    const int priority = news ? from.priority : std::min(from.priority, low_priority);
    std::vector<object_key> asked;
    if (!map(from, e.current, asked, failed)) return false;
    // The previous state may lead to other keys, in an update as in a deletion.
    if (e.previous && !e.previous.same_as(e.current) && !map(from, e.previous, asked, failed)) return false;
    for (const auto& [doing, why] : failed) source_failed(from, doing, why);
    // Each key once: a worker may have taken the key after the first add(), and the second would queue it again.
    std::sort(asked.begin(), asked.end());
    asked.erase(std::unique(asked.begin(), asked.end()), asked.end());
    if (only != nullptr) std::erase_if(asked, [&](const object_key& key) { return !gained(from, *only, key); });
    for (const object_key& key : asked) keys->add(key, priority);
    return true;
}

asio::awaitable<bool> controller::impl::handle_later(std::shared_ptr<impl> s, source_ptr of, event e,
                                                     const shard_change* only) {
    source& from = *of;
    s->log(log_level::info, from.name + ": its mapping waits: " + from.waits_for);
    for (bool handled = false; !handled;) {
        const bool slept = co_await s->rt.clock().sleep_for(look_again);
        if (!slept || s->stops != 0 || from.removed) co_return false;
        handled = s->handle(from, e, only);
    }
    from.waits_for.clear();
    s->log(log_level::info, from.name + ": its mapping goes on");
    co_return true;
}

asio::awaitable<bool> controller::impl::step_aside(std::shared_ptr<impl> s) {
    co_await asio::post(s->rt.executor(), asio::use_awaitable);
    const bool asked = co_await detail::cancelled();
    co_return !asked && s->stops == 0;
}

asio::awaitable<void> controller::impl::follow(std::shared_ptr<impl> s, source_ptr of) {
    co_await asio::this_coro::throw_if_cancelled(false);
    source& from = *of;
    const auto events = from.events;
    detail::turn_watch turn; // while events are waiting, next_batch() does not suspend
    for (bool going = true; going;) {
        std::vector<event> some;
        bool failed = false;
        try {
            some = co_await events->next_batch(batch);
        } catch (const error&) {
            failed = true; // cancelled
        }
        if (failed || some.empty()) break;
        for (const event& e : some) {
            if (from.removed) break;
            if (!s->handle(from, e)) {
                going = co_await handle_later(s, of, e, nullptr);
                turn.rested();
            }
            if (going && turn.over()) going = co_await step_aside(s);
            if (!going) break;
        }
        if (some.size() < batch) turn.rested(); // nothing is left: next_batch() will suspend
        if (going && s->waits_in_vain()) {
            co_await forget_what_is_gone(s);
            turn.rested();
        }
    }
    const bool asked = co_await detail::cancelled();
    if (!asked && s->stops == 0 && !from.removed)
        s->break_off(failure(errc::stopped, "controller " + s->name + ": the informer of " + from.name + " has ended"));
    s->sources_news.notify();
}

asio::awaitable<void> controller::impl::pull(std::shared_ptr<impl> s, std::size_t index) {
    const trigger& from = s->triggers[index];
    const controller_trigger ask(s->keys);
    backoff pauses(backoff_options(), s->rt.draw_seed());
    for (;;) {
        const clock::time_point begun = s->rt.clock().now();
        std::string why;
        try {
            auto pulling = from.run(ask);
            co_await std::move(pulling);
        } catch (...) {
            why = detail::what_is_wrong();
        }
        const auto asked = co_await asio::this_coro::cancellation_state;
        if (asked.cancelled() != asio::cancellation_type::none || s->stops != 0 || why.empty()) co_return;
        {
            const std::lock_guard lock(s->mutex);
            ++s->figures.source_errors;
        }
        pauses.healthy_for(s->rt.clock().now() - begun);
        const auto pause = std::chrono::duration_cast<std::chrono::milliseconds>(pauses.next());
        s->log(log_level::error,
               "trigger " + from.name + " has ended: " + why + " (called again in " + detail::in_seconds(pause) + ")");
        const bool slept = co_await s->rt.clock().sleep_for(pause);
        if (!slept || s->stops != 0) co_return;
    }
}

asio::awaitable<void> controller::impl::run_sources(std::shared_ptr<impl> s) {
    if (s->following != stage::not_yet) throw error(errc::already_running, "controller " + s->name + ": sources");
    s->following = stage::about_to;
    co_await follow_sources(s);
}

asio::awaitable<void> controller::impl::follow_sources(std::shared_ptr<impl> s) {
    const auto executor = co_await asio::this_coro::executor;
    if (s->stops != 0) co_return;
    const listening here(s.get());
    task_group group(executor);
    group.on_error([i = s.get()](std::exception_ptr e) { i->child_failed(e); });
    try {
        here.begin(group);
        for (const source_ptr& from : s->sources) group.spawn(follow(s, from));
        s->begin_series(); // by a sink that may add a source
        for (std::size_t i = 0; i < s->triggers.size(); ++i) group.spawn(pull(s, i));
        if (s->options.shards_) group.spawn(follow_shards(s));
    } catch (...) { // a stop, as somebody may wait for the sync
        s->child_failed(std::current_exception());
    }
    for (;;) {
        const bool asked = co_await detail::cancelled();
        if (asked || s->stops != 0) break;
        co_await s->sources_news.wait();
    }
    here.end();
    group.stop();
    co_await group.join();
    if (s->broken) throw error(s->broken);
}

bool controller::impl::source::readable() const noexcept {
    if (!has_synced()) return false;
    if (indexes.empty()) return true;
    const cache_snapshot now = informer->snapshot();
    return std::all_of(indexes.begin(), indexes.end(), [&](const std::string& one) { return now.has_index(one); });
}

bool controller::impl::has_synced() const noexcept {
    return std::all_of(sources.begin(), sources.end(),
                       [](const source_ptr& from) { return !from->awaited || from->readable(); });
}

std::string controller::impl::last_error_of(const source& from) const {
    const informer_status status = from.informer->status();
    std::string text(to_string(status.phase));
    if (!from.waits_for.empty()) text += ", its mapping waits: " + from.waits_for;
    if (status.last_error) text += ", last error: " + status.last_error.what();
    return text;
}

asio::awaitable<void> controller::impl::source_synced(std::shared_ptr<impl> s, source_ptr of) {
    const source& from = *of;
    while (!from.events && !from.removed) {
        const bool asked = co_await detail::cancelled();
        if (asked) throw error(errc::cancelled, "controller " + s->name);
        if (s->stops != 0) throw error(errc::stopped, "controller " + s->name + ": stopped before its sources ran");
        const auto [ec] = co_await s->begun.async_wait(asio::as_tuple(asio::use_awaitable));
        static_cast<void>(ec); // always set: the timer never expires, it is cancelled
    }
    if (from.removed) co_return;
    const auto events = from.events;
    try {
        co_await events->synced();
    } catch (const error&) {
        if (!from.removed) throw;
    }
    if (from.removed) co_return;
    // reconcilers read the indexes, which are still being built if the cache was filled before
    for (const std::string& one : from.indexes) {
        auto ready = from.informer->index_ready(one, clock::duration::max());
        co_await std::move(ready);
    }
}

asio::awaitable<void> controller::impl::synced(std::shared_ptr<impl> s, std::chrono::nanoseconds at_most) {
    const waiting how(s->rt.clock().now(), at_most);
    const auto is_late = [](const source_ptr& from) { return from->awaited && !from->readable(); };
    for (;;) { // until the sources run, others may be added
        const auto late = std::find_if(s->sources.begin(), s->sources.end(), is_late);
        if (late == s->sources.end()) co_return;
        source_ptr next = *late;
        co_await synced_in_time(s, std::move(next), how);
    }
}

asio::awaitable<void> controller::impl::synced_in_time(std::shared_ptr<impl> s, source_ptr of, waiting how) {
    bool in_time = true;
    if (how.at_most.count() > 0)
        in_time = co_await detail::run_until(s->rt.clock(), how.deadline, source_synced(s, of));
    else
        co_await source_synced(s, of);
    if (in_time) co_return;
    const std::string time = detail::in_seconds(std::chrono::duration_cast<std::chrono::milliseconds>(how.at_most));
    throw error(errc::deadline_exceeded, "controller " + s->name + ": " + of->name + " is not in sync after " + time +
                                             " (" + s->last_error_of(*of) + ")");
}

std::string controller::impl::why_not_ready(const source& from) const {
    const bool filled = from.readable();
    const auto phase = from.informer->status().phase;
    const bool followed = phase != informer_phase::parked && phase != informer_phase::stopped && from.waits_for.empty();
    if (filled && followed) return {};
    return from.name + (filled ? ": " : " is not in sync: ") + last_error_of(from);
}

std::string controller::not_ready() const {
    if (impl_->broken) return impl_->broken.what();
    if (impl_->stops != 0) return "controller " + impl_->name + " was stopped";
    for (const impl::source_ptr& from : impl_->sources) {
        if (!from->awaited && !from->readable()) continue;
        if (auto why = impl_->why_not_ready(*from); !why.empty()) return why;
    }
    if (impl_->following != impl::stage::now) return "controller " + impl_->name + " follows its sources no more";
    return {};
}

} // namespace informer
