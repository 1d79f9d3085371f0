// Scanning JSON text without parsing it: where values end, what a string literal stands for. For the framers, for
// peek_key and for the readers of documents.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace informer::detail {

enum class byte_class : std::uint8_t { other, quote, backslash, open, close };

constexpr std::array<byte_class, 256> make_byte_classes() {
    std::array<byte_class, 256> t{};
    t['"'] = byte_class::quote;
    t['\\'] = byte_class::backslash;
    t['{'] = t['['] = byte_class::open;
    t['}'] = t[']'] = byte_class::close;
    return t;
}
inline constexpr std::array<byte_class, 256> byte_classes = make_byte_classes();

constexpr byte_class class_of(char c) noexcept {
    return byte_classes[static_cast<unsigned char>(c)];
}

constexpr bool is_space(char c) noexcept {
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

/// Finds the end of one value that may come in pieces. Brackets are counted, not matched: what is inside is the
/// parser's concern, and nesting costs no stack. Objects and arrays are read in blocks of 64 bytes.
class value_scanner {
public:
    /// Forgets the last value; `first` is the first byte of the next. False when no value can start with it.
    bool begin(char first) noexcept;
    /// Scans on from `p`; returns where it stopped: behind the value if `complete()`, at a byte that cannot be part of
    /// it if `bad()`, else `end`. The first call must start at the value's first byte.
    const char* scan(const char* p, const char* end) noexcept;
    bool complete() const noexcept { return complete_; }
    bool bad() const noexcept { return bad_; }
    /// What was scanned ends within a string.
    bool in_string() const noexcept { return in_string_; }

private:
    enum class kind : std::uint8_t { scalar, string, container };
    const char* scan_string(const char* p, const char* end) noexcept;
    const char* scan_container(const char* p, const char* end) noexcept;
    const char* scan_blocks(const char* p, const char* end) noexcept;
    const char* scan_blocks_avx2(const char* p, const char* end) noexcept;
    template <class Processor>
    const char* scan_blocks_by(const char* p, const char* end) noexcept;
    const char* scan_bytes(const char* p, const char* end) noexcept;
    const char* scan_scalar(const char* p, const char* end) noexcept;

    std::size_t depth_ = 0;
    kind kind_ = kind::scalar;
    bool in_string_ = false;
    bool escaped_ = false;
    bool complete_ = false;
    bool bad_ = false;
};

/// The first "},{" from `p` on, or `end`. It may lie within a string.
const char* find_between_objects(const char* p, const char* end) noexcept;

/// No real text has a key, a name, a number or a run of white space of this length, so a search for the end of one
/// stops here.
inline constexpr std::size_t longest_token = std::size_t(64) << 10;

/// The text that a string literal, quotes included, stands for; nullopt if it is not a string literal.
std::optional<std::string> unescape(std::string_view literal);
/// A string that is being read into `room`, which grows where it must and never shrinks.
struct string_part {
    std::size_t size = 0;    ///< of the content so far
    std::size_t checked = 0; ///< bytes of it that are known to be UTF-8
    bool odd = false;        ///< the rest is not all ASCII
    bool whole = false;
};
/// Reads on in a string at `p`, which is behind the opening quote at first. Returns the place behind the closing quote,
/// with `part` whole, or a place at or behind `stop`, with `part` not whole. Returns nullptr if a parser would refuse
/// the string, say for a control character or invalid UTF-8.
const char* read_string(const char* p, const char* stop, const char* end, std::string& room, string_part& part);
/// Reads a whole string: returns the place behind its closing quote and sets `content`, or returns nullptr.
inline const char* read_string(const char* p, const char* end, std::string& room, std::string_view& content) {
    string_part part;
    p = read_string(p, end, end, room, part);
    content = std::string_view(room).substr(0, part.size);
    return part.whole ? p : nullptr;
}
/// Whether the literal stands for `word`; makes no copy if it has no escapes.
bool says(std::string_view literal, std::string_view word);

} // namespace informer::detail
