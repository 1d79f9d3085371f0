// The only unit that instantiates Boost.JSON's parser with a handler of ours.
#include "detail/json_reader.hpp"

#include "detail/utf8.hpp"
#include "json_scan.hpp"

#include <boost/json/basic_parser_impl.hpp>
#include <boost/json/parser.hpp>
#include <boost/json/value.hpp>

#include <cstring>
#include <limits>

namespace informer::detail {

namespace {

namespace json = boost::json;

class sax_handler {
public:
    static constexpr std::size_t max_array_size = std::numeric_limits<std::size_t>::max();
    static constexpr std::size_t max_object_size = std::numeric_limits<std::size_t>::max();
    static constexpr std::size_t max_string_size = std::numeric_limits<std::size_t>::max();
    static constexpr std::size_t max_key_size = std::numeric_limits<std::size_t>::max();

    sax_handler(document_reader& to, std::string& scratch) : to_(to), scratch_(scratch) {}

    bool on_document_begin(error_code&) { return true; }
    bool on_document_end(error_code&) { return true; }
    bool on_object_begin(error_code& ec) { return check(to_.begin_object(), ec); }
    bool on_object_end(std::size_t, error_code&) {
        to_.end_object();
        return true;
    }
    bool on_array_begin(error_code& ec) { return check(to_.begin_array(), ec); }
    bool on_array_end(std::size_t, error_code&) {
        to_.end_array();
        return true;
    }
    bool on_key_part(std::string_view s, std::size_t, error_code&) {
        scratch_.append(s);
        return true;
    }
    bool on_key(std::string_view s, std::size_t, error_code&) {
        to_.key(whole(s));
        scratch_.clear();
        return true;
    }
    bool on_string_part(std::string_view s, std::size_t, error_code&) {
        scratch_.append(s);
        return true;
    }
    bool on_string(std::string_view s, std::size_t, error_code& ec) {
        const bool ok = to_.string(whole(s));
        scratch_.clear();
        return check(ok, ec);
    }
    bool on_number_part(std::string_view s, error_code&) {
        scratch_.append(s);
        return true;
    }
    bool on_int64(std::int64_t, std::string_view s, error_code& ec) { return number(s, ec); }
    bool on_uint64(std::uint64_t, std::string_view s, error_code& ec) { return number(s, ec); }
    bool on_double(double, std::string_view s, error_code& ec) { return number(s, ec); }
    bool on_bool(bool b, error_code& ec) { return check(to_.literal(b ? true_handle : false_handle), ec); }
    bool on_null(error_code& ec) { return check(to_.literal(null_handle), ec); }
    bool on_comment_part(std::string_view, error_code&) { return true; }
    bool on_comment(std::string_view, error_code&) { return true; }

private:
    std::string_view whole(std::string_view last) {
        if (scratch_.empty()) return last;
        scratch_.append(last);
        return scratch_;
    }
    bool number(std::string_view s, error_code& ec) {
        const bool ok = to_.number(whole(s));
        scratch_.clear();
        return check(ok, ec);
    }
    static bool check(bool ok, error_code& ec) {
        if (!ok) ec = make_error_code(errc::not_an_object);
        return ok;
    }
    document_reader& to_;
    std::string& scratch_;
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
        const std::size_t bad = utf8_end(text);
        if (bad < text.size() && bad <= offset + 4) return failure(errc::bad_utf8, "invalid UTF-8" + at(bad));
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

/// Where the next `"managedFields"` ends, or npos. Its F is a rare letter in JSON, and memchr is vectorised.
std::size_t find_managed_fields(std::string_view text, std::size_t from) noexcept {
    static constexpr std::string_view name = "\"managedFields\"";
    static constexpr std::size_t rare = name.find('F');
    while (from < text.size()) {
        const void* hit = std::memchr(text.data() + from, 'F', text.size() - from);
        if (!hit) break;
        const auto at = static_cast<std::size_t>(static_cast<const char*>(hit) - text.data());
        if (at >= rare && text.substr(at - rare, name.size()) == name) return at - rare + name.size();
        from = at + 1;
    }
    return std::string_view::npos;
}

/// Where the object or array behind the colon at `from` ends, or npos if something else is there.
std::size_t end_of_container(std::string_view text, std::size_t from) noexcept {
    const auto space = [&] {
        while (from < text.size() && is_space(text[from])) ++from;
    };
    space();
    if (from == text.size() || text[from++] != ':') return std::string_view::npos;
    space();
    if (from == text.size() || (text[from] != '[' && text[from] != '{')) return std::string_view::npos;
    value_scanner scanner;
    scanner.begin(text[from]);
    const char* end = scanner.scan(text.data() + from, text.data() + text.size());
    const char closing = text[from] == '[' ? ']' : '}';
    return scanner.complete() && end[-1] == closing ? static_cast<std::size_t>(end - text.data())
                                                    : std::string_view::npos;
}

} // namespace

bool read_json(document_reader& to, std::string_view text, std::size_t max_depth, std::string& scratch, failure& f) {
    scratch.clear();
    if (text.empty()) {
        f = failure(errc::syntax_error, "empty text");
        return false;
    }
    json::parse_options options;
    options.max_depth = max_depth;
    options.numbers = json::number_precision::none;
    json::basic_parser<sax_handler> parser(options, to, scratch);
    error_code ec;
    std::size_t done = 0;
    // A third of an object is managedFields, with two thirds of its containers. They are cut out of the text: the parser reads
    // up to the key, which settles that it is the one of the metadata, is then told a null, and goes on behind the value.
    // The few tries suffice for real objects; more would make the parser stop and start all the time on text made for it.
    if (to.skips_managed_fields()) {
        std::size_t key_end = 0;
        for (int tries = 4; tries > 0 && !ec; --tries) {
            key_end = find_managed_fields(text, key_end);
            if (key_end == std::string_view::npos) break;
            done += parser.write_some(true, text.data() + done, key_end - done, ec);
            if (ec || !to.at_skipped_managed_fields()) continue;
            const std::size_t value_end = end_of_container(text, key_end);
            if (value_end != std::string_view::npos) {
                parser.write_some(true, ":null", 5, ec);
                done = value_end;
            }
            break;
        }
    }
    if (!ec) done += parser.write_some(false, text.data() + done, text.size() - done, ec);
    if (!ec && done < text.size()) ec = json::error::extra_data;
    if (ec) f = explain(ec, text, done);
    return !ec;
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
