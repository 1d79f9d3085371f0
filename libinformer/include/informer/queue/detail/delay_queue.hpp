// Delayed items, ordered by the time they are due.
#pragma once

#include <informer/queue/detail/item_table.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace informer::detail {

/// A run and a heap. Delays are mostly the same few, so most items come in the order in which they will be due: these
/// are appended to the run, in O(1). Items that come out of order go to the heap, which has four children per node:
/// half the depth of a binary heap, and the four take 64 bytes, in one or two cache lines. Items know where they are,
/// so one can be brought forward or taken out. Equal times come out in the order they went in.
template <class Table>
class delay_queue {
public:
    using time_point = std::chrono::steady_clock::time_point;

    bool empty() const noexcept { return size() == 0; }
    std::size_t size() const noexcept { return heap_.size() + run_live_; }
    time_point next() const noexcept { return first().when; }
    item_index front() const noexcept { return first().item; }
    time_point when(const Table& items, item_index i) const noexcept {
        const std::uint32_t at = items[i].delay_position;
        return (at & in_run) != 0 ? run_[run_index(at)].when : heap_[at].when;
    }
    std::size_t bytes() const noexcept { return (heap_.capacity() + run_.capacity()) * sizeof(node); }

    void push(Table& items, item_index i, time_point when) {
        if (run_live_ == 1 && when < run_.back().when) { // an item due far ahead must not keep the run to itself
            const node alone = run_.back();
            push_heap(items, alone);
            clear_run();
        }
        const node n(when, i, sequence_++);
        if (run_live_ == 0 || when >= run_.back().when) {
            run_.push_back(n);
            ++run_live_;
            items[i].delay_position = in_run | (run_base_ + static_cast<std::uint32_t>(run_.size() - 1));
        } else {
            push_heap(items, n);
        }
    }
    void bring_forward(Table& items, item_index i, time_point when) {
        const std::uint32_t at = items[i].delay_position;
        const node n(when, i, sequence_++);
        if ((at & in_run) == 0) {
            heap_[at] = n;
            up(items, at);
            return;
        }
        push_heap(items, n);
        leave_run(items, run_index(at));
    }
    void remove(Table& items, item_index i) noexcept {
        const std::uint32_t at = items[i].delay_position;
        items[i].delay_position = no_item;
        if ((at & in_run) != 0) {
            leave_run(items, run_index(at));
        } else {
            leave_heap(items, at);
        }
    }

private:
    static constexpr std::uint32_t in_run = 0x80000000U; ///< flag of a position; no_item has it too, but is no position
    static constexpr std::size_t kept = 1024;            ///< nodes whose memory is not given back
    static constexpr std::uint32_t renumber_above = 1U << 30;

    struct node {
        node(time_point w, item_index i, std::uint32_t s) noexcept : when(w), item(i), sequence(s) {}
        time_point when;
        item_index item;        ///< no_item: taken out of the run
        std::uint32_t sequence; ///< may wrap: only equal times are compared by it
        bool before(const node& o) const noexcept {
            if (when != o.when) return when < o.when;
            return static_cast<std::int32_t>(sequence - o.sequence) < 0;
        }
    };

    const node& first() const noexcept {
        if (run_live_ == 0) return heap_.front();
        const node& run = run_[run_head_];
        return heap_.empty() || run.before(heap_.front()) ? run : heap_.front();
    }

    // ---- the run: from run_head_ on; its first and last are never taken out -----------------------------------------
    std::size_t run_index(std::uint32_t position) const noexcept { return (position & ~in_run) - run_base_; }

    void clear_run() noexcept {
        run_.clear();
        if (run_.capacity() > kept) std::vector<node>().swap(run_);
        run_head_ = run_live_ = 0;
        run_base_ = 0;
    }
    void leave_run(Table& items, std::size_t at) noexcept {
        run_[at].item = no_item;
        if (--run_live_ == 0) return clear_run();
        while (run_[run_head_].item == no_item) ++run_head_;
        while (run_.back().item == no_item) run_.pop_back();
        if (run_.size() <= 64) return;
        if (run_live_ * 2 < run_.size() - run_head_ || run_base_ > renumber_above) {
            tidy_run(items);
        } else if (run_head_ * 2 > run_.size()) { // drops what was handed out; the others keep their positions
            run_.erase(run_.begin(), run_.begin() + static_cast<std::ptrdiff_t>(run_head_));
            run_base_ += static_cast<std::uint32_t>(std::exchange(run_head_, 0));
        }
    }
    void tidy_run(Table& items) noexcept {
        run_.erase(std::remove_if(run_.begin(), run_.end(), [](const node& n) { return n.item == no_item; }),
                   run_.end());
        run_head_ = 0;
        run_base_ = 0;
        for (std::uint32_t n = 0; n < run_.size(); ++n) items[run_[n].item].delay_position = in_run | n;
        if (run_.capacity() > kept && run_.size() * 8 < run_.capacity()) shrink(run_);
    }

    // ---- the heap ---------------------------------------------------------------------------------------------------
    void push_heap(Table& items, node n) {
        heap_.push_back(n);
        up(items, heap_.size() - 1);
    }
    void leave_heap(Table& items, std::size_t at) noexcept {
        const node last = heap_.back();
        heap_.pop_back();
        if (at < heap_.size()) {
            heap_[at] = last;
            if (at > 0 && last.before(heap_[(at - 1) / 4])) {
                up(items, at);
            } else {
                down(items, at);
            }
        }
        if (heap_.capacity() > kept && heap_.size() * 8 < heap_.capacity()) shrink(heap_);
    }
    void put(Table& items, std::size_t at, node n) noexcept {
        heap_[at] = n;
        items[n.item].delay_position = static_cast<std::uint32_t>(at);
    }
    void up(Table& items, std::size_t at) noexcept {
        const node moving = heap_[at];
        while (at > 0 && moving.before(heap_[(at - 1) / 4])) {
            put(items, at, heap_[(at - 1) / 4]);
            at = (at - 1) / 4;
        }
        put(items, at, moving);
    }
    void down(Table& items, std::size_t at) noexcept {
        const node moving = heap_[at];
        for (;;) {
            const std::size_t first_child = at * 4 + 1;
            if (first_child >= heap_.size()) break;
            const std::size_t end = std::min(first_child + 4, heap_.size());
            std::size_t best = first_child;
            for (std::size_t child = first_child + 1; child < end; ++child) {
                if (heap_[child].before(heap_[best])) best = child;
            }
            if (!heap_[best].before(moving)) break;
            put(items, at, heap_[best]);
            at = best;
        }
        put(items, at, moving);
    }

    static void shrink(std::vector<node>& v) noexcept {
        try {
            std::vector<node> smaller;
            smaller.reserve(v.size() * 2);
            smaller.assign(v.begin(), v.end());
            v.swap(smaller);
        } catch (...) { // NOLINT(bugprone-empty-catch) it stays large
        }
    }

    std::vector<node> run_, heap_;
    std::size_t run_head_ = 0, run_live_ = 0;
    std::uint32_t run_base_ = 0; ///< position of run_[0]
    std::uint32_t sequence_ = 0;
};

} // namespace informer::detail
