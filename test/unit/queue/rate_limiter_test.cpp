#include <informer/queue/rate_limiter.hpp>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_predicate.hpp>

#include <chrono>
#include <limits>
#include <memory>
#include <vector>

using namespace informer;
using namespace std::chrono_literals;

namespace {

using time_point = rate_limiter::time_point;
constexpr time_point start = time_point(1000h);
constexpr std::uint32_t most = std::numeric_limits<std::uint32_t>::max();

/// Its delay shows which attempt it was asked about.
class counting_limiter final : public rate_limiter {
public:
    duration delay(std::uint32_t requeues, time_point) override { return std::chrono::seconds(requeues); }
};

} // namespace

TEST_CASE("Q8 exponential: base, doubled each time, up to the maximum") {
    exponential_limiter l(5ms, 1000s);
    CHECK(l.delay(0, start) == 5ms);
    CHECK(l.delay(1, start) == 10ms);
    CHECK(l.delay(2, start) == 20ms);
    CHECK(l.delay(17, start) == 655360ms);
    CHECK(l.delay(18, start) == 1000s);
}

TEST_CASE("Q8 exponential never overflows, whatever the base and the count") {
    exponential_limiter l(5ms, 1000s);
    for (std::uint32_t n = 18; n < 3000; ++n) CHECK(l.delay(n, start) == 1000s);
    CHECK(l.delay(most, start) == 1000s);
    exponential_limiter wide(1000h, rate_limiter::duration::max());
    CHECK(wide.delay(100, start) == rate_limiter::duration::max());
    exponential_limiter none(0ms, 1000s);
    CHECK(none.delay(most, start) == 0ms);
}

TEST_CASE("Q8 token bucket: the burst at once, then one at a time at the rate") {
    token_bucket_limiter l(10.0, 100);
    for (int i = 0; i < 100; ++i) CHECK(l.delay(0, start) == 0ns);
    CHECK(l.delay(0, start) == 100ms);
    CHECK(l.delay(7, start) == 200ms); // whatever the key's own count
    // Both reservations are used up when their time has come.
    CHECK(l.delay(0, start + 200ms) == 100ms);
}

TEST_CASE("Q8 token bucket: a delay is exact to the nanosecond, whatever was rounded on the way") {
    for (int passed = 1; passed < 100; ++passed) {
        token_bucket_limiter l(10.0, 1);
        CHECK(l.delay(0, start) == 0ns);
        CHECK(l.delay(0, start + std::chrono::milliseconds(passed)) == std::chrono::milliseconds(100 - passed));
    }
}

TEST_CASE("Q8 token bucket fills up to its burst and no further") {
    token_bucket_limiter l(10.0, 3);
    for (int i = 0; i < 3; ++i) CHECK(l.delay(0, start) == 0ns);
    for (int i = 0; i < 3; ++i) CHECK(l.delay(0, start + 10h) == 0ns);
    CHECK(l.delay(0, start + 10h) == 100ms);
}

TEST_CASE("Q8 token bucket: no delay exceeds the longest, and after that time the bucket has recovered") {
    token_bucket_limiter l(10.0, 100, 1000s);
    auto longest = rate_limiter::duration(0);
    for (int i = 0; i < 50'000; ++i) longest = std::max(longest, l.delay(0, start));
    CHECK(longest == 1000s);
    CHECK(l.delay(0, start + 990s) == 10100ms);
    CHECK(l.delay(0, start + 1001s) == 0ns);
    for (const double none : {0.0, -1.0}) CHECK(token_bucket_limiter(none, 5, 10s).delay(0, start) == 10s);
}

TEST_CASE("Q8 token bucket: a turn that is given back is used by the next caller, within the burst") {
    token_bucket_limiter l(10.0, 2);
    for (int i = 0; i < 2; ++i) CHECK(l.delay(0, start) == 0ns);
    CHECK(l.delay(0, start) == 100ms);
    l.give_back();
    CHECK(l.delay(0, start) == 100ms);
    for (int i = 0; i < 10; ++i) l.give_back();
    for (int i = 0; i < 2; ++i) CHECK(l.delay(0, start) == 0ns);
    CHECK(l.delay(0, start) == 100ms);
}

TEST_CASE("Q8 token bucket: a caller that got the longest delay for lack of a turn has none to give back") {
    token_bucket_limiter l(10.0, 100, 1000s);
    for (int i = 0; i < 20'100; ++i) l.delay(0, start); // 100 at once, 10,000 in turn, 10,000 more without a turn
    for (int i = 0; i < 10'000; ++i) l.give_back();
    CHECK(l.delay(0, start) == 1000s);
    l.give_back();
    l.give_back(); // for a caller that had a turn
    CHECK(l.delay(0, start) == 1000s);
    CHECK(l.delay(0, start + 1s) == 999100ms);
    l.give_back(); // likewise
    CHECK(l.delay(0, start + 1s) == 999100ms);
}

TEST_CASE("Q8 token bucket: once all delays have passed, turns can be given back again") {
    token_bucket_limiter l(10.0, 1, 10s);
    for (int i = 0; i < 200; ++i) l.delay(0, start);
    CHECK(l.delay(0, start + 20s) == 0ns);
    CHECK(l.delay(0, start + 20s) == 100ms);
    l.give_back();
    CHECK(l.delay(0, start + 20s) == 100ms);
}

TEST_CASE("a limiter around other limiters passes give_back() on") {
    const auto bucket = std::make_shared<token_bucket_limiter>(10.0, 1);
    std::vector<rate_limiter_ptr> one{std::make_shared<jitter_limiter>(bucket, 0.0, 1)};
    capped_limiter l(std::make_shared<max_of_limiter>(one), 1h);
    CHECK(l.delay(0, start) == 0ns);
    CHECK(l.delay(0, start) == 100ms);
    l.give_back();
    CHECK(l.delay(0, start) == 100ms);
}

TEST_CASE("Q8 token bucket survives a clock that goes back, and a rate of zero") {
    token_bucket_limiter l(10.0, 1);
    CHECK(l.delay(0, start) == 0ns);
    CHECK(l.delay(0, start - 1h) == 100ms);
    CHECK(l.delay(0, start) == 200ms);
    token_bucket_limiter none(0.0, 5);
    CHECK(none.delay(0, start) == rate_limiter::duration::max());
}

TEST_CASE("Q8 fast and slow: fast for the first attempts") {
    fast_slow_limiter l(5ms, 10s, 3);
    CHECK(l.delay(0, start) == 5ms);
    CHECK(l.delay(2, start) == 5ms);
    CHECK(l.delay(3, start) == 10s);
    CHECK(l.delay(most, start) == 10s);
}

TEST_CASE("Q8 max of: the longest, and each limiter is asked each time") {
    const auto bucket = std::make_shared<token_bucket_limiter>(1.0, 1);
    std::vector<rate_limiter_ptr> both;
    both.push_back(std::make_shared<exponential_limiter>(5ms, 1000s));
    both.push_back(bucket);
    max_of_limiter l(both);
    CHECK(l.delay(0, start) == 5ms);
    CHECK(l.delay(0, start) == 1s);
    CHECK(l.delay(17, start) == 655360ms);
    CHECK(bucket->delay(0, start) == 3s);
}

TEST_CASE("Q8 capped: at most the maximum") {
    capped_limiter l(std::make_shared<counting_limiter>(), 5s);
    CHECK(l.delay(3, start) == 3s);
    CHECK(l.delay(50, start) == 5s);
}

TEST_CASE("Q8 jitter lengthens by up to its factor, and not always by the same") {
    jitter_limiter l(std::make_shared<counting_limiter>(), 0.5, 42);
    CHECK(l.delay(0, start) == 0ns);
    auto least = rate_limiter::duration::max(), longest = rate_limiter::duration(0);
    for (int i = 0; i < 1000; ++i) {
        const auto d = l.delay(10, start);
        CHECK((d >= 10s && d < 15s));
        least = std::min(least, d);
        longest = std::max(longest, d);
    }
    CHECK(least < 10100ms);
    CHECK(longest > 14900ms);
}

TEST_CASE("Q8 the default of controllers: 5 ms to 1000 s per key, and 10 per second with a burst of 100 for all") {
    const auto l = default_controller_rate_limiter();
    for (std::uint32_t n = 0; n < 100; ++n) CHECK(l->delay(n % 3, start) == 5ms * (1 << (n % 3)));
    CHECK(l->delay(0, start) == 100ms);
    CHECK(l->delay(30, start) == 1000s);
    CHECK(default_item_rate_limiter()->delay(0, start) == 1ms);
    CHECK(default_item_rate_limiter()->delay(30, start) == 1000s);
}

TEST_CASE("a limiter around no limiter is refused when it is constructed") {
    const auto refused = [](const error& e) { return e.code() == errc::bad_configuration; };
    using Catch::Matchers::Predicate;
    CHECK_THROWS_MATCHES(capped_limiter(nullptr, 1s), error, Predicate<error>(refused));
    CHECK_THROWS_MATCHES(max_of_limiter({}), error, Predicate<error>(refused));
    CHECK_THROWS_MATCHES(jitter_limiter(nullptr, 0.5, 1), error, Predicate<error>(refused));
    std::vector<rate_limiter_ptr> some{std::make_shared<counting_limiter>(), nullptr};
    CHECK_THROWS_MATCHES(max_of_limiter(some), error, Predicate<error>(refused));
}
