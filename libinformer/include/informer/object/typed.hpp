// Objects as structs of your own, and back: described once with Boost.Describe, without a generated type for each kind.
//
//     struct foo_spec {
//         std::string deployment_name;
//         std::optional<int> replicas;
//     };
//     BOOST_DESCRIBE_STRUCT(foo_spec, (), (deployment_name, replicas))
//
//     const foo_spec spec = as<foo_spec>(foo["spec"]);   // throws, where the document has other types: "/replicas: expected …"
//     boost::json::value again = to_value(spec);         // {"deploymentName": "…"}: what is not there is not written
//
// `informerctl types foos.example.com` makes such structs for all of a kind, from what the API server says of it.
//
// A struct names only what it needs; the rest of the document is passed over. (So write by patch or apply: an update by
// a struct would take away what it does not name.) Like Go, and unlike Boost.JSON's
// `value_to`, a member that is missing or null in the document keeps the value that the struct gives it.
//
// How members are matched: names are compared as they are, except that an underscore makes the letter behind it a
// capital (`node_name` is "nodeName", `pod_IP` "podIP"). An underscore at the end is dropped (`namespace_`,
// `template_`), one at the beginning stays, and two are one.
//
// What a member may be: bool, whole numbers (if the document's number fits), float, double, std::string,
// std::chrono::system_clock::time_point (RFC 3339; times that its clock does not reach, such as the year 9999 and Go's
// zero, are its `max()` and `min()`, which are written as those two), std::optional, std::vector, maps by std::string,
// std::variant (the first alternative that fits: `std::variant<std::int32_t, std::string>` is IntOrString),
// boost::json::value (anything), `quantity` (object/quantity.hpp), described structs (the public members, including
// those of described bases), and types with a `conversion` of their own. No enums: a newer server may use values that a
// program does not know.
//
// *Errors*: errc::wrong_type with the path. *Thread safety*: as reading a `value`. *Lifetime*: everything is copied
// out, so temporaries are fine. *Complexity*: one look-up per member. Of a variant each alternative is tried: if two of
// them are structs that hold the variant again, a document doubles the time with each level. Let alternatives differ in
// type (an object or a list, say), or end there with boost::json::value.
#pragma once

#include <informer/error.hpp>
#include <informer/object/json.hpp>
#include <informer/object/object.hpp>
#include <informer/object/rfc3339.hpp>

#include <boost/describe/bases.hpp>
#include <boost/describe/class.hpp>
#include <boost/describe/members.hpp>
#include <boost/mp11/algorithm.hpp>

#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace informer {

namespace detail {
template <class>
inline constexpr bool is_unknown = false; // said when it is asked for
} // namespace detail

/// How a T is read and written. Specialise it for types that are none of the above:
///
///     template <> struct informer::conversion<quantity> {
///         static void read(const value& from, quantity& to, failure& f);  // f: errc::wrong_type and what is wrong, without the path
///         static boost::json::value write(const quantity& from);
///     };
///
/// `read` is called for values that exist and are not null.
template <class T>
struct conversion {
    static_assert(detail::is_unknown<T>,
                  "no conversion: describe the struct (BOOST_DESCRIBE_STRUCT), read an enum as std::string, or "
                  "specialise informer::conversion");
    static void read(const value& from, T& to, failure& f);
    static boost::json::value write(const T& from);
};

/// Reads a T. On error the T is half read. If `from` is missing or null the result is a T{} without an error, as with
/// members; `from.exists()` tells whether it was there.
template <class T>
T as(const value& from, failure& f);
template <class T>
T as(const object& from, failure& f) {
    return as<T>(from.value(), f);
}
/// The same; throw `error`.
template <class T>
T as(const value& from) {
    failure f;
    T to = as<T>(from, f);
    throw_on(f);
    return to;
}
template <class T>
T as(const object& from) {
    return as<T>(from.value());
}

namespace detail {

template <class T>
concept described = std::is_class_v<T> && boost::describe::has_describe_members<T>::value;

template <class T>
using described_members =
    boost::describe::describe_members<T, boost::describe::mod_public | boost::describe::mod_inherited>;

/// The name of a member in a document.
template <class Member>
struct member_name {
    static constexpr std::size_t length = std::char_traits<char>::length(Member::name);
    char text[length + 1] = {};
    std::size_t size = 0;

    constexpr member_name() {
        constexpr const char* name = Member::name;
        for (std::size_t i = 0; i < length; ++i) {
            char c = name[i];
            if (c == '_' && i > 0) {
                if (++i == length) break;
                c = name[i];
                if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
            }
            text[size++] = c;
        }
    }
    constexpr std::string_view view() const { return {text, size}; }
};
template <class Member>
inline constexpr member_name<Member> name_in_document{};

/// `f` as seen from one level above: "/spec" before "/replicas: …".
void read_below(std::string_view name, failure& f);
failure unlike(std::string_view wanted, const value& found);
/// False if it is not a number, or not whole, or does not fit.
bool read_whole(const value& from, std::int64_t& to);
bool read_whole(const value& from, std::uint64_t& to);

template <class T>
void read_if_there(const value& from, T& to, failure& f) {
    if (!from.exists() || from.is_null()) return;
    conversion<T>::read(from, to, f);
}

} // namespace detail

template <class T>
T as(const value& from, failure& f) {
    T to{};
    f = failure();
    detail::read_if_there(from, to, f);
    return to;
}

template <>
struct conversion<bool> {
    static void read(const value& from, bool& to, failure& f);
    static boost::json::value write(bool from) { return from; }
};

template <std::integral T>
    requires(!std::same_as<T, char>)
struct conversion<T> {
    static void read(const value& from, T& to, failure& f) {
        using widest = std::conditional_t<std::is_signed_v<T>, std::int64_t, std::uint64_t>;
        using limits = std::numeric_limits<T>;
        widest n = 0;
        if (detail::read_whole(from, n) && n >= limits::min() && n <= limits::max())
            to = static_cast<T>(n);
        else
            f = detail::unlike(
                "a whole number from " + std::to_string(limits::min()) + " to " + std::to_string(limits::max()), from);
    }
    static boost::json::value write(T from) { return from; }
};

template <>
struct conversion<double> {
    static void read(const value& from, double& to, failure& f);
    static boost::json::value write(double from) { return from; }
};

template <>
struct conversion<float> {
    static void read(const value& from, float& to, failure& f);
    static boost::json::value write(float from);
};

template <>
struct conversion<std::string> {
    static void read(const value& from, std::string& to, failure& f);
    static boost::json::value write(const std::string& from) { return boost::json::value(from); }
};

template <>
struct conversion<std::chrono::system_clock::time_point> {
    static void read(const value& from, std::chrono::system_clock::time_point& to, failure& f);
    static boost::json::value write(std::chrono::system_clock::time_point from);
};

template <>
struct conversion<boost::json::value> {
    static void read(const value& from, boost::json::value& to, failure&) { to = to_value(from); }
    static boost::json::value write(const boost::json::value& from) { return from; }
};

template <class T>
struct conversion<std::optional<T>> {
    static void read(const value& from, std::optional<T>& to, failure& f) {
        conversion<T>::read(from, to.emplace(), f);
    }
    /// Empty: null; as a member of a struct it is left out.
    static boost::json::value write(const std::optional<T>& from) {
        return from ? conversion<T>::write(*from) : boost::json::value();
    }
};

template <class T>
struct conversion<std::vector<T>> {
    static void read(const value& from, std::vector<T>& to, failure& f) {
        if (!from.is_array()) {
            f = detail::unlike("an array", from);
            return;
        }
        to.clear();
        to.reserve(from.size());
        for (const value v : from) {
            T element{};
            detail::read_if_there(v, element, f);
            if (f) return detail::read_below(std::to_string(to.size()), f);
            to.push_back(std::move(element));
        }
    }
    static boost::json::value write(const std::vector<T>& from) {
        boost::json::array to;
        to.reserve(from.size());
        for (const auto& element : from) to.push_back(conversion<T>::write(element));
        return to;
    }
};

template <class Map>
    requires std::same_as<typename Map::key_type, std::string> && requires {
        typename Map::mapped_type;
    }
struct conversion<Map> {
    static void read(const value& from, Map& to, failure& f) {
        if (!from.is_object()) {
            f = detail::unlike("an object", from);
            return;
        }
        to.clear();
        for (const auto [key, v] : from.members()) {
            typename Map::mapped_type element{};
            detail::read_if_there(v, element, f);
            if (f) return detail::read_below(key.view(), f);
            to.insert_or_assign(key.str(), std::move(element));
        }
    }
    static boost::json::value write(const Map& from) {
        boost::json::object to;
        for (const auto& [key, element] : from) to.emplace(key, conversion<typename Map::mapped_type>::write(element));
        return to;
    }
};

template <class... T>
struct conversion<std::variant<T...>> {
    static void read(const value& from, std::variant<T...>& to, failure& f) {
        const bool fits = (as_one_of<T>(from, to, f) || ...);
        if (fits) f = failure();
    }
    static boost::json::value write(const std::variant<T...>& from) {
        return std::visit([]<class U>(const U& one) { return conversion<U>::write(one); }, from);
    }

private:
    template <class U>
    static bool as_one_of(const value& from, std::variant<T...>& to, failure& f) {
        U one = as<U>(from, f);
        if (!f) to = std::move(one);
        return !f;
    }
};

template <detail::described T>
struct conversion<T> {
    static void read(const value& from, T& to, failure& f) {
        if (!from.is_object()) {
            f = detail::unlike("an object", from);
            return;
        }
        boost::mp11::mp_for_each<detail::described_members<T>>([&](auto member) {
            if (f) return;
            const std::string_view name = detail::name_in_document<decltype(member)>.view();
            detail::read_if_there(from[name], to.*member.pointer, f);
            if (f) detail::read_below(name, f);
        });
    }
    static boost::json::value write(const T& from) {
        boost::json::object to;
        boost::mp11::mp_for_each<detail::described_members<T>>(
            [&](auto member) { put(to, detail::name_in_document<decltype(member)>.view(), from.*member.pointer); });
        return to;
    }

private:
    template <class U>
    static void put(boost::json::object& to, std::string_view name, const U& from) {
        to.emplace(name, conversion<U>::write(from));
    }
    template <class U>
    static void put(boost::json::object& to, std::string_view name, const std::optional<U>& from) {
        if (from) to.emplace(name, conversion<U>::write(*from));
    }
};

/// A described struct as JSON, for the verbs that write. Members keep their order. Empty optionals are left out; all
/// else is written (also an empty string or list, and a time that was not there as that of 1970: make a member optional
/// if it is better left out).
template <detail::described T>
boost::json::value to_value(const T& from) {
    return conversion<T>::write(from);
}

} // namespace informer
