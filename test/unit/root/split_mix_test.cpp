#include <informer/backoff.hpp>
#include <informer/detail/split_mix.hpp>

#include <catch2/catch_test_macros.hpp>

#include <set>

using namespace informer;
using detail::split_mix;

TEST_CASE("the generator of jitter gives the numbers of SplitMix64") {
    split_mix r(1234567);
    for (const std::uint64_t n : {6457827717110365317U, 3203168211198807973U, 9817491932198370423U,
                                  4593380528125082431U, 16408922859458223821U})
        CHECK(r() == n);
}

TEST_CASE("generators with neighbouring seeds draw different numbers") {
    std::set<std::uint64_t> seen;
    for (std::uint64_t seed = 0; seed < 100; ++seed) {
        split_mix r(seed);
        for (int i = 0; i < 10; ++i) seen.insert(r() >> 32);
    }
    CHECK(seen.size() == 1000);
}

TEST_CASE("a back-off is small, since an informer has several and a program hundreds of informers") {
    CHECK(sizeof(backoff) <= 128);
}
