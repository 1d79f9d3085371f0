#include <informer/object/typed.hpp>

#include "object/detail/reading.hpp"
#include "object/rfc3339_clamped.hpp"

#include <array>
#include <charconv>
#include <cmath>
#include <limits>

namespace informer {

namespace {

/// Describes a value for an error message. Booleans and numbers stored in binary are shown as they are; other values
/// may be long or secret, so only their kind is shown.
std::string shown(const value& v) {
    switch (v.kind()) {
    case value_kind::string: return "a string";
    case value_kind::number: return "a number";
    case value_kind::array:
    case value_kind::object:
    case value_kind::missing:
    case value_kind::null: return std::string(to_string(v.kind()));
    default: return v.to_json();
    }
}

template <class N>
bool read_whole_as(N (value::*as)() const, const value& from, N& to) {
    if (!from.is_number()) return false;
    try {
        to = (from.*as)();
        return true;
    } catch (const error&) {
        return false;
    }
}

} // namespace

namespace detail {

failure unlike(std::string_view wanted, const value& found) {
    return {errc::wrong_type, "expected " + std::string(wanted) + ", found " + shown(found)};
}

void read_below(std::string_view name, failure& f) {
    std::string at;
    append_token(name, at);
    const bool path = f.message().starts_with('/');
    f = failure(f.code(), at + (path ? "" : ": ") + f.message());
}

bool read_whole(const value& from, std::int64_t& to) {
    return read_whole_as(&value::as_int64, from, to);
}

bool read_whole(const value& from, std::uint64_t& to) {
    return read_whole_as(&value::as_uint64, from, to);
}

} // namespace detail

void conversion<bool>::read(const value& from, bool& to, failure& f) {
    if (from.kind() == value_kind::boolean)
        to = from.as_bool();
    else
        f = detail::unlike("true or false", from);
}

void conversion<double>::read(const value& from, double& to, failure& f) {
    if (!from.is_number())
        f = detail::unlike("a number", from);
    else if (to = from.as_double(); !std::isfinite(to))
        f = detail::unlike("a number that a double can hold", from);
}

void conversion<float>::read(const value& from, float& to, failure& f) {
    double wide = 0;
    conversion<double>::read(from, wide, f);
    if (!f && std::abs(wide) > std::numeric_limits<float>::max())
        f = detail::unlike("a number that a float can hold", from);
    if (!f) to = static_cast<float>(wide);
}

/// 0.1f is written as 0.1: with the shortest digits that give this float, not with those of its value as a double.
boost::json::value conversion<float>::write(float from) {
    std::array<char, 32> digits{};
    const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), from).ptr;
    double wide = from;
    std::from_chars(digits.data(), end, wide);
    return wide;
}

void conversion<std::string>::read(const value& from, std::string& to, failure& f) {
    if (from.is_string())
        to = from.as_string().str();
    else
        f = detail::unlike("a string", from);
}

void conversion<std::chrono::system_clock::time_point>::read(const value& from,
                                                             std::chrono::system_clock::time_point& to, failure& f) {
    const text said = from.string_or_empty();
    if (const auto t = detail::parse_rfc3339_clamped(said.view()))
        to = *t;
    else
        f = detail::unlike("a time (RFC 3339)", from);
}

boost::json::value
conversion<std::chrono::system_clock::time_point>::write(std::chrono::system_clock::time_point from) {
    using time_point = std::chrono::system_clock::time_point;
    if (from == time_point::min()) return "0001-01-01T00:00:00Z"; // Go's zero, which `read` turns into min()
    if (from == time_point::max()) return "9999-12-31T23:59:59Z";
    const bool whole = from.time_since_epoch() % std::chrono::seconds(1) == std::chrono::seconds(0);
    return boost::json::value(rfc3339(from, whole ? 0 : 6));
}

} // namespace informer
