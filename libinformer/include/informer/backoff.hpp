// libinformer: exponential back-off with jitter, sans-io.
#pragma once

#include <chrono>
#include <cstdint>
#include <random>

namespace informer {

/// Constants of client-go's reflector (tools/cache/reflector.go): 800 ms, doubled up to 30 s, each delay drawn from
/// [d, 2d), forgotten after 2 minutes of health.
class backoff_options {
public:
    backoff_options() {}
    /// Less than a millisecond counts as one (so for `cap`): what is refused is never asked again without a pause. More than `cap` counts
    /// as that; a factor below 1 as 1, a jitter below 0 as none.
    // clang-format off
    backoff_options& initial(std::chrono::nanoseconds d) { initial_ = d; return *this; }
    backoff_options& cap(std::chrono::nanoseconds d) { cap_ = d; return *this; }
    backoff_options& factor(double f) { factor_ = f; return *this; }
    backoff_options& jitter(double j) { jitter_ = j; return *this; }
    backoff_options& reset_after(std::chrono::nanoseconds d) { reset_after_ = d; return *this; }
    // clang-format on

    std::chrono::nanoseconds initial_ = std::chrono::milliseconds(800);
    std::chrono::nanoseconds cap_ = std::chrono::seconds(30);
    double factor_ = 2.0;
    double jitter_ = 1.0; ///< a delay is uniform in [d, d * (1 + jitter))
    static constexpr std::chrono::nanoseconds least = std::chrono::milliseconds(1);
    std::chrono::nanoseconds reset_after_ = std::chrono::minutes(2);
};

/// The delay before the next attempt. Only healthy time resets it: failing for long never does.
class backoff {
public:
    explicit backoff(backoff_options options = backoff_options(), std::uint64_t seed = 1);
    /// The delay to wait now; the next one will be longer.
    std::chrono::nanoseconds next();
    /// The work went well for `d` (watches that delivered an event or a bookmark); sums up, resets at reset_after.
    void healthy_for(std::chrono::nanoseconds d);
    void reset();
    /// Delays handed out since the last reset.
    unsigned attempts() const noexcept { return attempts_; }

private:
    backoff_options options_;
    std::chrono::nanoseconds current_{};
    std::chrono::nanoseconds healthy_{};
    unsigned attempts_ = 0;
    std::mt19937_64 random_;
};

} // namespace informer
