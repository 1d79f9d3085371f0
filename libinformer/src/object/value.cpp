#include <informer/error.hpp>
#include <informer/object/value.hpp>

#include "detail/fingerprints.hpp"
#include "detail/reading.hpp"

#include <algorithm>
#include <charconv>
#include <cstring>

namespace informer {

using namespace detail;

text text::packed(std::string_view s) noexcept {
    text t;
    const std::size_t n = std::min(s.size(), buffer_size);
    std::memcpy(t.buffer_, s.data(), n);
    t.size_ = static_cast<std::uint32_t>(n);
    return t;
}

std::string_view to_string(value_kind k) noexcept {
    switch (k) {
    case value_kind::missing: return "missing";
    case value_kind::null: return "null";
    case value_kind::boolean: return "boolean";
    case value_kind::int64:
    case value_kind::uint64: return "integer";
    case value_kind::floating:
    case value_kind::number: return "number";
    case value_kind::string: return "string";
    case value_kind::array: return "array";
    case value_kind::object: return "object";
    }
    return "missing";
}

namespace detail {

text string_of(const generation* g, handle h) noexcept {
    char buffer[text::buffer_size];
    if (is_node(h)) {
        const std::uint32_t* n = g->node(h);
        if (header_is_object(*n)) return {};
        if (header_kind(*n) == node_kind::string) return text(node_text(n));
        if (header_kind(*n) != node_kind::uuid) return {};
        unpack_uuid(reinterpret_cast<const unsigned char*>(n + 1), buffer);
        return text::packed({buffer, uuid_text_size});
    }
    if (is_timestamp(h)) {
        unpack_timestamp(h & ~timestamp_bit, buffer);
        return text::packed({buffer, timestamp_size});
    }
    if (!is_small_string(h)) return {};
    for (unsigned i = 0; i < 3; ++i) buffer[i] = static_cast<char>(h >> (8 * i));
    return text::packed({buffer, small_string_size(h)});
}

bool is_packed_text(const generation* g, handle h, std::string_view s) noexcept {
    return string_of(g, h) == s;
}

std::uint32_t find_member(const generation* g, const children& c, std::string_view key) noexcept {
    if (key.size() <= 3 && c.n < wide_shape)
        return static_cast<std::uint32_t>(std::find(c.keys, c.keys + c.n, make_small_string(key)) - c.keys);
    if (shape_is_hashed(c.keys[-1])) return g->find_key(c.keys - 1, key);
    std::uint32_t found = c.n;
    for_each_alike(c.keys, c.n, key_fingerprint(key), [&](std::uint32_t i) {
        if (!is_node(c.keys[i])) return false;
        const std::string_view own = node_text(g->node(c.keys[i]));
        if (own.size() != key.size() || !same_bytes(own.data(), key.data(), key.size())) return false;
        found = i;
        return true;
    });
    return found;
}

std::uint32_t member_finder::find(const generation* g, handle key, std::uint32_t guess) {
    if (in_.n == 0) return 0;
    // Short keys are identified by their handle, and keys of one generation are equal if their handles are.
    if (guess < in_.n && in_.keys[guess] == key && (g == generation_ || !is_node(key))) return guess;
    if (!is_node(key)) {
        if (shape_is_hashed(in_.keys[-1])) return generation_->find_small_key(in_.keys - 1, key);
        return static_cast<std::uint32_t>(std::find(in_.keys, in_.keys + in_.n, key) - in_.keys);
    }
    const std::string_view name = node_text(g->node(key));
    if (guess < in_.n && is_node(in_.keys[guess]) && node_text(generation_->node(in_.keys[guess])) == name)
        return guess;
    if (in_.n <= 64 || shape_is_hashed(in_.keys[-1])) return find_member(generation_, in_, name);
    if (by_name_.empty())
        for (std::uint32_t i = 0; i < in_.n; ++i)
            if (is_node(in_.keys[i])) by_name_.emplace(node_text(generation_->node(in_.keys[i])), i);
    const auto it = by_name_.find(name);
    return it == by_name_.end() ? in_.n : it->second;
}

namespace {

template <class T>
T load(const std::uint32_t* header) noexcept {
    T v;
    std::memcpy(&v, header + 1, sizeof v);
    return v;
}

value_kind kind_of(const generation* g, handle h) noexcept {
    if (!g) return value_kind::missing;
    if (is_timestamp(h)) return value_kind::string;
    if (is_node(h)) {
        const std::uint32_t header = *g->node(h);
        if (header_is_object(header)) return value_kind::object;
        switch (header_kind(header)) {
        case node_kind::string:
        case node_kind::uuid: return value_kind::string;
        case node_kind::array: return value_kind::array;
        case node_kind::int64: return value_kind::int64;
        case node_kind::uint64: return value_kind::uint64;
        case node_kind::floating: return value_kind::floating;
        case node_kind::number: return value_kind::number;
        case node_kind::shape: break; // never a value
        }
        return value_kind::missing;
    }
    if (is_small_int(h)) return value_kind::int64;
    if (is_small_string(h)) return value_kind::string;
    switch (h) {
    case null_handle: return value_kind::null;
    case false_handle:
    case true_handle: return value_kind::boolean;
    case empty_object_handle: return value_kind::object;
    case empty_array_handle: return value_kind::array;
    default: return value_kind::missing;
    }
}

bool is_number_kind(value_kind k) noexcept {
    return k >= value_kind::int64 && k <= value_kind::number;
}

bool equal(const generation* ga, handle a, const generation* gb, handle b) {
    if (a == b && (ga == gb || !is_node(a))) return true;
    const value_kind ka = kind_of(ga, a), kb = kind_of(gb, b);
    if (is_number_kind(ka) && is_number_kind(kb)) {
        if (ka != value_kind::number && ka != value_kind::floating && ka == kb) {
            if (!is_node(a) || !is_node(b)) return false;
            return load<std::uint64_t>(ga->node(a)) == load<std::uint64_t>(gb->node(b));
        }
        std::string ta, tb;
        append_number(ga, a, ta);
        append_number(gb, b, tb);
        return same_number(ta, tb);
    }
    if (ka != kb) return false;
    switch (ka) {
    case value_kind::string: {
        // One text has one form, so different forms differ.
        if (!is_node(a) || !is_node(b)) return false;
        const std::uint32_t *na = ga->node(a), *nb = gb->node(b);
        if (*na != *nb) return false;
        const std::size_t bytes = header_kind(*na) == node_kind::uuid ? 16 : header_length(*na);
        return std::memcmp(na + 1, nb + 1, bytes) == 0;
    }
    case value_kind::array: {
        const children ca = children_of(ga, a), cb = children_of(gb, b);
        if (ca.n != cb.n) return false;
        for (std::uint32_t i = 0; i < ca.n; ++i)
            if (!equal(ga, ca.values[i], gb, cb.values[i])) return false;
        return true;
    }
    case value_kind::object: {
        const children ca = children_of(ga, a), cb = children_of(gb, b);
        if (ca.n != cb.n) return false;
        member_finder in_b(gb, cb);
        for (std::uint32_t i = 0; i < ca.n; ++i) {
            const std::uint32_t k = in_b.find(ga, ca.keys[i], i);
            if (k == cb.n || !equal(ga, ca.values[i], gb, cb.values[k])) return false;
        }
        return true;
    }
    case value_kind::boolean: return false; // true and false have one handle each, and these differ
    default: return true;                   // null, missing
    }
}

[[noreturn]] void wrong(std::string_view wanted, value_kind found) {
    throw error(errc::wrong_type, "expected " + std::string(wanted) + ", found " +
                                      (found == value_kind::missing ? "nothing" : std::string(to_string(found))));
}

} // namespace

void append_number(const generation* g, handle h, std::string& to) {
    char buffer[number_buffer_size];
    char* end = buffer;
    if (is_small_int(h)) {
        end = std::to_chars(buffer, buffer + sizeof buffer, small_int(h)).ptr;
    } else {
        const std::uint32_t* n = g->node(h);
        switch (header_kind(*n)) {
        case node_kind::int64: end = std::to_chars(buffer, buffer + sizeof buffer, load<std::int64_t>(n)).ptr; break;
        case node_kind::uint64: end = std::to_chars(buffer, buffer + sizeof buffer, load<std::uint64_t>(n)).ptr; break;
        case node_kind::floating: end = buffer + print_shortest(load<double>(n), buffer); break;
        default: to += node_text(n); return;
        }
    }
    to.append(buffer, end);
}

} // namespace detail

value_kind value::kind() const noexcept {
    return kind_of(generation_, handle_);
}

bool value::is_number() const noexcept {
    return is_number_kind(kind());
}

bool value::as_bool() const {
    if (kind() != value_kind::boolean) wrong("a boolean", kind());
    return handle_ == true_handle;
}

std::int64_t value::as_int64() const {
    if (generation_ && is_small_int(handle_)) return small_int(handle_);
    const value_kind k = kind();
    if (k == value_kind::int64) return load<std::int64_t>(generation_->node(handle_));
    std::int64_t v;
    if (!is_number_kind(k) || !decimal(number_text()).to_int64(v)) wrong("a 64-bit integer", k);
    return v;
}

std::uint64_t value::as_uint64() const {
    const value_kind k = kind();
    if (k == value_kind::uint64) return load<std::uint64_t>(generation_->node(handle_));
    std::uint64_t v;
    if (!is_number_kind(k) || !decimal(number_text()).to_uint64(v)) wrong("an unsigned 64-bit integer", k);
    return v;
}

double value::as_double() const {
    const value_kind k = kind();
    if (k == value_kind::floating) return load<double>(generation_->node(handle_));
    if (k == value_kind::int64) return static_cast<double>(as_int64());
    if (k == value_kind::uint64) return static_cast<double>(as_uint64());
    if (k != value_kind::number) wrong("a number", k);
    return to_double(node_text(generation_->node(handle_)));
}

text value::as_string() const {
    if (!is_string()) wrong("a string", kind());
    return string_of(generation_, handle_);
}

std::string value::number_text() const {
    if (!is_number()) wrong("a number", kind());
    std::string s;
    append_number(generation_, handle_, s);
    return s;
}

bool value::bool_or(bool fallback) const noexcept {
    return kind() == value_kind::boolean ? handle_ == true_handle : fallback;
}

std::int64_t value::int64_or(std::int64_t fallback) const noexcept {
    const value_kind k = kind();
    if (k == value_kind::int64)
        return is_small_int(handle_) ? small_int(handle_) : load<std::int64_t>(generation_->node(handle_));
    if (k != value_kind::floating && k != value_kind::number) return fallback; // no value stored as uint64 fits
    char buffer[number_buffer_size];
    const std::uint32_t* const n = generation_->node(handle_);
    const std::string_view written =
        k == value_kind::number ? node_text(n) : std::string_view(buffer, print_shortest(load<double>(n), buffer));
    std::int64_t v;
    return decimal(written).to_int64(v) ? v : fallback;
}

text value::string_or_empty() const noexcept {
    return generation_ ? string_of(generation_, handle_) : text();
}

std::size_t value::size() const noexcept {
    return children_of(generation_, handle_).n;
}

value value::operator[](std::string_view key) const noexcept {
    const children c = children_of(generation_, handle_);
    if (!c.keys) return {};
    const std::uint32_t i = find_member(generation_, c, key);
    return i < c.n ? value(generation_, c.values[i]) : value();
}

value value::element(std::size_t index) const noexcept {
    const children c = children_of(generation_, handle_);
    return !c.keys && index < c.n ? value(generation_, c.values[index]) : value();
}

text value::member_key(std::size_t i) const noexcept {
    const children c = children_of(generation_, handle_);
    return c.keys && i < c.n ? string_of(generation_, c.keys[i]) : text();
}

value value::member_value(std::size_t i) const noexcept {
    const children c = children_of(generation_, handle_);
    return c.keys && i < c.n ? value(generation_, c.values[i]) : value();
}

bool operator==(const value& a, const value& b) {
    if (!a.exists() || !b.exists()) return a.exists() == b.exists();
    return equal(a.generation_, a.handle_, b.generation_, b.handle_);
}

bool operator==(const value& v, std::string_view s) noexcept {
    return v.is_string() && is_text(v.generation_, v.handle_, s);
}

} // namespace informer
