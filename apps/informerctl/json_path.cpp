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

/// Reads an index, or a slice "begin:end:stride", of which each part may be absent; moves `i` past it.
bool read_elements(std::string_view s, std::size_t& i, json_path_step& into) {
    std::optional<long>* const parts[] = {&into.begin, &into.end, &into.stride};
    std::size_t colons = 0;
    for (;;) {
        long number = 0;
        const char* const begin = s.data() + i;
        const auto [end, ec] = std::from_chars(begin, s.data() + s.size(), number);
        if (ec == std::errc::result_out_of_range) return false;
        if (ec == std::errc()) *parts[colons] = number;
        i += static_cast<std::size_t>(end - begin);
        if (i == s.size() || s[i] != ':' || colons == 2) break;
        ++colons;
        ++i;
    }
    into.what = colons == 0 ? json_path_step::kind::index : json_path_step::kind::slice;
    return colons != 0 || into.begin;
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
                const std::size_t begin = i;
                if (!read_elements(s, i, st)) {
                    why = at_offset("expected an index, a slice, * or a quoted key", at + begin);
                    return false;
                }
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

using step = json_path_step;

/// Which elements a step chooses.
struct range {
    long begin = 0, end = 0, stride = 1;
};

/// Finds those of a list of this length, by kubectl's rules: from the end if negative, and never past an end of the
/// list.
bool choose(const step& s, long length, range& r, std::string& why) {
    const auto none = [&](long index) {
        why = "array index out of bounds: index " + std::to_string(index) + ", length " + std::to_string(length);
        return false;
    };
    const auto from_end = [&](long i) { return i < 0 ? i + length : i; };
    if (s.what == step::kind::all) {
        r.end = length;
        return true;
    }
    r.begin = from_end(s.begin.value_or(0));
    const bool is_slice = s.what == step::kind::slice;
    if (is_slice) {
        r.end = from_end(s.end.value_or(length));
        if (r.begin == r.end) return true; // nothing is chosen, so nothing can be missing
    }
    if (r.begin < 0 || r.begin >= length) return none(r.begin);
    if (!is_slice) {
        r.end = r.begin + 1;
        return true;
    }
    if (r.end < 0 || r.end > length) return none(r.end - 1);
    if (r.begin > r.end) {
        why = "starting index " + std::to_string(r.begin) + " is greater than ending index " + std::to_string(r.end);
        return false;
    }
    r.stride = s.stride.value_or(1);
    if (r.stride <= 0) why = "step must be > 0";
    return r.stride > 0;
}

/// Calls `f` with the numbers of the elements that a step chooses, until it returns false. False also for a step that
/// chooses what is not there.
template <class F>
bool each(const step& s, std::size_t length, std::string& why, F f) {
    range r;
    if (!choose(s, static_cast<long>(length), r, why)) return false;
    for (long i = r.begin; i < r.end; i = r.stride < r.end - i ? i + r.stride : r.end)
        if (!f(static_cast<std::size_t>(i))) return false;
    return true;
}

/// The results of one path, on the way out.
struct results {
    std::string text;
    bool first = true;
};

bool walk(const value& v, const std::vector<step>& steps, std::size_t from, results& out, std::string& why) {
    if (!v.exists()) return true;
    if (from == steps.size()) {
        if (!out.first) out.text += ' ';
        out.first = false;
        out.text += print(v);
        return true;
    }
    const auto& s = steps[from];
    if (s.what == step::kind::field) return walk(v[s.name], steps, from + 1, out, why);
    if (v.is_array())
        return each(s, v.size(), why, [&](std::size_t i) { return walk(v[i], steps, from + 1, out, why); });
    if (s.what == step::kind::all && v.is_object()) {
        for (const auto m : v.members())
            if (!walk(m.value, steps, from + 1, out, why)) return false;
    }
    return true;
}

} // namespace

bool json_path::evaluate(const informer::object& o, const taker& to, std::string& why) const {
    for (const auto& p : pieces_) {
        results out;
        if (p.is_path && !walk(o.value(), p.steps, 0, out, why)) return false;
        if (!to(p.is_path ? out.text : p.literal)) break;
    }
    return true;
}

bool json_path::evaluate(const std::vector<informer::object>& items, const taker& to, std::string& why) const {
    std::string text;
    const auto hand_over = [&] {
        const bool more = to(text);
        text.clear();
        return more;
    };
    const auto add_items = [&] {
        text += '[';
        for (std::size_t i = 0; i < items.size(); ++i) {
            if (i != 0) text += ',';
            items[i].value().to_json(text);
            if (!hand_over()) return false;
        }
        text += ']';
        return true;
    };
    for (const auto& p : pieces_) {
        const auto& s = p.steps;
        const auto is = [&s](std::string_view member) {
            return s.size() == 1 && s[0].what == step::kind::field && s[0].name == member;
        };
        bool more = true;
        if (!p.is_path) {
            text += p.literal;
        } else if (s.empty()) {
            text += "{\"apiVersion\":\"v1\",\"items\":";
            more = add_items();
            text += ",\"kind\":\"List\",\"metadata\":{\"resourceVersion\":\"\"}}";
        } else if (is("kind")) {
            text += "List";
        } else if (is("apiVersion")) {
            text += "v1";
        } else if (is("items")) {
            more = add_items();
        } else if (s.size() > 1 && s[0].what == step::kind::field && s[0].name == "items" &&
                   s[1].what != step::kind::field) {
            results out;
            more = each(s[1], items.size(), why, [&](std::size_t i) {
                const bool good = walk(items[i].value(), s, 2, out, why);
                text.swap(out.text);
                return good && hand_over();
            });
        }
        if (!why.empty()) return false;
        if (!more || !hand_over()) break;
    }
    return true;
}

} // namespace informerctl
