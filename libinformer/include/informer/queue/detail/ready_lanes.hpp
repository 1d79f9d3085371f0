// The items that are ready, in the order in which they are handed out.
#pragma once

#include <informer/queue/detail/item_table.hpp>

#include <boost/unordered/unordered_flat_map.hpp>

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace informer::detail {

/// Levels by priority, highest first. A level has one lane, or one per group, served in turn. A lane is FIFO.
///
/// Ageing. While lower levels wait, one of every `share` hand-outs goes to one of them, the one that was served longest
/// ago. So an item with p items before it in its own level is handed out after at most share · L · (p + 1) hand-outs,
/// where L is the number of levels below the highest that have something waiting. Lanes take turns: if a level has
/// several, p + 1 is the item's place in its lane times the number of lanes. `share` 0: strict priority; 1 counts as 2,
/// otherwise the highest level would starve.
template <class Table>
class ready_lanes {
public:
    ready_lanes(bool grouped, std::uint32_t share) : grouped_(grouped), share_(share == 1 ? 2 : share) {}

    std::size_t size() const noexcept { return size_; }

    /// The lane of a priority and group, made if there is none. May throw; the push that must follow does not.
    std::uint32_t prepare(std::int32_t priority, std::uint64_t group) { return lane_for(make_level(priority), group); }

    void push(Table& items, item_index i, std::uint32_t number, bool front) noexcept {
        auto& it = items[i];
        lane& l = lanes_[number];
        level& to = level_of(l.priority);
        it.lane = number;
        if (front) {
            it.previous = no_item;
            it.next = l.head;
            (l.head != no_item ? items[l.head].previous : l.tail) = i;
            l.head = i;
            to.cursor = number;
        } else {
            it.next = no_item;
            it.previous = l.tail;
            (l.tail != no_item ? items[l.tail].next : l.head) = i;
            l.tail = i;
        }
        if (to.size++ == 0) to.served = ++turn_;
        ++size_;
    }

    /// Takes an item out of the middle (its priority is about to change).
    void remove(Table& items, item_index i) noexcept {
        const std::uint32_t number = items[i].lane;
        lane& l = lanes_[number];
        auto& it = items[i];
        (it.previous != no_item ? items[it.previous].next : l.head) = it.next;
        (it.next != no_item ? items[it.next].previous : l.tail) = it.previous;
        it.next = it.previous = no_item;
        left(level_of(l.priority), number);
    }

    /// Takes the next item to hand out; there must be one.
    item_index pop(Table& items) noexcept {
        level& from = choose();
        from.served = ++turn_;
        const std::uint32_t number = from.cursor;
        lane& l = lanes_[number];
        from.cursor = l.next;
        const item_index i = l.head;
        auto& it = items[i];
        l.head = it.next;
        (l.head != no_item ? items[l.head].previous : l.tail) = no_item;
        it.next = no_item;
        left(from, number);
        return i;
    }

    std::size_t bytes() const noexcept {
        return levels_.capacity() * sizeof(level) + lanes_.capacity() * sizeof(lane) +
               by_group_.bucket_count() * sizeof(typename groups::value_type);
    }

private:
    static constexpr std::size_t kept_levels = 16; ///< empty ones stay until there are more than this
    static constexpr std::uint32_t no_lane = no_item;

    struct lane {
        item_index head = no_item, tail = no_item;
        std::uint32_t next = no_lane, previous = no_lane; ///< in the ring of its level, or among the free
        std::int32_t priority = 0;
        std::uint64_t group = 0;
    };
    struct level {
        explicit level(std::int32_t p) noexcept : priority(p) {}
        std::int32_t priority;
        std::uint32_t cursor = no_lane; ///< the lane to serve next
        std::size_t size = 0;
        std::uint64_t served = 0; ///< when it was served last, counted in hand-outs
    };
    using groups = boost::unordered_flat_map<std::pair<std::int32_t, std::uint64_t>, std::uint32_t>;

    level& level_of(std::int32_t priority) noexcept {
        std::size_t n = 0;
        while (levels_[n].priority != priority) ++n;
        return levels_[n];
    }
    level& make_level(std::int32_t priority) {
        std::size_t n = 0;
        while (n < levels_.size() && levels_[n].priority > priority) ++n;
        if (n < levels_.size() && levels_[n].priority == priority) return levels_[n];
        if (levels_.size() >= kept_levels) {
            for (std::size_t old = levels_.size(); old-- > 0;) {
                if (levels_[old].size != 0) continue;
                if (levels_[old].cursor != no_lane) free_lane(levels_[old], levels_[old].cursor);
                levels_.erase(levels_.begin() + static_cast<std::ptrdiff_t>(old));
                if (old < n) --n;
            }
        }
        return *levels_.insert(levels_.begin() + static_cast<std::ptrdiff_t>(n), level(priority));
    }

    std::uint32_t lane_for(level& of, std::uint64_t group) {
        if (!grouped_) {
            if (of.cursor == no_lane) add_lane(of, 0);
            return of.cursor;
        }
        const auto [at, fresh] = by_group_.try_emplace(std::pair(of.priority, group), no_lane);
        if (!fresh) return at->second;
        try {
            at->second = add_lane(of, group);
        } catch (...) {
            by_group_.erase(at);
            throw;
        }
        return at->second;
    }
    // At the end of the ring: right before the lane that is served next.
    std::uint32_t add_lane(level& of, std::uint64_t group) {
        std::uint32_t number = free_;
        if (number != no_lane) {
            free_ = lanes_[number].next;
        } else {
            number = static_cast<std::uint32_t>(lanes_.size());
            lanes_.emplace_back();
        }
        lane& l = lanes_[number];
        l = lane();
        l.priority = of.priority;
        l.group = group;
        if (of.cursor == no_lane) {
            l.next = l.previous = number;
            of.cursor = number;
        } else {
            lane& after = lanes_[of.cursor];
            l.next = of.cursor;
            l.previous = after.previous;
            lanes_[after.previous].next = number;
            after.previous = number;
        }
        return number;
    }
    void free_lane(level& of, std::uint32_t number) noexcept {
        lane& l = lanes_[number];
        if (l.next == number) {
            of.cursor = no_lane;
        } else {
            lanes_[l.previous].next = l.next;
            lanes_[l.next].previous = l.previous;
            if (of.cursor == number) of.cursor = l.next;
        }
        l.next = free_;
        free_ = number;
    }
    // An item left this lane.
    void left(level& from, std::uint32_t number) noexcept {
        --from.size;
        --size_;
        if (!grouped_ || lanes_[number].head != no_item) return;
        by_group_.erase(std::pair(from.priority, lanes_[number].group));
        free_lane(from, number);
    }

    level& choose() noexcept {
        std::size_t top = 0;
        while (levels_[top].size == 0) ++top;
        if (levels_[top].size == size_) { // nothing else waits
            passed_over_ = 0;
            return levels_[top];
        }
        if (share_ == 0 || ++passed_over_ < share_) return levels_[top];
        passed_over_ = 0;
        std::size_t oldest = top;
        for (std::size_t n = top + 1; n < levels_.size(); ++n) {
            if (levels_[n].size != 0 && (oldest == top || levels_[n].served < levels_[oldest].served)) oldest = n;
        }
        return levels_[oldest];
    }

    std::vector<level> levels_;
    std::vector<lane> lanes_;
    groups by_group_;
    std::uint32_t free_ = no_lane; ///< of lanes_
    std::size_t size_ = 0;
    std::uint64_t turn_ = 0;
    std::uint32_t passed_over_ = 0; ///< hand-outs since a lower level was served while one waited
    bool grouped_;
    std::uint32_t share_;
};

} // namespace informer::detail
