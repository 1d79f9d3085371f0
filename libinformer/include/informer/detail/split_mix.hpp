// Random numbers for jitter.
#pragma once

#include <cstdint>

namespace informer::detail {

/// A SplitMix64 sequence (Steele, Lea, Flood 2014), as a generator for the distributions of <random>. It takes 8 bytes,
/// where std::mt19937_64 takes 2.5 KB: an informer has seven of them. Not for secrets.
class split_mix {
public:
    using result_type = std::uint64_t;
    static constexpr std::uint64_t golden = 0x9e3779b97f4a7c15U; ///< from one state to the next

    explicit split_mix(std::uint64_t seed) noexcept : state_(seed) {}
    static constexpr result_type min() noexcept { return 0; }
    static constexpr result_type max() noexcept { return ~result_type{0}; }
    result_type operator()() noexcept { return mixed(state_ += golden); }

    static constexpr result_type mixed(std::uint64_t z) noexcept {
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
        return z ^ (z >> 31);
    }

private:
    std::uint64_t state_;
};

} // namespace informer::detail
