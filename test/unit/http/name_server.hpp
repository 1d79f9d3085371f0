// A name server that tests control: it takes the place of the program's getaddrinfo.
#pragma once

#include <atomic>

namespace http_test {

/// How long a look-up of "slow.test" takes, which then finds nothing. ("nowhere.test" is not found at once, "two.test"
/// has two addresses.)
inline std::atomic<int> resolver_delay_ms{0};
inline std::atomic<int> resolver_busy{0}, resolver_done{0}; ///< look-ups of "slow.test" that run, that ended

/// While an object of it lives, look-ups of "held.test", which is 127.0.0.1, wait for `let_go`.
class held_look_ups {
public:
    held_look_ups();
    held_look_ups(const held_look_ups&) = delete;
    held_look_ups& operator=(const held_look_ups&) = delete;
    ~held_look_ups();
    int begun() const; ///< look-ups since this object was made
    void let_go();     ///< the look-ups that wait, and later ones
};

} // namespace http_test
