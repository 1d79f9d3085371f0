// Whether these tests are built with a sanitizer, which takes time of its own.
#pragma once

namespace informer::testing {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool sanitized = true;
#else
inline constexpr bool sanitized = false;
#endif

} // namespace informer::testing
