// etcd as a source for informers: the keys below a prefix are objects. Uses the v3 JSON gateway, which every member of
// etcd 3.4 and later serves on its client port (tested with 3.4.23, 3.5.10, 3.6.8 and 3.7.0).
#pragma once

#include <informer/error.hpp>
#include <informer/http/client.hpp>
#include <informer/http/proxy.hpp>
#include <informer/http/tls_files.hpp>
#include <informer/object/api_resource.hpp>
#include <informer/runtime.hpp>
#include <informer/source/list_watch.hpp>

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace informer::etcd {

/// Where etcd is, and whom we authenticate as.
class config {
public:
    config() { time_.connect(std::chrono::seconds(5)); } // there may be another member
    explicit config(std::string url) : config() { endpoint(std::move(url)); }
    /// "https://10.0.0.1:2379", once for each member. If one cannot be reached or has no leader, the next one is asked.
    // clang-format off
    config& endpoint(std::string url) { endpoints_.push_back(std::move(url)); return *this; }
    /// For all members. A client certificate opens the connection, but its common name is not a user: over the gateway
    /// etcd knows users by password only. If authentication is on, etcd refuses a client certificate with a common name
    /// there (3.6.8 does).
    config& tls(http::tls_options t) { tls_ = std::move(t); return *this; }
    /// The files that parts of `tls` come from. They take precedence over it and are read again when they are rotated.
    config& tls_files(http::tls_files f) { tls_files_ = std::move(f); return *this; }
    // clang-format on
    /// Never printed, and sent only over TLS, or to loopback without a proxy (a proxy's loopback is its own). Not used
    /// if etcd has authentication off.
    config& user(std::string name, std::string password = {}) {
        user_ = std::move(name);
        password_ = std::move(password);
        return *this;
    }
    /// The file of the user's password; line ends after it are ignored. It is read again before each authentication,
    /// which happens whenever etcd no longer takes our token, for example after the password was changed. It takes
    /// precedence over `user`'s password once it could be read. A password that etcd refuses is tried again as all
    /// refusals are, rarely: once the file is right, the informer goes on, and nothing need be made anew.
    // clang-format off
    config& password_file(std::string path) { password_file_ = std::move(path); return *this; }
    /// The proxy through which all members are reached; default: none. The process's environment (HTTPS_PROXY,
    /// NO_PROXY) is not read: it is meant for servers outside, and members of etcd are mostly inside.
    config& proxy(http::proxy p) { proxy_ = std::move(p); return *this; }
    config& time(http::timeouts t) { time_ = t; return *this; }
    /// Larger values are quarantined. etcd's own limit is 1.5 MiB unless it is configured otherwise.
    config& max_object(std::size_t bytes) { max_object_ = bytes; return *this; }
    // clang-format on

    std::vector<std::string> endpoints_;
    http::tls_options tls_;
    http::tls_files tls_files_;
    std::string user_, password_, password_file_;
    http::proxy proxy_;
    http::timeouts time_;
    std::size_t max_object_ = std::size_t(64) << 20;
};

/// Which values become `{"metadata":…,"value":…}`.
enum class wrap {
    /// the value must be a JSON object, and is the object; any other is quarantined, so that its last good version
    /// stays
    none,
    others, ///< JSON objects stay as they are; anything else goes into `value`
    all,    ///< all go into `value`, JSON objects too: their own `kind`, `apiVersion` and `metadata` mean nothing then
};

/// How keys and values become objects.
///
/// What a value has in its `metadata` (labels, annotations, finalizers, …) stays, so that selectors and indexes work on
/// it. These members are overwritten: name and namespace (from the key), resourceVersion (the revision of the last
/// change), generation (the key's version) and uid (from the key and the revision that created it: a key deleted and
/// created again is another object).
///
/// In `value`, JSON is stored as JSON. Anything else is stored as text, and what is not even UTF-8 as base64 in
/// `valueBase64`. A value that begins like a JSON object or array but is not one is quarantined: half a document is not
/// the text that somebody meant.
class mapping {
public:
    /// The prefix, for example "/services/", with the last slash. Keys are bytes to etcd: "/services" also matches
    /// "/services-old/x", and gives names that begin with a slash. "" means all keys.
    explicit mapping(std::string prefix) : prefix_(std::move(prefix)) {}
    /// What follows the prefix is "namespace/name", split at the first slash. Otherwise all of it is the name, slashes
    /// included: look up such an object by its key, `informer.snapshot().get(object_key("", "a/b"))`. Keys that do not
    /// fit are quarantined (`informer_status::quarantine`) under keys that no object has; `etcd_key` gives theirs. If
    /// no key of a list can be used, for this reason or another, a warning says so.
    // clang-format off
    mapping& namespaced(bool on = true) { resource_.namespaced = on; return *this; }
    /// Only this namespace: no other is requested. For a factory whose informers are requested by namespace; "": all.
    mapping& in(std::string name_space) { name_space_ = std::move(name_space); return *this; }
    // clang-format on
    /// The `apiVersion` and `kind` of the objects. The cache quarantines a JSON object that says it is something else,
    /// as it does with an object of the wrong kind from Kubernetes.
    mapping& resource(api_resource r) {
        const bool namespaced = resource_.namespaced;
        resource_ = std::move(r);
        resource_.namespaced = namespaced;
        return *this;
    }
    // clang-format off
    mapping& wrap_values(wrap which = wrap::others) { wrap_ = which; return *this; }
    // clang-format on
    /// The key in etcd of an object, or of what was quarantined. For people to read: in a key that does not fit,
    /// "%" and two digits stand for each byte that is no text.
    std::string etcd_key(const object_key& k) const;

    std::string prefix_, name_space_;
    api_resource resource_ = api_resource("etcd", "v3", "keyvalues", "KeyValue", false);
    wrap wrap_ = wrap::none;
};

/// The keys below a prefix, for a `shared_informer`, whose promises hold here as they do with Kubernetes: resource
/// versions are etcd's revisions, so that `wait_until` takes the `header.revision` of a write. A write outside the
/// prefix is not reported. For its revision `wait_until` waits until another change, or etcd's report of the watch's
/// progress (below), is as new, which mostly means until its deadline. Nothing is ever written to etcd.
///
/// *List*: in pages of one revision, even if no limit is requested; a limit applies to the first page, and further
/// pages hold a few megabytes. A list at version 0 may be stale (one member's own state); all others are linearizable.
/// *Watch*: keys that one transaction changed are reported together, and a stream that breaks within them is resumed
/// before them. A deleted object is reported with its last state. Compacted revisions, and another cluster behind the
/// endpoints, are `errc::gone`: the informer lists again and reports the difference. There are no watch-lists. A member
/// without a leader ends its watches. *Selectors* are matched here, on the value as received, before projection and
/// transform: everything below the prefix is transferred.
///
/// etcd reports the progress of a quiet watch every ten minutes (`--watch-progress-notify-interval`), if anything was
/// written anywhere. It cannot be asked in between: over the gateway nothing can be sent to an open watch. So a watch
/// ends by our own time-out (`informer_options::watch_timeout`) and TCP keep-alive. A quiet prefix is listed again only
/// if others write and etcd compacts that before the watch is opened anew; in that case set the interval below the
/// time-out.
///
/// *Executor*, *cancellation*, *errors*: as `list_watch`. etcd's errors are mapped to their HTTP equivalents; 404 is a
/// member without gateway. *Thread safety*: none. Throws `error(errc::bad_configuration)` for an endpoint, TLS
/// material, a file, a prefix or a namespace that cannot be used, if there is no endpoint or no kind, for a password
/// file without a user, and for a user if a member that is not on this machine is reached without TLS; the overload
/// with `failure&` reports it in `f`, and returns null.
std::shared_ptr<list_watch> make_list_watch(runtime rt, config c, mapping m);
std::shared_ptr<list_watch> make_list_watch(runtime rt, config c, mapping m, failure& f);

} // namespace informer::etcd
