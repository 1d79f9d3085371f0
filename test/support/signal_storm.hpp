// Signals that interrupt waiting system calls.
#pragma once

#include <atomic>
#include <csignal>

#include <sys/time.h>

namespace informer::testing {

/// Sends a signal every half millisecond while it exists; the handler only counts.
class signal_storm {
public:
    signal_storm() {
        struct sigaction act {};
        act.sa_handler = [](int) { ++seen; }; // no SA_RESTART
        ::sigaction(SIGALRM, &act, &before_);
        every(500);
    }
    ~signal_storm() {
        every(0);
        ::sigaction(SIGALRM, &before_, nullptr);
    }
    signal_storm(const signal_storm&) = delete;
    signal_storm& operator=(const signal_storm&) = delete;

    static inline std::atomic<unsigned> seen{0};

private:
    static void every(suseconds_t us) {
        const itimerval t{{0, us}, {0, us}};
        ::setitimer(ITIMER_REAL, &t, nullptr);
    }
    struct sigaction before_ {};
};

} // namespace informer::testing
