// Reference counts; part of other headers, not of the API.
#pragma once

#include "only_thread.hpp"

#include <atomic>
#include <cstdint>

namespace informer::detail {

using shared_count = std::atomic<std::uint32_t>;

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
