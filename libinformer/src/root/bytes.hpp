// Compares and copies bytes, mostly few, without a function call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace informer::detail {

inline std::uint64_t load_u64(const unsigned char* p) noexcept {
    std::uint64_t v;
    std::memcpy(&v, p, sizeof v);
    return v;
}

inline std::uint64_t load_u32(const unsigned char* p) noexcept {
    std::uint32_t v;
    std::memcpy(&v, p, sizeof v);
    return v;
}

inline bool same_bytes(const void* a, const void* b, std::size_t n) noexcept {
    const auto* x = static_cast<const unsigned char*>(a);
    const auto* y = static_cast<const unsigned char*>(b);
    if (n >= 8) {
        if (n > 48) return std::memcmp(x, y, n) == 0;
        for (std::size_t i = 0; i + 8 < n; i += 8)
            if (load_u64(x + i) != load_u64(y + i)) return false;
        return load_u64(x + n - 8) == load_u64(y + n - 8);
    }
    if (n >= 4) return load_u32(x) == load_u32(y) && load_u32(x + n - 4) == load_u32(y + n - 4);
    for (std::size_t i = 0; i < n; ++i)
        if (x[i] != y[i]) return false;
    return true;
}

inline constexpr std::size_t copied_inline = 32;

inline void copy_bytes(void* to, const void* from, std::size_t n) noexcept {
    auto* x = static_cast<unsigned char*>(to);
    const auto* y = static_cast<const unsigned char*>(from);
    if (n >= 8) {
        if (n > copied_inline) {
            std::memcpy(x, y, n);
            return;
        }
        for (std::size_t i = 0; i + 8 < n; i += 8) std::memcpy(x + i, y + i, 8);
        std::memcpy(x + n - 8, y + n - 8, 8);
    } else if (n >= 4) {
        const std::uint64_t first = load_u32(y), last = load_u32(y + n - 4);
        std::memcpy(x, &first, 4);
        std::memcpy(x + n - 4, &last, 4);
    } else {
        for (std::size_t i = 0; i < n; ++i) x[i] = y[i];
    }
}

} // namespace informer::detail
