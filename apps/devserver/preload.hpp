// Many pods at once, for measuring.
#pragma once

#include <informer/testing/api_server.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>

namespace devserver {

/// Creates `count` running pods in the namespaces load-0 … load-9, on nodes that exist by name alone. After each pod
/// `created` is told how many there are.
void preload_pods(informer::testing::api_server& server, std::size_t count, std::uint64_t seed,
                  const std::function<void(std::size_t)>& created);

} // namespace devserver
