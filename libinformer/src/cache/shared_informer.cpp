#include "root/add_weak.hpp"
#include "root/quietly.hpp"
#include "shared_informer_impl.hpp"

#include <boost/asio/this_coro.hpp>

#include <algorithm>
#include <array>
#include <exception>
#include <utility>

namespace informer {

namespace {

reflector_options options_for(const informer_options& o, std::uint64_t seed) {
    reflector_options r;
    r.labels_ = o.label_selector_;
    r.fields_ = o.field_selector_;
    r.watch_list_ = o.watch_list_;
    r.any_version_ = o.any_version_;
    r.metadata_only_ = o.metadata_only_;
    r.page_size_ = o.page_size_;
    r.backoff_ = o.backoff_;
    r.watch_timeout_ = o.watch_timeout_;
    r.seed_ = seed;
    return r;
}

/// Errors of documents end a stream too, when it cannot be framed any more.
bool is_decode(const failure& f) {
    return f == errc::syntax_error || f == errc::bad_utf8 || f == errc::too_deep || f == errc::not_an_object ||
           f == errc::too_large;
}

template <class F, class... Arguments>
void call_observer(const F& f, const Arguments&... arguments) {
    if (!f) return;
    const F copy = f; // it may replace itself
    try {
        copy(arguments...);
    } catch (...) { // NOLINT(bugprone-empty-catch) an observer must not stop an informer
    }
}

} // namespace

// ---- life ------------------------------------------------------------------------------------------------------------

asio::awaitable<void> shared_informer::impl::run(self s, std::shared_ptr<machinery> m) {
    if (!m) throw error(errc::already_running, "run " + s->name);
    m->going = true;
    s->begin_metrics();
    if (!s->stopping) {
        s->machine = reflector(options_for(s->options, s->rt.draw_seed()), m->from->watch_list());
        s->note_phase();
        m->tasks.spawn(consume(s));
        m->tasks.spawn(keep_tidy(s));
        m->tasks.spawn(produce(s));
        s->start_waiting_children();
    }
    while (!s->stopping && !m->failed) { // without one of its coroutines it would only look alive
        const bool told = co_await m->stop_asked.wait();
        if (!told) break; // cancelled
    }

    s->stopping = true;
    m->queue.close();
    m->tasks.stop();
    co_await m->tasks.join();
    s->ended = true;
    s->end_subscribers();
    s->store->index.revert();
    s->refresh_figures();
    s->note_phase();
    s->news();
    if (m->failed) std::rethrow_exception(m->failed);
}

void shared_informer::impl::stop() {
    if (stopping) return;
    const self keep = shared_from_this(); // an observer may drop the last handle
    stopping = true;
    if (live) live->stop_asked.notify();
    if (!started) {
        ended = true;
        note_phase();
        end_early();
    }
    news();
}

/// Also while a context goes: nobody is told but who waits.
void shared_informer::impl::end_early() {
    stopping = ended = true;
    from.reset();
    end_subscribers();
    let_go();
    {
        const std::lock_guard lock(mutex);
        figures.phase = informer_phase::stopped;
    }
    news();
}

void shared_informer::impl::end_subscribers() {
    std::shared_ptr<const std::string> why;
    try {
        if (!subscribers.empty() || !waiting.empty()) why = why_ended();
    } catch (...) { // NOLINT(bugprone-empty-catch) no memory for words
    }
    for (auto* list : {&subscribers, &waiting}) {
        for (const subscriber& one : *list) one->end(why);
        list->clear();
    }
}

/// Nobody is told anything any more, and who was may own us.
void shared_informer::impl::let_go() {
    for (const auto& h : std::exchange(handlers_waiting, {})) h->let_go();
    observer = informer_observer();
    for (const auto& weak : std::exchange(observers, {})) {
        if (const auto o = weak.lock()) *o = informer_observer();
    }
}

// ---- waiting ---------------------------------------------------------------------------------------------------------

void shared_informer::impl::news() {
    if (waiters.empty()) return;
    for (const auto& weak : std::exchange(waiters, {})) {
        if (const auto waiter = weak.lock()) waiter->notify();
    }
}

asio::awaitable<void> shared_informer::impl::wait_for_news(self s, clock::time_point until) {
    const auto told = std::make_shared<detail::async_event>(s->rt.executor());
    detail::add_weak(s->waiters, told);
    const bool notified = co_await told->wait_until(s->rt.clock(), until);
    static_cast<void>(notified);
}

std::string shared_informer::impl::last_words() const {
    const std::lock_guard lock(mutex);
    if (!figures.last_error) return {};
    return " (last error, " + figures.last_error_phase + ": " + figures.last_error.what() + ")";
}

std::shared_ptr<const std::string> shared_informer::impl::why_ended() const {
    return std::make_shared<const std::string>(name + last_words());
}

void shared_informer::impl::give_up(const std::string& doing, errc why) const {
    throw error(why, name + ": " + doing + last_words());
}

asio::awaitable<void> shared_informer::impl::wait_for(self s, std::string doing, clock::duration at_most, look at) {
    const auto until = detail::later(s->now(), at_most);
    std::optional<errc> end;
    for (;;) {
        end = at();
        if (end) break;
        const auto asked = co_await asio::this_coro::cancellation_state;
        if (asked.cancelled() != asio::cancellation_type::none) {
            end = errc::cancelled;
        } else if (s->stopping) {
            end = errc::stopped;
        } else if (s->now() >= until) {
            end = errc::deadline_exceeded;
        }
        if (end) break;
        co_await wait_for_news(s, until);
    }
    if (*end != errc{}) s->give_up(doing, *end);
}

asio::awaitable<void> shared_informer::impl::synced(self s, clock::duration at_most) {
    look at = [store = s->store]() -> std::optional<errc> {
        if (store->has_synced()) return errc{};
        return std::nullopt;
    };
    return wait_for(std::move(s), "wait for the first state", at_most, std::move(at));
}

asio::awaitable<void> shared_informer::impl::wait_until(self s, informer::resource_version version,
                                                        clock::duration at_most) {
    std::string doing = "wait for version " + version.str();
    if (!version.comparable()) doing += ": not a decimal number";
    // The coroutine holds `s` for as long as it looks.
    look at = [i = s.get(), epoch = s->epoch, version = std::move(version)]() -> std::optional<errc> {
        if (!version.comparable()) return errc::bad_configuration;
        if (i->epoch != epoch) return errc::new_epoch;
        if (i->store->index.snapshot().resource_version() >= version) return errc{};
        return std::nullopt;
    };
    return wait_for(std::move(s), std::move(doing), at_most, std::move(at));
}

// ---- status ----------------------------------------------------------------------------------------------------------

/// The reflector follows as soon as the first state has come. We do when it is in the cache and can be read: it is what it was so long.
informer_phase shared_informer::impl::phase() const noexcept {
    if (ended) return informer_phase::stopped;
    const auto now_in = machine.phase();
    return now_in == informer_phase::watching && !store->has_synced() ? figures.phase : now_in;
}

bool shared_informer::impl::note_phase() {
    const auto phase = this->phase();
    if (phase != machine.phase() && !ended) return false;
    bool changed = false;
    std::uint64_t failures = 0;
    {
        const std::lock_guard lock(mutex);
        failures = figures.attempts;
        figures.attempts = machine.attempts();
        if (failures != 0 && figures.attempts == 0) {
            figures.last_error = failure();
            figures.last_error_phase.clear();
        }
        changed = figures.phase != phase;
        if (changed) {
            figures.phase = phase;
            figures.since = rt.clock().wall();
        }
    }
    if (!changed) return false;
    // Entering a bad phase is logged with its reason, by report().
    if (failures != 0 && phase != informer_phase::backing_off && phase != informer_phase::parked) {
        const std::string line = name + ": " + std::string(to_string(phase)) + " again after " +
                                 std::to_string(failures) + " failed attempts";
        rt.log(log_level::info, line);
    } else if (rt.logs(log_level::debug)) {
        rt.log(log_level::debug, name + ": " + std::string(to_string(phase)));
    }
    tell_state();
    return true;
}

void shared_informer::impl::report(std::string_view phase, const failure& f) {
    const std::string where = is_decode(f) ? std::string("decode") : std::string(phase);
    const bool failing = machine.attempts() != 0;
    bool told_before = false;
    {
        const std::lock_guard lock(mutex);
        // Also a stream that is cut again and again, and goes on at once each time.
        told_before = failing == (figures.attempts != 0) && figures.last_error.code() == f.code();
        figures.last_error = f;
        figures.last_error_phase = where;
        figures.attempts = machine.attempts();
        const auto now_in = this->phase();
        if (figures.phase != now_in) {
            figures.phase = now_in;
            figures.since = rt.clock().wall();
        }
    }
    // Once per change, not per retry.
    const auto level = told_before ? log_level::debug : failing ? log_level::warning : log_level::info;
    if (rt.logs(level)) {
        std::string line = name + ": " + where + ": " + f.what();
        if (failing) line += machine.phase() == informer_phase::parked ? "; tried again rarely" : "; tried again";
        rt.log(level, line);
    }
    count("informer_restarts_total", 1, "reason", where);
    tell(&informer_observer::error_, std::string_view(where), f);
    tell_state();
}

template <class F, class... Arguments>
void shared_informer::impl::tell(F informer_observer::*what, const Arguments&... arguments) {
    call_observer(observer.*what, arguments...);
    std::erase_if(observers, [](const auto& weak) { return weak.expired(); });
    const auto told = observers; // one of them may add another
    for (const auto& weak : told) {
        if (const auto o = weak.lock()) call_observer((*o).*what, arguments...);
    }
}

void shared_informer::impl::tell_bad(const bad_object& b) {
    tell(&informer_observer::bad_object_, b);
}

void shared_informer::impl::tell_state() {
    if (observer.state_change_ || !observers.empty()) tell(&informer_observer::state_change_, status());
}

/// Logged once for each index.
void shared_informer::impl::note_index_errors() {
    const std::uint64_t n = store->index.index_error_count();
    if (n == figures.index_errors) return; // only we write it
    const std::vector<indexer::index_error> latest = store->index.index_errors();
    failure last;
    for (const indexer::index_error& e : latest) {
        last = failure(errc::index_function_failed, "index \"" + e.index + "\", " + e.key.str() + ": " + e.what);
        if (std::find(bad_indexes.begin(), bad_indexes.end(), e.index) != bad_indexes.end()) continue;
        bad_indexes.push_back(e.index);
        rt.log(log_level::error, name + ": " + last.what());
    }
    const std::lock_guard lock(mutex);
    figures.index_errors = n;
    figures.last_index_error = std::move(last);
}

void shared_informer::impl::refresh_figures() {
    note_index_errors();
    const auto snapshot = store->index.snapshot();
    const auto statistics = pool->statistics();
    const auto memory = store->index.memory();
    std::uint64_t received = 0;
    {
        const std::lock_guard lock(mutex);
        received = figures.bytes_received;
        figures.objects = snapshot.size();
        figures.resource_version = snapshot.resource_version();
        figures.pool = statistics;
        figures.bytes = statistics.bytes + memory;
        figures.longest_slice = std::max({reading.longest(), applying.longest(), indexing.longest()});
        figures.quarantined = bad.size() + bad_unnamed_count;
        if (figures.quarantined != 0 || !figures.quarantine.empty()) {
            figures.quarantine = bad_unnamed;
            for (const auto& [key, b] : bad) {
                if (figures.quarantine.size() >= detail::most_bad_told) break;
                figures.quarantine.push_back(b);
            }
        }
    }
    if (!rt.metrics()) return;
    count("informer_received_bytes_total", static_cast<double>(received - std::exchange(bytes_counted, received)));
    gauge("informer_objects", static_cast<double>(snapshot.size()));
    gauge("informer_bytes", static_cast<double>(statistics.bytes + memory));
    note_depth();
}

void shared_informer::impl::note_depth() const {
    gauge("informer_queue_depth", live ? static_cast<double>(live->queue.size()) : 0.0);
}

informer_status shared_informer::impl::status() const {
    const std::lock_guard lock(mutex);
    return figures;
}

void shared_informer::impl::count(std::string_view counter, double n) const {
    if (auto* m = rt.metrics()) m->add(counter, n, {{"resource", name}});
}

void shared_informer::impl::count(std::string_view counter, double n, std::string_view label,
                                  std::string_view value) const {
    if (auto* m = rt.metrics()) m->add(counter, n, {{"resource", name}, {label, value}});
}

void shared_informer::impl::gauge(std::string_view what, double value) const {
    if (auto* m = rt.metrics()) m->set(what, value, {{"resource", name}});
}

namespace {

constexpr std::array restart_reasons = {"list", "watch-list", "open", "stream", "decode"};
constexpr std::array failure_counters = {"informer_relists_total", "informer_bad_objects_total",
                                         "informer_handler_exceptions_total"};
constexpr std::array gauges = {"informer_objects", "informer_bytes", "informer_queue_depth"};
constexpr std::array others = {"informer_list_requests_total", "informer_watch_requests_total",
                               "informer_received_bytes_total", "informer_lag_seconds"};

} // namespace

/// A series that were born with its first failure would hide it: Prometheus sees no growth before the second sample.
void shared_informer::impl::begin_metrics() const {
    for (const auto* counter : failure_counters) count(counter, 0);
    for (const auto* reason : restart_reasons) count("informer_restarts_total", 0, "reason", reason);
}

/// All that was ever told: names of informers have no end, a sink's room has.
void shared_informer::impl::end_metrics() const {
    auto* m = rt.metrics();
    if (m == nullptr) return;
    for (const auto* what : gauges) {
        gauge(what, 0); // who keeps what he was told last would go on telling of a cache that is gone
        m->forget(what, {{"resource", name}});
    }
    for (const auto* what : failure_counters) m->forget(what, {{"resource", name}});
    for (const auto* what : others) m->forget(what, {{"resource", name}});
    for (const auto* reason : restart_reasons) m->forget("informer_restarts_total", {{"resource", name}, {"reason", reason}});
    for (const auto kind : {event_kind::added, event_kind::updated, event_kind::deleted})
        m->forget("informer_events_total", {{"resource", name}, {"type", to_string(kind)}});
}

// ---- the handle ------------------------------------------------------------------------------------------------------

shared_informer::shared_informer(runtime r, std::shared_ptr<list_watch> from, informer_options options)
    : impl_(std::make_shared<impl>(std::move(r), std::move(from), std::move(options))) {}
shared_informer::~shared_informer() = default;
shared_informer::shared_informer(const shared_informer&) = default;
shared_informer& shared_informer::operator=(const shared_informer&) = default;
shared_informer::shared_informer(shared_informer&&) noexcept = default;
shared_informer& shared_informer::operator=(shared_informer&&) noexcept = default;

asio::awaitable<void> shared_informer::run() {
    std::shared_ptr<impl::machinery> m;
    if (!std::exchange(impl_->started, true)) m = std::make_shared<impl::machinery>(impl_);
    return detail::quietly(impl::run(impl_, std::move(m)));
}

void shared_informer::stop() {
    impl_->stop();
}

const api_resource& shared_informer::resource() const noexcept {
    return impl_->resource;
}

bool shared_informer::has_synced() const noexcept {
    return impl_->store->has_synced();
}

asio::awaitable<void> shared_informer::synced(clock::duration at_most) {
    return detail::quietly(impl::synced(impl_, at_most));
}

asio::awaitable<void> shared_informer::wait_until(informer::resource_version version, clock::duration at_most) {
    return detail::quietly(impl::wait_until(impl_, std::move(version), at_most));
}

informer_status shared_informer::status() const {
    return impl_->status();
}

std::shared_ptr<void> shared_informer::observe(informer_observer o) {
    if (impl_->stopping) return std::make_shared<informer_observer>(); // what is never called must own nobody for ever
    auto kept = std::make_shared<informer_observer>(std::move(o));
    detail::add_weak(impl_->observers, kept);
    return kept;
}

void shared_informer::on_state_change(std::function<void(const informer_status&)> f) {
    if (!impl_->ended) impl_->observer.on_state_change(std::move(f));
}

void shared_informer::on_error(std::function<void(std::string_view phase, const failure& f)> f) {
    if (!impl_->ended) impl_->observer.on_error(std::move(f));
}

void shared_informer::on_bad_object(std::function<void(const bad_object& b)> f) {
    if (!impl_->ended) impl_->observer.on_bad_object(std::move(f));
}

subscription shared_informer::subscribe(subscription_options options) {
    return subscription(impl_->add_subscriber(std::move(options)));
}

void shared_informer::add_index(std::string name, index_function f) {
    impl_->add_index(std::move(name), std::move(f));
}

asio::awaitable<void> shared_informer::index_ready(std::string name, clock::duration at_most) {
    return detail::quietly(impl::index_ready(impl_, std::move(name), at_most));
}

informer::lister shared_informer::lister() const {
    return informer::lister(impl_->store, name_space_);
}

cache_snapshot shared_informer::snapshot() const {
    return impl_->store->index.snapshot();
}

} // namespace informer
