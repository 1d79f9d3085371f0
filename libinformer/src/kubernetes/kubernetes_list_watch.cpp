#include "kubernetes/kubernetes_list_watch.hpp"

#include "kubernetes/json_tools.hpp"
#include "kubernetes/partial_metadata.hpp"
#include "kubernetes/query.hpp"
#include "kubernetes/status.hpp"
#include "root/one_line.hpp"
#include "root/turn_watch.hpp"
#include "source/is_progress.hpp"
#include "source/undecodable.hpp"

#include <informer/object/framer.hpp>

#include <boost/asio/post.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <algorithm>
#include <chrono>
#include <memory>
#include <new>
#include <optional>

namespace informer::kubernetes::detail {

namespace json = boost::json;

namespace {

using informer::detail::printable;
using informer::detail::undecodable;

constexpr std::string_view accept_json = "application/json";

constexpr std::size_t items_a_look = 8; // between two looks at the clock

failure over_the_limit(const std::string& what, std::size_t limit) {
    return failure(errc::too_large, what + ": over " + std::to_string(limit) + " bytes (client_config::max_object)");
}

/// What lists and watches have in common: objects on their way from their text into the sink.
struct object_reader {
    object_reader(object_sink& s, std::string d, bool partial)
        : sink(&s), doing(std::move(d)), metadata_only(partial) {}

    /// Returns an empty object in four cases: the object is quarantined; `fatal` is set, because every other object
    /// would fail, too; the text was not `proven` to be that of an object and turns out to be none; or it is `large`,
    /// and its steps are to be taken. An object that is bad for another reason proves its text.
    object decode(std::string_view text, bool& proven, bad_object& about, failure& fatal) {
        if (metadata_only) text = without_partial_type(text, scratch);
        if (text.size() > large_text && proven) { // an unproven text is not larger
            large.emplace(text, std::move(about));
            return {};
        }
        object previous;
        if (sink->has_previous()) {
            about.key = peek_key(text);
            previous = sink->previous(about.key, about.position);
        } else if (!about.key.empty()) {
            about.key = {};
        }
        failure why;
        object o = sink->pool().decode(text, previous, why);
        return judge(std::move(o), text, why, proven, about, fatal);
    }
    /// The same for a text that a framer has cut. If the cut was wrong, the framer cuts it again.
    template <typename Framer>
    object decode_from(Framer& framer, std::string_view text, bad_object& about, failure& fatal) {
        bool proven = !framer.unproven();
        object o = decode(text, proven, about, fatal);
        if (!o && !proven && !fatal) framer.look_again();
        return o;
    }
    /// True after the last step: `end_of_large` is next.
    bool step_of_large() {
        if (large->steps) return large->steps->step();
        if (!large->key.step(large_text)) return false;
        large->about.key = large->key.key();
        object previous = sink->previous(large->about.key, large->about.position);
        large->steps = sink->pool().begin_decode(large->text, std::move(previous));
        return false;
    }
    object end_of_large(failure& fatal) {
        failure why;
        bool proven = true;
        object o = large->steps->finish(why);
        bad_object about = std::move(large->about);
        const std::string_view beginning = large->text.substr(0, large_text); // to look further would take long
        large.reset();
        return judge(std::move(o), beginning, why, proven, about, fatal);
    }

    object_sink* sink;
    std::string doing;
    bool metadata_only;
    std::string scratch;
    /// An object that is decoded in steps.
    struct large_object {
        large_object(std::string_view t, bad_object b) : text(t), about(std::move(b)), key(t) {}
        std::string_view text; ///< must stay in place as long as this lives
        bad_object about;
        key_peek key;
        std::unique_ptr<decoding> steps; ///< once the key is known
    };
    std::optional<large_object> large;

    static void identify(bad_object& about, std::string_view text) {
        if (about.key.empty()) about.key = peek_key(text);
        about.uid = peek_uid(text);
    }

private:
    /// `text`: where a bad object's uid can be read from, and its key if it is not known yet.
    object judge(object o, std::string_view text, failure& why, bool& proven, bad_object& about, failure& fatal) const {
        if (why == errc::pool_full) {
            fatal = why.within(doing + ": decode");
            return {};
        }
        if (!why && !o.has_name()) {
            about.resource_version = o.resource_version();
            why = failure(errc::no_metadata, "");
        }
        if (!why) return o;
        // Errors that come after the whole text was parsed prove it. not_an_object may come from a transform, which
        // must not see an object twice.
        proven = proven || why == errc::no_metadata || why == errc::bad_configuration ||
                 (why == errc::not_an_object && sink->pool().options().transform_);
        if (!proven) return {};
        identify(about, text);
        const std::string which = about.key.empty() ? "object " + std::to_string(about.position) : about.key.str();
        about.why = why.within(doing + ": decode " + which);
        sink->quarantine(std::move(about));
        return {};
    }
};

// ---- list -----------------------------------------------------------------------------------------------------------

struct list_reader : object_reader {
    list_reader(object_sink& s, std::string d, std::size_t max_object, bool partial)
        : object_reader(s, std::move(d), partial), framer(max_object), largest(max_object) {
        framer.guess();
    }

    static bad_object of_a_list() {
        bad_object b;
        b.from_list = true;
        return b;
    }

    list_framer framer;
    std::size_t largest; ///< of one object
    list_result result;
    /// What is said of the item at hand if it is bad: made once, as hardly any is.
    bad_object context = of_a_list();

    void feed(std::string_view bytes) { framer.lend(bytes); }
    void take(failure& f) {
        context.position = framer.position();
        if (!framer.oversized()) {
            if (object o = decode_from(framer, framer.item(), context, f)) return hand_on(std::move(o));
        } else {
            context.key = {};
            identify(context, framer.item());
            context.why = over_the_limit(doing + ": item " + std::to_string(context.position), largest);
            sink->quarantine(std::move(context));
        }
        context = of_a_list();
    }
    void take_large(failure& f) { hand_on(end_of_large(f)); }
    void hand_on(object o) {
        if (!o) return;
        ++result.items;
        sink->item(std::move(o));
    }

    void finish(failure& f) {
        if (!framer.done()) {
            f = failure(errc::connection_lost, doing + ": the list ends in the middle");
            return;
        }
        failure why;
        const json::value v = parse_small(framer.envelope(), why);
        const auto* o = why ? nullptr : v.if_object();
        if (!o) {
            f = failure(errc::bad_response, doing + ": the list cannot be read");
            return;
        }
        const auto kind = string_member(*o, "kind");
        if (kind == "Status") {
            f = refused_in_stream(framer.envelope(), doing);
            return;
        }
        if (o->contains("items")) { // the framer takes an array or null out
            f = failure(errc::bad_response, doing + ": items of the list is no array");
            return;
        }
        // A custom resource's listKind may be anything: an answer with items is a list (a Table has rows).
        if (kind.empty() || (!framer.has_items() && !kind.ends_with("List"))) {
            f = failure(errc::bad_response, doing + ": the answer is no list but " +
                                                (kind.empty() ? "has no kind" : "a " + printable(kind, 100)));
            return;
        }
        const auto* metadata = object_member(*o, "metadata");
        if (!metadata) { // so there is no version: servers that keep all in memory may have none
            const auto* other = o->if_contains("metadata");
            if (other && !other->is_null())
                f = failure(errc::bad_response, doing + ": metadata of the list is no object");
            else if (!framer.has_items())
                f = failure(errc::bad_response, doing + ": the list has neither metadata nor items");
            return;
        }
        result.resource_version = resource_version(string_member(*metadata, "resourceVersion"));
        result.continue_token = text_member(*metadata, "continue");
        if (const auto n = int_member(*metadata, "remainingItemCount"); n && *n >= 0)
            result.remaining = static_cast<std::uint64_t>(*n);
    }
};

/// Decodes an object that is too large for one step. False: the sink has seen enough.
template <typename Reader>
asio::awaitable<bool> take_steps(std::shared_ptr<Reader> r, failure& f) {
    informer::detail::turn_watch pace(1);
    pace.begin();
    while (!r->step_of_large()) {
        if (!pace.over()) continue;
        const bool wanted = co_await r->sink->turn();
        const auto asked = co_await asio::this_coro::cancellation_state;
        if (asked.cancelled() != asio::cancellation_type::none) f = failure(errc::cancelled, r->doing);
        if (!wanted || f) {
            r->large.reset();
            co_return wanted;
        }
        pace.begin();
    }
    r->take_large(f);
    co_return true;
}

/// Reads the body of an answer slice by slice, through the reader's framer into its sink.
template <typename Reader>
asio::awaitable<void> read_body(std::shared_ptr<Reader> r, http::response answer, failure& f) {
    const std::string content_type(answer.header("Content-Type"));
    informer::detail::turn_watch pace(items_a_look);
    http::body_parts parts;
    for (;;) {
        const std::size_t n = co_await answer.receive(parts, f);
        if (f) f = f.within(r->doing);
        if (f || n == 0) break;
        if (informer::detail::is_progress(parts)) r->sink->received(n);
        pace.begin();
        bool wanted = true, some = false;
        for (std::size_t fed = 0; wanted && !f;) {
            if (!some) {
                if (fed == parts.size()) break;
                r->feed(parts[fed++]);
            }
            failure garbage;
            some = r->framer.next(garbage);
            if (garbage)
                f = undecodable(garbage, r->doing, content_type);
            else if (some)
                r->take(f);
            if (f || !some) continue;
            if (r->large)
                wanted = co_await take_steps(r, f);
            else if (pace.over())
                wanted = co_await r->sink->turn();
            else
                continue;
            pace.begin();
        }
        if (f) break;
        if (wanted) wanted = co_await r->sink->ready();
        if (!wanted) { // or the request was cancelled while the sink waited
            const auto asked = co_await asio::this_coro::cancellation_state;
            if (asked.cancelled() != asio::cancellation_type::none) f = failure(errc::cancelled, r->doing);
            answer.close();
            co_return;
        }
    }
    if (f)
        answer.close();
    else
        r->finish(f);
}

// ---- watch ----------------------------------------------------------------------------------------------------------

struct watch_reader : object_reader {
    watch_reader(object_sink& s, std::string d, std::size_t max_object, bool partial)
        : object_reader(s, std::move(d), partial), framer(max_object), largest(max_object) {}

    watch_framer framer;
    std::size_t largest; ///< of one object

    void feed(std::string_view bytes) { framer.lend(bytes); }
    /// `f` ends the watch.
    void take(failure& f) {
        const std::string_view type = framer.type();
        bad_object context;
        context.position = framer.position();
        context.type = type == "DELETED"    ? watch_event_type::deleted
                       : type == "MODIFIED" ? watch_event_type::modified
                                            : watch_event_type::added;
        if (type.empty() && framer.object().empty()) {
            // This is not the answer to a watch: a proxy wants a login, or a server that ignores `watch` sent a list.
            // As a bad event of an open watch it would count as a sign of life from the server.
            f = failure(errc::bad_response, doing + ": what came is no watch event");
        } else if (framer.oversized()) {
            identify(context, framer.object());
            context.why = over_the_limit(which(context), largest);
            sink->quarantine(std::move(context));
        } else if (type == "ADDED" || type == "MODIFIED" || type == "DELETED") {
            object o = decode_from(framer, framer.object(), context, f);
            if (o) sink->event(context.type, std::move(o));
        } else if (type == "BOOKMARK") {
            bookmark(std::move(context));
        } else if (type == "ERROR") {
            f = refused_in_stream(framer.object(), doing);
        } else {
            identify(context, framer.object().substr(0, large_text));
            context.why =
                failure(errc::bad_response, which(context) + " has the unknown type '" + printable(type, 64) + "'");
            sink->quarantine(std::move(context));
        }
    }

    void take_large(failure& f) {
        const auto what = large->about.type;
        object o = end_of_large(f);
        if (o) sink->event(what, std::move(o));
    }

    void finish(failure& f) const {
        if (!framer.idle()) f = failure(errc::connection_lost, doing + ": the stream ends in the middle of an event");
    }

private:
    std::string which(const bad_object& context) const { return doing + ": event " + std::to_string(context.position); }

    void bookmark(bad_object context) {
        failure why;
        const json::value v = parse_small(framer.object(), why);
        const auto* o = why ? nullptr : v.if_object();
        if (!o) {
            context.why = failure(errc::bad_response, which(context) + " is a bookmark that cannot be read");
            sink->quarantine(std::move(context));
            return;
        }
        const auto* metadata = object_member(*o, "metadata");
        if (!metadata) return;
        const auto* annotations = object_member(*metadata, "annotations");
        const bool end = annotations && string_member(*annotations, "k8s.io/initial-events-end") == "true";
        const std::string_view version = string_member(*metadata, "resourceVersion");
        // Servers that keep all in memory send bookmarks without a version; those only show where the initial events
        // end.
        if (end || !version.empty()) sink->bookmark(resource_version(version), end);
    }
};

http::timeouts list_times(http::timeouts t) {
    return t.request(std::chrono::milliseconds(0)); // no limit as long as data arrives
}

asio::awaitable<list_result> list_quietly(std::shared_ptr<client::impl> c, api_resource r, std::string name_space,
                                          list_options options, object_sink& sink, failure& f) {
    return quietly(list_into(std::move(c), std::move(r), std::move(name_space), std::move(options), sink, f));
}

asio::awaitable<void> watch_quietly(std::shared_ptr<client::impl> c, api_resource r, std::string name_space,
                                    watch_options options, object_sink& sink, failure& f) {
    return quietly(watch_into(std::move(c), std::move(r), std::move(name_space), std::move(options), sink, f));
}

class kubernetes_list_watch final : public list_watch {
public:
    kubernetes_list_watch(std::shared_ptr<client::impl> c, api_resource r, std::string name_space)
        : client_(std::move(c)), resource_(std::move(r)), name_space_(std::move(name_space)) {}

    const api_resource& resource() const override { return resource_; }
    std::string describe() const override { return detail::describe(resource_, name_space_); }
    std::string name_space() const override { return resource_.namespaced ? name_space_ : std::string(); }
    asio::awaitable<list_result> list(list_options options, object_sink& sink, failure& f) override {
        return list_quietly(client_, resource_, name_space_, std::move(options), sink, f);
    }
    asio::awaitable<void> watch(watch_options options, object_sink& sink, failure& f) override {
        return watch_quietly(client_, resource_, name_space_, std::move(options), sink, f);
    }
    watch_list_support watch_list() const noexcept override {
        const auto found = client_->watch_lists.find(resource_.group);
        if (found == client_->watch_lists.end()) return watch_list_support::unknown;
        const auto& [what, since] = found->second;
        const bool over = what == watch_list_support::no && client_->rt.clock().now() - since >= watch_list_belief;
        return over ? watch_list_support::unknown : what;
    }
    void learnt(watch_list_support what) noexcept override {
        try {
            client_->watch_lists.insert_or_assign(resource_.group,
                                                  client::impl::known_support{what, client_->rt.clock().now()});
        } catch (const std::bad_alloc&) { // NOLINT(bugprone-empty-catch) the next informer finds it out again
        }
    }

private:
    std::shared_ptr<client::impl> client_;
    api_resource resource_;
    std::string name_space_;
};

} // namespace

http::timeouts watch_times(http::timeouts t, std::chrono::seconds lasts, bool late_header) {
    constexpr auto longest =
        std::chrono::floor<std::chrono::seconds>(std::chrono::milliseconds::max()) - list_watch::watch_overtime;
    const auto whole =
        lasts.count() > 0 ? std::min(lasts, longest) + list_watch::watch_overtime : std::chrono::seconds(0);
    const auto header = late_header && whole.count() > 0 ? whole : list_watch::watch_header_time;
    return t.header(header).body_idle(std::chrono::milliseconds(0)).request(whole);
}

std::string list_query(const list_options& o) {
    query_builder q;
    q.add("continue", o.continue_);
    q.add("fieldSelector", o.field_selector_);
    q.add("labelSelector", o.label_selector_);
    if (o.limit_ > 0) q.add("limit", static_cast<long long>(o.limit_));
    if (o.continue_.empty()) { // the token holds the version; a server refuses both (contract X18)
        q.add("resourceVersion", o.resource_version_);
        if (!o.resource_version_.empty()) q.add("resourceVersionMatch", o.resource_version_match_);
    }
    q.add("shardSelector", o.shard_.str());
    return q.take();
}

std::string watch_query(const watch_options& o) {
    query_builder q;
    if (o.bookmarks_ || o.send_initial_events_) q.add("allowWatchBookmarks", "true");
    q.add("fieldSelector", o.field_selector_);
    q.add("labelSelector", o.label_selector_);
    q.add("resourceVersion", o.resource_version_);
    if (o.send_initial_events_) {
        q.add("resourceVersionMatch", "NotOlderThan");
        q.add("sendInitialEvents", "true");
    }
    q.add("shardSelector", o.shard_.str());
    if (o.timeout_.count() > 0) q.add("timeoutSeconds", o.timeout_.count());
    q.add("watch", "true");
    return q.take();
}

asio::awaitable<bool> take_turn(asio::any_io_executor executor) {
    co_await asio::post(executor, asio::use_awaitable);
    co_return true;
}

asio::awaitable<list_result> list_into(std::shared_ptr<client::impl> c, api_resource r, std::string name_space,
                                       list_options options, object_sink& sink, failure& f) {
    const std::string doing = "list " + describe(r, name_space);
    f = check_path(r, name_space, doing);
    if (f) co_return list_result();
    http::request request("GET", r.path(name_space) + list_query(options));
    request.header("Accept", std::string(options.metadata_only_ ? accept_partial_list : accept_json));
    request.time(list_times(c->config.time));
    http::response answer = co_await client::impl::open(c, std::move(request), doing, f);
    if (f) co_return list_result();
    sink.opened();
    const auto reader = std::make_shared<list_reader>(sink, doing, c->config.max_object, options.metadata_only_);
    co_await read_body(reader, std::move(answer), f);
    co_return reader->result;
}

asio::awaitable<void> watch_into(std::shared_ptr<client::impl> c, api_resource r, std::string name_space,
                                 watch_options options, object_sink& sink, failure& f) {
    const std::string doing = "watch " + describe(r, name_space);
    f = check_path(r, name_space, doing);
    if (f) co_return;
    http::request request("GET", r.path(name_space) + watch_query(options));
    request.header("Accept", std::string(options.metadata_only_ ? accept_partial_object : accept_json));
    request.time(watch_times(c->config.time, options.timeout_, options.late_header_));
    http::response answer = co_await client::impl::open(c, std::move(request), doing, f);
    if (f) co_return;
    sink.opened();
    const auto reader = std::make_shared<watch_reader>(sink, doing, c->config.max_object, options.metadata_only_);
    co_await read_body(reader, std::move(answer), f);
}

std::shared_ptr<list_watch> make_list_watch(std::shared_ptr<client::impl> c, api_resource r, std::string name_space) {
    return std::make_shared<kubernetes_list_watch>(std::move(c), std::move(r), std::move(name_space));
}

} // namespace informer::kubernetes::detail
