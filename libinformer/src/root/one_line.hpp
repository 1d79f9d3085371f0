// Text that others chose or sent must not break the line in which it is shown, nor control the terminal.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>

namespace informer::detail {

inline bool is_control(char c) noexcept {
    return static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
}

/// Whether the text has control characters: no header can carry it then, and no single line can show it.
inline bool has_controls(std::string_view text) noexcept {
    return std::any_of(text.begin(), text.end(), is_control);
}

inline std::string one_line(std::string text) {
    std::replace_if(text.begin(), text.end(), is_control, ' ');
    return text;
}

/// How many bytes of a stranger's text are shown by default.
inline constexpr std::size_t most_words = 2048;

/// At most `limit` bytes of the text on one line, in valid, printable UTF-8: an invalid byte becomes a question mark,
/// and behind a text that was cut comes an ellipsis.
std::string printable(std::string_view text, std::size_t limit = most_words);

} // namespace informer::detail
