// The state of trimming an old generation to what is kept of it, which goes on in steps.
#pragma once

#include "generation.hpp"

#include <cstdint>
#include <memory>
#include <vector>

namespace informer::detail {

/// First what the roots that are left reach is marked, then all segments and pages without a mark go back.
struct generation::trimming {
    struct unfinished {
        handle h;
        std::uint32_t next; ///< the child that is looked at next
    };

    std::size_t slab = 0; ///< whose roots are looked at next
    bool marked = false;
    std::uint32_t segment = 0; ///< the segment that is given back next
    std::vector<unfinished> stack;
    /// For each segment in which something was found, a bit for each word.
    std::vector<std::unique_ptr<std::uint64_t[]>> found;
    std::vector<page_map> pages; ///< of each segment; a node of several spans marks only in the first
    std::uint64_t found_words = 0;
    std::uint64_t bytes_by_kind[16] = {}, nodes = 0, references = 0;
    std::uint64_t unpaged_bytes = 0; ///< of these, not in paged segments

    std::uint64_t bytes() const noexcept {
        return sizeof *this + stack.capacity() * sizeof(stack[0]) + found.capacity() * sizeof(found[0]) +
               pages.capacity() * sizeof(pages[0]) + found_words / 8;
    }
};

} // namespace informer::detail
