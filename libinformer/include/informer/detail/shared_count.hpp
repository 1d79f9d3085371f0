// Counts of what several hold; part of other headers, not of the API.
#pragma once

#include <atomic>
#include <cstdint>

#if defined(__has_include)
#if __has_include(<sys/single_threaded.h>)
#include <sys/single_threaded.h>
#endif
#endif

namespace informer::detail {

using shared_count = std::atomic<std::uint32_t>;

/// Whether this process has but one thread, where the C library knows. Then counting needs no locked instruction, of which an
/// event costs more than a hundred: each node of the cache that is copied counts all that hangs on it.
inline bool is_only_thread() noexcept {
#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 32)
    return __libc_single_threaded != 0;
#else
    return false;
#endif
}

inline void count_up(shared_count& c) noexcept {
    if (is_only_thread())
        c.store(c.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    else
        c.fetch_add(1, std::memory_order_relaxed);
}

/// True: that was the last one.
inline bool count_down(shared_count& c) noexcept {
    if (!is_only_thread()) return c.fetch_sub(1, std::memory_order_acq_rel) == 1;
    const std::uint32_t left = c.load(std::memory_order_relaxed) - 1;
    c.store(left, std::memory_order_relaxed);
    return left == 0;
}

} // namespace informer::detail
