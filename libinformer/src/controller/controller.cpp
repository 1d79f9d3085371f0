// From keys to reconciles.
#include "controller_impl.hpp"

#include <informer/detail/text_hash.hpp>

#include "root/in_seconds.hpp"
#include "root/quietly.hpp"
#include "root/while_it_lasts.hpp"

#include <boost/asio/this_coro.hpp>

#include <array>
#include <utility>

namespace informer {

namespace {

work_queue_options queue_options(const std::string& name, const controller_options& o) {
    work_queue_options q;
    q.name(name).ageing(o.ageing_);
    if (o.limiter_) q.limiter(o.limiter_);
    return q;
}

/// How soon to try a key again that the group's last view gives to this replica although the view has expired. The
/// group lists its members about every retry period.
constexpr auto shard_look = std::chrono::seconds(1);

std::uint64_t by_namespace(const object_key& key) {
    return detail::text_hash(key.name_space);
}

constexpr std::array results = {"success", "error", "requeue", "requeue_after"};
constexpr std::array failure_counters = {
    "controller_runtime_reconcile_errors_total", "controller_runtime_terminal_reconcile_errors_total",
    "controller_runtime_reconcile_panics_total", "controller_runtime_reconcile_timeouts_total"};
constexpr const char *workers_gauge = "controller_runtime_max_concurrent_reconciles",
                     *active_gauge = "controller_runtime_active_workers";

} // namespace

controller::impl::impl(runtime r, std::string n, controller_options o, reconciler f)
    : rt(std::move(r)), name(std::move(n)), options(std::move(o)), reconcile(std::move(f)),
      keys(std::make_shared<queue>(rt, queue_options(name, options),
                                   options.fair_namespaces_ ? by_namespace : queue::group_function())),
      begun(rt.executor(), asio::steady_timer::time_point::max()), workers_news(rt.executor()),
      sources_news(rt.executor()), shards(rt.executor()), series(rt.metrics(), "controller", name) {}

void controller::impl::count(std::string_view counter, std::string_view label, std::string_view value, double n) const {
    auto* m = rt.metrics();
    if (m == nullptr) return;
    if (label.empty())
        m->add(counter, n, {{"controller", name}});
    else
        m->add(counter, n, {{"controller", name}, {label, value}});
}

void controller::impl::begin_series() {
    for (const char* result : results) count("controller_runtime_reconcile_total", "result", result, 0);
    for (const char* counter : failure_counters) count(counter, {}, {}, 0);
    gauge(workers_gauge, static_cast<double>(options.workers_));
    at_work(0);
}

controller::impl::~impl() {
    if (!series.leave()) return;
    auto* m = rt.metrics();
    constexpr std::array gauges = {workers_gauge, active_gauge};
    const metrics_sink::label of("controller", name);
    detail::end_gauges(*m, gauges, {of});
    for (const char* result : results) m->forget("controller_runtime_reconcile_total", {of, {"result", result}});
    detail::end_series(*m, failure_counters, {of});
    m->forget("controller_runtime_reconcile_time_seconds", {of});
}

void controller::impl::gauge(std::string_view what, double value) const {
    if (auto* m = rt.metrics()) m->set(what, value, {{"controller", name}});
}

void controller::impl::log(log_level level, const std::string& line) const {
    if (rt.logs(level)) rt.log(level, "controller " + name + ": " + line);
}

void controller::impl::stop() {
    const bool first = stops++ == 0;
    sources_news.notify();
    workers_news.notify();
    if (!first) return;
    stopped_at = rt.clock().now();
    begun.cancel();
    keys->shut_down();
}

void controller::impl::break_off(failure why) {
    if (stops == 0) stop(); // a second stop() would cancel the running reconciles
    if (broken) return;
    broken = std::move(why);
    const std::string ours = "controller " + name + ": ", what = broken.what();
    log(log_level::error, what.starts_with(ours) ? what.substr(ours.size()) : what);
}

void controller::impl::child_failed(const std::exception_ptr& e) {
    if (stops == 0) stop(); // first: what follows allocates, which may fail
    try {
        std::rethrow_exception(e);
    } catch (const error& x) {
        break_off(x.failure());
    } catch (...) {
        break_off(failure(errc::stopped, "controller " + name + ": " + detail::what_is_wrong()));
    }
}

/// Sets the result from the exception that is being handled.
void controller::impl::attempt::fail() {
    try {
        throw;
    } catch (const error& e) {
        result = reconcile_result::error(e.failure());
    } catch (const boost::system::system_error& e) {
        std::string words = e.what(); // which ends with the message of the error code
        const std::string code = ": " + e.code().what();
        words = words.ends_with(code) ? words.substr(0, words.size() - code.size()) : "reconcile";
        result = reconcile_result::error(failure(e.code(), words));
    } catch (const std::exception& e) {
        result = reconcile_result::error(failure(errc::callback_failed, std::string("exception: ") + e.what()));
        panic = true;
    } catch (...) {
        result = reconcile_result::error(failure(errc::callback_failed, "an exception of unknown type"));
        panic = true;
    }
}

asio::awaitable<void> controller::impl::call(std::shared_ptr<impl> s, reconcile_request request,
                                             std::shared_ptr<attempt> out) {
    try {
        auto work = s->reconcile(request);
        out->result = co_await std::move(work);
    } catch (...) {
        out->fail();
    }
}

void controller::impl::at_work(int change) {
    std::size_t active = 0;
    {
        const std::lock_guard lock(mutex); // not while the sink is called, which may ask for the figures
        active = figures.active += static_cast<std::size_t>(change);
    }
    gauge(active_gauge, static_cast<double>(active));
}

void controller::impl::drop(item& it) {
    {
        const std::lock_guard lock(mutex);
        ++figures.foreign;
    }
    it.forget();
    it.done();
}

void controller::impl::finish(item& it, attempt& a, bool cut, clock::duration took) {
    using enum reconcile_result::outcome;
    reconcile_result& r = a.result;
    // The worker was cancelled and cut the reconcile off, which is not the key's fault: it is queued again at once, for
    // the next worker. A reconciler may report `cancelled` as terminal, because a retry does not cure it.
    const bool told = r.what() == error || (r.what() == terminal && r.why() == condition::cancelled);
    if (cut && (told || !a.in_time)) {
        it.requeue();
        it.done();
        return;
    }
    std::string_view result = "success";
    {
        const std::lock_guard lock(mutex); // not while the metrics sink is called
        if (!a.in_time) {
            ++figures.timeouts;
            const auto limit = std::chrono::duration_cast<std::chrono::milliseconds>(options.reconcile_timeout_);
            r = reconcile_result::error(
                failure(errc::deadline_exceeded, "reconcile: cancelled after " + detail::in_seconds(limit)));
        }
        if (a.panic) ++figures.panics;
        switch (r.what()) {
        case done: ++figures.succeeded; break;
        case requeue_after: ++figures.succeeded, result = "requeue_after"; break;
        case requeue: ++figures.requeued, result = "requeue"; break;
        case error: ++figures.failed, result = "error"; break;
        case terminal: ++figures.failed, ++figures.terminal, result = "error"; break;
        }
    }
    if (!a.in_time) count("controller_runtime_reconcile_timeouts_total");
    if (a.panic) count("controller_runtime_reconcile_panics_total");
    count("controller_runtime_reconcile_total", "result", result);
    if (result == "error") count("controller_runtime_reconcile_errors_total");
    if (r.what() == terminal) count("controller_runtime_terminal_reconcile_errors_total");
    if (auto* m = rt.metrics())
        m->observe("controller_runtime_reconcile_time_seconds", std::chrono::duration<double>(took).count(),
                   {{"controller", name}});
    if (result == "error" && rt.logs(log_level::error))
        log(log_level::error,
            it.key().str() + ": " + r.why().what() +
                (r.what() == terminal ? " (not tried again)" : " (attempt " + std::to_string(it.requeues() + 1) + ")"));
    switch (r.what()) {
    case done:
    case terminal: it.forget(); break;
    case requeue_after:
        it.forget();
        it.requeue_after(r.after());
        break;
    case requeue:
    case error: it.requeue_rate_limited(); break;
    }
    it.done();
}

asio::awaitable<void> controller::impl::timed(std::shared_ptr<impl> s, reconcile_request request,
                                              std::shared_ptr<attempt> out) {
    const auto limit = s->options.reconcile_timeout_;
    if (limit.count() > 0) {
        const auto until = detail::later(s->rt.clock().now(), limit);
        out->in_time = co_await detail::run_until(s->rt.clock(), until, call(s, std::move(request), out));
        co_return;
    }
    // The reconciler sees a cancellation in Asio's usual way, as an exception.
    const bool throwing = co_await asio::this_coro::throw_if_cancelled();
    co_await asio::this_coro::throw_if_cancelled(true);
    try {
        co_await call(s, std::move(request), out);
    } catch (const boost::system::system_error& e) { // cancelled before it began
        out->result = reconcile_result::error(failure(e.code(), "reconcile"));
    }
    co_await asio::this_coro::throw_if_cancelled(throwing);
}

asio::awaitable<void> controller::impl::process(std::shared_ptr<impl> s, item it) {
    const object_key key = it.key();
    const auto group = s->options.shards_;
    const auto out = std::make_shared<attempt>();
    std::string text;
    bool wanted = true, failed = false;
    try {
        if (group) text = s->shard_text(key);
        wanted = !s->options.only_keys_ || s->options.only_keys_(key);
    } catch (...) {
        out->fail();
        failed = true;
    }
    if (failed) { // unknown whether the key is ours: retried like a failed reconcile
        s->finish(it, *out, false, clock::duration::zero());
        co_return;
    }
    if (!wanted || (group && !group->owns(text))) {
        // The group's last view gives the key to this replica, but the view has expired. If the next list merely renews
        // it, the group reports no change, so the key must come back by itself.
        if (wanted && group->view().owns(text)) it.requeue_after(shard_look);
        s->drop(it);
        co_return;
    }
    const clock::time_point begun = s->rt.clock().now();
    s->at_work(+1);
    const reconcile_request request(key, it.requeues(), it.priority());
    auto work = timed(s, request, out);
    owned_end end = owned_end::done;
    if (group) {
        // the result if the work is cut off before it begins
        out->result = reconcile_result::error(failure(errc::cancelled, "reconcile"));
        end = co_await group->run_owned(text, std::move(work));
    } else {
        co_await std::move(work);
    }
    const bool cut = co_await detail::cancelled();
    s->at_work(-1);
    if (end != owned_end::done && !cut) // the key's new owner goes on from here
        s->drop(it);
    else
        s->finish(it, *out, cut, s->rt.clock().now() - begun);
}

asio::awaitable<void> controller::impl::work(std::shared_ptr<impl> s) {
    co_await asio::this_coro::throw_if_cancelled(false);
    detail::turn_watch turn(1); // neither taking a ready key nor a reconcile need suspend
    for (;;) {
        const bool asked = co_await detail::cancelled();
        if (asked || s->stops != 0) break;
        item it = s->keys->try_get();
        if (!it) {
            try {
                it = co_await s->keys->get();
            } catch (const error&) { // cancelled: the next round notices
                continue;
            }
            turn.rested();
        }
        if (!it) break;
        if (s->stops != 0) break; // the item was not looked at: its destructor gives the key back
        co_await process(s, std::move(it));
        if (turn.over()) co_await step_aside(s);
    }
    --s->workers_alive;
    s->workers_news.notify();
}

asio::awaitable<void> controller::impl::run_workers(std::shared_ptr<impl> s) {
    if (s->workers_run) throw error(errc::already_running, "controller " + s->name + ": workers");
    if (s->stops != 0) throw error(errc::stopped, "controller " + s->name);
    const detail::while_it_lasts running(s->workers_run);
    const auto executor = co_await asio::this_coro::executor;
    task_group group(executor);
    group.on_error([i = s.get()](std::exception_ptr e) {
        --i->workers_alive;
        i->workers_news.notify(); // child_failed() notifies only at the first stop
        i->child_failed(e);
    });
    s->begin_series();
    s->workers_alive = s->options.workers_;
    task_group again(executor);
    again.on_error([i = s.get()](std::exception_ptr e) { i->child_failed(e); });
    if (std::exchange(s->standby.forgot, false)) again.spawn(replay_all(s, std::nullopt));
    s->standby.waiting = 0; // out of date once these workers have ended
    for (std::size_t i = 0; i < s->options.workers_; ++i) group.spawn(work(s));
    for (;;) {
        const bool asked = co_await detail::cancelled();
        if (asked || s->stops > 1 || s->workers_alive == 0) break;
        if (s->stops == 0) {
            co_await s->workers_news.wait();
            continue;
        }
        const auto until = detail::later(s->stopped_at, s->options.shutdown_timeout_);
        if (s->rt.clock().now() >= until) {
            std::size_t active = 0;
            {
                const std::lock_guard lock(s->mutex);
                active = s->figures.active;
            }
            if (active != 0) s->log(log_level::warning, "reconciles still run after the shutdown time-out: cancelled");
            break;
        }
        co_await s->workers_news.wait_until(s->rt.clock(), until);
    }
    s->standby.forgot = s->standby.forgot || again.size() != 0; // the replay has not come to its end
    again.stop();
    group.stop();
    co_await again.join();
    co_await group.join();
}

asio::awaitable<void> controller::impl::lead(std::shared_ptr<impl> s) {
    if (s->broken) throw error(s->broken);
    if (s->stops != 0) co_return; // the sources will not sync any more
    std::exception_ptr failed;
    std::string why;
    try {
        co_await synced(s, s->options.sync_timeout_);
    } catch (...) {
        failed = std::current_exception();
        why = detail::what_is_wrong();
    }
    const bool asked = co_await detail::cancelled();
    if (!asked && s->broken) throw error(s->broken);
    if (asked || s->stops != 0) co_return;
    if (failed) {
        s->rt.log(log_level::error, why); // the caller may look at the exception late, or never
        std::rethrow_exception(failed);
    }
    co_await run_workers(s);
    if (s->broken) throw error(s->broken);
}

asio::awaitable<void> controller::impl::lead_alone(std::shared_ptr<impl> s) {
    if (s->runs) throw error(errc::already_running, "controller " + s->name + ": workers");
    co_await lead(s);
}

asio::awaitable<void> controller::impl::run(std::shared_ptr<impl> s) {
    if (s->runs || s->following != stage::not_yet || s->workers_run)
        throw error(errc::already_running, "controller " + s->name);
    s->runs = true;
    s->following = stage::about_to; // set here: a run_sources() before the child begins is refused, not the child
    const auto executor = co_await asio::this_coro::executor;
    task_group group(executor);
    group.on_error([i = s.get()](std::exception_ptr e) { i->child_failed(e); });
    group.spawn(detail::quietly(follow_sources(s)));
    std::exception_ptr failed;
    try {
        co_await lead(s);
    } catch (...) {
        failed = std::current_exception();
    }
    if (s->stops == 0) s->stop();
    try {
        co_await group.join();
    } catch (...) {
        if (!failed) failed = std::current_exception();
    }
    if (s->broken) throw error(s->broken);
    if (failed) std::rethrow_exception(failed);
}

// ---- the handle -----------------------------------------------------------------------------------------------------

const std::string& controller::name() const noexcept {
    return impl_->name;
}
asio::awaitable<void> controller::run() {
    return detail::quietly(impl::run(impl_));
}
asio::awaitable<void> controller::run_sources() {
    return detail::quietly(impl::run_sources(impl_));
}
asio::awaitable<void> controller::run_workers() {
    return detail::quietly(impl::lead_alone(impl_));
}
void controller::stop() {
    impl_->stop();
}
bool controller::stopping() const noexcept {
    return impl_->stops != 0;
}
bool controller::has_synced() const noexcept {
    return impl_->has_synced();
}
asio::awaitable<void> controller::synced(std::chrono::nanoseconds at_most) {
    return impl::synced(impl_, at_most);
}
void controller::enqueue(const object_key& key, int priority) const {
    impl_->keys->add(key, priority);
}
controller_trigger controller::trigger() const {
    return controller_trigger(impl_->keys);
}
std::uint32_t controller::attempts(const object_key& key) const {
    return impl_->keys->num_requeues(key);
}

controller_figures controller::figures() const {
    controller_figures f;
    {
        const std::lock_guard lock(impl_->mutex);
        f = impl_->figures;
    }
    f.queue = impl_->keys->figures();
    return f;
}

} // namespace informer
