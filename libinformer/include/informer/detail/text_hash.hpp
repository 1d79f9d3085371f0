// The hash for names that others choose.
#pragma once

#include <cstdint>
#include <string_view>

namespace informer::detail {

/// Uses a seed that is drawn once in each process and never leaves it: nobody outside can choose names that collide, as
/// they can with std::hash of strings.
std::uint64_t text_hash(std::string_view s) noexcept;

} // namespace informer::detail
