// An embedded Kubernetes API server: in process, in memory, on our own Asio and Beast. For tests, demos, and for trying
// programs without a cluster. It behaves like the real one wherever the conformance suite looks.
#pragma once

#include <informer/error.hpp>
#include <informer/kubernetes/config.hpp>
#include <informer/object/api_resource.hpp>
#include <informer/runtime.hpp>

#include <boost/asio/awaitable.hpp>
#include <boost/json/fwd.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace informer::testing {

class api_server_options {
public:
    api_server_options() {}
    // clang-format off
    api_server_options& port(std::uint16_t p) { port_ = p; return *this; }
    api_server_options& address(std::string a) { address_ = std::move(a); return *this; }
    /// TLS with a throw-away CA (default off).
    api_server_options& tls(bool on = true) { tls_ = on; return *this; }
    // clang-format on
    /// Requests need one of these bearer tokens (or, with TLS, a client certificate of the server's CA). `rights` is
    /// "admin" or "none" (authenticated, may do nothing: 403). If no token is added, everybody is admin.
    api_server_options& token(std::string t, std::string user, std::string rights = "admin") {
        tokens_.push_back({std::move(t), std::move(user), std::move(rights)});
        return *this;
    }
    /// Interval of bookmarks on idle watches; the real server: about a minute.
    // clang-format off
    api_server_options& bookmark_every(std::chrono::milliseconds d) { bookmark_every_ = d; return *this; }
    /// Watches without timeoutSeconds end after this (the real one: 30–60 min).
    api_server_options& default_watch_timeout(std::chrono::milliseconds d) { default_watch_timeout_ = d; return *this; }
    /// false: sendInitialEvents is answered 422, as with the gate off.
    api_server_options& watch_list(bool on) { watch_list_ = on; return *this; }
    /// Supports lists and watches of shards (`shard_selector`); by default shards are ignored, as with the gate off.
    api_server_options& sharding(bool on) { sharding_ = on; return *this; }
    /// false: aggregated discovery is answered in the plain form.
    api_server_options& aggregated_discovery(bool on) { aggregated_discovery_ = on; return *this; }
    /// How many changes of each resource are kept, at least one, for watches to resume from; older ones are compacted.
    /// An open watch that is further behind ends, so at most this many changes may come in one turn of the executor, or
    /// while its peer does not read.
    api_server_options& history(std::size_t events) { history_ = events; return *this; }
    /// The resource version before the first write. A server that takes the place of another one on the same address
    /// begins above the versions of that one, so that its clients are answered 410 and list again.
    api_server_options& first_version(std::uint64_t v) { first_version_ = v; return *this; }
    /// Lifetime of continue tokens.
    api_server_options& continue_for(std::chrono::seconds d) { continue_for_ = d; return *this; }

    /// Larger bodies of writes are answered 413.
    api_server_options& max_body(std::size_t bytes) { max_body_ = bytes; return *this; }
    /// Larger objects in requests are answered 500, in etcd's words. (A real server stores built-in kinds as protobuf,
    /// which is a little smaller.)
    api_server_options& max_object(std::size_t bytes) { max_object_ = bytes; return *this; }
    // clang-format on

    struct token_entry {
        std::string token, user, rights;
    };
    std::string address_ = "127.0.0.1";
    std::uint16_t port_ = 0;
    bool tls_ = false, watch_list_ = true, sharding_ = false, aggregated_discovery_ = true;
    std::vector<token_entry> tokens_;
    std::chrono::milliseconds bookmark_every_ = std::chrono::seconds(60);
    std::chrono::milliseconds default_watch_timeout_ = std::chrono::minutes(30);
    std::size_t history_ = 100'000;
    std::uint64_t first_version_ = 1000;
    std::chrono::seconds continue_for_ = std::chrono::minutes(5);
    std::size_t max_body_ = std::size_t(3) << 20;   ///< the real server's
    std::size_t max_object_ = std::size_t(3) << 19; ///< etcd's, 1.5 MiB
};

/// Describes a request, to choose which requests a fault hits.
struct request_info {
    std::string verb; ///< list, watch, get, create, update, patch, delete, deletecollection, discovery, other
    std::string group, version, resource, subresource, name_space, name;
    std::string method, target;
    std::string body;         ///< as received; empty if over 64 KiB, and for all but the last 1,000 requests
    std::uint64_t number = 0; ///< from 1, over all requests
};

/// One planned failure. It hits requests for which `when` holds (default: all): it skips the first `skip` of them, then
/// hits the next `times`. Faults are tried in the order of injection; one request meets at most one, and the delays
/// before it. `error_event` and `end_watch` are for watches and leave other requests alone.
class fault {
public:
    enum class kind {
        refuse,       ///< the server resets the connection before any answer
        reset_after,  ///< RST after `bytes` of the body
        cut_after,    ///< FIN after `bytes` of the body, message incomplete
        stall_after,  ///< nothing more after `bytes` of the body (0: before the header) until the peer leaves
        delay,        ///< the answer waits for `duration`, then goes on as usual
        status,       ///< answers with `code` and a Status (with Retry-After if `retry_after` is set)
        plain_status, ///< the same as text/plain, as the priority-and-fairness filter does
        gone,        ///< list: HTTP 410; watch: HTTP 200 and ERROR event 410 (for its opening: `status` with_code(410))
        error_event, ///< watch: 200, then an ERROR event with `code`
        garbage,     ///< `text` raw instead of an HTTP answer
        garbage_body, ///< 200 with `text` as the body (watch: as a piece of the stream after `bytes`)
        end_watch,    ///< watch: a clean end after `bytes`
    };
    fault(kind k) : what(k) {} // NOLINT: faults are written `inject(fault::kind::refuse)`
    /// Conditions add up: those of several calls of `on` and `verb` must all hold.
    fault& on(std::function<bool(const request_info&)> f);
    fault& verb(std::string v);
    // clang-format off
    fault& after_bytes(std::uint64_t n) { bytes = n; return *this; } ///< of the answer's body, not of time
    fault& for_(std::chrono::milliseconds d) { duration = d; return *this; }
    fault& skipping(std::size_t n) { skip = n; return *this; }
    fault& repeat(std::size_t n) { times = n; return *this; }
    fault& with_code(int c) { code = c; return *this; }
    fault& with_retry_after(int seconds) { retry_after = seconds; return *this; }
    fault& with_text(std::string t) { text = std::move(t); return *this; }
    // clang-format on

    kind what;
    std::function<bool(const request_info&)> when;
    std::uint64_t bytes = 0;
    std::chrono::milliseconds duration{};
    std::size_t skip = 0, times = 1;
    int code = 500;
    int retry_after = -1;
    std::string text;
};

/// The server. It serves /version, /healthz, /livez, /readyz, plain and aggregated discovery, but not OpenAPI;
/// namespaces; core and apps kinds (pods, nodes, services, configmaps, secrets, events, endpoints, serviceaccounts,
/// persistent volumes and claims, replicationcontrollers, podtemplates, resourcequotas, limitranges, deployments,
/// replicasets, statefulsets, daemonsets, controllerrevisions), leases, jobs, cronjobs, horizontalpodautoscalers,
/// ingresses, networkpolicies, poddisruptionbudgets, endpointslices, events.k8s.io, storageclasses, priorityclasses,
/// RBAC kinds, CRDs, and whatever CustomResourceDefinitions are posted.
///
/// Differences from a kube-apiserver: JSON only (no protobuf, no tables, no gzip). No defaulting, validation or pruning
/// beyond metadata, so that unknown fields stay. A CustomResourceDefinition needs no schema; versions of a custom
/// resource differ in `apiVersion` alone. Server-side apply (JSON, no YAML) and strategic merge patches know the common
/// lists by the names of their fields, and take those of custom resources as one value (ports of EndpointSlices are
/// merged like those of services). A strategic merge patch with directives in a list whose key is not known is refused.
/// `/status` takes the status alone, for every kind. propagationPolicy and gracePeriodSeconds are read and do nothing,
/// and there are no warnings. No quotas, no admission (so no evictions). Pods are deleted at once. Owner references are
/// not collected. Core events and events.k8s.io events are separate. A list from a future version is refused at once
/// instead of after 3 s. Bookmarks carry the newest version of the whole server.
///
/// RBAC objects are not in force: `rights` of a token decide; if tokens are demanded, nobody without one is let in,
/// except for health and /version. Only reviews go by them: a SubjectAccessReview of nonResourceAttributes looks for
/// ClusterRoles that are bound to the user (there are none at first), and allows everything to the group
/// system:masters. A TokenReview knows the tokens of the options (`rights` "admin": of that group) and those of
/// TokenRequests, with which nothing else can be done here. Reviews are not listed by discovery.
///
/// It plays two controllers: namespaces that are deleted empty themselves and disappear, and CustomResourceDefinitions
/// are established and served as soon as they are created. Its own namespaces have resource versions 1001 to 1004, the
/// first write 1005. Watches from before 1000 (`first_version`) are answered 410, as after a compaction, and so are
/// lists that need the state of that time (`resourceVersionMatch=Exact`, and pages).
///
/// *Memory*: one JSON text for each object and each state in the history (`history` changes for each resource).
/// *Thread safety*: none; use it on its executor. *Lifetime*: `co_await stop()` before the executor goes.
class api_server {
public:
    explicit api_server(runtime r, api_server_options options = api_server_options());
    ~api_server();
    api_server(const api_server&) = delete;
    api_server& operator=(const api_server&) = delete;

    /// Listens. Throws `error`.
    void start();
    asio::awaitable<void> stop();
    std::string url() const; ///< "http://127.0.0.1:40001"
    std::uint16_t port() const noexcept;
    /// A kubeconfig for it: inline CA, the first token (or an admin client certificate with TLS); further contexts
    /// named after the users of the other tokens, each with the first token of that user.
    std::string kubeconfig() const;
    /// The same for a client in this process: the URL, and, if the server has them, its CA and the first token (or an
    /// admin client certificate with TLS). Call it after `start()`, which chooses the port and makes the certificates.
    kubernetes::client_config config() const;
    const std::string& ca_pem() const noexcept;

    // ---- the machine room
    /// Refuses connections and, if asked, resets open ones; state stays. `start_listening` takes the same port.
    void stop_listening(bool drop_connections = true);
    void start_listening();
    /// Resets every open connection, and with it every open watch, and goes on listening.
    void drop_connections();
    /// For requests that come from now on. An open watch came before: `drop_connections()` cuts it.
    void inject(fault f);
    void clear_faults();
    /// Faults that have not hit as often as planned.
    std::size_t pending_faults() const noexcept;
    /// Forgets history: watches, continue tokens and exact lists of older versions are answered 410. Open watches stay.
    /// As in etcd, the newest version itself remains: to see a token or a watch refused, write something after it was
    /// given and before this call.
    void compact();
    /// Sends a bookmark to every open watch that asked for bookmarks.
    void send_bookmarks();
    /// Ends open watches cleanly.
    void end_watches();
    /// Sends an ERROR event 410 to every open watch and ends it.
    void expire_watches();
    /// `restore` goes back in time, as a restored backup does, to the state and resource versions of an earlier
    /// `checkpoint()`. History is gone, and open watches are reset, as by the new process that a restore needs.
    std::uint64_t checkpoint();
    void restore(std::uint64_t checkpoint);

    // ---- direct writes, as a controller next door would make them. They throw `error` with the status a client would
    // get, or errc::unknown_resource. They follow the rules for clients with two exceptions: specification and status
    // are written together, and no resource version is demanded (one that is given must be current). A namespaced
    // object without a namespace goes to "default".
    boost::json::value create(boost::json::value o);
    boost::json::value update(boost::json::value o);
    boost::json::value merge_patch(std::string_view resource, std::string_view name_space, std::string_view name,
                                   const boost::json::value& patch);
    void remove(std::string_view resource, std::string_view name_space, std::string_view name);
    /// A null value (is_null) when absent. `resource` is "pods" or "deployments.apps".
    boost::json::value get(std::string_view resource, std::string_view name_space, std::string_view name) const;
    std::vector<boost::json::value> list(std::string_view resource, std::string_view name_space = {}) const;
    std::string current_resource_version() const;

    // ---- what was asked
    std::vector<request_info> requests() const; ///< the last 10,000
    void forget_requests();
    std::size_t open_watches() const noexcept;

    struct impl;

private:
    std::shared_ptr<impl> impl_;
};

} // namespace informer::testing
