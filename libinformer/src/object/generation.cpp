// The memory of the nodes of a generation, how they are made, and what they weigh.
#include "detail/generation.hpp"
#include "detail/joining.hpp"
#include "detail/trimming.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <new>

namespace informer::detail {

namespace {

constexpr std::uint64_t unit_size = std::uint64_t{paged_segment::unit_words} * 4;

/// If no more is free, it is joined at once, in some 2 ms at most. Were it joined in shares, a small pool would grow by
/// a tenth meanwhile.
constexpr std::uint64_t words_joined_at_once = 256 * 1024;

/// Units without a node whose memory is kept for the next nodes: getting it anew takes a fourth of the time of reading
/// a text.
constexpr std::uint64_t idle_units_kept(std::uint64_t taken) noexcept {
    return 256 + taken / 64;
}

} // namespace

generation::generation(pool_core& owner, pool_limits limits, hash_seed seed, std::uint64_t number)
    : directory_(inline_directory_), owner_(owner), limits_(limits), seed_(seed),
      next_segment_bytes_(std::clamp<std::uint64_t>(limits.first_chunk, 256, segment_size)),
      table_(std::make_unique<intern_table>()), number_(number) {}

generation::~generation() {
    give_all_leaving_back();
    for (std::uint32_t i = 0; i < segments_.size(); ++i)
        if (segments_[i].base) drop_segment(i);
}

// ---- memory

std::uint32_t generation::find_slots(std::uint32_t spans) {
    std::uint32_t run = 0;
    for (std::uint32_t i = 0; i < segments_.size(); ++i) {
        run = segments_[i].base || segments_[i].words ? 0 : run + 1;
        if (run == spans) return i + 1 - spans;
    }
    const auto first = static_cast<std::uint32_t>(segments_.size()) - run;
    if (first + spans > max_segments) throw pool_is_full();
    return first;
}

void generation::grow_directory(std::uint32_t slots) {
    if (slots <= directory_size_) return;
    const std::uint32_t size = std::max(slots, directory_size_ * 2);
    auto bigger = std::make_unique<std::uint32_t*[]>(size);
    std::copy_n(directory_.load(std::memory_order_relaxed), directory_size_, bigger.get());
    directories_.push_back(std::move(bigger));
    directory_.store(directories_.back().get(), std::memory_order_release);
    directory_size_ = size;
}

/// A paged segment has no memory yet, only address space.
std::uint32_t generation::add_segment(std::uint64_t bytes, std::uint32_t spans, paged_segment* paged) {
    const std::uint64_t held = paged ? 0 : bytes;
    if (segment_bytes_ + held > limits_.max_bytes) throw pool_is_full();
    const std::uint32_t first = find_slots(spans);
    grow_directory(first + spans);
    if (segments_.size() < first + spans) segments_.resize(first + spans);
    segment s;
    s.words = static_cast<std::uint32_t>(bytes / 4);
    s.spans = spans;
    s.mapped = bytes >= least_mapped;
    s.paged = paged;
    if (s.mapped) { // goes back to the system when the generation dies, whatever the heap looks like
        // A generation that has several segments will soon fill another: its pages come at once, which costs less than
        // a fault for each. A segment of several spans holds one node and may be too large for that.
        const int at_once = !paged && spans == 1 && segment_bytes_ >= 4 * segment_size ? MAP_POPULATE : 0;
        void* p = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | at_once, -1, 0);
        if (p == MAP_FAILED) throw std::bad_alloc();
#ifdef MADV_NOHUGEPAGE
        // Where the system makes huge pages of its own accord, such a page would bring back memory that was given back.
        if (paged) static_cast<void>(::madvise(p, bytes, MADV_NOHUGEPAGE));
#endif
        s.base = static_cast<std::uint32_t*>(p);
    } else {
        s.base = static_cast<std::uint32_t*>(::operator new(bytes));
    }
    std::uint32_t** directory = directory_.load(std::memory_order_relaxed);
    segments_[first] = s;
    directory[first] = s.base;
    for (std::uint32_t i = 1; i < spans; ++i) {
        segments_[first + i].words = 1; // taken
        directory[first + i] = s.base + std::uint64_t{i} * segment_words;
    }
    segment_bytes_ += held;
    if (paged) paged->begin(s.base, first << segment_shift);
    return first;
}

void generation::drop_segment(std::uint32_t first) noexcept {
    const segment s = segments_[first];
    unmap(s);
    std::fill_n(segments_.begin() + first, s.spans, segment());
}

void generation::unmap(const segment& s) noexcept {
    const std::uint64_t bytes = std::uint64_t{s.words} * 4;
    if (s.mapped)
        ::munmap(s.base, bytes);
    else
        ::operator delete(s.base);
    if (s.paged) {
        taken_units_ -= s.paged->taken();
        present_units_ -= s.paged->present();
        idle_units_ -= s.paged->idle();
    }
    segment_bytes_ -= s.paged ? s.paged->present() * unit_size : bytes - std::uint64_t{s.given} * 4;
}

void generation::make_free_heads() {
    if (free_heads_) return;
    free_heads_ = std::make_unique<std::uint32_t[]>(classes);
    std::fill_n(free_heads_.get(), classes, none);
}

void generation::set_aside(range r) {
    free_list_words_ += r.left();
    set_free(r);
}

/// Small nodes come from `r` from now on.
void generation::take_from(range r) {
    set_aside(std::exchange(small_, r));
    small_at_ = words(r.next);
}

std::uint32_t generation::take_small(std::uint32_t size) noexcept {
    small_at_ += size;
    return std::exchange(small_.next, small_.next + size);
}

/// If `more` bytes would exceed the limit, memory that nobody needs goes back first.
void generation::keep_to_limit(std::uint64_t more) noexcept {
    if (segment_bytes_ + more <= limits_.max_bytes) return;
    give_all_leaving_back();
    give_idle_pages_back(0);
}

/// False: there is no more memory, by the limit or from the system.
bool generation::refill(std::uint32_t size) {
    if (small_.left() > 0) make_free_heads(); // now, because set_aside must not fail half way
    if (!spare_.empty()) {
        const range taken = spare_.back();
        spare_.pop_back();
        take_from(taken);
        return true;
    }
    no_memory_ = false;
    const std::uint64_t needed = std::uint64_t{size} * 4;
    std::uint64_t bytes = std::max(next_segment_bytes_, std::bit_ceil(needed));
    keep_to_limit(bytes);
    // Near the limit take what is left, in whole pages where it is mapped.
    if (segment_bytes_ + bytes > limits_.max_bytes) {
        bytes = limits_.max_bytes > segment_bytes_ ? limits_.max_bytes - segment_bytes_ : 0;
        bytes &= bytes >= least_mapped ? ~std::uint64_t{4095} : ~std::uint64_t{15};
    }
    if (bytes < needed) return false;
    std::uint32_t first = 0;
    try {
        first = add_segment(bytes, 1);
    } catch (const pool_is_full&) {
        return false;
    } catch (const std::bad_alloc&) {
        no_memory_ = true;
        return false;
    }
    next_segment_bytes_ = std::min(segment_size, std::max(next_segment_bytes_, bytes) * 4);
    const std::uint32_t start = first << segment_shift;
    take_from(range{start, start + segments_[first].words});
    return true;
}

std::uint32_t generation::allocate_alone(std::uint32_t size) {
    const std::uint64_t bytes = std::uint64_t{size} * 4;
    keep_to_limit(bytes);
    return add_segment(bytes, static_cast<std::uint32_t>((bytes + segment_size - 1) / segment_size)) << segment_shift;
}

std::uint32_t generation::allocate_paged(std::uint32_t size) {
    const std::uint32_t n = size / paged_segment::unit_words;
    keep_to_limit(n * unit_size);
    const auto has_room = [n](std::uint32_t longest) { return longest >= n; };
    const auto it = std::find_if(rooms_.begin(), rooms_.end(), has_room);
    if (it != rooms_.end()) return take(*paged_[static_cast<std::size_t>(it - rooms_.begin())], n);
    auto made = std::make_unique<paged_segment>();
    made->place = static_cast<std::uint32_t>(paged_.size());
    if (paged_.size() == paged_.capacity()) paged_.reserve(2 * paged_.size() + 4);
    if (rooms_.size() == rooms_.capacity()) rooms_.reserve(2 * rooms_.size() + 4);
    add_segment(segment_size, 1, made.get());
    rooms_.push_back(made->longest_room());
    paged_.push_back(std::move(made));
    return take(*paged_.back(), n);
}

std::uint32_t generation::take(paged_segment& s, std::uint32_t n) {
    const std::uint32_t at = s.find(n);
    if (segment_bytes_ + s.lacking(at, n) * unit_size > limits_.max_bytes) throw pool_is_full();
    change(s, [&] { s.take(at, n); });
    return s.first_index() + at * paged_segment::unit_words;
}

template <class F>
void generation::change(paged_segment& s, const F& f) noexcept {
    taken_units_ -= s.taken();
    present_units_ -= s.present();
    idle_units_ -= s.idle();
    segment_bytes_ -= s.present() * unit_size;
    f();
    taken_units_ += s.taken();
    present_units_ += s.present();
    idle_units_ += s.idle();
    segment_bytes_ += s.present() * unit_size;
    rooms_[s.place] = s.longest_room();
}

/// Gives idle pages back until at most `most` idle units are left.
void generation::give_idle_pages_back(std::uint64_t most) noexcept {
    for (std::size_t i = paged_.size(); i-- > 0 && idle_units_ > most;) {
        paged_segment& s = *paged_[i];
        if (s.idle() == 0) continue;
        if (s.taken() > 0) {
            change(s, [&] { s.give_pages_back(); });
            continue;
        }
        drop_paged(static_cast<std::uint32_t>(i));
    }
}

void generation::drop_paged(std::uint32_t place) noexcept {
    drop_segment(paged_[place]->first_index() >> segment_shift);
    std::swap(paged_[place], paged_.back());
    paged_[place]->place = place;
    rooms_[place] = rooms_.back();
    paged_.pop_back();
    rooms_.pop_back();
}

/// `size`: the words of a node, after `rounded`.
std::uint32_t generation::allocate(std::uint32_t size) {
    if (size > small_words) {
        // In a small pool each of these nodes has memory of its own, too, which is no larger than the node.
        const bool alone = size > large_words || (paged_.empty() && segment_bytes_ < segment_size);
        return alone ? allocate_alone(size) : allocate_paged(size);
    }
    if (free_heads_) {
        const std::uint32_t c = class_of(size);
        if (const std::uint32_t head = free_heads_[c]; head != none) {
            free_heads_[c] = words(head)[0];
            free_list_words_ -= size;
            return head;
        }
        // So much is on the lists that nodes of just these sizes will hardly use it up.
        if (free_list_words_ * 4 > segment_bytes_ / (small_.left() < size ? 32 : 16)) {
            if (worth_joining()) join_free_room(words_joined_at_once);
            if (const std::uint32_t piece = cut(size); piece != none) return piece;
        }
    }
    if (small_.left() < size && !refill(size)) return make_room(size);
    return take_small(size);
}

/// Takes the smallest piece on the lists that is large enough and puts the rest of it back; `none`: there is no such
/// piece.
std::uint32_t generation::cut(std::uint32_t size) {
    for (std::uint32_t c = class_of(size); free_heads_ && c < classes; ++c) {
        const std::uint32_t head = free_heads_[c];
        if (head == none) continue;
        free_heads_[c] = words(head)[0];
        free_list_words_ -= size;
        set_free(range{head + size, head + size_of_class(c)});
        return head;
    }
    return none;
}

/// The last resort when the lists have no piece of this size and there is no more memory.
std::uint32_t generation::make_room(std::uint32_t size) {
    if (free_list_words_ > left_by_joining_ + segment_bytes_ / 4 / 64) {
        join_free_room(free_list_words_);
        if (!spare_.empty() && refill(size)) return take_small(size);
    }
    if (const std::uint32_t piece = cut(size); piece != none) return piece;
    for (const auto& p : paged_) {
        if (p->longest_room() * paged_segment::unit_words < size) continue;
        make_free_heads();
        const std::uint32_t n = std::min(p->longest_room(), 64u), start = take(*p, n);
        take_from(range{start, start + n * paged_segment::unit_words});
        return take_small(size);
    }
    if (std::exchange(no_memory_, false)) throw std::bad_alloc();
    throw pool_is_full();
}

void generation::free_node(std::uint32_t index, std::uint32_t node_words) noexcept {
    const std::uint32_t size = rounded(node_words);
    if (size > small_words) {
        const std::uint32_t first = index >> segment_shift;
        paged_segment* const paged = segments_[first].paged;
        if (!paged) return drop_segment(first);
        change(*paged, [&] {
            paged->give((index - paged->first_index()) / paged_segment::unit_words, size / paged_segment::unit_words);
        });
        give_idle_pages_back(idle_units_kept(taken_units_));
        return;
    }
    free_list_words_ += size;
    try {
        make_free_heads();
    } catch (const std::bad_alloc&) { // on no list: the memory is unused until a compaction
        return;
    }
    put_free(index, size);
}

// ---- nodes

std::uint32_t generation::size_of(const std::uint32_t* header) const noexcept {
    const std::uint32_t h = *header;
    if (header_is_object(h)) return 2 + shape_size(*node(h));
    const std::uint32_t n = header_length(h);
    switch (header_kind(h)) {
    case node_kind::string:
    case node_kind::number: return 2 + words_of(n);
    case node_kind::uuid: return 6;
    case node_kind::array: return 2 + n;
    case node_kind::shape: return 2 + shape_size(h) + shape_finder_words(h);
    default: return 4;
    }
}

std::size_t generation::payload_bytes(const std::uint32_t* header) const noexcept {
    const std::uint32_t h = *header;
    if (header_is_object(h)) return std::size_t{shape_size(*node(h))} * 4;
    const std::size_t n = header_length(h);
    switch (header_kind(h)) {
    case node_kind::string:
    case node_kind::number: return n;
    case node_kind::uuid: return 16;
    case node_kind::array: return n * 4;
    case node_kind::shape: return std::size_t{shape_size(h)} * 4; // fingerprints or hash table follow from the keys
    default: return 8;
    }
}

/// Takes back what `begin_node` counted, but for the reference, and frees the memory.
void generation::end_node(handle h, std::uint32_t header, std::uint32_t node_words) noexcept {
    bytes_of_kind(header) -= std::uint64_t{rounded(node_words)} * 4;
    --nodes_;
    free_node(h & (node_bit - 1), node_words);
}

handle generation::make_node(std::uint32_t header, std::uint32_t node_words, std::uint32_t count_word) {
    const std::uint32_t size = rounded(node_words);
    const std::uint32_t index = allocate(size);
    if (size > small_words) large_work_made_ += size / words_a_node;
    begin_node(words(index), header, node_words, size, count_word);
    return node_bit | index;
}

handle generation::make_other_node(std::uint32_t header, const void* data, std::size_t bytes,
                                   std::uint32_t count_word) {
    const handle h = make_node(header, 2 + words_of(bytes), count_word);
    std::memcpy(words(h & (node_bit - 1)) + 2, data, bytes);
    return h;
}

handle generation::find(std::uint64_t hash, std::uint32_t header, const void* data, std::size_t bytes) const noexcept {
    return table_->find(hash, [&](handle candidate) { return has_content(candidate, header, data, bytes); });
}

handle generation::make_interned(std::uint64_t hash, std::uint32_t header, const void* data, std::size_t bytes) {
    table_->reserve(hash);
    const handle h = make_node(header, data, bytes, interned_bit | 1);
    table_->insert(hash, h);
    return h;
}

generation::interned generation::intern(std::uint32_t header, const void* data, std::size_t bytes) {
    return intern(hash(header, data, bytes), header, data, bytes);
}

generation::interned generation::intern(std::uint64_t hash, std::uint32_t header, const void* data, std::size_t bytes) {
    if (const handle found = find(hash, header, data, bytes)) {
        retain(found);
        return {found, known};
    }
    return {make_interned(hash, header, data, bytes), fresh};
}

void generation::bury(handle h) noexcept {
    const std::uint32_t* n = node(h);
    // Out of the table at once: what is found there must be alive.
    if (table_ && (count(h) & interned_bit)) table_->erase(hash(*n, n + 1, payload_bytes(n)), h);
    count(h) = dying_bit | dying_;
    dying_ = h & (node_bit - 1);
}

std::uint64_t generation::free_bytes() const noexcept {
    const std::uint64_t w = free_list_words_ + spare_words() + small_.left();
    return w * 4 + (present_units_ - taken_units_) * unit_size + leaving_bytes_;
}

std::uint64_t generation::dead_bytes() const noexcept {
    return (free_list_words_ + spare_words()) * 4;
}

void generation::add_to(pool_statistics& s) const noexcept {
    const auto of = [&](node_kind k) { return bytes_by_kind_[make_header(k, 0) >> 28]; };
    for (const std::uint64_t b : bytes_by_kind_) s.node_bytes += b;
    for (std::uint32_t first = node_bit >> 28; first < timestamp_bit >> 28; ++first)
        s.object_bytes += bytes_by_kind_[first];
    s.string_bytes += of(node_kind::string) + of(node_kind::uuid);
    s.array_bytes += of(node_kind::array);
    s.shape_bytes += of(node_kind::shape);
    s.number_bytes += of(node_kind::int64) + of(node_kind::uint64) + of(node_kind::floating) + of(node_kind::number);
    s.nodes += nodes_;
    s.referenced_nodes += references_;
    s.free_bytes += free_bytes();
    std::uint64_t side = sizeof(*this) + (segments_.capacity() + leaving_.capacity()) * sizeof(segment) +
                         paged_.capacity() * sizeof(paged_[0]) + rooms_.capacity() * sizeof(rooms_[0]) +
                         paged_.size() * sizeof(paged_segment) + forwarded_.capacity() * sizeof(handle) +
                         slab_roots * sizeof(root);
    if (directory_size_ > inline_segments) side += std::uint64_t{directory_size_} * 2 * sizeof(void*);
    if (free_heads_) side += classes * 4;
    if (table_) side += table_->bytes();
    if (joining_) side += joining_->bytes();
    if (trimming_) side += trimming_->bytes();
    s.table_bytes += side;
    s.bytes += side + segment_bytes_;
    ++s.generations;
}

} // namespace informer::detail
