// One generation of a pool: the memory of its nodes, their counts, and the table that finds them by content.
#pragma once

#include "intern_table.hpp"
#include "node.hpp"
#include "paged_segment.hpp"
#include "root.hpp"
#include "root/bytes.hpp"
#include "root/hash.hpp"

#include <informer/object/document_pool.hpp>

#include <array>
#include <atomic>
#include <bit>
#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

namespace informer::detail {

struct pool_core;

/// Thrown inside the pool only, when a generation is full or the system has no memory left.
struct pool_is_full {};

class alignas(64) generation {
public:
    generation(pool_core& owner, pool_limits limits, hash_seed seed, std::uint64_t number);
    ~generation();
    generation(const generation&) = delete;
    generation& operator=(const generation&) = delete;

    // ---- readers, any thread: the directory of segments only grows, and what a node holds is never written again.

    /// The header of a node; the payload follows it.
    const std::uint32_t* node(handle h) const noexcept {
        std::uint32_t* const* directory = directory_.load(std::memory_order_acquire);
        const std::uint32_t i = h & (node_bit - 1);
        return directory[i >> segment_shift] + (i & (segment_words - 1)) + 1;
    }

    // ---- the writer

    /// Whether a node was made just now, and whether it can be found by its content. For several nodes the values are
    /// combined by `|`.
    enum novelty : std::uint8_t { known = 0, fresh = 1, fresh_and_plain = 3 };
    struct interned {
        handle h;
        std::uint8_t fresh; ///< `novelty`
    };
    /// The interned node with this content, with one more count.
    interned intern(std::uint32_t header, const void* data, std::size_t bytes);
    // The steps of `intern`.
    [[gnu::always_inline]] std::uint64_t hash(std::uint32_t header, const void* data,
                                              std::size_t bytes) const noexcept {
        return hash_bytes(seed_, header, data, bytes);
    }
    handle find(std::uint64_t hash, std::uint32_t header, const void* data,
                std::size_t bytes) const noexcept; ///< adds no count
    /// The index of a key in a hashed shape, or the number of keys if it is not there. Any thread.
    std::uint32_t find_key(const std::uint32_t* shape, std::string_view key) const noexcept;
    std::uint32_t find_small_key(const std::uint32_t* shape, handle key) const noexcept;
    handle make_interned(std::uint64_t hash, std::uint32_t header, const void* data, std::size_t bytes);
    /// A node that no look-up finds.
    handle make_plain(std::uint32_t header, const void* data, std::size_t bytes);
    /// Whether a look-up of its content finds this node. True for small values.
    bool is_interned(handle h) noexcept { return !is_node(h) || (count(h) & interned_bit) != 0; }
    /// The shape may have keys that are not interned: other shapes may have the same keys, so they are compared by
    /// their text.
    bool is_loose(handle shape) noexcept { return !is_interned(shape); }
    bool has_content(handle h, std::uint32_t header, const void* data, std::size_t bytes) const noexcept {
        const std::uint32_t* n = node(h);
        return *n == header && same_bytes(n + 1, data, bytes);
    }
    /// False: it waits to be freed.
    bool is_alive(handle h) noexcept { return (count(h) & dying_bit) == 0; }
    interned intern(std::uint64_t hash, std::uint32_t header, const void* data, std::size_t bytes);
    /// Before many calls of `intern`: prefetch what it will read, first its place in the table, then the node found
    /// there.
    void prefetch_slot(std::uint64_t hash) const noexcept { table_->prefetch(hash); }
    void prefetch_found(std::uint64_t hash) const noexcept {
        if (const handle h = table_->find(hash, [](handle) { return true; })) __builtin_prefetch(node(h));
    }
    /// Hash of a handle for a table that hostile text must not fill unevenly.
    std::uint64_t hash(handle h) const noexcept { return hash_mix(seed_.a ^ h, seed_.b); }

    /// Hash of few handles, for a table that keeps only the last of equal hashes: a collision costs no more than that.
    std::uint64_t quick_hash(std::uint32_t header, const handle* children, std::uint32_t n) const noexcept {
        std::uint64_t h = (seed_.a ^ header) * 0x9e37'79b9'7f4a'7c15U;
        for (std::uint32_t i = 0; i < n; ++i) h = (h ^ children[i]) * 0x9e37'79b9'7f4a'7c15U;
        return h ^ h >> 32;
    }

    /// The shape with these keys, or 0; adds a count if found.
    handle find_shape(const handle* keys, std::uint32_t count);
    /// A shape that `find_shape` did not find; takes over the counts of the keys.
    handle make_shape(const handle* keys, std::uint32_t count);
    /// A shape of keys some of which are not interned; takes over their counts. 0: a key is there twice. `hashes`: the
    /// first 16 bits of each key's `quick_hash` if they are at hand, else null.
    handle make_loose_shape(const handle* keys, std::uint32_t count, const std::uint16_t* hashes = nullptr);
    /// For keys that are not all interned.
    bool same_key(handle a, handle b) const noexcept {
        if (a == b || !is_node(a) || !is_node(b)) return a == b;
        const std::uint32_t* const n = node(a);
        return has_content(b, *n, n + 1, header_length(*n));
    }
    std::uint64_t hash_of_key(handle h) const noexcept {
        if (!is_node(h)) return hash(h);
        const std::uint32_t* const n = node(h);
        return hash(*n, n + 1, header_length(*n));
    }

    void retain(handle h) noexcept {
        if (!is_node(h)) return;
        add_one(count(h));
        ++references_;
    }
    /// Adds a count to all that a new container refers to, its shape included.
    void retain_members(std::uint32_t header, const handle* first, std::uint32_t n) noexcept {
        std::uint32_t nodes = 0;
        const auto one = [&](handle h) {
            add_one(count(h));
            ++nodes;
        };
        for (std::uint32_t i = 0; i < n; ++i)
            if (is_node(first[i])) one(first[i]);
        if (header_is_object(header)) one(header);
        references_ += nodes;
    }
    /// With its last count a node leaves the table at once and waits for `collect` to free it.
    void release(handle h) noexcept {
        if (!is_node(h)) return;
        --references_;
        std::uint32_t& c = count(h);
        if ((c & count_mask) == count_mask) [[unlikely]]
            return; // the true count is unknown: the node stays
        if ((--c & count_mask) == 0) bury(h);
    }
    void prefetch(const handle* first, std::uint32_t n) const noexcept {
        for (std::uint32_t i = 0; i < n; ++i)
            if (is_node(first[i])) __builtin_prefetch(node(first[i]));
    }

    // ---- moving out of a generation that is no longer current. Its counts are no longer needed: their place notes
    // where a shared node went, and the generation holds a count of the new node until the move is over or the
    // generation goes.
    void begin_forwarding(generation& to) noexcept;
    handle forwarded(handle h) noexcept {
        return count(h) & forwarded_bit ? node_bit | (count(h) & count_mask) : missing_handle;
    }
    bool is_shared(handle h) noexcept { return (count(h) & count_mask) > 1; }
    void forward(handle h, handle made);
    /// Forgets where nodes were moved and gives back the counts of the new nodes; of the old nodes it is then only
    /// known that they were shared. Takes its cost, in nodes, off the budget; true when it is done.
    bool drop_forwards(generation& current, std::size_t& budget) noexcept;
    /// If few of the objects that lived here at the end are still kept: gives back the memory that no object needs that
    /// is. Takes its cost, in nodes, off the budget; true when it is done, or there is nothing to do.
    bool trim(std::size_t& budget) noexcept;
    /// The same at once, for a generation that has no owner any more; unless so much seems to be kept that it would not
    /// pay, or turns out to be: finding it must not take longer than freeing all does.
    void trim_at_end() noexcept;
    /// Nothing lives here any more: gives the memory back. Takes its cost, in nodes, off the budget; true when it is
    /// done.
    bool dismantle(generation& current, std::size_t& budget) noexcept;
    std::size_t
    payload_bytes(const std::uint32_t* header) const noexcept; ///< of what the hash covers: of a shape its keys

    /// Frees dead nodes, at most about `budget`, which is reduced; true when none is left.
    bool collect(std::size_t& budget) noexcept;
    /// True: `collect` has nothing to do.
    bool is_clean() const noexcept { return dying_ == last_dying && nodes_ != 0 && !joining_ && leaving_.empty(); }

    /// No more writing here: drops what only the writer needs.
    void seal() noexcept;
    void add_to(pool_statistics& s) const noexcept;
    std::uint64_t free_bytes() const noexcept; ///< not used by a node
    std::uint64_t dead_bytes() const noexcept; ///< of these, those that were used before
    std::uint64_t segment_bytes() const noexcept { return segment_bytes_; }
    std::uint64_t nodes_made() const noexcept { return nodes_made_; }
    /// What freeing all nodes made so far costs `collect`, in nodes.
    std::uint64_t work_made() const noexcept { return nodes_made_ + large_work_made_; }
    /// While this number stays the same, the handle of a shape means the same shape.
    std::uint64_t shapes_died() const noexcept { return shapes_died_; }

    pool_core& owner() const noexcept { return owner_; }

private:
    static void add_one(std::uint32_t& c) noexcept {
        if ((c & count_mask) != count_mask) [[likely]]
            ++c;
    }
    // The word of the count. References are in words of the pool, of which there are fewer than 2^30, and in documents
    // being read: only in a pool that is nearly full, nearly all of it one value, can a count reach its maximum. It
    // stays there, and the node lives as long as its generation.
    static constexpr std::uint32_t interned_bit = 1u << 31, forwarded_bit = 1u << 30, count_mask = forwarded_bit - 1;
    // In a node that waits to be freed, this word holds the next such node, because releasing must need no memory. The
    // place of its first child tells how many children of a long node are released already.
    static constexpr std::uint32_t dying_bit = forwarded_bit, begun_bit = interned_bit, last_dying = count_mask;
    static constexpr std::uint32_t exact_sizes = 257;  // a free list for each size up to 1 KiB, then 8 a doubling
    static constexpr std::uint32_t small_words = 4096; // above 16 KiB: units of a segment that such nodes share
    static constexpr std::uint32_t large_words = segment_words / 2; // above 512 KiB: memory of their own
    static constexpr std::uint32_t classes = exact_sizes + 4 * 8;
    static constexpr std::uint32_t page_words = 1024;
    static constexpr std::uint64_t segment_size = std::uint64_t{segment_words} * 4;
    static constexpr std::uint64_t least_mapped = segment_size / 4; // smaller segments come from the heap
    /// Giving this many words (1 KiB) back takes about as long as freeing a node.
    static constexpr std::uint32_t words_a_node = 256;
    static constexpr std::uint32_t inline_segments = 7;
    static constexpr std::uint32_t none = ~0u;

    /// The words that a node of `w` words takes: above the exact sizes the next of eight steps a doubling, 6 % more on
    /// average; above `small_words` whole units or pages.
    static constexpr std::uint32_t rounded(std::uint32_t w) noexcept {
        if (w < exact_sizes) return w;
        if (w > small_words) {
            const std::uint32_t unit = w > large_words ? page_words : paged_segment::unit_words;
            return (w + unit - 1) & ~(unit - 1);
        }
        const std::uint32_t s = step_shift(w);
        return ((w - 1) >> s << s) + (1u << s);
    }
    static constexpr std::uint32_t step_shift(std::uint32_t w) noexcept {
        return static_cast<std::uint32_t>(std::bit_width(w - 1)) - 4;
    }
    /// The largest of these sizes that is no larger than `w`.
    static constexpr std::uint32_t rounded_down(std::uint32_t w) noexcept {
        return rounded(w) == w ? w : (w - 1) >> step_shift(w) << step_shift(w);
    }
    /// The free list of a size up to `small_words`.
    static constexpr std::uint32_t class_of(std::uint32_t size) noexcept {
        if (size < exact_sizes) return size;
        const std::uint32_t s = step_shift(size);
        return exact_sizes + ((size - 1) >> s) - 8 + 8 * (s - step_shift(exact_sizes));
    }
    static constexpr std::uint32_t size_of_class(std::uint32_t c) noexcept {
        if (c < exact_sizes) return c;
        const std::uint32_t k = c - exact_sizes;
        return (9 + k % 8) << (step_shift(exact_sizes) + k / 8);
    }

    struct segment {
        std::uint32_t* base = nullptr;
        std::uint32_t words = 0;
        std::uint32_t spans = 0; ///< directory slots; 0 inside a large one
        bool mapped = false;
        std::uint32_t given = 0;        ///< words on pages that went back though the segment stays
        paged_segment* paged = nullptr; ///< if nodes of more than 16 KiB share it
    };
    struct range {
        std::uint32_t next = 0, end = 0;
        std::uint32_t left() const noexcept { return end - next; }
    };
    struct joining;
    struct trimming;
    using page_map = std::array<std::uint64_t, segment_words / page_words / 64>; ///< a bit for each page of a segment
    std::uint32_t* words(std::uint32_t index) noexcept {
        return directory_.load(std::memory_order_relaxed)[index >> segment_shift] + (index & (segment_words - 1));
    }
    std::uint32_t& count(handle h) noexcept { return *words(h & (node_bit - 1)); }
    std::uint64_t quick_hash_of_key(handle key) const noexcept;
    enum class alike { none, twice, too_many };
    template <class HashOf>
    alike compare_keys(const handle* keys, std::uint32_t n, unsigned char* prints,
                       const HashOf& hash_of) const noexcept;
    template <bool loose, class Slot>
    bool index_keys(const handle* keys, std::uint32_t n, Slot* slots) const noexcept;
    template <class Same>
    std::uint32_t find_key(const std::uint32_t* shape, std::uint64_t hash, const Same& same) const noexcept;
    std::uint32_t size_of(const std::uint32_t* header) const noexcept; ///< words of the whole node

    handle make_node(std::uint32_t header, std::uint32_t node_words, std::uint32_t count_word);
    std::uint32_t allocate(std::uint32_t size);
    std::uint32_t* begin_node(std::uint32_t* w, std::uint32_t header, std::uint32_t node_words, std::uint32_t size,
                              std::uint32_t count_word) noexcept;
    void end_node(handle h, std::uint32_t header, std::uint32_t node_words) noexcept;
    handle make_node(std::uint32_t header, const void* data, std::size_t bytes, std::uint32_t count_word);
    handle make_other_node(std::uint32_t header, const void* data, std::size_t bytes, std::uint32_t count_word);
    std::uint32_t allocate_alone(std::uint32_t size);
    std::uint32_t allocate_paged(std::uint32_t size);
    std::uint32_t take(paged_segment& s, std::uint32_t units);
    template <class F>
    void change(paged_segment& s, const F& f) noexcept;
    void give_idle_pages_back(std::uint64_t most_left) noexcept;
    void drop_paged(std::uint32_t place) noexcept;
    std::uint32_t cut(std::uint32_t size);
    std::uint32_t make_room(std::uint32_t size);
    bool worth_joining() const noexcept;
    void join_free_room(std::uint64_t most_at_once) noexcept;
    bool join(std::size_t& budget) noexcept;
    bool mark(std::uint32_t index, std::uint32_t size) noexcept;
    std::size_t join_in(std::uint32_t slot) noexcept;
    void set_free(range r) noexcept;
    void put_free(std::uint32_t index, std::uint32_t size) noexcept;
    std::uint64_t spare_words() const noexcept;
    bool refill(std::uint32_t size);
    void make_free_heads();
    void start_over() noexcept;
    bool give_leaving_back(std::size_t& budget) noexcept;
    void give_all_leaving_back() noexcept;
    void keep_to_limit(std::uint64_t more) noexcept;
    void set_aside(range r);
    void take_from(range r);
    std::uint32_t take_small(std::uint32_t size) noexcept;
    void free_node(std::uint32_t index, std::uint32_t node_words) noexcept;
    std::uint32_t add_segment(std::uint64_t bytes, std::uint32_t spans, paged_segment* paged = nullptr);
    void drop_segment(std::uint32_t first) noexcept;
    void unmap(const segment& s) noexcept;
    std::uint32_t find_slots(std::uint32_t spans);
    void grow_directory(std::uint32_t slots);
    bool is_worth_trimming() const noexcept;
    bool trim_further(std::size_t& budget) noexcept;
    bool mark_kept(std::size_t& budget);
    void find(trimming& t, handle h);
    bool give_unmarked_back(std::size_t& budget) noexcept;
    void give_pages_back(segment& s, const page_map& kept, std::size_t& budget) noexcept;
    std::uint32_t children_of(const std::uint32_t* header) const noexcept {
        if (header_is_object(*header)) return shape_size(*node(*header));
        if (header_kind(*header) == node_kind::array) return header_length(*header);
        return header_kind(*header) == node_kind::shape ? shape_size(*header) : 0;
    }
    void bury(handle h) noexcept;
    std::uint64_t& bytes_of_kind(std::uint32_t header) noexcept { return bytes_by_kind_[header >> 28]; }

    // The first cache line is the readers'.
    std::uint32_t* inline_directory_[inline_segments] = {};
    std::atomic<std::uint32_t**> directory_;

    pool_core& owner_;
    const pool_limits limits_;
    const hash_seed seed_;
    std::uint32_t directory_size_ = inline_segments;
    std::vector<std::unique_ptr<std::uint32_t*[]>> directories_; // old ones stay: a reader may be using one
    std::vector<segment> segments_;
    std::vector<segment> leaving_; ///< empty, and their handles mean other nodes now; given back in shares
    std::uint64_t leaving_bytes_ = 0;
    std::uint64_t next_segment_bytes_;
    bool no_memory_ = false; ///< the last segment was refused by the system, not by the limit
    std::uint64_t segment_bytes_ = 0;
    range small_;
    std::uint32_t* small_at_ = nullptr;           ///< the words of `small_.next`
    std::vector<range> spare_;                    ///< each longer than any small node
    std::unique_ptr<std::uint32_t[]> free_heads_; // by class; made when the first node dies
    std::unique_ptr<intern_table> table_;
    std::uint32_t dying_ = last_dying; ///< the node that is freed next
    std::vector<handle> forwarded_;    // nodes of this generation
    std::uint64_t number_, forwarded_to_ = 0;

    // by the first four bits of the header: objects have 01xx, the others 1 and their kind
    std::uint64_t bytes_by_kind_[16] = {};
    std::uint64_t nodes_ = 0, nodes_made_ = 0, shapes_died_ = 0, references_ = 0;
    std::uint64_t large_work_made_ = 0; ///< beyond one for each node
    std::uint64_t free_list_words_ = 0;
    std::unique_ptr<joining> joining_;  ///< while free room is being joined
    std::uint64_t left_by_joining_ = 0; ///< words on the lists after the last joining
    std::vector<std::unique_ptr<paged_segment>> paged_;
    /// the longest room of each, side by side: reading it from thousands of segments would take too long
    std::vector<std::uint32_t> rooms_;
    std::uint64_t taken_units_ = 0, present_units_ = 0, idle_units_ = 0; ///< of all paged segments

    // of an old generation
    std::unique_ptr<trimming> trimming_; ///< while it is trimmed
    std::uint64_t sealed_roots_ = 0;     ///< those at its end
    std::uint64_t trimmed_roots_ = 0;    ///< those when it was last trimmed

public:                      // the writer's
    std::uint64_t roots = 0; ///< live ones, and `holds`
    std::uint64_t holds = 0; ///< decodings in slices
    struct slab {
        std::unique_ptr<root[]> roots; ///< one that is free has no generation
        std::uint64_t size;
    };
    std::vector<slab> slabs;
    std::uint64_t slab_roots = 0;
};

// ---- most nodes are small and need no call

inline std::uint32_t* generation::begin_node(std::uint32_t* w, std::uint32_t header, std::uint32_t node_words,
                                             std::uint32_t size, std::uint32_t count_word) noexcept {
    w[0] = count_word;
    w[1] = header;
    w[node_words - 1] = 0; // the padding of text
    bytes_of_kind(header) += std::uint64_t{size} * 4;
    ++nodes_;
    ++nodes_made_;
    ++references_;
    return w + 2;
}

[[gnu::always_inline]] inline handle generation::make_node(std::uint32_t header, const void* data, std::size_t bytes,
                                                           std::uint32_t count_word) {
    if (bytes <= copied_inline) [[likely]] {
        const std::uint32_t size = 2 + words_of(bytes); // also the size of its place
        std::uint32_t* const head = free_heads_ ? &free_heads_[size] : nullptr;
        std::uint32_t index = head ? *head : none;
        std::uint32_t* w = nullptr;
        if (index != none) {
            w = words(index);
            *head = w[0];
            free_list_words_ -= size;
        } else if (small_.left() >= size) [[likely]] {
            index = small_.next;
            small_.next += size;
            w = std::exchange(small_at_, small_at_ + size);
        }
        if (w) [[likely]] {
            copy_bytes(begin_node(w, header, size, size, count_word), data, bytes);
            return node_bit | index;
        }
    }
    return make_other_node(header, data, bytes, count_word);
}

[[gnu::always_inline]] inline handle generation::make_plain(std::uint32_t header, const void* data, std::size_t bytes) {
    return make_node(header, data, bytes, 1);
}

} // namespace informer::detail
