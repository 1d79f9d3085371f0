// Delayed items by the time they are due.
#pragma once

#include <informer/queue/detail/item_table.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace informer::detail {

/// A heap of four children a node: half the depth of a binary one, and the four lie in one cache line. Items know their
/// position, so that one can be brought forward or taken out. Equal times come out in the order they went in.
template <class Table>
class delay_heap {
public:
    using time_point = std::chrono::steady_clock::time_point;

    bool empty() const noexcept { return nodes_.empty(); }
    std::size_t size() const noexcept { return nodes_.size(); }
    time_point next() const noexcept { return nodes_.front().when; }
    item_index front() const noexcept { return nodes_.front().item; }
    time_point when(const Table& items, item_index i) const noexcept { return nodes_[items[i].heap_position].when; }
    std::size_t bytes() const noexcept { return nodes_.capacity() * sizeof(node); }

    void push(Table& items, item_index i, time_point when) {
        nodes_.push_back(node(when, i, sequence_++));
        up(items, nodes_.size() - 1);
    }
    void bring_forward(Table& items, item_index i, time_point when) noexcept {
        const std::size_t at = items[i].heap_position;
        nodes_[at] = node(when, i, sequence_++);
        up(items, at);
    }
    void remove(Table& items, item_index i) noexcept {
        const std::size_t at = items[i].heap_position;
        items[i].heap_position = no_item;
        const node last = nodes_.back();
        nodes_.pop_back();
        if (at < nodes_.size()) {
            nodes_[at] = last;
            if (at > 0 && last.before(nodes_[(at - 1) / 4])) {
                up(items, at);
            } else {
                down(items, at);
            }
        }
        if (nodes_.capacity() > 1024 && nodes_.size() * 8 < nodes_.capacity()) shrink();
    }

private:
    struct node {
        node(time_point w, item_index i, std::uint32_t s) noexcept : when(w), item(i), sequence(s) {}
        time_point when;
        item_index item;
        std::uint32_t sequence; ///< may wrap: only equal times are compared by it
        bool before(const node& o) const noexcept {
            if (when != o.when) return when < o.when;
            return static_cast<std::int32_t>(sequence - o.sequence) < 0;
        }
    };

    void put(Table& items, std::size_t at, node n) noexcept {
        nodes_[at] = n;
        items[n.item].heap_position = static_cast<std::uint32_t>(at);
    }
    void up(Table& items, std::size_t at) noexcept {
        const node moving = nodes_[at];
        while (at > 0 && moving.before(nodes_[(at - 1) / 4])) {
            put(items, at, nodes_[(at - 1) / 4]);
            at = (at - 1) / 4;
        }
        put(items, at, moving);
    }
    void down(Table& items, std::size_t at) noexcept {
        const node moving = nodes_[at];
        for (;;) {
            const std::size_t first = at * 4 + 1;
            if (first >= nodes_.size()) break;
            const std::size_t end = std::min(first + 4, nodes_.size());
            std::size_t best = first;
            for (std::size_t child = first + 1; child < end; ++child) {
                if (nodes_[child].before(nodes_[best])) best = child;
            }
            if (!nodes_[best].before(moving)) break;
            put(items, at, nodes_[best]);
            at = best;
        }
        put(items, at, moving);
    }
    void shrink() noexcept {
        try {
            std::vector<node> smaller;
            smaller.reserve(nodes_.size() * 2);
            smaller.assign(nodes_.begin(), nodes_.end());
            nodes_.swap(smaller);
        } catch (...) { // NOLINT(bugprone-empty-catch) it stays large
        }
    }

    std::vector<node> nodes_;
    std::uint32_t sequence_ = 0;
};

} // namespace informer::detail
