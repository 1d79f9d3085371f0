// For loops over many small steps that may never suspend.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>

namespace informer::detail {

/// Says when everybody else on the executor is to have their turn.
class turn_watch {
    using real = std::chrono::steady_clock;

public:
    /// `steps` between two looks at the clock, which cost as much as a small one.
    explicit turn_watch(std::size_t steps = 16) noexcept : look_every_(steps) {}
    /// After each step: true when it is time for a post.
    bool over() noexcept {
        if (++steps_ % look_every_ != 0) return false;
        const real::time_point now = real::now();
        if (!began_) began_ = now; // not before: mostly there are but a few
        if (now - *began_ < longest) return false;
        began_.reset();
        return true;
    }
    /// The loop has suspended.
    void rested() noexcept {
        steps_ = 0;
        began_.reset();
    }

private:
    static constexpr auto longest = std::chrono::milliseconds(2); // design: no step of ours takes more than 5 ms
    std::size_t look_every_, steps_ = 0;
    std::optional<real::time_point> began_;
};

} // namespace informer::detail
