#include "testing/object_store.hpp"

#include <catch2/catch_test_macros.hpp>

#include <random>

using namespace informer::testing::detail;

namespace {

stored state(const std::string& name, std::uint64_t version, const std::string& name_space = "ns") {
    auto o = std::make_shared<stored_object>();
    o->name = name;
    o->name_space = name_space;
    o->version = version;
    o->text = R"("metadata":{"name":")" + name + R"(","resourceVersion":")" + std::to_string(version) + R"("}})";
    o->version_at = o->text.find("Version\":\"") + 10;
    return o;
}

std::vector<std::string> names(const std::vector<stored>& of) {
    std::vector<std::string> out;
    for (const auto& o : of) out.push_back(o->name + "@" + std::to_string(o->version));
    return out;
}

} // namespace

TEST_CASE("versions grow by one with each write, over all tables", "[object_store]") {
    object_store s(100, 10);
    table a, b;
    s.put(a, state("x", s.next()));
    s.put(b, state("y", s.next()));
    s.erase(a, state("x", s.next()));
    CHECK(s.current() == 13);
    CHECK(a.history.size() == 2);
    CHECK(b.history.front().version == 12);
}

TEST_CASE("the history records creation, change and removal with the state before", "[object_store]") {
    object_store s(100, 10);
    table t;
    s.put(t, state("x", s.next()));
    s.put(t, state("x", s.next()));
    s.erase(t, state("x", s.next()));
    REQUIRE(t.history.size() == 3);
    CHECK(t.history[0].what == change::kind::added);
    CHECK_FALSE(t.history[0].before);
    CHECK(t.history[1].what == change::kind::modified);
    CHECK(t.history[1].before->version == 11);
    CHECK(t.history[2].what == change::kind::removed);
    CHECK(t.history[2].before->version == 12);
    CHECK(t.history[2].now->version == 13);
    CHECK(t.objects.empty());
}

TEST_CASE("the state at any remembered version is rebuilt exactly", "[object_store]") {
    std::mt19937 random(3);
    object_store s(1000, 10);
    table t;
    std::map<std::uint64_t, std::vector<std::string>> then;
    const auto remember = [&] {
        std::vector<std::string> all;
        for (const auto& [key, o] : t.objects) all.push_back(o->name + "@" + std::to_string(o->version));
        then[s.current()] = all;
    };
    remember();
    for (int i = 0; i < 300; ++i) {
        const auto name = std::string(1, static_cast<char>('a' + random() % 8));
        if (random() % 3 == 0 && t.find("ns/" + name)) {
            s.erase(t, state(name, s.next()));
        } else {
            s.put(t, state(name, s.next()));
        }
        remember();
    }
    for (const auto& [version, expected] : then) {
        const auto got = s.state_at(t, version, "", "");
        REQUIRE(got);
        CHECK(names(*got) == expected);
    }
}

TEST_CASE("an old state can be limited to a namespace, and to what follows a key", "[object_store]") {
    object_store s(100, 10);
    table t;
    for (const char* ns : {"a", "b", "bb"}) {
        for (const char* name : {"x", "y", "z"}) s.put(t, state(name, s.next(), ns));
    }
    const auto then = s.current();
    s.erase(t, state("y", s.next(), "b"));
    s.put(t, state("w", s.next(), "b"));
    const auto got = s.state_at(t, then, "b/", "b/x");
    REQUIRE(got);
    CHECK(names(*got) == std::vector<std::string>{"y@15", "z@16"});
    CHECK(names(*s.state_at(t, s.current(), "b/", "")) == std::vector<std::string>{"w@21", "x@14", "z@16"});
}

TEST_CASE("a full history forgets its oldest changes, and tells since when it is complete", "[object_store]") {
    object_store s(3, 10);
    table t;
    for (int i = 0; i < 5; ++i) s.put(t, state("x", s.next()));
    CHECK(t.history.size() == 3);
    CHECK(s.oldest(t) == 12);
    CHECK_FALSE(s.state_at(t, 11, "", ""));
    CHECK(s.state_at(t, 12, "", ""));
    CHECK(t.position_after(12) == t.first);
    CHECK(t.at(t.position_after(13)).version == 14);
    CHECK(t.position_after(15) == t.end());
}

TEST_CASE("a history of size 0 still holds the newest change, because open watches need it", "[object_store]") {
    object_store s(0, 10);
    table t;
    std::size_t seen = 0;
    s.on_change([&seen](table& changed) { seen = changed.history.size(); });
    for (int i = 0; i < 3; ++i) {
        s.put(t, state("x", s.next()));
        CHECK(seen == 1);
    }
    CHECK(t.at(t.position_after(12)).version == 13);
    CHECK(s.oldest(t) == 12);
}

TEST_CASE("compaction forbids old versions at once and leaves pending changes readable", "[object_store]") {
    object_store s(100, 10);
    table t;
    s.put(t, state("x", s.next()));
    s.put(t, state("x", s.next()));
    s.compact();
    CHECK(s.oldest(t) == 12);
    CHECK_FALSE(s.state_at(t, 11, "", ""));
    CHECK(t.history.size() == 2);
}

TEST_CASE("a state can be shown with another resource version", "[object_store]") {
    const auto o = state("x", 11);
    CHECK(o->text_at_version(1234567) == R"("metadata":{"name":"x","resourceVersion":"1234567"}})");
}
