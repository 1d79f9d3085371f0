// Time of the processor, not of the wall: what others do on this machine is no slice of ours.
#pragma once

#include <chrono>
#include <ctime>

namespace informer::testing {

/// Used by this thread so far.
inline std::chrono::nanoseconds cpu_time() {
    timespec t{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return std::chrono::seconds(t.tv_sec) + std::chrono::nanoseconds(t.tv_nsec);
}

} // namespace informer::testing
