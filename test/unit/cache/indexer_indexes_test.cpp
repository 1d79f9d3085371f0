// The indexes of a cache: what they find at any time, and what goes wrong with their functions.
#include "indexer_scene.hpp"

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <map>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

using namespace indexer_test;

TEST_CASE("index: values that grow, shrink and move are exact after each write") {
    indexer cache;
    cache.add_index("words", words);
    const auto under = [&](const char* v) {
        cache.publish();
        const cache_snapshot s = cache.snapshot();
        const auto found = names(s.by_index("words", v));
        std::vector<std::string> keys;
        for (const object_key& k : s.index_keys("words", v)) keys.push_back(k.str());
        REQUIRE(keys == found);
        for (const object& o : s.by_index("words", v)) REQUIRE(o.same_as(s.get(o.key())));
        return found;
    };
    const auto put = [&](const char* name, const char* version, const char* label) {
        cache.put(make_pod("ns", name, version, "u", "n", label));
    };
    put("a", "1", "x.y");
    put("b", "1", "y.y");
    REQUIRE(under("x") == std::vector<std::string>{"ns/a"});
    REQUIRE(under("y") == std::vector<std::string>{"ns/a", "ns/b"});
    put("a", "2", "y.z");
    REQUIRE(under("x").empty());
    REQUIRE(under("y") == std::vector<std::string>{"ns/a", "ns/b"});
    REQUIRE(under("z") == std::vector<std::string>{"ns/a"});
    put("a", "3", "");
    REQUIRE(under("y") == std::vector<std::string>{"ns/b"});
    REQUIRE(under("z").empty());
    cache.erase(object_key("ns", "b"));
    REQUIRE(under("y").empty());
    REQUIRE(cache.snapshot().index_values("words").empty()); // empty sets are gone (kubernetes#84959)
}

TEST_CASE("index: unknown and duplicate names are errors") {
    indexer cache;
    cache.add_index("node", index_by_pointer("/spec/nodeName"));
    REQUIRE(thrown_by([&] { cache.add_index("node", index_by_label("app")); }) == errc::duplicate_index);
    REQUIRE(thrown_by([&] { cache.begin_index("node", index_by_label("app")); }) == errc::duplicate_index);
    const cache_snapshot s = cache.snapshot();
    REQUIRE(s.by_index("node", "x").empty());
    REQUIRE(thrown_by([&] { s.by_index("nod", "x"); }) == errc::unknown_index);
    REQUIRE(thrown_by([&] { s.index_keys("nod", "x"); }) == errc::unknown_index);
    REQUIRE(thrown_by([&] { s.index_values("nod"); }) == errc::unknown_index);
    REQUIRE(thrown_by([&] { cache.add_index("empty", index_function()); }) == errc::bad_configuration);
}

TEST_CASE("index: by pointer and by label; a value that is not a string is not indexed") {
    indexer cache;
    cache.add_index("node", index_by_pointer("/spec/nodeName"));
    cache.add_index("spec", index_by_pointer("/spec"));
    cache.add_index("app", index_by_label("app"));
    cache.put(make_pod("ns", "a", "1", "u", "n1", "web"));
    cache.put(make_pod("ns", "b", "1", "u", "n1"));
    cache.publish();
    const cache_snapshot s = cache.snapshot();
    REQUIRE(names(s.by_index("node", "n1")) == std::vector<std::string>{"ns/a", "ns/b"});
    REQUIRE(names(s.by_index("app", "web")) == std::vector<std::string>{"ns/a"});
    REQUIRE(s.index_values("spec").empty());
}

TEST_CASE("index: a text that is not the JSON pointer of a member is refused, rather than indexing nothing") {
    for (const char* bad : {"spec.nodeName", "/a~2", "/spec/~", "spec/nodeName", ""}) {
        INFO(bad);
        CHECK(thrown_by([&] { index_by_pointer(bad); }) == errc::bad_configuration);
    }
    CHECK(thrown_by([] { index_by_pointer("/metadata/labels/a~1b~0c"); }) == errc());
}

TEST_CASE("index: added to a full cache, and visible at once if everything is published") {
    indexer cache;
    for (int i = 0; i < 100; ++i)
        cache.put(make_pod("ns", "p" + std::to_string(i), "1", "u", "n" + std::to_string(i % 4)));
    SECTION("published") {
        cache.publish();
        cache.add_index("node", index_by_pointer("/spec/nodeName"));
        REQUIRE(cache.snapshot().by_index("node", "n3").size() == 25);
    }
    SECTION("not published before") {
        cache.add_index("node", index_by_pointer("/spec/nodeName"));
        REQUIRE(cache.snapshot().by_index("node", "n3").empty());
        cache.publish();
        REQUIRE(cache.snapshot().by_index("node", "n3").size() == 25);
    }
    SECTION("in the middle of later writes: never a mixture") {
        cache.publish();
        cache.put(make_pod("ns", "more", "1", "u", "n3"));
        cache.add_index("node", index_by_pointer("/spec/nodeName"));
        REQUIRE(cache.snapshot().size() == 100);
        cache.publish();
        REQUIRE(cache.snapshot().by_index("node", "n3").size() == 26);
    }
}

TEST_CASE("index: added in slices while the cache changes") {
    indexer cache;
    std::mt19937 random(7);
    const auto put = [&](int i) {
        cache.put(
            make_pod("ns", "p" + std::to_string(i), std::to_string(random()), "u", "n" + std::to_string(random() % 5)));
    };
    for (int i = 0; i < 2000; ++i) put(i);
    cache.publish();
    cache.begin_index("node", index_by_pointer("/spec/nodeName"));
    cache.begin_index("app", index_by_label("app"));
    int steps = 0;
    for (;; ++steps) {
        if (cache.add_index_step(100)) break;
        REQUIRE(cache.snapshot().size() > 0);
        for (int n = 0; n < 20; ++n) put(static_cast<int>(random() % 2500));
        for (int n = 0; n < 10; ++n) cache.erase(object_key("ns", "p" + std::to_string(random() % 2500)));
        cache.publish();
        REQUIRE(steps < 1000);
    }
    REQUIRE(steps > 10);
    cache.publish();
    const cache_snapshot s = cache.snapshot();
    std::map<std::string, std::vector<std::string>> expected;
    for (const object& o : s.list()) expected[o["spec"]["nodeName"].as_string().str()].push_back(o.key().str());
    for (auto& [node, pods] : expected) {
        std::sort(pods.begin(), pods.end());
        REQUIRE(names(s.by_index("node", node)) == pods);
        for (const object& o : s.by_index("node", node)) REQUIRE(o.same_as(s.get(o.key())));
    }
    REQUIRE(s.index_values("node").size() == expected.size());
    REQUIRE(s.index_values("app").empty());
}

TEST_CASE("index: a function that throws is contained, named and counted") {
    indexer cache;
    bool angry = true;
    cache.add_index("angry", [&](const object& o) -> std::vector<std::string> {
        if (angry && o.meta().name() == "bad") throw std::runtime_error("no such thing");
        if (angry && o.meta().name() == "worse") throw 42;
        return {"v"};
    });
    cache.put(make_pod("ns", "good"));
    cache.put(make_pod("ns", "bad"));
    cache.put(make_pod("ns", "worse"));
    cache.publish();
    REQUIRE(cache.snapshot().size() == 3);
    REQUIRE(names(cache.snapshot().by_index("angry", "v")) == std::vector<std::string>{"ns/good"});
    REQUIRE(cache.index_error_count() == 2);
    const auto errors = cache.index_errors();
    REQUIRE(errors.size() == 2);
    REQUIRE(errors[0].index == "angry");
    REQUIRE(errors[0].key == object_key("ns", "bad"));
    REQUIRE(errors[0].what == "no such thing");
    REQUIRE(errors[1].key == object_key("ns", "worse"));
    angry = false;
    cache.put(make_pod("ns", "bad", "2"));
    cache.publish();
    REQUIRE(names(cache.snapshot().by_index("angry", "v")) == std::vector<std::string>{"ns/bad", "ns/good"});
    angry = true;
    for (int i = 0; i < 50; ++i) cache.put(make_pod("ns", "bad", std::to_string(100 + i)));
    REQUIRE(cache.index_error_count() == 52);
    REQUIRE(cache.index_errors().size() == 16);
    const object same = make_pod("ns", "bad", "149"); // equal, like a moved one
    REQUIRE_FALSE(same.same_as(cache.current("ns/bad")));
    cache.put(same);
    REQUIRE(cache.index_error_count() == 52);
}

TEST_CASE("index: an object leaves no entries behind, even if the function throws for its older state") {
    indexer cache;
    bool angry = false;
    cache.add_index("app", [&](const object& o) {
        if (angry && o.meta().resource_version() == resource_version("1")) throw std::runtime_error("not again");
        return words(o);
    });
    const auto at = [&](const char* value) {
        cache.publish();
        return names(cache.snapshot().by_index("app", value));
    };
    for (const char* name : {"a", "b", "c"}) cache.put(make_pod("ns", name, "1", "u", "n1", "x.y"));
    angry = true;
    cache.put(make_pod("ns", "a", "2", "u", "n1", "y.z"));
    cache.erase(object_key("ns", "b"));
    CHECK(at("x") == std::vector<std::string>{"ns/c"});
    CHECK(at("y") == std::vector<std::string>{"ns/a", "ns/c"});
    CHECK(at("z") == std::vector<std::string>{"ns/a"});
    cache.put(make_pod("ns", "c", "2", "u", "n1", ""));
    CHECK(at("x").empty());
    CHECK(cache.snapshot().index_values("app") == std::vector<std::string>{"y", "z"});
}

TEST_CASE("index: a function may not add an index to its own cache; the attempt is reported as its error") {
    indexer cache;
    cache.add_index("greedy", [&](const object& o) -> std::vector<std::string> {
        if (o.meta().name() == "bad")
            for (int i = 0; i < 10; ++i) cache.add_index("more" + std::to_string(i), words);
        return {"v"};
    });
    cache.put(make_pod("ns", "good"));
    cache.put(make_pod("ns", "bad"));
    cache.publish();
    REQUIRE(names(cache.snapshot().by_index("greedy", "v")) == std::vector<std::string>{"ns/good"});
    REQUIRE_FALSE(cache.knows_index("more0"));
    REQUIRE(cache.index_errors().size() == 1);
    REQUIRE(cache.index_errors()[0].what.find("from within an index function") != std::string::npos);
    cache.add_index("more0", words); // afterwards it can be added like any other
    REQUIRE(cache.snapshot().has_index("more0"));
}
