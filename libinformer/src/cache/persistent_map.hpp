// A persistent hash map: a hash array mapped trie of which any number of versions share their nodes.
//
// Source: P. Bagwell, "Ideal Hash Trees" (2001); the split of a node into leaves and children follows M. Steindorfer and
// J. Vinju, "Optimizing Hash-Array Mapped Tries" (2015). Nodes are counted; one that only this map can reach is edited in
// place, so a run of writes between two snapshots copies each node at most once.
#pragma once

#include <informer/detail/shared_count.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <new>
#include <optional>
#include <type_traits>
#include <utility>

namespace informer::detail {

#if defined(__x86_64__) && !defined(__POPCNT__)
inline const bool processor_counts_bits = __builtin_cpu_supports("popcnt") != 0;
#endif

/// A map of leaves that hold their own key.
///
/// `Traits`: `std::uint64_t hash(x) const` and `bool equal(const Leaf&, x) const`, where x is a Leaf or a key.
///
/// *Thread safety*: a map is a value: one thread at a time for each map; copies that share nodes may be read, written and
/// dropped on different threads at once. *Complexity*: copying O(1); find, put and erase O(log32 n). *Errors*: when memory
/// runs out, put and erase throw std::bad_alloc and the map is as before.
template <class Leaf, class Traits>
class persistent_map {
    static_assert(std::is_nothrow_copy_constructible_v<Leaf> && std::is_nothrow_move_constructible_v<Leaf>);
    static_assert(std::is_nothrow_destructible_v<Leaf> && std::is_nothrow_swappable_v<Leaf>);
    static_assert(alignof(Leaf) <= alignof(std::max_align_t));

    static constexpr unsigned level_bits = 5;
    static constexpr unsigned hash_bits = 64;
    static constexpr unsigned max_depth = (hash_bits + level_bits - 1) / level_bits + 1; // one for colliding hashes

    /// As std::popcount, which is a call where the target has no instruction for it (x86-64 without options), though
    /// nearly every processor has: a third of a look-up's time.
    static unsigned ones(std::uint32_t x) noexcept {
#if defined(__x86_64__) && !defined(__POPCNT__)
        if (processor_counts_bits) [[likely]] {
            asm("popcnt %0, %0" : "+r"(x) : : "cc");
            return x;
        }
#endif
        x -= (x >> 1) & 0x5555'5555u;
        x = (x & 0x3333'3333u) + ((x >> 2) & 0x3333'3333u);
        return (((x + (x >> 4)) & 0x0f0f'0f0fu) * 0x0101'0101u) >> 24;
    }

    // Behind a node: its leaves, then its children, both in the order of their bits.
    struct alignas(std::max(alignof(Leaf), alignof(void*))) node {
        shared_count count{1};
        std::uint32_t leaf_map = 0; // none where all bits of the hash are used up: leaves are searched there
        std::uint32_t child_map = 0;
        std::uint32_t leaf_count = 0;

        unsigned leaves() const noexcept { return leaf_count; }
        unsigned children() const noexcept { return ones(child_map); }
        static constexpr std::size_t child_offset(unsigned leaves) noexcept {
            const std::size_t end = sizeof(node) + leaves * sizeof(Leaf);
            return (end + alignof(void*) - 1) / alignof(void*) * alignof(void*);
        }
        static constexpr std::size_t bytes(unsigned leaves, unsigned children) noexcept {
            return child_offset(leaves) + children * sizeof(void*);
        }
        std::size_t bytes() const noexcept { return bytes(leaves(), children()); }
        Leaf* leaf(unsigned i) noexcept {
            return std::launder(reinterpret_cast<Leaf*>(reinterpret_cast<std::byte*>(this) + sizeof(node))) + i;
        }
        const Leaf* leaf(unsigned i) const noexcept { return const_cast<node*>(this)->leaf(i); }
        node** child(unsigned i) noexcept {
            return std::launder(reinterpret_cast<node**>(reinterpret_cast<std::byte*>(this) + child_offset(leaves()))) + i;
        }
        node* const* child(unsigned i) const noexcept { return const_cast<node*>(this)->child(i); }
        bool shared() const noexcept { return count.load(std::memory_order_acquire) != 1; }
    };

public:
    persistent_map() = default;
    explicit persistent_map(Traits t) : traits_(std::move(t)) {}
    persistent_map(const persistent_map& o) noexcept : root_(o.root_), size_(o.size_), bytes_(o.bytes_), traits_(o.traits_) {
        if (root_) retain(root_);
    }
    persistent_map(persistent_map&& o) noexcept
        : root_(std::exchange(o.root_, nullptr)), size_(std::exchange(o.size_, 0)), bytes_(std::exchange(o.bytes_, 0)),
          traits_(o.traits_) {}
    persistent_map& operator=(persistent_map o) noexcept {
        std::swap(root_, o.root_);
        std::swap(size_, o.size_);
        std::swap(bytes_, o.bytes_);
        std::swap(traits_, o.traits_);
        return *this;
    }
    ~persistent_map() {
        if (root_) release(root_);
    }

    std::size_t size() const noexcept { return size_; }
    bool empty() const noexcept { return size_ == 0; }
    /// Of this version's nodes, shared or not; what leaves point to is not counted.
    std::size_t bytes() const noexcept { return bytes_; }
    const Traits& traits() const noexcept { return traits_; }
    /// True when both are one version: nothing was written to either since they were copied.
    bool same_as(const persistent_map& o) const noexcept { return root_ == o.root_; }

    /// The leaf of a key, or null; valid until this map is written to or dropped.
    template <class Key>
    const Leaf* find(const Key& key) const {
        return find(key, traits_.hash(key));
    }
    /// The same where the hash of the key is known.
    template <class Key>
    const Leaf* find(const Key& key, std::uint64_t h) const {
        const node* n = root_;
        for (unsigned shift = 0; n; shift += level_bits) {
            if (shift >= hash_bits) return find_colliding(n, key);
            const std::uint32_t bit = bit_of(h, shift);
            if (n->leaf_map & bit) {
                const Leaf* l = n->leaf(rank(n->leaf_map, bit));
                return traits_.equal(*l, key) ? l : nullptr;
            }
            n = n->child_map & bit ? *n->child(rank(n->child_map, bit)) : nullptr;
        }
        return nullptr;
    }

    /// A leaf that may be changed in place (never its key), or null; the path to it is made this map's own.
    template <class Key>
    Leaf* edit(const Key& key) {
        const std::uint64_t h = traits_.hash(key);
        if (!find(key, h)) return nullptr;
        node** slot = &root_;
        for (unsigned shift = 0;; shift += level_bits) {
            own(*slot);
            node* n = *slot;
            if (shift >= hash_bits) return const_cast<Leaf*>(find_colliding(n, key));
            const std::uint32_t bit = bit_of(h, shift);
            if (n->leaf_map & bit) return n->leaf(rank(n->leaf_map, bit));
            slot = n->child(rank(n->child_map, bit));
        }
    }

    /// Puts or replaces; what was there.
    std::optional<Leaf> put(Leaf leaf) {
        const std::uint64_t h = traits_.hash(leaf);
        return put(leaf, leaf, h);
    }
    /// The same where the key of the leaf was read before, and its hash; `leaf` is moved from.
    template <class Key>
    std::optional<Leaf> put(Leaf& leaf, const Key& key, std::uint64_t h) {
        std::optional<Leaf> old;
        if (!root_) {
            root_ = allocate(1, 0);
            root_->leaf_map = bit_of(h, 0);
            ::new (root_->leaf(0)) Leaf(std::move(leaf));
            bytes_ = root_->bytes();
        } else {
            put_into(root_, 0, h, key, leaf, old);
        }
        if (!old) ++size_;
        return old;
    }

    /// Takes out; what was there.
    template <class Key>
    std::optional<Leaf> erase(const Key& key) {
        std::optional<Leaf> old;
        const std::uint64_t h = traits_.hash(key);
        if (!find(key, h)) return old;
        erase_from(root_, 0, h, key, old);
        --size_;
        if (size_ == 0) {
            release(std::exchange(root_, nullptr));
            bytes_ = 0;
        }
        return old;
    }

    void clear() noexcept { *this = persistent_map(traits_); }

    /// Walks one version, in slices if need be: it holds what it walks. One step is O(1) on average.
    class cursor {
    public:
        cursor() = default;
        explicit cursor(persistent_map m) : map_(std::move(m)) {
            if (map_.root_) push(map_.root_);
        }
        /// Only the leaves whose hash agrees with `hash` in its lowest `levels` x 5 bits.
        cursor(persistent_map m, std::uint64_t hash, unsigned levels) : map_(std::move(m)) {
            const node* n = map_.root_;
            for (unsigned level = 0; n && level < levels; ++level) {
                const std::uint32_t bit = bit_of(hash, level * level_bits);
                if (n->leaf_map & bit) single_ = n->leaf(rank(n->leaf_map, bit));
                n = n->child_map & bit ? *n->child(rank(n->child_map, bit)) : nullptr;
            }
            if (n) push(n);
        }
        /// The next leaf, or null at the end; valid while the cursor lives.
        const Leaf* next() noexcept {
            if (single_) return std::exchange(single_, nullptr);
            while (depth_ > 0) {
                frame& f = stack_[depth_ - 1];
                if (f.leaf < f.at->leaves()) return f.at->leaf(f.leaf++);
                if (f.child < f.at->children()) {
                    push(*f.at->child(f.child++));
                } else {
                    --depth_;
                }
            }
            return nullptr;
        }

    private:
        struct frame {
            const node* at;
            std::uint32_t leaf, child;
        };
        void push(const node* n) noexcept {
            assert(depth_ < max_depth);
            stack_[depth_++] = frame{n, 0, 0};
        }

        persistent_map map_;
        const Leaf* single_ = nullptr;
        unsigned depth_ = 0;
        std::array<frame, max_depth> stack_;
    };

private:
    static std::uint32_t bit_of(std::uint64_t hash, unsigned shift) noexcept {
        return std::uint32_t(1) << ((hash >> shift) & 31);
    }
    static unsigned rank(std::uint32_t map, std::uint32_t bit) noexcept {
        return ones(map & (bit - 1));
    }

    static node* allocate(unsigned leaves, unsigned children) {
        node* n = ::new (::operator new(node::bytes(leaves, children))) node;
        n->leaf_count = leaves;
        return n;
    }
    static void deallocate(node* n) noexcept {
        const std::size_t size = n->bytes();
        n->~node();
        ::operator delete(n, size);
    }
    static void retain(node* n) noexcept { count_up(n->count); }
    // Recursion is as deep as the trie: 14 at most.
    static void release(node* n) noexcept {
        if (!count_down(n->count)) return;
        for (unsigned i = 0; i < n->children(); ++i) release(*n->child(i));
        for (unsigned i = 0; i < n->leaves(); ++i) n->leaf(i)->~Leaf();
        deallocate(n);
    }

    /// Makes the node in `slot`, whose parents are ours alone, ours alone too.
    static void own(node*& slot) {
        if (!slot->shared()) return;
        rebuild(slot, change());
    }

    // What rebuild() changes: positions, -1 for none. Dropped ones count in the old node, put ones in the new one.
    struct change {
        int drop_leaf = -1, drop_child = -1, put_leaf = -1, put_child = -1;
        Leaf* leaf = nullptr; // moved from
        node* child = nullptr;
        std::uint32_t leaf_flip = 0, child_flip = 0;
    };
    /// Replaces the node in `slot` by a changed one: its contents are moved when it is ours alone, else copied. Throws
    /// before anything is changed. A dropped child is not released when its node was ours alone.
    static void rebuild(node*& slot, change c) {
        node* const from = slot;
        const unsigned leaves = from->leaves(), children = from->children();
        node* const to = allocate(leaves - (c.drop_leaf >= 0) + (c.put_leaf >= 0),
                                  children - (c.drop_child >= 0) + (c.put_child >= 0));
        to->leaf_map = from->leaf_map ^ c.leaf_flip;
        to->child_map = from->child_map ^ c.child_flip;
        const bool moves = !from->shared();
        unsigned at = 0;
        for (unsigned i = 0; i <= leaves; ++i) {
            if (c.put_leaf == static_cast<int>(at)) ::new (to->leaf(at++)) Leaf(std::move(*c.leaf));
            if (i == leaves) break;
            const bool dropped = c.drop_leaf == static_cast<int>(i);
            if (!dropped && moves) ::new (to->leaf(at++)) Leaf(std::move(*from->leaf(i)));
            if (!dropped && !moves) ::new (to->leaf(at++)) Leaf(std::as_const(*from->leaf(i)));
            if (moves) from->leaf(i)->~Leaf();
        }
        at = 0;
        for (unsigned i = 0; i <= children; ++i) {
            if (c.put_child == static_cast<int>(at)) ::new (to->child(at++)) node*(c.child);
            if (i == children) break;
            if (c.drop_child == static_cast<int>(i)) continue;
            node* const kept = *from->child(i);
            if (!moves) retain(kept);
            ::new (to->child(at++)) node*(kept);
        }
        slot = to;
        if (moves) {
            deallocate(from);
        } else {
            release(from);
        }
    }
    void rebuild_counted(node*& slot, const change& c) {
        const std::size_t before = slot->bytes();
        rebuild(slot, c);
        bytes_ = bytes_ - before + slot->bytes();
    }

    template <class Key>
    const Leaf* find_colliding(const node* n, const Key& key) const {
        for (unsigned i = 0; i < n->leaves(); ++i) {
            if (traits_.equal(*n->leaf(i), key)) return n->leaf(i);
        }
        return nullptr;
    }

    void replace(node*& slot, unsigned position, Leaf& leaf, std::optional<Leaf>& old) {
        own(slot);
        using std::swap;
        swap(*slot->leaf(position), leaf);
        old.emplace(std::move(leaf));
    }

    template <class Key>
    void put_into(node*& slot, unsigned shift, std::uint64_t h, const Key& key, Leaf& leaf, std::optional<Leaf>& old) {
        node* const n = slot;
        change c;
        if (shift >= hash_bits) {
            if (const Leaf* l = find_colliding(n, key)) {
                replace(slot, static_cast<unsigned>(l - n->leaf(0)), leaf, old);
                return;
            }
            c.put_leaf = static_cast<int>(n->leaves());
            c.leaf = &leaf;
            rebuild_counted(slot, c);
            return;
        }
        const std::uint32_t bit = bit_of(h, shift);
        const unsigned leaf_at = rank(n->leaf_map, bit), child_at = rank(n->child_map, bit);
        if (n->leaf_map & bit) {
            if (traits_.equal(*n->leaf(leaf_at), key)) {
                replace(slot, leaf_at, leaf, old);
                return;
            }
            // Both go one level down. They are taken there as copies, so that a failure changes nothing.
            std::size_t made = 0;
            node* const pair = make_pair(*n->leaf(leaf_at), leaf, shift + level_bits, h, made);
            c.drop_leaf = static_cast<int>(leaf_at);
            c.put_child = static_cast<int>(child_at);
            c.child = pair;
            c.leaf_flip = c.child_flip = bit;
            try {
                rebuild_counted(slot, c);
            } catch (...) {
                release(pair);
                throw;
            }
            bytes_ += made;
            return;
        }
        if (n->child_map & bit) {
            own(slot);
            put_into(*slot->child(child_at), shift + level_bits, h, key, leaf, old);
            return;
        }
        c.put_leaf = static_cast<int>(leaf_at);
        c.leaf = &leaf;
        c.leaf_flip = bit;
        rebuild_counted(slot, c);
    }

    /// The smallest trie of two leaves from `shift` on.
    node* make_pair(const Leaf& a, const Leaf& b, unsigned shift, std::uint64_t hash_of_b, std::size_t& made) const {
        const std::uint64_t hash_of_a = traits_.hash(a);
        unsigned bottom = shift;
        while (bottom < hash_bits && bit_of(hash_of_a, bottom) == bit_of(hash_of_b, bottom)) bottom += level_bits;
        node* n = allocate(2, 0);
        made += n->bytes();
        const bool a_first = bottom >= hash_bits || bit_of(hash_of_a, bottom) < bit_of(hash_of_b, bottom);
        ::new (n->leaf(0)) Leaf(a_first ? a : b);
        ::new (n->leaf(1)) Leaf(a_first ? b : a);
        if (bottom < hash_bits) n->leaf_map = bit_of(hash_of_a, bottom) | bit_of(hash_of_b, bottom);
        while (bottom > shift) {
            bottom -= level_bits;
            node* parent = nullptr;
            try {
                parent = allocate(0, 1);
            } catch (...) {
                release(n);
                throw;
            }
            parent->child_map = bit_of(hash_of_a, bottom);
            ::new (parent->child(0)) node*(n);
            made += parent->bytes();
            n = parent;
        }
        return n;
    }

    template <class Key>
    void erase_from(node*& slot, unsigned shift, std::uint64_t h, const Key& key, std::optional<Leaf>& old) {
        node* const n = slot;
        const std::uint32_t bit = shift < hash_bits ? bit_of(h, shift) : 0;
        change c;
        if (shift >= hash_bits || n->leaf_map & bit) {
            const unsigned at = shift >= hash_bits ? static_cast<unsigned>(find_colliding(n, key) - n->leaf(0))
                                                   : rank(n->leaf_map, bit);
            old.emplace(std::as_const(*n->leaf(at)));
            c.drop_leaf = static_cast<int>(at);
            c.leaf_flip = bit;
            rebuild_counted(slot, c);
            return;
        }
        own(slot);
        const unsigned child_at = rank(slot->child_map, bit);
        erase_from(*slot->child(child_at), shift + level_bits, h, key, old);
        // A child of one leaf moves up, so that equal contents have equal tries and paths stay short.
        node* const child = *slot->child(child_at);
        if (child->leaves() != 1 || child->child_map != 0) return;
        Leaf last(std::as_const(*child->leaf(0)));
        c.drop_child = static_cast<int>(child_at);
        c.child_flip = c.leaf_flip = bit;
        c.put_leaf = static_cast<int>(rank(slot->leaf_map, bit));
        c.leaf = &last;
        const std::size_t freed = child->bytes();
        try {
            rebuild_counted(slot, c); // own() before: the contents are moved, the child is left to us
        } catch (const std::bad_alloc&) {
            return; // the trie is right as it is, only deeper than it need be
        }
        bytes_ -= freed;
        release(child);
    }

    node* root_ = nullptr;
    std::size_t size_ = 0;
    std::size_t bytes_ = 0;
    [[no_unique_address]] Traits traits_{};
};

} // namespace informer::detail
