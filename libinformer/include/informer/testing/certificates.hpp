// Throw-away certificates for tests and the embedded server, made with OpenSSL in memory.
#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace informer::testing {

struct key_pair {
    std::string certificate_pem, key_pem;
};

/// A certificate authority that signs for `localhost`, addresses and client names.
///
/// *Errors*: throws `error(errc::tls_failed)` if OpenSSL refuses. EC P-256 keys.
class certificate_authority {
public:
    explicit certificate_authority(std::string common_name = "libinformer test CA");
    const std::string& certificate_pem() const noexcept { return self_.certificate_pem; }
    /// The common name of server certificates, which no client may take for a host.
    static constexpr const char* server_common_name = "libinformer-test-server";
    /// A server certificate; names may be DNS names or IP addresses. Valid from now + `valid_since`, for `valid_for`:
    /// (1 h, -3 h) has expired, (1 h, 3 h) is not valid yet.
    key_pair server(std::vector<std::string> names, std::chrono::hours valid_for = std::chrono::hours(24 * 365),
                    std::chrono::hours valid_since = std::chrono::hours(-1)) const;
    /// A client certificate with CN and O (kube-apiserver: user and groups).
    key_pair client(std::string common_name, std::vector<std::string> organizations) const;

private:
    key_pair self_;
};

} // namespace informer::testing
