// The items of a queue: slots that never move, found by key.
#pragma once

#include <informer/detail/text_hash.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace informer {

/// The hash that queues use: `std::hash`, except for strings. Others may have chosen those, so their hash is seeded; it
/// takes string_views too. (The hash of `object_key` is seeded as well.)
template <class Key>
struct queue_hash : std::hash<Key> {};
template <>
struct queue_hash<std::string> {
    using is_transparent = void;
    std::size_t operator()(std::string_view s) const noexcept { return detail::text_hash(s); }
};

namespace detail {

using item_index = std::uint32_t;
inline constexpr item_index no_item = 0xffffffffU;

/// Everything the queue knows about a key. With a std::string key this is one cache line.
template <class Key>
struct queue_item {
    Key key{};
    std::uint32_t hash = 0;
    item_index next = no_item, previous = no_item; ///< in its lane, among those in processing, or among the free
    std::uint32_t delay_position = no_item;        ///< its place among the delayed items
    std::uint32_t lane = 0;                        ///< while it is ready; in processing a mark: see below
    std::uint32_t requeues = 0;                    ///< rate-limited since it was forgotten
    std::int32_t priority = 0;                     ///< of the pending request, not of the one in processing
    bool ready = false, processing = false, dirty = false;
    bool limited = false; ///< delayed for as long as the limiter said

    static constexpr std::uint32_t is_released = no_item, has_ended = no_item - 1, is_promised = no_item - 2;

    bool delayed() const noexcept { return delay_position != no_item; }
    /// In processing until `done(key)`, without a handle.
    bool released() const noexcept { return processing && lane == is_released; }
    /// Handed to a getter that was not resumed yet.
    bool promised() const noexcept { return processing && lane == is_promised; }
    /// Asked for, and no work has begun since.
    bool asked() const noexcept { return ready || dirty || promised(); }
    /// Done, but in processing until there is memory for its place in line.
    bool ended() const noexcept { return processing && lane == has_ended; }
    bool idle() const noexcept { return !ready && !processing && !delayed() && requeues == 0; }
};

/// Kept beside the items, only if somebody wants figures.
struct item_times {
    std::chrono::steady_clock::time_point added, started;
};

/// Slots in chunks (addresses are stable, freed chunks go back) and an open-addressing index of {hash, slot}: 8 bytes
/// per entry, linear probing, at most three quarters full. Erasing shifts entries back, so the index never decays. A
/// free slot keeps its key until it is used again: the buffer of a string is then reused, and in a steady state nothing
/// is allocated. *Errors*: what allocation and the copy assignment of the key throw; then nothing has changed.
template <class Key, class Hash, class Equal>
class item_table {
public:
    using item = queue_item<Key>;

    explicit item_table(bool with_times) : with_times_(with_times) {}

    item& operator[](item_index i) noexcept { return chunks_[i / chunk_size]->items[i % chunk_size]; }
    const item& operator[](item_index i) const noexcept { return chunks_[i / chunk_size]->items[i % chunk_size]; }
    item_times& times(item_index i) noexcept { return chunks_[i / chunk_size]->times[i % chunk_size]; }
    const item_times& times(item_index i) const noexcept { return chunks_[i / chunk_size]->times[i % chunk_size]; }
    bool with_times() const noexcept { return with_times_; }
    std::size_t size() const noexcept { return size_; }

    template <class K>
    item_index find(const K& key) const {
        if (size_ == 0) return no_item;
        const std::uint32_t hash = hash_of(key);
        for (std::size_t at = hash & mask(); index_[at].slot != no_item; at = (at + 1) & mask()) {
            if (is(index_[at], key, hash)) return index_[at].slot;
        }
        return no_item;
    }

    /// The item of this key, made if there is none.
    template <class K>
    item_index find_or_add(const K& key) {
        if ((size_ + 1) * 4 > index_.size() * 3) rehash(std::max(index_.size() * 2, minimum_index));
        const std::uint32_t hash = hash_of(key);
        std::size_t at = hash & mask();
        for (; index_[at].slot != no_item; at = (at + 1) & mask()) {
            if (is(index_[at], key, hash)) return index_[at].slot;
        }
        const item_index i = take_slot(key);
        (*this)[i].hash = hash;
        index_[at] = entry(hash, i);
        ++size_;
        return i;
    }

    void erase(item_index i) noexcept {
        const item& it = (*this)[i];
        std::size_t at = it.hash & mask();
        while (index_[at].slot != i) at = (at + 1) & mask();
        // An entry later in this run may move up, unless that would put it before its own place.
        for (std::size_t next = (at + 1) & mask(); index_[next].slot != no_item; next = (next + 1) & mask()) {
            const std::size_t home = index_[next].hash & mask();
            if (((next - home) & mask()) >= ((next - at) & mask())) {
                index_[at] = index_[next];
                at = next;
            }
        }
        index_[at].slot = no_item;
        --size_;
        give_slot(i);
        if (index_.size() > shrink_above && size_ * 8 < index_.size()) shrink();
    }

    /// Bytes of slots and index, without what the keys own.
    std::size_t bytes() const noexcept {
        const std::size_t times_bytes = with_times_ ? chunk_size * sizeof(item_times) : 0;
        return live_chunks_ * (sizeof(chunk) + times_bytes) + chunks_.capacity() * sizeof(void*) +
               index_.capacity() * sizeof(entry);
    }

private:
    static constexpr std::size_t chunk_size = 64, minimum_index = 16, shrink_above = 1024;
    static constexpr std::size_t spare_chunks = 4; ///< empty ones that are kept

    struct entry {
        entry() = default;
        entry(std::uint32_t h, item_index i) noexcept : hash(h), slot(i) {}
        std::uint32_t hash = 0;
        item_index slot = no_item;
    };
    struct chunk {
        std::array<item, chunk_size> items;
        std::unique_ptr<item_times[]> times;
        item_index free = no_item;
        std::uint32_t used = 0;
        std::uint32_t next = no_item, previous = no_item; ///< among the chunks with a free slot
    };

    std::size_t mask() const noexcept { return index_.size() - 1; }

    template <class K>
    static std::uint32_t hash_of(const K& key) {
        // Fibonacci hashing: std::hash of an integer is the integer itself.
        return static_cast<std::uint32_t>((static_cast<std::uint64_t>(Hash()(key)) * 0x9e3779b97f4a7c15U) >> 32);
    }

    template <class K>
    bool is(const entry& e, const K& key, std::uint32_t hash) const {
        return e.hash == hash && Equal()((*this)[e.slot].key, key);
    }

    void insert(entry e) noexcept {
        std::size_t at = e.hash & mask();
        while (index_[at].slot != no_item) at = (at + 1) & mask();
        index_[at] = e;
    }

    void rehash(std::size_t capacity) {
        std::vector<entry> old(capacity);
        old.swap(index_);
        for (const entry& e : old) {
            if (e.slot != no_item) insert(e);
        }
    }
    void shrink() noexcept {
        try {
            rehash(index_.size() / 4);
        } catch (...) { // NOLINT(bugprone-empty-catch) it stays large
        }
    }

    template <class K>
    item_index take_slot(const K& key) {
        if (available_ == no_item) add_chunk();
        chunk& c = *chunks_[available_];
        const item_index i = c.free;
        item& it = c.items[i % chunk_size];
        store(it.key, key);
        c.free = it.next;
        it.next = no_item;
        if (c.used == 0) --empty_chunks_;
        if (++c.used == chunk_size) unlink(available_);
        return i;
    }

    template <class K>
    static void store(Key& to, const K& key) {
        if constexpr (std::is_same_v<Key, std::string>) {
            // A string that grows by assignment takes more than it needs.
            if (to.capacity() < std::string_view(key).size()) {
                to = std::string(key);
                return;
            }
        }
        to = key;
    }

    void give_slot(item_index i) noexcept {
        const auto number = static_cast<std::uint32_t>(i / chunk_size);
        chunk& c = *chunks_[number];
        item& it = c.items[i % chunk_size];
        it.next = c.free;
        it.previous = no_item;
        c.free = i;
        if (c.used == chunk_size) link(number);
        if (--c.used != 0) return;
        if (++empty_chunks_ <= spare_chunks) return;
        unlink(number);
        --empty_chunks_;
        --live_chunks_;
        chunks_[number].reset();
        while (!chunks_.empty() && !chunks_.back()) chunks_.pop_back();
    }

    void add_chunk() {
        std::uint32_t number = 0;
        if (live_chunks_ == chunks_.size()) {
            number = static_cast<std::uint32_t>(chunks_.size());
        } else {
            while (chunks_[number]) ++number;
        }
        auto fresh = std::make_unique<chunk>();
        if (with_times_) fresh->times = std::make_unique<item_times[]>(chunk_size);
        for (std::size_t n = chunk_size; n-- > 0;) {
            fresh->items[n].next = fresh->free;
            fresh->free = static_cast<item_index>(number * chunk_size + n);
        }
        if (number == chunks_.size()) chunks_.emplace_back();
        chunks_[number] = std::move(fresh);
        ++live_chunks_;
        ++empty_chunks_;
        link(number);
    }

    void link(std::uint32_t number) noexcept {
        chunk& c = *chunks_[number];
        c.previous = no_item;
        c.next = available_;
        if (available_ != no_item) chunks_[available_]->previous = number;
        available_ = number;
    }
    void unlink(std::uint32_t number) noexcept {
        chunk& c = *chunks_[number];
        if (c.previous != no_item) {
            chunks_[c.previous]->next = c.next;
        } else {
            available_ = c.next;
        }
        if (c.next != no_item) chunks_[c.next]->previous = c.previous;
        c.next = c.previous = no_item;
    }

    std::vector<std::unique_ptr<chunk>> chunks_;
    std::vector<entry> index_;
    std::size_t size_ = 0, live_chunks_ = 0, empty_chunks_ = 0;
    std::uint32_t available_ = no_item; ///< first chunk with a free slot
    bool with_times_;
};

} // namespace detail
} // namespace informer
