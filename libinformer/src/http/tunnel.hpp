// From a connection to a proxy to one to the server behind it.
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
    /// `f`: errc::bad_configuration where the proxy or the server cannot be named to the other, or its roots cannot be used.
    route(proxy p, endpoint to, std::string_view user_agent, failure& f);

    proxy through;
    endpoint to;
    endpoint hop;                     ///< where we connect
    std::shared_ptr<tls_context> tls; ///< with the hop, if its `tls`
    bool tunnels = false;             ///< else each request asks by its whole URL
    std::string authorization;        ///< Proxy-Authorization's value; empty: none
    std::string connect;              ///< the request for a tunnel, of an HTTP proxy
};

/// Makes the connection to the proxy one to the server. `f` on failure; then the stream is of no use. `limit` is for all of it
/// (errc::connect_timeout). Reads nothing of what the server says. Cancellation: terminal, at once.
asio::awaitable<void> open_tunnel(std::shared_ptr<transport> stream, std::shared_ptr<const route> way,
                                  std::chrono::milliseconds limit, std::shared_ptr<phase_timer> timer, failure& f);

} // namespace informer::http::detail
