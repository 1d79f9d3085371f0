// A duration as messages tell it.
#pragma once

#include <chrono>
#include <string>

namespace informer::detail {

/// "5 s"; what is no whole number of them in milliseconds.
inline std::string in_seconds(std::chrono::milliseconds d) {
    const auto whole = std::chrono::duration_cast<std::chrono::seconds>(d);
    return whole == d ? std::to_string(whole.count()) + " s" : std::to_string(d.count()) + " ms";
}

} // namespace informer::detail
