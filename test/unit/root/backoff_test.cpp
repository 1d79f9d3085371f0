#include <informer/backoff.hpp>

#include <catch2/catch_test_macros.hpp>

#include <limits>
#include <set>

using namespace informer;
using namespace std::chrono_literals;

TEST_CASE("back-off doubles from 800 ms to 30 s", "[backoff]") {
    backoff b(backoff_options().jitter(0));
    for (const auto expected : {800ms, 1600ms, 3200ms, 6400ms, 12800ms, 25600ms, 30000ms, 30000ms})
        CHECK(b.next() == expected);
    CHECK(b.attempts() == 8);
}

TEST_CASE("jitter draws each delay from [d, 2d)", "[backoff]") {
    std::set<std::chrono::nanoseconds> seen;
    for (std::uint64_t seed = 0; seed < 200; ++seed) {
        backoff b(backoff_options(), seed);
        auto d = std::chrono::nanoseconds(800ms);
        for (int i = 0; i < 8; ++i) {
            const auto delay = b.next();
            CHECK(delay >= d);
            CHECK(delay < 2 * d);
            if (i == 0) seen.insert(delay);
            d = std::min<std::chrono::nanoseconds>(2 * d, 30s);
        }
    }
    CHECK(seen.size() > 190);
}

TEST_CASE("equal seeds give equal delays", "[backoff]") {
    backoff a(backoff_options(), 7), b(backoff_options(), 7);
    for (int i = 0; i < 10; ++i) CHECK(a.next() == b.next());
}

TEST_CASE("X1 failing for long never resets", "[backoff]") {
    backoff b(backoff_options().jitter(0));
    for (int i = 0; i < 1000; ++i) b.next(); // eight hours of failing
    CHECK(b.next() == 30s);
    CHECK(b.attempts() == 1001);
}

TEST_CASE("2 minutes of healthy time, summed, reset", "[backoff]") {
    backoff b(backoff_options().jitter(0));
    b.next();
    b.next();
    b.healthy_for(60s);
    b.next(); // a failure in between takes nothing away
    b.healthy_for(59s);
    CHECK(b.next() == 6400ms);
    b.healthy_for(999ms);
    CHECK(b.attempts() == 4);
    b.healthy_for(1ms);
    CHECK(b.attempts() == 0);
    CHECK(b.next() == 800ms);
    b.healthy_for(119s); // the sum began anew
    CHECK(b.next() == 1600ms);
}

TEST_CASE("healthy time takes any argument", "[backoff]") {
    backoff b(backoff_options().jitter(0));
    b.next();
    b.healthy_for(-5min);
    b.healthy_for(0ns);
    CHECK(b.attempts() == 1);
    b.healthy_for(1ns);
    b.healthy_for(std::chrono::nanoseconds::max());
    CHECK(b.attempts() == 0);
}

TEST_CASE("there is no repetition without a pause, whatever the options say", "[backoff]") {
    backoff nothing(backoff_options().initial(0ns).jitter(0));
    CHECK(nothing.next() == 1ms);
    CHECK(nothing.next() == 2ms);
    nothing.reset();
    CHECK(nothing.next() == 1ms);
    backoff below(backoff_options().initial(-5s).cap(-1s).jitter(0));
    CHECK(below.next() == 1ms);
    CHECK(below.next() == 1ms);
}

TEST_CASE("odd options do no harm", "[backoff]") {
    backoff over(backoff_options().initial(60s).cap(30s).jitter(0));
    CHECK(over.next() == 30s);
    backoff shrinking(backoff_options().factor(0.1).jitter(0));
    shrinking.next();
    CHECK(shrinking.next() == 800ms);
    backoff no_number(backoff_options().factor(std::numeric_limits<double>::quiet_NaN()).jitter(0));
    no_number.next();
    CHECK(no_number.next() == 800ms);
    backoff unsteady(backoff_options().jitter(std::numeric_limits<double>::quiet_NaN()));
    CHECK(unsteady.next() == 800ms);
    backoff steep(backoff_options().factor(1e300).jitter(0));
    steep.next();
    CHECK(steep.next() == 30s);
    constexpr auto ever = std::chrono::nanoseconds::max();
    backoff endless(backoff_options().initial(ever).cap(ever), 7);
    for (int i = 0; i < 10; ++i) CHECK(endless.next() == ever);
}
