// A lock for short sections.
#pragma once

#include "only_thread.hpp"

#include <atomic>
#include <thread>

namespace informer::detail {

/// Locking takes one atomic exchange (none in a process of one thread), unlocking a plain store: half the price of an
/// uncontended std::mutex, which pays an atomic operation at both ends (figures: docs/design/work-queue.md). For
/// sections that are nearly always short: tens of nanoseconds, or tens of microseconds if a subscription merges or
/// unfolds a full queue under it, or takes a portion of an initial state. A thread that finds it taken for long yields
/// its time slice, because the section is that long or because the holder may have lost its own. Meets the requirements
/// of *Lockable*.
class spin_lock {
public:
    void lock() noexcept {
        while (!try_lock()) wait();
    }
    bool try_lock() noexcept {
        if (!is_only_thread()) return !taken_.exchange(true, std::memory_order_acquire);
        if (taken_.load(std::memory_order_relaxed)) return false;
        taken_.store(true, std::memory_order_relaxed);
        return true;
    }
    void unlock() noexcept { taken_.store(false, std::memory_order_release); }

private:
    void wait() noexcept {
        for (int round = 0; taken_.load(std::memory_order_relaxed); ++round) {
            if (round < 64) {
#if defined(__x86_64__) || defined(__i386__)
                __builtin_ia32_pause();
#elif defined(__aarch64__)
                asm volatile("isb"); // waits about as long; its "yield" does nothing on most processors
#endif
            } else {
                std::this_thread::yield();
            }
        }
    }
    std::atomic<bool> taken_{false};
};

} // namespace informer::detail
