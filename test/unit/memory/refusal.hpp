// Memory that can be refused: operator new, and what the library itself asks of malloc, realloc, mmap and mremap, and Asio of
// aligned_alloc (the linker wraps these five).
#pragma once

#include <catch2/catch_test_macros.hpp>

#include <cstdint>
#include <functional>

namespace informer::testing {

struct refusal {
    bool on = false;
    std::uint64_t before = 0; ///< requests still granted
    bool once = false;        ///< else all that follow
    bool mapped_only = false;
    bool handlers = false; ///< also what Asio asks for what is posted: aligned_alloc
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

/// Runs `scenario` again and again: without the n-th request, and without it and all that follow, for every n that there is.
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
