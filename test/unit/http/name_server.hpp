// A name server that does what tests say: the program's getaddrinfo is ours.
#pragma once

#include <atomic>

namespace http_test {

/// "slow.test" takes so long, and is then nobody's name. ("nowhere.test" is nobody's at once, "two.test" has two addresses.)
inline std::atomic<int> resolver_delay_ms{0};
inline std::atomic<int> resolver_busy{0}, resolver_done{0}; ///< look-ups of it

/// While one lives, look-ups of "held.test", which is 127.0.0.1, wait to be let go.
class held_look_ups {
public:
    held_look_ups();
    held_look_ups(const held_look_ups&) = delete;
    held_look_ups& operator=(const held_look_ups&) = delete;
    ~held_look_ups();
    int begun() const; ///< since it was made
    void let_go();     ///< those that wait, and those that will
};

} // namespace http_test
