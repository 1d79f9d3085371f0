// The persistent map of objects by their key.
#pragma once

#include "persistent_map.hpp"
#include "root/hash.hpp"

#include <informer/object/object.hpp>

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace informer::detail {

/// A key that owns nothing.
struct key_view {
    std::string_view name_space, name;

    /// Splits at the first "/", like object_key::parse.
    static key_view parse(std::string_view s) noexcept {
        const auto slash = s.find('/');
        if (slash == std::string_view::npos) return {{}, s};
        return {{s.data(), slash}, {s.data() + slash + 1, s.size() - slash - 1}};
    }
    static key_view of(const object_key& k) noexcept { return {k.name_space, k.name}; }
    friend bool operator==(const key_view&, const key_view&) = default;
};

/// The key of an object, read once for several look-ups. Valid while the object lives.
class key_of_object {
public:
    explicit key_of_object(const object& o) noexcept : name_space_(o.name_space()), name_(o.name()) {}
    key_view view() const noexcept { return {name_space_.view(), name_.view()}; }

private:
    text name_space_, name_;
};

/// Reads keys in place. The lowest bits of a hash come from the namespace alone, so that the objects of one namespace
/// lie in one sub-trie: listing a namespace needs no index.
struct object_traits {
    static constexpr unsigned namespace_levels = 2; // of 5 bits
    static constexpr unsigned namespace_bits = namespace_levels * 5;

    std::uint64_t seed = 0; // servers choose names; a seed keeps them from preparing collisions

    /// Calls `f` with the object's key, read in place.
    template <class F>
    static auto with_key(const object& o, F f) noexcept {
        const key_of_object key(o);
        return f(key.view());
    }

    static void prefetch(const object& o) noexcept { __builtin_prefetch(o.root(), 1); }

    /// The hash has two secrets, and neither can be told from the other without knowing it.
    [[gnu::always_inline]] static std::uint64_t hash_text(std::uint64_t seed, std::string_view s) noexcept {
        return hash_from({seed, seed * 0x9e37'79b9'7f4a'7c15U | 1}, seed, s.data(), s.size());
    }
    std::uint64_t hash_namespace(std::string_view name_space) const noexcept { return hash_text(seed, name_space); }
    std::uint64_t hash(const key_view& k) const noexcept { return hash(hash_namespace(k.name_space), k.name); }
    /// `n`: the hash of the namespace.
    std::uint64_t hash(std::uint64_t n, std::string_view name) const noexcept {
        // Two hashes that do not depend on each other: the processor computes them at the same time.
        return (hash_text(seed, name) + n * 0x9e37'79b9'7f4a'7c15U) << namespace_bits |
               (n & ((1u << namespace_bits) - 1));
    }
    std::uint64_t hash(const object& o) const noexcept {
        return with_key(o, [this](const key_view& k) { return hash(k); });
    }
    bool equal(const object& o, const key_view& k) const noexcept { return o.has_key(k.name_space, k.name); }
    bool equal(const object& a, const object& b) const noexcept {
        if (a.root() == b.root()) return true;
        return with_key(b, [&](const key_view& k) { return equal(a, k); });
    }
};

using object_map = persistent_map<object, object_traits>;

} // namespace informer::detail
