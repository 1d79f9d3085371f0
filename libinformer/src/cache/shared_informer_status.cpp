// What an informer reports about itself: its status, its log, its observers, its metrics.
#include "shared_informer_impl.hpp"

#include <informer/detail/counted.hpp>

#include "root/in_seconds.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace informer {

namespace {

/// Errors of documents end a stream, too, when it cannot be framed any more.
bool is_decode(const failure& f) {
    return f == errc::syntax_error || f == errc::bad_utf8 || f == errc::too_deep || f == errc::not_an_object ||
           f == errc::too_large;
}

/// After this time, a cut that healed at once is of no interest any more.
constexpr auto remembered = std::chrono::minutes(2);
/// Errors of one kind with different words are logged at most once in this time: each may contain a number of its own,
/// or an address.
constexpr auto between_words = std::chrono::minutes(1);

/// The same words, except for numbers.
bool alike(std::string_view a, std::string_view b) noexcept {
    const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
    for (;;) {
        while (!a.empty() && is_digit(a.front())) a.remove_prefix(1);
        while (!b.empty() && is_digit(b.front())) b.remove_prefix(1);
        if (a.empty() || b.empty()) return a.empty() && b.empty();
        if (a.front() != b.front()) return false;
        a.remove_prefix(1);
        b.remove_prefix(1);
    }
}

template <class F, class... Arguments>
void call_observer(const F& f, const Arguments&... arguments) {
    if (!f) return;
    const F copy = f; // the observer may replace itself
    try {
        copy(arguments...);
    } catch (...) { // NOLINT(bugprone-empty-catch) an observer must not stop an informer
    }
}

} // namespace

/// The reflector is watching as soon as the first state has come. The informer is, when that state can be read in the
/// cache; until then, it keeps the phase that it had.
informer_phase shared_informer::impl::phase() const noexcept {
    if (ended) return informer_phase::stopped;
    const auto now_in = machine.phase();
    return now_in == informer_phase::watching && !store->has_synced() ? figures.phase : now_in;
}

std::chrono::system_clock::time_point shared_informer::impl::wall_of(clock::time_point t) const {
    using wall_time = std::chrono::system_clock;
    const auto wall = rt.clock().wall();
    return wall +
           std::min(std::chrono::duration_cast<wall_time::duration>(t - now()), wall_time::time_point::max() - wall);
}

void shared_informer::impl::note_next_attempt() {
    const auto until = stopping ? std::nullopt : machine.waits();
    const auto at = until ? wall_of(*until) : std::chrono::system_clock::time_point();
    if (!until && figures.next_attempt == at) return; // no mutex: only this executor writes it
    const std::lock_guard lock(mutex);
    figures.next_attempt = at;
}

/// `confirmed` is about the cache, so it is not noted before all that was received is in the cache.
void shared_informer::impl::note_confirmed() {
    const auto at = machine.confirmed();
    if (at == confirmed || !live || live->queue.size() != 0 || batch_under_way) return;
    confirmed = at;
    const auto wall = wall_of(*at);
    {
        const std::lock_guard lock(mutex);
        figures.confirmed = wall;
    }
    gauge("informer_confirmed_timestamp_seconds", std::chrono::duration<double>(wall.time_since_epoch()).count());
}

bool shared_informer::impl::note_phase() {
    note_next_attempt();
    note_confirmed();
    const auto phase = this->phase();
    if (phase != machine.phase() && !ended) return false;
    bool changed = false;
    std::uint64_t failures = 0;
    {
        const std::lock_guard lock(mutex);
        failures = figures.attempts;
        figures.attempts = machine.attempts();
        if (failures != 0 && figures.attempts == 0) forget_error();
        changed = figures.phase != phase;
        if (changed) {
            figures.phase = phase;
            figures.since = rt.clock().wall();
        }
    }
    if (!changed) return false;
    // Entering a bad phase is logged with its reason, by report().
    const bool works =
        phase != informer_phase::backing_off && phase != informer_phase::parked && phase != informer_phase::stopped;
    if (failures != 0 && works) {
        rt.log(log_level::info, name + ": " + std::string(to_string(phase)) + " again after " +
                                    detail::counted(failures, "failed attempt"));
    } else if (rt.logs(log_level::debug)) {
        rt.log(log_level::debug, name + ": " + std::string(to_string(phase)));
    }
    tell_state();
    return true;
}

void shared_informer::impl::forget_error() {
    figures.last_error = failure();
    figures.last_error_phase.clear();
    figures.last_error_at = {};
    told_errors.clear();
}

/// Forgets the error of a watch that was cut and went on at once: nothing has failed since.
void shared_informer::impl::forget_old_error() {
    if (!figures.last_error || machine.attempts() != 0 || now() < failed_at + remembered) return; // no mutex, as above
    const std::lock_guard lock(mutex);
    forget_error();
}

/// Errors are logged once per change, not per retry; also those of a stream that is cut again and again and goes on at
/// once each time.
bool shared_informer::impl::is_told(const std::string& where, const failure& f, bool failing) {
    const auto at = now();
    std::string words = f.what();
    auto last =
        std::find_if(told_errors.begin(), told_errors.end(), [&](const told_error& t) { return t.where == where; });
    if (last == told_errors.end())
        last = told_errors.insert(told_errors.end(), told_error{where, {}, {}, false, at, at});
    const bool same_kind = last->code == f.code() && last->failing == failing;
    const bool lately = at < (failing ? last->at + between_words : last->seen + remembered);
    last->seen = at;
    if (same_kind && (lately || (failing && alike(words, last->words)))) return true;
    *last = told_error{where, f.code(), std::move(words), failing, at, at};
    return false;
}

std::string shared_informer::impl::when_again() const {
    const auto until = machine.waits();
    if (!until || *until <= now()) return "at once";
    return "in " + detail::roughly(std::chrono::duration_cast<std::chrono::milliseconds>(*until - now()));
}

void shared_informer::impl::report(std::string_view phase, const failure& f) {
    const std::string where = is_decode(f) ? std::string("decode") : std::string(phase);
    const bool failing = machine.attempts() != 0;
    const bool told_before = is_told(where, f, failing);
    failed_at = now();
    forbidden = forbidden || f == errc::forbidden;
    note_next_attempt();
    {
        const std::lock_guard lock(mutex);
        const auto wall = rt.clock().wall();
        figures.last_error = f;
        figures.last_error_phase = where;
        figures.last_error_at = wall;
        if (f.status()) figures.last_contact = wall; // the server refuses, but it is there
        figures.attempts = machine.attempts();
        const auto now_in = this->phase();
        if (figures.phase != now_in) {
            figures.phase = now_in;
            figures.since = wall;
        }
    }
    const auto level = told_before ? log_level::debug : failing ? log_level::warning : log_level::info;
    if (rt.logs(level)) {
        std::string line = name + ": " + where + ": " + f.what();
        if (failing) line += "; will be tried again " + when_again();
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
    if (n == figures.index_errors) return; // no mutex: only this executor writes it
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

void shared_informer::impl::note_held_up_by(std::string who) {
    const std::lock_guard lock(mutex);
    figures.held_up_by.swap(who);
}

void shared_informer::impl::refresh_figures() {
    note_index_errors();
    note_confirmed();
    forget_old_error();
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
    if (ended) return; // its successor of the same name may report by now
    gauge("informer_objects", static_cast<double>(snapshot.size()));
    gauge("informer_bytes", static_cast<double>(statistics.bytes + memory));
    note_depth();
}

void shared_informer::impl::note_depth() const {
    gauge("informer_queue_depth", live ? static_cast<double>(live->queue.size()) : 0.0);
}

/// How much waits for a listener changes with each event and without a batch: looked at now and then, it costs nothing.
void shared_informer::impl::note_slowest_listener() const {
    if (!rt.metrics()) return;
    std::size_t most = 0;
    for (const subscriber& one : subscribers)
        if (!one->closed()) most = std::max(most, one->figures().pending);
    for (const auto& h : live->handlers)
        if (!h->from->closed()) most = std::max(most, h->figures().pending);
    gauge("informer_listener_pending", static_cast<double>(most));
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
constexpr std::array gauges = {"informer_objects", "informer_bytes", "informer_queue_depth",
                               "informer_listener_pending"};
constexpr std::array others = {"informer_list_requests_total", "informer_watch_requests_total",
                               "informer_received_bytes_total", "informer_lag_seconds",
                               "informer_confirmed_timestamp_seconds"};

} // namespace

/// A series that began with its first failure would hide that failure: Prometheus sees no growth before the second
/// sample.
void shared_informer::impl::begin_metrics() {
    live->series = detail::series_share(rt.metrics(), "informer", name);
    for (const auto* counter : failure_counters) count(counter, 0);
    note_slowest_listener();
    for (const auto* reason : restart_reasons) count("informer_restarts_total", 0, "reason", reason);
}

/// Ends all series that were ever reported.
void shared_informer::impl::end_metrics() const {
    auto* m = rt.metrics();
    if (m == nullptr) return;
    const metrics_sink::label of("resource", name);
    detail::end_gauges(*m, gauges, {of});
    detail::end_series(*m, failure_counters, {of});
    detail::end_series(*m, others, {of});
    for (const auto* reason : restart_reasons) m->forget("informer_restarts_total", {of, {"reason", reason}});
    for (const auto kind : {event_kind::added, event_kind::updated, event_kind::deleted})
        m->forget("informer_events_total", {of, {"type", to_string(kind)}});
}

} // namespace informer
