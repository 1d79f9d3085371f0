// What of an old generation nobody can reach any more goes back to the system, though somebody keeps objects of it.
#include "detail/trimming.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <new>
#include <numeric>
#include <utility>

namespace informer::detail {

namespace {

/// A smaller generation is not worth the walk: 2 MiB; much less for tests, whose first segments are small.
constexpr std::uint64_t least_trimmed(std::uint64_t first_chunk) noexcept {
    return first_chunk * first_chunk / 128;
}

/// About what a node takes, with some memory that is free.
constexpr std::uint64_t bytes_a_node = 64;

/// In nodes: about what these take.
constexpr std::size_t cost_of_slab = 64, cost_of_call = 32;

void spend(std::size_t& budget, std::size_t cost) noexcept {
    budget -= std::min(budget, cost);
}

} // namespace

/// Snapshots and events on their way to listeners soon go: the walk begins when few of the objects are left that lived
/// when the generation ended, and again when half of these are gone.
bool generation::is_worth_trimming() const noexcept {
    if (holds > 0 || roots == 0 || segment_bytes_ < least_trimmed(limits_.first_chunk) || !forwarded_.empty())
        return false;
    return trimmed_roots_ ? roots <= trimmed_roots_ / 2 : roots <= sealed_roots_ / 8;
}

/// What readers may read is neither written nor moved: they come from the roots that are left, as the marks do. No new
/// root is made in an old generation.
bool generation::trim(std::size_t& budget) noexcept {
    return (!trimming_ && !is_worth_trimming()) || trim_further(budget);
}

void generation::trim_at_end() noexcept {
    trimming_.reset();                                                   // what an owner had begun
    if (segment_bytes_ < least_trimmed(limits_.first_chunk) / 8) return; // less is of the heap
    // About so much is kept: nearly all where a pool was made for one document.
    const auto share = [](std::uint64_t part, std::uint64_t all) { return double(part) / double(all); };
    const auto node_bytes = std::accumulate(std::begin(bytes_by_kind_), std::end(bytes_by_kind_), std::uint64_t{0});
    if (share(roots, sealed_roots_) * share(node_bytes, segment_bytes_) > 0.5) return;
    std::size_t budget = segment_bytes_ / bytes_a_node;
    if (!trim_further(budget) && trimming_->marked) {
        budget = std::numeric_limits<std::size_t>::max();
        trim_further(budget);
    }
    trimming_.reset();
}

bool generation::trim_further(std::size_t& budget) noexcept {
    try {
        if (!trimming_) {
            trimmed_roots_ = roots;
            trimming_ = std::make_unique<trimming>();
            trimming_->found.resize(segments_.size());
            trimming_->pages.resize(segments_.size());
        }
        if (!trimming_->marked && !mark_kept(budget)) return false;
    } catch (const std::bad_alloc&) { // then it keeps all it has
        trimming_.reset();
        return true;
    }
    const bool done = give_unmarked_back(budget);
    // For the statistics: what is not kept counts as free room as long as its page stays.
    const std::uint64_t unpaged = segment_bytes_ - present_units_ * paged_segment::unit_words * 4;
    free_list_words_ = (unpaged - std::min(unpaged, trimming_->unpaged_bytes)) / 4;
    if (done) trimming_.reset();
    return done;
}

bool generation::mark_kept(std::size_t& budget) {
    trimming& t = *trimming_;
    while (!t.stack.empty() || t.slab < slabs.size()) {
        if (budget == 0) return false;
        if (t.stack.empty()) {
            spend(budget, cost_of_slab);
            const slab& one = slabs[t.slab++];
            for (std::uint64_t i = 0; i < one.size; ++i)
                if (one.roots[i].generation) find(t, one.roots[i].document);
            continue;
        }
        auto& [h, next] = t.stack.back();
        const std::uint32_t* const n = node(h);
        const std::uint32_t all = children_of(n), begin = next, end = std::min(all, begin + 1024);
        next = end;
        if (end == all) t.stack.pop_back(); // `next` is gone
        spend(budget, 1 + (end - begin) / 4);
        for (std::uint32_t i = begin; i < end; ++i) find(t, n[1 + i]);
        if (begin == 0 && header_is_object(*n)) find(t, *n);
    }
    t.marked = true;
    std::ranges::copy(t.bytes_by_kind, bytes_by_kind_);
    nodes_ = t.nodes;
    references_ = t.references;
    small_ = range();
    return true;
}

void generation::find(trimming& t, handle h) {
    if (!is_node(h)) return;
    ++t.references;
    const std::uint32_t index = h & (node_bit - 1), slot = index >> segment_shift, at = index & (segment_words - 1);
    const segment& s = segments_[slot];
    if (!t.found[slot]) {
        const std::uint32_t size = std::min(s.words, segment_words) / 64 + 1;
        t.found[slot] = std::make_unique<std::uint64_t[]>(size);
        t.found_words += std::uint64_t{size} * 64;
    }
    std::uint64_t& bits = t.found[slot][at / 64];
    const std::uint64_t bit = std::uint64_t{1} << at % 64;
    if (bits & bit) return;
    const std::uint32_t* const n = node(h);
    if (children_of(n) > 0) t.stack.push_back({h, 0});
    bits |= bit;
    const std::uint32_t size = rounded(size_of(n));
    const std::uint64_t bytes = std::uint64_t{size} * 4;
    t.bytes_by_kind[*n >> 28] += bytes;
    if (!s.paged) t.unpaged_bytes += bytes;
    ++t.nodes;
    const std::uint32_t last = std::min(at + size, segment_words) - 1;
    for (std::uint32_t page = at / page_words; page <= last / page_words; ++page)
        t.pages[slot][page / 64] |= std::uint64_t{1} << page % 64;
}

bool generation::give_unmarked_back(std::size_t& budget) noexcept {
    trimming& t = *trimming_;
    for (; t.segment < segments_.size(); ++t.segment) {
        segment& s = segments_[t.segment];
        if (!s.base) continue; // inside a segment of several spans, or given back before
        if (budget == 0) return false;
        const page_map& kept = t.pages[t.segment];
        if (std::ranges::any_of(kept, [](std::uint64_t m) { return m != 0; })) {
            if (s.mapped && !s.paged && s.spans == 1) give_pages_back(s, kept, budget);
            continue;
        }
        spend(budget, 16 * cost_of_call * s.spans);
        if (s.paged)
            drop_paged(s.paged->place);
        else
            drop_segment(t.segment);
    }
    for (; t.slab > 0; --t.slab) {
        if (budget == 0) return false;
        spend(budget, cost_of_slab);
        slab& one = slabs[t.slab - 1];
        if (std::any_of(one.roots.get(), one.roots.get() + one.size, [](const root& r) { return r.generation; }))
            continue;
        slab_roots -= std::exchange(one.size, 0);
        one.roots.reset();
    }
    return true;
}

void generation::give_pages_back(segment& s, const page_map& kept, std::size_t& budget) noexcept {
    const auto is_kept = [&kept](std::uint32_t page) { return (kept[page / 64] >> page % 64 & 1) != 0; };
    std::uint32_t given = 0;
    for (std::uint32_t page = 0, all = s.words / page_words; page < all;) {
        std::uint32_t end = page;
        while (end < all && !is_kept(end)) ++end;
        if (end > page) {
            spend(budget, cost_of_call);
            if (give_memory_back(s.base + page * page_words, std::size_t{end - page} * page_words))
                given += (end - page) * page_words;
        }
        page = end + 1;
    }
    segment_bytes_ -= (std::uint64_t{given} - std::min(given, s.given)) * 4; // some went in an earlier walk
    s.given = std::max(given, s.given);
}

} // namespace informer::detail
