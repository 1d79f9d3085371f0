#include "etcd/wire.hpp"

#include "root/base64.hpp"

#include <boost/json/basic_parser_impl.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <utility>
#include <vector>

namespace informer::etcd::detail {

using informer::detail::base64_decoder;

namespace json = boost::json;

namespace {

enum class place : std::uint8_t { outside, root, body, header, kvs, events, event, pair, error, ignored };
enum class shape : std::uint8_t { object, array, boolean, integer, bytes, text };

constexpr std::size_t longest_text = 4096; // of a text for messages; the rest is cut
constexpr std::size_t longest_name = 64;   // of member names; ours are shorter

struct field {
    place in;
    std::string_view name;
    shape is;
    place then = place::ignored; ///< where the parser is inside of it
};

constexpr std::array fields = {
    field{place::pair, "key", shape::bytes},
    field{place::pair, "create_revision", shape::integer},
    field{place::pair, "mod_revision", shape::integer},
    field{place::pair, "version", shape::integer},
    field{place::pair, "value", shape::bytes},
    field{place::event, "kv", shape::object, place::pair},
    field{place::event, "prev_kv", shape::object, place::pair},
    field{place::event, "type", shape::text},
    field{place::root, "result", shape::object, place::body},
    field{place::root, "error", shape::object, place::error},
    field{place::error, "message", shape::text},
    field{place::error, "code", shape::integer},
    field{place::error, "grpc_code", shape::integer},
    field{place::error, "http_code", shape::integer},
    field{place::header, "revision", shape::integer},
    field{place::header, "cluster_id", shape::text},
    field{place::body, "header", shape::object, place::header},
    field{place::body, "kvs", shape::array, place::kvs},
    field{place::body, "events", shape::array, place::events},
    field{place::body, "more", shape::boolean},
    field{place::body, "count", shape::integer},
    field{place::body, "created", shape::boolean},
    field{place::body, "canceled", shape::boolean},
    field{place::body, "fragment", shape::boolean},
    field{place::body, "compact_revision", shape::integer},
    field{place::body, "cancel_reason", shape::text},
};

constexpr std::string_view name_of(shape s) {
    switch (s) {
    case shape::object: return "object";
    case shape::array: return "array";
    case shape::boolean: return "boolean";
    case shape::integer: return "integer";
    case shape::bytes: return "base64";
    case shape::text: break;
    }
    return "string";
}

struct item {
    bool is_message = false;
    entry e;
    message m;
};

class handler {
public:
    static constexpr std::size_t max_array_size = std::numeric_limits<std::size_t>::max();
    static constexpr std::size_t max_object_size = std::numeric_limits<std::size_t>::max();
    static constexpr std::size_t max_string_size = std::numeric_limits<std::size_t>::max();
    static constexpr std::size_t max_key_size = std::numeric_limits<std::size_t>::max();

    handler(message_reader::kind k, std::size_t max_object) : kind_(k), max_object_(max_object) {}

    bool on_document_begin(error_code&) { return true; }
    bool on_document_end(error_code&) { return true; }

    bool on_object_begin(error_code& ec) {
        switch (at()) {
        case place::outside:
            message_ = message();
            return enter(kind_ == message_reader::kind::watch ? place::root : place::body);
        case place::kvs:
            entry_ = entry();
            pair_ = &entry_.kv;
            return enter(place::pair);
        case place::events: entry_ = entry(); return enter(place::event);
        default: break;
        }
        if (!field_) return enter(place::ignored);
        if (field_->is != shape::object) return wrong(ec);
        if (field_->then == place::error) message_.failed = true;
        if (field_->then == place::pair) {
            pair_ = field_->name == "kv" ? &entry_.kv : &entry_.previous.emplace();
            *pair_ = key_value(); // of two with one name the last one counts
        }
        return enter(field_->then);
    }
    bool on_object_end(std::size_t, error_code& ec) {
        const place was = stack_.back();
        stack_.pop_back();
        field_ = nullptr;
        const bool is_entry = was == place::event || (was == place::pair && at() == place::kvs);
        if (is_entry) {
            if (entry_.kv.key.empty()) return refuse(ec, "a key that is not there");
            if (entry_.kv.mod_revision <= 0) return refuse(ec, "a key without mod_revision");
            ++message_.entries;
            found_.push_back({false, std::exchange(entry_, entry()), message()});
        }
        if (at() == place::outside) found_.push_back({true, entry(), std::exchange(message_, message())});
        return true;
    }
    bool on_array_begin(error_code& ec) {
        if (at() == place::outside || at() == place::kvs || at() == place::events) return wrong(ec);
        if (!field_) return enter(place::ignored);
        const bool right = field_->is == shape::array &&
                           field_->then == (kind_ == message_reader::kind::watch ? place::events : place::kvs);
        return right ? enter(field_->then) : wrong(ec);
    }
    bool on_array_end(std::size_t, error_code&) {
        stack_.pop_back();
        field_ = nullptr;
        return true;
    }
    bool on_key_part(std::string_view s, std::size_t, error_code&) {
        gather(s, longest_name);
        return true;
    }
    bool on_key(std::string_view s, std::size_t, error_code&) {
        gather(s, longest_name);
        const place here = at();
        const auto* const found = std::find_if(fields.begin(), fields.end(),
                                               [&](const field& f) { return f.in == here && f.name == scratch_; });
        field_ = here == place::ignored || found == fields.end() ? nullptr : found;
        scratch_.clear();
        if (field_ && field_->is == shape::bytes) begin_bytes();
        return true;
    }
    bool on_string_part(std::string_view s, std::size_t, error_code& ec) {
        if (expects_bytes()) return take_bytes(s, ec);
        gather(s, longest_text);
        return true;
    }
    bool on_string(std::string_view s, std::size_t, error_code& ec) {
        if (expects_bytes()) {
            if (!take_bytes(s, ec)) return false;
            return decoder_.complete() || oversized() || wrong(ec);
        }
        gather(s, longest_text);
        const std::string text = std::exchange(scratch_, std::string());
        if (!in_object()) return wrong(ec);
        if (!field_) return true;
        if (field_->is == shape::text) return take_text(text, ec);
        if (field_->is != shape::integer) return wrong(ec);
        std::int64_t n = 0;
        const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), n);
        if (failed != std::errc() || end != text.data() + text.size()) return wrong(ec);
        return take_integer(n, ec);
    }
    bool on_number_part(std::string_view, error_code&) { return true; }
    bool on_int64(std::int64_t n, std::string_view, error_code& ec) { return number(n, ec); }
    bool on_uint64(std::uint64_t n, std::string_view, error_code& ec) {
        if (n > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) return other(ec);
        return number(static_cast<std::int64_t>(n), ec);
    }
    bool on_double(double, std::string_view, error_code& ec) { return other(ec); }
    bool on_bool(bool b, error_code& ec) {
        if (!field_ || field_->is != shape::boolean) return other(ec);
        if (field_->name == "more") message_.more = b;
        if (field_->name == "created") message_.created = b;
        if (field_->name == "canceled") message_.canceled = b;
        if (field_->name == "fragment") message_.fragment = b;
        return true;
    }
    bool on_null(error_code& ec) { return in_object() || wrong(ec); } // counts as absent
    bool on_comment_part(std::string_view, error_code&) { return true; }
    bool on_comment(std::string_view, error_code&) { return true; }

    bool outside() const noexcept { return stack_.empty(); }
    bool oversized_key() const noexcept { return oversized_key_; }

    std::deque<item> found_;
    std::string story_; ///< why something was refused

private:
    place at() const noexcept { return stack_.empty() ? place::outside : stack_.back(); }
    bool in_object() const noexcept { return at() != place::outside && at() != place::kvs && at() != place::events; }
    bool enter(place p) {
        stack_.push_back(p);
        field_ = nullptr;
        return true;
    }
    void gather(std::string_view s, std::size_t limit) {
        scratch_.append(s.substr(0, limit - std::min(limit, scratch_.size())));
    }

    bool refuse(error_code& ec, std::string_view what) {
        story_ = what;
        ec = make_error_code(errc::bad_response);
        return false;
    }
    bool wrong(error_code& ec) {
        if (!field_) return refuse(ec, "an element is no object");
        return refuse(ec, std::string(field_->name).append(" is no ").append(name_of(field_->is)));
    }
    /// A scalar that does not fit: passed over in a member that is none of ours, else an error.
    bool other(error_code& ec) { return (!field_ && in_object()) || wrong(ec); }

    bool expects_bytes() const noexcept { return field_ && field_->is == shape::bytes; }
    bool is_key() const noexcept { return field_->name == "key"; }
    bool oversized() const noexcept { return !is_key() && pair_->oversized; }
    void begin_bytes() {
        decoder_.begin();
        std::string& to = is_key() ? pair_->key : pair_->value;
        to.clear();
        if (!is_key()) pair_->oversized = false;
    }
    bool take_bytes(std::string_view s, error_code& ec) {
        if (oversized()) return true;
        std::string& to = is_key() ? pair_->key : pair_->value;
        if (!decoder_.feed(s, to)) return wrong(ec);
        if (to.size() <= max_object_) return true;
        if (is_key()) {
            oversized_key_ = true;
            return refuse(ec, "a key over the limit");
        }
        pair_->oversized = true;
        to = std::string();
        return true;
    }
    bool take_text(const std::string& text, error_code& ec) {
        if (field_->name == "type") {
            entry_.deleted = text == "DELETE";
            if (!entry_.deleted && text != "PUT") return refuse(ec, "an event that is neither PUT nor DELETE");
        }
        if (field_->name == "cluster_id") message_.cluster = text;
        if (field_->name == "cancel_reason") message_.cancel_reason = text;
        if (field_->name == "message") message_.error = text;
        return true;
    }
    bool number(std::int64_t n, error_code& ec) {
        if (!field_ || field_->is != shape::integer) return other(ec);
        return take_integer(n, ec);
    }
    bool take_integer(std::int64_t n, error_code& ec) {
        if (n < 0) return refuse(ec, std::string(field_->name).append(" is negative"));
        switch (field_->in) {
        case place::pair:
            (field_->name == "version"        ? pair_->version
             : field_->name == "mod_revision" ? pair_->mod_revision
                                              : pair_->create_revision) = n;
            break;
        case place::header: message_.revision = n; break;
        case place::error: (field_->name == "http_code" ? message_.http_code : message_.code) = n; break;
        default: (field_->name == "count" ? message_.count : message_.compact_revision) = n; break;
        }
        return true;
    }

    message_reader::kind kind_;
    std::size_t max_object_;
    std::vector<place> stack_;
    const field* field_ = nullptr; ///< the member whose value comes next; null: none of ours
    std::string scratch_;
    base64_decoder decoder_;
    entry entry_;
    key_value* pair_ = nullptr;
    message message_;
    bool oversized_key_ = false;
};

} // namespace

struct message_reader::impl {
    impl(kind k, std::size_t max_object) : parser(json::parse_options(), k, max_object) {}

    json::basic_parser<handler> parser;
    item now;
    std::size_t offset = 0;
    bool broken = false;
};

message_reader::message_reader(kind k, std::size_t max_object) : impl_(std::make_unique<impl>(k, max_object)) {}
message_reader::~message_reader() = default;

void message_reader::feed(std::string_view bytes, failure& f) {
    auto& parser = impl_->parser;
    while (!bytes.empty() && !impl_->broken) {
        if (parser.handler().outside()) { // blanks between messages are skipped
            const std::size_t blank = std::min(bytes.find_first_not_of(" \t\r\n"), bytes.size());
            impl_->offset += blank;
            bytes.remove_prefix(blank);
            if (bytes.empty()) return;
            // The parser does not report the beginning of a scalar, so the stream would seem to be between two messages.
            constexpr std::string_view begins_another_value = "[\"-0123456789tfn";
            if (begins_another_value.find(bytes.front()) != std::string_view::npos) {
                impl_->broken = true;
                f = failure(errc::bad_response, "it is no object at byte " + std::to_string(impl_->offset));
                return;
            }
            parser.reset();
        }
        error_code ec;
        // Parses up to the end of a message at most: what follows belongs to the next one. If Boost.JSON 1.83 resumes
        // within a character or an escape, it counts up to three bytes more than it has taken, and writes beyond its
        // buffer once that is full (boostorg/json#876). So no piece is large enough to fill it.
        constexpr std::size_t piece = BOOST_JSON_STACK_BUFFER_SIZE - 4;
        const std::size_t n = parser.write_some(true, bytes.data(), std::min(bytes.size(), piece), ec);
        impl_->offset += n;
        bytes.remove_prefix(n);
        if (!ec || (ec == json::error::incomplete)) continue;
        impl_->broken = true;
        const std::string where = " before byte " + std::to_string(impl_->offset);
        const handler& h = parser.handler();
        if (!h.story_.empty())
            f = failure(h.oversized_key() ? errc::too_large : errc::bad_response, h.story_ + where);
        else
            f = failure(errc::syntax_error, ec.message() + where);
    }
}

message_reader::found message_reader::next() {
    auto& items = impl_->parser.handler().found_;
    if (items.empty()) return found::nothing;
    impl_->now = std::move(items.front());
    items.pop_front();
    return impl_->now.is_message ? found::message : found::entry;
}

entry& message_reader::current() noexcept {
    return impl_->now.e;
}

const message& message_reader::message() const noexcept {
    return impl_->now.m;
}

bool message_reader::idle() const noexcept {
    return impl_->parser.handler().outside() && !impl_->broken;
}

refusal read_refusal(std::string_view body) {
    refusal r;
    error_code ec;
    const json::value v = json::parse(body, ec);
    const json::object* const o = ec ? nullptr : v.if_object();
    if (!o) return r;
    if (const json::value* const code = o->if_contains("code"); code && code->is_int64()) r.code = code->get_int64();
    for (const char* const name : {"message", "error"}) {
        const json::value* const text = o->if_contains(name);
        if (!text || !text->is_string() || !r.text.empty()) continue;
        r.text = text->get_string().subview(0, longest_text);
    }
    return r;
}

std::optional<std::string> read_text_member(std::string_view body, std::string_view name) {
    error_code ec;
    const json::value v = json::parse(body, ec);
    const json::object* const o = ec ? nullptr : v.if_object();
    const json::value* const m = o ? o->if_contains(name) : nullptr;
    if (!m || !m->is_string()) return std::nullopt;
    return std::string(m->get_string());
}

} // namespace informer::etcd::detail
