// Finds a node by its content: extendible hashing over small open-addressing pages, so that growing never touches more
// than one page at a time (no long pauses) and the load stays between 0.65 and 0.86. A page is sorted: a look-up of
// what is not there ends after a few slots even at that load, and growing is one walk from front to back.
#pragma once

#include "node.hpp"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace informer::detail {

class intern_table {
public:
    intern_table() : directory_(1) { directory_[0] = filled(0, 64, nullptr, nullptr); }

    /// The first node with this hash for which `same(handle)` holds, or 0.
    template <class Same>
    handle find(std::uint64_t hash, const Same& same) const {
        const std::uint32_t tag = tag_of(hash);
        const page& p = page_of(tag);
        const std::uint64_t* s = p.lower_bound(tag);
        for (; *s >> 32 == tag && *s != free_slot; ++s)
            if (same(static_cast<handle>(*s))) return static_cast<handle>(*s);
        return 0;
    }
    /// Prefetches what `find` will read for this hash.
    void prefetch(std::uint64_t hash) const noexcept {
        const std::uint32_t tag = tag_of(hash);
        const page& p = page_of(tag);
        __builtin_prefetch(&p.slots[p.home(tag)]);
    }

    /// How many slots a look-up walks over.
    std::uint64_t slots_passed(std::uint64_t hash) const noexcept {
        const std::uint32_t tag = tag_of(hash);
        const page& p = page_of(tag);
        return static_cast<std::uint64_t>(p.lower_bound(tag) - (p.slots.get() + p.home(tag)));
    }

    /// Makes room for one more entry of this hash: after it `insert` cannot fail. Throws std::bad_alloc.
    void reserve(std::uint64_t hash) {
        const std::uint32_t tag = tag_of(hash);
        for (const page* p = &page_of(tag); p->used + 1 > p->limit() || p->tail_full; p = &page_of(tag))
            grow(slot_of(tag));
    }
    void insert(std::uint64_t hash, handle h) noexcept {
        const std::uint32_t tag = tag_of(hash);
        page& p = page_of(tag);
        std::uint64_t* s = p.lower_bound(tag);
        for (std::uint64_t moving = std::uint64_t{tag} << 32 | h; moving != free_slot; ++s) std::swap(*s, moving);
        if (s == p.slots.get() + p.slot_count - 1) p.tail_full = true; // the last one stays free: it ends every search
        ++p.used;
    }
    void erase(std::uint64_t hash, handle h) noexcept {
        const std::uint32_t tag = tag_of(hash);
        page& p = page_of(tag);
        const std::uint64_t wanted = std::uint64_t{tag} << 32 | h;
        std::uint64_t* s = p.lower_bound(tag);
        while (*s != wanted) {
            if (*s >> 32 != tag || *s == free_slot) return;
            ++s;
        }
        // Close the gap instead of leaving a tombstone: move back the entries that are not at their home.
        for (; s[1] != free_slot && p.home(static_cast<std::uint32_t>(s[1] >> 32)) <= s - p.slots.get(); ++s)
            s[0] = s[1];
        *s = free_slot;
        --p.used;
        p.tail_full = p.slots[p.slot_count - 2] != free_slot;
    }

    std::uint64_t bytes() const noexcept { return bytes_ + directory_.capacity() * sizeof(directory_[0]); }

private:
    static constexpr std::uint32_t max_page = 8192;               // slots: 64 KiB
    static constexpr std::uint32_t tail = 32;                     // slots behind the homes, at first
    static constexpr std::uint64_t free_slot = ~std::uint64_t{0}; // sorts behind all others
    struct page {
        std::uint32_t depth = 0;      ///< how many leading bits of the tag all its entries share
        std::uint32_t capacity = 0;   ///< slots that are the home of some tag
        std::uint32_t slot_count = 0; ///< all: also those behind them, for entries whose home is taken
        std::uint32_t used = 0;
        bool tail_full = false;
        std::unique_ptr<std::uint64_t[]> slots; ///< tag << 32 | handle; in the order of tags with gaps
        std::uint32_t limit() const noexcept { return capacity - capacity / 7; }
        std::uint32_t home(std::uint32_t tag) const noexcept {
            const std::uint32_t rest = depth >= 32 ? 0 : tag << depth;
            return static_cast<std::uint32_t>(std::uint64_t{rest} * capacity >> 32);
        }
        std::uint64_t* lower_bound(std::uint32_t tag) const noexcept {
            std::uint64_t* s = slots.get() + home(tag);
            while (*s < std::uint64_t{tag} << 32) ++s;
            return s;
        }
    };
    using page_ptr = std::shared_ptr<page>; // several directory slots may name one page

    static std::uint32_t tag_of(std::uint64_t hash) noexcept { return static_cast<std::uint32_t>(hash >> 32); }
    std::size_t slot_of(std::uint32_t tag) const noexcept { return depth_ == 0 ? 0 : tag >> (32 - depth_); }
    page& page_of(std::uint32_t tag) const noexcept { return *directory_[slot_of(tag)]; }

    page_ptr make_page(std::uint32_t depth, std::uint32_t capacity, std::uint32_t tail_slots = tail) {
        auto p = std::make_shared<page>();
        p->depth = depth;
        p->capacity = capacity;
        p->slot_count = capacity + tail_slots;
        p->slots = std::make_unique_for_overwrite<std::uint64_t[]>(p->slot_count);
        bytes_ += bytes_of(*p);
        return p;
    }
    static std::uint64_t bytes_of(const page& p) noexcept {
        return sizeof(page) + 16 + std::uint64_t{p.slot_count} * 8;
    }

    /// Fills an empty page; false if its tail is too short.
    static bool fill(page& to, const std::uint64_t* first, const std::uint64_t* last) noexcept {
        std::uint64_t* const slots = to.slots.get();
        const std::uint32_t end = to.slot_count - 1;
        std::fill_n(slots, to.slot_count, free_slot);
        std::uint32_t next = 0; // behind the last one written
        for (; first != last; ++first) {
            const std::uint64_t s = *first;
            if (s == free_slot) continue;
            next = std::max(next, to.home(static_cast<std::uint32_t>(s >> 32)));
            if (next >= end) return false;
            slots[next++] = s;
            ++to.used;
        }
        to.tail_full = next >= end;
        return true;
    }
    /// A page of these entries.
    page_ptr filled(std::uint32_t depth, std::uint32_t capacity, const std::uint64_t* first,
                    const std::uint64_t* last) {
        for (std::uint32_t tail_slots = tail;; tail_slots *= 2) { // once, unless many entries share their hash
            page_ptr p = make_page(depth, capacity, tail_slots);
            if (fill(*p, first, last) && !p->tail_full) return p;
            bytes_ -= bytes_of(*p);
        }
    }

    void grow(std::size_t slot) {
        const page_ptr old = directory_[slot];
        const std::uint64_t* const first = old->slots.get();
        const std::uint64_t* const last = first + old->slot_count;
        const bool crowded = old->used + 1 <= old->limit(); // only the tail is full
        const std::uint32_t bigger = crowded                ? old->capacity
                                     : old->capacity < 1024 ? old->capacity * 2
                                                            : old->capacity + old->capacity / 4;
        // At full depth entries of one tag cannot be told apart any more: only a longer page helps.
        if (bigger <= max_page || old->depth >= 30) {
            const page_ptr p = filled(old->depth, bigger, first, last);
            replace(old, slot, p, p);
            return;
        }
        if (old->depth == depth_) {
            std::vector<page_ptr> twice(directory_.size() * 2);
            for (std::size_t i = 0; i < directory_.size(); ++i) twice[2 * i] = twice[2 * i + 1] = directory_[i];
            directory_.swap(twice);
            ++depth_;
            slot *= 2;
        }
        const std::uint32_t half = old->capacity * 5 / 8 + 64;
        const std::uint64_t* middle = first;
        std::uint32_t below = 0;
        for (; middle != last; ++middle) {
            if (*middle == free_slot) continue;
            if (*middle >> (63 - old->depth) & 1) break;
            ++below;
        }
        // A skewed split, which has no chance with a good hash, would overflow a page: then the page only grows.
        if (const std::uint32_t limit = half - half / 7; below > limit || old->used - below > limit) {
            const page_ptr p = filled(old->depth, bigger, first, last);
            replace(old, slot, p, p);
            return;
        }
        const std::uint64_t before = bytes_;
        try {
            const page_ptr low = filled(old->depth + 1, half, first, middle);
            const page_ptr high = filled(old->depth + 1, half, middle, last);
            replace(old, slot, low, high);
        } catch (...) { // the first of them is gone again
            bytes_ = before;
            throw;
        }
    }
    void replace(const page_ptr& old, std::size_t slot, const page_ptr& low, const page_ptr& high) noexcept {
        bytes_ -= bytes_of(*old);
        const std::size_t span = std::size_t{1} << (depth_ - old->depth);
        const std::size_t first = slot / span * span;
        for (std::size_t i = 0; i < span; ++i) directory_[first + i] = i < span / 2 ? low : high;
        if (span == 1) directory_[first] = high;
    }

    std::uint32_t depth_ = 0;
    std::uint64_t bytes_ = 0;
    std::vector<page_ptr> directory_;
};

} // namespace informer::detail
