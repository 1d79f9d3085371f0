// Finds a node by its content: extendible hashing over small open-addressing pages, so that growing never touches more than one
// page at a time (no long pauses) and the load stays between 0.65 and 0.85.
#pragma once

#include "node.hpp"

#include <bit>
#include <cstdint>
#include <memory>
#include <vector>

namespace informer::detail {

class intern_table {
public:
    intern_table() : directory_(1) { directory_[0] = make_page(0, 64); }

    /// The first node with this hash for which `same(handle)` holds, or 0.
    template <class Same>
    handle find(std::uint64_t hash, const Same& same) const {
        const std::uint32_t tag = tag_of(hash);
        const page& p = *directory_[slot_of(tag)];
        for (std::uint32_t i = p.home(tag);; i = p.next(i)) {
            const std::uint64_t s = p.slots[i];
            if (s == 0) return 0;
            if (static_cast<std::uint32_t>(s >> 32) == tag && same(static_cast<handle>(s))) return static_cast<handle>(s);
        }
    }

    /// Makes room for one more entry of this hash: after it `insert` cannot fail. Throws std::bad_alloc.
    void reserve(std::uint64_t hash) {
        const std::uint32_t tag = tag_of(hash);
        for (page* p = directory_[slot_of(tag)].get(); p->used + 1 > p->limit(); p = directory_[slot_of(tag)].get())
            grow(slot_of(tag));
    }
    void insert(std::uint64_t hash, handle h) noexcept {
        const std::uint32_t tag = tag_of(hash);
        page& p = *directory_[slot_of(tag)];
        p.put(std::uint64_t{tag} << 32 | h, tag);
        ++p.used;
    }
    void erase(std::uint64_t hash, handle h) noexcept {
        const std::uint32_t tag = tag_of(hash);
        page& p = *directory_[slot_of(tag)];
        const std::uint64_t wanted = std::uint64_t{tag} << 32 | h;
        std::uint32_t hole = p.home(tag);
        while (p.slots[hole] != wanted) {
            if (p.slots[hole] == 0) return;
            hole = p.next(hole);
        }
        // Close the gap instead of leaving a tombstone: move back whoever may lie there.
        for (std::uint32_t i = p.next(hole); p.slots[i] != 0; i = p.next(i)) {
            const std::uint32_t home = p.home(static_cast<std::uint32_t>(p.slots[i] >> 32));
            const std::uint32_t distance = i >= home ? i - home : i + p.capacity - home;
            const std::uint32_t gap = i >= hole ? i - hole : i + p.capacity - hole;
            if (distance >= gap) {
                p.slots[hole] = p.slots[i];
                hole = i;
            }
        }
        p.slots[hole] = 0;
        --p.used;
    }

    std::uint64_t bytes() const noexcept { return bytes_ + directory_.capacity() * sizeof(directory_[0]); }

private:
    static constexpr std::uint32_t max_page = 8192; // slots: 64 KiB
    struct page {
        std::uint32_t depth = 0; ///< how many leading bits of the tag all its entries share
        std::uint32_t capacity = 0;
        std::uint32_t used = 0;
        std::unique_ptr<std::uint64_t[]> slots; ///< tag << 32 | handle; 0 is free
        std::uint32_t limit() const noexcept { return capacity - capacity / 7; }
        std::uint32_t home(std::uint32_t tag) const noexcept {
            const std::uint32_t rest = depth >= 32 ? 0 : tag << depth;
            return static_cast<std::uint32_t>(std::uint64_t{rest} * capacity >> 32);
        }
        std::uint32_t next(std::uint32_t i) const noexcept { return i + 1 == capacity ? 0 : i + 1; }
        void put(std::uint64_t s, std::uint32_t tag) noexcept {
            std::uint32_t i = home(tag);
            while (slots[i] != 0)
                i = next(i);
            slots[i] = s;
        }
    };
    using page_ptr = std::shared_ptr<page>; // several directory slots may name one page

    static std::uint32_t tag_of(std::uint64_t hash) noexcept { return static_cast<std::uint32_t>(hash >> 32); }
    std::size_t slot_of(std::uint32_t tag) const noexcept { return depth_ == 0 ? 0 : tag >> (32 - depth_); }

    page_ptr make_page(std::uint32_t depth, std::uint32_t capacity) {
        auto p = std::make_shared<page>();
        p->depth = depth;
        p->capacity = capacity;
        p->slots = std::make_unique<std::uint64_t[]>(capacity);
        bytes_ += sizeof(page) + 16 + std::uint64_t{capacity} * 8;
        return p;
    }
    void drop(const page& p) noexcept { bytes_ -= sizeof(page) + 16 + std::uint64_t{p.capacity} * 8; }

    static void refill(page& to, const page& from, std::uint32_t bit, std::uint32_t value) noexcept {
        for (std::uint32_t i = 0; i < from.capacity; ++i) {
            const std::uint64_t s = from.slots[i];
            if (s == 0) continue;
            const auto tag = static_cast<std::uint32_t>(s >> 32);
            if (bit != 0 && (tag >> (32 - bit) & 1) != value) continue;
            to.put(s, tag);
            ++to.used;
        }
    }

    void grow(std::size_t slot) {
        const page_ptr old = directory_[slot];
        const std::uint32_t bigger = old->capacity < 1024 ? old->capacity * 2 : old->capacity + old->capacity / 4;
        // At full depth entries of one tag cannot be told apart any more: only a longer page helps.
        if (bigger <= max_page || old->depth >= 30) {
            const page_ptr p = make_page(old->depth, bigger);
            refill(*p, *old, 0, 0);
            replace(old, slot, p, p);
            return;
        }
        if (old->depth == depth_) {
            std::vector<page_ptr> twice(directory_.size() * 2);
            for (std::size_t i = 0; i < directory_.size(); ++i)
                twice[2 * i] = twice[2 * i + 1] = directory_[i];
            directory_.swap(twice);
            ++depth_;
            slot *= 2;
        }
        const std::uint32_t half = old->capacity * 5 / 8 + 64;
        const page_ptr low = make_page(old->depth + 1, half);
        const page_ptr high = make_page(old->depth + 1, half);
        // A skewed split (no chance with a good hash, but certain to be handled): a page never overflows.
        if (count(*old, old->depth + 1, 0) > low->limit() || count(*old, old->depth + 1, 1) > high->limit()) {
            drop(*low);
            drop(*high);
            const page_ptr p = make_page(old->depth, bigger);
            refill(*p, *old, 0, 0);
            replace(old, slot, p, p);
            return;
        }
        refill(*low, *old, old->depth + 1, 0);
        refill(*high, *old, old->depth + 1, 1);
        replace(old, slot, low, high);
    }
    static std::uint32_t count(const page& p, std::uint32_t bit, std::uint32_t value) noexcept {
        std::uint32_t n = 0;
        for (std::uint32_t i = 0; i < p.capacity; ++i)
            if (p.slots[i] != 0 && (static_cast<std::uint32_t>(p.slots[i] >> 32) >> (32 - bit) & 1) == value) ++n;
        return n;
    }
    void replace(const page_ptr& old, std::size_t slot, const page_ptr& low, const page_ptr& high) noexcept {
        drop(*old);
        const std::size_t span = std::size_t{1} << (depth_ - old->depth);
        const std::size_t first = slot / span * span;
        for (std::size_t i = 0; i < span; ++i)
            directory_[first + i] = i < span / 2 ? low : high;
        if (span == 1) directory_[first] = high;
    }

    std::uint32_t depth_ = 0;
    std::uint64_t bytes_ = 0;
    std::vector<page_ptr> directory_;
};

} // namespace informer::detail
