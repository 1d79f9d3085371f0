#include "detail/text_reader.hpp"

#include "detail/json_tokens.hpp"
#include "detail/text_scan.hpp"

#include <algorithm>
#include <bit>

namespace informer::detail {

namespace {

/// Where to give up a number or a key that goes on at `p`. The parser takes longer ones, in parts.
const char* give_up(const char* p, const char* end) noexcept {
    return p + std::min(static_cast<std::size_t>(end - p), longest_token);
}

/// Passes over white space, mostly none. Some other byte must follow. Where there is too much of it, this returns the
/// place of a space, which no caller expects.
[[gnu::always_inline]] inline const char* behind_space(const char* p) noexcept {
    if (static_cast<unsigned char>(*p) > ' ') [[likely]]
        return p;
    const char* const from = p;
    while (is_space(*p) && static_cast<std::size_t>(p - from) < longest_token) ++p;
    return p;
}

/// Whether a container begins: the two brackets differ in that bit alone.
constexpr bool opens(char c) noexcept {
    return (c | 0x20) == '{';
}

constexpr unsigned digit(char c) noexcept {
    return static_cast<unsigned char>(c) - unsigned{'0'};
}

std::string_view between(const char* from, const char* to) noexcept {
    return {from, static_cast<std::size_t>(to - from)};
}

} // namespace

// Cuts the text at `end_` so that its last byte is a bracket. Then white space, strings and bare tokens all end
// before the text does, and only behind a bracket it must be checked whether there is more.
text_reader::text_reader(document_reader& to, std::string_view text, std::size_t max_depth, std::string& room) noexcept
    : to_(to), room_(room), at_(text.data()), stop_(at_), end_(text.data() + text.size()),
      max_depth_(std::min(max_depth, deepest)) {
    for (std::size_t n = 0; end_ != at_ && is_space(end_[-1]) && n < longest_token; ++n) --end_;
    if (end_ != at_ && end_[-1] != '}' && end_[-1] != ']') end_ = at_;
}

// Places in the text are passed and returned by value: one whose address is taken would be stored and loaded at every
// call. All of these functions return nullptr for what is refused.

/// Opens the container that begins at `p`. Returns the place of its first member, or of its end.
[[gnu::always_inline]] inline const char* text_reader::enter(const char* p) {
    if (depth_ == max_depth_) return nullptr;
    const bool object = *p == '{';
    objects_[depth_++] = in_object_;
    in_object_ = object;
    return (object ? to_.begin_object() : to_.begin_array()) ? behind_space(p + 1) : nullptr;
}

[[gnu::always_inline]] inline void text_reader::close() {
    if (in_object_)
        to_.end_object();
    else
        to_.end_array();
    in_object_ = objects_[--depth_];
}

/// Returns the place of the value.
[[gnu::always_inline]] inline const char* text_reader::colon(const char* p) {
    p = behind_space(p);
    return *p == ':' ? behind_space(p + 1) : nullptr;
}

/// Reads a key with its colon. Returns the place of the value, or, if `done`, the place behind it: a short string
/// right behind its key is read at once.
[[gnu::always_inline]] inline const char* text_reader::key(const char* p, bool& done) {
    if (*p != '"') return nullptr;
#if defined(INFORMER_SSE2)
    if (end_ - p > 36) [[likely]] { // one look mostly finds the end of the key and of the value
        const std::uint32_t stops = string_stops(p + 1) | string_stops(p + 17) << 16;
        const int n = std::countr_zero(stops);
        if (stops != 0 && p[1 + n] == '"') [[likely]] {
            to_.key({p + 1, static_cast<std::size_t>(n)});
            p += n + 2;
            if (p[0] == ':' && p[1] == '"') {
                const std::uint64_t behind = std::uint64_t{stops} >> (n + 3);
                const int size = std::countr_zero(behind);
                if (behind != 0 && p[2 + size] == '"') {
                    done = true;
                    return to_.string<true>({p + 2, static_cast<std::size_t>(size)}) ? p + 3 + size : nullptr;
                }
            }
            return colon(p);
        }
    }
#endif
    if (const char* const end = plain_string_end(p + 1, end_)) [[likely]] {
        to_.key(between(p + 1, end - 1));
        p = end;
    } else {
        p = odd_key(p + 1);
        if (!p) return nullptr;
    }
    return colon(p);
}

const char* text_reader::odd_key(const char* p) {
    std::string_view text;
    p = read_string(p, give_up(p, end_), room_, text);
    if (p) to_.key(text);
    return p;
}

/// Reads a value that is no container. Returns the place behind it, or where the step stops within a string that goes
/// on.
[[gnu::always_inline]] inline const char* text_reader::value(const char* p) {
    if (*p == '"') {
        if (const char* const end = plain_string_end(p + 1, end_)) [[likely]]
            return to_.string(between(p + 1, end - 1)) ? end : nullptr;
        part_ = string_part();
        inside_ = inside::string;
        return in_string(p + 1);
    }
    // Most numbers are whole and fit. If anything but the end of the value follows, even a digit, `bare` reads the
    // number.
    if (const unsigned first = digit(*p); first <= 9) {
        std::int64_t v = 0;
        const char* const q = first != 0 ? take_digits(p, end_, v) : p + 1;
        if (*q == ',' || *q == '}' || *q == ']')
            return (fits_small_int(v) ? to_.literal(make_small_int(v)) : to_.integer(v)) ? q : nullptr;
    }
    return bare(p);
}

const char* text_reader::in_string(const char* p) {
    p = read_string(p, stop_, end_, room_, part_);
    if (!p || !part_.whole) return p;
    inside_ = inside::nothing;
    return to_.string({room_.data(), part_.size}) ? p : nullptr;
}

const char* text_reader::bare(const char* p) {
    const auto word = [&](std::string_view w, handle h) {
        return between(p, end_).starts_with(w) && to_.literal(h) ? p + w.size() : nullptr;
    };
    switch (*p) {
    case 't': return word("true", true_handle);
    case 'f': return word("false", false_handle);
    case 'n': return word("null", null_handle);
    default: break;
    }
    const char* const end = number_end(p, give_up(p, end_));
    return end && to_.number(between(p, end)) ? end : nullptr;
}

/// Skips managedFields. The value only needs complete strings and balanced brackets, and must end in the bracket that
/// matches its first: it is a third of an object, with two thirds of its containers, and nobody needs it.
const char* text_reader::skip(const char* p) {
    if (p < stop_) p = scanner_.scan(p, stop_); // the slice may have ended in the key
    if (!scanner_.complete()) return p;
    inside_ = inside::nothing;
    return p[-1] == skipped_to_ && to_.literal(null_handle) ? p : nullptr;
}

/// Ends the step. At the end of the text there is no next one: a document that is not complete is refused.
text_reader::outcome text_reader::pause(const char* p) noexcept {
    at_ = p;
    return p == end_ ? outcome::refused : outcome::more;
}

text_reader::outcome text_reader::read(std::size_t bytes) {
    if (at_ == end_) return outcome::refused; // empty, or not a container
    const char* p = at_;
    const char* const stop = p + std::min(bytes, static_cast<std::size_t>(end_ - p));
    stop_ = stop;
    if (depth_ == 0) {
        p = behind_space(p);
        if (!opens(*p) || !(p = enter(p))) return outcome::refused;
        if (*p == closing()) {
            close();
            return p + 1 == end_ ? outcome::whole : outcome::refused;
        }
    }
    for (;;) {
        if (inside_ == inside::nothing) [[likely]] {
            if (p >= stop) return pause(p);
            p = behind_space(p);
            bool done = false;
            if (in_object_ && !(p = key(p, done))) return outcome::refused;
            if (done) {
                if (*p == ',') [[likely]] { // `key` saw that it lies within the text
                    ++p;
                    continue;
                }
            } else if (!opens(*p)) {
                p = value(p);
            } else if (!to_.at_skipped_managed_fields()) {
                p = enter(p);
                if (p && *p != closing()) continue;
            } else {
                scanner_.begin(*p);
                inside_ = inside::skipped;
                skipped_to_ = *p == '[' ? ']' : '}';
                p = skip(p);
            }
        } else {
            p = inside_ == inside::string ? in_string(p) : skip(p);
        }
        if (!p) return outcome::refused;
        if (inside_ != inside::nothing) return pause(p);
        // Closes what is complete.
        if (p == end_) return outcome::refused;
        for (p = behind_space(p); *p != ','; p = behind_space(p)) {
            if (*p != closing()) return outcome::refused;
            close();
            ++p;
            if (depth_ == 0) return p == end_ ? outcome::whole : outcome::refused;
            if (p == end_) return outcome::refused;
        }
        ++p;
    }
}

} // namespace informer::detail
