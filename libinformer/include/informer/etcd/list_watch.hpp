// etcd as a source of informers: keys below a prefix are objects. By the v3 JSON gateway, which every member of etcd 3.4 and later
// serves on its client port (tested with 3.4.23 and 3.6.8).
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

/// Where etcd is, and who we are.
class config {
public:
    config() { time_.connect(std::chrono::seconds(5)); } // there may be another member
    explicit config(std::string url) : config() { endpoint(std::move(url)); }
    /// "https://10.0.0.1:2379", once for each member. The next one is asked where one cannot be reached or has no leader.
    // clang-format off
    config& endpoint(std::string url) { endpoints_.push_back(std::move(url)); return *this; }
    /// For all members. A client certificate opens the connection; its common name is nobody here: over the gateway etcd knows users
    /// by password only. Where authentication is on etcd refuses there who shows a certificate with a common name (3.6.8 does).
    config& tls(http::tls_options t) { tls_ = std::move(t); return *this; }
    /// Where parts of that are in files, which win over it and are read again when they are rotated.
    config& tls_files(http::tls_files f) { tls_files_ = std::move(f); return *this; }
    // clang-format on
    /// Never printed, and sent over TLS or to loopback only (not by way of a proxy, whose loopback is its own). Where etcd has
    /// authentication off it is not used.
    config& user(std::string name, std::string password = {}) {
        user_ = std::move(name);
        password_ = std::move(password);
        return *this;
    }
    /// The user's; line ends behind it do not count. Read again before each authentication, which is whenever etcd no longer takes our
    /// token, as after the password was changed; wins over `user`'s password once it could be read. A password that etcd refuses is tried
    /// again as all refusals are, rarely: when the file is right the informer goes on, and nothing need be made anew.
    // clang-format off
    config& password_file(std::string path) { password_file_ = std::move(path); return *this; }
    /// By way of whom all members are reached; default: directly. The process's environment (HTTPS_PROXY, NO_PROXY) is not looked at:
    /// it is there for servers outside, and members of etcd are mostly inside.
    config& proxy(http::proxy p) { proxy_ = std::move(p); return *this; }
    config& time(http::timeouts t) { time_ = t; return *this; }
    /// Values above it are quarantined. etcd's own limit is 1.5 MiB unless it is told otherwise.
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
    /// the value is a JSON object, and is the object; any other is quarantined, so that its last good version stays
    none,
    others, ///< JSON objects are as they are; what is none goes into `value`
    all,    ///< all go into `value`, JSON objects too: their own `kind`, `apiVersion` and `metadata` mean nothing then
};

/// How keys and values become objects.
///
/// What stands in `metadata` of a value (labels, annotations, finalizers, …) stays, so that selectors and indexes work on it; these are
/// overwritten: name and namespace (from the key), resourceVersion (the revision of the last change), generation (the key's
/// version) and uid (from the key and the revision that made it: a key deleted and made again is another object).
///
/// In `value` JSON stands as JSON. What is no JSON stands there as text, what is not even UTF-8 as base64 in `valueBase64`. What begins
/// like a JSON object or array and is none is quarantined: half a document is not the text that somebody meant.
class mapping {
public:
    /// "/services/", with the last slash: keys are bytes to etcd, and "/services" stands for "/services-old/x", too, and for names that
    /// begin with a slash. With "" all keys.
    explicit mapping(std::string prefix) : prefix_(std::move(prefix)) {}
    /// What follows the prefix is "namespace/name", split at the first slash. Else all of it is the name, slashes included: ask for
    /// such an object by its key, `informer.snapshot().get(object_key("", "a/b"))`. Keys that do not fit are in quarantine
    /// (`informer_status::quarantine`), and where none of a list can be used, for this reason or another, a warning says so.
    // clang-format off
    mapping& namespaced(bool on = true) { resource_.namespaced = on; return *this; }
    /// Of this namespace only: no other is asked for. For a factory whose informers are asked for by namespace; "": of all.
    mapping& in(std::string name_space) { name_space_ = std::move(name_space); return *this; }
    // clang-format on
    /// What the objects are called in `apiVersion` and `kind`. A JSON object that says it is something else is quarantined by the
    /// cache, as an object of the wrong kind is with Kubernetes.
    mapping& resource(api_resource r) {
        const bool namespaced = resource_.namespaced;
        resource_ = std::move(r);
        resource_.namespaced = namespaced;
        return *this;
    }
    // clang-format off
    mapping& wrap_values(wrap which = wrap::others) { wrap_ = which; return *this; }
    // clang-format on

    std::string prefix_, name_space_;
    api_resource resource_ = api_resource("etcd", "v3", "keyvalues", "KeyValue", false);
    wrap wrap_ = wrap::none;
};

/// The keys below a prefix, for a `shared_informer`, whose promises hold here as they do with Kubernetes: resource versions are etcd's
/// revisions, so that `wait_until` takes the `header.revision` of a write. One outside the prefix is none of ours: nothing tells of it, and
/// `wait_until` waits until another change, or etcd's word how far the watch has got (below), is as new, mostly to its deadline.
/// Nothing is ever written to etcd.
///
/// *List*: in pages of one revision, also where no limit is asked for; a limit is the first page's, further ones hold a few megabytes.
/// A list at version 0 may be stale (one member's own state); all others are linearizable. *Watch*: keys that one transaction changed
/// are told of together, and a stream that breaks within them is resumed before them. A deleted object is told of with its last state.
/// Compacted revisions, and another cluster behind the endpoints, are `errc::gone`: the informer lists again, and tells the difference.
/// Watch-lists there are none. A member without a leader ends its watches.
/// *Selectors* are matched here, on the value as it came, before projection and transform: everything below the prefix is transferred.
///
/// etcd says how far a quiet watch has got every ten minutes (`--watch-progress-notify-interval`), if anything was written
/// anywhere, and cannot be asked in between: over the gateway nothing is said to a watch that is open. So a watch ends by our own
/// time-out (`informer_options::watch_timeout`) and TCP keep-alive. Only where others write, and etcd compacts that before the
/// watch is opened anew, a quiet prefix is listed again: set the interval below the time-out there.
///
/// *Executor*, *cancellation*, *errors*: as `list_watch`. Those of etcd are mapped on their HTTP likes; 404 is a member without gateway.
/// *Thread safety*: none. Throws `error(errc::bad_configuration)` for an endpoint, TLS material, a file, a prefix or a namespace that
/// cannot be used, where there is no endpoint or no kind, for a password file without a user, and for a password where a member is reached
/// without TLS; the twin reports it in `f`, and returns null.
std::shared_ptr<list_watch> make_list_watch(runtime rt, config c, mapping m);
std::shared_ptr<list_watch> make_list_watch(runtime rt, config c, mapping m, failure& f);

} // namespace informer::etcd
