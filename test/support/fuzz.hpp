// The length and the seed of tests with random input; the environment changes both.
#pragma once

#include <cstddef>
#include <cstdlib>

namespace informer::testing {

/// `n` rounds, times INFORMER_FUZZ_FACTOR if it is set.
inline std::size_t fuzz_rounds(std::size_t n) {
    const char* const factor = std::getenv("INFORMER_FUZZ_FACTOR");
    return factor ? n * std::strtoul(factor, nullptr, 10) : n;
}

/// The seed `n`, or another one if INFORMER_FUZZ_SEED is set.
inline unsigned fuzz_seed(unsigned n) {
    const char* const other = std::getenv("INFORMER_FUZZ_SEED");
    return other ? n + static_cast<unsigned>(std::strtoul(other, nullptr, 10)) * 1000 : n;
}

} // namespace informer::testing
