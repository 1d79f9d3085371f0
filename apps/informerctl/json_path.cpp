#include "json_path.hpp"

#include <algorithm>
#include <charconv>
#include <optional>

namespace informerctl {
namespace {

using informer::value;

std::string print(const value& v) {
    return v.is_string() ? v.as_string().str() : v.to_json();
}

std::string at_offset(std::string_view what, std::size_t offset) {
    return std::string(what) + " at offset " + std::to_string(offset);
}

std::string unescape(std::string_view s) {
    std::string out;
    for (std::size_t i = 0; i < s.size(); ++i) {
        if (s[i] != '\\' || i + 1 == s.size()) {
            out += s[i];
            continue;
        }
        const char c = s[++i];
        out += c == 'n' ? '\n' : c == 't' ? '\t' : c == 'r' ? '\r' : c;
    }
    return out;
}

/// What stands in quotes, if that is all of it.
std::optional<std::string_view> quoted_text(std::string_view s) {
    if (s.empty() || (s.front() != '"' && s.front() != '\'')) return std::nullopt;
    std::size_t end = 1;
    while (end < s.size() && s[end] != s.front()) end += s[end] == '\\' ? 2 : 1;
    if (end + 1 != s.size()) return std::nullopt;
    return s.substr(1, s.size() - 2);
}

} // namespace

bool json_path::parse_path(std::string_view s, std::size_t at, std::vector<step>& into, std::string& why) {
    std::size_t i = 0;
    if (i < s.size() && (s[i] == '$' || s[i] == '@')) ++i;
    while (i < s.size()) {
        step st;
        if (s[i] == '.') {
            ++i;
            if (i == s.size()) break; // "." is the object itself
            if (s[i] == '.') {
                why = at_offset("recursive descent (..) is not supported", at + i - 1);
                return false;
            }
            if (s[i] == '[') continue;
            if (s[i] == '*') {
                st.what = step::kind::all;
                ++i;
            } else {
                while (i < s.size() && s[i] != '.' && s[i] != '[') {
                    if (s[i] == '\\' && i + 1 < s.size()) ++i; // kubectl: .annotations.a\.b
                    st.name += s[i++];
                }
            }
        } else if (s[i] == '[') {
            const std::size_t open = i++;
            if (i < s.size() && (s[i] == '\'' || s[i] == '"')) {
                const char quote = s[i++];
                while (i < s.size() && s[i] != quote) {
                    if (s[i] == '\\' && i + 1 < s.size()) ++i;
                    st.name += s[i++];
                }
                ++i;
            } else if (i < s.size() && s[i] == '*') {
                st.what = step::kind::all;
                ++i;
            } else if (i < s.size() && s[i] == '?') {
                why = at_offset("filters are not supported", at + open);
                return false;
            } else {
                st.what = step::kind::index;
                const char* begin = s.data() + i;
                const auto [end, ec] = std::from_chars(begin, s.data() + s.size(), st.index);
                if (ec != std::errc() || end == begin) {
                    why = at_offset("expected an index, * or a quoted key", at + i);
                    return false;
                }
                i += static_cast<std::size_t>(end - begin);
            }
            if (i >= s.size() || s[i] != ']') {
                why = at_offset("missing ]", at + open);
                return false;
            }
            ++i;
        } else if (i == 0) { // kubectl accepts {metadata.name} too
            while (i < s.size() && s[i] != '.' && s[i] != '[') st.name += s[i++];
        } else {
            why = at_offset("expected . or [", at + i);
            return false;
        }
        into.push_back(std::move(st));
    }
    return true;
}

std::optional<json_path> json_path::parse(std::string_view text, std::string& why) {
    json_path result;
    if (text.empty()) {
        why = "empty template";
        return std::nullopt;
    }
    if (text.find('{') == std::string_view::npos) {
        piece p;
        p.is_path = true;
        if (!parse_path(text, 0, p.steps, why)) return std::nullopt;
        result.pieces_.push_back(std::move(p));
        return result;
    }
    std::size_t i = 0;
    while (i < text.size()) {
        piece p;
        if (text[i] != '{') {
            const auto next = std::min(text.find('{', i), text.size());
            p.literal = text.substr(i, next - i); // as it is: a backslash is an escape only in quotes
            i = next;
            result.pieces_.push_back(std::move(p));
            continue;
        }
        const std::size_t open = i++;
        std::size_t end = i;
        char quote = 0;
        for (; end < text.size(); ++end) {
            const char c = text[end];
            if (quote) {
                if (c == '\\')
                    ++end;
                else if (c == quote)
                    quote = 0;
            } else if (c == '"' || c == '\'') {
                quote = c;
            } else if (c == '}') {
                break;
            }
        }
        if (end >= text.size()) {
            why = at_offset("missing }", open);
            return std::nullopt;
        }
        std::string_view inner = text.substr(i, end - i);
        std::size_t at = i;
        while (!inner.empty() && inner.front() == ' ') inner.remove_prefix(1), ++at;
        while (!inner.empty() && inner.back() == ' ') inner.remove_suffix(1);
        const std::string_view word = inner.substr(0, inner.find_first_of(" .["));
        if (const auto quoted = quoted_text(inner)) {
            p.literal = unescape(*quoted);
        } else if (inner.starts_with('"') || inner.starts_with('\'')) {
            why = at_offset("something behind a text in quotes", open);
            return std::nullopt;
        } else if (word == "range" || inner == "end") {
            why = at_offset("range is not supported; use [*]", open);
            return std::nullopt;
        } else {
            p.is_path = true;
            if (!parse_path(inner, at, p.steps, why)) return std::nullopt;
        }
        result.pieces_.push_back(std::move(p));
        i = end + 1;
    }
    return result;
}

namespace {

template <class Step>
void walk(const value& v, const std::vector<Step>& steps, std::size_t from, std::string& out, bool& first) {
    if (!v.exists()) return;
    if (from == steps.size()) {
        if (!first) out += ' ';
        first = false;
        out += print(v);
        return;
    }
    const auto& s = steps[from];
    using kind = decltype(s.what);
    if (s.what == kind::field) {
        walk(v[s.name], steps, from + 1, out, first);
    } else if (s.what == kind::index) {
        const long size = v.is_array() ? static_cast<long>(v.size()) : 0;
        const long i = s.index < 0 ? size + s.index : s.index;
        if (i >= 0 && i < size) walk(v[static_cast<std::size_t>(i)], steps, from + 1, out, first);
    } else if (v.is_array()) {
        for (const value e : v) walk(e, steps, from + 1, out, first);
    } else if (v.is_object()) {
        for (const auto m : v.members()) walk(m.value, steps, from + 1, out, first);
    }
}

} // namespace

std::string json_path::evaluate(const informer::object& o) const {
    std::string out;
    for (const auto& p : pieces_) {
        bool first = true;
        if (p.is_path)
            walk(o.value(), p.steps, 0, out, first);
        else
            out += p.literal;
    }
    return out;
}

std::string json_path::evaluate(const std::vector<informer::object>& items) const {
    std::string out;
    for (const auto& p : pieces_) {
        if (!p.is_path) {
            out += p.literal;
            continue;
        }
        const auto& s = p.steps;
        bool first = true;
        const auto add_items = [&] {
            out += '[';
            for (std::size_t i = 0; i < items.size(); ++i) {
                if (i != 0) out += ',';
                items[i].value().to_json(out);
            }
            out += ']';
        };
        if (s.empty()) {
            out += "{\"apiVersion\":\"v1\",\"items\":";
            add_items();
            out += ",\"kind\":\"List\",\"metadata\":{\"resourceVersion\":\"\"}}";
            continue;
        }
        if (s.size() < 2 || s[0].what != step::kind::field || s[0].name != "items") {
            if (s.size() == 1 && s[0].what == step::kind::field && s[0].name == "kind") out += "List";
            if (s.size() == 1 && s[0].what == step::kind::field && s[0].name == "apiVersion") out += "v1";
            if (s.size() == 1 && s[0].what == step::kind::field && s[0].name == "items") add_items();
            continue;
        }
        if (s[1].what == step::kind::all) {
            for (const auto& o : items) walk(o.value(), s, 2, out, first);
        } else if (s[1].what == step::kind::index) {
            const long size = static_cast<long>(items.size());
            const long i = s[1].index < 0 ? size + s[1].index : s[1].index;
            if (i >= 0 && i < size) walk(items[static_cast<std::size_t>(i)].value(), s, 2, out, first);
        }
    }
    return out;
}

} // namespace informerctl
