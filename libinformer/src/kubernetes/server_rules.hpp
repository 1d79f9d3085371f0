// What the server's address decides: TLS or not, and whether it is told who we are. kubectl's rules, for every configuration.
#pragma once

#include <informer/http/url.hpp>
#include <informer/kubernetes/config.hpp>

#include <string>

namespace informer::kubernetes::detail {

/// The warning about a server whose certificate is not looked at.
std::string not_verified(const http::endpoint& to);

/// An address without a scheme gets https where `tls`: what has TLS material is meant to be TLS.
std::string with_scheme(std::string server, bool tls);

/// Who we are is said over TLS alone; loopback does no harm, but by way of a proxy it is no loopback of ours. What must not be sent
/// is taken out, with a warning.
void guard_credentials(client_config& c, const http::endpoint& to);

/// The rules applied to what anybody may have put together. An address that is none is left to whoever parses it.
client_config settled(client_config c);

} // namespace informer::kubernetes::detail
