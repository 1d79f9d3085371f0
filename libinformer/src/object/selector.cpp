#include <informer/object/selector.hpp>

#include "object/label_syntax.hpp"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <tuple>
#include <utility>

namespace informer {

namespace {

using op = label_selector::op;

/// What is wrong, and at which byte.
struct complaint {
    std::size_t position = 0;
    std::string text;
};

failure bad_selector(std::string_view kind, std::string_view whole, const complaint& c) {
    std::string s(kind);
    s.append(" selector \"").append(whole).append("\", position ").append(std::to_string(c.position));
    return failure(errc::bad_selector, s.append(": ").append(c.text));
}

std::optional<std::int64_t> to_integer(std::string_view s) noexcept {
    if (!s.empty() && s.front() == '+') { // strconv.ParseInt takes a plus sign, from_chars does not
        s.remove_prefix(1);
        if (!s.empty() && s.front() == '-') return std::nullopt;
    }
    std::int64_t n = 0;
    const auto [end, wrong] = std::from_chars(s.data(), s.data() + s.size(), n);
    if (wrong != std::errc() || end != s.data() + s.size()) return std::nullopt;
    return n;
}

enum class token { end, word, comma, open, close, bang, equals, double_equals, not_equals, greater, less, in, not_in };

struct lexeme {
    token kind = token::end;
    std::string_view text;
    std::size_t position = 0;
};

class lexer {
public:
    explicit lexer(std::string_view s) : text_(s) {}

    /// The next token without taking it. `in` and `notin` are operators only where an operator is expected.
    lexeme peek(bool operators = false) const {
        std::size_t from = at_;
        while (from < text_.size() && is_space(text_[from])) ++from;
        if (from == text_.size()) return make(token::end, from, 0);
        const std::string_view rest = text_.substr(from);
        if (rest.starts_with("==")) return make(token::double_equals, from, 2);
        if (rest.starts_with("!=")) return make(token::not_equals, from, 2);
        switch (rest.front()) {
        case ',': return make(token::comma, from, 1);
        case '(': return make(token::open, from, 1);
        case ')': return make(token::close, from, 1);
        case '!': return make(token::bang, from, 1);
        case '=': return make(token::equals, from, 1);
        case '>': return make(token::greater, from, 1);
        case '<': return make(token::less, from, 1);
        default: break;
        }
        const auto size = std::min(rest.find_first_of("=!(),><\t\r\n "), rest.size());
        const std::string_view word = rest.substr(0, size);
        if (operators && word == "in") return make(token::in, from, size);
        if (operators && word == "notin") return make(token::not_in, from, size);
        return make(token::word, from, size);
    }
    lexeme take(bool operators = false) {
        const lexeme l = peek(operators);
        at_ = l.position + l.text.size();
        return l;
    }

private:
    static bool is_space(char c) noexcept { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }
    lexeme make(token kind, std::size_t from, std::size_t size) const {
        lexeme l;
        l.kind = kind;
        l.text = text_.substr(from, size);
        l.position = from;
        return l;
    }

    std::string_view text_;
    std::size_t at_ = 0;
};

/// The grammar of apimachinery's labels.Parse. Functions return false with `wrong` set.
class label_parser {
public:
    explicit label_parser(std::string_view s) : tokens_(s) {}

    bool parse(std::vector<label_selector::requirement>& to) {
        for (;;) {
            const lexeme first = tokens_.peek();
            if (first.kind == token::end) return true;
            if (first.kind != token::word && first.kind != token::bang) return expected(first, "a key, '!' or the end");
            if (!requirement(to.emplace_back())) return false;
            const lexeme after = tokens_.take();
            if (after.kind == token::end) return true;
            if (after.kind != token::comma) return expected(after, "',' or the end");
            const lexeme next = tokens_.peek();
            if (next.kind != token::word && next.kind != token::bang) return expected(next, "a key after ','");
        }
    }

    complaint wrong;

private:
    bool fail(std::size_t position, std::string text) {
        wrong.position = position;
        wrong.text = std::move(text);
        return false;
    }
    bool expected(const lexeme& found, std::string_view what) {
        std::string s = found.kind == token::end ? "found the end" : "found '" + std::string(found.text) + "'";
        return fail(found.position, s.append(", expected ").append(what));
    }

    bool requirement(label_selector::requirement& r) {
        lexeme key = tokens_.take();
        const bool absent = key.kind == token::bang;
        if (absent) key = tokens_.take();
        if (key.kind != token::word) return expected(key, "a key");
        if (!detail::is_label_key(key.text))
            return fail(key.position, "'" + std::string(key.text) + "' is no label key");
        r.key = key.text;
        r.operation = absent ? op::not_exists : op::exists;
        const lexeme after = tokens_.peek();
        if (absent || after.kind == token::end || after.kind == token::comma) return true;
        const lexeme sign = tokens_.take(true);
        switch (sign.kind) {
        case token::equals:
        case token::double_equals: r.operation = op::equals; break;
        case token::not_equals: r.operation = op::not_equals; break;
        case token::greater: r.operation = op::greater; break;
        case token::less: r.operation = op::less; break;
        case token::in: r.operation = op::in; return values(r);
        case token::not_in: r.operation = op::not_in; return values(r);
        default: return expected(sign, "=, ==, !=, in, notin, > or <");
        }
        return value(r);
    }

    bool value(label_selector::requirement& r) {
        const lexeme next = tokens_.peek();
        lexeme v;
        v.position = next.position;
        if (next.kind != token::end && next.kind != token::comma) {
            v = tokens_.take();
            if (v.kind != token::word) return expected(v, "a value");
        }
        if ((r.operation == op::greater || r.operation == op::less) && !to_integer(v.text))
            return fail(v.position, "'" + std::string(v.text) + "' is no integer");
        return add(r, v);
    }

    bool values(label_selector::requirement& r) {
        const lexeme open = tokens_.take();
        if (open.kind != token::open) return expected(open, "'('");
        // "()", "(,a)", "(a,)" and "(a,,b)" hold the empty value too.
        for (;;) {
            lexeme v = tokens_.peek();
            if (v.kind == token::word)
                tokens_.take();
            else if (v.kind == token::comma || v.kind == token::close)
                v.text = {};
            else
                return expected(v, "a value, ',' or ')'");
            if (!add(r, v)) return false;
            const lexeme after = tokens_.take();
            if (after.kind == token::close) break;
            if (after.kind != token::comma) return expected(after, "',' or ')'");
        }
        std::sort(r.values.begin(), r.values.end());
        r.values.erase(std::unique(r.values.begin(), r.values.end()), r.values.end());
        return true;
    }

    bool add(label_selector::requirement& r, const lexeme& v) {
        if (!detail::is_label_value(v.text)) return fail(v.position, "'" + std::string(v.text) + "' is no label value");
        r.values.emplace_back(v.text);
        return true;
    }

    lexer tokens_;
};

bool holds(const label_selector::requirement& r, std::optional<std::string_view> found) {
    const auto listed = [&r](std::string_view v) {
        return std::find(r.values.begin(), r.values.end(), v) != r.values.end();
    };
    switch (r.operation) {
    case op::exists: return found.has_value();
    case op::not_exists: return !found;
    case op::equals:
    case op::in: return found && listed(*found);
    case op::not_equals:
    case op::not_in: return !found || !listed(*found);
    case op::greater:
    case op::less: break;
    }
    const auto have = found ? to_integer(*found) : std::nullopt;
    const auto limit = r.values.empty() ? std::nullopt : to_integer(r.values.front());
    if (!have || !limit) return false;
    return r.operation == op::greater ? *have > *limit : *have < *limit;
}

std::string to_text(const label_selector::requirement& r) {
    const auto single = [&r](std::string_view sign) {
        return std::string(r.key).append(sign).append(r.values.empty() ? std::string_view() : r.values.front());
    };
    std::string s;
    switch (r.operation) {
    case op::exists: return r.key;
    case op::not_exists: return "!" + r.key;
    case op::equals: return single("=");
    case op::not_equals: return single("!=");
    case op::greater: return single(">");
    case op::less: return single("<");
    case op::in: s = r.key + " in ("; break;
    case op::not_in: s = r.key + " notin ("; break;
    }
    for (std::size_t i = 0; i < r.values.size(); ++i) s.append(i == 0 ? "" : ",").append(r.values[i]);
    return s += ')';
}

template <class Requirements, class Print>
std::string joined(const Requirements& requirements, Print print) {
    std::string s;
    for (const auto& r : requirements) {
        if (!s.empty()) s += ',';
        s += print(r);
    }
    return s;
}

} // namespace

label_selector::label_selector(std::vector<requirement> all) : requirements_(std::move(all)) {
    std::sort(requirements_.begin(), requirements_.end(), [](const requirement& a, const requirement& b) {
        return std::tie(a.key, a.operation, a.values) < std::tie(b.key, b.operation, b.values);
    });
}

label_selector label_selector::parse(std::string_view s, failure& f) {
    f = failure();
    std::vector<requirement> all;
    label_parser parser(s);
    if (parser.parse(all)) return label_selector(std::move(all));
    f = bad_selector("label", s, parser.wrong);
    return label_selector();
}

label_selector label_selector::parse(std::string_view s) {
    failure f;
    auto selector = parse(s, f);
    throw_on(f);
    return selector;
}

bool label_selector::matches(const selector_lookup& lookup) const {
    return std::all_of(requirements_.begin(), requirements_.end(),
                       [&lookup](const requirement& r) { return holds(r, lookup(r.key)); });
}

bool label_selector::matches_labels(const value& labels) const {
    return std::all_of(requirements_.begin(), requirements_.end(), [&labels](const requirement& r) {
        const value v = labels[r.key];
        if (!v.is_string()) return holds(r, std::nullopt);
        const text t = v.as_string();
        return holds(r, t.view());
    });
}

bool label_selector::matches(const object& o) const {
    return requirements_.empty() || matches_labels(o.meta().labels());
}

std::string label_selector::str() const {
    return joined(requirements_, to_text);
}

// ---- fields ----

namespace {

// A comma separates terms unless there is a backslash before it.
std::size_t end_of_term(std::string_view s, std::size_t from) noexcept {
    for (; from < s.size() && s[from] != ','; ++from)
        if (s[from] == '\\' && from + 1 < s.size()) ++from;
    return std::min(from, s.size());
}

bool unescape_value(std::string_view s, std::size_t position, std::string& to, complaint& wrong) {
    for (std::size_t i = 0; i < s.size(); ++i) {
        char c = s[i];
        wrong.position = position + i;
        if (c == '\\') {
            if (++i == s.size()) {
                wrong.text = "a backslash ends the value";
                return false;
            }
            c = s[i];
            if (c != '\\' && c != ',' && c != '=') {
                wrong.text = std::string("'\\") + c + "' is no escape; there are \\\\, \\, and \\=";
                return false;
            }
        } else if (c == '=') {
            wrong.text = "'=' in a value needs a backslash";
            return false;
        }
        to += c;
    }
    return true;
}

bool parse_term(std::string_view term, std::size_t position, field_selector::requirement& to, complaint& wrong) {
    std::size_t at = 0;
    const auto is_sign = [&] { return term[at] == '=' || term.substr(at, 2) == "!="; };
    while (at < term.size() && !is_sign()) ++at;
    wrong.position = position;
    if (at == term.size()) {
        wrong.text = "'" + std::string(term) + "' has no =, == or !=";
        return false;
    }
    to.path = term.substr(0, at);
    to.equal = term[at] == '=';
    const std::size_t sign = term.substr(at, 2) == "==" || !to.equal ? 2 : 1;
    return unescape_value(term.substr(at + sign), position + at + sign, to.value, wrong);
}

std::string to_text(const field_selector::requirement& r) {
    std::string s = r.path + (r.equal ? "=" : "!=");
    for (const char c : r.value) {
        if (c == '\\' || c == ',' || c == '=') s += '\\';
        s += c;
    }
    return s;
}

std::string scalar_text(const value& v) {
    if (v.is_string()) return v.as_string().str();
    if (v.kind() == value_kind::boolean) return v.as_bool() ? "true" : "false";
    if (v.is_number()) return v.number_text();
    return std::string();
}

} // namespace

field_selector field_selector::parse(std::string_view s, failure& f) {
    f = failure();
    field_selector selector;
    complaint wrong;
    for (std::size_t from = 0; from < s.size();) {
        const std::size_t end = end_of_term(s, from);
        // Empty terms are ignored, as in apimachinery.
        if (end != from &&
            !parse_term(s.substr(from, end - from), from, selector.requirements_.emplace_back(), wrong)) {
            f = bad_selector("field", s, wrong);
            return field_selector();
        }
        from = end + 1;
    }
    const auto order = [](const requirement& a, const requirement& b) {
        return std::tie(a.path, a.equal, a.value) < std::tie(b.path, b.equal, b.value);
    };
    std::sort(selector.requirements_.begin(), selector.requirements_.end(), order);
    return selector;
}

field_selector field_selector::parse(std::string_view s) {
    failure f;
    auto selector = parse(s, f);
    throw_on(f);
    return selector;
}

bool field_selector::matches(const selector_lookup& lookup) const {
    return std::all_of(requirements_.begin(), requirements_.end(), [&lookup](const requirement& r) {
        return (lookup(r.path).value_or(std::string()) == r.value) == r.equal;
    });
}

bool field_selector::matches(const object& o) const {
    if (requirements_.empty()) return true;
    const auto root = o.value();
    return matches([root](std::string_view path) -> std::optional<std::string> {
        auto at = root;
        for (;;) {
            const auto dot = path.find('.');
            at = at[path.substr(0, dot)];
            if (dot == std::string_view::npos) break;
            path.remove_prefix(dot + 1);
        }
        return scalar_text(at);
    });
}

std::string field_selector::str() const {
    return joined(requirements_, [](const requirement& r) { return to_text(r); });
}

} // namespace informer
