// A byte stream to a peer, plain or TLS, behind one interface, so that the code above is compiled once.
#pragma once

#include <informer/error.hpp>
#include <informer/http/client.hpp>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace informer::http::detail {

using asio::ip::tcp;

/// The completion token of all waits here: errors as values.
inline constexpr auto as_result = asio::as_tuple(asio::use_awaitable);

/// Up to this size, pieces that are sent together are copied into one buffer: the largest record of TLS.
inline constexpr std::size_t one_packet = std::size_t(16) << 10;

/// Who the other side is, if it showed a certificate that was verified.
struct peer_identity {
    std::string common_name;
    std::vector<std::string> organizations;
};

/// One connection. At most one read and one write at a time (they may overlap each other).
///
/// *Cancellation*: terminal; the stream is unusable afterwards, as after any error.
class transport {
public:
    virtual ~transport() = default;
    /// TLS handshake; a plain stream has none. On failure `problem()` says which check failed, if any.
    virtual asio::awaitable<void> handshake(error_code& ec) = 0;
    virtual asio::awaitable<std::size_t> read_some(asio::mutable_buffer to, error_code& ec) = 0;
    virtual asio::awaitable<std::size_t> write_some(asio::const_buffer from, error_code& ec) = 0;
    /// The beginning of what the next read would return, at least one byte; it stays there.
    virtual asio::awaitable<std::size_t> look(asio::mutable_buffer to, error_code& ec) = 0;
    /// Whether something was received that no read has taken.
    virtual bool pending() const noexcept = 0;
    /// Whether the end came together with the bytes that were read last; the next read will report it.
    virtual bool ended() const noexcept = 0;
    virtual const std::string& problem() const noexcept = 0;
    virtual peer_identity peer() const = 0;
    virtual tcp::socket& socket() noexcept = 0;

    /// Closes the socket at once; pending operations end with operation_aborted.
    void close() noexcept;
    /// Sends no more bytes; those on their way still arrive.
    void finish_sending() noexcept;
    /// Closes with a TCP reset.
    void reset() noexcept;
    /// Whether an idle connection may be used again: open, and the peer has neither closed it nor sent anything.
    bool quiet() noexcept;
};

/// OpenSSL's context with our settings. Shared by the connections made with it.
class tls_context;

/// `f`: errc::bad_configuration, naming the material that cannot be used; never its text.
std::shared_ptr<tls_context> make_client_context(const tls_options& o, failure& f);
/// `o.ca_pem_`: who signs client certificates; if set, these are asked for (not required).
std::shared_ptr<tls_context> make_server_context(const tls_options& o, failure& f);
/// A warning about those certificates of the CA bundle that a client's context leaves out because they cannot be
/// parsed; empty if there are none, or no others (which is an error of `make_client_context`).
std::string left_out_authorities(const tls_options& o);

std::shared_ptr<transport> plain_transport(tcp::socket s);
/// `name`: what the certificate must be valid for, a host name (then also sent as SNI) or an address.
/// `over`: a plain stream, which cannot be used afterwards, or a TLS stream to a proxy that passes on what is sent;
/// both made by functions of this file.
std::shared_ptr<transport> tls_client_transport(std::shared_ptr<transport> over, std::shared_ptr<tls_context> c,
                                                std::string name);
std::shared_ptr<transport> tls_server_transport(tcp::socket s, std::shared_ptr<tls_context> c);

/// Whether the error comes from the TLS layer (an alert of the peer, a broken record), not from the network.
bool is_tls_error(const error_code& ec) noexcept;
/// Whether the error is an alert that the peer sent.
bool is_tls_alert(const error_code& ec) noexcept;

/// "10.0.0.1:443", "[fd00::1]:443"; an IPv4-mapped IPv6 address is shown in the former way.
std::string shown(const tcp::endpoint& e);

/// No-delay always; keep-alive probes so that a dead peer is noticed after a minute.
void tune(tcp::socket& s) noexcept;

} // namespace informer::http::detail
