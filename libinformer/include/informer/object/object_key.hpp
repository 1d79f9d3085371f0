// The name of an object within its resource.
#pragma once

#include <compare>
#include <concepts>
#include <functional>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>

namespace informer {

/// `namespace/name`, or `name` for cluster-scoped objects (then `name_space` is empty). Ordered by namespace, then name.
class object_key {
public:
    object_key() = default;
    object_key(std::string name_space_, std::string name_)
        : name_space(std::move(name_space_)), name(std::move(name_)) {}
    /// Splits at the first "/".
    static object_key parse(std::string_view s);
    std::string str() const;
    bool empty() const noexcept { return name.empty(); }
    friend bool operator==(const object_key&, const object_key&) = default;
    friend auto operator<=>(const object_key&, const object_key&) = default;
    friend std::ostream& operator<<(std::ostream& o, const object_key& k) { return o << k.str(); }

    std::string name_space;
    std::string name;
};

namespace detail {

/// "ns/name", or "name". As a template parameter it leaves `{ns, name}` to `object_key`; otherwise braces around two
/// texts would make a string_view of the range from one to the other.
template <class T>
concept text_of_key = std::convertible_to<const T&, std::string_view>;

} // namespace detail

} // namespace informer

/// Seeded differently in each process, because names are chosen by others.
template <>
struct std::hash<informer::object_key> {
    std::size_t operator()(const informer::object_key& k) const noexcept;
};
