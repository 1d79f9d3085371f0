// A hash that is the same in every process and release.
#pragma once

#include <cstdint>
#include <string_view>

namespace informer::detail {

/// FNV-1a, 64 bits (Fowler, Noll, Vo). Other processes rely on its values (replicas, servers, readers of an etcd):
/// never change it. For names that strangers choose, and could choose to collide, use `text_hash`, which is seeded.
constexpr std::uint64_t fnv1a(std::string_view s) noexcept {
    std::uint64_t h = 0xcbf29ce484222325U;
    for (const char c : s) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
    return h;
}

} // namespace informer::detail
