#include <informer/object/object_key.hpp>

#include <catch2/catch_test_macros.hpp>

#include <cstddef>
#include <functional>
#include <set>
#include <sstream>
#include <string>
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

TEST_CASE("keys cannot be chosen so that their hashes collide", "[object_key]") {
    const auto known = [](const object_key& k) { // of standard hashes, which anybody can compute
        const std::hash<std::string> of;
        const std::size_t a = of(k.name_space);
        return a ^ (of(k.name) + std::size_t(0x9e3779b97f4a7c15U) + (a << 6) + (a >> 2));
    };
    std::set<std::size_t> low;
    int chosen = 0;
    for (int i = 0; chosen < 64; ++i) {
        const object_key key("default", "pod-" + std::to_string(i));
        if ((known(key) & 4095) != 0) continue;
        ++chosen;
        low.insert(std::hash<object_key>()(key) & 4095);
    }
    CHECK(low.size() > 32);
}
