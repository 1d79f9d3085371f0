// Where numbers and words of JSON text end.
#pragma once

#include "text_scan.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace informer::detail {

/// `x` are eight bytes, each XORed with '0', so that digits are below ten. The lowest bit set in the result is the
/// top bit of the first byte that is no digit. Bits above it mean nothing, since the addition carries.
constexpr std::uint64_t first_no_digit(std::uint64_t x) noexcept {
    return ((x + 0x76 * each_byte) | x) & top_bits;
}

/// The place behind the digits at `p`, if any.
inline const char* digits_end(const char* p, const char* end) noexcept {
    for (; end - p >= 8; p += 8) {
        if (const std::uint64_t other = first_no_digit(eight_bytes(p) ^ '0' * each_byte)) return p + place_of(other);
    }
    while (p != end && *p >= '0' && *p <= '9') ++p;
    return p;
}

/// The number that eight digits form. Each byte holds the value of a digit, the lowest byte that of the first. Digits
/// are joined into pairs, then fours, then all.
constexpr std::uint64_t eight_digits(std::uint64_t digits) noexcept {
    digits = digits * 10 + (digits >> 8);
    return ((digits & 0x0000'00ff'0000'00ff) * (100 + (std::uint64_t{1'000'000} << 32)) +
            (digits >> 16 & 0x0000'00ff'0000'00ff) * (1 + (std::uint64_t{10'000} << 32))) >>
           32;
}

/// Reads the digits at `p`, 18 at most, into `number`, which must be zero, and returns the place behind them. There
/// must be a digit at `p`, or at most eight bytes left.
[[gnu::always_inline]] inline const char* take_digits(const char* p, const char* end, std::int64_t& number) noexcept {
    const char* const most = p + std::min<std::ptrdiff_t>(end - p, 18);
    if (end - p > 8 && static_cast<unsigned char>(p[1] - '0') <= 9) {
        const std::uint64_t x = eight_bytes(p) ^ '0' * each_byte, other = first_no_digit(x);
        const int n = other != 0 ? place_of(other) : 8;
        number = static_cast<std::int64_t>(eight_digits(x << 8 * (8 - n))); // missing digits become leading zeros
        p += n;
        if (n < 8) return p;
    }
    for (unsigned d; p != most && (d = static_cast<unsigned char>(*p - '0')) <= 9; ++p) number = number * 10 + d;
    return p;
}

/// The place behind a number as JSON spells it (RFC 8259, section 6), or nullptr. A digit behind a leading zero is
/// not part of it.
inline const char* number_end(const char* p, const char* end) noexcept {
    const auto digits = [&] { // at least one
        const char* const from = p;
        p = digits_end(p, end);
        return p != from;
    };
    if (p != end && *p == '-') ++p;
    if (p != end && *p == '0')
        ++p;
    else if (!digits())
        return nullptr;
    if (p != end && *p == '.' && (++p, !digits())) return nullptr;
    if (p != end && (*p == 'e' || *p == 'E')) {
        ++p;
        if (p != end && (*p == '+' || *p == '-')) ++p;
        if (!digits()) return nullptr;
    }
    return p;
}
inline bool is_number(std::string_view s) noexcept {
    return number_end(s.data(), s.data() + s.size()) == s.data() + s.size();
}

/// The place behind the characters of which numbers, true, false and null consist.
inline const char* bare_end(const char* p, const char* end) noexcept {
    const auto is_bare = [](char c) {
        return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || c == '-' || c == '+' || c == '.' || c == 'E';
    };
    while (p != end && is_bare(*p)) ++p;
    return p;
}

} // namespace informer::detail
