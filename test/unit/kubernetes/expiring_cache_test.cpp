// What an auth filter keeps.
#include "kubernetes/expiring_cache.hpp"
#include "kubernetes/keyed_hash.hpp"

#include <catch2/catch_test_macros.hpp>

#include <chrono>
#include <string>

using namespace informer::kubernetes::detail;
using namespace std::chrono_literals;

namespace {
const informer::clock::time_point start;
}

TEST_CASE("expiring cache: a value ends at its time") {
    expiring_cache<int> c(10);
    c.put("a", 1, start + 10s);
    REQUIRE(c.find("a", start + 10s - 1ns) != nullptr);
    CHECK(*c.find("a", start) == 1);
    CHECK(c.find("a", start + 10s) == nullptr);
    CHECK(c.find("b", start) == nullptr);
    c.put("a", 2, start + 20s);
    CHECK(*c.find("a", start + 10s) == 2);
}

TEST_CASE("expiring cache: it is bounded; the value that ends first makes room, none for a value that is replaced") {
    expiring_cache<int> c(3);
    c.put("a", 1, start + 30s);
    c.put("b", 2, start + 10s);
    c.put("c", 3, start + 20s);
    c.put("a", 4, start + 40s);
    CHECK(c.size() == 3);
    CHECK(c.find("b", start) != nullptr);
    c.put("d", 5, start + 50s);
    CHECK(c.size() == 3);
    CHECK(c.find("b", start) == nullptr);
    for (const char* kept : {"a", "c", "d"}) CHECK(c.find(kept, start) != nullptr);
    for (int i = 0; i < 100; ++i) c.put(std::to_string(i), i, start + 60s);
    CHECK(c.size() == 3);
}

TEST_CASE("keyed hash: the same text has the same hash in one object, another one in the next") {
    const keyed_hash one, other;
    CHECK(one("a token").size() == 32);
    CHECK(one("a token") == one("a token"));
    CHECK(one("a token") != one("a tokem"));
    CHECK(one("a token") != other("a token"));
}
