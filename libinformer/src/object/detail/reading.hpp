// Reading nodes: shared by value, serialisation and diff.
#pragma once

#include "generation.hpp"
#include "packed.hpp"

#include <informer/object/value.hpp>

#include <string_view>
#include <unordered_map>
#include <vector>

namespace informer::detail {

/// Members or elements of a container as arrays in the pool; n = 0 for anything else.
struct children {
    const handle* values = nullptr;
    const handle* keys = nullptr; ///< objects only
    std::uint32_t n = 0;
};

inline children children_of(const generation* g, handle h) noexcept {
    children c;
    if (!g || !is_node(h)) return c;
    const std::uint32_t* n = g->node(h);
    if (header_is_object(*n)) {
        const std::uint32_t* shape = g->node(*n);
        c.n = header_length(*shape);
        c.keys = shape + 1;
        c.values = n + 1;
    } else if (header_kind(*n) == node_kind::array) {
        c.n = header_length(*n);
        c.values = n + 1;
    }
    return c;
}

inline std::string_view node_text(const std::uint32_t* header) noexcept {
    return {reinterpret_cast<const char*>(header + 1), header_length(*header)};
}

/// The text of a string handle (of a key as well); empty for anything else.
text string_of(const generation* g, handle h) noexcept;
/// Index of the member with this key, or c.n.
std::uint32_t find_member(const generation* g, const children& c, std::string_view key) noexcept;

/// Appends a number as it is serialised.
void append_number(const generation* g, handle h, std::string& to);
void append_quoted(std::string_view s, std::string& to);

/// Finds the members of one object by the keys of another, mostly in the same order, without quadratic time.
class member_finder {
public:
    member_finder(const generation* of, const children& in) noexcept : generation_(of), in_(in) {}
    /// The index of the member named as key `key` of generation `g`, or in.n. `guess` is where it probably is.
    std::uint32_t find(const generation* g, handle key, std::uint32_t guess);

private:
    const generation* generation_;
    children in_;
    std::unordered_map<std::string_view, std::uint32_t> by_name_; // only for large objects
    std::unordered_map<handle, std::uint32_t> by_small_;
};

} // namespace informer::detail
