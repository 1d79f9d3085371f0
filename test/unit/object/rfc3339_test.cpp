#include <informer/object/rfc3339.hpp>

#include <catch2/catch_test_macros.hpp>

#include <chrono>

using informer::parse_rfc3339;
using informer::rfc3339;
using namespace std::chrono_literals;

namespace {
constexpr std::chrono::system_clock::time_point leap_day =
    std::chrono::sys_days(std::chrono::year(2024) / std::chrono::February / 29);
} // namespace

TEST_CASE("times are written as the API writes them", "[rfc3339]") {
    CHECK(rfc3339(leap_day) == "2024-02-29T00:00:00Z");
    CHECK(rfc3339(leap_day + 86399s) == "2024-02-29T23:59:59Z");
    CHECK(rfc3339(leap_day + 24h) == "2024-03-01T00:00:00Z");
    CHECK(rfc3339(leap_day, 6) == "2024-02-29T00:00:00.000000Z");
    CHECK(rfc3339(leap_day + 1234567ns, 3) == "2024-02-29T00:00:00.001Z");
}

TEST_CASE("digits of a second are cut, not rounded, also before 1970", "[rfc3339]") {
    CHECK(rfc3339(leap_day + 999999999ns) == "2024-02-29T00:00:00Z");
    CHECK(rfc3339(leap_day + 999999999ns, 6) == "2024-02-29T00:00:00.999999Z");
    CHECK(rfc3339(leap_day + 999999999ns, 12) == "2024-02-29T00:00:00.999999999Z");
    CHECK(rfc3339(std::chrono::system_clock::time_point(-1ms)) == "1969-12-31T23:59:59Z");
    CHECK(rfc3339(std::chrono::system_clock::time_point(-1ms), 3) == "1969-12-31T23:59:59.999Z");
}

TEST_CASE("a written time is read as the same time", "[rfc3339]") {
    for (const auto t : {leap_day, leap_day + 123456789ns, std::chrono::system_clock::time_point(-1ns)})
        CHECK(parse_rfc3339(rfc3339(t, 9)) == t);
}

TEST_CASE("the first and the last time of the clock are written as they are", "[rfc3339]") {
    using time_point = std::chrono::system_clock::time_point;
    CHECK(rfc3339(time_point::max(), 9) == "2262-04-11T23:47:16.854775807Z");
    CHECK(rfc3339(time_point::min(), 9) == "1677-09-21T00:12:43.145224192Z");
}

TEST_CASE("a text that is no time is read as none", "[rfc3339]") {
    for (const char* s :
         {"", "2024", "2024-02-30T00:00:00Z", "2023-02-29T00:00:00Z", "2024-13-01T00:00:00Z", "2024-02-29T24:00:00Z",
          "2024-02-29T00:00:00", "2024-02-29T00:00:00.Z", "2024-02-29T00:00:00Zz", "2024-02-29T00:00:00+0100",
          "9999-01-01T00:00:00Z", "0001-01-01T00:00:00Z"}) {
        CAPTURE(s);
        CHECK_FALSE(parse_rfc3339(s));
    }
    CHECK(parse_rfc3339("2024-02-29T01:30:00+01:30") == leap_day);
}
