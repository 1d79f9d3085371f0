#include <informer/controller/event_recorder.hpp>

#include <informer/detail/async.hpp>
#include <informer/detail/split_mix.hpp>
#include <informer/object/rfc3339.hpp>

#include "root/add_weak.hpp"
#include "root/quietly.hpp"
#include "root/while_it_lasts.hpp"

#include <boost/asio/ip/host_name.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/json.hpp>

#include <algorithm>
#include <deque>
#include <map>
#include <random>
#include <utility>
#include <vector>

namespace informer {

namespace json = boost::json;

namespace {

const api_resource& events_resource() {
    static const api_resource r("events.k8s.io", "v1", "events", "Event");
    return r;
}

constexpr std::size_t longest_note = 1024, longest_name = 128; ///< the server's limits

/// Cut without splitting a character.
std::string cut(std::string s, std::size_t limit) {
    if (s.size() <= limit) return s;
    while (limit > 0 && (static_cast<unsigned char>(s[limit]) & 0xc0) == 0x80) --limit;
    s.resize(limit);
    return s;
}

json::object reference(const event_subject& s) {
    json::object o;
    const auto put = [&o](std::string_view key, const std::string& v) {
        if (!v.empty()) o[key] = v;
    };
    put("apiVersion", s.api_version);
    put("kind", s.kind);
    put("namespace", s.name_space);
    put("name", s.name);
    put("uid", s.uid);
    put("resourceVersion", s.resource_version);
    put("fieldPath", s.field_path);
    return o;
}

json::object series_of(const event_correlator::write& w) {
    json::object o;
    o["count"] = w.count;
    o["lastObservedTime"] = rfc3339(w.last, 6);
    return o;
}

/// Whether the namespace is being deleted: a controller that cleans up there records events that nobody will read.
bool is_terminating(const failure& f) {
    if (!f.status()) return false;
    const auto& causes = f.status()->causes;
    return std::any_of(causes.begin(), causes.end(), [](const auto& c) { return c.reason == "NamespaceTerminating"; });
}

std::string name_space_of(const event_correlator::write& w) {
    return w.event.regarding.name_space.empty() ? "default" : w.event.regarding.name_space;
}

} // namespace

struct event_recorder::impl {
    impl(runtime r, kubernetes::client c, event_recorder_options o)
        : rt(std::move(r)), client(std::move(c)), options(std::move(o)), correlator(options.limits_),
          news(rt.executor()), random(rt.draw_seed()) {
        if (!options.instance_.empty()) return;
        error_code ignored;
        options.instance_ = options.controller_ + "-" + asio::ip::host_name(ignored);
    }

    runtime rt;
    kubernetes::client client;
    event_recorder_options options;
    event_correlator correlator;
    struct entry {
        explicit entry(event_correlator::write x) : w(std::move(x)) {}
        event_correlator::write w;
        unsigned tried = 0;
    };
    std::deque<entry> pending;                           ///< the first one is being sent
    std::multimap<clock::time_point, entry> waiting;     ///< for the next try, by its time
    clock::time_point paused = clock::time_point::min(); ///< no server or no credential: nothing is sent before then
    detail::async_event news;
    std::vector<std::weak_ptr<detail::async_event>> flushes; ///< notified when nothing is pending any more
    detail::split_mix random;
    event_recorder_figures figures;
    bool running = false;

    void put(std::vector<event_correlator::write> some);
    std::size_t unsent() const noexcept { return pending.size() + waiting.size(); }
    void take_due(clock::time_point now);
    bool stand_behind(entry& one);
    void settle(const failure& f);
    void tell_flushes();
    clock::time_point next_due() const;
    json::value document(const event_correlator::write& w) const;
    static asio::awaitable<void> run(std::shared_ptr<impl> s);
    static asio::awaitable<failure> attempt(std::shared_ptr<impl> s, event_correlator::write w);
    static asio::awaitable<bool> flush(std::shared_ptr<impl> s, clock::time_point until);
};

void event_recorder::impl::put(std::vector<event_correlator::write> some) {
    for (auto& w : some) {
        if (unsent() >= options.capacity_) {
            ++figures.dropped;
            correlator.forget(w.name); // so that the next one of its kind is created
            continue;
        }
        entry one(std::move(w));
        if (!stand_behind(one)) pending.push_back(std::move(one));
        news.notify();
    }
}

json::value event_recorder::impl::document(const event_correlator::write& w) const {
    json::object o;
    o["apiVersion"] = "events.k8s.io/v1";
    o["kind"] = "Event";
    json::object metadata;
    metadata["name"] = w.name;
    metadata["namespace"] = name_space_of(w);
    if (!w.event.annotations.empty()) metadata["annotations"] = json::value_from(w.event.annotations);
    o["metadata"] = std::move(metadata);
    o["eventTime"] = rfc3339(w.first, 6);
    o["reportingController"] = options.controller_;
    o["reportingInstance"] = cut(options.instance_, longest_name);
    o["type"] = w.event.type;
    o["reason"] = cut(w.event.reason, longest_name);
    o["action"] = cut(w.event.action.empty() ? w.event.reason : w.event.action, longest_name);
    o["note"] = cut(w.event.note, longest_note);
    o["regarding"] = reference(w.event.regarding);
    if (!w.event.related.empty()) o["related"] = reference(w.event.related);
    if (w.count > 1) o["series"] = series_of(w);
    return o;
}

asio::awaitable<failure> event_recorder::impl::attempt(std::shared_ptr<impl> s, event_correlator::write w) {
    failure f;
    const kubernetes::write_options plain;
    if (!w.create) {
        json::object patch;
        patch["series"] = series_of(w);
        const object_key key(name_space_of(w), w.name);
        co_await s->client.patch(events_resource(), key, kubernetes::patch_type::merge, std::move(patch), plain, f);
        if (!(f == condition::not_found)) co_return f; // else it is gone: events live for an hour
    }
    json::value whole = s->document(w);
    co_await s->client.create(events_resource(), std::move(whole), plain, f);
    if (f == errc::already_exists) f = failure(); // an earlier try succeeded, but its answer was lost
    co_return f;
}

/// Writes whose time has come go to the end of `pending`: one that fails again and again must not hold up the others.
void event_recorder::impl::take_due(clock::time_point now) {
    while (!waiting.empty() && waiting.begin()->first <= now) {
        pending.push_back(std::move(waiting.begin()->second));
        waiting.erase(waiting.begin());
    }
}

/// Writes of one event keep their order, or an older count would overwrite a newer one: while one of them waits, the
/// later ones wait behind it.
bool event_recorder::impl::stand_behind(entry& one) {
    if (one.w.create) return false; // the first write of its event
    const auto last =
        std::find_if(waiting.rbegin(), waiting.rend(), [&](const auto& w) { return w.second.w.name == one.w.name; });
    if (last == waiting.rend()) return false;
    waiting.emplace(last->first, std::move(one));
    return true;
}

/// Takes the outcome of the first pending write.
void event_recorder::impl::settle(const failure& f) {
    entry one = std::move(pending.front());
    pending.pop_front();
    if (!f) {
        ++figures.written;
        return;
    }
    if (f == condition::cancelled) return;
    // A write that got no answer may get one the next time. client-go gives up only when the server has answered.
    const bool nobody = f == errc::exec_plugin_failed;
    const bool again = f == condition::retryable || f == errc::deadline_exceeded || nobody;
    if (again && ++one.tried < options.tries_) {
        const double share = std::uniform_real_distribution<double>(0.0, 0.25)(random);
        const auto due = detail::later(rt.clock().now(), detail::stretched(options.retry_after_, share));
        // the other writes would fail in the same way
        if (nobody || (f == condition::transport && !(f == condition::timed_out))) paused = due;
        const std::string name = one.w.name;
        waiting.emplace(due, std::move(one));
        for (auto at = pending.begin(); at != pending.end();)
            at = at->w.name == name && stand_behind(*at) ? pending.erase(at) : at + 1;
        return;
    }
    ++figures.failed;
    correlator.forget(one.w.name);
    const log_level level = is_terminating(f) ? log_level::debug : log_level::warning;
    if (rt.logs(level))
        rt.log(level, "event " + one.w.event.reason + " about " + one.w.event.regarding.name + " is lost: " + f.what());
}

void event_recorder::impl::tell_flushes() {
    for (const auto& one : std::exchange(flushes, {}))
        if (const auto waiting_one = one.lock()) waiting_one->notify();
}

/// When there may be something to do.
clock::time_point event_recorder::impl::next_due() const {
    auto due = correlator.next_due();
    if (!waiting.empty()) due = std::min(due, waiting.begin()->first);
    if (!pending.empty()) due = std::min(due, paused);
    return due;
}

asio::awaitable<void> event_recorder::impl::run(std::shared_ptr<impl> s) {
    if (s->running) throw error(errc::already_running, "event recorder");
    const detail::while_it_lasts running(s->running);
    for (;;) {
        const bool asked = co_await detail::cancelled();
        if (asked) break;
        const auto now = s->rt.clock().now();
        if (s->correlator.next_due() <= now) s->put(s->correlator.tick(now));
        s->take_due(now);
        if (!s->pending.empty() && s->paused <= now) {
            const failure f = co_await attempt(s, s->pending.front().w);
            s->settle(f);
            if (s->unsent() == 0) s->tell_flushes();
            continue;
        }
        const auto due = s->next_due();
        if (due == clock::time_point::max())
            co_await s->news.wait();
        else
            co_await s->news.wait_until(s->rt.clock(), due);
    }
}

asio::awaitable<bool> event_recorder::impl::flush(std::shared_ptr<impl> s, clock::time_point until) {
    while (s->unsent() != 0) {
        const auto sent = std::make_shared<detail::async_event>(s->rt.executor());
        detail::add_weak(s->flushes, sent);
        const bool told = co_await sent->wait_until(s->rt.clock(), until);
        if (!told) co_return s->unsent() == 0;
    }
    co_return true;
}

event_recorder::event_recorder(runtime r, kubernetes::client c, event_recorder_options options)
    : impl_(std::make_shared<impl>(std::move(r), std::move(c), std::move(options))) {}

void event_recorder::event(event_record e) {
    ++impl_->figures.recorded;
    e.note = cut(std::move(e.note), longest_note); // not remembered in full: the server would refuse more
    auto& clock = impl_->rt.clock();
    impl_->put(impl_->correlator.record(std::move(e), clock.now(), clock.wall()));
    const event_limits& limits = impl_->options.limits_;
    // the refresh of a series that grew may be due before its end, for which run() wakes
    if (limits.refresh_ < limits.series_over_) impl_->news.notify();
}

void event_recorder::event(const object& regarding, event_type type, std::string_view reason, std::string_view action,
                           std::string note, const object& related) {
    event_record e;
    e.type = type == event_type::normal ? "Normal" : "Warning";
    e.reason = std::string(reason);
    e.action = std::string(action);
    e.note = std::move(note);
    e.regarding = event_subject(regarding);
    if (related) e.related = event_subject(related);
    event(std::move(e));
}

asio::awaitable<void> event_recorder::run() {
    return detail::quietly(impl::run(impl_));
}

asio::awaitable<bool> event_recorder::flush(std::chrono::nanoseconds at_most) {
    const auto until = detail::later(impl_->rt.clock().now(), at_most);
    return detail::quietly(impl::flush(impl_, until));
}

event_recorder_figures event_recorder::figures() const {
    event_recorder_figures f = impl_->figures;
    f.dropped += impl_->correlator.dropped();
    f.pending = impl_->unsent();
    return f;
}

} // namespace informer
