// The only translation unit of this directory that instantiates Boost.JSON's parser with a handler of ours.

// How much of a string the parser gathers before it hands that part on. The default is 256 bytes except on x86: then
// long strings come in more parts, and at the end of a part an error in an escape is reported at another place than
// when the text comes in slices. (The parser is a template over our handler, so no other user's parser is affected.)
#if !defined(BOOST_JSON_STACK_BUFFER_SIZE)
#define BOOST_JSON_STACK_BUFFER_SIZE 4096
#endif

#include "detail/json_reader.hpp"

#include "detail/projection_trie.hpp"
#include "json_scan.hpp"
#include "root/utf8.hpp"

#include <boost/json/basic_parser_impl.hpp>
#include <boost/json/parser.hpp>
#include <boost/json/value.hpp>

#include <algorithm>
#include <limits>
#include <utility>

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
    std::string_view whole(std::string_view last) { return scratch_.empty() ? last : gathered(last); }
    // Rare cases have functions of their own, so that what the parser calls for each value is short.
    [[gnu::noinline]] std::string_view gathered(std::string_view last) {
        scratch_.append(last);
        return scratch_;
    }
    [[gnu::always_inline]] bool number(std::string_view s, error_code& ec) {
        const bool ok = to_.number(whole(s));
        scratch_.clear();
        return check(ok, ec);
    }
    static bool check(bool ok, error_code& ec) {
        if (!ok) [[unlikely]]
            refuse(ec);
        return ok;
    }
    [[gnu::noinline]] static void refuse(error_code& ec) { ec = make_error_code(errc::not_an_object); }
    document_reader& to_;
    std::string& scratch_;
};

/// The parser reports a leading surrogate without its other half like any syntax error, at the character that follows.
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
        // The parser stops at invalid UTF-8, so the bad bytes begin near here; what was read before them is valid.
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

/// A slice that ended here might end in an escape (the longest is a pair of surrogates) or right behind one. There the
/// parser reports an error at another place than if the text went on.
bool is_soon_behind_escape(std::string_view text, std::size_t at) noexcept {
    const std::size_t from = at < 12 ? 0 : at - 12;
    return text.substr(from, at - from).find('\\') != std::string_view::npos;
}

/// Within a character, or within the digits of an escape. If Boost.JSON 1.83 goes on from there, it may write beyond
/// its buffer, because the character adds more bytes to the buffer than the rest of it has in the text
/// (boostorg/json#876).
bool is_within_character(std::string_view text, std::size_t p) noexcept {
    if ((static_cast<unsigned char>(text[p]) & 0xc0) == 0x80) return true;
    for (std::size_t k = 2; k <= 4 && k < p; ++k)
        if (text[p - k] == 'u' && text[p - k - 1] == '\\') return true;
    return false;
}

/// Where to end a slice, at `at` or soon behind it: not within a character, an escape or a literal, so that the parser
/// finds errors at the same bytes as without slices. If there is no such place for long, anywhere but within a
/// character.
std::size_t border(std::string_view text, std::size_t at) noexcept {
    static constexpr std::string_view literals = "truefalsn";
    const std::size_t last = std::min(at + 4096, text.size());
    for (std::size_t p = at; p < last; ++p) {
        const char before = text[p - 1];
        if (static_cast<unsigned char>(before) >= 0x80 || literals.find(before) != std::string_view::npos) continue;
        if (!is_soon_behind_escape(text, p)) return p;
    }
    if (last == text.size()) return last;
    for (std::size_t p = at; p < last; ++p)
        if (!is_within_character(text, p)) return p;
    return at; // only continuation bytes follow: the parser stops at the error
}

} // namespace

class parser_slices::parser {
public:
    parser(document_reader& to, std::size_t max_depth, std::string& gathered)
        : parser_(options(max_depth), to, gathered) {}
    /// Reads `text` from `done` to `until`; returns where it stopped.
    std::size_t read(std::string_view text, std::size_t done, std::size_t until, error_code& ec) {
        const std::size_t end = done + parser_.write_some(until < text.size(), text.data() + done, until - done, ec);
        if (!ec && end < until) ec = json::error::extra_data;
        return end;
    }

private:
    static json::parse_options options(std::size_t max_depth) {
        json::parse_options o;
        o.max_depth = max_depth;
        o.numbers = json::number_precision::none;
        return o;
    }
    json::basic_parser<sax_handler> parser_;
};

parser_slices::parser_slices(document_reader& to, std::string_view text, std::size_t max_depth)
    : text_(text), parser_(std::make_unique<parser>(to, max_depth, gathered_)) {}
parser_slices::~parser_slices() = default;

bool parser_slices::read(std::size_t bytes, failure& f) {
    if (text_.empty()) {
        f = failure(errc::syntax_error, "empty text");
        return true;
    }
    const std::size_t until = bytes < text_.size() - done_ ? border(text_, done_ + bytes) : text_.size();
    error_code ec;
    done_ = parser_->read(text_, done_, until, ec);
    if (ec) f = explain(ec, text_, done_);
    return ec || until == text_.size();
}

bool read_by_parser(document_reader& to, std::string_view text, std::size_t max_depth, failure& f) {
    parser_slices all(to, text, max_depth);
    f = failure();
    all.read(text.size(), f);
    return !f;
}

bool read_value(document_reader& to, const json::value& v, std::size_t max_depth, failure& f) {
    return read(to, v, max_depth, f);
}

namespace {

json::object* metadata_of(json::value& v) {
    json::object* const o = v.if_object();
    json::value* const metadata = o ? o->if_contains("metadata") : nullptr;
    return metadata ? metadata->if_object() : nullptr;
}

/// The server decides which object this is, and which state of it: a watch continues from that state, and deletions and
/// objects that cannot be used are identified by the key in the text.
void keep_identity(json::value& v, const json::object& was) {
    json::object* const metadata = metadata_of(v);
    if (!metadata) return; // the object will be refused
    for (const std::string_view member : identity_members) {
        if (const json::value* const one = was.if_contains(member))
            (*metadata)[member] = *one;
        else
            metadata->erase(member);
    }
}

} // namespace

bool parse_transformed(json::value& to, std::string_view text, const decode_options& decode, failure& f) {
    json::parse_options options;
    options.max_depth = decode.max_depth_;
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
    // The items of a list have no type, and those of a watch have one: the transform sees one as the other.
    json::object& whole = to.get_object();
    if (!decode.api_version_.empty()) whole.emplace("apiVersion", decode.api_version_); // if it is not there
    if (!decode.kind_.empty()) whole.emplace("kind", decode.kind_);
    json::object was;
    if (json::object* const metadata = metadata_of(to)) {
        if (const auto fields = metadata->find("managedFields");
            fields != metadata->end() && !decode.keep_managed_fields_)
            metadata->stable_erase(fields);
        for (const std::string_view member : identity_members)
            if (const json::value* const one = metadata->if_contains(member)) was.emplace(member, *one);
    }
    try {
        decode.transform_(to);
        keep_identity(to, was);
    } catch (const std::exception& e) {
        f = failure(errc::bad_configuration, std::string("the transform threw: ") + e.what());
    } catch (...) {
        f = failure(errc::bad_configuration, "the transform threw");
    }
    return !f;
}

} // namespace informer::detail
