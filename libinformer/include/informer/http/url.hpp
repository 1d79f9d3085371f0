// Where an HTTP server is.
#pragma once

#include <informer/error.hpp>

#include <cstdint>
#include <string>
#include <string_view>

namespace informer::http {

/// scheme://host[:port][/prefix] of a server. IPv6 literals without brackets in `host`.
class endpoint {
public:
    endpoint() = default;
    /// Parses "https://10.0.0.1:6443/prefix", "http://[::1]:80", "localhost:8080" (plain). The default port is the
    /// scheme's. `f`: errc::bad_configuration with the reason.
    static endpoint parse(std::string_view url, failure& f);

    bool tls = false;
    std::string host;
    std::uint16_t port = 0;
    std::string prefix; ///< "" or "/a/b", no slash at the end
    std::string url() const;
    /// Value of the Host header: port left out when it is the scheme's.
    std::string host_header() const;
    bool host_is_ip() const;
    /// "localhost" or a loopback address: nobody else can read what is sent there. Names are not looked up.
    bool is_loopback() const;
};

/// Percent-encodes a query value or path segment (unreserved characters stay).
std::string percent_encode(std::string_view s);
std::string percent_decode(std::string_view s);

} // namespace informer::http
