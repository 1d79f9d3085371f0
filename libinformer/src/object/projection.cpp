#include "detail/projection_trie.hpp"

namespace informer {

namespace {

/// RFC 6901.
bool is_pointer(std::string_view s) noexcept {
    if (!s.empty() && s.front() != '/') return false;
    for (std::size_t i = 0; i < s.size(); ++i)
        if (s[i] == '~' && (i + 1 == s.size() || (s[i + 1] != '0' && s[i + 1] != '1'))) return false;
    return true;
}

} // namespace

projection::projection(std::vector<std::string> pointers, bool keep) : pointers_(std::move(pointers)), keep_(keep) {
    for (const std::string& p : pointers_)
        if (!is_pointer(p)) throw error(errc::bad_configuration, "projection: \"" + p + "\" is no JSON pointer");
}

projection projection::drop(std::vector<std::string> pointers) {
    return projection(std::move(pointers), false);
}

projection projection::keep(std::vector<std::string> pointers) {
    return projection(std::move(pointers), true);
}

namespace detail {

namespace {

std::string unescape(std::string_view token) {
    std::string s;
    for (std::size_t i = 0; i < token.size(); ++i) {
        if (token[i] == '~')
            s += token[++i] == '0' ? '~' : '/';
        else
            s += token[i];
    }
    return s;
}

} // namespace

projection_trie::projection_trie(const projection& p) : nodes_(1), keep_(p.keeps()) {
    for (std::string_view pointer : p.pointers()) {
        std::uint32_t at = start;
        while (!pointer.empty()) {
            pointer.remove_prefix(1);
            const std::size_t end = std::min(pointer.find('/'), pointer.size());
            const std::string token = unescape(pointer.substr(0, end));
            pointer.remove_prefix(end);
            std::uint32_t next = 0;
            if (token == "*") {
                next = nodes_[at].star;
            } else {
                for (const auto& [name, n] : nodes_[at].named)
                    if (name == token) next = n;
            }
            if (next == 0) {
                next = static_cast<std::uint32_t>(nodes_.size());
                nodes_.emplace_back();
                if (token == "*")
                    nodes_[at].star = next;
                else
                    nodes_[at].named.emplace_back(token, next);
            }
            at = next;
        }
        nodes_[at].ends = true;
    }
}

bool projection_trie::step(const std::vector<std::uint32_t>& states, std::size_t first, std::size_t last,
                           std::string_view name, std::vector<std::uint32_t>& to) const {
    bool ends = false;
    const auto add = [&](std::uint32_t n) {
        ends = ends || nodes_[n].ends;
        to.push_back(n);
    };
    for (std::size_t i = first; i < last; ++i) {
        const node& n = nodes_[states[i]]; // `to` may be `states`: index, do not iterate
        for (const auto& [key, next] : n.named)
            if (key == name) add(next);
        if (n.star) add(n.star);
    }
    return ends;
}

} // namespace detail
} // namespace informer
