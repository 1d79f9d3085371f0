// TLS on a socket, without a copy between the two; or within another TLS.
#pragma once

#include "http/transport.hpp"

#include <openssl/ssl.h>

#include <memory>
#include <optional>

namespace informer::http::detail {

/// OpenSSL that reads and writes the socket by itself; we wait where it cannot.
///
/// Asio's stream keeps a buffer and a pair of OpenSSL's between the socket and the records: two copies of every byte, and
/// a turn of the executor for each record of 16 KiB. Here a read takes all records that are there, as far as they fit.
///
/// One read and one write at a time, which may overlap. *Cancellation*: terminal, as that of `transport`.
class tls_stream {
public:
    tls_stream(tcp::socket s, SSL_CTX* context);
    /// Its records are what `carrier` carries, which has shaken hands, is used by nobody else from now on, and outlives this.
    tls_stream(tls_stream& carrier, SSL_CTX* context);
    tls_stream(const tls_stream&) = delete;
    tls_stream& operator=(const tls_stream&) = delete;

    enum class role { client, server };
    asio::awaitable<void> handshake(role r, error_code& ec);
    /// eof where the peer said that it ends, stream_truncated where it only closed the connection.
    asio::awaitable<std::size_t> read_some(asio::mutable_buffer to, error_code& ec);
    asio::awaitable<std::size_t> write_some(asio::const_buffer from, error_code& ec);
    /// What the next read would begin with, at least a byte.
    asio::awaitable<std::size_t> look(asio::mutable_buffer to, error_code& ec);

    /// Whether something was received and not read: an alert as well as bytes.
    bool pending() const noexcept;
    /// What the next read will say is that it is over.
    bool ended() const noexcept { return read_late_.failed(); }
    tcp::socket& socket() noexcept { return *bottom().socket_; }
    SSL* handle() const noexcept { return ssl_.get(); }

private:
    struct on_socket; ///< what OpenSSL calls
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
    error_code trouble_;   ///< of what is below, in OpenSSL's last call
    error_code read_late_; ///< what ended the bytes that were handed out
    bool drained_ = false; ///< the socket gave all that it had
};

} // namespace informer::http::detail
