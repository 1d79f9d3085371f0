#include <informer/queue/rate_limiter.hpp>

#include <algorithm>
#include <cmath>
#include <random>

namespace informer {

namespace {

using duration = rate_limiter::duration;

// Nanoseconds from a double, without the undefined conversion of a value that does not fit. Rounds to the nearest:
// where the compiler makes one instruction of a product and a sum (on 64-bit ARM it does), the last digit differs,
// and truncation would give the value below.
duration bounded(double nanoseconds, duration max) {
    if (!(nanoseconds < static_cast<double>(max.count()))) return max;
    return duration(static_cast<duration::rep>(std::round(std::max(nanoseconds, 0.0))));
}

/// Checked now, and not in the coroutine that adds the first key.
void check(const rate_limiter_ptr& inner) {
    if (!inner) throw error(errc::bad_configuration, "a rate limiter around none");
}

} // namespace

duration exponential_limiter::delay(std::uint32_t requeues, time_point) {
    const int exponent = static_cast<int>(std::min<std::uint32_t>(requeues, 1024));
    return bounded(std::ldexp(static_cast<double>(base_.count()), exponent), max_);
}

duration token_bucket_limiter::delay(std::uint32_t, time_point now) {
    if (!(rate_ > 0)) return longest_;
    if (now > last_) {
        const std::chrono::duration<double> passed = now - last_;
        tokens_ = std::min(burst_, tokens_ + passed.count() * rate_);
        last_ = now;
    }
    if (tokens_ >= 0) without_turn_ = 0; // the time of keys without a turn has come
    const std::chrono::duration<double> longest = longest_;
    const double most_promised = -longest.count() * rate_;
    tokens_ -= 1.0;
    if (tokens_ < most_promised) {
        tokens_ = most_promised;
        ++without_turn_;
    }
    return bounded(-tokens_ / rate_ * 1e9, longest_);
}

void token_bucket_limiter::give_back() {
    if (without_turn_ > 0) { // the key took no turn, or another key gets its turn
        --without_turn_;
        return;
    }
    tokens_ = std::min(burst_, tokens_ + 1.0);
}

duration fast_slow_limiter::delay(std::uint32_t requeues, time_point) {
    return requeues < fast_attempts_ ? fast_ : slow_;
}

max_of_limiter::max_of_limiter(std::vector<rate_limiter_ptr> of) : of_(std::move(of)) {
    if (of_.empty()) throw error(errc::bad_configuration, "max_of_limiter: none given");
    for (const rate_limiter_ptr& one : of_) check(one);
}

duration max_of_limiter::delay(std::uint32_t requeues, time_point now) {
    duration longest(0);
    for (const rate_limiter_ptr& one : of_) longest = std::max(longest, one->delay(requeues, now));
    return longest;
}

void max_of_limiter::give_back() {
    for (const rate_limiter_ptr& one : of_) one->give_back();
}

capped_limiter::capped_limiter(rate_limiter_ptr inner, duration max) : inner_(std::move(inner)), max_(max) {
    check(inner_);
}

duration capped_limiter::delay(std::uint32_t requeues, time_point now) {
    return std::min(inner_->delay(requeues, now), max_);
}

jitter_limiter::jitter_limiter(rate_limiter_ptr inner, double factor, std::uint64_t seed)
    : inner_(std::move(inner)), factor_(factor), random_(seed) {
    check(inner_);
}

duration jitter_limiter::delay(std::uint32_t requeues, time_point now) {
    const duration d = inner_->delay(requeues, now);
    if (d.count() <= 0 || !(factor_ > 0)) return d;
    std::uniform_real_distribution<double> draw(1.0, 1.0 + factor_);
    return bounded(static_cast<double>(d.count()) * draw(random_), duration::max());
}

rate_limiter_ptr default_controller_rate_limiter() {
    using namespace std::chrono_literals;
    std::vector<rate_limiter_ptr> both;
    both.push_back(std::make_shared<exponential_limiter>(5ms, 1000s));
    both.push_back(std::make_shared<token_bucket_limiter>(10.0, 100, 1000s));
    return std::make_shared<max_of_limiter>(std::move(both));
}

rate_limiter_ptr default_item_rate_limiter() {
    using namespace std::chrono_literals;
    return std::make_shared<exponential_limiter>(1ms, 1000s);
}

} // namespace informer
