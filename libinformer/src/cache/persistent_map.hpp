// A persistent hash map: a hash array mapped trie of which any number of versions share their nodes.
//
// Source: P. Bagwell, "Ideal Hash Trees" (2001); the split of a node into leaves and children follows M. Steindorfer
// and J. Vinju, "Optimizing Hash-Array Mapped Tries" (2015). Nodes are reference-counted; one that only this map can
// reach is edited in place, so a run of writes between two snapshots copies each node at most once. Below the second
// level, leaves are gathered in buckets, which are searched by pieces of the leaves' hashes, sixteen at once: in a large
// map, a look-up waits for two or three cache lines, none of them of another leaf. A node has room to grow, so most
// insertions allocate nothing.
#pragma once

#include "trie_node.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <new>
#include <optional>
#include <type_traits>
#include <utility>

namespace informer::detail {

/// A map of leaves that hold their own key.
///
/// `Traits`: `std::uint64_t hash(x) const` and `bool equal(const Leaf&, x) const`, where x is a Leaf or a key. The
/// lowest 42 bits of a hash are used.
///
/// *Thread safety*: a map is a value: one thread at a time for each map; copies that share nodes may be read, written
/// and dropped on different threads at once. *Complexity*: copying O(1); find, put and erase O(log32 n). *Errors*: when
/// memory runs out, put and erase throw std::bad_alloc and the map is as before.
template <class Leaf, class Traits>
class persistent_map {
    static_assert(std::is_nothrow_copy_constructible_v<Leaf> && std::is_nothrow_move_constructible_v<Leaf>);
    static_assert(std::is_nothrow_destructible_v<Leaf> && std::is_nothrow_swappable_v<Leaf>);
    static_assert(alignof(Leaf) <= alignof(std::max_align_t));

    static constexpr unsigned level_bits = 5;
    static constexpr unsigned hash_bits = 40;                         // that the levels use
    static constexpr unsigned max_depth = hash_bits / level_bits + 1; // plus one for a bucket
    // A tag is what a node keeps of a leaf's hash: enough for all levels but the first two, which have no buckets.
    using node = trie_node<Leaf>;
    using tag = typename node::tag;
    static constexpr unsigned tag_shift = 2 * level_bits;
    static constexpr unsigned bucket_most = 64;          // leaves; more only where no level is left
    static constexpr std::size_t prefetch_from = 10'000; // leaves; a smaller map is in the processor's caches anyway
    static tag tag_of(std::uint64_t hash) noexcept { return static_cast<tag>(hash >> tag_shift); }

public:
    persistent_map() = default;
    explicit persistent_map(Traits t) : traits_(std::move(t)) {}
    persistent_map(const persistent_map& o) noexcept
        : root_(o.root_), size_(o.size_), bytes_(o.bytes_), traits_(o.traits_) {
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
    /// The size of this version's nodes, shared or not; what leaves point to is not counted.
    std::size_t bytes() const noexcept { return bytes_; }
    const Traits& traits() const noexcept { return traits_; }
    /// True when both are one version: nothing was written to either since they were copied.
    bool same_as(const persistent_map& o) const noexcept { return root_ == o.root_; }

    /// The leaf of a key, or null; valid until this map is written to or dropped.
    template <class Key>
    const Leaf* find(const Key& key) const {
        return root_ ? find(key, traits_.hash(key)) : nullptr;
    }
    /// `put` or `find` will soon be called for a key of this hash: prefetches the bucket that they search. The nodes
    /// above it are few and mostly cached. The bucket's depth is estimated from the size of the map: asking a node for
    /// its kind would mean waiting for that node.
    // always_inline, because g++ drops calls of a function that only prefetches
    [[gnu::always_inline]] void prefetch(std::uint64_t hash) const {
        if (size_ >= prefetch_from) prefetch_at(hash, bucket_most);
    }
    /// The same for the node above that bucket; to be called some time before `prefetch`, which has to read that node.
    [[gnu::always_inline]] void prefetch_way(std::uint64_t hash) const {
        if (size_ >= 32 * prefetch_from) prefetch_at(hash, 32 * bucket_most);
    }
    /// `find` for a key whose hash is known.
    template <class Key>
    const Leaf* find(const Key& key, std::uint64_t h) const {
        const node* n = root_;
        if (!n) return nullptr;
        for (std::uint64_t rest = h;; rest >>= level_bits) {
            const std::uint32_t bit = bit_of(rest, 0);
            if (n->child_map & bit) {
                n = *n->child(rank(n->child_map, bit));
                // A large bucket takes more than one cache line, and all of them are needed soon.
                __builtin_prefetch(reinterpret_cast<const std::byte*>(n) + 64);
                __builtin_prefetch(reinterpret_cast<const std::byte*>(n) + 128);
                continue;
            }
            if (n->is_bucket()) return find_in_bucket(n, key, tag_of(h));
            if ((n->leaf_map & bit) == 0) return nullptr;
            const unsigned i = rank(n->leaf_map, bit);
            const Leaf* const l = n->leaf(i);
            return n->tags()[i] == tag_of(h) && traits_.equal(*l, key) ? l : nullptr;
        }
    }

    /// A leaf that may be changed in place (never its key), or null; the nodes on the way to it become this map's own.
    template <class Key>
    Leaf* edit(const Key& key) {
        const std::uint64_t h = traits_.hash(key);
        if (!find(key, h)) return nullptr;
        node** slot = &root_;
        for (unsigned shift = 0;; shift += level_bits) {
            own(*slot);
            node* n = *slot;
            if (n->is_bucket()) return const_cast<Leaf*>(find_in_bucket(n, key, tag_of(h)));
            const std::uint32_t bit = bit_of(h, shift);
            if (n->leaf_map & bit) return n->leaf(rank(n->leaf_map, bit));
            slot = n->child(rank(n->child_map, bit));
        }
    }

    /// Inserts or replaces; returns what was there.
    std::optional<Leaf> put(Leaf leaf) {
        const std::uint64_t h = traits_.hash(leaf);
        return put(leaf, leaf, h);
    }
    /// The same if the key of the leaf and its hash are already known; `leaf` is moved from. `absent`: the caller knows
    /// that the map has no leaf with this key.
    template <class Key>
    std::optional<Leaf> put(Leaf& leaf, const Key& key, std::uint64_t h, bool absent = false) {
        std::optional<Leaf> old;
        if (!root_) root_ = make_node(1, false);
        node** slot = &root_;
        for (unsigned shift = 0;; shift += level_bits) {
            if ((*slot)->is_bucket()) {
                if (const Leaf* l = absent ? nullptr : find_in_bucket(*slot, key, tag_of(h))) {
                    const unsigned at = index_of(*slot, l);
                    own(*slot);
                    replace(*(*slot)->leaf(at), leaf, old);
                    break;
                }
                if ((*slot)->leaf_map < bucket_most || shift >= hash_bits) {
                    make_room(*slot);
                    (*slot)->add_leaf(std::move(leaf), tag_of(h));
                    break;
                }
                split(*slot, shift);
            }
            const std::uint32_t bit = bit_of(h, shift);
            if ((*slot)->child_map & bit) {
                own(*slot);
                slot = (*slot)->child(rank((*slot)->child_map, bit));
                continue;
            }
            const unsigned leaf_at = rank((*slot)->leaf_map, bit);
            if (((*slot)->leaf_map & bit) == 0) {
                make_room(*slot);
                (*slot)->put_leaf(leaf_at, std::move(leaf), tag_of(h));
                (*slot)->leaf_map ^= bit;
                break;
            }
            own(*slot);
            node* const n = *slot;
            const tag t = n->tags()[leaf_at];
            if (t == tag_of(h) && traits_.equal(*n->leaf(leaf_at), key)) {
                replace(*n->leaf(leaf_at), leaf, old);
                break;
            }
            // Both leaves move down, mostly into a bucket on the next level.
            const bool below = shift + level_bits >= tag_shift;
            const pair p = make_pair(shift + level_bits, below ? 0 : traits_.hash(*n->leaf(leaf_at)), h);
            ::new (p.bottom->leaf(1 - p.first)) Leaf(std::move(leaf));
            p.bottom->tags()[1 - p.first] = tag_of(h);
            ::new (p.bottom->leaf(p.first)) Leaf(n->take_leaf(leaf_at));
            p.bottom->tags()[p.first] = t;
            n->leaf_map ^= bit;
            n->put_child(rank(n->child_map, bit), p.top);
            n->child_map ^= bit;
            break;
        }
        if (!old) ++size_;
        return old;
    }

    /// Removes a leaf; returns what was there.
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

    /// Walks one version, and holds it, so the walk may be done in slices. One step is O(1) on average.
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
                if (f.leaves > 0) {
                    --f.leaves;
                    return std::exchange(f.leaf, node::next(f.leaf));
                }
                if (f.child < f.children) {
                    push(*f.at->child(f.child++));
                } else {
                    --depth_;
                }
            }
            return nullptr;
        }

        /// The hash of the last leaf returned, as far as the map uses it; mostly known without reading that leaf. Only
        /// for a cursor over a whole map.
        std::uint64_t hash() const noexcept {
            const frame& f = stack_[depth_ - 1];
            const unsigned i = f.at->leaves() - f.leaves - 1;
            constexpr std::uint64_t used = (std::uint64_t{1} << (tag_shift + 32)) - 1;
            if (depth_ <= tag_shift / level_bits) return map_.traits_.hash(*f.at->leaf(i)) & used;
            return std::uint64_t{f.at->tags()[i]} << tag_shift | f.above;
        }

    private:
        struct frame {
            const node* at;
            const Leaf* leaf;
            std::uint32_t leaves, children, child; // leaves: those that are left
            std::uint32_t above;                   // the bits of the hash that led here and are in no tag
        };
        void push(const node* n) noexcept {
            assert(depth_ < max_depth);
            std::uint32_t above = 0;
            if (depth_ > 0) {
                const frame& parent = stack_[depth_ - 1];
                above = parent.above;
                if (depth_ <= tag_shift / level_bits)
                    above |= nth_bit(parent.at->child_map, parent.child - 1) << (depth_ - 1) * level_bits;
            }
            stack_[depth_++] = frame{n, n->leaf(0), n->leaves(), n->children(), 0, above};
        }
        /// The position of the n-th bit that is set, with n from 0.
        static std::uint32_t nth_bit(std::uint32_t map, std::uint32_t n) noexcept {
            for (; n > 0; --n) map &= map - 1;
            return static_cast<std::uint32_t>(std::countr_zero(map));
        }

        persistent_map map_;
        const Leaf* single_ = nullptr;
        unsigned depth_ = 0;
        std::array<frame, max_depth> stack_;
    };

    /// A map that is not needed any more, to be freed piece by piece: freeing a large one at once would hold the thread
    /// for long. Nodes that other maps share stay as they are.
    class remains {
    public:
        remains() = default;
        ~remains() {
            while (depth_ > 0) release(stack_[--depth_]);
        }
        remains(const remains&) = delete;
        remains& operator=(const remains&) = delete;

        bool empty() const noexcept { return depth_ == 0; }
        /// Call it only when nothing is left of the previous map.
        void begin(persistent_map m) noexcept {
            assert(empty());
            if (m.root_) stack_[depth_++] = std::exchange(m.root_, nullptr);
        }
        /// Frees nodes until these and their leaves add up to `budget`, or nothing is left; returns the sum. Calls
        /// `last(leaf)` for each leaf before it is destroyed.
        template <class Last>
        std::size_t step(std::size_t budget, const Last& last) noexcept {
            std::size_t used = 0;
            while (depth_ > 0 && used < budget) {
                node* const n = stack_[--depth_];
                ++used;
                if (!count_down(n->count)) continue;
                for (unsigned i = 0, c = n->children(); i < c; ++i) stack_[depth_++] = *n->child(i);
                const unsigned leaves = n->leaves();
                for (unsigned i = 0; i < leaves; ++i) {
                    last(*n->leaf(i));
                    n->leaf(i)->~Leaf();
                }
                used += leaves;
                deallocate(n);
            }
            return used;
        }

    private:
        // On each level the children of one node, without the child that is being freed.
        std::array<node*, 31 * (max_depth - 1) + 1> stack_;
        unsigned depth_ = 0;
    };

private:
    static std::uint32_t bit_of(std::uint64_t hash, unsigned shift) noexcept {
        return std::uint32_t(1) << ((hash >> shift) & 31);
    }
    [[gnu::always_inline]] static unsigned rank(std::uint32_t map, std::uint32_t bit) noexcept {
        return ones(map & (bit - 1));
    }

    node* make_node(std::uint32_t slots, bool bucket) {
        slots = node::rounded(slots);
        node* const n = ::new (::operator new(node::size(slots))) node(slots, bucket);
        bytes_ += n->bytes();
        return n;
    }
    static void deallocate(node* n) noexcept {
        const std::size_t size = node::size(n->slots / 2);
        n->~node();
        ::operator delete(n, size);
    }
    static void retain(node* n) noexcept { count_up(n->count); }
    // Recursion is as deep as the trie: 9 at most.
    static void release(node* n) noexcept {
        if (!count_down(n->count)) return;
        for (unsigned i = 0, c = n->children(); i < c; ++i) release(*n->child(i));
        for (unsigned i = 0, l = n->leaves(); i < l; ++i) n->leaf(i)->~Leaf();
        deallocate(n);
    }

    /// Makes this map the only owner of the node in `slot`; it must already be that of the nodes above.
    [[gnu::always_inline]] void own(node*& slot) {
        if (slot->shared()) rebuild(slot, slot->leaves() + slot->children());
    }
    /// The same, and makes sure that there is a free slot.
    [[gnu::always_inline]] void make_room(node*& slot) {
        if (slot->shared() || slot->full()) [[unlikely]] {
            const std::uint32_t n = slot->leaves() + slot->children() + 1;
            rebuild(slot, n + n / 2);
        }
    }
    /// The opposite of make_room: a node that has become much too large is replaced by a smaller one, if there is
    /// memory.
    void shrink(node*& slot) noexcept {
        const std::uint32_t n = slot->leaves() + slot->children();
        if (slot->slots / 2 <= 4 || slot->slots / 2 < n + n / 2) return;
        try {
            rebuild(slot, n);
        } catch (const std::bad_alloc&) {
        }
    }
    /// Replaces the node in `slot` by one with `slots` slots. Its contents are moved if this map is the only owner,
    /// else copied. Throws before anything is changed.
    void rebuild(node*& slot, std::uint32_t slots) {
        node* const from = slot;
        node* const to = make_node(slots, from->is_bucket());
        bytes_ -= from->bytes();
        to->leaf_map = from->leaf_map;
        to->child_map = from->child_map;
        const unsigned leaves = from->leaves(), children = from->children();
        const bool moves = !from->shared();
        std::copy_n(from->tags(), leaves, to->tags());
        if constexpr (requires(const Leaf& l) { Traits::prefetch(l); }) {
            // Copying counts a reference of each leaf.
            for (unsigned i = 0; !moves && i < leaves; ++i) Traits::prefetch(*from->leaf(i));
        }
        Leaf *there = to->leaf(0), *here = from->leaf(0);
        for (unsigned i = 0; i < leaves; ++i, there = node::next(there), here = node::next(here)) {
            if (moves)
                node::move_leaf(there, here);
            else
                ::new (there) Leaf(std::as_const(*here));
        }
        for (unsigned i = 0; i < children; ++i) {
            if (!moves) retain(*from->child(i));
            ::new (to->child(i)) node*(*from->child(i));
        }
        slot = to;
        if (moves)
            deallocate(from);
        else
            release(from);
    }

    /// Prefetches the first node on the way to this hash with at most about `leaves` leaves below.
    [[gnu::always_inline]] void prefetch_at(std::uint64_t hash, std::size_t leaves) const {
        const node* n = root_;
        // the number of leaves below a node, if they are spread evenly; the depth would not tell it, as the first
        // levels are the same for all leaves of a namespace
        std::size_t below = size_;
        for (std::uint64_t rest = hash; !n->is_bucket(); rest >>= level_bits) {
            const std::uint32_t bit = bit_of(rest, 0);
            if ((n->child_map & bit) == 0) return;
            below >>= std::bit_width(n->children()) - 1; // no division: it takes as long as all the rest
            n = *n->child(rank(n->child_map, bit));
            if (below > leaves) continue;
            const auto* const at = reinterpret_cast<const std::byte*>(n);
            for (std::size_t line = 0; line < 256; line += 64) __builtin_prefetch(at + line, 1);
            return;
        }
    }

    template <class Key>
    [[gnu::always_inline]] const Leaf* find_in_bucket(const node* n, const Key& key, tag t) const {
        for (unsigned i = 0; i < n->leaf_map; i += 16) {
            for (std::uint32_t hits = n->tagged(i, t); hits != 0; hits &= hits - 1) {
                const Leaf* const l = n->leaf(i + static_cast<unsigned>(std::countr_zero(hits)));
                if (traits_.equal(*l, key)) return l;
            }
        }
        return nullptr;
    }

    static void replace(Leaf& there, Leaf& leaf, std::optional<Leaf>& old) {
        using std::swap;
        swap(there, leaf);
        old.emplace(std::move(leaf));
    }

    static unsigned index_of(const node* n, const Leaf* l) noexcept {
        const auto distance = reinterpret_cast<const std::byte*>(n->leaf(0)) - reinterpret_cast<const std::byte*>(l);
        return static_cast<unsigned>(static_cast<std::size_t>(distance) / node::slot_bytes);
    }

    /// The smallest trie for two leaves from `shift` on, still without them. `first`: the index of the first leaf.
    struct pair {
        node *top, *bottom;
        unsigned first;
    };
    pair make_pair(unsigned shift, std::uint64_t hash, std::uint64_t second_hash) {
        unsigned bottom = shift;
        while (bottom < tag_shift && bit_of(hash, bottom) == bit_of(second_hash, bottom)) bottom += level_bits;
        pair p{};
        p.top = p.bottom = make_node(2, bottom >= tag_shift);
        if (bottom < tag_shift) {
            p.bottom->leaf_map = bit_of(hash, bottom) | bit_of(second_hash, bottom);
            p.first = bit_of(hash, bottom) > bit_of(second_hash, bottom);
        } else {
            p.bottom->leaf_map = 2;
        }
        if (bottom > shift) { // by one level: only two levels have no buckets
            try {
                p.top = make_node(1, false);
            } catch (...) {
                drop_unused(p.bottom);
                throw;
            }
            p.top->child_map = bit_of(hash, shift);
            ::new (p.top->child(0)) node*(p.bottom);
        }
        return p;
    }
    /// Frees a node that holds nothing, or nothing any more.
    void drop_unused(node* n) noexcept {
        bytes_ -= n->bytes();
        deallocate(n);
    }

    /// Replaces the bucket in `slot` by a node with a bucket, or a leaf, for each value that occurs in the bits of this
    /// level.
    void split(node*& slot, unsigned shift) {
        own(slot);
        node* const from = slot;
        const auto digit = [&](unsigned i) { return from->tags()[i] >> (shift - tag_shift) & 31; };
        std::array<std::uint32_t, 32> sizes{};
        for (unsigned i = 0; i < from->leaf_map; ++i) ++sizes[digit(i)];
        std::array<node*, 32> below{};
        node* to = nullptr;
        try {
            to = make_node(static_cast<std::uint32_t>(32 - std::count(sizes.begin(), sizes.end(), 0u)), false);
            for (unsigned d = 0; d < 32; ++d)
                if (sizes[d] > 1) below[d] = make_node(sizes[d] + 1, true);
        } catch (...) {
            for (node* n : below)
                if (n) drop_unused(n);
            if (to) drop_unused(to);
            throw;
        }
        for (unsigned d = 0; d < 32; ++d) {
            if (!below[d]) continue;
            to->put_child(to->children(), below[d]);
            to->child_map |= std::uint32_t{1} << d;
        }
        for (unsigned i = 0; i < from->leaf_map; ++i) {
            const unsigned d = digit(i);
            if (below[d]) {
                below[d]->add_leaf(std::move(*from->leaf(i)), from->tags()[i]);
            } else {
                to->put_leaf(rank(to->leaf_map, std::uint32_t{1} << d), std::move(*from->leaf(i)), from->tags()[i]);
                to->leaf_map |= std::uint32_t{1} << d;
            }
            from->leaf(i)->~Leaf();
        }
        slot = to;
        drop_unused(from);
    }

    template <class Key>
    void erase_from(node*& slot, unsigned shift, std::uint64_t h, const Key& key, std::optional<Leaf>& old) {
        own(slot);
        if (slot->is_bucket()) {
            old.emplace(slot->remove_leaf(index_of(slot, find_in_bucket(slot, key, tag_of(h)))));
            shrink(slot);
            return;
        }
        const std::uint32_t bit = bit_of(h, shift);
        if (slot->leaf_map & bit) {
            old.emplace(slot->take_leaf(rank(slot->leaf_map, bit)));
            slot->leaf_map ^= bit;
            shrink(slot);
            return;
        }
        const unsigned child_at = rank(slot->child_map, bit);
        erase_from(*slot->child(child_at), shift + level_bits, h, key, old);
        // A child of one leaf moves up, so that paths stay short.
        node* const child = *slot->child(child_at);
        if (child->leaves() != 1 || child->child_map != 0) return;
        slot->take_child(child_at);
        slot->child_map ^= bit;
        slot->put_leaf(rank(slot->leaf_map, bit), std::move(*child->leaf(0)), child->tags()[0]);
        slot->leaf_map ^= bit;
        bytes_ -= child->bytes();
        release(child);
    }

    node* root_ = nullptr;
    std::size_t size_ = 0;
    std::size_t bytes_ = 0;
    [[no_unique_address]] Traits traits_{};
};

} // namespace informer::detail
