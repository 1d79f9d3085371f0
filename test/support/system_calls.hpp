// Tests with system calls that the kernel lacks, and with those it would lack if it were older.
#pragma once

#include <catch2/catch_test_macros.hpp>

#include <cerrno>
#include <cstddef>
#include <cstdio>

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434 // everywhere but on alpha
#endif

namespace informer::testing {

/// Skips the case where exec plugins cannot be run: before Linux 5.4, or where a sandbox does not know pidfd_open.
inline void need_pidfd_open() {
    static const bool there = [] {
        const long fd = ::syscall(SYS_pidfd_open, ::getpid(), 0);
        if (fd < 0)
            std::puts("notice: this system has no pidfd_open (Linux 5.4): the cases that run exec plugins are skipped");
        return fd >= 0 && ::close(static_cast<int>(fd)) == 0;
    }();
    if (!there) SKIP("no pidfd_open");
}

/// Takes this system call from the calling thread, and from everything it starts later, as if the kernel were older.
/// False where that is not possible.
inline bool lose_system_call(long number) {
    sock_filter rules[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
                           BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<unsigned>(number), 0, 1),
                           BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
                           BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    const sock_fprog program{sizeof rules / sizeof *rules, rules};
    return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

} // namespace informer::testing
