// How long a key waits before it is tried again. Constants and rules: client-go,
// util/workqueue/default_rate_limiters.go.
#pragma once

#include <informer/detail/split_mix.hpp>
#include <informer/runtime.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

namespace informer {

/// Decides how long to wait before the next attempt. It keeps nothing per key: the queue counts how often a key was
/// limited since it was forgotten, in the slot that the key has there anyway (one table and one copy of the key instead
/// of one per limiter; a forgotten key leaves nothing behind).
///
/// *Thread safety*: none; a limiter belongs to one queue, which calls it under its lock, so it must not call back.
/// *Errors*: must not throw. A limiter made of others throws `error(errc::bad_configuration)` when it is made of none.
class rate_limiter {
public:
    using duration = std::chrono::nanoseconds;
    using time_point = informer::clock::time_point;
    virtual ~rate_limiter() = default;
    /// `requeues`: how often this key was limited before, since it was forgotten (0: the first time).
    virtual duration delay(std::uint32_t requeues, time_point now) = 0;
    /// A key that was told to wait no longer waits: it was asked for earlier. Gives back what it took from what all
    /// keys share.
    virtual void give_back() {}
};
using rate_limiter_ptr = std::shared_ptr<rate_limiter>;

/// base · 2^requeues, at most `max`; never overflows.
class exponential_limiter final : public rate_limiter {
public:
    exponential_limiter(duration base, duration max) : base_(base), max_(max) {}
    duration delay(std::uint32_t requeues, time_point now) override;

private:
    duration base_, max_;
};

/// Limits all keys together: `rate` per second, `burst` of them at once. A key that comes too early waits for its turn,
/// but no longer than `longest`: keys that have no turn within that time all come at its end, and however many they
/// were, they delay nothing after that.
class token_bucket_limiter final : public rate_limiter {
public:
    token_bucket_limiter(double rate, std::uint32_t burst, duration longest = duration::max())
        : rate_(rate), burst_(burst), tokens_(burst), longest_(std::max(longest, duration(0))) {}
    duration delay(std::uint32_t requeues, time_point now) override;
    void give_back() override;

private:
    double rate_, burst_, tokens_; ///< tokens below zero: turns that are promised
    duration longest_;
    std::uint64_t without_turn_ = 0; ///< keys that wait for `longest` and have no turn
    time_point last_{};              ///< when tokens_ was counted; at first it is full
};

/// `fast` for the first `fast_attempts` attempts of a key, `slow` afterwards.
class fast_slow_limiter final : public rate_limiter {
public:
    fast_slow_limiter(duration fast, duration slow, std::uint32_t fast_attempts)
        : fast_(fast), slow_(slow), fast_attempts_(fast_attempts) {}
    duration delay(std::uint32_t requeues, time_point now) override;

private:
    duration fast_, slow_;
    std::uint32_t fast_attempts_;
};

/// The longest delay of several.
class max_of_limiter final : public rate_limiter {
public:
    explicit max_of_limiter(std::vector<rate_limiter_ptr> of);
    duration delay(std::uint32_t requeues, time_point now) override;
    void give_back() override;

private:
    std::vector<rate_limiter_ptr> of_;
};

/// The delay of another limiter, at most `max` (client-go's WithMaxWaitRateLimiter).
class capped_limiter final : public rate_limiter {
public:
    capped_limiter(rate_limiter_ptr inner, duration max);
    duration delay(std::uint32_t requeues, time_point now) override;
    void give_back() override { inner_->give_back(); }

private:
    rate_limiter_ptr inner_;
    duration max_;
};

/// A delay d becomes uniform in [d, d · (1 + factor)), so that keys which failed together do not come back together.
class jitter_limiter final : public rate_limiter {
public:
    jitter_limiter(rate_limiter_ptr inner, double factor, std::uint64_t seed);
    duration delay(std::uint32_t requeues, time_point now) override;
    void give_back() override { inner_->give_back(); }

private:
    rate_limiter_ptr inner_;
    double factor_;
    detail::split_mix random_;
};

/// The larger of two delays: per key, 5 ms · 2^n up to 1000 s; for all keys together, 10 per second with a burst of
/// 100, no longer than 1000 s either.
rate_limiter_ptr default_controller_rate_limiter();
/// Per key 1 ms · 2^n up to 1000 s.
rate_limiter_ptr default_item_rate_limiter();

} // namespace informer
