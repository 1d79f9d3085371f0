// What a 32-bit handle and a node look like.
//
// A handle is a small value itself or names a node:
//   1ttttttt…  timestamp, 31 bits of seconds since 2000-01-01T00:00:00Z, standing for its 20 characters
//   01xxxxxx…  node: 30 bits × 4 bytes
//   001iiiii…  integer, 29 bits signed
//   0001 00ll c c c   string of at most three bytes
//   0000…      missing, null, false, true, {}, []
//
// A node is an array of 32-bit words: [count][header][payload…]. The count is read and written by the writer alone;
// what follows is never written again while the node lives, so readers need no lock. The header is
//   01xxxxxx…  an object: the handle of its shape (its ordered keys); payload: one handle a member
//   1kkk nnnn… kind and 28 bits of length: bytes of a string or number text, elements of an array, keys of a shape
// Behind the keys of a shape lies what finds them by their text: one byte of fingerprint for each key, or a hash
// table; a bit of the length says which.
#pragma once

#include "root/bytes.hpp"

#include <bit>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace informer::detail {

using handle = std::uint32_t;

inline constexpr handle missing_handle = 0;
inline constexpr handle null_handle = 1;
inline constexpr handle false_handle = 2;
inline constexpr handle true_handle = 3;
inline constexpr handle empty_object_handle = 4;
inline constexpr handle empty_array_handle = 5;

inline constexpr handle timestamp_bit = 0x8000'0000u;
inline constexpr handle node_bit = 0x4000'0000u;
inline constexpr handle int_bit = 0x2000'0000u;
inline constexpr handle string_bit = 0x1000'0000u;

inline constexpr std::uint32_t segment_shift = 18; // words: a segment spans 1 MiB of handles
inline constexpr std::uint32_t segment_words = 1u << segment_shift;
inline constexpr std::uint32_t max_segments = 1u << (30 - segment_shift);

constexpr bool is_timestamp(handle h) noexcept {
    return (h & timestamp_bit) != 0;
}
constexpr bool is_node(handle h) noexcept {
    return (h >> 30) == 1;
}
constexpr bool is_small_int(handle h) noexcept {
    return (h >> 29) == 1;
}
constexpr bool is_small_string(handle h) noexcept {
    return (h >> 28) == 1;
}

constexpr bool fits_small_int(std::int64_t v) noexcept {
    return v >= -(1 << 28) && v < (1 << 28);
}
constexpr handle make_small_int(std::int64_t v) noexcept {
    return int_bit | (static_cast<std::uint32_t>(v) & (int_bit - 1));
}
constexpr std::int32_t small_int(handle h) noexcept {
    return static_cast<std::int32_t>(h << 3) >> 3;
}

constexpr handle make_small_string(std::string_view s) noexcept {
    const auto n = static_cast<std::uint32_t>(s.size());
    if (n == 0) return string_bit;
    const auto at = [&](std::uint32_t i) { return static_cast<std::uint32_t>(static_cast<unsigned char>(s[i])); };
    // With fewer than three bytes, the middle and the last one repeat another: the mask removes those.
    return string_bit | n << 24 | ((at(0) | at(n / 2) << 8 | at(n - 1) << 16) & ((1u << 8 * n) - 1));
}
/// The same for `s[0]` to `s[n - 1]`, where four bytes from `s` on can be read.
[[gnu::always_inline]] inline handle make_small_string_of_four(const char* s, std::uint32_t n) noexcept {
    std::uint32_t four;
    std::memcpy(&four, s, sizeof four);
    if constexpr (std::endian::native == std::endian::big) four = __builtin_bswap32(four);
    return string_bit | n << 24 | (four & ((1u << 8 * n) - 1));
}
constexpr std::uint32_t small_string_size(handle h) noexcept {
    return (h >> 24) & 3;
}

enum class node_kind : std::uint32_t { string, uuid, array, shape, int64, uint64, floating, number };

inline constexpr std::uint32_t max_length = (1u << 28) - 1;

constexpr std::uint32_t make_header(node_kind k, std::uint32_t length) noexcept {
    return timestamp_bit | (static_cast<std::uint32_t>(k) << 28) | length;
}
constexpr bool header_is_object(std::uint32_t header) noexcept {
    return (header & timestamp_bit) == 0;
}
constexpr node_kind header_kind(std::uint32_t header) noexcept {
    return static_cast<node_kind>((header >> 28) & 7);
}
constexpr std::uint32_t header_length(std::uint32_t header) noexcept {
    return header & max_length;
}

constexpr std::uint32_t words_of(std::size_t bytes) noexcept {
    return static_cast<std::uint32_t>((bytes + 3) / 4);
}

/// From this number of keys on a hash table finds them: whoever knows the fingerprint function can make all
/// fingerprints equal. Fewer keys have a hash table too if many fingerprints are equal and not all keys are interned:
/// nothing else tells quickly whether a key is there twice.
inline constexpr std::uint32_t wide_shape = 257;
inline constexpr std::uint32_t hashed_bit = 1u << 27;
inline constexpr std::uint32_t max_keys = hashed_bit - 1;

constexpr std::uint32_t make_shape_header(std::uint32_t keys, bool hashed) noexcept {
    return make_header(node_kind::shape, hashed ? keys | hashed_bit : keys);
}
constexpr std::uint32_t shape_size(std::uint32_t header) noexcept {
    return header & max_keys;
}
constexpr bool shape_is_hashed(std::uint32_t header) noexcept {
    return (header & hashed_bit) != 0;
}
/// The number of slots of that table, each half a word in a narrow table, else a word; at least one stays free.
constexpr std::uint32_t shape_slots(std::uint32_t keys) noexcept {
    return keys + keys / 2 + 1;
}
constexpr bool has_narrow_slots(std::uint32_t keys) noexcept {
    return keys < 256;
}
/// Words behind the keys.
constexpr std::uint32_t shape_finder_words(std::uint32_t header) noexcept {
    const std::uint32_t keys = shape_size(header);
    if (!shape_is_hashed(header)) return words_of(keys);
    return words_of(std::size_t{shape_slots(keys)} * (has_narrow_slots(keys) ? 2 : 4));
}

/// For a key of at least four bytes. Uses its ends and its middle, where numbered keys differ.
[[gnu::always_inline]] inline std::uint64_t quick_hash(std::string_view key) noexcept {
    const auto* const p = reinterpret_cast<const unsigned char*>(key.data());
    const std::uint64_t ends = load_u32(p) << 32 | load_u32(p + key.size() - 4),
                        middle = load_u32(p + key.size() / 2 - 2);
    return (ends + middle * 0x9e37'79b9'7f4a'7c15U) * 0xff51'afd7'ed55'8ccdU;
}
/// For a key that is no node.
constexpr std::uint64_t quick_hash_of_small(handle key) noexcept {
    return key * 0x9e37'79b9'7f4a'7c15U;
}
/// One byte of a key, kept beside the keys of a shape: most members are told apart by it without touching their keys.
constexpr unsigned char fingerprint_of(std::uint64_t hash) noexcept {
    return static_cast<unsigned char>(hash >> 56);
}
inline unsigned char key_fingerprint(std::string_view key) noexcept {
    return fingerprint_of(quick_hash(key));
}

} // namespace informer::detail
