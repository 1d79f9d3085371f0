// A hash that is the same in every process and release.
#pragma once

#include <cstdint>
#include <string_view>

namespace informer::detail {

/// FNV-1a, 64 bits (Fowler, Noll, Vo). What it gives is told to others (replicas, servers, readers of an etcd): never change it.
/// Of names that strangers choose, where they could collide, `text_hash` is the one, which is seeded.
constexpr std::uint64_t fnv1a(std::string_view s) noexcept {
    std::uint64_t h = 0xcbf29ce484222325U;
    for (const char c : s) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
    return h;
}

} // namespace informer::detail
