// Part of other headers, not of the API.
#pragma once

#if defined(__has_include)
#if __has_include(<sys/single_threaded.h>)
#include <sys/single_threaded.h>
#endif
#endif

namespace informer::detail {

/// Whether this process has but one thread, where the C library knows. Then counting and locking need no locked instruction, of
/// which an event costs more than a hundred: each node of the cache that is copied counts all that hangs on it.
inline bool is_only_thread() noexcept {
#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 32)
    return __libc_single_threaded != 0;
#else
    return false;
#endif
}

} // namespace informer::detail
