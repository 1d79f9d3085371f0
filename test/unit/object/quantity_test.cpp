// Expected values are those of k8s.io/apimachinery v0.37, with which 160,000 random texts and sums were compared, too;
// it differs only where a comment here says so.
#include <informer/object/document_pool.hpp>
#include <informer/object/quantity.hpp>

#include <boost/json/serialize.hpp>
#include <catch2/catch_test_macros.hpp>

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <sstream>
#include <string>

using informer::errc;
using informer::failure;
using informer::quantity;

namespace {

constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();

std::string written(const std::string& text) {
    return quantity::parse(text).str();
}

std::string why_not(const std::string& text) {
    failure f;
    const quantity q = quantity::parse(text, f);
    CHECK(f == errc::syntax_error);
    CHECK(q == quantity());
    return f.message();
}

struct container {
    std::map<std::string, quantity> limits;
    std::optional<quantity> size;
};
BOOST_DESCRIBE_STRUCT(container, (), (limits, size))

} // namespace

TEST_CASE("quantity: a text is written as a server writes it") {
    CHECK(written("0") == "0");
    CHECK(written("0Gi") == "0");
    CHECK(written("-0.0m") == "0");
    CHECK(written("+5") == "5");
    CHECK(written("1500m") == "1500m");
    CHECK(written("1.5") == "1500m");
    CHECK(written(".5") == "500m");
    CHECK(written("1.") == "1");
    CHECK(written("00.500k") == "500");
    CHECK(written("1000") == "1k");
    CHECK(written("1000k") == "1M");
    CHECK(written("1025k") == "1025k");
    CHECK(written("100000u") == "100m");
    CHECK(written("1E") == "1E");
    CHECK(written("-5.25G") == "-5250M");
    CHECK(written("1024Ki") == "1Mi");
    CHECK(written("1.5Gi") == "1536Mi");
    CHECK(written("1024Gi") == "1Ti");
    CHECK(written("7Ei") == "7Ei");
    CHECK(written("-2048Mi") == "-2Gi");
    CHECK(written("1025Ki") == "1025Ki");
    CHECK(written("0.5Ki") == "512");
    CHECK(written("-0.5Ki") == "-512");
    CHECK(written("1Ki") == "1Ki");
    CHECK(written("1.2Ki") == "1228800m");
    CHECK(written("1e3") == "1e3");
    CHECK(written("12E3") == "12e3");
    CHECK(written("12e+1") == "120");
    CHECK(written("1.5e-2") == "15e-3");
}

TEST_CASE("quantity: what is finer than a billionth is rounded away from zero") {
    CHECK(written("0.1n") == "1n");
    CHECK(written("-0.1n") == "-1n");
    CHECK(written("1.0000000001") == "1000000001n");
    CHECK(written("1e-10") == "1e-9");
    CHECK(written("1e-99999999999999999999") == "1e-9");
    const std::string zeros(1000, '0');
    CHECK(written("1." + zeros) == "1");
    CHECK(written("1." + zeros + "1") == "1000000001n");
    CHECK(written("0." + zeros + "1Ei") == "1n");
}

TEST_CASE("quantity: every digit counts") {
    CHECK(written("9223372036854775806.999999999") == "9223372036854775806999999999n");
    CHECK(written("1.000000001Ei") == "1152921505759768480606846976n"); // 2^60 and a billionth of it
    CHECK(written("123456789.123456789G") == "123456789123456789");
    const std::string zeros(1000, '0');
    CHECK(written(zeros + "7") == "7");
}

TEST_CASE("quantity: what is too large is the largest") { // Go keeps decimals above it, whose value() is then wrong
    const quantity largest(most);
    for (const std::string text : {"9223372036854775807", "9223372036854775808", "8Ei", "10E", "1e30",
                                   "1e999999999999999999999", "99999999999999999999999999999999999999999999Ki"}) {
        INFO(text);
        CHECK(quantity::parse(text) == largest);
        CHECK(quantity::parse("-" + text) == -largest);
    }
    CHECK(quantity::parse(std::string(1000, '9')) == largest);
    CHECK(largest + largest == largest);
    CHECK(-largest - largest == -largest);
    CHECK(quantity(std::numeric_limits<std::int64_t>::min()) == -largest);
    CHECK(largest.milli_value() == most);
    CHECK((-largest).milli_value() == std::numeric_limits<std::int64_t>::min());
}

TEST_CASE("quantity: a text that is none is an error that says why") {
    CHECK(why_not("") == "quantity \"\": no digits");
    CHECK(why_not("k") == "quantity \"k\": no digits"); // Go reads it as 0
    CHECK(why_not(".") == "quantity \".\": no digits");
    CHECK(why_not("1..2") == "quantity \"1..2\": two points");
    CHECK(why_not("5 k") == "quantity \"5 k\": there is no suffix \" k\"");
    CHECK(why_not("1K") == "quantity \"1K\": there is no suffix \"K\"");
    CHECK(why_not("1mi") == "quantity \"1mi\": there is no suffix \"mi\"");
    CHECK(why_not("--1") == "quantity \"--1\": no digits");
    for (const std::string no_exponent : {"1e", "1e1.5", "1e+-1", "1e++1", "1e-", "1ee3", "1e2k"})
        CHECK(why_not(no_exponent) ==
              "quantity \"" + no_exponent + "\": \"" + no_exponent.substr(1) + "\" is no exponent");
    CHECK(why_not(std::string(100'000, 'x')).size() < 200);
    CHECK_THROWS_AS(quantity::parse("1K"), informer::error);
}

TEST_CASE("quantity: whole numbers and thousandths are rounded away from zero") {
    CHECK(quantity::parse("1500m").value() == 2);
    CHECK(quantity::parse("1n").value() == 1);
    CHECK(quantity::parse("2").value() == 2);
    CHECK(quantity::parse("1.0001").milli_value() == 1001);
    CHECK(quantity::parse("1.5Gi").value() == 1610612736);
    CHECK(quantity::parse("-1500m").value() == -2);
    CHECK(quantity::parse("-1n").value() == -1); // 1 in Go
    CHECK(quantity::parse("-1n").milli_value() == -1);
    CHECK(quantity::parse("250m").approximate() == 0.25);
    CHECK(quantity::milli(1500) == quantity::parse("1.5"));
    CHECK(quantity::milli(-1500, quantity::suffixes::exponent).str() == "-1500e-3");
}

TEST_CASE("quantity: amounts are compared, whatever they are written with") {
    CHECK(quantity::parse("1Ki") == quantity(1024));
    CHECK(quantity::parse("1Gi") > quantity::parse("1G"));
    CHECK(quantity::parse("-1m") < quantity());
    CHECK(quantity::parse("1001m") > quantity::parse("1"));
    CHECK(quantity::parse("-1001m") < quantity::parse("-1"));
}

TEST_CASE("quantity: sums and differences are exact, and written as the first of them") {
    CHECK((quantity::parse("1Gi") + quantity::parse("100M")).str() == "1173741824");
    CHECK((quantity::parse("1Gi") + quantity::parse("1Gi")).str() == "2Gi");
    CHECK((quantity::parse("1") - quantity::parse("1500m")).str() == "-500m");
    CHECK((quantity::parse("100m") + quantity::parse("0.9")).str() == "1");
    CHECK((quantity::parse("1Mi") - quantity::parse("1n")).str() == "1048575999999999n");
    quantity sum;
    sum += quantity::parse("512Mi");
    sum += quantity::parse("512Mi");
    CHECK(sum.str() == "1Gi");
    CHECK(sum.written_with() == quantity::suffixes::binary);
    std::ostringstream to;
    to << sum;
    CHECK(to.str() == "1Gi");
}

TEST_CASE("quantity: members of structs are read from strings and numbers, and written as strings") {
    const auto c = informer::as<container>(informer::parse_object(R"({"limits":{"cpu":0.5,"memory":"1024Mi","n":2}})"));
    CHECK(c.limits.at("cpu") == quantity::parse("500m"));
    CHECK(boost::json::serialize(informer::to_value(c)) == R"({"limits":{"cpu":"500m","memory":"1Gi","n":"2"}})");
    const auto wrong = [](const char* text) {
        failure f;
        informer::as<container>(informer::parse_object(text), f);
        CHECK(f == errc::wrong_type);
        return f.message();
    };
    CHECK(wrong(R"({"limits":{"cpu":"1K"}})") == "/limits/cpu: quantity \"1K\": there is no suffix \"K\"");
    CHECK(wrong(R"({"size":true})").find("/size: expected a quantity, found ") == 0);
}
