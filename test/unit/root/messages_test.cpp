// Numbers and times in messages.
#include "root/in_seconds.hpp"

#include <informer/detail/counted.hpp>

#include <catch2/catch_test_macros.hpp>

using namespace informer::detail;
using namespace std::chrono_literals;

TEST_CASE("one of a thing is singular, any other number is plural") {
    CHECK(counted(0, "key") == "0 keys");
    CHECK(counted(1, "delayed key") == "1 delayed key");
    CHECK(counted(2, "key") == "2 keys");
}

TEST_CASE("a time that nobody chose is rounded, one that somebody chose is told exactly") {
    CHECK(roughly(0ms) == "0.0 s");
    CHECK(roughly(1349ms) == "1.3 s");
    CHECK(roughly(1350ms) == "1.4 s");
    CHECK(roughly(26'600ms) == "27 s");
    CHECK(roughly(119s) == "119 s");
    CHECK(roughly(290s) == "5 min");
    CHECK(in_seconds(1349ms) == "1349 ms");
    CHECK(in_seconds(5000ms) == "5 s");
}
