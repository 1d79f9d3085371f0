// JSON pointers (RFC 6901).
#include "detail/pointer_reader.hpp"
#include "detail/reading.hpp"

#include <algorithm>
#include <charconv>

namespace informer {

using namespace detail;

namespace {

/// Takes the first token off a JSON pointer. False if it is no JSON pointer.
bool next_token(std::string_view& pointer, std::string_view& token, std::string& unescaped) {
    if (pointer.front() != '/') return false;
    pointer.remove_prefix(1);
    const std::size_t end = std::min(pointer.find('/'), pointer.size());
    token = pointer.substr(0, end);
    pointer.remove_prefix(end);
    if (token.find('~') == std::string_view::npos) return true;
    unescaped.clear();
    for (std::size_t i = 0; i < token.size(); ++i) {
        if (token[i] != '~') {
            unescaped += token[i];
        } else if (i + 1 < token.size() && (token[i + 1] == '0' || token[i + 1] == '1')) {
            unescaped += token[++i] == '0' ? '~' : '/';
        } else {
            return false;
        }
    }
    token = unescaped;
    return true;
}

/// An element of an array; missing for any other value.
value element_at(const generation* g, const children& of, std::string_view token) noexcept {
    std::size_t index = 0;
    const auto r = std::from_chars(token.data(), token.data() + token.size(), index);
    const bool canonical = token.size() == 1 || (!token.empty() && token[0] != '0');
    if (r.ec != std::errc() || r.ptr != token.data() + token.size() || !canonical || index >= of.n) return {};
    return value(g, of.values[index]);
}

} // namespace

value value::at_pointer(std::string_view pointer) const {
    value v = *this;
    std::string unescaped;
    std::string_view token;
    while (v.exists() && !pointer.empty()) {
        if (!next_token(pointer, token, unescaped)) return {};
        const detail::generation* const g = v.generation();
        const children c = children_of(g, v.handle());
        if (!c.keys) {
            v = element_at(g, c, token);
            continue;
        }
        const std::uint32_t at = find_member(g, c, token);
        if (at == c.n) return {};
        v = value(g, c.values[at]);
    }
    return v;
}

namespace detail {

void append_token(std::string_view token, std::string& to) {
    to += '/';
    for (const char c : token) {
        if (c == '~')
            to += "~0";
        else if (c == '/')
            to += "~1";
        else
            to += c;
    }
}

pointer_reader::pointer_reader(std::string_view pointer) {
    std::string unescaped;
    std::string_view token;
    while (valid_ && !pointer.empty()) {
        valid_ = next_token(pointer, token, unescaped);
        steps_.emplace_back(std::string(token));
    }
}

pointer_reader::pointer_reader(const std::vector<std::string>& keys) {
    for (const std::string& k : keys) steps_.emplace_back(k);
}

value pointer_reader::operator()(value v) const noexcept {
    if (!valid_) return {};
    for (const step& s : steps_) {
        const generation* const g = v.generation();
        const children c = children_of(g, v.handle());
        if (!c.keys) {
            v = element_at(g, c, s.token);
            continue;
        }
        const std::uint32_t guess = s.place.load(std::memory_order_relaxed), at = find_member(g, c, s.token, guess);
        if (at == c.n) return {};
        if (at != guess) s.place.store(at, std::memory_order_relaxed);
        v = value(g, c.values[at]);
    }
    return v;
}

} // namespace detail

} // namespace informer
