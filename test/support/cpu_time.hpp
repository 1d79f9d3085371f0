// CPU time instead of wall time, so that other processes on this machine do not count.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <ctime>

namespace informer::testing {

/// The CPU time of this thread so far.
inline std::chrono::nanoseconds cpu_time() {
    timespec t{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return std::chrono::seconds(t.tv_sec) + std::chrono::nanoseconds(t.tv_nsec);
}

/// The CPU time of this thread for size 8 `n` divided by that for size `n`, each the least of three runs: about 8 if
/// each piece is looked at once, 64 if it is looked at once for each other piece. `work(n)` makes its input and returns
/// the function to measure.
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

/// The limit for a linear `growth`, with an allowance for caches, sorting and a busy machine.
constexpr double linear = 24;

} // namespace informer::testing
