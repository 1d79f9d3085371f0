// Writing kubeconfig files.
#pragma once

#include <string>
#include <vector>

namespace informer::testing::detail {

struct kubeconfig_user {
    std::string context; ///< also the name of the user
    std::string token;
    std::string certificate_pem, key_pem;
};

/// The first user's context is the current one. With `ca_pem` the CA is inline.
std::string kubeconfig_text(const std::string& url, const std::string& ca_pem,
                            const std::vector<kubeconfig_user>& users);

} // namespace informer::testing::detail
