// Part of other headers, not of the API.
#pragma once

#if __has_include(<sys/single_threaded.h>) // glibc since 2.32
#define INFORMER_KNOWS_ONLY_THREAD 1
#include <sys/single_threaded.h>
#endif
// Elsewhere nothing tells, and locked instructions are used.

namespace informer::detail {

/// Whether this process has but one thread, where the C library knows. Then counting and locking need no locked instruction, of
/// which an event costs more than a hundred: each node of the cache that is copied counts all that hangs on it.
inline bool is_only_thread() noexcept {
#if defined(INFORMER_KNOWS_ONLY_THREAD)
    return __libc_single_threaded != 0;
#else
    return false;
#endif
}

} // namespace informer::detail
