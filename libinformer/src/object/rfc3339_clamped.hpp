// RFC 3339 times outside the range of the system clock.
#pragma once

#include <chrono>
#include <optional>
#include <string_view>

namespace informer::detail {

/// As `parse_rfc3339`, but a time before 1678 (Go's zero) becomes the clock's first time, and one after 2261 (9999,
/// for never) its last.
std::optional<std::chrono::system_clock::time_point> parse_rfc3339_clamped(std::string_view s) noexcept;

} // namespace informer::detail
