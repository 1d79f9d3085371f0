// Comparing and cutting JSON text by sixteen bytes at a time: what text_template and text_match stand on.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace informer::detail {

/// The first index at which the texts differ, or n. For every machine.
inline std::size_t common_prefix_portable(const char* a, const char* b, std::size_t n) noexcept {
    std::size_t i = 0;
    for (; n - i >= 8; i += 8) {
        std::uint64_t x, y;
        std::memcpy(&x, a + i, 8);
        std::memcpy(&y, b + i, 8);
        if (x == y) continue;
        const int zeros =
            std::endian::native == std::endian::little ? std::countr_zero(x ^ y) : std::countl_zero(x ^ y);
        return i + static_cast<std::size_t>(zeros) / 8;
    }
    while (i < n && a[i] == b[i]) ++i;
    return i;
}

/// Behind the closing quote of a string that goes on at `p`, or nullptr if there is none. `plain` turns false at an escape, a
/// control character or a byte above 0x7f: then its content must be looked at.
inline const char* string_end_portable(const char* p, const char* end, bool& plain) noexcept {
    for (; p != end; ++p) {
        const auto c = static_cast<unsigned char>(*p);
        if (c == '"') return p + 1;
        if (c == '\\') {
            plain = false;
            if (++p == end) return nullptr;
        } else if (c < 0x20 || c > 0x7f) {
            plain = false;
        }
    }
    return nullptr;
}

#if defined(__SSE2__) // part of x86-64: nothing to ask at run time
[[gnu::always_inline]] inline std::size_t common_prefix(const char* a, const char* b, std::size_t n) noexcept { // in one place
    constexpr std::size_t ahead = 768; // b is new here; the processor's own prefetching starts anew at each difference
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

/// As `string_end`, of what is known not to be plain: JSON within strings has an escape every few bytes.
inline const char* string_end_not_plain(const char* p, const char* end) noexcept {
    const __m128i quote = _mm_set1_epi8('"'), backslash = _mm_set1_epi8('\\');
    while (end - p >= 16) {
        const __m128i v = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
        const auto where = static_cast<unsigned>(
            _mm_movemask_epi8(_mm_or_si128(_mm_cmpeq_epi8(v, quote), _mm_cmpeq_epi8(v, backslash))));
        if (where == 0) {
            p += 16;
            continue;
        }
        p += std::countr_zero(where);
        if (*p == '"') return p + 1;
        if (end - p < 2) return nullptr;
        p += 2;
    }
    bool plain = false;
    return string_end_portable(p, end, plain);
}

inline const char* string_end(const char* p, const char* end, bool& plain) noexcept {
    const __m128i quote = _mm_set1_epi8('"'), backslash = _mm_set1_epi8('\\'), space = _mm_set1_epi8(0x20);
    for (; end - p >= 16; p += 16) {
        const __m128i v = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
        // Signed: below the space are control characters and all that is not ASCII.
        const __m128i stop = _mm_or_si128(_mm_cmpeq_epi8(v, quote),
                                          _mm_or_si128(_mm_cmpeq_epi8(v, backslash), _mm_cmplt_epi8(v, space)));
        const auto where = static_cast<unsigned>(_mm_movemask_epi8(stop));
        if (where == 0) continue;
        p += std::countr_zero(where);
        if (*p == '"') return p + 1;
        plain = false;
        return string_end_not_plain(p, end);
    }
    return string_end_portable(p, end, plain);
}
#else
inline std::size_t common_prefix(const char* a, const char* b, std::size_t n) noexcept {
    return common_prefix_portable(a, b, n);
}
inline const char* string_end(const char* p, const char* end, bool& plain) noexcept {
    return string_end_portable(p, end, plain);
}
inline const char* string_end_not_plain(const char* p, const char* end) noexcept {
    bool plain = false;
    return string_end_portable(p, end, plain);
}
#endif

/// Behind the characters of which numbers, true, false and null consist.
inline const char* bare_end(const char* p, const char* end) noexcept {
    const auto is_bare = [](char c) {
        return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || c == '-' || c == '+' || c == '.' || c == 'E';
    };
    while (p != end && is_bare(*p)) ++p;
    return p;
}

} // namespace informer::detail
