// A MiB that nodes of 16 to 512 KiB share.
#pragma once

#include "node.hpp"

#include <array>
#include <cstddef>
#include <cstdint>

namespace informer::detail {

/// Gives whole pages of 4 KiB back to the system: `words` from `from` on. False if they stay: locked memory does, and so
/// does all where the system's pages are larger, as part of one may be in use.
bool give_memory_back(std::uint32_t* from, std::size_t words) noexcept;

/// Its pages get memory when nodes are placed in them and can give it back when the nodes die: free room between
/// nodes costs handles only. A map kept outside the segment says which units are taken, so free neighbours are one
/// room.
class paged_segment {
public:
    static constexpr std::uint32_t unit_words = 256; ///< 1 KiB
    static constexpr std::uint32_t units = segment_words / unit_words;

    /// `base` was mapped by the caller and is untouched.
    void begin(std::uint32_t* base, std::uint32_t first_index) noexcept {
        base_ = base;
        first_index_ = first_index;
    }

    std::uint32_t first_index() const noexcept { return first_index_; }
    std::uint32_t place = 0;                                          ///< its index in the generation's list
    std::uint32_t longest_room() const noexcept { return longest_; }  ///< units
    std::uint32_t taken() const noexcept { return taken_units_; }     ///< units
    std::uint32_t present() const noexcept { return present_units_; } ///< units that have memory, four a page
    std::uint32_t idle() const noexcept { return idle_units_; }       ///< of those, on pages where nothing is taken

    /// The first room of at least `n` units; the longest room must have as many.
    std::uint32_t find(std::uint32_t n) const noexcept;
    /// How much more memory it needs to take these units, in units.
    std::uint32_t lacking(std::uint32_t at, std::uint32_t n) const noexcept;
    void take(std::uint32_t at, std::uint32_t n) noexcept;
    void give(std::uint32_t at, std::uint32_t n) noexcept;
    /// Gives the pages in which nothing is taken back to the system.
    void give_pages_back() noexcept;

private:
    static constexpr std::uint32_t page_units = 4, map_words = units / 64;
    using map = std::array<std::uint64_t, map_words>;

    /// Calls f(index, mask) for each word of a map that has bits for these units.
    template <class F>
    static void each(std::uint32_t at, std::uint32_t n, const F& f) noexcept;
    void recount() noexcept;

    std::uint32_t* base_ = nullptr;
    std::uint32_t first_index_ = 0;
    std::uint32_t longest_ = units, taken_units_ = 0, present_units_ = 0, idle_units_ = 0;
    map taken_{}, present_{};
};

} // namespace informer::detail
