// The client side of HTTP/1.1: keep-alive connections, plain or TLS, responses read as streams.
#pragma once

#include <informer/error.hpp>
#include <informer/http/proxy.hpp>
#include <informer/http/tls_files.hpp>
#include <informer/http/url.hpp>
#include <informer/runtime.hpp>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/buffer.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace informer::http {

/// What a TLS client needs. All material is PEM text. Verification is on unless `insecure`.
class tls_options {
public:
    tls_options() {}
    // clang-format off
    tls_options& ca(std::string pem) { ca_pem_ = std::move(pem); return *this; }
    // clang-format on
    tls_options& certificate(std::string pem, std::string key_pem) {
        certificate_pem_ = std::move(pem);
        key_pem_ = std::move(key_pem);
        return *this;
    }
    /// Name to check and to send as SNI instead of the host's (kubeconfig: tls-server-name).
    // clang-format off
    tls_options& server_name(std::string n) { server_name_ = std::move(n); return *this; }
    tls_options& insecure(bool on = true) { insecure_ = on; return *this; }
    // clang-format on

    /// Empty: the system's roots. As in Go, a certificate that cannot be parsed is left out (the clients of Kubernetes
    /// and etcd warn about it); if nothing is left, that is an error. What is no certificate is skipped.
    std::string ca_pem_;
    std::string certificate_pem_, key_pem_;
    std::string server_name_;
    bool insecure_ = false;
    tls_files from_; ///< the files that the texts were read from, if any: errors name them
};

/// Time-outs by phase, in real time, each with an `errc` of its own. Zero: none. `connect` is for all addresses of a
/// name together, and again for a proxy to make its tunnel, which includes its own connect. `tls` is for each
/// handshake: the one with an https proxy, and the one with the server behind it. `header` begins when the request is
/// written. `body_idle` bounds each wait for more of the response body, and for the peer to take more of the request.
class timeouts {
public:
    timeouts() {}
    // clang-format off
    timeouts& resolve(std::chrono::milliseconds d) { resolve_ = d; return *this; }
    timeouts& connect(std::chrono::milliseconds d) { connect_ = d; return *this; }
    timeouts& tls(std::chrono::milliseconds d) { tls_ = d; return *this; }
    timeouts& header(std::chrono::milliseconds d) { header_ = d; return *this; }
    timeouts& body_idle(std::chrono::milliseconds d) { body_idle_ = d; return *this; }
    timeouts& request(std::chrono::milliseconds d) { request_ = d; return *this; }
    // clang-format on

    std::chrono::milliseconds resolve_ = std::chrono::seconds(10);
    std::chrono::milliseconds connect_ = std::chrono::seconds(30);
    std::chrono::milliseconds tls_ = std::chrono::seconds(10);
    std::chrono::milliseconds header_ = std::chrono::seconds(60);
    std::chrono::milliseconds body_idle_ = std::chrono::seconds(60);
    std::chrono::milliseconds request_ = std::chrono::milliseconds(0); ///< whole request, body included
};

/// A request. `target` is path and query; the endpoint's prefix is put before it.
class request {
public:
    request() {}
    request(std::string method, std::string target) : method_(std::move(method)), target_(std::move(target)) {}
    request& header(std::string name, std::string value) {
        headers_.emplace_back(std::move(name), std::move(value));
        return *this;
    }
    request& body(std::string text, std::string content_type) {
        body_ = std::move(text);
        headers_.emplace_back("Content-Type", std::move(content_type));
        return *this;
    }
    /// Time-outs for this request instead of the client's.
    // clang-format off
    request& time(http::timeouts t) { timeouts_ = t; return *this; }
    // clang-format on

    std::string method_ = "GET", target_ = "/";
    std::vector<std::pair<std::string, std::string>> headers_;
    std::string body_;
    std::optional<http::timeouts> timeouts_;
};

namespace detail {
class exchange;
}

/// Parts of a body, in the buffers where they were received.
using body_parts = std::vector<std::string_view>;

/// The answer: its header is complete, its body is read piece by piece.
///
/// *Lifetime*: movable. Destroying it before the end of the body closes the connection; after the end the connection
/// goes back to the client's pool. May outlive the client. *Executor*: the client's.
class response {
public:
    response() noexcept;
    explicit response(std::shared_ptr<detail::exchange> x) noexcept;
    response(response&&) noexcept;
    response& operator=(response&&) noexcept;
    ~response();

    int status() const noexcept;
    /// Value of a header, case-insensitive name; empty when absent.
    std::string_view header(std::string_view name) const noexcept;
    /// All values of a repeated header ("Warning").
    std::vector<std::string> headers(std::string_view name) const;
    /// Reads at most `buffer.size()` bytes of the decoded body (chunked and gzip are undone); 0 at its end or on error.
    /// No limit on the total. Bytes received before an error are handed out first.
    /// *Cancellation*: terminal and partial; the connection is closed. *Errors*: body_idle_timeout, request_timeout,
    /// connection_lost (the message was not complete), bad_response, cancelled.
    asio::awaitable<std::size_t> read_some(asio::mutable_buffer buffer, failure& f);
    /// The same without a copy: waits until at least one byte is available, and hands out all that are. Returns the
    /// size of the parts; 0 at the end or on error. *Lifetime*: the parts are valid until the next call on this
    /// response.
    asio::awaitable<std::size_t> receive(body_parts& parts, failure& f);
    /// The rest of the body as one string, at most `limit` bytes (then errc::too_large).
    asio::awaitable<std::string> read_all(std::size_t limit, failure& f);
    /// The rest of the body must come within this time from now, whatever the request's own limit; else
    /// request_timeout.
    void finish_within(std::chrono::milliseconds rest);
    /// Closes the connection now.
    void close() noexcept;

private:
    std::shared_ptr<detail::exchange> exchange_;
};

class client_options {
public:
    client_options() {}
    // clang-format off
    client_options& tls(tls_options t) { tls_ = std::move(t); return *this; }
    client_options& time(http::timeouts t) { timeouts_ = t; return *this; }
    client_options& user_agent(std::string s) { user_agent_ = std::move(s); return *this; }
    /// The proxy through which the server is reached; default: none. The process's environment is not read here.
    client_options& proxy(http::proxy p) { proxy_ = std::move(p); return *this; }
    /// Maximum number of idle connections kept.
    client_options& max_idle(std::size_t n) { max_idle_ = n; return *this; }
    /// An idle connection that is older is closed when the next request looks for one.
    client_options& idle_for(std::chrono::seconds d) { idle_for_ = d; return *this; }
    /// Asks for gzip'd responses; default off (on loopback and in clusters it costs more than it saves).
    client_options& accept_gzip(bool on) { accept_gzip_ = on; return *this; }
    // clang-format on

    tls_options tls_;
    http::timeouts timeouts_;
    http::proxy proxy_;
    std::string user_agent_ = "libinformer";
    std::size_t max_idle_ = 8;
    std::chrono::seconds idle_for_ = std::chrono::seconds(90);
    bool accept_gzip_ = false;
};

/// Sends requests to one endpoint over a pool of keep-alive connections.
///
/// The addresses of a name are tried in the resolver's order, a quarter of a second apart (RFC 8305); the first that
/// answers is used. A GET that failed because the peer had closed an idle connection is sent again once on a new
/// connection; nothing else is retried here. If a connection that was used before ends without a byte of the answer, in
/// time or not, the idle connections are closed, too: whatever lies between may have forgotten them all. A name is
/// looked up anew for each connection, but only once for all connections that wait for it at the same time. That is done
/// by the system's resolver (getaddrinfo, which blocks), on a thread of its own: a name that does not answer holds up
/// neither `io_context::run()` nor other clients. Literal addresses and "localhost" need none.
///
/// With a proxy, the proxy's name is the one that is resolved here. What the proxy answers and refuses before there is
/// a tunnel is errc::connect_failed, with its status or the failed check in the message. This includes TLS with an
/// https proxy (whose certificate is verified by other roots than the server's: http/proxy.hpp), and a 407 to a request
/// by its whole URL. It is connection_refused if the proxy says that the server refuses.
///
/// Metrics: rest_client_requests_total (by code, method, host), rest_client_request_duration_seconds (until the header
/// has come) and rest_client_request_size_bytes. TLS: at least 1.2, SNI for names, IP SAN for addresses, client
/// certificates; a failed check is errc::tls_failed with the check's name in the message. TCP keep-alive and no-delay
/// are set.
///
/// *Thread safety*: none; use it on the runtime's executor. *Lifetime*: destroying it closes idle connections; running
/// exchanges go on. When idle it leaves no work in the io_context except the pool's sockets, which need no operation.
class client {
public:
    /// `f`: errc::bad_configuration when TLS material cannot be used (the message says which, and OpenSSL's reason, but
    /// never key text).
    client(runtime r, endpoint to, client_options options, failure& f);
    ~client();
    client(const client&) = delete;
    client& operator=(const client&) = delete;

    const endpoint& to() const noexcept;
    /// Sends and waits for the response's header. Any HTTP status is a success here. *Cancellation*: terminal, at once;
    /// the socket is closed. *Errors*: one per phase, see `timeouts`; bad_configuration for what HTTP cannot carry (a
    /// line break in a header).
    asio::awaitable<response> send(request r, failure& f);
    /// Replaces the client certificate or CA for new connections and drops idle ones.
    void set_tls(tls_options t, failure& f);
    /// Closes all idle connections.
    void close_idle() noexcept;

    struct counters {
        std::uint64_t connections_opened = 0, requests = 0, bytes_received = 0, bytes_sent = 0;
        std::size_t idle = 0;
    };
    counters figures() const noexcept;

private:
    struct impl;
    std::shared_ptr<impl> impl_;
};

} // namespace informer::http
