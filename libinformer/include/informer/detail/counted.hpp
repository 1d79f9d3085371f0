// A number of things as text for messages.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace informer::detail {

/// "1 key", "2 keys".
inline std::string counted(std::uint64_t n, std::string_view one) {
    std::string s = std::to_string(n);
    s.append(" ").append(one);
    if (n != 1) s += 's';
    return s;
}

} // namespace informer::detail
