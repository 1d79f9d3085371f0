// libinformer: what a process shows about itself: /metrics, /healthz, /readyz.
#pragma once

#include <informer/error.hpp>
#include <informer/http/server/request_filter.hpp>
#include <informer/http/server/server.hpp>
#include <informer/runtime.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace informer::serving {

class prometheus_metrics;

class endpoint_options {
public:
    endpoint_options() {}
    /// An IP address; default, "": all addresses, IPv6 and IPv4, since kubelet and Prometheus come from outside the pod.
    // clang-format off
    endpoint_options& address(std::string a) { address_ = std::move(a); return *this; }
    endpoint_options& port(std::uint16_t p) { port_ = p; return *this; } ///< 0: any
    /// Files that are named in `t.files_` may be rotated: new connections get the new pair.
    endpoint_options& tls(http::server_tls t) { tls_ = std::move(t); use_tls_ = true; return *this; }
    /// See `http::server_options`.
    endpoint_options& patience(std::chrono::milliseconds d) { patience_ = d; return *this; }
    endpoint_options& max_connections(std::size_t n) { max_connections_ = n; return *this; }
    // clang-format on

    std::string address_;
    std::uint16_t port_ = 8080;
    http::server_tls tls_;
    bool use_tls_ = false;
    std::chrono::milliseconds patience_{30'000};
    std::size_t max_connections_ = 100;
};

/// Reports whether all is well: empty for yes, else the reason in a sentence (it is shown to whoever asks: no secrets).
/// Called on the end point's executor for every request; it should look at state, not go and find out. It may change
/// the end point, and so may a page.
using health_check = std::function<std::string()>;

/// A small HTTP server for kubelet's probes and Prometheus.
///
/// `/healthz` (is the process alive?) and `/readyz` (should it get traffic?) answer 200 "ok" while all their checks
/// pass, else 503. As with a kube-apiserver, `?verbose` lists the checks, `?exclude=name` leaves one out, and
/// `/readyz/name` asks one alone. Without any check both are "ok". `/livez` is another name of `/healthz`.
///
/// *Thread safety*: none; use it on the runtime's executor. *Lifetime*: destroying it closes everything; `stop()` also
/// waits. It leaves nothing in the `io_context`.
class http_endpoint {
public:
    explicit http_endpoint(runtime r, endpoint_options options = endpoint_options());
    ~http_endpoint();
    http_endpoint(const http_endpoint&) = delete;
    http_endpoint& operator=(const http_endpoint&) = delete;

    /// A second check of the same name replaces the first.
    http_endpoint& healthz(std::string name, health_check check);
    http_endpoint& readyz(std::string name, health_check check);
    /// Serves `/metrics`; without it that is 404.
    http_endpoint& metrics(std::shared_ptr<const prometheus_metrics> m);
    /// A page of your own for GET: its media type and its text.
    http_endpoint& page(std::string path, std::string content_type, std::function<std::string()> text);

    /// Asks `f` before `/metrics` and each page of yours, except those in `open`: `kubernetes::make_auth_filter`
    /// protects them as controller-runtime does. `/healthz`, `/livez` and `/readyz` stay open, since kubelet has no
    /// token. A second filter replaces the first. Without `endpoint_options::tls` a token crosses the network in
    /// clear, which `listen()` logs as a warning: leave TLS out only where something else encrypts, as a service mesh
    /// does.
    http_endpoint& filter(http::request_filter f, std::vector<std::string> open = {});

    /// Opens the port. *Errors*: bad_configuration (a port that is taken, an address that is not ours, a certificate or
    /// key that cannot be used: its file is named).
    void listen(failure& f);
    std::uint16_t port() const noexcept;
    asio::awaitable<void> stop();

private:
    struct impl;
    std::shared_ptr<impl> impl_;
};

} // namespace informer::serving
