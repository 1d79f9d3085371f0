#include <informer/object/value.hpp>

#include "detail/reading.hpp"

namespace informer {

using namespace detail;

namespace detail {

void append_quoted(std::string_view s, std::string& to) {
    static constexpr char hex_digits[] = "0123456789abcdef";
    to += '"';
    std::size_t plain = 0;
    for (std::size_t i = 0; i < s.size(); ++i) {
        const auto c = static_cast<unsigned char>(s[i]);
        if (c >= 0x20 && c != '"' && c != '\\') continue;
        to.append(s, plain, i - plain);
        plain = i + 1;
        to += '\\';
        switch (c) {
        case '"': to += '"'; break;
        case '\\': to += '\\'; break;
        case '\b': to += 'b'; break;
        case '\f': to += 'f'; break;
        case '\n': to += 'n'; break;
        case '\r': to += 'r'; break;
        case '\t': to += 't'; break;
        default:
            to += "u00";
            to += hex_digits[c >> 4];
            to += hex_digits[c & 15];
        }
    }
    to.append(s, plain, std::string_view::npos);
    to += '"';
}

} // namespace detail

namespace {

class writer {
public:
    writer(const detail::generation* g, std::string& to, int indent) : generation_(g), to_(to), indent_(indent) {}

    void write(handle h, int level) {
        if (is_node(h)) {
            const std::uint32_t* n = generation_->node(h);
            if (header_is_object(*n)) return container(h, '{', '}', level);
            switch (header_kind(*n)) {
            case node_kind::array: return container(h, '[', ']', level);
            case node_kind::string: return append_quoted(node_text(n), to_);
            case node_kind::uuid: return append_text(h);
            default: return append_number(generation_, h, to_);
            }
        }
        if (is_timestamp(h)) return append_text(h);
        if (is_small_string(h)) return string(h);
        if (is_small_int(h)) return append_number(generation_, h, to_);
        switch (h) {
        case false_handle: to_ += "false"; break;
        case true_handle: to_ += "true"; break;
        case empty_object_handle: to_ += "{}"; break;
        case empty_array_handle: to_ += "[]"; break;
        default: to_ += "null";
        }
    }

private:
    void string(handle h) {
        const text t = string_of(generation_, h);
        append_quoted(t.view(), to_);
    }
    void append_text(handle h) { // nothing to escape
        to_ += '"';
        to_ += string_of(generation_, h);
        to_ += '"';
    }
    void container(handle h, char open, char close, int level) {
        const children c = children_of(generation_, h);
        to_ += open;
        for (std::uint32_t i = 0; i < c.n; ++i) {
            if (i > 0) to_ += ',';
            new_line(level + 1);
            if (c.keys) {
                string(c.keys[i]);
                to_ += ':';
                if (indent_ >= 0) to_ += ' ';
            }
            write(c.values[i], level + 1);
        }
        new_line(level);
        to_ += close;
    }
    void new_line(int level) {
        if (indent_ < 0) return;
        to_ += '\n';
        to_.append(static_cast<std::size_t>(indent_) * static_cast<std::size_t>(level), ' ');
    }
    const detail::generation* generation_;
    std::string& to_;
    int indent_; ///< negative: compact
};

} // namespace

void value::to_json(std::string& append_to) const {
    writer(generation_, append_to, -1).write(handle_, 0);
}

std::string value::to_json() const {
    std::string s;
    to_json(s);
    return s;
}

std::ostream& operator<<(std::ostream& o, const value& v) {
    return v.exists() ? o << v.to_json() : o;
}

std::string value::to_pretty_json(int indent) const {
    std::string s;
    writer(generation_, s, indent < 0 ? 0 : indent).write(handle_, 0);
    return s;
}

} // namespace informer
