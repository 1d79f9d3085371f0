// A duration as text for messages.
#pragma once

#include <chrono>
#include <string>

namespace informer::detail {

/// "5 s"; in milliseconds if it is not a whole number of seconds.
inline std::string in_seconds(std::chrono::milliseconds d) {
    const auto whole = std::chrono::duration_cast<std::chrono::seconds>(d);
    return whole == d ? std::to_string(whole.count()) + " s" : std::to_string(d.count()) + " ms";
}

} // namespace informer::detail
