// How a host is written before a port.
#pragma once

#include <string>

namespace informer::http::detail {

/// IPv6 literals stand in brackets there.
inline std::string in_url(const std::string& host) {
    return host.find(':') == std::string::npos ? host : "[" + host + "]";
}

} // namespace informer::http::detail
