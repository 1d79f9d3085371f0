// TLS on a socket, without a copy between the two; or inside another TLS stream.
#pragma once

#include "http/transport.hpp"

#include <openssl/ssl.h>

#include <memory>
#include <optional>

namespace informer::http::detail {

/// OpenSSL reads and writes the socket by itself; this class waits when it cannot.
///
/// Asio's stream keeps a buffer and a pair of OpenSSL's BIOs between the socket and the records: two copies of every
/// byte, and a turn of the executor for each record of 16 KiB. Here a read takes all records that are there, as far as
/// they fit.
///
/// One read and one write at a time, which may overlap. *Cancellation*: terminal, as for `transport`.
class tls_stream {
public:
    tls_stream(tcp::socket s, SSL_CTX* context);
    /// Sends its records through `carrier`, which has finished its handshake, is used by nobody else from now on, and
    /// outlives this.
    tls_stream(tls_stream& carrier, SSL_CTX* context);
    tls_stream(const tls_stream&) = delete;
    tls_stream& operator=(const tls_stream&) = delete;

    enum class role { client, server };
    asio::awaitable<void> handshake(role r, error_code& ec);
    /// `ec`: eof if the peer announced the end, stream_truncated if it only closed the connection.
    asio::awaitable<std::size_t> read_some(asio::mutable_buffer to, error_code& ec);
    asio::awaitable<std::size_t> write_some(asio::const_buffer from, error_code& ec);
    /// The beginning of what the next read would return, at least one byte; it stays there.
    asio::awaitable<std::size_t> look(asio::mutable_buffer to, error_code& ec);

    /// Whether something was received and not read: bytes or an alert.
    bool pending() const noexcept;
    /// Whether the next read will report the end of the stream, or an error.
    bool ended() const noexcept { return read_late_.failed(); }
    tcp::socket& socket() noexcept { return *bottom().socket_; }
    SSL* handle() const noexcept { return ssl_.get(); }

private:
    struct on_socket; ///< the functions that OpenSSL calls
    struct on_carrier;
    struct free_ssl {
        void operator()(SSL* s) const noexcept { SSL_free(s); }
    };
    enum class need { nothing, to_read, to_write }; ///< of the socket

    void begin(SSL_CTX* context, const BIO_METHOD* below);
    tls_stream& bottom() noexcept { return carrier_ ? carrier_->bottom() : *this; }

    need after(int result, error_code& ec) noexcept;
    need read_now(asio::mutable_buffer to, std::size_t& n, error_code& ec) noexcept;
    asio::awaitable<void> wait(need n, error_code& ec);

    std::optional<tcp::socket> socket_; ///< unless there is a carrier
    tls_stream* carrier_ = nullptr;
    std::unique_ptr<SSL, free_ssl> ssl_;
    error_code trouble_;   ///< of the layer below, in OpenSSL's last call
    error_code read_late_; ///< what came behind the bytes that were handed out
    bool drained_ = false; ///< the socket has given all that it had
};

} // namespace informer::http::detail
