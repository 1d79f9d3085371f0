#include "kubernetes/json_as_yaml.hpp"

#include <cstddef>
#include <string_view>

namespace informer::kubernetes::detail {

namespace {

/// The code point of the character that begins there, if it needs an escape; else 0.
unsigned special_at(std::string_view s, std::size_t i) noexcept {
    const auto byte = [&](std::size_t k) { return i + k < s.size() ? static_cast<unsigned char>(s[i + k]) : 0u; };
    const unsigned second = byte(1), third = byte(2);
    switch (byte(0)) {
    case 0x7f: return 0x7f;
    case 0xc2: return second >= 0x80 && second < 0xa0 ? second : 0;
    case 0xe2: return second == 0x80 && (third == 0xa8 || third == 0xa9) ? 0x2000 | (third & 0x3f) : 0;
    case 0xef: return second == 0xbf && (third == 0xbe || third == 0xbf) ? 0xffc0 | (third & 0x3f) : 0;
    default: return 0;
    }
}

} // namespace

std::string json_as_yaml(std::string json) {
    constexpr std::string_view digits = "0123456789abcdef";
    std::string out;
    std::size_t done = 0;
    // The first bytes of these characters occur only in strings, and never within another character.
    for (std::size_t i = 0; i < json.size(); ++i) {
        if (static_cast<unsigned char>(json[i]) < 0x7f) continue;
        const unsigned c = special_at(json, i);
        if (c == 0) continue;
        out.append(json, done, i - done).append("\\u");
        for (const int shift : {12, 8, 4, 0}) out += digits[c >> shift & 15];
        done = i + (c < 0x80 ? 1 : c < 0x800 ? 2 : 3);
        i = done - 1;
    }
    if (done == 0) return json;
    return out.append(json, done);
}

} // namespace informer::kubernetes::detail
