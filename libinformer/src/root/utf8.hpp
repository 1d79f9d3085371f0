// Where text stops being UTF-8.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace informer::detail {

/// Where the text stops being UTF-8, or its size (RFC 3629: no overlong forms, no surrogates, nothing above U+10FFFF).
inline std::size_t utf8_end(std::string_view s) noexcept {
    const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(s[i]); };
    std::size_t i = 0;
    while (i < s.size()) {
        const unsigned char c = byte(i);
        if (c < 0x80) {
            std::uint64_t eight = ~std::uint64_t{0};
            if (s.size() - i >= sizeof eight) std::memcpy(&eight, s.data() + i, sizeof eight);
            i += (eight & 0x8080808080808080ULL) == 0 ? sizeof eight : 1;
            continue;
        }
        const std::size_t n = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : 2;
        if (c < 0xc2 || c > 0xf4 || i + n > s.size()) return i;
        for (std::size_t k = 1; k < n; ++k)
            if ((byte(i + k) & 0xc0) != 0x80) return i;
        const unsigned char d = byte(i + 1);
        if ((c == 0xe0 && d < 0xa0) || (c == 0xed && d > 0x9f) || (c == 0xf0 && d < 0x90) || (c == 0xf4 && d > 0x8f))
            return i;
        i += n;
    }
    return i;
}

} // namespace informer::detail
