// Which keys of a shape may be the wanted one: a byte of each key, its fingerprint, is stored behind the keys.
#pragma once

#include "node.hpp"
#include "root/processor.hpp"

#include <bit>
#include <cstdint>
#include <cstring>

namespace informer::detail {

/// Calls `f(i)` for each of the `n` keys with this fingerprint, in their order, until it returns true. The keys must be
/// those of a shape without a hash table.
template <class F>
void for_each_alike(const handle* keys, std::uint32_t n, unsigned char wanted, F f) {
    const auto* const prints = reinterpret_cast<const unsigned char*>(keys + n);
    std::uint32_t i = 0;
#if defined(INFORMER_SSE2)
    if (n >= 4) { // then the keys alone have 16 bytes
        const __m128i like = _mm_set1_epi8(static_cast<char>(wanted));
        for (;; i += 16) {
            // `before`: bytes that were looked at already, or bytes of keys
            const std::uint32_t left = n - i, before = left < 16 ? 16 - left : 0;
            const __m128i some = _mm_loadu_si128(reinterpret_cast<const __m128i*>(prints + i - before));
            auto hits = static_cast<std::uint32_t>(_mm_movemask_epi8(_mm_cmpeq_epi8(some, like))) >> before;
            for (; hits != 0; hits &= hits - 1)
                if (f(i + static_cast<std::uint32_t>(std::countr_zero(hits)))) return;
            if (left <= 16) return;
        }
    }
#endif
    for (; i < n; ++i) {
        const void* const hit = std::memchr(prints + i, wanted, n - i);
        if (!hit) return;
        i = static_cast<std::uint32_t>(static_cast<const unsigned char*>(hit) - prints);
        if (f(i)) return;
    }
}

} // namespace informer::detail
