// libinformer: exponential back-off with jitter, sans-io.
#pragma once

#include <informer/detail/split_mix.hpp>

#include <chrono>
#include <cstdint>

namespace informer {

/// The defaults are those of client-go's reflector (tools/cache/reflector.go): the delay starts at 800 ms and doubles
/// up to 30 s. Each delay is drawn from [d, 2d). The delay is reset after 2 minutes of health.
class backoff_options {
public:
    backoff_options() {}
    /// Below 1 ms counts as 1 ms (also for `cap`), so a refused request is never repeated without a pause. Above `cap`
    /// counts as `cap`, a factor below 1 as 1, a jitter below 0 as no jitter.
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

/// The delay before the next attempt. Only healthy time resets it; a long time of failures never does.
class backoff {
public:
    explicit backoff(backoff_options options = backoff_options(), std::uint64_t seed = 1);
    /// The delay to wait now; the next one will be longer.
    std::chrono::nanoseconds next();
    /// Reports that the work went well for `d` (watches that delivered an event or a bookmark). The times add up; at
    /// `reset_after` the delay is reset.
    void healthy_for(std::chrono::nanoseconds d);
    void reset();
    /// Delays handed out since the last reset.
    unsigned attempts() const noexcept { return attempts_; }

private:
    backoff_options options_;
    std::chrono::nanoseconds current_{};
    std::chrono::nanoseconds healthy_{};
    unsigned attempts_ = 0;
    detail::split_mix random_;
};

} // namespace informer
