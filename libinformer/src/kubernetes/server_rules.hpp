// What the server's address decides: whether TLS is used, and whether credentials are sent. One rule for every
// configuration, wherever it comes from. The scheme is that of client-go's rest.Config. kubectl differs in two ways: in
// a kubeconfig it takes a server without a scheme for http, whatever CA or client certificate there is (it asks before
// it reads them, and then drops them with the credentials); and without TLS it sends no credentials to loopback either.
#pragma once

#include <informer/http/url.hpp>
#include <informer/kubernetes/config.hpp>

#include <string>

namespace informer::kubernetes::detail {

/// The warning about a server whose certificate is not verified.
std::string not_verified(const http::endpoint& to);

/// Adds a scheme to an address without one: https if `tls`, because a configuration with TLS material is meant to use
/// TLS, else http.
std::string with_scheme(std::string server, bool tls);

/// Credentials are sent only over TLS, or to loopback; but the loopback behind a proxy is the proxy's, not ours.
/// Credentials that must not be sent are removed, with a warning.
void guard_credentials(client_config& c, const http::endpoint& to);

/// Applies the rules to a configuration, whoever made it. An address that is none is left to whoever parses it.
client_config settled(client_config c);

} // namespace informer::kubernetes::detail
