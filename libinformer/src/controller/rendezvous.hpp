// Which of several replicas owns a key. Part of the protocol between replicas of different releases: never change it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace informer::detail {

/// The weight of a member for a key: SplitMix64's finaliser over the `fnv1a` hashes of both. The member's hash is mixed
/// before it is combined with the key's, and the result is mixed again, so that neither hash shows in the weight.
constexpr std::uint64_t rendezvous_weight(std::uint64_t member, std::uint64_t key) noexcept {
    const auto mix = [](std::uint64_t z) {
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
        return z ^ (z >> 31);
    };
    return mix(mix(member + 0x9e3779b97f4a7c15U) ^ key);
}

/// The index of the member with the greatest weight; among equal ones, the smallest by `less(i, j)`.
template <class Less>
std::size_t heaviest(const std::vector<std::uint64_t>& members, std::uint64_t key, Less less) {
    std::size_t best = members.size();
    std::uint64_t most = 0;
    for (std::size_t i = 0; i < members.size(); ++i) {
        const std::uint64_t w = rendezvous_weight(members[i], key);
        if (best == members.size() || w > most || (w == most && less(i, best))) {
            best = i;
            most = w;
        }
    }
    return best;
}

} // namespace informer::detail
