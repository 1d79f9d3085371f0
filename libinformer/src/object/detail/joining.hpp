// The state of joining the free room of a generation, which goes on in steps.
#pragma once

#include "generation.hpp"

#include <cstdint>
#include <memory>
#include <vector>

namespace informer::detail {

/// First the free lists are emptied and the beginning of each node on them is marked, then each segment is walked by
/// its marks.
struct generation::joining {
    std::uint32_t list = 2;    ///< the size class whose list is emptied next
    std::uint32_t segment = 0; ///< the segment that is walked next
    /// For each segment in which something is free, a bit for each word. The second word of a free node holds its size.
    std::vector<std::unique_ptr<std::uint64_t[]>> marks;
    std::uint64_t marked_words = 0;

    std::uint64_t bytes() const noexcept {
        return sizeof *this + marks.capacity() * sizeof(marks[0]) + marked_words / 8;
    }
};

} // namespace informer::detail
