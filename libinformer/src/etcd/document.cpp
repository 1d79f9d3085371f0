#include "etcd/document.hpp"

#include "object/detail/reading.hpp"
#include "object/json_scan.hpp"
#include "root/ascii.hpp"
#include "root/base64.hpp"
#include "root/fnv1a.hpp"
#include "root/one_line.hpp"
#include "root/utf8.hpp"

#include <algorithm>
#include <array>
#include <optional>

namespace informer::etcd::detail {

using informer::detail::append_quoted;
using informer::detail::base64_encode;
using informer::detail::is_space;
using informer::detail::says;
using informer::detail::trimmed;
using informer::detail::utf8_end;
using informer::detail::value_scanner;

namespace {

constexpr std::string_view digits = "0123456789abcdef";

void append_hex(std::string& to, std::uint64_t n, int figures) {
    for (int i = figures - 1; i >= 0; --i) to += digits[n >> (4 * i) & 15];
}

/// A printable form of any bytes; different keys look different in it.
std::string shown(std::string_view key) {
    std::string out;
    for (std::string_view rest = key; !rest.empty();) {
        const std::size_t good = utf8_end(rest);
        for (const char c : rest.substr(0, good)) {
            if (informer::detail::is_control(c) || c == '%') {
                append_hex(out += '%', static_cast<unsigned char>(c), 2);
            } else {
                out += c;
            }
        }
        rest.remove_prefix(good);
        if (rest.empty()) break;
        append_hex(out += '%', static_cast<unsigned char>(rest.front()), 2);
        rest.remove_prefix(1);
    }
    return out.empty() ? "%" : out;
}

/// The offset behind the JSON value that `s` begins with; nullopt if none ends there.
std::optional<std::size_t> value_end(std::string_view s) {
    value_scanner scanner;
    if (s.empty() || !scanner.begin(s.front())) return std::nullopt;
    const char* const at = scanner.scan(s.data(), s.data() + s.size());
    const auto n = static_cast<std::size_t>(at - s.data());
    if (scanner.complete()) return n;
    const bool scalar = s.front() != '{' && s.front() != '[' && s.front() != '"';
    if (scalar && !scanner.bad() && n == s.size()) return n; // a number has no end of its own
    return std::nullopt;
}

/// Finds the last top-level member "metadata", which is the one that counts. False if the text is no object; any other
/// fault is left to the parser, which describes it better.
bool find_metadata(std::string_view object, std::optional<std::string_view>& metadata) {
    std::string_view rest = object.substr(1);
    const auto skip = [&] {
        while (!rest.empty() && is_space(rest.front())) rest.remove_prefix(1);
    };
    for (skip(); !rest.empty() && rest.front() != '}'; skip()) {
        if (rest.front() == ',') {
            rest.remove_prefix(1);
            skip();
        }
        if (rest.empty() || rest.front() != '"') return false;
        const auto key_end = value_end(rest);
        if (!key_end) return false;
        const std::string_view key = rest.substr(0, *key_end);
        rest.remove_prefix(*key_end);
        skip();
        if (rest.empty() || rest.front() != ':') return false;
        rest.remove_prefix(1);
        skip();
        const auto end = value_end(rest);
        if (!end || *end == 0) return false;
        if (says(key, "metadata")) metadata = rest.substr(0, *end);
        rest.remove_prefix(*end);
    }
    return !rest.empty() && rest.size() == 1;
}

bool ends_in_member(std::string_view before) {
    while (!before.empty() && is_space(before.back())) before.remove_suffix(1);
    return before.empty() || before.back() != '{';
}

/// Appends the members that we set, without braces. They go behind all others, because the last of two members with one
/// name counts.
void append_identity(std::string& to, const mapping& m, const named_key& name, const key_value& kv,
                     std::int64_t resource_version, std::string_view others) {
    append_quoted(name.key.name, to += "\"name\":");
    if (m.resource_.namespaced) {
        append_quoted(name.key.name_space, to += ",\"namespace\":");
    } else if (others.find_first_of('\\') != std::string_view::npos ||
               others.find("namespace") != std::string_view::npos) {
        to += ",\"namespace\":\"\""; // overrides one in the value
    }
    if (kv.create_revision != 0) ((to += ",\"uid\":\"") += uid_of(kv.key, kv.create_revision)) += '"';
    (to += ",\"resourceVersion\":\"") += std::to_string(resource_version);
    to += '"';
    if (kv.version != 0) (to += ",\"generation\":") += std::to_string(kv.version);
}

constexpr std::string_view no_object = "the value is no JSON object (wrap_values() takes others, too)";

} // namespace

std::string asked_prefix(const mapping& m) {
    return m.name_space_.empty() ? m.prefix_ : m.prefix_ + m.name_space_ + '/';
}

std::string range_begin(std::string_view prefix) {
    return prefix.empty() ? std::string(1, '\0') : std::string(prefix);
}

std::string range_end(std::string_view prefix) {
    std::string end(prefix);
    while (!end.empty() && end.back() == '\xff') end.pop_back();
    if (end.empty()) return std::string(1, '\0');
    end.back() = static_cast<char>(static_cast<unsigned char>(end.back()) + 1);
    return end;
}

named_key name_of(const mapping& m, std::string_view key) {
    named_key n;
    const bool below = key.substr(0, m.prefix_.size()) == m.prefix_;
    const std::string_view rest = below ? key.substr(m.prefix_.size()) : std::string_view();
    n.fits = !rest.empty() && utf8_end(rest) == rest.size();
    if (n.fits && m.resource_.namespaced) {
        const auto slash = rest.find('/');
        n.fits = slash != std::string_view::npos && slash != 0 && slash + 1 != rest.size();
        if (n.fits) n.key = object_key(std::string(rest.substr(0, slash)), std::string(rest.substr(slash + 1)));
    } else if (n.fits) {
        n.key = object_key(std::string(), std::string(rest));
    }
    // No object has such a key: with `namespaced` all objects have a namespace, otherwise none has one.
    if (!n.fits) n.key = object_key(m.resource_.namespaced ? "" : "key", shown(key));
    return n;
}

std::string why_unfit(const mapping& m, std::string_view key) {
    if (!m.resource_.namespaced) return "the key has no name, or one that is not UTF-8";
    const bool slash_missing =
        key.size() > m.prefix_.size() && key[m.prefix_.size()] == '/' && !m.prefix_.empty() && m.prefix_.back() != '/';
    if (!slash_missing) return "the key is not namespace/name below the prefix";
    return "the key is not namespace/name below the prefix, which has no '/' at its end: is " + shown(m.prefix_) +
           "/ meant?";
}

std::string uid_of(std::string_view key, std::int64_t create_revision) {
    const std::uint64_t hash = informer::detail::fnv1a(key);
    const auto made = static_cast<std::uint64_t>(create_revision);
    std::string s;
    append_hex(s, made >> 16 & 0xffffffffU, 8);
    append_hex(s += '-', made & 0xffffU, 4);
    append_hex(s += '-', 0x8000U | (made >> 48 & 0xfffU), 4);
    append_hex(s += '-', 0x8000U | (hash >> 48 & 0x3fffU), 4);
    append_hex(s += '-', hash & 0xffffffffffffU, 12);
    return s;
}

bool document::splice(const mapping& m, const named_key& name, const key_value& kv, std::int64_t resource_version,
                      failure& f) {
    const std::string_view value = trimmed(kv.value);
    std::optional<std::string_view> metadata;
    text_.clear();
    if (!find_metadata(value, metadata)) {
        text_ = value; // the parser will say what is wrong
        return true;
    }
    if (metadata && metadata->front() != '{' && *metadata != "null") {
        f = failure(errc::no_metadata, "metadata of the value is no object (wrap_values(wrap::all) takes it as it is)");
        return false;
    }
    const bool into = metadata && metadata->front() == '{';
    // A single insertion in front of a closing brace: it turns no invalid JSON into valid JSON.
    const std::string_view up_to = into ? *metadata : value;
    const std::size_t at = static_cast<std::size_t>(up_to.data() + up_to.size() - 1 - value.data());
    text_.reserve(value.size() + name.key.name.size() + name.key.name_space.size() + 200);
    text_ = value.substr(0, at);
    if (ends_in_member(text_)) text_ += ',';
    if (!into) text_ += "\"metadata\":{";
    append_identity(text_, m, name, kv, resource_version, into ? *metadata : std::string_view());
    if (!into) text_ += '}';
    text_ += value.substr(at);
    return true;
}

void document::write(form how, const mapping& m, const named_key& name, const key_value& kv,
                     std::int64_t resource_version) {
    form_ = how;
    text_ = "{\"metadata\":{";
    append_identity(text_, m, name, kv, resource_version, {});
    switch (how) {
    case form::as_it_is:
    case form::json_value: (text_ += "},\"value\":") += trimmed(kv.value); break;
    case form::text_value: append_quoted(kv.value, text_ += "},\"value\":"); break;
    case form::base64_value: ((text_ += "},\"valueBase64\":\"") += base64_encode(kv.value)) += '"'; break;
    }
    text_ += '}';
}

bool document::make(const mapping& m, const named_key& name, const key_value& kv, std::int64_t resource_version,
                    failure& f) {
    const std::string_view value = trimmed(kv.value);
    const bool object = !value.empty() && value.front() == '{';
    form_ = form::as_it_is;
    if (m.wrap_ != wrap::all && object) return splice(m, name, kv, resource_version, f);
    if (m.wrap_ == wrap::none) {
        f = failure(errc::not_an_object, std::string(no_object));
        return false;
    }
    const bool one = !value.empty() && value_end(value) == value.size();
    const bool document_like = object || (!value.empty() && value.front() == '[');
    const bool text = utf8_end(kv.value) == kv.value.size();
    if (document_like && !one) {
        f = failure(errc::syntax_error, "the value begins like JSON and is none");
        return false;
    }
    const form how = one && (text || document_like) ? form::json_value : text ? form::text_value : form::base64_value;
    write(how, m, name, kv, resource_version);
    return true;
}

void document::make_bare(const mapping& m, const named_key& name, const key_value& kv) {
    form_ = form::as_it_is;
    text_ = "{\"metadata\":{";
    append_identity(text_, m, name, kv, kv.mod_revision, {});
    text_ += "}}";
}

bool document::try_as_text(const mapping& m, const named_key& name, const key_value& kv,
                           std::int64_t resource_version) {
    if (form_ != form::json_value) return false;
    const std::string_view value = trimmed(kv.value);
    if (value.front() == '{' || value.front() == '[') return false;
    write(form::text_value, m, name, kv, resource_version);
    return true;
}

bool is_the_one(const object& o, const named_key& name, std::int64_t resource_version) {
    return o.has_key(name.key.name_space, name.key.name) &&
           o.resource_version().str() == std::to_string(resource_version);
}

} // namespace informer::etcd::detail

namespace informer::etcd {

std::string mapping::etcd_key(const object_key& k) const {
    const bool fits = resource_.namespaced != k.name_space.empty(); // the keys of name_of() that do not are whole ones
    return fits ? prefix_ + k.str() : k.name;
}

} // namespace informer::etcd
