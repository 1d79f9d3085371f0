// A small HTTP/1.1 server for `testing/` and `serving/`: requests with bodies in memory, responses whole or streamed,
// and the misbehaviour that fault injection needs.
#pragma once

#include <informer/error.hpp>
#include <informer/http/tls_files.hpp>
#include <informer/runtime.hpp>

#include <boost/asio/awaitable.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace informer::http {

/// What a TLS server needs, as PEM text or in files.
class server_tls {
public:
    server_tls() {}
    std::string certificate_pem_, key_pem_; ///< server certificate chain and key
    std::string client_ca_pem_;             ///< when set, client certificates are asked for (not required)
    /// Each file that is named here takes the place of one of these texts (`ca`: of `client_ca_pem_`). `listen()` reads
    /// them for the first time. Later they are read where a connection is accepted; no timer runs for that. Open
    /// connections keep what they began with.
    tls_files files_;
};

class server_options {
public:
    server_options() {}
    /// An IP address; "": all addresses, IPv6 and IPv4.
    // clang-format off
    server_options& address(std::string a) { address_ = std::move(a); return *this; }
    server_options& port(std::uint16_t p) { port_ = p; return *this; } ///< 0: any
    server_options& tls(server_tls t) { tls_ = std::move(t); use_tls_ = true; return *this; }
    server_options& max_body(std::size_t n) { max_body_ = n; return *this; }
    /// How long a peer may take for its TLS handshake, for its next request as a whole (idle time included), and to read
    /// a piece of an answer; then its connection is closed. Zero: for ever.
    server_options& patience(std::chrono::milliseconds d) { patience_ = d; return *this; }
    /// A connection beyond these takes the place of the one that has waited the longest for a request; if all are being
    /// answered, the new one is reset at once. 0: any number.
    server_options& max_connections(std::size_t n) { max_connections_ = n; return *this; }
    // clang-format on

    std::string address_ = "127.0.0.1";
    std::uint16_t port_ = 0;
    server_tls tls_;
    bool use_tls_ = false;
    std::size_t max_body_ = std::size_t(128) << 20;
    std::chrono::milliseconds patience_{0};
    std::size_t max_connections_ = 0;
};

struct server_request {
    std::string method, target; ///< target as sent
    std::string path;           ///< as sent, without origin and query; decoding the segments is up to the handler
    std::vector<std::pair<std::string, std::string>> query; ///< decoded
    std::vector<std::pair<std::string, std::string>> headers;
    std::string body;
    std::string peer;               ///< "127.0.0.1:53211"
    std::string client_common_name; ///< of a verified client certificate
    std::vector<std::string> client_organizations;
    std::uint64_t connection = 0; ///< number of the connection, from 1

    std::string_view header(std::string_view name) const noexcept; ///< case-insensitive
    std::string_view query_value(std::string_view name) const noexcept;
    bool has_query(std::string_view name) const noexcept;
};

namespace detail {
class server_exchange;
}

/// The answer of a handler. Use it in one coroutine at a time; it has no effect once the handler has returned. Use
/// exactly one of `send`, (`begin` … `write` … `end`), `reset`, `close`; a handler that returns without any is answered
/// 500. After a stream without its `end`, and after raw bytes, the connection ends.
class server_response {
public:
    explicit server_response(std::shared_ptr<detail::server_exchange> x) noexcept;
    /// A whole answer with Content-Length. False when the peer is gone.
    asio::awaitable<bool> send(int status, std::string content_type, std::string body,
                               std::vector<std::pair<std::string, std::string>> headers);
    asio::awaitable<bool> send(int status, std::string content_type, std::string body);
    /// Begins a chunked answer.
    asio::awaitable<bool> begin(int status, std::string content_type);
    /// One chunk, flushed. Suspends while the peer does not read. False when the peer is gone.
    asio::awaitable<bool> write(std::string bytes);
    asio::awaitable<bool> end();
    /// Writes bytes to the wire without any HTTP framing (garbage, half responses).
    asio::awaitable<bool> write_raw(std::string bytes);
    /// Makes the connection fail after `n` more body bytes of this answer (chunked or not): cut (FIN) or reset (RST).
    /// An answer that ends before that is left alone.
    void cut_after(std::uint64_t n, bool reset);
    /// TCP reset now (SO_LINGER 0).
    void reset() noexcept;
    /// Plain close now.
    void close() noexcept;
    /// True once the peer closed or the server stops. This is noticed also while a streamed answer waits.
    bool gone() const noexcept;
    /// Suspends until the peer is gone or the server stops (for handlers that stall).
    asio::awaitable<void> wait_gone();
    /// Calls back once when the peer is gone (to wake a waiting watch). Exceptions from `f` are logged.
    void on_gone(std::function<void()> f);

private:
    std::shared_ptr<detail::server_exchange> exchange_;
};

using server_handler =
    std::function<asio::awaitable<void>(std::shared_ptr<server_request>, std::shared_ptr<server_response>)>;

/// Listens and serves on the runtime's executor, with two coroutines per connection. Supports keep-alive, chunked
/// requests and `Expect: 100-continue`; refuses headers over 64 KiB and bodies over `max_body`. If peers may not mean
/// well, set `patience` and `max_connections`: without them there is no limit. A handler's exception is logged and
/// answered 500; `stop()` cancels handlers (terminal).
///
/// *Thread safety*: none; use it on its executor. *Cancellation*: `stop()` ends everything; it is idempotent.
class server {
public:
    server(runtime r, server_options options, server_handler handler);
    ~server(); ///< stops
    server(const server&) = delete;
    server& operator=(const server&) = delete;

    /// Opens the socket. After `stop_listening()` it takes the same port again. *Errors*: bad_configuration (a port that
    /// is taken, an address that is not ours, a certificate or key that cannot be used), stopped.
    void listen(failure& f);
    std::uint16_t port() const noexcept;
    /// Refuses new connections (closes the listening socket) and, if asked, resets the open ones. State stays.
    void stop_listening(bool drop_connections);
    bool listening() const noexcept;
    std::size_t connections() const noexcept;
    /// What happens to new connections: serve, or accept and reset at once, or accept and never answer. For faults.
    enum class accept_mode { serve, reset, stall };
    void on_accept(accept_mode m);
    /// Tells all handlers that their peers are gone, closes all sockets, and waits until every coroutine has ended.
    /// Handlers are told and sockets are closed by the call itself, not only when it is awaited. Final: a stopped
    /// server does not listen again. A handler must not await it.
    asio::awaitable<void> stop();

private:
    struct impl;
    std::shared_ptr<impl> impl_;
};

} // namespace informer::http
