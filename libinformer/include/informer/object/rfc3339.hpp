// Times as the API writes them.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

namespace informer {

/// RFC 3339 in UTC: "2024-01-01T00:00:00Z", which is metav1.Time, or with `digits` digits of a second, at most 9;
/// metav1.MicroTime has 6. Cut, not rounded.
std::string rfc3339(std::chrono::system_clock::time_point t, int digits = 0);
/// Accepts any offset and any number of digits. Empty if the text is no such time, or not from mid-1678 to mid-2261,
/// which is as far as the clock counts.
std::optional<std::chrono::system_clock::time_point> parse_rfc3339(std::string_view s) noexcept;

} // namespace informer
