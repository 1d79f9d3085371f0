// Shapes of objects: their ordered keys, and what finds a key among them.
#include "detail/generation.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace informer::detail {

handle generation::find_shape(const handle* keys, std::uint32_t n) {
    const std::uint32_t header = make_shape_header(n, n >= wide_shape);
    const std::size_t bytes = std::size_t{n} * 4;
    const handle found = find(hash(header, keys, bytes), header, keys, bytes);
    if (found) retain(found);
    return found;
}

/// A short key is looked for by its handle, so any hash will do for it.
[[gnu::always_inline]] inline std::uint64_t generation::quick_hash_of_key(handle key) const noexcept {
    if (!is_node(key)) return quick_hash_of_small(key);
    const std::uint32_t* const k = node(key);
    return detail::quick_hash({reinterpret_cast<const char*>(k + 1), header_length(*k)});
}

handle generation::make_shape(const handle* keys, std::uint32_t n) {
    const std::uint32_t header = make_shape_header(n, n >= wide_shape);
    const std::uint64_t hash = this->hash(header, keys, std::size_t{n} * 4);
    table_->reserve(hash);
    const handle h = make_node(header, 2 + n + shape_finder_words(header), interned_bit | 1);
    std::uint32_t* payload = words(h & (node_bit - 1)) + 2;
    std::memcpy(payload, keys, std::size_t{n} * 4);
    if (n >= wide_shape) {
        index_keys<false>(keys, n, payload + n);
        table_->insert(hash, h);
        return h;
    }
    auto* prints = reinterpret_cast<unsigned char*>(payload + n);
    for (std::uint32_t i = 0; i < n; ++i) prints[i] = fingerprint_of(quick_hash_of_key(keys[i]));
    table_->insert(hash, h);
    return h;
}

/// Writes the fingerprints of fewer than 256 keys and tells whether a key is there twice. Nearly all keys differ in the
/// eleven bits that begin with the fingerprint. Of the others only so many pairs are compared that a hash table would
/// cost no less.
template <class HashOf>
generation::alike generation::compare_keys(const handle* keys, std::uint32_t n, unsigned char* prints,
                                           const HashOf& hash_of) const noexcept {
    std::array<std::uint64_t, 32> seen;
    seen.fill(0);
    std::uint32_t pairs = 2 * n;
    for (std::uint32_t i = 0; i < n; ++i) {
        const std::uint64_t hash = hash_of(i), bit = std::uint64_t{1} << (hash >> 53) % 64;
        const unsigned char print = prints[i] = fingerprint_of(hash);
        std::uint64_t& word = seen[hash >> 59];
        const bool is_new = (word & bit) == 0;
        word |= bit;
        if (is_new) [[likely]]
            continue;
        const unsigned char* other = prints;
        while ((other = static_cast<const unsigned char*>(
                    std::memchr(other, print, static_cast<std::size_t>(prints + i - other))))) {
            if (pairs-- == 0) return alike::too_many;
            if (same_key(keys[other - prints], keys[i])) return alike::twice;
            ++other;
        }
    }
    return alike::none;
}

handle generation::make_loose_shape(const handle* keys, std::uint32_t n, const std::uint16_t* hashes) {
    unsigned char prints[256];
    alike found = alike::too_many;
    if (has_narrow_slots(n)) {
        found =
            hashes
                ? compare_keys(keys, n, prints, [hashes](std::uint32_t i) { return std::uint64_t{hashes[i]} << 48; })
                : compare_keys(keys, n, prints, [this, keys](std::uint32_t i) { return quick_hash_of_key(keys[i]); });
    }
    if (found == alike::twice) return missing_handle;
    const std::uint32_t header = make_shape_header(n, found == alike::too_many);
    const std::uint32_t node_words = 2 + n + shape_finder_words(header);
    const handle h = make_node(header, node_words, 1);
    std::uint32_t* const payload = words(h & (node_bit - 1)) + 2;
    std::memcpy(payload, keys, std::size_t{n} * 4);
    if (found == alike::none) {
        std::memcpy(payload + n, prints, n);
        return h;
    }
    if (has_narrow_slots(n) ? index_keys<true>(keys, n, reinterpret_cast<std::uint16_t*>(payload + n))
                            : index_keys<true>(keys, n, payload + n))
        return h;
    end_node(h, header, node_words);
    --references_;
    return missing_handle;
}

// A slot of a hashed shape is 0 (free) or holds the index of a key plus one and, above that, as many bits of the key's
// hash as fit. False: a key is there twice.
template <bool loose, class Slot>
[[gnu::flatten]] bool generation::index_keys(const handle* keys, std::uint32_t n, Slot* slots) const noexcept {
    const std::uint32_t size = shape_slots(n);
    const auto number_bits = static_cast<int>(std::bit_width(n));
    const std::uint32_t number_mask = (1u << number_bits) - 1;
    std::fill_n(slots, size, Slot());
    const auto home = [&](std::uint64_t hash) { return static_cast<std::uint32_t>((hash >> 32) * size >> 32); };
    // A large table is in no near cache: a key's slot is prefetched while the keys before it are stored.
    constexpr std::uint32_t ahead = sizeof(Slot) == 2 ? 1 : 16;
    std::uint64_t hashes[ahead];
    for (std::uint32_t next = 0; next < n + ahead - 1; ++next) {
        if (next < n) {
            hashes[next % ahead] = hash_of_key(keys[next]);
            if (ahead > 1) __builtin_prefetch(&slots[home(hashes[next % ahead])], 1);
        }
        if (next + 1 < ahead) continue;
        const std::uint32_t i = next + 1 - ahead;
        const std::uint64_t h = hashes[i % ahead];
        const auto tag = static_cast<Slot>(h << number_bits);
        std::uint32_t at = home(h);
        for (; slots[at] != 0; at = at + 1 == size ? 0 : at + 1)
            if (loose && ((slots[at] ^ tag) & ~number_mask) == 0 &&
                same_key(keys[(slots[at] & number_mask) - 1], keys[i]))
                return false;
        slots[at] = static_cast<Slot>(tag | (i + 1));
    }
    return true;
}

template <class Same>
std::uint32_t generation::find_key(const std::uint32_t* shape, std::uint64_t h, const Same& same) const noexcept {
    const std::uint32_t n = shape_size(*shape), size = shape_slots(n);
    const handle* const keys = shape + 1;
    const auto number_bits = static_cast<int>(std::bit_width(n));
    const std::uint32_t number_mask = (1u << number_bits) - 1;
    const auto look = [&]<class Slot>(const Slot* slots) {
        const auto tag = static_cast<Slot>(h << number_bits);
        for (auto at = static_cast<std::uint32_t>((h >> 32) * size >> 32); slots[at] != 0;
             at = at + 1 == size ? 0 : at + 1) {
            if (((slots[at] ^ tag) & ~number_mask) != 0) continue;
            const std::uint32_t i = (slots[at] & number_mask) - 1;
            if (same(keys[i])) return i;
        }
        return n;
    };
    return has_narrow_slots(n) ? look(reinterpret_cast<const std::uint16_t*>(keys + n)) : look(keys + n);
}

std::uint32_t generation::find_key(const std::uint32_t* shape, std::string_view key) const noexcept {
    if (key.size() <= 3) return find_small_key(shape, make_small_string(key));
    const std::uint32_t header = make_header(node_kind::string, static_cast<std::uint32_t>(key.size()));
    return find_key(shape, hash(header, key.data(), key.size()), [&](handle other) {
        if (!is_node(other)) return false;
        const std::uint32_t* const k = node(other);
        return header_length(*k) == key.size() && same_bytes(k + 1, key.data(), key.size());
    });
}

std::uint32_t generation::find_small_key(const std::uint32_t* shape, handle key) const noexcept {
    return find_key(shape, hash(key), [key](handle other) { return other == key; });
}

} // namespace informer::detail
