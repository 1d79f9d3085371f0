// Many pods at once, for measuring.
#pragma once

#include <informer/testing/api_server.hpp>

#include <cstddef>
#include <cstdint>

namespace devserver {

/// Creates `count` running pods in the namespaces load-0 … load-9, on nodes that exist by name alone.
void preload_pods(informer::testing::api_server& server, std::size_t count, std::uint64_t seed);

} // namespace devserver
