// Part of other headers, not of the API.
#pragma once

#if __has_include(<sys/single_threaded.h>) // glibc since 2.32
#define INFORMER_KNOWS_ONLY_THREAD 1
#include <sys/single_threaded.h>
#endif
// Elsewhere there is no way to tell, and locked instructions are used.

namespace informer::detail {

/// Whether this process has only one thread, if the C library knows. Then counting and locking need no locked
/// instructions. An event costs more than a hundred of them: each copied node of the cache counts everything that it
/// refers to.
inline bool is_only_thread() noexcept {
#if defined(INFORMER_KNOWS_ONLY_THREAD)
    return __libc_single_threaded != 0;
#else
    return false;
#endif
}

} // namespace informer::detail
