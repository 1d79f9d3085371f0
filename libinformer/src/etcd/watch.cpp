#include "etcd/reading.hpp"
#include "etcd/requests.hpp"
#include "root/base64.hpp"

#include <informer/object/json.hpp>

#include <boost/asio/steady_timer.hpp>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>

#include <algorithm>
#include <deque>
#include <utility>

namespace informer::etcd::detail {

using informer::detail::base64_encode;

namespace json = boost::json;

namespace {

/// The time limit for the answer to begin, and for the message in it that says that the watch is open.
constexpr std::chrono::milliseconds longest_opening = std::chrono::seconds(30);
/// The limit for events that wait until their revision is complete, in received bytes: more than etcd itself would hold
/// for it.
constexpr std::size_t largest_revision = std::size_t(1) << 30;
constexpr std::size_t of_each_event = 256; // memory besides key and values

/// An event, or a bad object, that goes to the sink.
struct told {
    watch_event_type type = watch_event_type::added;
    object o;
    std::optional<bad_object> bad;
};

struct watching final : reading {
    using reading::reading;
    asio::awaitable<void> take_found(std::shared_ptr<reading> self, failure& f) override;

    std::shared_ptr<source> of;
    std::shared_ptr<http::response> answer;
    std::optional<asio::steady_timer> opening; ///< runs until the watch is open
    bool late = false;                         ///< the watch did not open in time
    bool bookmarks = true;
    bool created = false, behind = false;
    std::int64_t after = 0;     ///< the revision that the watch resumes after
    std::int64_t revision = 0;  ///< of the events that wait
    std::int64_t handed_on = 0; ///< the last revision whose events went to the sink
    /// Events wait here until no more of their revision can come. There may be 100,000, so they are never moved or
    /// dropped all at once.
    std::deque<told> waiting;
    std::size_t waiting_bytes = 0;
};

std::string watch_request(const std::string& prefix, std::int64_t start) {
    std::string s = R"({"create_request":{"key":")" + base64_encode(range_begin(prefix)) + R"(","range_end":")" +
                    base64_encode(range_end(prefix)) + '"';
    if (start != 0) s += R"(,"start_revision":")" + std::to_string(start) + '"';
    // The last states (prev_kv) are for deletions and for selectors.
    return s + R"(,"progress_notify":true,"prev_kv":true,"fragment":true}})";
}

/// Hands the events of one revision to the sink, as one change: a watch that resumes after a revision gets no more of
/// it.
asio::awaitable<void> hand_on(std::shared_ptr<watching> w, failure& f) {
    std::deque<told> all = std::exchange(w->waiting, {});
    w->waiting_bytes = 0;
    if (all.empty()) co_return;
    w->handed_on = w->revision;
    const bool several = all.size() > 1;
    if (several) w->sink->begin_change();
    for (; !all.empty(); all.pop_front()) {
        const told& t = all.front();
        if (t.bad)
            w->sink->quarantine(*t.bad);
        else
            w->sink->event(t.type, t.o);
        if (!w->pace.over()) continue;
        const bool on = co_await reading::turn(w, f);
        if (!on) co_return;
    }
    if (several) w->sink->end_change();
}

void wait_with(watching& w, watch_event_type type, object o) {
    told t;
    t.type = type;
    t.o = std::move(o);
    w.waiting.push_back(std::move(t));
}

void wait_with_bad(watching& w, watch_event_type type, const named_key& name, failure why) {
    bad_object b;
    b.key = name.key;
    b.position = w.position;
    b.type = type;
    b.resource_version = resource_version(std::to_string(w.revision));
    b.why = std::move(why);
    told t;
    t.bad = std::move(b);
    w.waiting.push_back(std::move(t));
}

/// The last known state of an object, which etcd no longer has.
object last_known(watching& w, const named_key& name, const key_value& kv, failure& why, failure& f) {
    object before;
    if (w.sink->has_previous()) before = w.sink->previous(name.key, w.position);
    object o;
    if (before) {
        json::value v = to_value(before);
        v.as_object()["metadata"].as_object()["resourceVersion"] = std::to_string(kv.mod_revision);
        o = w.sink->pool().encode(v, before, why); // not decoded: the transform has seen it
    } else {
        w.text.make_bare(w.rules, name, kv);
        o = w.sink->pool().decode(w.text.text(), before, why);
    }
    if (why == errc::pool_full) f = why.within(w.doing + ": decode");
    return o;
}

/// The object is gone, or the selectors no longer choose it.
asio::awaitable<void> take_away(std::shared_ptr<watching> w, named_key name, std::shared_ptr<const entry> e,
                                failure& f) {
    reading::made m;
    if (!name.fits) {
        m.bad = failure(errc::no_metadata, w->doing + ": a deleted key that was none of an object");
    } else if (e->previous) {
        const std::shared_ptr<const key_value> before(e, &*e->previous);
        m = co_await reading::make(w, before, name, e->kv.mod_revision, false, f);
    } else {
        m.o = last_known(*w, name, e->kv, m.bad, f);
    }
    if (f || w->enough) co_return;
    if (m.bad) // but that the object is gone is certain
        wait_with_bad(*w, watch_event_type::deleted, name, std::move(m.bad));
    else if (m.matches)
        wait_with(*w, watch_event_type::deleted, std::move(m.o));
}

asio::awaitable<void> take_change(std::shared_ptr<watching> w, std::shared_ptr<const entry> e, failure& f) {
    const named_key name = name_of(w->rules, e->kv.key);
    if (e->deleted) {
        co_await take_away(w, name, e, f);
        co_return;
    }
    const std::shared_ptr<const key_value> now(e, &e->kv);
    const bool is_new = e->kv.create_revision == e->kv.mod_revision;
    bool was_there = !is_new;
    if (was_there && !w->chosen.everything() && e->previous && name.fits) {
        const std::shared_ptr<const key_value> before(e, &*e->previous);
        const reading::made old = co_await reading::make(w, before, name, e->previous->mod_revision, true, f);
        if (f || w->enough) co_return;
        was_there = old.matches; // also if the old value is bad: nobody can tell
    }
    reading::made m = co_await reading::make(w, now, name, e->kv.mod_revision, false, f);
    if (f || w->enough) co_return;
    const auto type = was_there ? watch_event_type::modified : watch_event_type::added;
    if (m.bad)
        wait_with_bad(*w, type, name, std::move(m.bad));
    else if (m.matches)
        wait_with(*w, type, std::move(m.o));
    else if (was_there)
        co_await take_away(w, name, e, f);
}

asio::awaitable<void> take_event(std::shared_ptr<watching> w, failure& f) {
    const auto e = std::make_shared<const entry>(std::move(w->reader.current()));
    if (!w->created) {
        f = failure(errc::bad_response, w->doing + ": an event before the watch is open");
        co_return;
    }
    if (e->kv.mod_revision <= w->after && w->revision == 0) co_return; // was seen before
    if (e->kv.mod_revision != w->revision) co_await hand_on(w, f);
    if (f || w->enough) co_return;
    if (e->kv.mod_revision < w->revision || e->kv.mod_revision <= w->handed_on) {
        f = failure(errc::bad_response, w->doing + ": revision " + std::to_string(e->kv.mod_revision) + " after " +
                                            std::to_string(w->revision));
        co_return;
    }
    w->revision = e->kv.mod_revision;
    w->waiting_bytes +=
        of_each_event + e->kv.key.size() + e->kv.value.size() + (e->previous ? e->previous->value.size() : 0);
    if (w->waiting_bytes > largest_revision) {
        f = failure(errc::too_large, w->doing + ": revision " + std::to_string(w->revision));
        co_return;
    }
    co_await take_change(w, e, f);
    ++w->position;
}

failure canceled(const message& m, const std::string& doing) {
    if (m.compact_revision != 0)
        return refused(
            0, 0, "revision " + std::to_string(m.compact_revision) + ": required revision has been compacted", doing);
    return refused(0, 0, m.cancel_reason.empty() ? "the watch was canceled" : m.cancel_reason, doing);
}

asio::awaitable<void> take_message(std::shared_ptr<watching> w, failure& f) {
    const message m = w->reader.message();
    if (m.failed)
        f = refused(static_cast<int>(m.http_code), m.code, m.error, w->doing);
    else if (m.canceled)
        f = canceled(m, w->doing);
    if (f) co_return;
    if (m.created && !w->created) {
        if (!w->of->cluster.empty() && m.cluster != w->of->cluster)
            f = another_cluster(m.cluster, w->of->cluster, w->doing);
        else if (m.revision < w->after)
            f = not_there_yet(w->after, m.revision, w->doing);
        w->behind = f == errc::resource_version_too_large;
        if (f) co_return;
        w->of->cluster = m.cluster;
        w->created = true;
        w->opening.reset();
        w->sink->opened();
    } else if (!w->created) {
        f = failure(errc::bad_response, w->doing + ": what came is no watch");
        co_return;
    }
    if (m.fragment) co_return; // the next part may have more of the same revision
    co_await hand_on(w, f);
    if (f || w->enough) co_return;
    const bool progress = !m.created && m.entries == 0 && m.revision >= w->revision && m.revision != 0;
    if (progress && w->bookmarks) w->sink->bookmark(resource_version(std::to_string(m.revision)), false);
}

asio::awaitable<void> take_all(std::shared_ptr<watching> w, failure& f) {
    for (auto found = w->reader.next(); found != message_reader::found::nothing; found = w->reader.next()) {
        if (found == message_reader::found::message)
            co_await take_message(w, f);
        else
            co_await take_event(w, f);
        if (f || w->enough) co_return;
        if (!w->pace.over()) continue;
        const bool on = co_await reading::turn(w, f);
        if (!on) co_return;
    }
}

asio::awaitable<void> watching::take_found(std::shared_ptr<reading> self, failure& f) {
    return take_all(std::static_pointer_cast<watching>(std::move(self)), f);
}

std::chrono::milliseconds opening_time(const http::timeouts& t, const watch_options& options) {
    if (options.late_header_) return std::chrono::milliseconds(0);
    return t.header_.count() > 0 ? std::min(t.header_, longest_opening) : longest_opening;
}

/// Limits the time until the watch is open: a member that takes the request and then stays silent is no better than one
/// that does not answer.
void expect_to_open(const std::shared_ptr<watching>& w, std::chrono::milliseconds within) {
    if (within.count() == 0) return;
    w->opening.emplace(w->members->rt.executor(), within);
    w->opening->async_wait([weak = std::weak_ptr(w)](error_code ec) {
        const auto late = weak.lock();
        if (ec || !late || late->created) return;
        late->late = true;
        late->answer->close();
    });
}

http::timeouts watch_times(http::timeouts t, std::chrono::milliseconds opening) {
    return t.header(opening).body_idle(std::chrono::milliseconds(0)).request(std::chrono::milliseconds(0));
}

/// For a member that has not reached the revision that we have seen. Either it is behind the others, and catches up
/// when it is asked for what they agree on; or all members were restored from a backup. In that case a watch would be
/// silent until they pass that revision, and what they do until then would be lost, so `f` is 410.
asio::awaitable<bool> has_caught_up(std::shared_ptr<source> s, std::int64_t after, std::string doing, failure& f) {
    failure unknown;
    const std::int64_t newest = co_await newest_revision(s, doing, unknown);
    if (unknown == errc::cancelled) f = unknown;
    if (unknown) co_return false;
    if (newest >= after) co_return true;
    api_status status;
    status.code = 410;
    status.reason = "Expired";
    status.message = "etcd went back to revision " + std::to_string(newest) + " from " + std::to_string(after);
    f = failure(std::move(status), std::move(doing));
    co_return false;
}

/// Until the watch is open, the fault may be an old token. Members from before 2022 report that as a lack of
/// permission.
bool may_be_the_tokens_fault(const failure& f) {
    return is_tokens_fault(f) || f == errc::forbidden;
}

/// The failure of a stream that was read to its end; empty for a clean end.
failure ending(const watching& w) {
    if (!w.reader.idle() || !w.waiting.empty())
        return failure(errc::connection_lost, w.doing + ": the stream ends in the middle of an event");
    if (!w.created) return failure(errc::connection_lost, w.doing + ": the stream ends before the watch is open");
    return {};
}

} // namespace

asio::awaitable<void> watch_into(std::shared_ptr<source> s, watch_options options, object_sink& sink, failure& f) {
    const std::string doing = "watch " + s->describe();
    const auto after = revision_of(options.resource_version_);
    if (!after || options.send_initial_events_) {
        f = failure(errc::bad_request, doing + (after ? ": etcd has no watch-list" : ": no revision of etcd's"));
        co_return;
    }
    // The watch begins at the revision that was seen last, not behind it. Before 3.5.16 (3.4.23 does, too) etcd loses a
    // deletion whose revision is just the one it compacts at, yet takes a watch from there (etcd issue 18089).
    const std::int64_t start = *after;
    if (*after != 0 && *after == s->listed_at) s->cluster = s->listed_by;
    std::optional<std::chrono::steady_clock::time_point> deadline;
    if (options.timeout_.count() > 0)
        deadline = std::chrono::steady_clock::now() +
                   std::min<std::chrono::seconds>(options.timeout_, std::chrono::hours(24 * 365));
    for (bool again = false;; again = true) {
        f = failure();
        selection chosen(options.label_selector_, options.field_selector_, f);
        if (f) {
            f = f.within(doing);
            co_return;
        }
        const auto w = std::make_shared<watching>(s->members, s->rules, sink, doing, std::move(chosen),
                                                  message_reader::kind::watch);
        w->of = s;
        w->after = *after;
        w->bookmarks = options.bookmarks_;
        call c("/v3/watch", watch_request(asked_prefix(s->rules), start), doing);
        const auto within = opening_time(s->members->options().time_, options);
        c.time = watch_times(s->members->options().time_, within);
        c.deadline = deadline;
        gateway::opened o = co_await gateway::open(s->members, std::move(c), f);
        if (f) co_return;
        w->answer = std::make_shared<http::response>(std::move(o.answer));
        expect_to_open(w, within);
        co_await reading::read_body(w, w->answer, f);
        w->opening.reset();
        if (w->late) f = failure(errc::header_timeout, doing + ": wait for the watch to be open");
        if (!f && !w->enough) f = ending(*w);
        if (f == errc::request_timeout && w->created) f = failure(); // its time is over: a clean end
        if (!f || w->enough) co_return;
        if (is_members_fault(f)) s->members->fails(o.member);
        if (w->behind && !again) {
            const bool better = co_await has_caught_up(s, *after, doing, f);
            if (better) continue;
            co_return;
        }
        if (w->created || again || s->members->options().user_.empty() || !may_be_the_tokens_fault(f)) co_return;
        s->members->token_refused();
    }
}

} // namespace informer::etcd::detail
