#include "json_scan.hpp"

#include "detail/text_scan.hpp"
#include "json_block.hpp"
#include "root/utf8.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

namespace informer::detail {

bool value_scanner::begin(char first) noexcept {
    *this = value_scanner();
    switch (first) {
    case '"': kind_ = kind::string; return true;
    case '{':
    case '[': kind_ = kind::container; return true;
    case ',':
    case ':':
    case '}':
    case ']': return false;
    default: kind_ = kind::scalar; return true;
    }
}

const char* value_scanner::scan(const char* p, const char* end) noexcept {
    switch (kind_) {
    case kind::string:
        if (p == end) return p;
        if (!in_string_) {
            in_string_ = true;
            ++p;
        }
        p = scan_string(p, end);
        complete_ = !in_string_;
        return p;
    case kind::container: return scan_container(p, end);
    case kind::scalar: break;
    }
    return scan_scalar(p, end);
}

// Scans to the place behind the closing quote, or to the end.
const char* value_scanner::scan_string(const char* p, const char* end) noexcept {
    if (escaped_ && p != end) {
        escaped_ = false;
        ++p;
    }
    while (p != end) {
        p = next_mark(p, end);
        if (p == end) break;
        if (*p == '"') {
            in_string_ = false;
            return p + 1;
        }
        if (p + 1 == end) { // the byte behind the backslash comes later
            escaped_ = true;
            return end;
        }
        p += 2;
    }
    return p;
}

const char* value_scanner::scan_container(const char* p, const char* end) noexcept {
    p = scan_blocks(p, end);
    return complete_ ? p : scan_bytes(p, end);
}

const char* value_scanner::scan_blocks(const char* p, const char* end) noexcept {
#if defined(INFORMER_AVX2)
    if (scan_with_avx2) return scan_blocks_avx2(p, end);
#endif
    return scan_blocks_by<plain_blocks>(p, end);
}

#if defined(INFORMER_AVX2)
[[INFORMER_TARGET_AVX2, gnu::flatten]] const char* value_scanner::scan_blocks_avx2(const char* p,
                                                                                   const char* end) noexcept {
    return scan_blocks_by<avx2_blocks>(p, end);
}
#endif

/// Scans all whole blocks.
template <class Processor>
const char* value_scanner::scan_blocks_by(const char* p, const char* end) noexcept {
    std::size_t depth = depth_;
    bool escaped = escaped_;
    std::uint64_t in_string = in_string_ ? ~std::uint64_t(0) : 0; // all bits set if the byte before is in a string
    const auto leave = [&]() noexcept {
        depth_ = depth;
        escaped_ = escaped;
        in_string_ = in_string != 0;
    };
    for (; static_cast<std::size_t>(end - p) >= block_size; p += block_size) {
        const block_bits b = Processor::bits(p);
        bool escapes_next = escaped;
        const std::uint64_t quotes = b.quotes & ~escaped_bytes(b.backslashes, escapes_next);
        const std::uint64_t inside = Processor::parity(quotes) ^ in_string;
        if ((b.backslashes & ~inside) != 0) { // a backslash outside of strings escapes nothing
            leave();
            const char* const stop = scan_bytes(p, p + block_size);
            if (complete_) return stop;
            depth = depth_;
            escaped = escaped_;
            in_string = in_string_ ? ~std::uint64_t(0) : 0;
            continue;
        }
        const std::uint64_t opening = b.opening & ~inside, closing = b.closing & ~inside;
        const unsigned closed = Processor::ones(closing);
        if (closed >= depth) {
            // The value may end in this block.
            for (std::uint64_t both = opening | closing; both != 0; both &= both - 1) {
                const std::uint64_t lowest = both & ~(both - 1);
                if (opening & lowest) {
                    ++depth;
                } else if (--depth == 0) {
                    complete_ = true;
                    depth_ = 0;
                    escaped_ = in_string_ = false;
                    return p + std::countr_zero(lowest) + 1;
                }
            }
        } else {
            depth += Processor::ones(opening);
            depth -= closed;
        }
        escaped = escapes_next;
        in_string = inside >> 63 ? ~std::uint64_t(0) : 0;
    }
    leave();
    return p;
}

const char* value_scanner::scan_bytes(const char* p, const char* end) noexcept {
    for (;;) {
        if (in_string_) {
            p = scan_string(p, end);
            if (in_string_) return p; // the end
        }
        while (p != end && class_of(*p) == byte_class::other) ++p;
        if (p == end) return p;
        switch (class_of(*p++)) {
        case byte_class::quote: in_string_ = true; break;
        case byte_class::open: ++depth_; break;
        case byte_class::close:
            if (--depth_ == 0) {
                complete_ = true;
                return p;
            }
            break;
        default: break; // a backslash outside of strings is left to the parser to refuse
        }
    }
}

const char* value_scanner::scan_scalar(const char* p, const char* end) noexcept {
    for (; p != end; ++p) {
        if (is_space(*p) || *p == ',' || *p == '}' || *p == ']') {
            complete_ = true;
            return p;
        }
        if (*p == ':' || class_of(*p) != byte_class::other) {
            bad_ = true;
            return p;
        }
    }
    return p;
}

namespace {

constexpr std::size_t between = 3; // bytes of "},{"

const char* find_between_portable(const char* p, const char* end) noexcept {
    for (; static_cast<std::size_t>(end - p) >= 8 + between - 1; p += 8) {
        const std::uint64_t all = (eight_bytes(p) ^ '}' * each_byte) | (eight_bytes(p + 1) ^ ',' * each_byte) |
                                  (eight_bytes(p + 2) ^ '{' * each_byte);
        if (const std::uint64_t where = first_zero(all)) return p + place_of(where);
    }
    for (; static_cast<std::size_t>(end - p) >= between; ++p)
        if (p[0] == '}' && p[1] == ',' && p[2] == '{') return p;
    return end;
}

#if defined(INFORMER_SSE2)
const char* find_between_sse2(const char* p, const char* end) noexcept {
    const __m128i closing = _mm_set1_epi8('}'), opening = _mm_set1_epi8('{');
    const auto at = [&](const char* q) {
        const __m128i first = _mm_cmpeq_epi8(_mm_loadu_si128(reinterpret_cast<const __m128i*>(q)), closing);
        const __m128i third = _mm_cmpeq_epi8(_mm_loadu_si128(reinterpret_cast<const __m128i*>(q + 2)), opening);
        return _mm_and_si128(first, third);
    };
    for (; static_cast<std::size_t>(end - p) >= 32 + between - 1; p += 32) {
        const __m128i low = at(p), high = at(p + 16);
        if (_mm_movemask_epi8(_mm_or_si128(low, high)) == 0) continue;
        unsigned where = static_cast<unsigned>(_mm_movemask_epi8(low)) | static_cast<unsigned>(_mm_movemask_epi8(high))
                                                                             << 16;
        for (; where != 0; where &= where - 1)
            if (const char* const q = p + std::countr_zero(where); q[1] == ',') return q;
    }
    return find_between_portable(p, end);
}
#endif

#if defined(INFORMER_AVX2)
[[INFORMER_TARGET_AVX2]] const char* find_between_avx2(const char* p, const char* end) noexcept {
    const __m256i closing = _mm256_set1_epi8('}'), opening = _mm256_set1_epi8('{');
    for (; static_cast<std::size_t>(end - p) >= 64 + between - 1; p += 64) {
        const auto* const from = reinterpret_cast<const __m256i*>(p);
        const auto* const later = reinterpret_cast<const __m256i*>(p + 2);
        const __m256i low = _mm256_and_si256(_mm256_cmpeq_epi8(_mm256_loadu_si256(from), closing),
                                             _mm256_cmpeq_epi8(_mm256_loadu_si256(later), opening));
        const __m256i high = _mm256_and_si256(_mm256_cmpeq_epi8(_mm256_loadu_si256(from + 1), closing),
                                              _mm256_cmpeq_epi8(_mm256_loadu_si256(later + 1), opening));
        const __m256i any = _mm256_or_si256(low, high);
        if (_mm256_testz_si256(any, any)) continue;
        std::uint64_t where = static_cast<std::uint32_t>(_mm256_movemask_epi8(low)) |
                              std::uint64_t{static_cast<std::uint32_t>(_mm256_movemask_epi8(high))} << 32;
        for (; where != 0; where &= where - 1)
            if (const char* const q = p + std::countr_zero(where); q[1] == ',') return q;
    }
    return find_between_portable(p, end);
}
#endif

} // namespace

const char* find_between_objects(const char* p, const char* end) noexcept {
#if defined(INFORMER_AVX2)
    if (scan_with_avx2) return find_between_avx2(p, end);
#endif
#if defined(INFORMER_SSE2)
    return find_between_sse2(p, end);
#else
    return find_between_portable(p, end);
#endif
}

namespace {

int hex_digit(char c) noexcept {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

// One step of reading a string: copies `step` bytes and returns how many of them come before the first quote, backslash
// or control character. `odd` becomes true if one of those is not ASCII.
#if defined(INFORMER_SSE2)
constexpr std::size_t step = 16;

std::size_t copy_plain(const char* p, char* to, bool& odd) noexcept {
    const __m128i v = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to), v);
    const auto bits = [](__m128i x) { return static_cast<unsigned>(_mm_movemask_epi8(x)); };
    const __m128i control = _mm_cmpeq_epi8(_mm_min_epu8(v, _mm_set1_epi8(0x1f)), v);
    const __m128i marks = _mm_or_si128(_mm_cmpeq_epi8(v, _mm_set1_epi8('"')), _mm_cmpeq_epi8(v, _mm_set1_epi8('\\')));
    const unsigned found = bits(_mm_or_si128(marks, control)) | 1u << step;
    odd |= (bits(v) & (found - 1) & ~found) != 0; // below the first one
    return static_cast<std::size_t>(std::countr_zero(found));
}
#else
constexpr std::size_t step = 8;

std::size_t copy_plain(const char* p, char* to, bool& odd) noexcept {
    std::memcpy(to, p, step);
    const std::uint64_t v = eight_bytes(p);
    const std::uint64_t found = first_of('"', v) | first_of('\\', v) | ((v - 0x20 * each_byte) & ~v & top_bits);
    odd |= (v & top_bits & (found - 1) & ~found) != 0;
    return found == 0 ? step : static_cast<std::size_t>(place_of(found));
}
#endif

/// What the letter behind a backslash stands for; 0 for a `u` and where there is no such escape.
constexpr std::array<char, 256> make_escapes() {
    std::array<char, 256> t{};
    t['"'] = '"', t['\\'] = '\\', t['/'] = '/', t['b'] = '\b', t['f'] = '\f', t['n'] = '\n', t['r'] = '\r',
    t['t'] = '\t';
    return t;
}
constexpr std::array<char, 256> escapes = make_escapes();

std::optional<std::uint32_t> hex4(std::string_view s) noexcept {
    if (s.size() < 4) return std::nullopt;
    std::uint32_t n = 0;
    for (std::size_t i = 0; i < 4; ++i) {
        const int d = hex_digit(s[i]);
        if (d < 0) return std::nullopt;
        n = n << 4 | static_cast<std::uint32_t>(d);
    }
    return n;
}

char* put_utf8(char* to, std::uint32_t c) noexcept {
    const auto put = [&to](std::uint32_t byte) { *to++ = static_cast<char>(static_cast<unsigned char>(byte)); };
    if (c < 0x80) {
        put(c);
    } else if (c < 0x800) {
        put(0xc0 | c >> 6);
        put(0x80 | (c & 0x3f));
    } else if (c < 0x10000) {
        put(0xe0 | c >> 12);
        put(0x80 | (c >> 6 & 0x3f));
        put(0x80 | (c & 0x3f));
    } else {
        put(0xf0 | c >> 18);
        put(0x80 | (c >> 12 & 0x3f));
        put(0x80 | (c >> 6 & 0x3f));
        put(0x80 | (c & 0x3f));
    }
    return to;
}

// `s` begins behind "\u"; removes the digits it reads from `s`. nullptr: they are not a character.
char* put_unicode(char* to, std::string_view& s) noexcept {
    const auto first = hex4(s);
    if (!first) return nullptr;
    s.remove_prefix(4);
    if (*first < 0xd800 || *first > 0xdfff) return put_utf8(to, *first);
    if (*first > 0xdbff || s.substr(0, 2) != "\\u") return nullptr;
    const auto second = hex4(s.substr(2));
    if (!second || *second < 0xdc00 || *second > 0xdfff) return nullptr;
    s.remove_prefix(6);
    return put_utf8(to, 0x10000 + ((*first - 0xd800) << 10) + (*second - 0xdc00));
}

constexpr std::size_t longest_character = 4; ///< bytes; an escape stands for one character

// `s` begins with a backslash; removes the escape from `s`. nullptr: it is not an escape.
char* put_escaped(char* to, std::string_view& s) noexcept {
    if (s.size() < 2) return nullptr;
    const char letter = s[1], meant = escapes[static_cast<unsigned char>(letter)];
    s.remove_prefix(2);
    if (letter == 'u') return put_unicode(to, s);
    if (meant == 0) return nullptr;
    *to = meant;
    return to + 1;
}

/// Makes room for at least a step and an escape; `left` bytes of text are still to come.
char* make_room(std::string& room, char* to, std::size_t left) {
    const auto done = static_cast<std::size_t>(to - room.data());
    room.resize(room.size() + std::clamp<std::size_t>(left + 2 * step, 64, room.size() + 1024));
    return room.data() + done;
}

} // namespace

std::optional<std::string> unescape(std::string_view s) {
    if (s.size() < 2 || s.front() != '"' || s.back() != '"') return std::nullopt;
    s = s.substr(1, s.size() - 2);
    std::string text(s.size(), '\0'); // no escape stands for more bytes than it has
    char* to = text.data();
    while (!s.empty()) {
        const std::size_t n = std::min(s.find('\\'), s.size());
        to = std::copy_n(s.data(), n, to);
        s.remove_prefix(n);
        if (!s.empty() && !(to = put_escaped(to, s))) return std::nullopt;
    }
    text.resize(static_cast<std::size_t>(to - text.data()));
    return text;
}

namespace {

/// False if the content is not UTF-8. (An escape stands for a whole character, so the content is valid exactly if the
/// text is.)
bool read_so_far(std::string_view content, bool odd, bool whole, string_part& part) noexcept {
    part.size = content.size();
    part.checked = odd ? part.checked + utf8_end(content.substr(part.checked)) : part.size;
    part.odd = part.checked != part.size;
    part.whole = whole;
    return part.size - part.checked < (whole ? 1 : longest_character); // the last character may go on
}

} // namespace

const char* read_string(const char* p, const char* stop, const char* end, std::string& room, string_part& part) {
    char* to = room.data() + part.size;
    bool odd = part.odd;
    for (;;) {
        if (p >= stop) return read_so_far({room.data(), to}, odd, false, part) ? p : nullptr;
        const auto left = static_cast<std::size_t>(end - p);
        if (static_cast<std::size_t>(room.data() + room.size() - to) < step + longest_character)
            to = make_room(room, to, left);
        // JSON within a string has an escape every few bytes: searching for each would cost more than looking at all
        // bytes.
        std::size_t n = 0;
        if (left > step) {
            n = copy_plain(p, to, odd);
        } else {
            for (; n < left && p[n] != '"' && p[n] != '\\' && static_cast<unsigned char>(p[n]) >= 0x20; ++n) {
                to[n] = p[n];
                odd |= static_cast<unsigned char>(p[n]) >= 0x80;
            }
        }
        p += n;
        to += n;
        if (n >= step) continue;
        if (p == end) return nullptr;
        if (*p != '\\') break;
        if (const char meant = left > n + 1 ? escapes[static_cast<unsigned char>(p[1])] : '\0') {
            *to++ = meant;
            p += 2;
            continue;
        }
        std::string_view escape(p, static_cast<std::size_t>(end - p));
        to = put_escaped(to, escape);
        if (!to) return nullptr;
        p = escape.data();
    }
    return *p == '"' && read_so_far({room.data(), to}, odd, true, part) ? p + 1 : nullptr;
}

bool says(std::string_view literal, std::string_view word) {
    if (literal.size() < 2) return false;
    const std::string_view inside = literal.substr(1, literal.size() - 2);
    if (inside == word) return true;
    // An escape is longer than what it stands for.
    if (inside.size() <= word.size() || inside.find('\\') == std::string_view::npos) return false;
    const auto text = unescape(literal);
    return text && *text == word;
}

} // namespace informer::detail
