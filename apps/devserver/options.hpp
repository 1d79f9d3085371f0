// What the command line says.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace devserver {

struct options {
    std::uint16_t port = 0;
    std::string address = "127.0.0.1";
    bool tls = false;
    std::string kubeconfig;
    std::string token;
    std::string forbidden_token;
    bool simulate = false;
    std::uint64_t seed = 1;
    std::size_t pods = 0;
    double speed = 1;
    double bookmark_every = 60;
    bool verbose = false;
};

/// False when the program is to end at once with `code` (0 after --help and --version, 2 for wrong usage).
bool parse(int argc, char** argv, options& o, int& code);

} // namespace devserver
