// A seeded 64-bit hash of bytes, after the construction of wyhash (Wang Yi, public domain): 64x64→128-bit multiply,
// fold. The seed is random and never leaves the process, so nobody outside can aim for collisions.
#pragma once

#include "bytes.hpp"

#include <cstddef>
#include <cstdint>

namespace informer::detail {

__extension__ typedef unsigned __int128 uint128;

inline std::uint64_t hash_mix(std::uint64_t a, std::uint64_t b) noexcept {
    const uint128 product = static_cast<uint128>(a) * b;
    return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
}

struct hash_seed {
    std::uint64_t a = 0, b = 0;
    /// Different each time, unpredictable from outside the process.
    static hash_seed random() noexcept;
};

/// The rest of `hash_bytes`, for more than sixteen bytes.
inline std::uint64_t hash_many(hash_seed seed, std::uint64_t h, const unsigned char* p, std::size_t size) noexcept {
    std::size_t left = size;
    if (left > 48) { // three independent lanes keep the multiplier busy
        std::uint64_t h1 = h ^ seed.b, h2 = h + seed.b;
        do {
            h = hash_mix(load_u64(p) ^ seed.b, load_u64(p + 8) ^ h);
            h1 = hash_mix(load_u64(p + 16) ^ seed.a, load_u64(p + 24) ^ h1);
            h2 = hash_mix(load_u64(p + 32) ^ ~seed.b, load_u64(p + 40) ^ h2);
            p += 48;
            left -= 48;
        } while (left > 48);
        h ^= h1 ^ h2;
    }
    while (left > 16) {
        h = hash_mix(load_u64(p) ^ seed.b, load_u64(p + 8) ^ h);
        p += 16;
        left -= 16;
    }
    return hash_mix(seed.b ^ size, hash_mix(load_u64(p + left - 16) ^ seed.b, load_u64(p + left - 8) ^ h));
}

/// `h`: the secret that the hash begins with; it must not follow from `seed.b` without knowing either. Inlined: most
/// texts are short.
[[gnu::always_inline]] inline std::uint64_t hash_from(hash_seed seed, std::uint64_t h, const void* data,
                                                      std::size_t size) noexcept {
    const auto* p = static_cast<const unsigned char*>(data);
    std::uint64_t x = 0, y = 0;
    if (size > 16) return hash_many(seed, h, p, size);
    if (size >= 8) {
        x = load_u64(p);
        y = load_u64(p + size - 8);
    } else if (size >= 4) {
        x = load_u32(p);
        y = load_u32(p + size - 4);
    } else if (size > 0) {
        x = (std::uint64_t{p[0]} << 16) | (std::uint64_t{p[size / 2]} << 8) | p[size - 1];
    }
    return hash_mix(seed.b ^ size, hash_mix(x ^ seed.b, y ^ h));
}

/// `tag` keeps kinds apart (the number 1 and the string "1").
[[gnu::always_inline]] inline std::uint64_t hash_bytes(hash_seed seed, std::uint32_t tag, const void* data,
                                                       std::size_t size) noexcept {
    return hash_from(seed, seed.a ^ hash_mix(seed.b ^ tag, 0xa0761d6478bd642fULL), data, size);
}

} // namespace informer::detail
