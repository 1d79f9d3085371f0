// Time of the processor, not of the wall: what others do on this machine is no slice of ours.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <ctime>

namespace informer::testing {

/// Used by this thread so far.
inline std::chrono::nanoseconds cpu_time() {
    timespec t{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return std::chrono::seconds(t.tv_sec) + std::chrono::nanoseconds(t.tv_nsec);
}

/// What eight times `n` costs by what `n` costs, of this thread's time, the least of a few each: about 8 where each piece is looked at
/// once, 64 where it is once for each other one. `work(n)` makes its input first and returns what is to be measured.
template <class Work>
double growth(std::size_t n, const Work& work) {
    const auto least = [&work](std::size_t size) {
        auto best = std::chrono::nanoseconds::max();
        for (int i = 0; i < 3; ++i) {
            const auto measured = work(size);
            const auto begun = cpu_time();
            measured();
            best = std::min(best, cpu_time() - begun);
        }
        return static_cast<double>(best.count());
    };
    const double small = least(n);
    return least(8 * n) / small;
}

/// Of `growth`: linear, with what caches, sorting and a busy machine add.
constexpr double linear = 24;

} // namespace informer::testing
