// The proxy between an HTTP client and its server.
#pragma once

#include <informer/error.hpp>

#include <cstdint>
#include <string>
#include <string_view>

namespace informer::http {

/// Who passes on what a client and its server say to each other. Made by default: nobody, the server is reached directly.
///
/// `http://`: an https server is reached by CONNECT, and TLS is with the server itself, by its own name; of a plain one each request
/// asks by its whole URL, and the proxy reads everything. `https://`: the same, over TLS with the proxy (to an https server TLS within
/// TLS). `socks5://` (RFC 1928, RFC 1929): a tunnel to either; `socks5h://` means the same. The server's name is always resolved by the
/// proxy. User and password go to the proxy, in clear text but where it is `https://`, and nowhere else but to an exec plugin that is told
/// of the cluster (kubernetes/config.hpp).
///
/// *TLS with the proxy* has nothing of the server's `tls_options`: its certificate must be valid for the host of its URL and come from the
/// system's roots ($SSL_CERT_FILE and $SSL_CERT_DIR, if set), read when the client is made, or from `ca_pem`. It is verified also where
/// the server's is not (`insecure`), and no client certificate is offered. (Go, and so client-go, uses one set of options for both: there
/// the cluster's authority must have signed for the proxy, too. What such a kubeconfig bundles may stand in $SSL_CERT_FILE.)
/// At least TLS 1.2; HTTP/1.1 is spoken, and said by ALPN.
class proxy {
public:
    proxy() {}
    /// Parses "http://user:password@proxy.example:3128", "https://proxy.example", "socks5://[::1]", "proxy:3128" (http). A missing port
    /// is 80, 443 of https, 1080 of SOCKS. User and password are percent-decoded; a path is ignored. `f`: errc::bad_configuration with
    /// the reason and the URL, but never with what stands before its '@'.
    static proxy parse(std::string_view url, failure& f);

    enum class protocol { none, http, socks5, https };

    explicit operator bool() const noexcept { return speaks != protocol::none; }
    /// Whether it is told who we are.
    bool authenticates() const noexcept { return !user.empty() || !password.empty(); }
    /// "http://proxy.example:3128", without user and password; empty where there is none.
    std::string url() const;

    protocol speaks = protocol::none;
    std::string host; ///< IPv6 literals without brackets
    std::uint16_t port = 0;
    std::string user, password;
    std::string ca_pem; ///< of `https://`: whom its certificate must come from; empty: the system's roots
};

} // namespace informer::http
