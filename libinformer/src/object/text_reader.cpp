#include "detail/text_reader.hpp"

#include "detail/json_tokens.hpp"
#include "detail/text_scan.hpp"

#include <algorithm>

namespace informer::detail {

namespace {

/// Where a number or a key that goes on at `p` is given up. The parser takes what is longer, in parts.
const char* give_up(const char* p, const char* end) noexcept {
    return p + std::min(static_cast<std::size_t>(end - p), longest_token);
}

/// There is something but white space from `p` on, and mostly at once. Where it is given up, something else is expected.
[[gnu::always_inline]] inline const char* behind_space(const char* p) noexcept {
    if (static_cast<unsigned char>(*p) > ' ') [[likely]] return p;
    const char* const from = p;
    while (is_space(*p) && static_cast<std::size_t>(p - from) < longest_token) ++p;
    return p;
}

constexpr unsigned digit(char c) noexcept { return static_cast<unsigned char>(c) - unsigned{'0'}; }

std::string_view between(const char* from, const char* to) noexcept {
    return {from, static_cast<std::size_t>(to - from)};
}

} // namespace

// The last byte is a bracket. So white space, strings and bare tokens all end before the text does, and only behind a bracket is it
// to be asked whether there is more.
text_reader::text_reader(document_reader& to, std::string_view text, std::size_t max_depth, std::string& room) noexcept
    : to_(to), room_(room), at_(text.data()), stop_(at_), end_(text.data() + text.size()), max_depth_(std::min(max_depth, deepest)) {
    for (std::size_t n = 0; end_ != at_ && is_space(end_[-1]) && n < longest_token; ++n) --end_;
    if (end_ != at_ && end_[-1] != '}' && end_[-1] != ']') end_ = at_;
}

inline bool text_reader::open(char bracket) {
    if (depth_ == max_depth_) return false;
    const bool object = bracket == '{';
    const std::uint64_t bit = std::uint64_t{1} << (depth_ % 64);
    std::uint64_t& bits = objects_[depth_ / 64];
    bits = in_object_ ? bits | bit : bits & ~bit;
    ++depth_;
    in_object_ = object;
    first_ = true;
    return object ? to_.begin_object() : to_.begin_array();
}

inline void text_reader::close() {
    if (in_object_)
        to_.end_object();
    else
        to_.end_array();
    --depth_;
    in_object_ = (objects_[depth_ / 64] >> (depth_ % 64) & 1) != 0;
}

/// With its colon; `p` is then at the value.
[[gnu::always_inline]] inline bool text_reader::key(const char*& p) {
    if (*p != '"') return false;
    if (const char* const end = plain_string_end(p + 1, end_)) [[likely]] {
        to_.key(between(p + 1, end - 1));
        p = end;
    } else {
        std::string_view text;
        p = read_string(p + 1, give_up(p, end_), room_, text);
        if (!p) return false;
        to_.key(text);
    }
    p = behind_space(p);
    if (*p != ':') return false;
    p = behind_space(p + 1);
    return true;
}

/// One that is no container.
[[gnu::always_inline]] inline bool text_reader::value(const char*& p) {
    if (*p == '"') {
        if (const char* const end = plain_string_end(p + 1, end_)) [[likely]] {
            const std::string_view text = between(p + 1, end - 1);
            p = end;
            return to_.string(text);
        }
        return not_plain(p);
    }
    // Numbers mostly are short. What comes behind it, be it a digit, is seen where the value has to end.
    if (const unsigned first = digit(*p); first <= 9) {
        std::int32_t v = static_cast<std::int32_t>(first);
        const char* q = p + 1;
        for (unsigned d; first != 0 && q - p < 8 && (d = digit(*q)) <= 9; ++q) v = v * 10 + static_cast<std::int32_t>(d);
        if (*q == ',' || *q == '}' || *q == ']') {
            p = q;
            return to_.literal(make_small_int(v));
        }
    }
    return bare(p);
}

bool text_reader::not_plain(const char*& p) {
    part_ = string_part();
    ++p;
    const outcome o = in_string(p);
    if (o == outcome::more) inside_ = inside::string;
    return o == outcome::whole;
}

text_reader::outcome text_reader::in_string(const char*& p) {
    p = read_string(p, stop_, end_, room_, part_);
    if (!p) return outcome::refused;
    if (!part_.whole) return outcome::more;
    return to_.string({room_.data(), part_.size}) ? outcome::whole : outcome::refused;
}

bool text_reader::bare(const char*& p) {
    const auto word = [&](std::string_view w, handle h) {
        if (!between(p, end_).starts_with(w)) return false;
        p += w.size();
        return to_.literal(h);
    };
    switch (*p) {
    case 't': return word("true", true_handle);
    case 'f': return word("false", false_handle);
    case 'n': return word("null", null_handle);
    default: break;
    }
    const char* const end = number_end(p, give_up(p, end_));
    if (!end) return false;
    const std::string_view text = between(p, end);
    p = end;
    return to_.number(text);
}

/// The value need have but complete strings and balanced brackets, and end in the one it began with: a third of an object, with two
/// thirds of its containers, and nobody's concern.
text_reader::outcome text_reader::skip(const char*& p) {
    if (p < stop_) p = scanner_.scan(p, stop_); // the slice may have ended in the key
    if (!scanner_.complete()) return outcome::more;
    return p[-1] == skipped_to_ && to_.literal(null_handle) ? outcome::whole : outcome::refused;
}

/// With the value that is begun, to its end; or `more`: up to where this step ends it is not complete.
text_reader::outcome text_reader::go_on(const char*& p) {
    const outcome o = inside_ == inside::skipped ? skip(p) : in_string(p);
    if (o != outcome::more) inside_ = inside::nothing;
    return o;
}

/// Until the next step, if there is one.
text_reader::outcome text_reader::pause(const char* p) noexcept {
    at_ = p;
    return p == end_ ? outcome::refused : outcome::more;
}

/// Closes what is complete. `more`: `p` is at the next member or element.
inline text_reader::outcome text_reader::behind_value(const char*& p) {
    for (;;) {
        if (p == end_) return outcome::refused;
        p = behind_space(p);
        if (*p == ',') {
            ++p;
            first_ = false;
            return outcome::more;
        }
        if (*p != closing()) return outcome::refused;
        ++p;
        close();
        if (depth_ == 0) return p == end_ ? outcome::whole : outcome::refused;
    }
}

text_reader::outcome text_reader::read(std::size_t bytes) {
    if (at_ == end_) return outcome::refused; // nothing, or not a container
    const char* p = at_;
    stop_ = p + std::min(bytes, static_cast<std::size_t>(end_ - p));
    if (depth_ == 0) {
        p = behind_space(p);
        if ((*p != '{' && *p != '[') || !open(*p)) return outcome::refused;
        ++p;
    }
    for (;;) {
        if (inside_ != inside::nothing) {
            const outcome o = go_on(p);
            if (o == outcome::refused) return o;
            if (o == outcome::more) return pause(p);
        } else {
            if (p >= stop_) return pause(p);
            p = behind_space(p);
            const bool empty = first_ && *p == closing();
            if (!empty) {
                if (in_object_ && !key(p)) return outcome::refused;
                if (*p == '{' || *p == '[') {
                    if (to_.at_skipped_managed_fields()) {
                        scanner_.begin(*p);
                        inside_ = inside::skipped;
                        skipped_to_ = *p == '[' ? ']' : '}';
                    } else {
                        if (!open(*p)) return outcome::refused;
                        ++p;
                    }
                    continue;
                }
                if (!value(p)) return inside_ == inside::string ? pause(p) : outcome::refused;
            }
        }
        if (const outcome o = behind_value(p); o != outcome::more) return o;
    }
}

} // namespace informer::detail
