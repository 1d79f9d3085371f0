// A node of the persistent map: leaves, a piece of the hash of each leaf, and children.
#pragma once

#include "root/processor.hpp"

#include <informer/detail/shared_count.hpp>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>
#include <utility>

namespace informer::detail {

constexpr unsigned ones_portable(std::uint32_t x) noexcept {
    x -= (x >> 1) & 0x5555'5555u;
    x = (x & 0x3333'3333u) + ((x >> 2) & 0x3333'3333u);
    return (((x + (x >> 4)) & 0x0f0f'0f0fu) * 0x0101'0101u) >> 24;
}

#if defined(__x86_64__) && !defined(__POPCNT__)
inline const bool processor_counts_bits = __builtin_cpu_supports("popcnt") != 0;
#endif

/// Like std::popcount, which is a function call if the target has no instruction for it (x86-64 without options),
/// although nearly every processor has one. That call took a third of a look-up's time.
[[gnu::always_inline]] inline unsigned ones(std::uint32_t x) noexcept {
#if defined(__x86_64__) && !defined(__POPCNT__)
    if (processor_counts_bits) [[likely]] {
        asm("popcnt %0, %0" : "+r"(x) : : "cc");
        return x;
    }
#endif
    return ones_portable(x);
}

/// A node with room to grow. In memory, its slots follow it: children take the first slots and leaves the last ones,
/// the free slots lie between them; then comes a tag for each leaf. Children and leaves are in the order of their bits,
/// leaves from the end backwards. A bucket has no children, its leaves are in no order, and its tags come before the
/// slots, since a search begins with them.
///
/// The node only knows where things are; reference counts and destruction are the map's task.
template <class Leaf>
struct alignas(std::max(alignof(Leaf), alignof(void*))) trie_node {
    using tag = std::uint32_t;
    static constexpr std::size_t slot_align = std::max(alignof(Leaf), alignof(void*));
    static constexpr std::size_t slot_bytes =
        (std::max(sizeof(Leaf), sizeof(void*)) + slot_align - 1) & ~(slot_align - 1);

    shared_count count{1};
    std::uint32_t leaf_map = 0; // in a bucket: the number of its leaves, which are in no order
    std::uint32_t child_map = 0;
    std::uint32_t slots; // twice their number, plus one in a bucket

    trie_node(std::uint32_t n, bool bucket) noexcept : slots(n * 2 + bucket) {}
    bool is_bucket() const noexcept { return slots & 1; }
    unsigned leaves() const noexcept { return is_bucket() ? leaf_map : ones(leaf_map); }
    unsigned children() const noexcept { return ones(child_map); }
    bool full() const noexcept { return leaves() + children() == slots / 2; }
    std::size_t bytes() const noexcept { return bytes_for(slots / 2); }
    [[gnu::always_inline]] Leaf* leaf(unsigned i) noexcept {
        return std::launder(reinterpret_cast<Leaf*>(end_of_slots() - (std::size_t{i} + 1) * slot_bytes));
    }
    const Leaf* leaf(unsigned i) const noexcept { return const_cast<trie_node*>(this)->leaf(i); }
    tag* tags() noexcept {
        return std::launder(reinterpret_cast<tag*>(is_bucket() ? behind() : behind() + slots / 2 * slot_bytes));
    }
    const tag* tags() const noexcept { return const_cast<trie_node*>(this)->tags(); }
    trie_node** child(unsigned i) noexcept {
        return std::launder(reinterpret_cast<trie_node**>(behind() + i * slot_bytes));
    }
    trie_node* const* child(unsigned i) const noexcept { return const_cast<trie_node*>(this)->child(i); }
    bool shared() const noexcept { return count.load(std::memory_order_acquire) != 1; }

    /// Which leaves of a bucket, from the one at `from` to the sixteenth from there on, have this tag: a bit for each.
    [[gnu::always_inline]] std::uint32_t tagged(unsigned from, tag t) const noexcept {
        const tag* const at = tags() + from;
        const unsigned left = std::min(leaf_map - from, 16u);
#if defined(INFORMER_SSE2)
        // Behind the tags lie the slots: sixteen words can be read from `from` on, but in the smallest buckets. What is
        // not a tag is masked.
        constexpr std::uint32_t wide = (16 * sizeof(tag) + sizeof(tag) + slot_bytes - 1) / (sizeof(tag) + slot_bytes);
        if (slots / 2 >= wide) {
            const __m128i wanted = _mm_set1_epi32(static_cast<int>(t));
            const auto four = [&](unsigned i) {
                return _mm_cmpeq_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(at + i)), wanted);
            };
            const __m128i all = _mm_packs_epi16(_mm_packs_epi32(four(0), four(4)), _mm_packs_epi32(four(8), four(12)));
            return static_cast<std::uint32_t>(_mm_movemask_epi8(all)) & ((1u << left) - 1);
        }
#endif
        std::uint32_t found = 0;
        for (unsigned i = 0; i < left; ++i) found |= static_cast<std::uint32_t>(at[i] == t) << i;
        return found;
    }

    /// The leaf that comes after `l`.
    static const Leaf* next(const Leaf* l) noexcept {
        return reinterpret_cast<const Leaf*>(reinterpret_cast<const std::byte*>(l) - slot_bytes);
    }
    static Leaf* next(Leaf* l) noexcept {
        return reinterpret_cast<Leaf*>(reinterpret_cast<std::byte*>(l) - slot_bytes);
    }
    static void move_leaf(Leaf* to, Leaf* from) noexcept {
        ::new (to) Leaf(std::move(*from));
        from->~Leaf();
    }

    // Only for a node that is not shared, and that has room. The caller updates `leaf_map` and `child_map` afterwards;
    // those of a bucket are updated here.
    void add_leaf(Leaf&& l, tag t) noexcept {
        ::new (leaf(leaf_map)) Leaf(std::move(l));
        tags()[leaf_map++] = t;
    }
    Leaf remove_leaf(unsigned i) noexcept {
        Leaf l(std::move(*leaf(i)));
        leaf(i)->~Leaf();
        if (i == --leaf_map) return l;
        move_leaf(leaf(i), leaf(leaf_map));
        tags()[i] = tags()[leaf_map];
        return l;
    }
    void put_leaf(unsigned i, Leaf&& l, tag t) noexcept {
        const unsigned n = leaves();
        for (unsigned k = n; k > i; --k) {
            move_leaf(leaf(k), leaf(k - 1));
            tags()[k] = tags()[k - 1];
        }
        ::new (leaf(i)) Leaf(std::move(l));
        tags()[i] = t;
    }
    Leaf take_leaf(unsigned i) noexcept {
        Leaf l(std::move(*leaf(i)));
        leaf(i)->~Leaf();
        for (unsigned k = i + 1, n = leaves(); k < n; ++k) {
            move_leaf(leaf(k - 1), leaf(k));
            tags()[k - 1] = tags()[k];
        }
        return l;
    }
    void put_child(unsigned i, trie_node* c) noexcept {
        for (unsigned k = children(); k > i; --k) ::new (child(k)) trie_node*(*child(k - 1));
        ::new (child(i)) trie_node*(c);
    }
    void take_child(unsigned i) noexcept {
        for (unsigned k = i + 1, n = children(); k < n; ++k) *child(k - 1) = *child(k);
    }

    static std::size_t size_of_tags(std::size_t n) noexcept {
        return (n * sizeof(tag) + slot_align - 1) & ~(slot_align - 1);
    }
    static std::size_t size(std::size_t n) noexcept {
        return sizeof(trie_node) + n * slot_bytes + size_of_tags(n);
    }
    /// Including what malloc rounds up and keeps for itself.
    static std::size_t bytes_for(std::size_t n) noexcept {
        return ((size(n) + 7) | 15) + 1;
    }
    /// As many slots as fit into what malloc allocates for `n` anyway.
    static std::uint32_t rounded(std::uint32_t n) noexcept {
        while (bytes_for(n + 1) == bytes_for(n)) ++n;
        return n;
    }

private:
    std::byte* behind() noexcept {
        return reinterpret_cast<std::byte*>(this) + sizeof(trie_node);
    }
    [[gnu::always_inline]] std::byte* end_of_slots() noexcept {
        const std::size_t n = slots / 2;
        return behind() + n * slot_bytes + (is_bucket() ? size_of_tags(n) : 0);
    }
};

} // namespace informer::detail
