// Turns a connection to a proxy into one to the server behind it.
#pragma once

#include "http/phase_timer.hpp"
#include "http/transport.hpp"

#include <informer/http/proxy.hpp>
#include <informer/http/url.hpp>

#include <chrono>
#include <memory>
#include <string>
#include <string_view>

namespace informer::http::detail {

/// The way of a client's connections through its proxy.
class route {
public:
    /// `f`: errc::bad_configuration if the proxy has no usable host or port, if the server's host cannot be sent to the
    /// proxy, or if the proxy's roots cannot be used.
    route(proxy p, endpoint to, std::string_view user_agent, failure& f);

    proxy through;
    endpoint to;
    endpoint hop;                     ///< where we connect
    std::shared_ptr<tls_context> tls; ///< for the hop, if `hop.tls`
    bool tunnels = false;             ///< false: each request is sent with its whole URL
    std::string authorization;        ///< Proxy-Authorization's value; empty: none
    std::string connect;              ///< the request to an HTTP proxy for a tunnel
};

/// Turns the connection to the proxy into one to the server. `f` on failure; then the stream cannot be used. `limit` is
/// for all of it (errc::connect_timeout). Reads nothing that the server sends. Cancellation: terminal, at once.
asio::awaitable<void> open_tunnel(std::shared_ptr<transport> stream, std::shared_ptr<const route> way,
                                  std::chrono::milliseconds limit, std::shared_ptr<phase_timer> timer, failure& f);

} // namespace informer::http::detail
