#include <informer/object/object_key.hpp>

#include <catch2/catch_test_macros.hpp>

#include <sstream>
#include <unordered_set>

using informer::object_key;

TEST_CASE("keys are namespace/name or name", "[object_key]") {
    CHECK(object_key("ns", "n").str() == "ns/n");
    CHECK(object_key("", "n").str() == "n");
    CHECK(object_key::parse("ns/n") == object_key("ns", "n"));
    CHECK(object_key::parse("n") == object_key("", "n"));
    CHECK(object_key::parse("a/b/c") == object_key("a", "b/c"));
    CHECK(object_key::parse("").empty());
    CHECK(object_key::parse("ns/").empty());
    std::ostringstream o;
    o << object_key("ns", "n");
    CHECK(o.str() == "ns/n");
}

TEST_CASE("keys order by namespace, then name", "[object_key]") {
    CHECK(object_key("a", "z") < object_key("b", "a"));
    CHECK(object_key("a", "a") < object_key("a", "b"));
    CHECK(object_key("", "z") < object_key("a", "a"));
}

TEST_CASE("key hashes tell the parts apart", "[object_key]") {
    std::unordered_set<std::size_t> hashes;
    const std::hash<object_key> hash;
    for (int i = 0; i < 100; ++i)
        for (int j = 0; j < 100; ++j) hashes.insert(hash(object_key("n" + std::to_string(i), "n" + std::to_string(j))));
    CHECK(hashes.size() == 10000);
    CHECK(hash(object_key("a", "b")) == hash(object_key("a", "b")));
}
