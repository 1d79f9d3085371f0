// Compares and cuts JSON text sixteen bytes at a time, or eight: the base of the readers.
#pragma once

#include "root/processor.hpp"

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace informer::detail {

// ---- for every machine: eight bytes in a word

inline constexpr std::uint64_t each_byte = 0x0101010101010101, top_bits = each_byte << 7;

/// Eight bytes, the first one lowest.
inline std::uint64_t eight_bytes(const char* p) noexcept {
    std::uint64_t v;
    std::memcpy(&v, p, sizeof v);
    return std::endian::native == std::endian::little ? v : __builtin_bswap64(v);
}
/// The lowest bit set is the top bit of the first byte that is zero. Bits above it mean nothing: the subtraction
/// borrows.
constexpr std::uint64_t first_zero(std::uint64_t x) noexcept {
    return (x - each_byte) & ~x & top_bits;
}
constexpr std::uint64_t first_of(char c, std::uint64_t x) noexcept {
    return first_zero(x ^ static_cast<unsigned char>(c) * each_byte);
}
/// The same for the first byte that is a control character or not ASCII.
constexpr std::uint64_t first_odd(std::uint64_t x) noexcept {
    return ((x - 0x20 * each_byte) | x) & top_bits;
}
/// The index of the byte that one of these functions found.
constexpr int place_of(std::uint64_t found) noexcept {
    return std::countr_zero(found) / 8;
}

/// The first index at which the texts differ, or n.
inline std::size_t common_prefix_portable(const char* a, const char* b, std::size_t n) noexcept {
    std::size_t i = 0;
    for (; n - i >= 8; i += 8)
        if (const std::uint64_t x = eight_bytes(a + i) ^ eight_bytes(b + i))
            return i + static_cast<std::size_t>(place_of(x));
    while (i < n && a[i] == b[i]) ++i;
    return i;
}

/// The first byte from `p` on that is no plain character of a string (a quote, a backslash, a control character or a
/// byte that is not ASCII), or `end`.
inline const char* plain_end_portable(const char* p, const char* end) noexcept {
    for (; end - p >= 8; p += 8) {
        const std::uint64_t v = eight_bytes(p);
        if (const std::uint64_t where = first_of('"', v) | first_of('\\', v) | first_odd(v)) return p + place_of(where);
    }
    for (; p != end; ++p)
        if (const auto c = static_cast<unsigned char>(*p); c == '"' || c == '\\' || c < 0x20 || c > 0x7f) break;
    return p;
}

/// The first quote or backslash from `p` on, or `end`.
inline const char* next_mark_portable(const char* p, const char* end) noexcept {
    for (; end - p >= 8; p += 8) {
        const std::uint64_t v = eight_bytes(p);
        if (const std::uint64_t where = first_of('"', v) | first_of('\\', v)) return p + place_of(where);
    }
    while (p != end && *p != '"' && *p != '\\') ++p;
    return p;
}

// ---- what is used

#if defined(INFORMER_SSE2)
[[gnu::always_inline]] inline std::size_t common_prefix(const char* a, const char* b,
                                                        std::size_t n) noexcept { // inlined: it has one caller
    constexpr std::size_t ahead = 768; // b is not in the caches; hardware prefetching starts anew at each difference
    const auto equal = [&](std::size_t at) {
        const __m128i x = _mm_loadu_si128(reinterpret_cast<const __m128i*>(a + at));
        const __m128i y = _mm_loadu_si128(reinterpret_cast<const __m128i*>(b + at));
        return _mm_cmpeq_epi8(x, y);
    };
    const auto bits = [](__m128i v) { return static_cast<unsigned>(_mm_movemask_epi8(v)); };
    std::size_t i = 0;
    for (; n - i >= 64; i += 64) {
        _mm_prefetch(b + i + ahead, _MM_HINT_T0);
        const __m128i e0 = equal(i), e1 = equal(i + 16), e2 = equal(i + 32), e3 = equal(i + 48);
        if (bits(_mm_and_si128(_mm_and_si128(e0, e1), _mm_and_si128(e2, e3))) == 0xffff) continue;
        const std::uint64_t same = std::uint64_t{bits(e0) | bits(e1) << 16} | std::uint64_t{bits(e2) | bits(e3) << 16}
                                                                                  << 32;
        return i + static_cast<std::size_t>(std::countr_one(same));
    }
    for (; n - i >= 16; i += 16)
        if (const unsigned same = bits(equal(i)); same != 0xffff)
            return i + static_cast<std::size_t>(std::countr_one(same));
    return i + common_prefix_portable(a + i, b + i, n - i);
}

inline const char* next_mark(const char* p, const char* end) noexcept {
    const __m128i quote = _mm_set1_epi8('"'), backslash = _mm_set1_epi8('\\');
    for (; end - p >= 16; p += 16) {
        const __m128i v = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
        const __m128i stop = _mm_or_si128(_mm_cmpeq_epi8(v, quote), _mm_cmpeq_epi8(v, backslash));
        const auto where = static_cast<unsigned>(_mm_movemask_epi8(stop));
        if (where != 0) return p + std::countr_zero(where);
    }
    return next_mark_portable(p, end);
}

/// A bit for each of the sixteen bytes from `p` on that is no plain character of a string; that of the first byte is
/// lowest.
[[gnu::always_inline]] inline std::uint32_t string_stops(const char* p) noexcept {
    const __m128i quote = _mm_set1_epi8('"'), backslash = _mm_set1_epi8('\\'), space = _mm_set1_epi8(0x20);
    const __m128i v = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    // The comparison is signed: control characters and all bytes that are not ASCII are below the space.
    const __m128i stop =
        _mm_or_si128(_mm_cmpeq_epi8(v, quote), _mm_or_si128(_mm_cmpeq_epi8(v, backslash), _mm_cmplt_epi8(v, space)));
    return static_cast<std::uint32_t>(_mm_movemask_epi8(stop));
}

/// Inlined: most strings are short.
[[gnu::always_inline]] inline const char* plain_end(const char* p, const char* end) noexcept {
    for (; end - p >= 16; p += 16)
        if (const std::uint32_t where = string_stops(p); where != 0) return p + std::countr_zero(where);
    return plain_end_portable(p, end);
}
#else
inline std::size_t common_prefix(const char* a, const char* b, std::size_t n) noexcept {
    return common_prefix_portable(a, b, n);
}
inline const char* plain_end(const char* p, const char* end) noexcept {
    return plain_end_portable(p, end);
}
inline const char* next_mark(const char* p, const char* end) noexcept {
    return next_mark_portable(p, end);
}
#endif

/// The place behind the closing quote of a string that goes on at `p`, or nullptr if there is none. `plain` turns
/// false at an escape, a control character or a byte above 0x7f: then the content must be checked.
inline const char* string_end(const char* p, const char* end, bool& plain) noexcept {
    p = plain_end(p, end);
    if (p == end) return nullptr;
    if (*p == '"') return p + 1;
    plain = false;
    // JSON within a string has an escape every few bytes.
    for (; (p = next_mark(p, end)) != end; p += 2) {
        if (*p == '"') return p + 1;
        if (end - p < 2) break;
    }
    return nullptr;
}

/// The place behind the closing quote of a plain string that goes on at `p`; nullptr if it is not plain, or has no end.
[[gnu::always_inline]] inline const char* plain_string_end(const char* p, const char* end) noexcept {
    p = plain_end(p, end);
    return p != end && *p == '"' ? p + 1 : nullptr;
}

} // namespace informer::detail
