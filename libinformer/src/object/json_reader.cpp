#include "detail/json_reader.hpp"

#include "detail/text_scan.hpp"

#include <algorithm>
#include <optional>
#include <string>

namespace informer::detail {

namespace {

[[gnu::always_inline]] inline void skip_space(const char*& p) noexcept {
    while (static_cast<unsigned char>(*p) <= ' ' && is_space(*p)) ++p;
}

bool is_digit(char c) noexcept {
    return c >= '0' && c <= '9';
}

} // namespace

text_reader::text_reader(document_reader& to, std::string_view text, std::size_t max_depth) noexcept
    : to_(to), at_(text.data()), end_(at_ + text.size()), max_depth_(std::min(max_depth, deepest)) {
    while (end_ != at_ && is_space(end_[-1])) --end_;
    if (end_ != at_ && end_[-1] != '}' && end_[-1] != ']') end_ = at_;
}

// ---- inlined into `read`, so that its place in the text stays in a register

/// With its colon; begins to skip its value if that is not wanted.
[[gnu::always_inline]] inline bool text_reader::key(const char*& at) {
    const char* p = at;
    skip_space(p);
    if (*p != '"') return false;
    bool plain = true;
    const char* const behind = string_end(p + 1, end_, plain);
    if (!behind) return false;
    const std::string_view whole(p, static_cast<std::size_t>(behind - p));
    if (plain) [[likely]] {
        to_.key(whole.substr(1, whole.size() - 2));
    } else {
        const auto text = read_literal(whole);
        if (!text) return false;
        to_.key(*text);
    }
    p = behind;
    skip_space(p);
    if (*p != ':') return false;
    ++p;
    if (to_.at_skipped_managed_fields()) [[unlikely]] {
        skip_space(p);
        if (*p == '[' || *p == '{') {
            skipping_ = skipped_.begin(*p);
            closing_ = *p == '[' ? ']' : '}';
        }
    }
    at = p;
    return true;
}

/// What has complete strings and balanced brackets and ends in the one it began with; the rest of its syntax is nobody's concern.
bool text_reader::skip(const char*& at, const char* until) {
    at = skipped_.scan(at, until);
    if (!skipped_.complete()) return at != end_;
    skipping_ = false;
    return at[-1] == closing_ && to_.literal(null_handle);
}

[[gnu::always_inline]] inline bool text_reader::literal(const char*& at, std::string_view word, handle h) {
    if (!std::string_view(at, end_).starts_with(word)) return false;
    at += word.size();
    return to_.literal(h);
}

[[gnu::always_inline]] inline bool text_reader::number(const char*& at) {
    const char* p = at;
    const auto digits = [&p] {
        if (!is_digit(*p)) return false;
        do ++p;
        while (is_digit(*p));
        return true;
    };
    if (*p == '-') ++p;
    if (*p == '0')
        ++p;
    else if (!digits())
        return false;
    if (*p == '.') {
        ++p;
        if (!digits()) return false;
    }
    if (*p == 'e' || *p == 'E') {
        ++p;
        if (*p == '+' || *p == '-') ++p;
        if (!digits()) return false;
    }
    const std::string_view text(at, static_cast<std::size_t>(p - at));
    at = p;
    return to_.number(text);
}

/// A value, or the beginnings of containers up to the first one that is in none of them.
[[gnu::always_inline]] inline bool text_reader::value(const char*& at) {
    for (const char* p = at;;) {
        skip_space(p);
        switch (*p) {
        case '"': {
            bool plain = true;
            const char* const behind = string_end(p + 1, end_, plain);
            if (!behind) return false;
            at = behind;
            const std::string_view whole(p, static_cast<std::size_t>(behind - p));
            if (plain) [[likely]] return to_.string(whole.substr(1, whole.size() - 2));
            const auto text = read_literal(whole);
            return text && to_.string(*text);
        }
        case '{':
            if (depth_ == max_depth_ || !to_.begin_object()) return false;
            ++p;
            skip_space(p);
            if (*p == '}') {
                to_.end_object();
                at = p + 1;
                return true;
            }
            open(true);
            if (!key(p)) return false;
            if (!skipping_) continue;
            at = p;
            return true;
        case '[':
            if (depth_ == max_depth_ || !to_.begin_array()) return false;
            ++p;
            skip_space(p);
            if (*p == ']') {
                to_.end_array();
                at = p + 1;
                return true;
            }
            open(false);
            continue;
        case 't': at = p; return literal(at, "true", true_handle);
        case 'f': at = p; return literal(at, "false", false_handle);
        case 'n': at = p; return literal(at, "null", null_handle);
        default: at = p; return number(at);
        }
    }
}

text_reader::outcome text_reader::read(std::size_t bytes) {
    const char* p = at_;
    const char* const end = end_;
    const char* const until = bytes < static_cast<std::size_t>(end - p) ? p + bytes : end;
    if (!begun_) {
        begun_ = true;
        if (p == end || !value(p)) return outcome::fault;
    }
    for (;;) {
        if (skipping_) [[unlikely]] {
            if (!skip(p, until)) return outcome::fault;
        }
        if (depth_ == 0) return p == end ? outcome::whole : outcome::fault;
        if (p == end) return outcome::fault;
        if (p >= until) {
            at_ = p;
            return outcome::more;
        }
        skip_space(p);
        const bool object = is_object_[depth_];
        const char c = *p++;
        if (c == ',') {
            if (object && !key(p)) return outcome::fault;
            if (!skipping_ && !value(p)) return outcome::fault;
        } else if (object && c == '}') {
            --depth_;
            to_.end_object();
        } else if (!object && c == ']') {
            --depth_;
            to_.end_array();
        } else {
            return outcome::fault;
        }
    }
}

bool json_slices::read(std::size_t bytes, failure& f) {
    if (faulty_) return faulty_->look(bytes, f);
    switch (reader_.read(bytes)) {
    case text_reader::outcome::whole: return true;
    case text_reader::outcome::fault: faulty_ = std::make_unique<fault_finder>(text_, max_depth_); break;
    case text_reader::outcome::more: break;
    }
    return false;
}

} // namespace informer::detail
