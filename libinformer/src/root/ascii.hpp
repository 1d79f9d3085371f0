// Texts of ASCII: what their letters and their white space are does not depend on a locale.
#pragma once

#include <string>
#include <string_view>

namespace informer::detail {

inline std::string lower(std::string_view s) {
    std::string out(s);
    for (char& c : out)
        if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    return out;
}

/// The text without what `space` has at either end.
inline std::string_view trimmed(std::string_view s, std::string_view space) noexcept {
    const auto first = s.find_first_not_of(space);
    if (first == std::string_view::npos) return {};
    return s.substr(first, s.find_last_not_of(space) - first + 1);
}
/// Without the white space that JSON knows, as for tokens in files.
inline std::string_view trimmed(std::string_view s) noexcept {
    return trimmed(s, " \t\r\n");
}

} // namespace informer::detail
