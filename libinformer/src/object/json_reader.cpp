// The only unit of this room that instantiates Boost.JSON's parser with a handler of ours.

// How much of a string the parser gathers before it hands it on: 256 bytes but on x86, if not said. Then long strings come in more
// parts, and where one ends the place of an error in an escape is another than when the text comes in slices. (It is a template over
// our handler, so nobody else's is meant.)
#if !defined(BOOST_JSON_STACK_BUFFER_SIZE)
#define BOOST_JSON_STACK_BUFFER_SIZE 4096
#endif

#include "detail/json_reader.hpp"

#include "detail/projection_trie.hpp"
#include "detail/text_scan.hpp"
#include "json_scan.hpp"
#include "root/utf8.hpp"

#include <boost/json/basic_parser_impl.hpp>
#include <boost/json/parser.hpp>
#include <boost/json/value.hpp>

#include <cstring>
#include <limits>
#include <optional>
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
    bool on_null(error_code& ec) { return check(in_its_place_ ? put_text() : to_.literal(null_handle), ec); }
    bool on_comment_part(std::string_view, error_code&) { return true; }
    bool on_comment(std::string_view, error_code&) { return true; }

    /// Between two tokens: the null that comes next stands for this string.
    void next_is(std::string_view text) noexcept { in_its_place_ = text; }
    bool is_within_token() const noexcept { return !scratch_.empty(); }

private:
    [[gnu::noinline]] bool put_text() { return to_.string(*std::exchange(in_its_place_, std::nullopt)); }
    std::string_view whole(std::string_view last) { return scratch_.empty() ? last : gathered(last); }
    // What is rare stands apart: what the parser calls for each value is to be short.
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
        if (!ok) [[unlikely]] refuse(ec);
        return ok;
    }
    [[gnu::noinline]] static void refuse(error_code& ec) { ec = make_error_code(errc::not_an_object); }
    document_reader& to_;
    std::string& scratch_;
    std::optional<std::string_view> in_its_place_;
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

constexpr std::string_view managed_fields = "\"managedFields\"";

/// Where the next `"managedFields"` ends, or npos. Its F is a rare letter in JSON, and memchr is vectorised.
std::size_t find_managed_fields(std::string_view text, std::size_t from) noexcept {
    static constexpr std::size_t rare = managed_fields.find('F');
    while (from < text.size()) {
        const void* hit = std::memchr(text.data() + from, 'F', text.size() - from);
        if (!hit) break;
        const auto at = static_cast<std::size_t>(static_cast<const char*>(hit) - text.data());
        if (at >= rare && text.substr(at - rare, managed_fields.size()) == managed_fields)
            return at - rare + managed_fields.size();
        from = at + 1;
    }
    return std::string_view::npos;
}

/// The parser may have stopped in an escape, a pair of surrogates at the longest, or have just left it: there it tells another place
/// of an error than if it went on.
bool is_soon_behind_escape(std::string_view text, std::size_t at) noexcept {
    const std::size_t from = at < 12 ? 0 : at - 12;
    return text.substr(from, at - from).find('\\') != std::string_view::npos;
}

/// Text of several lines, JSON within JSON: a string with escapes that is a value.
class long_texts {
public:
    struct literal {
        std::size_t begin, end;
        bool behind_comma; ///< it may be a key
    };
    explicit long_texts(std::string_view text) noexcept : text_(text) {}

    /// The next one that begins in [from, until). Where the parser is in the middle of a string at `from`, or the text is no JSON, it
    /// may be something else.
    std::optional<literal> next(std::size_t from, std::size_t until) noexcept {
        looked_ = std::max(looked_, from);
        while (looked_ < until) {
            const void* const hit = std::memchr(text_.data() + looked_, '\\', until - looked_);
            if (!hit) break;
            const auto escape = static_cast<std::size_t>(static_cast<const char*>(hit) - text_.data());
            // Up to the first escape each quote begins a string or ends one.
            const std::size_t quote = text_.substr(looked_, escape - looked_).rfind('"');
            const std::size_t begin = looked_ + quote;
            looked_ = escape + 2;
            if (quote == std::string_view::npos) continue;
            const std::size_t last = std::min(text_.size(), begin + longest);
            const char* const end =
                escape < last ? string_end_not_plain(text_.data() + escape, text_.data() + last) : nullptr;
            if (!end) return stop();
            looked_ = static_cast<std::size_t>(end - text_.data());
            if (looked_ - escape < shortest) continue;
            const char c = before(begin);
            if (c == ':' || c == '[' || c == ',') return literal{begin, looked_, c == ','};
        }
        return std::nullopt;
    }
    /// There are none, or none that can be found.
    std::optional<literal> stop() noexcept {
        looked_ = text_.size();
        return std::nullopt;
    }

private:
    // To stop the parser and to start it costs as much as it takes for a hundred bytes. What is found is read in one step.
    static constexpr std::size_t shortest = 128, longest = 1024 * 1024;
    /// What comes before this byte but for white space; nothing where the parser should not stop.
    char before(std::size_t at) const noexcept {
        if (is_soon_behind_escape(text_, at)) return 0;
        while (at > 0 && is_space(text_[at - 1])) --at;
        return at > 0 ? text_[at - 1] : 0;
    }
    const std::string_view text_;
    std::size_t looked_ = 0; ///< up to here; outside of strings, or none of them was found
};

/// Where to end a slice at `at` or soon behind it: not within a character, an escape or a literal, so that the parser finds
/// errors at the same bytes as without slices. Where there is no such place for long, anywhere.
std::size_t border(std::string_view text, std::size_t at) noexcept {
    static constexpr std::string_view literals = "truefalsn";
    const std::size_t last = std::min(at + 4096, text.size());
    for (std::size_t p = at; p < last; ++p) {
        const char before = text[p - 1];
        if (static_cast<unsigned char>(before) >= 0x80 || literals.find(before) != std::string_view::npos) continue;
        if (!is_soon_behind_escape(text, p)) return p;
    }
    return last == text.size() ? last : at;
}

} // namespace

/// Reads one text, at once or in slices.
///
/// A third of an object is managedFields, with two thirds of its containers. They are cut out of the text: the parser reads
/// up to the key, which settles that it is the one of the metadata, is then told a null, and goes on behind the value.
/// The few tries suffice for real objects; more would make the parser stop and start all the time on text made for it.
///
/// From the first escape of a string on the parser goes byte by byte, some 18 instructions each. Long texts are cut out as well, each
/// where it is known that a value is to come, and if there is nothing wrong in it: the handler makes the string of a null.
class text_reader {
public:
    text_reader(document_reader& to, std::string_view text, std::size_t max_depth, std::string& scratch)
        : to_(to), text_(text), parser_(options(max_depth), to, scratch),
          tries_(to.skips_managed_fields() ? 4 : 0), texts_(text) {
        scratch.clear();
    }
    /// Reads to `until`, or a little further. True when the text is read, or cannot be.
    bool read(std::size_t until, failure& f) {
        const bool last = until == text_.size();
        error_code ec;
        if (!skipping_ && tries_ > 0) look_for_managed_fields(until, ec);
        if (skipping_ && !ec && !skip(until, ec)) return false;
        if (!ec && (done_ < until || last)) write(!last, until, ec);
        failed_ = ec.failed();
        if (failed_) f = explain(ec, text_, done_);
        return failed_ || last;
    }
    bool failed() const noexcept { return failed_; }
    std::size_t done() const noexcept { return skipping_ ? skipped_ : done_; }

private:
    static json::parse_options options(std::size_t max_depth) {
        json::parse_options o;
        o.max_depth = max_depth;
        o.numbers = json::number_precision::none;
        return o;
    }
    void write(bool more, std::size_t until, error_code& ec) {
        while (const auto text = texts_.next(done_, until)) {
            write_all(true, text->begin, ec);
            if (ec) return;
            const std::string_view literal = text_.substr(text->begin, text->end - text->begin);
            if (text->behind_comma && !to_.in_array()) continue;
            const bool is_value = !parser_.handler().is_within_token();
            const bool pays = literal.size() >= level_pays * to_.nodes().depth(); // each is left and entered again, twice
            const auto content = is_value && pays ? content_of(literal, to_.room()) : std::nullopt;
            if (content) {
                parser_.handler().next_is(*content);
                parser_.write_some(true, "null", 4, ec);
                done_ = text->end;
            } else {
                texts_.stop(); // if something is wrong the parser says what
            }
            if (ec) return;
        }
        if (done_ < until || !more) write_all(more, until, ec);
    }
    void write_all(bool more, std::size_t until, error_code& ec) {
        done_ += parser_.write_some(more, text_.data() + done_, until - done_, ec);
        if (!ec && done_ < until) ec = json::error::extra_data;
    }
    void look_for_managed_fields(std::size_t until, error_code& ec) {
        for (; !skipping_ && tries_ > 0 && !ec; --tries_) {
            looked_ = find_managed_fields(text_.substr(0, until + managed_fields.size() - 1), looked_);
            if (looked_ == std::string_view::npos) {
                looked_ = until;
                return;
            }
            write(true, looked_, ec);
            if (ec || !to_.at_skipped_managed_fields()) continue;
            tries_ = 1; // there is but one
            skipped_ = container_behind(looked_);
            if (skipped_ == std::string_view::npos) continue;
            skipping_ = scanner_.begin(text_[skipped_]);
            closing_ = text_[skipped_] == '[' ? ']' : '}';
        }
    }
    /// False: not done, or in vain: what has no end, or another one than it should, the parser sees after all.
    bool skip(std::size_t until, error_code& ec) {
        if (skipped_ >= until) return false;
        const char* const end = scanner_.scan(text_.data() + skipped_, text_.data() + until);
        skipped_ = static_cast<std::size_t>(end - text_.data());
        if (!scanner_.complete() && until < text_.size()) return false;
        skipping_ = false;
        if (!scanner_.complete() || end[-1] != closing_) return false;
        parser_.write_some(true, ":null", 5, ec);
        done_ = skipped_;
        return true;
    }
    /// Where the object or array begins whose key ends at `from`, or npos if something else is there.
    std::size_t container_behind(std::size_t from) const noexcept {
        const std::size_t end = std::min(text_.size(), from + 4096);
        const auto space = [&] {
            while (from < end && is_space(text_[from])) ++from;
        };
        space();
        if (from == end || text_[from++] != ':') return std::string_view::npos;
        space();
        return from < end && (text_[from] == '[' || text_[from] == '{') ? from : std::string_view::npos;
    }

    static constexpr std::size_t level_pays = 16; // bytes

    document_reader& to_;
    const std::string_view text_;
    json::basic_parser<sax_handler> parser_;
    int tries_;
    long_texts texts_;
    std::size_t done_ = 0;   ///< the parser's place
    std::size_t looked_ = 0; ///< up to here for the key
    bool failed_ = false, skipping_ = false;
    char closing_ = ' ';
    std::size_t skipped_ = 0; ///< up to here, while skipping
    value_scanner scanner_;
};

bool read_json(document_reader& to, std::string_view text, std::size_t max_depth, std::string& scratch, failure& f) {
    if (text.empty()) {
        f = failure(errc::syntax_error, "empty text");
        return false;
    }
    text_reader reader(to, text, max_depth, scratch);
    while (!reader.read(text.size(), f)) {
    }
    return !reader.failed();
}

json_slices::json_slices(document_reader& to, std::string_view text, std::size_t max_depth)
    : text_(text), reader_(std::make_unique<text_reader>(to, text, max_depth, scratch_)) {}
json_slices::~json_slices() = default;

bool json_slices::read(std::size_t bytes, failure& f) {
    if (text_.empty()) {
        f = failure(errc::syntax_error, "empty text");
        return true;
    }
    const std::size_t done = reader_->done();
    return reader_->read(bytes < text_.size() - done ? border(text_, done + bytes) : text_.size(), f);
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

/// Which object it is, and which state of it, is the server's to say: a watch goes on from that state, and a deletion and what
/// cannot be used are known by the key of the text.
void keep_identity(json::value& v, const json::object& was) {
    json::object* const metadata = metadata_of(v);
    if (!metadata) return; // it is refused
    for (const std::string_view member : identity_members) {
        if (const json::value* const one = was.if_contains(member))
            (*metadata)[member] = *one;
        else
            metadata->erase(member);
    }
}

} // namespace

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
    json::object was;
    if (const json::object* const metadata = metadata_of(to))
        for (const std::string_view member : identity_members)
            if (const json::value* const one = metadata->if_contains(member)) was.emplace(member, *one);
    try {
        rewrite(to);
        keep_identity(to, was);
    } catch (const std::exception& e) {
        f = failure(errc::bad_configuration, std::string("the transform threw: ") + e.what());
    } catch (...) {
        f = failure(errc::bad_configuration, "the transform threw");
    }
    return !f;
}

} // namespace informer::detail
