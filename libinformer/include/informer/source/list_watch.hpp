// What a reflector reads from: list, watch, and the sink they build into.
#pragma once

#include <informer/error.hpp>
#include <informer/object/api_resource.hpp>
#include <informer/object/document_pool.hpp>
#include <informer/object/object.hpp>
#include <informer/object/resource_version.hpp>
#include <informer/source/shard_selector.hpp>

#include <boost/asio/awaitable.hpp>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace informer {

namespace asio = boost::asio;

/// The query of a list. An empty resource version means a consistent read.
class list_options {
public:
    list_options() {}
    // clang-format off
    list_options& resource_version(std::string v) { resource_version_ = std::move(v); return *this; }
    /// "Exact" or "NotOlderThan"; only with a resource version.
    list_options& resource_version_match(std::string v) { resource_version_match_ = std::move(v); return *this; }
    list_options& labels(std::string selector) { label_selector_ = std::move(selector); return *this; }
    list_options& fields(std::string selector) { field_selector_ = std::move(selector); return *this; }
    /// A server that cannot select sends all objects; a sink that must not have the others drops what
    /// `shard_selector::contains` rejects.
    list_options& shard(shard_selector s) { shard_ = std::move(s); return *this; }
    list_options& limit(std::uint64_t n) { limit_ = n; return *this; }
    /// Never sent together with a resource version.
    list_options& continue_token(std::string t) { continue_ = std::move(t); return *this; }

    /// Only the metadata of each object, if the source can do that; otherwise whole objects come.
    list_options& metadata_only(bool on = true) { metadata_only_ = on; return *this; }
    // clang-format on

    std::string resource_version_, resource_version_match_, label_selector_, field_selector_, continue_;
    shard_selector shard_;
    std::uint64_t limit_ = 0; ///< 0: no paging
    bool metadata_only_ = false;
};

/// The query of a watch.
class watch_options {
public:
    watch_options() {}
    // clang-format off
    watch_options& resource_version(std::string v) { resource_version_ = std::move(v); return *this; }
    watch_options& labels(std::string selector) { label_selector_ = std::move(selector); return *this; }
    watch_options& fields(std::string selector) { field_selector_ = std::move(selector); return *this; }
    /// As in `list_options`.
    watch_options& shard(shard_selector s) { shard_ = std::move(s); return *this; }
    /// Bookmarks are asked for by default.
    watch_options& bookmarks(bool on) { bookmarks_ = on; return *this; }
    /// Watch-list: the current state as ADDED events, closed by a bookmark; sends resourceVersionMatch=NotOlderThan.
    watch_options& send_initial_events(bool on = true) { send_initial_events_ = on; return *this; }
    /// The server ends the watch after this; the client gives up a little later.
    watch_options& timeout(std::chrono::seconds d) { timeout_ = d; return *this; }
    /// The server's answer may take as long to begin as to end: a proxy may hold it back until more of it comes.
    watch_options& late_header(bool on = true) { late_header_ = on; return *this; }
    /// Only the metadata of each object, if the source can do that; otherwise whole objects come.
    watch_options& metadata_only(bool on = true) { metadata_only_ = on; return *this; }
    // clang-format on

    std::string resource_version_, label_selector_, field_selector_;
    shard_selector shard_;
    bool bookmarks_ = true;
    bool send_initial_events_ = false;
    bool late_header_ = false;
    bool metadata_only_ = false;
    std::chrono::seconds timeout_ = std::chrono::minutes(7);
};

/// The result of one list request (one page).
struct list_result {
    informer::resource_version resource_version; ///< empty if the server's lists have none
    std::string continue_token;                  ///< empty on the last page
    std::uint64_t items = 0;                     ///< handed to the sink, except those to quarantine
    std::optional<std::uint64_t> remaining;      ///< metadata.remainingItemCount
};

enum class watch_event_type { added, modified, deleted };

/// An item or event that could not be used: bad JSON, wrong type, no metadata, too large.
struct bad_object {
    object_key key;           ///< empty when not even the name could be read
    std::size_t position = 0; ///< in the list or stream
    watch_event_type type = watch_event_type::added;
    bool from_list = false;
    informer::resource_version resource_version; ///< if it could be read
    failure why;
    /// If it could be read. An item of a list that has another uid than the cached object shows that this one is gone:
    /// its last good version does not stay. An event that has another uid leads to a list.
    std::string uid;
};

/// Receives what a `list_watch` builds. Implemented by the cache (and by tests). All calls come on the list_watch's
/// executor, from within `list()` or `watch()`, in stream order.
class object_sink {
public:
    virtual ~object_sink() = default;
    /// The pool to decode into; may change between two calls (compaction).
    virtual document_pool& pool() = 0;
    /// False: `previous` has nothing for any key, so the caller need not read keys to ask for it.
    virtual bool has_previous() const { return true; }
    /// The older version of the object about to be decoded, or empty. `key` may be empty (then only `position` counts).
    virtual object previous(const object_key& key, std::size_t position) = 0;
    /// The server answered with success; a watch is open, or a list begins.
    virtual void opened() {}
    /// Bytes other than blanks came in. Used for "last contact", for metrics, and to give up a request on which none
    /// come.
    virtual void received(std::size_t bytes) { (void)bytes; }
    /// One item of a list.
    virtual void item(object o) = 0;
    /// One watch event.
    virtual void event(watch_event_type type, object o) = 0;
    /// `initial_events_end`: the annotation k8s.io/initial-events-end is "true".
    virtual void bookmark(informer::resource_version version, bool initial_events_end) = 0;
    virtual void quarantine(bad_object b) = 0;
    /// What comes between `begin_change()` and `end_change()` is one change (a transaction's), to become visible at
    /// once. It may take several turns, so the sink knows its resource version only at its end: a watch that broke off
    /// in between resumes from the version before the change, and receives all of it again.
    virtual void begin_change() {}
    virtual void end_change() {}
    /// Called after every slice of input; suspends while the consumer is behind (back-pressure: the socket is not read
    /// meanwhile) and gives the executor a turn. False: the sink has seen enough and the request must end, or the sink
    /// was cancelled while it waited, which the list_watch detects itself.
    virtual asio::awaitable<bool> ready() = 0;
    /// Called in the middle of a slice or an object that takes long; gives the executor a turn. False as in `ready()`.
    virtual asio::awaitable<bool> turn() { return ready(); }
};

/// What is known about a server's watch-list (sendInitialEvents).
enum class watch_list_support {
    /// to be tried; two seconds of silence mean that it is missing, unless the resource turns out to be empty
    unknown,
    yes, ///< it worked, or the server's version has it; it gets the full time
    no,  ///< lists and watches only
};

/// A resource that can be listed and watched. Implementations: `kubernetes::client`'s, `etcd::make_list_watch`'s,
/// scripted ones in tests.
///
/// *Executor*: that of the `runtime` it was constructed with. *Cancellation*: terminal; the request's socket is closed
/// at once and `f` says `errc::cancelled`. *Errors*: reported in `f`, with phase and server text; only `std::bad_alloc`
/// is thrown. 410 is `errc::gone` in all four places (list, continue, opening a watch, ERROR event).
class list_watch {
public:
    /// How long the finding that a server has no watch-list is believed: a stalled path looks the same, and servers are
    /// upgraded.
    static constexpr std::chrono::hours watch_list_belief{1};
    /// How long a source waits for the header of a watch, unless it may be late (`watch_options::late_header`).
    static constexpr std::chrono::seconds watch_header_time{30};
    /// The server ends a watch by itself at its time-out; one that outlives that by this much is a dead connection.
    static constexpr std::chrono::seconds watch_overtime{15};

    virtual ~list_watch() = default;
    virtual const api_resource& resource() const = 0;
    /// For logs and status: "pods", "deployments.apps in ns1".
    virtual std::string describe() const = 0;
    /// The only namespace that it reads; empty: all, or the resource has none. A `lister` refuses to read others.
    virtual std::string name_space() const { return {}; }
    /// Reads one page into `sink.item()`.
    virtual asio::awaitable<list_result> list(list_options options, object_sink& sink, failure& f) = 0;
    /// Reads one watch into `sink.event()` and `sink.bookmark()`; returns when the stream ends. A clean end leaves `f`
    /// empty.
    virtual asio::awaitable<void> watch(watch_options options, object_sink& sink, failure& f) = 0;

    /// What the reflector has learnt, or the implementation knows (from the server's version; shared between the
    /// resources of one server). What a server cannot do is remembered here for `watch_list_belief`, so that a new
    /// informer does not try again.
    virtual watch_list_support watch_list() const noexcept { return watch_list_; }
    virtual void learnt(watch_list_support what) noexcept { watch_list_ = what; }
    /// True: a watch reports everything that happened after its version, or fails. Otherwise, a newer version that was
    /// not reported for the time of a whole watch may mean a watch cache that stands still, so the state is listed.
    virtual bool tells_all() const noexcept { return false; }

private:
    watch_list_support watch_list_ = watch_list_support::unknown;
};

/// Makes the `list_watch` for a resource and namespace ("" = all). `kubernetes::client::list_watches()` is one.
using list_watch_factory = std::function<std::shared_ptr<list_watch>(const api_resource&, std::string name_space)>;

} // namespace informer
