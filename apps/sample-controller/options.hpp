// What the command line says.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace sample_controller {

struct options {
    std::string kubeconfig, context, cluster, user, server;
    std::string name_space; ///< "": all
    std::size_t workers = 2;
    bool leader_elect = false;
    std::string lease_namespace = "default", lease_name = "sample-controller", identity;
    double lease_duration = 15, renew_deadline = 10, retry_period = 2; ///< seconds
    std::optional<std::uint16_t> http_port;
    std::string http_address; ///< empty: all
    bool metrics_auth = false;
    std::string tls_cert_file, tls_private_key_file; ///< empty: no TLS
    int verbosity = 0;
};

/// False: the program is to end with `code` (--help, bad usage).
bool parse(int argc, char** argv, options& o, int& code);

} // namespace sample_controller
