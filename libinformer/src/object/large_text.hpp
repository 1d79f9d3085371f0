// Where a text begins to be large.
#pragma once

#include <cstddef>

namespace informer::detail {

/// A text over this size is decoded in steps with turns of the executor between them, because it may take over 2 ms. So
/// framers never cut such a text unproven: a wrong guess would have to be noticed before its first step.
inline constexpr std::size_t large_text = std::size_t(256) << 10;

} // namespace informer::detail
