// Where the bytes that give JSON its structure are, 64 bytes at a time.
#pragma once

#include "root/processor.hpp"

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

namespace informer::detail {

inline constexpr std::size_t block_size = 64;

/// One bit a byte, the first byte in the lowest.
struct block_bits {
    std::uint64_t quotes = 0, backslashes = 0;
    std::uint64_t opening = 0, closing = 0; ///< braces and brackets

    friend bool operator==(const block_bits&, const block_bits&) = default;
};

/// For every machine: eight bytes in a word at a time.
inline block_bits block_bits_portable(const char* p) noexcept {
    constexpr std::uint64_t ones = 0x0101010101010101, low7 = 0x7f7f7f7f7f7f7f7f;
    block_bits b;
    for (unsigned i = 0; i < block_size; i += 8) {
        std::uint64_t w;
        std::memcpy(&w, p + i, 8);
        if constexpr (std::endian::native == std::endian::big) {
            std::uint64_t turned = 0;
            for (unsigned k = 0; k < 64; k += 8) turned |= (w >> k & 0xff) << (56 - k);
            w = turned;
        }
        const auto equal_to = [&](std::uint64_t word, unsigned char c) {
            const std::uint64_t x = word ^ c * ones;
            const std::uint64_t zero =
                ~(((x & low7) + low7) | x | low7);              // 0x80 where a byte is zero, no carry between bytes
            return (zero >> 7) * 0x0102040810204080 >> 56 << i; // those bits side by side
        };
        const std::uint64_t folded =
            w | 0x20 * ones; // '[' becomes '{', ']' becomes '}', and nothing else becomes either
        b.quotes |= equal_to(w, '"');
        b.backslashes |= equal_to(w, '\\');
        b.opening |= equal_to(folded, '{');
        b.closing |= equal_to(folded, '}');
    }
    return b;
}

#if defined(INFORMER_SSE2)
inline block_bits block_bits_sse2(const char* p) noexcept {
    const auto* const at = reinterpret_cast<const __m128i*>(p);
    const __m128i v0 = _mm_loadu_si128(at), v1 = _mm_loadu_si128(at + 1), v2 = _mm_loadu_si128(at + 2),
                  v3 = _mm_loadu_si128(at + 3);
    // Written out: compilers do not unroll such loops at -O2.
    const auto where = [](char c, __m128i a, __m128i b, __m128i d, __m128i e) {
        const __m128i all = _mm_set1_epi8(c);
        const auto bits = [all](__m128i v) {
            return std::uint64_t{static_cast<std::uint32_t>(_mm_movemask_epi8(_mm_cmpeq_epi8(v, all)))};
        };
        return (bits(a) | bits(b) << 16) | (bits(d) | bits(e) << 16) << 32;
    };
    const __m128i fold = _mm_set1_epi8(0x20);
    const __m128i f0 = _mm_or_si128(v0, fold), f1 = _mm_or_si128(v1, fold), f2 = _mm_or_si128(v2, fold),
                  f3 = _mm_or_si128(v3, fold);
    block_bits b;
    b.quotes = where('"', v0, v1, v2, v3);
    b.backslashes = where('\\', v0, v1, v2, v3);
    b.opening = where('{', f0, f1, f2, f3);
    b.closing = where('}', f0, f1, f2, f3);
    return b;
}
#endif

/// Bit i is the parity of the bits 0 to i. Applied to quotes, it gives the bytes inside strings (with the opening
/// quote).
constexpr std::uint64_t prefix_parity(std::uint64_t x) noexcept {
    x ^= x << 1;
    x ^= x << 2;
    x ^= x << 4;
    x ^= x << 8;
    x ^= x << 16;
    return x ^ x << 32;
}

/// Which bytes are escaped by the backslash before them. `carry`: whether the first byte is, and on return whether the
/// byte behind the block is.
constexpr std::uint64_t escaped_bytes(std::uint64_t backslashes, bool& carry) noexcept {
    if (backslashes == 0) return std::exchange(carry, false) ? 1 : 0;
    // Runs of backslashes alternate between escaping and escaped; the subtraction carries along each run and so tells
    // whether it began at an odd or an even place. (The method of simdjson: Langdale and Lemire, Parsing Gigabytes of
    // JSON per Second, 3.1.1.)
    constexpr std::uint64_t odd = 0xaaaaaaaaaaaaaaaa;
    const std::uint64_t first = carry ? 1 : 0;
    const std::uint64_t may_escape = backslashes & ~first;
    const std::uint64_t ends = (((may_escape << 1) | odd) - may_escape) ^ odd;
    carry = (ends & backslashes) >> 63 != 0;
    return ends ^ (backslashes | first);
}

/// Not `std::popcount`: the instruction is not part of x86-64, and without it the compiler calls a function.
constexpr unsigned count_bits(std::uint64_t x) noexcept {
    x -= x >> 1 & 0x5555555555555555;
    x = (x & 0x3333333333333333) + (x >> 2 & 0x3333333333333333);
    x = (x + (x >> 4)) & 0x0f0f0f0f0f0f0f0f;
    return static_cast<unsigned>(x * 0x0101010101010101 >> 56);
}

// ---- what depends on the processor: a scan is a template over one of these

/// Uses what every machine of the architecture has, so that no check is needed at run time.
struct plain_blocks {
    static block_bits bits(const char* p) noexcept {
#if defined(INFORMER_SSE2)
        return block_bits_sse2(p);
#else
        return block_bits_portable(p);
#endif
    }
    static std::uint64_t parity(std::uint64_t x) noexcept {
        return prefix_parity(x);
    }
    static unsigned ones(std::uint64_t x) noexcept {
        return count_bits(x);
    }
};

#if defined(INFORMER_AVX2)
/// Takes a third of the instructions. Only if `scan_with_avx2`; inlined only into functions of the same target.
struct avx2_blocks {
#define INFORMER_TARGET_AVX2 gnu::target("avx2,bmi,popcnt,pclmul")
    [[INFORMER_TARGET_AVX2]] static block_bits bits(const char* p) noexcept {
        const auto* const at = reinterpret_cast<const __m256i*>(p);
        const __m256i low = _mm256_loadu_si256(at), high = _mm256_loadu_si256(at + 1);
        const __m256i fold = _mm256_set1_epi8(0x20);
        const __m256i folded_low = _mm256_or_si256(low, fold), folded_high = _mm256_or_si256(high, fold);
        block_bits b;
        b.quotes = where('"', low, high);
        b.backslashes = where('\\', low, high);
        b.opening = where('{', folded_low, folded_high);
        b.closing = where('}', folded_low, folded_high);
        return b;
    }
    /// A carry-less product with all ones has, at each bit, the parity of that bit and all below it.
    [[INFORMER_TARGET_AVX2]] static std::uint64_t parity(std::uint64_t x) noexcept {
        const __m128i product =
            _mm_clmulepi64_si128(_mm_cvtsi64_si128(static_cast<long long>(x)), _mm_set1_epi8(-1), 0);
        return static_cast<std::uint64_t>(_mm_cvtsi128_si64(product));
    }
    [[INFORMER_TARGET_AVX2]] static unsigned ones(std::uint64_t x) noexcept {
        return static_cast<unsigned>(__builtin_popcountll(x));
    }

private:
    [[INFORMER_TARGET_AVX2]] static std::uint64_t where(char c, __m256i low, __m256i high) noexcept {
        const __m256i all = _mm256_set1_epi8(c);
        const auto first = static_cast<std::uint32_t>(_mm256_movemask_epi8(_mm256_cmpeq_epi8(low, all)));
        const auto second = static_cast<std::uint32_t>(_mm256_movemask_epi8(_mm256_cmpeq_epi8(high, all)));
        return std::uint64_t{first} | std::uint64_t{second} << 32;
    }
};

inline bool scan_with_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") &&
                             __builtin_cpu_supports("popcnt") && __builtin_cpu_supports("pclmul"); // tests write it too
#endif

} // namespace informer::detail
