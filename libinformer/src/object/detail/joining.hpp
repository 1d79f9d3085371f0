// What joining the free room of a generation knows while it goes on.
#pragma once

#include "generation.hpp"

#include <cstdint>
#include <memory>
#include <vector>

namespace informer::detail {

/// First the lists are emptied and each node on them is marked where it begins, then each segment is walked by its marks.
struct generation::joining {
    std::uint32_t list = 2;    ///< the class that is emptied next
    std::uint32_t segment = 0; ///< the one that is walked next
    /// By segment, as far as something is free there: a bit for each word. The second word of a free node holds its size.
    std::vector<std::unique_ptr<std::uint64_t[]>> marks;
    std::uint64_t marked_words = 0;

    std::uint64_t bytes() const noexcept {
        return sizeof *this + marks.capacity() * sizeof(marks[0]) + marked_words / 8;
    }
};

} // namespace informer::detail
