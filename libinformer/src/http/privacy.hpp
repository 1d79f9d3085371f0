// Whether others can read what is sent.
#pragma once

#include <informer/http/proxy.hpp>
#include <informer/http/url.hpp>

#include <string>

namespace informer::http::detail {

/// Why credentials must not be sent to this server ("http://10.0.0.1 by way of the proxy http://p:1 is not TLS"); empty
/// if they may be: over TLS, or on loopback. A proxy reads everything that is not TLS with the server, even if it is
/// sent to the proxy by TLS; and a loopback address behind a proxy is the proxy's own.
inline std::string why_not_private(const endpoint& to, const proxy& by_way_of) {
    if (to.tls || (to.is_loopback() && !by_way_of)) return {};
    if (by_way_of.speaks == proxy::protocol::https)
        return to.url() + " is TLS to the proxy " + by_way_of.url() + " only";
    return to.url() + (by_way_of ? " by way of the proxy " + by_way_of.url() : std::string()) + " is not TLS";
}

} // namespace informer::http::detail
