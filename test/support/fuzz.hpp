// How long a test with random input goes on, and with which: other runs by the environment.
#pragma once

#include <cstddef>
#include <cstdlib>

namespace informer::testing {

/// More with INFORMER_FUZZ_FACTOR.
inline std::size_t fuzz_rounds(std::size_t n) {
    const char* const factor = std::getenv("INFORMER_FUZZ_FACTOR");
    return factor ? n * std::strtoul(factor, nullptr, 10) : n;
}

/// Others with INFORMER_FUZZ_SEED.
inline unsigned fuzz_seed(unsigned n) {
    const char* const other = std::getenv("INFORMER_FUZZ_SEED");
    return other ? n + static_cast<unsigned>(std::strtoul(other, nullptr, 10)) * 1000 : n;
}

} // namespace informer::testing
