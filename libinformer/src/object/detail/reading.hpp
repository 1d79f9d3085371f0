// Reading nodes: shared by value, serialisation and diff.
#pragma once

#include "generation.hpp"
#include "packed.hpp"
#include "root/bytes.hpp"

#include <informer/detail/text_hash.hpp>
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
        c.n = shape_size(*shape);
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
/// Whether a text is `s` that is kept in a shorter form, or is no text.
[[gnu::cold, gnu::noinline]] bool is_packed_text(const generation* g, handle h, std::string_view s) noexcept;
/// Whether that text is `s`. Of a text that is known where this is called, a few instructions are left.
[[gnu::always_inline]] inline bool is_text(const generation* g, handle h, std::string_view s) noexcept {
    if (is_node(h)) {
        const std::uint32_t* n = g->node(h);
        if (!header_is_object(*n) && header_kind(*n) == node_kind::string)
            return header_length(*n) == s.size() && same_bytes(n + 1, s.data(), s.size());
    } else if (is_small_string(h)) {
        return s.size() <= 3 && h == make_small_string(s);
    }
    return is_packed_text(g, h, s);
}
/// Index of the member with this key, or c.n. `c` must be of an object that has members.
std::uint32_t find_member(const generation* g, const children& c, std::string_view key) noexcept;
/// The same; the index is probably `guess`.
[[gnu::always_inline]] inline std::uint32_t find_member(const generation* g, const children& c, std::string_view key,
                                                        std::uint32_t guess) noexcept {
    return guess < c.n && is_text(g, c.keys[guess], key) ? guess : find_member(g, c, key);
}

/// The member with this key, probably the one at `guess`; missing if this is no object or has none.
[[gnu::always_inline]] inline handle member_at(const generation* g, const children& c, std::uint32_t guess,
                                               std::string_view key) noexcept {
    if (!c.keys) return missing_handle;
    const std::uint32_t at = find_member(g, c, key, guess);
    return at < c.n ? c.values[at] : missing_handle;
}

/// Reads one member of many objects. Objects of one shape have it at one place, so its key is looked up once per shape.
class member_reader {
public:
    explicit member_reader(std::string_view key) noexcept : key_(key) {}
    value operator()(const value& of) noexcept {
        const generation* g = of.generation();
        if (!g || !is_node(of.handle())) return {};
        const std::uint32_t* n = g->node(of.handle());
        if (!header_is_object(*n)) return {};
        const std::uint32_t word = place(g, *n);
        return word != 0 ? value(g, n[word]) : value();
    }
    /// The word of an object's payload that holds its member, from 1; 0: objects of this shape have no such member.
    std::uint32_t place(const generation* g, handle shape) noexcept {
        known& k = known_[shape * 0x9e37'79b9u >> (32 - known_bits)];
        if (k.shape != shape || k.of != g) {
            const std::uint32_t* const s = g->node(shape);
            const children c{nullptr, s + 1, shape_size(*s)};
            const std::uint32_t at = find_member(g, c, key_);
            k = {g, shape, at < c.n ? at + 1 : 0};
        }
        return k.word;
    }

private:
    struct known {
        const generation* of = nullptr;
        handle shape = 0;
        std::uint32_t word = 0;
    };
    static constexpr unsigned known_bits = 4;
    std::string_view key_;
    known known_[1u << known_bits];
};

/// Appends a number as it is serialised.
void append_number(const generation* g, handle h, std::string& to);
void append_quoted(std::string_view s, std::string& to);

/// "/token" of a JSON pointer, escaped as RFC 6901 has it.
void append_token(std::string_view token, std::string& to);

/// Finds the members of one object by the keys of another, mostly in the same order, without quadratic time.
class member_finder {
public:
    member_finder(const generation* of, const children& in) noexcept : generation_(of), in_(in) {}
    /// The index of the member named as key `key` of generation `g`, or in.n. `guess` is where it probably is.
    std::uint32_t find(const generation* g, handle key, std::uint32_t guess);

private:
    const generation* generation_;
    children in_;
    struct hash {
        std::size_t operator()(std::string_view s) const noexcept { return text_hash(s); }
    };
    std::unordered_map<std::string_view, std::uint32_t, hash> by_name_; // only for large objects
};

} // namespace informer::detail
