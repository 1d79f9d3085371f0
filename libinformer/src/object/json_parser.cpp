// The only unit that instantiates Boost.JSON's parser with a handler of ours.
#include "detail/json_parser.hpp"

#include "detail/utf8.hpp"

#include <boost/json/basic_parser_impl.hpp>
#include <boost/json/parser.hpp>
#include <boost/json/value.hpp>

#include <limits>

namespace informer::detail {

namespace {

namespace json = boost::json;

/// Takes one object, of whatever content.
class judge {
public:
    static constexpr std::size_t max_array_size = std::numeric_limits<std::size_t>::max();
    static constexpr std::size_t max_object_size = std::numeric_limits<std::size_t>::max();
    static constexpr std::size_t max_string_size = std::numeric_limits<std::size_t>::max();
    static constexpr std::size_t max_key_size = std::numeric_limits<std::size_t>::max();

    bool on_document_begin(error_code&) { return true; }
    bool on_document_end(error_code&) { return true; }
    bool on_object_begin(error_code&) {
        inside_ = true;
        return true;
    }
    bool on_object_end(std::size_t, error_code&) { return true; }
    bool on_array_begin(error_code& ec) { return value(ec); }
    bool on_array_end(std::size_t, error_code&) { return true; }
    bool on_key_part(std::string_view, std::size_t, error_code&) { return true; }
    bool on_key(std::string_view, std::size_t, error_code&) { return true; }
    bool on_string_part(std::string_view, std::size_t, error_code&) { return true; }
    bool on_string(std::string_view, std::size_t, error_code& ec) { return value(ec); }
    bool on_number_part(std::string_view, error_code&) { return true; }
    bool on_int64(std::int64_t, std::string_view, error_code& ec) { return value(ec); }
    bool on_uint64(std::uint64_t, std::string_view, error_code& ec) { return value(ec); }
    bool on_double(double, std::string_view, error_code& ec) { return value(ec); }
    bool on_bool(bool, error_code& ec) { return value(ec); }
    bool on_null(error_code& ec) { return value(ec); }
    bool on_comment_part(std::string_view, error_code&) { return true; }
    bool on_comment(std::string_view, error_code&) { return true; }

private:
    bool value(error_code& ec) const {
        if (!inside_) ec = make_error_code(errc::not_an_object);
        return inside_;
    }
    bool inside_ = false;
};

/// The parser reports a leading surrogate without its other half as any other syntax error, at the character that follows.
bool after_half_pair(std::string_view text, std::size_t offset) noexcept {
    if (offset < 6 || offset > text.size()) return false;
    std::string_view s = text.substr(offset - 6, 6);
    if (offset > 6 && text[offset - 1] == '\\') s = text.substr(offset - 7, 6);
    return s[0] == '\\' && s[1] == 'u' && (s[2] | 32) == 'd' &&
           (s[3] == '8' || s[3] == '9' || (s[3] | 32) == 'a' || (s[3] | 32) == 'b');
}

failure explain(const error_code& ec, std::string_view text, std::size_t offset) {
    const auto at = [](std::size_t n) { return " at byte " + std::to_string(n); };
    if (ec == make_error_code(errc::not_an_object))
        return failure(errc::not_an_object, "the document is no JSON object");
    if (ec == json::error::too_deep) return failure(errc::too_deep, "nested too deeply" + at(offset));
    if (ec == json::error::illegal_leading_surrogate || ec == json::error::illegal_trailing_surrogate ||
        (ec == json::error::syntax && after_half_pair(text, offset)))
        return failure(errc::bad_utf8, "half of a surrogate pair" + at(offset));
    if (ec != json::error::incomplete) {
        // The parser stops at what is no UTF-8, so that it begins near here; what was read before is in order.
        std::size_t near = offset < 8 ? 0 : offset - 8;
        while (near < offset && (static_cast<unsigned char>(text[near]) & 0xc0) == 0x80) ++near;
        const std::size_t bad = near + utf8_end(text.substr(near, 32));
        if (bad < std::min(text.size(), near + 28) && bad <= offset + 4)
            return failure(errc::bad_utf8, "invalid UTF-8" + at(bad));
    }
    return failure(errc::syntax_error, ec.message() + at(offset));
}

bool read(document_reader& to, const json::value& v, std::size_t depth_left, failure& f) {
    bool ok = true;
    switch (v.kind()) {
    case json::kind::null: ok = to.literal(null_handle); break;
    case json::kind::bool_: ok = to.literal(v.get_bool() ? true_handle : false_handle); break;
    case json::kind::int64: ok = to.integer(v.get_int64()); break;
    case json::kind::uint64: ok = to.integer(v.get_uint64()); break;
    case json::kind::double_: ok = to.floating(v.get_double()); break;
    case json::kind::string: ok = to.string(v.get_string()); break;
    case json::kind::array:
    case json::kind::object:
        if (depth_left == 0) {
            f = failure(errc::too_deep, "nested too deeply");
            return false;
        }
        if (const json::array* a = v.if_array()) {
            ok = to.begin_array();
            if (!ok) break;
            for (const json::value& element : *a)
                if (!read(to, element, depth_left - 1, f)) return false;
            to.end_array();
        } else {
            ok = to.begin_object();
            for (const auto& member : v.get_object()) {
                to.key(member.key());
                if (!read(to, member.value(), depth_left - 1, f)) return false;
            }
            to.end_object();
        }
    }
    if (!ok) f = failure(errc::not_an_object, "the document is no JSON object");
    return ok;
}

} // namespace

namespace {

/// Where to end a slice at `at` or soon behind it: not within a character, an escape or a literal, so that the parser finds
/// errors at the same bytes as without slices. Where there is no such place for long, anywhere.
std::size_t border(std::string_view text, std::size_t at) noexcept {
    static constexpr std::string_view literals = "truefalsn";
    const std::size_t last = std::min(at + 4096, text.size());
    for (std::size_t p = at; p < last; ++p) {
        const char before = text[p - 1];
        if (static_cast<unsigned char>(before) >= 0x80 || literals.find(before) != std::string_view::npos) continue;
        const std::size_t from = p < 12 ? 0 : p - 12; // a pair of surrogates
        if (text.substr(from, p - from).find('\\') == std::string_view::npos) return p;
    }
    return last == text.size() ? last : at;
}

} // namespace

struct fault_finder::impl {
    impl(std::string_view t, std::size_t max_depth) : text(t), parser(options(max_depth)) {}

    static json::parse_options options(std::size_t max_depth) {
        json::parse_options o;
        o.max_depth = max_depth;
        o.numbers = json::number_precision::none;
        return o;
    }
    const std::string_view text;
    json::basic_parser<judge> parser;
    std::size_t done = 0;
};

fault_finder::fault_finder(std::string_view text, std::size_t max_depth) : impl_(std::make_unique<impl>(text, max_depth)) {}
fault_finder::~fault_finder() = default;

bool fault_finder::look(std::size_t bytes, failure& f) {
    impl& i = *impl_;
    if (i.text.empty()) {
        f = failure(errc::syntax_error, "empty text");
        return true;
    }
    const std::size_t until = bytes < i.text.size() - i.done ? border(i.text, i.done + bytes) : i.text.size();
    error_code ec;
    i.done += i.parser.write_some(until != i.text.size(), i.text.data() + i.done, until - i.done, ec);
    if (!ec && i.done < until) ec = json::error::extra_data;
    if (!ec && until < i.text.size()) return false;
    f = explain(ec ? ec : json::error::syntax, i.text, i.done);
    return true;
}

failure fault_of(std::string_view text, std::size_t max_depth) {
    failure f;
    fault_finder finder(text, max_depth);
    while (!finder.look(text.size(), f)) {
    }
    return f;
}

bool read_value(document_reader& to, const json::value& v, std::size_t max_depth, failure& f) {
    return read(to, v, max_depth, f);
}

bool parse_transformed(json::value& to, std::string_view text, std::size_t max_depth, const transform& rewrite,
                       failure& f) {
    json::parse_options options;
    options.max_depth = max_depth;
    options.numbers = json::number_precision::precise;
    error_code ec;
    json::parser parser(json::storage_ptr(), options);
    const std::size_t end = parser.write_some(text.data(), text.size(), ec);
    if (!ec && end < text.size()) ec = json::error::extra_data;
    if (ec) {
        f = explain(ec, text, end);
        return false;
    }
    to = parser.release();
    if (!to.is_object()) {
        f = failure(errc::not_an_object, "the document is no JSON object");
        return false;
    }
    try {
        rewrite(to);
    } catch (const std::exception& e) {
        f = failure(errc::bad_configuration, std::string("the transform threw: ") + e.what());
    } catch (...) {
        f = failure(errc::bad_configuration, "the transform threw");
    }
    return !f;
}

} // namespace informer::detail
