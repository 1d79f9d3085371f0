// How a generation ends: moving its nodes to the next one, freeing them in shares, giving the memory back.
#include "detail/generation.hpp"
#include "detail/joining.hpp"
#include "detail/trimming.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <new>
#include <vector>

namespace informer::detail {

namespace {

/// Giving a segment back takes about as long as freeing this many nodes.
constexpr std::size_t nodes_a_segment = 512;

} // namespace

// ---- moving

void generation::begin_forwarding(generation& to) noexcept {
    if (forwarded_to_ == to.number_) return;
    std::size_t all = forwarded_.size();
    drop_forwards(to, all);
    forwarded_to_ = to.number_;
}

void generation::forward(handle h, handle made) {
    forwarded_.push_back(h);
    std::uint32_t& c = count(h);
    c = (c & interned_bit) | forwarded_bit | (made & count_mask);
}

bool generation::drop_forwards(generation& current, std::size_t& budget) noexcept {
    for (; !forwarded_.empty() && budget > 0; --budget) {
        std::uint32_t& c = count(forwarded_.back());
        forwarded_.pop_back();
        if (forwarded_to_ == current.number_) current.release(node_bit | (c & count_mask));
        c = (c & interned_bit) | 2; // now it is only known that it was shared
    }
    if (!forwarded_.empty()) return false;
    std::vector<handle>().swap(forwarded_);
    return true;
}

bool generation::dismantle(generation& current, std::size_t& budget) noexcept {
    if (!drop_forwards(current, budget)) return false;
    // For the statistics: what is left of this generation holds no nodes and has no room for any.
    std::ranges::fill(bytes_by_kind_, std::uint64_t{0});
    nodes_ = references_ = free_list_words_ = 0;
    small_ = range();
    std::size_t i = segments_.size();
    while (i > 0 && budget > 0) {
        const segment& s = segments_[--i];
        if (!s.base) continue; // inside a segment of several spans
        budget -= std::min<std::size_t>(budget, nodes_a_segment * s.spans);
        drop_segment(static_cast<std::uint32_t>(i));
        segments_.resize(i);
    }
    return i == 0;
}

// ---- freeing

bool generation::collect(std::size_t& budget) noexcept {
    while (dying_ != last_dying) {
        if (budget == 0) return false;
        --budget;
        std::uint32_t* const w = words(dying_);
        std::uint32_t* const n = w + 1;
        const handle h = node_bit | dying_;
        const std::uint32_t header = *n;
        const std::uint32_t begin = w[0] & begun_bit ? n[1] : 0;
        const bool is_object = header_is_object(header);
        const std::uint32_t children = children_of(n);
        // A long array is freed in pieces. Children that die meanwhile come before the rest of it in the list and go
        // first.
        const std::uint32_t end = std::min(children, begin + 4096);
        const handle first = n[1];
        if (end < children) {
            w[0] |= begun_bit;
            n[1] = end;
        } else {
            dying_ = w[0] & count_mask;
        }
        if (begin == 0 && end > 0) release(first);
        for (std::uint32_t i = std::max(begin, 1u); i < end; ++i) release(n[1 + i]);
        if (end < children) continue;
        const std::uint32_t size = size_of(n);
        if (is_object) release(header);
        if (!is_object && header_kind(header) == node_kind::shape) ++shapes_died_;
        if (size > small_words) budget -= std::min<std::size_t>(budget, size / words_a_node); // its pages go back
        end_node(h, header, size);
    }
    if (nodes_ == 0 && (free_list_words_ > 0 || !paged_.empty())) start_over();
    if (joining_ && !join(budget)) return false;
    return give_leaving_back(budget);
}

// ---- memory

/// Nothing lives here: all memory goes back, in shares, however fragmented it was.
void generation::start_over() noexcept {
    const bool at_once = !leaving_.empty(); // then the segments are few
    for (std::uint32_t i = 0; i < segments_.size(); ++i)
        if (segments_[i].base && (at_once || segments_[i].paged)) drop_segment(i);
    if (!at_once) {
        leaving_.swap(segments_);
        leaving_bytes_ = segment_bytes_;
    }
    segments_.clear();
    joining_.reset();
    small_ = range();
    spare_.clear();
    paged_.clear();
    rooms_.clear();
    free_heads_.reset();
    free_list_words_ = left_by_joining_ = 0;
    try {
        table_ = std::make_unique<intern_table>();
    } catch (const std::bad_alloc&) { // the old one is empty as well, only larger
    }
    next_segment_bytes_ = std::clamp<std::uint64_t>(limits_.first_chunk, 256, segment_size);
}

bool generation::give_leaving_back(std::size_t& budget) noexcept {
    for (; !leaving_.empty(); leaving_.pop_back()) {
        const segment& s = leaving_.back();
        if (!s.base) continue;
        if (budget == 0) return false;
        budget -= std::min(budget, nodes_a_segment * s.spans);
        leaving_bytes_ -= std::uint64_t{s.words} * 4;
        unmap(s);
    }
    std::vector<segment>().swap(leaving_);
    return true;
}

void generation::give_all_leaving_back() noexcept {
    std::size_t all = std::numeric_limits<std::size_t>::max();
    give_leaving_back(all);
}

void generation::seal() noexcept {
    sealed_roots_ = roots;
    table_.reset();
    joining_.reset();
    free_heads_.reset();
    dying_ = last_dying;
    std::vector<range>().swap(spare_);
    give_all_leaving_back();
    give_idle_pages_back(0);
}

} // namespace informer::detail
