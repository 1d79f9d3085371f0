// The newest state of something, for readers on any thread. Readers never wait, and the writer hardly ever does (see
// below).
//
// std::atomic<std::shared_ptr> would do in principle, but libstdc++'s takes a lock (a bit of the pointer), which a
// preempted reader keeps. Here, a reader does one fetch_add on a word that names the slot of the newest state and
// counts its readers, copies the pointer in that slot, and leaves the slot by another fetch_add. The writer fills a
// free slot, exchanges the word, and knows from the old word how many readers have to leave the old slot before it may
// be used again (split counts, as in A. Williams, "C++ Concurrency in Action", 2nd ed., 7.2.4).
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <thread>
#include <utility>

namespace informer::detail {

/// *Thread safety*: one writer; readers on any thread. *Complexity*: a read is two atomic additions and the copy of a
/// shared_ptr, without a loop, whatever the size of the state and whatever other threads do. A write is O(slots), and
/// frees the previous state if nobody else holds it. A write waits only while `slots - 1` readers at once are stopped
/// in the middle of a read, each at a different state; `waits()` counts that. *Lifetime*: a state is freed with its
/// last reader; one that was being read when it was replaced is freed at the latest by the first write after that read.
template <class T>
class published {
public:
    using pointer = std::shared_ptr<const T>;

private:
    struct slot {
        pointer state;
        std::atomic<std::uint64_t> left{0}; ///< readers that are done with it
        std::uint64_t entered = 0;          ///< readers that came; known once the state is not the newest any more
    };

public:
    static constexpr unsigned slots = 32;

    explicit published(pointer first) {
        slots_[0].state = std::move(first);
        free_ = ~std::uint32_t{1};
    }
    published(const published&) = delete;
    published& operator=(const published&) = delete;

    /// One read under way. Do not keep it: it occupies the slot.
    class reading {
    public:
        explicit reading(const published& of) noexcept
            : slot_(of.slots_[of.newest_.fetch_add(1, std::memory_order_acquire) >> count_bits]) {}
        ~reading() { slot_.left.fetch_add(1, std::memory_order_release); }
        reading(const reading&) = delete;
        reading& operator=(const reading&) = delete;
        const pointer& state() const noexcept { return slot_.state; }

    private:
        slot& slot_;
    };

    pointer load() const noexcept { return reading(*this).state(); }

    // ---- the writer

    /// What was stored last.
    const pointer& current() const noexcept {
        return slots_[newest_.load(std::memory_order_relaxed) >> count_bits].state;
    }

    void store(pointer next) {
        sweep();
        for (; free_ == 0; sweep()) {
            waits_.fetch_add(1, std::memory_order_relaxed);
            std::this_thread::yield();
        }
        const auto to = static_cast<unsigned>(std::countr_zero(free_));
        free_ &= ~bit(to);
        slots_[to].state = std::move(next);
        const std::uint64_t before = newest_.exchange(std::uint64_t{to} << count_bits, std::memory_order_acq_rel);
        const auto from = static_cast<unsigned>(before >> count_bits);
        slots_[from].entered = before & count_mask;
        retired_ |= bit(from);
        sweep();
        stores_.fetch_add(1, std::memory_order_relaxed);
        if (retired_ & bit(from)) overlaps_.fetch_add(1, std::memory_order_relaxed);
    }

    // ---- figures, any thread

    std::uint64_t stores() const noexcept { return stores_.load(std::memory_order_relaxed); }
    /// Stores during which a reader was at the previous state; neither waited.
    std::uint64_t overlaps() const noexcept { return overlaps_.load(std::memory_order_relaxed); }
    /// Times the writer found no free slot.
    std::uint64_t waits() const noexcept { return waits_.load(std::memory_order_relaxed); }

private:
    static constexpr unsigned count_bits =
        54; // full after eleven years of fifty million reads a second without a write
    static constexpr std::uint64_t count_mask = (std::uint64_t{1} << count_bits) - 1;
    static_assert(slots <= 32 && slots <= 1u << (64 - count_bits));

    static std::uint32_t bit(unsigned i) noexcept { return std::uint32_t{1} << i; }

    /// Frees the old slots that all readers have left.
    void sweep() noexcept {
        for (std::uint32_t rest = retired_; rest != 0; rest &= rest - 1) {
            const auto i = static_cast<unsigned>(std::countr_zero(rest));
            slot& s = slots_[i];
            if (s.left.load(std::memory_order_acquire) != s.entered) continue;
            s.left.store(0, std::memory_order_relaxed);
            retired_ &= ~bit(i);
            free_ |= bit(i);
            s.state.reset();
        }
    }

    mutable std::array<slot, slots> slots_;
    alignas(64) mutable std::atomic<std::uint64_t> newest_{0}; ///< the slot, and how many readers came to it
    alignas(64) std::uint32_t free_ = 0, retired_ = 0;
    std::atomic<std::uint64_t> stores_{0}, overlaps_{0}, waits_{0};
};

} // namespace informer::detail
