// Proxies from the environment: the rules of Go's http.ProxyFromEnvironment, which client-go follows.
#pragma once

#include <informer/error.hpp>
#include <informer/http/proxy.hpp>
#include <informer/http/url.hpp>

#include <functional>
#include <string>
#include <string_view>

namespace informer::kubernetes::detail {

/// Whether NO_PROXY keeps this server from being reached by way of a proxy.
bool exempt(const http::endpoint& to, std::string_view no_proxy);

/// The proxy for this server, if any. `variable`: getenv, with "" for a variable that is not set. `f`:
/// errc::bad_configuration, naming the variable that cannot be used.
http::proxy proxy_of_environment(const http::endpoint& to, const std::function<std::string(const char*)>& variable,
                                 failure& f);

} // namespace informer::kubernetes::detail
