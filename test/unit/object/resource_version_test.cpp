#include <informer/object/resource_version.hpp>

#include <catch2/catch_test_macros.hpp>

#include <sstream>

using informer::resource_version;

namespace {
std::partial_ordering compare(const char* a, const char* b) {
    return resource_version(a) <=> resource_version(b);
}
} // namespace

TEST_CASE("resource versions order as decimal numbers of any length", "[resource_version]") {
    CHECK(compare("9", "10") < 0);
    CHECK(compare("10", "9") > 0);
    CHECK(compare("123", "124") < 0);
    CHECK(compare("18446744073709551615", "18446744073709551616") < 0);
    CHECK(compare("99999999999999999999999999999999999998", "99999999999999999999999999999999999999") < 0);
    CHECK(compare("1", "99999999999999999999999999999999999999") < 0);
    CHECK(compare("0", "1") < 0);
}

TEST_CASE("leading zeros do not count", "[resource_version]") {
    CHECK(compare("007", "7") == 0);
    CHECK(compare("000", "0") == 0);
    CHECK(compare("0010", "9") > 0);
    CHECK(resource_version("007") == resource_version("7"));
}

TEST_CASE("what is no decimal number is unordered with everything but its own text", "[resource_version]") {
    for (const char* odd : {"", "abc", "-1", "+1", "1.0", " 1", "1 ", "0x10", "\xff", "1a"}) {
        CAPTURE(odd);
        CHECK(compare(odd, "5") == std::partial_ordering::unordered);
        CHECK(compare("5", odd) == std::partial_ordering::unordered);
        CHECK(compare(odd, "other") == std::partial_ordering::unordered);
        CHECK(compare(odd, odd) == std::partial_ordering::equivalent);
        CHECK_FALSE(resource_version(odd).comparable());
        CHECK(resource_version(odd) != resource_version("5"));
        CHECK_FALSE(resource_version(odd) < resource_version("5"));
    }
    CHECK(resource_version("5").comparable());
    CHECK(resource_version().empty());
}

TEST_CASE("resource versions print as the server wrote them", "[resource_version]") {
    std::ostringstream o;
    o << resource_version("0042");
    CHECK(o.str() == "0042");
}
