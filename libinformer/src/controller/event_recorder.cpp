#include <informer/controller/event_recorder.hpp>

#include <informer/detail/async.hpp>

#include "controller/lease_record.hpp"
#include "root/quietly.hpp"
#include "root/while_it_lasts.hpp"

#include <boost/asio/ip/host_name.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/json.hpp>

#include <algorithm>
#include <deque>
#include <random>

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
    return o;
}

json::object series_of(const event_correlator::write& w) {
    json::object o;
    o["count"] = w.count;
    o["lastObservedTime"] = detail::micro_time(w.last);
    return o;
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
    std::deque<event_correlator::write> pending; ///< the first one is being sent
    detail::async_event news;
    std::mt19937_64 random;
    event_recorder_figures figures;
    bool running = false;

    void put(std::vector<event_correlator::write> some);
    json::value document(const event_correlator::write& w) const;
    static asio::awaitable<void> run(std::shared_ptr<impl> s);
    static asio::awaitable<void> send(std::shared_ptr<impl> s, event_correlator::write w);
    static asio::awaitable<failure> attempt(std::shared_ptr<impl> s, event_correlator::write w);
    static asio::awaitable<bool> flush(std::shared_ptr<impl> s, clock::time_point until);
};

void event_recorder::impl::put(std::vector<event_correlator::write> some) {
    for (auto& w : some) {
        if (pending.size() >= options.capacity_) {
            ++figures.dropped;
            correlator.forget(w.name); // so that a later one is created
            continue;
        }
        pending.push_back(std::move(w));
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
    o["metadata"] = std::move(metadata);
    o["eventTime"] = detail::micro_time(w.first);
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
        if (!(f == condition::not_found)) co_return f; // gone: events live for an hour
    }
    json::value whole = s->document(w);
    co_await s->client.create(events_resource(), std::move(whole), plain, f);
    if (f == errc::already_exists) f = failure(); // an answer was lost on its way
    co_return f;
}

asio::awaitable<void> event_recorder::impl::send(std::shared_ptr<impl> s, event_correlator::write w) {
    for (unsigned tried = 1;; ++tried) {
        const failure f = co_await attempt(s, w);
        if (!f) {
            ++s->figures.written;
            co_return;
        }
        if (f == condition::cancelled) co_return;
        const bool again = f == condition::retryable && tried < s->options.tries_;
        if (!again) {
            ++s->figures.failed;
            s->correlator.forget(w.name);
            if (s->rt.logs(log_level::warning))
                s->rt.log(log_level::warning,
                          "event " + w.event.reason + " about " + w.event.regarding.name + " is lost: " + f.what());
            co_return;
        }
        const double share = std::uniform_real_distribution<double>(0.0, 0.25)(s->random);
        const bool slept = co_await s->rt.clock().sleep_for(detail::stretched(s->options.retry_after_, share));
        if (!slept) co_return;
    }
}

asio::awaitable<void> event_recorder::impl::run(std::shared_ptr<impl> s) {
    if (s->running) throw error(errc::already_running, "event recorder");
    const detail::while_it_lasts running(s->running);
    for (;;) {
        const bool asked = co_await detail::cancelled();
        if (asked) break;
        const auto now = s->rt.clock().now();
        auto due = s->correlator.next_due();
        if (due <= now) {
            s->put(s->correlator.tick(now));
            due = s->correlator.next_due();
        }
        if (!s->pending.empty()) {
            co_await send(s, s->pending.front());
            s->pending.pop_front();
        } else if (due == clock::time_point::max()) {
            co_await s->news.wait();
        } else {
            co_await s->news.wait_until(s->rt.clock(), due);
        }
    }
}

asio::awaitable<bool> event_recorder::impl::flush(std::shared_ptr<impl> s, clock::time_point until) {
    while (!s->pending.empty()) {
        const auto now = s->rt.clock().now();
        if (now >= until) co_return false;
        const bool slept =
            co_await s->rt.clock().sleep_until(std::min(until, now + clock::duration(std::chrono::milliseconds(10))));
        if (!slept) co_return false;
    }
    co_return true;
}

event_recorder::event_recorder(runtime r, kubernetes::client c, event_recorder_options options)
    : impl_(std::make_shared<impl>(std::move(r), std::move(c), std::move(options))) {}

void event_recorder::event(event_record e) {
    ++impl_->figures.recorded;
    e.note = cut(std::move(e.note), longest_note); // what is more is not worth remembering: the server would refuse it
    auto& clock = impl_->rt.clock();
    impl_->put(impl_->correlator.record(std::move(e), clock.now(), clock.wall()));
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
    return impl::flush(impl_, until);
}

event_recorder_figures event_recorder::figures() const {
    event_recorder_figures f = impl_->figures;
    f.dropped += impl_->correlator.dropped();
    f.pending = impl_->pending.size();
    return f;
}

} // namespace informer
