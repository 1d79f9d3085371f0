// What bare tokens of JSON text say.
#pragma once

#include "node.hpp"
#include "text_scan.hpp"

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace informer::detail {

/// Behind the digits that come, if any.
inline const char* digits_end(const char* p, const char* end) noexcept {
    for (; end - p >= 8; p += 8) {
        const std::uint64_t x = eight_bytes(p) ^ '0' * each_byte; // a digit's byte is below ten; what carries comes behind the first other
        const std::uint64_t others = ((x + 0x76 * each_byte) | x) & top_bits;
        if (others != 0) return p + place_of(others);
    }
    while (p != end && *p >= '0' && *p <= '9') ++p;
    return p;
}

/// Behind a number as JSON spells it (RFC 8259, section 6), or nullptr. A digit behind a leading zero is no part of it.
inline const char* number_end(const char* p, const char* end) noexcept {
    const auto digits = [&] { // one at least
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

/// A whole number of at most eight digits, which nearly all are; missing if it is none.
inline handle short_number(std::string_view s) noexcept {
    if (s.empty() || s.size() > 8 || (s.size() > 1 && s[0] == '0')) return missing_handle;
    std::int32_t v = 0;
    for (const char c : s) {
        if (c < '0' || c > '9') return missing_handle;
        v = v * 10 + (c - '0');
    }
    return make_small_int(v);
}

/// true, false, null; missing if it is none of them.
inline handle literal_of(std::string_view s) noexcept {
    return s == "true" ? true_handle : s == "false" ? false_handle : s == "null" ? null_handle : missing_handle;
}

} // namespace informer::detail
