// How a host is written before a port.
#pragma once

#include <string>

namespace informer::http::detail {

/// Puts IPv6 literals in brackets.
inline std::string in_url(const std::string& host) {
    return host.find(':') == std::string::npos ? host : "[" + host + "]";
}

} // namespace informer::http::detail
