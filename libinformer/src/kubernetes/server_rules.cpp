#include "kubernetes/server_rules.hpp"

#include "http/privacy.hpp"

#include <utility>

namespace informer::kubernetes::detail {

std::string not_verified(const http::endpoint& to) {
    return to.url() + ": the server's certificate is not verified";
}

std::string with_scheme(std::string server, bool tls) {
    if (!server.empty() && server.find("://") == std::string::npos) server.insert(0, tls ? "https://" : "http://");
    return server;
}

void guard_credentials(client_config& c, const http::endpoint& to) {
    const auto& who = c.credentials;
    const bool some = !who.token.empty() || !who.token_file.empty() || !who.username.empty() ||
                      !who.impersonate_user.empty() || !who.exec.command.empty();
    const std::string why_not = http::detail::why_not_private(to, c.proxy);
    if (why_not.empty() || !some) return;
    c.credentials = credentials();
    c.warnings.push_back(why_not + ": credentials are not sent");
}

client_config settled(client_config c) {
    const bool tls = !c.tls.ca_pem_.empty() || !c.tls.certificate_pem_.empty() || c.tls.insecure_ ||
                     !c.tls_files.ca.empty() || !c.tls_files.certificate.empty();
    c.server = with_scheme(std::move(c.server), tls);
    failure bad;
    const auto to = http::endpoint::parse(c.server, bad);
    if (!bad) guard_credentials(c, to);
    return c;
}

} // namespace informer::kubernetes::detail
