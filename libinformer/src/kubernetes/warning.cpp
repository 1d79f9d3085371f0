#include "kubernetes/warning.hpp"

#include "root/one_line.hpp"

#include <charconv>
#include <optional>
#include <string>

namespace informer::kubernetes::detail {

namespace {

using informer::detail::printable;

void skip(std::string_view& s, std::string_view any_of) {
    const auto n = s.find_first_not_of(any_of);
    s.remove_prefix(n == std::string_view::npos ? s.size() : n);
}

/// A quoted string at the beginning of `s`, taken off it; nullopt when there is none or it has no end.
std::optional<std::string> quoted(std::string_view& s) {
    if (!s.starts_with('"')) return std::nullopt;
    std::string text;
    for (std::size_t i = 1; i < s.size(); ++i) {
        if (s[i] == '"') {
            s.remove_prefix(i + 1);
            return text;
        }
        if (s[i] == '\\' && ++i == s.size()) break;
        text += s[i];
    }
    return std::nullopt;
}

} // namespace

std::vector<server_warning> parse_warnings(std::string_view line) {
    std::vector<server_warning> found;
    for (;;) {
        skip(line, ", \t");
        server_warning w;
        const auto [end, ec] = std::from_chars(line.data(), line.data() + line.size(), w.code);
        const auto digits = static_cast<std::size_t>(end - line.data());
        if (ec != std::errc() || digits != 3 || w.code < 100) return found;
        line.remove_prefix(digits);
        if (!line.starts_with(' ')) return found;
        skip(line, " ");
        const auto agent = line.substr(0, line.find(' '));
        line.remove_prefix(agent.size());
        skip(line, " ");
        const auto text = quoted(line);
        if (!text) return found;
        w.agent = printable(agent, 256);
        w.text = printable(*text);
        skip(line, " ");
        if (line.starts_with('"') && !quoted(line)) line = {}; // the date
        if (!w.text.empty()) found.push_back(std::move(w));
    }
}

} // namespace informer::kubernetes::detail
