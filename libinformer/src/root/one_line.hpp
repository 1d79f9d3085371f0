// What others chose or sent must not break the one line it is shown in, or play with the terminal.
#pragma once

#include <algorithm>
#include <cstddef>
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

/// Of a stranger's words, as much as is shown unless it is told otherwise: bytes.
inline constexpr std::size_t most_words = 2048;

/// At most `limit` bytes of them on one line, in valid, printable UTF-8: what is none is a question mark, what is cut ends in an ellipsis.
std::string printable(std::string_view text, std::size_t limit = most_words);

} // namespace informer::detail
