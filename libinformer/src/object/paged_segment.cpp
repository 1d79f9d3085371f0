#include "detail/paged_segment.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>

namespace informer::detail {

namespace {

/// All four units of each page that has at least one of `units`.
constexpr std::uint64_t whole_pages(std::uint64_t units) noexcept {
    units |= units >> 1;
    units |= units >> 2;
    return (units & 0x1111'1111'1111'1111u) * 15;
}

/// Calls f(first, count) for each run of ones, in order, until f returns true.
template <class Map, class F>
void each_run(const Map& m, const F& f) noexcept {
    const auto size = static_cast<std::uint32_t>(m.size() * 64);
    // The first unit from `from` on that is set (or that is not, if `set` is false).
    const auto next = [&](std::uint32_t from, bool set) {
        for (; from < size; from = (from / 64 + 1) * 64)
            if (const std::uint64_t w = (set ? m[from / 64] : ~m[from / 64]) >> from % 64; w != 0)
                return from + static_cast<std::uint32_t>(std::countr_zero(w));
        return size;
    };
    for (std::uint32_t first = next(0, true); first < size;) {
        const std::uint32_t end = next(first, false);
        if (f(first, end - first)) return;
        first = next(end, true);
    }
}

template <class Map>
Map inverse(Map m) noexcept {
    for (std::uint64_t& w : m) w = ~w;
    return m;
}

constexpr long page_bytes = 4096;

} // namespace

bool give_memory_back(std::uint32_t* from, std::size_t words) noexcept {
    static const bool usual_pages = ::sysconf(_SC_PAGESIZE) == page_bytes;
    return usual_pages && ::madvise(from, words * 4, MADV_DONTNEED) == 0;
}

template <class F>
void paged_segment::each(std::uint32_t at, std::uint32_t n, const F& f) noexcept {
    for (const std::uint32_t end = at + n; at < end; at = (at / 64 + 1) * 64) {
        const std::uint32_t here = std::min(end - at, 64 - at % 64);
        f(at / 64, (~std::uint64_t{0} >> (64 - here)) << at % 64);
    }
}

std::uint32_t paged_segment::find(std::uint32_t n) const noexcept {
    std::uint32_t at = 0;
    each_run(inverse(taken_), [&](std::uint32_t first, std::uint32_t count) {
        at = first;
        return count >= n;
    });
    return at;
}

std::uint32_t paged_segment::lacking(std::uint32_t at, std::uint32_t n) const noexcept {
    int lacks = 0;
    each(at, n, [&](std::uint32_t i, std::uint64_t mask) { lacks += std::popcount(whole_pages(mask) & ~present_[i]); });
    return static_cast<std::uint32_t>(lacks);
}

void paged_segment::take(std::uint32_t at, std::uint32_t n) noexcept {
    std::uint32_t first = units, end = 0;
    each(at, n, [&](std::uint32_t i, std::uint64_t mask) {
        taken_[i] |= mask;
        const std::uint64_t lacks = whole_pages(mask) & ~present_[i];
        if (lacks == 0) return;
        first = std::min(first, i * 64 + static_cast<std::uint32_t>(std::countr_zero(lacks)));
        end = i * 64 + static_cast<std::uint32_t>(std::bit_width(lacks));
        present_[i] |= lacks;
    });
#ifdef MADV_POPULATE_WRITE
    // All pages at once: a fault for each costs more. Where the system cannot (before Linux 5.14), each comes with
    // its fault.
    if (first < end)
        static_cast<void>(
            ::madvise(base_ + first * unit_words, std::size_t{end - first} * unit_words * 4, MADV_POPULATE_WRITE));
#endif
    recount();
}

void paged_segment::give(std::uint32_t at, std::uint32_t n) noexcept {
    each(at, n, [&](std::uint32_t i, std::uint64_t mask) { taken_[i] &= ~mask; });
    recount();
}

void paged_segment::give_pages_back() noexcept {
    if (idle_units_ == 0) return;
    map idle;
    for (std::uint32_t i = 0; i < map_words; ++i) idle[i] = present_[i] & ~whole_pages(taken_[i]);
    each_run(idle, [&](std::uint32_t first, std::uint32_t count) {
        if (give_memory_back(base_ + first * unit_words, std::size_t{count} * unit_words))
            each(first, count, [&](std::uint32_t i, std::uint64_t mask) { present_[i] &= ~mask; });
        return false;
    });
    recount();
}

void paged_segment::recount() noexcept {
    int taken = 0, present = 0, idle = 0;
    for (std::uint32_t i = 0; i < map_words; ++i) {
        taken += std::popcount(taken_[i]);
        present += std::popcount(present_[i]);
        idle += std::popcount(present_[i] & ~whole_pages(taken_[i]));
    }
    taken_units_ = static_cast<std::uint32_t>(taken);
    present_units_ = static_cast<std::uint32_t>(present);
    idle_units_ = static_cast<std::uint32_t>(idle);
    longest_ = 0;
    each_run(inverse(taken_), [&](std::uint32_t, std::uint32_t count) {
        longest_ = std::max(longest_, count);
        return false;
    });
}

} // namespace informer::detail
