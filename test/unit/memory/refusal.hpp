// Memory that can be refused: that of operator new, that which the library itself requests from malloc, realloc, mmap
// and mremap, and that which Asio requests from aligned_alloc (the linker wraps these five).
#pragma once

#include <catch2/catch_test_macros.hpp>

#include <cstdint>
#include <functional>

namespace informer::testing {

struct refusal {
    bool on = false;
    std::uint64_t before = 0; ///< requests still granted
    bool once = false;        ///< refuses one request; otherwise all that follow, too
    bool mapped_only = false;
    bool handlers = false; ///< also refuses what Asio requests for posted handlers: aligned_alloc
    std::uint64_t refused = 0;
};
extern refusal refusal_now;

/// Refuses memory while it lives.
class lack {
public:
    explicit lack(refusal r) noexcept {
        refusal_now = r;
        refusal_now.on = true;
    }
    lack(const lack&) = delete;
    lack& operator=(const lack&) = delete;
    ~lack() { refusal_now.on = false; }
};

/// Runs `scenario` again and again: with the n-th request refused, and with that and all later ones refused, for every
/// n that occurs.
inline void for_every_request(const std::function<void(const refusal&)>& scenario) {
    for (const bool once : {true, false}) {
        std::uint64_t n = 0;
        for (; n < 100'000; ++n) {
            CAPTURE(once, n);
            refusal r;
            r.before = n;
            r.once = once;
            refusal_now = refusal();
            scenario(r);
            if (refusal_now.refused == 0) break;
        }
        CHECK(n > 1);
        CHECK(n < 100'000);
    }
}

} // namespace informer::testing
