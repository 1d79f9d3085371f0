// What the caller left closed of stdin, stdout and stderr.
#pragma once

#include <fcntl.h>
#include <unistd.h>

namespace common {

/// Opens what is closed of 0, 1 and 2, so that no socket comes to stand in their place. A stdout that was closed stays one that cannot
/// be written to where that matters (`stdout_matters`). Call before anything else opens a descriptor. False: it cannot be helped.
inline bool occupy_standard_descriptors(bool stdout_matters) {
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) {
        if (::fcntl(fd, F_GETFD) != -1) continue;
        const bool dull = fd == STDIN_FILENO || (fd == STDOUT_FILENO && stdout_matters);
        // The lowest free number is fd itself: those below are open by now.
        if (::open("/dev/null", dull ? O_RDONLY : O_RDWR) != fd) return false;
    }
    return true;
}

} // namespace common
