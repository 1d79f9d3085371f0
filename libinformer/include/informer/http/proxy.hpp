// The proxy between an HTTP client and its server.
#pragma once

#include <informer/error.hpp>

#include <cstdint>
#include <string>
#include <string_view>

namespace informer::http {

/// The proxy that relays between a client and its server. Default-constructed: none, the server is reached directly.
///
/// `http://`: an https server is reached by CONNECT, and TLS is with the server itself, by its own name. A request to a
/// plain server names its whole URL, and the proxy reads everything. `https://`: the same, over TLS with the proxy (to
/// an https server TLS within TLS). `socks5://` (RFC 1928, RFC 1929): a tunnel to either; `socks5h://` means the same.
/// The proxy always resolves the server's name. User and password go to the proxy, in clear text unless it is
/// `https://`. They go nowhere else, except to an exec plugin that gets the cluster's information
/// (kubernetes/config.hpp).
///
/// *TLS with the proxy* uses nothing of the server's `tls_options`. The proxy's certificate must be valid for the host
/// of its URL and chain to the system's roots ($SSL_CERT_FILE and $SSL_CERT_DIR, if set), read when the client is made,
/// or to `ca_pem`. It is verified even if the server's is not (`insecure`), and no client certificate is offered. (Go,
/// and so client-go, uses one set of options for both: there the cluster's authority must have signed the proxy's
/// certificate, too. The CAs that such a kubeconfig bundles may be put into $SSL_CERT_FILE.) At least TLS 1.2; the
/// protocol is HTTP/1.1, and ALPN says so.
class proxy {
public:
    proxy() {}
    /// Parses "http://user:password@proxy.example:3128", "https://proxy.example", "socks5://[::1]", "proxy:3128"
    /// (http). The default port is 80, for https 443, for SOCKS 1080. User and password are percent-decoded; a path is
    /// ignored. `f`: errc::bad_configuration with the reason and the URL, but never with what stands before its '@'.
    static proxy parse(std::string_view url, failure& f);

    enum class protocol { none, http, socks5, https };

    explicit operator bool() const noexcept { return speaks != protocol::none; }
    /// Whether a user or a password is sent to it.
    bool authenticates() const noexcept { return !user.empty() || !password.empty(); }
    /// "http://proxy.example:3128", without user and password; empty without a proxy.
    std::string url() const;

    protocol speaks = protocol::none;
    std::string host; ///< IPv6 literals without brackets
    std::uint16_t port = 0;
    std::string user, password;
    std::string ca_pem; ///< for `https://`: the CAs its certificate must come from; empty: the system's roots
};

} // namespace informer::http
