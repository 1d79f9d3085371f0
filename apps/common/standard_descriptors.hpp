// Opens those of stdin, stdout and stderr that the caller left closed.
#pragma once

#include <fcntl.h>
#include <unistd.h>

namespace common {

/// Opens those of the descriptors 0, 1 and 2 that are closed, so that no socket takes their place. With
/// `stdout_matters`, a stdout that was closed still cannot be written to. Call before anything else opens a descriptor.
/// False: one could not be opened.
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
