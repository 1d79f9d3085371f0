// What others chose or sent must not break the one line it is shown in, or play with the terminal.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

namespace informer::detail {

inline bool is_control(char c) noexcept {
    return static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
}

/// No header can carry such a text, nor one line show it.
inline bool has_controls(std::string_view text) noexcept {
    return std::any_of(text.begin(), text.end(), is_control);
}

inline std::string one_line(std::string text) {
    std::replace_if(text.begin(), text.end(), is_control, ' ');
    return text;
}

} // namespace informer::detail
