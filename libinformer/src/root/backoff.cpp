#include <informer/backoff.hpp>
#include <informer/detail/async.hpp>

#include <algorithm>
#include <random>

namespace informer {

backoff::backoff(backoff_options options, std::uint64_t seed) : options_(options), random_(seed) {
    options_.cap_ = std::max(options_.cap_, backoff_options::least);
    options_.initial_ = std::clamp(options_.initial_, backoff_options::least, options_.cap_);
    current_ = options_.initial_;
}

std::chrono::nanoseconds backoff::next() {
    const auto base = current_;
    // In double: a large factor must not overflow the count of nanoseconds on its way to the cap.
    const double grown = static_cast<double>(base.count()) * (options_.factor_ >= 1.0 ? options_.factor_ : 1.0);
    const double cap = static_cast<double>(options_.cap_.count());
    current_ = grown >= cap ? options_.cap_ : std::chrono::nanoseconds(static_cast<std::int64_t>(grown));
    if (attempts_ != ~0U) ++attempts_;
    if (!(options_.jitter_ > 0)) return base;
    std::uniform_real_distribution<double> stretch(0.0, options_.jitter_);
    return detail::stretched(base, stretch(random_));
}

void backoff::healthy_for(std::chrono::nanoseconds d) {
    if (d <= d.zero()) return;
    healthy_ = d >= options_.reset_after_ - healthy_ ? options_.reset_after_ : healthy_ + d;
    if (healthy_ >= options_.reset_after_) reset();
}

void backoff::reset() {
    current_ = options_.initial_;
    healthy_ = healthy_.zero();
    attempts_ = 0;
}

} // namespace informer
