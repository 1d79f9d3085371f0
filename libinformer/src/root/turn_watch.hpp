// For loops over many small steps that may never suspend.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>

namespace informer::detail {

/// How long a loop holds the executor before other handlers get their turn. By design no step of the library takes more
/// than 5 ms, and the step under way may be long. Real time, whatever the runtime's clock is.
inline constexpr std::chrono::milliseconds longest_turn(2);

/// Says when a turn is over.
class turn_watch {
    using real = std::chrono::steady_clock;

public:
    /// `steps` between two readings of the clock, each of which costs as much as a small step.
    explicit turn_watch(std::size_t steps = 16) noexcept : look_every_(steps) {}
    /// After each step: true when it is time for a post.
    bool over() noexcept {
        if (++steps_ < look_every_) return false; // no division: it takes as long as a small step
        steps_ = 0;
        const real::time_point now = real::now();
        if (!began_) began_ = now; // not earlier: mostly there are only a few steps
        if (now - *began_ < longest_turn) return false;
        began_.reset();
        return true;
    }
    /// Begins the turn now: for loops in which single steps may be long, not only their number large.
    void begin() noexcept {
        steps_ = 0;
        began_ = real::now();
    }
    /// The loop has suspended.
    void rested() noexcept {
        steps_ = 0;
        began_.reset();
    }

private:
    std::size_t look_every_, steps_ = 0;
    std::optional<real::time_point> began_;
};

} // namespace informer::detail
