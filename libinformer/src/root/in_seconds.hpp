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

/// "1.3 s", "27 s" or "5 min", rounded: for times that nobody chose.
inline std::string roughly(std::chrono::milliseconds d) {
    using namespace std::chrono;
    if (d >= minutes(2)) return std::to_string(round<minutes>(d).count()) + " min";
    if (d >= seconds(10)) return std::to_string(round<seconds>(d).count()) + " s";
    const auto tenths = (d.count() + 50) / 100;
    return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + " s";
}

} // namespace informer::detail
