// Free room: kept on lists by size, and joined with free neighbours when a generation would grow although much is free.
//
// A list serves nodes of its own size only, so where texts get longer, or have any length, freed room would never be
// used again. No node says whether the node before it is free, because that would take room in each node. So all free
// room is marked and joined together, in shares of `collect`, and only when the lists hold more than the last joining
// left there.
#include "detail/joining.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <new>

namespace informer::detail {

namespace {

/// Making and walking the marks of a segment takes about as long as freeing this many nodes.
constexpr std::size_t nodes_a_map = 64;

} // namespace

std::uint64_t generation::spare_words() const noexcept {
    std::uint64_t w = 0;
    for (const range& r : spare_) w += r.left();
    return w;
}

void generation::put_free(std::uint32_t index, std::uint32_t size) noexcept {
    std::uint32_t& head = free_heads_[class_of(size)];
    words(index)[0] = head;
    head = index;
}

/// Puts free room on the lists whose words `free_list_words_` counts already. A single word goes on no list: joining
/// finds it again when its neighbours are free.
void generation::set_free(range r) noexcept {
    if (r.left() > small_words) {
        try {
            spare_.push_back(r);
            free_list_words_ -= r.left();
            return;
        } catch (const std::bad_alloc&) {
        }
    }
    while (r.left() > 1) {
        std::uint32_t size = rounded_down(std::min(r.left(), small_words));
        if (r.left() - size == 1) size = rounded_down(size - 1);
        put_free(r.next, size);
        r.next += size;
    }
    free_list_words_ -= r.left();
}

/// The lists hold more than a 16th of the memory, and more than the last joining left on them plus a 32nd.
bool generation::worth_joining() const noexcept {
    const std::uint64_t held = segment_bytes_ / 4;
    return !joining_ && free_list_words_ > std::max(held / 16, left_by_joining_ + held / 32);
}

/// Begins to join, or goes on. If at most `most_at_once` words are free, it is done at once, else in shares by
/// `collect`.
void generation::join_free_room(std::uint64_t most_at_once) noexcept {
    if (!joining_ && free_heads_) joining_.reset(new (std::nothrow) joining);
    std::size_t all = std::numeric_limits<std::size_t>::max();
    if (joining_ && free_list_words_ <= most_at_once) join(all);
}

/// Takes its cost, in nodes, off the budget; true when it is done.
bool generation::join(std::size_t& budget) noexcept {
    joining& j = *joining_;
    for (; j.list < classes; ++j.list) {
        std::uint32_t& head = free_heads_[j.list];
        while (head != none) {
            if (budget == 0) return false;
            --budget;
            const std::uint32_t next = words(head)[0];
            if (!mark(head, size_of_class(j.list))) break; // no memory: the rest stays on its list
            head = next;
        }
    }
    for (; j.segment < j.marks.size(); ++j.segment) {
        if (!j.marks[j.segment]) continue;
        if (budget == 0) return false;
        budget -= std::min(budget, join_in(j.segment));
    }
    joining_.reset();
    left_by_joining_ = free_list_words_;
    return true;
}

/// False: there is no memory for the marks.
bool generation::mark(std::uint32_t index, std::uint32_t size) noexcept {
    joining& j = *joining_;
    const std::uint32_t of = index >> segment_shift, at = index & (segment_words - 1);
    try {
        if (of >= j.marks.size()) j.marks.resize(segments_.size());
        if (!j.marks[of]) {
            j.marks[of] = std::make_unique<std::uint64_t[]>(segments_[of].words / 64 + 1);
            j.marked_words += segments_[of].words;
        }
    } catch (const std::bad_alloc&) {
        return false;
    }
    j.marks[of][at / 64] |= std::uint64_t{1} << at % 64;
    words(index)[1] = size;
    return true;
}

/// Joins what is marked in one segment; returns the cost, in nodes.
std::size_t generation::join_in(std::uint32_t slot) noexcept {
    joining& j = *joining_;
    const std::uint32_t first = slot << segment_shift, maps = segments_[slot].words / 64 + 1;
    const std::unique_ptr<std::uint64_t[]> marks = std::move(j.marks[slot]);
    j.marked_words -= segments_[slot].words;
    std::size_t nodes = 0;
    range run;
    for (std::uint32_t m = 0; m < maps; ++m) {
        for (std::uint64_t bits = marks[m]; bits; bits &= bits - 1, ++nodes) {
            const std::uint32_t at = first + m * 64 + static_cast<std::uint32_t>(std::countr_zero(bits));
            const std::uint32_t size = words(at)[1];
            if (run.left() > 0 && at - run.end <= 1) { // a gap of one word is no node: it was left over
                free_list_words_ += at - run.end;
            } else {
                set_free(run);
                run.next = at;
            }
            run.end = at + size;
        }
    }
    set_free(run);
    return nodes_a_map + nodes;
}

} // namespace informer::detail
