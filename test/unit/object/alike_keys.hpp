// Keys that look alike to the look-up of members.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>

namespace informer::testing {

inline std::string padded(std::size_t n, std::size_t width) {
    std::string s = std::to_string(n);
    return s.insert(0, width - std::min(width, s.size()), '0');
}

/// Such keys differ only at places that a fingerprint of their ends and their middle does not cover.
inline std::string alike(std::size_t a, std::size_t b) {
    return "abcd" + padded(a, 9) + "mmmm" + padded(b, 9) + "wxyz";
}

} // namespace informer::testing
