// The memory of this process in bytes, as the kernel and the heap count it.
#pragma once

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>

#include <malloc.h>
#include <unistd.h>

namespace informer::bench {

inline double resident_bytes() {
    std::ifstream statm("/proc/self/statm");
    long size = 0, resident = 0;
    statm >> size >> resident;
    return static_cast<double>(resident) * static_cast<double>(::sysconf(_SC_PAGESIZE));
}

/// The highest resident set since the start of the process, or since the peak was cleared.
inline double peak_bytes() {
    std::ifstream status("/proc/self/status");
    for (std::string line; std::getline(status, line);)
        if (line.starts_with("VmHWM:")) return std::strtod(line.c_str() + std::strlen("VmHWM:"), nullptr) * 1024;
    return 0;
}

/// Allocated and not freed.
inline double heap_bytes() {
    const struct mallinfo2 m = ::mallinfo2();
    return static_cast<double>(m.uordblks) + static_cast<double>(m.hblkhd);
}

} // namespace informer::bench
