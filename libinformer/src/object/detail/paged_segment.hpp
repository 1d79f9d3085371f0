// A MiB that nodes of 16 to 512 KiB share.
#pragma once

#include "node.hpp"

#include <array>
#include <cstdint>

namespace informer::detail {

/// Its memory comes with the nodes, by the page, and can go back when they die: what lies free between them costs room for handles
/// alone. Which units of it are taken is known without a look at it, so neighbours that are free are one room.
class paged_segment {
public:
    static constexpr std::uint32_t unit_words = 256; ///< 1 KiB
    static constexpr std::uint32_t units = segment_words / unit_words;

    /// Mapped by somebody else, and untouched.
    void begin(std::uint32_t* base, std::uint32_t first_index) noexcept {
        base_ = base;
        first_index_ = first_index;
    }

    std::uint32_t first_index() const noexcept { return first_index_; }
    std::uint32_t place = 0;                                          ///< where its generation has it
    std::uint32_t longest_room() const noexcept { return longest_; }  ///< units
    std::uint32_t taken() const noexcept { return taken_units_; }     ///< units
    std::uint32_t present() const noexcept { return present_units_; } ///< units that have memory, four a page
    std::uint32_t idle() const noexcept { return idle_units_; }       ///< of those, the pages of which nothing is taken

    /// The first room of so many units, which the longest one has.
    std::uint32_t find(std::uint32_t n) const noexcept;
    /// How much memory taking these needs, in units.
    std::uint32_t lacking(std::uint32_t at, std::uint32_t n) const noexcept;
    void take(std::uint32_t at, std::uint32_t n) noexcept;
    void give(std::uint32_t at, std::uint32_t n) noexcept;
    /// Gives pages back to the system of which nothing is taken.
    void give_pages_back() noexcept;

private:
    static constexpr std::uint32_t page_units = 4, map_words = units / 64;
    using map = std::array<std::uint64_t, map_words>;

    /// Calls f(word, mask) for all words that have units of these.
    template <class F>
    static void each(std::uint32_t at, std::uint32_t n, const F& f) noexcept;
    void recount() noexcept;

    std::uint32_t* base_ = nullptr;
    std::uint32_t first_index_ = 0;
    std::uint32_t longest_ = units, taken_units_ = 0, present_units_ = 0, idle_units_ = 0;
    map taken_{}, present_{};
};

} // namespace informer::detail
