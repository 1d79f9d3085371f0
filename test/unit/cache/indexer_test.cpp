// The objects of a cache: how they come and go, and what its readers see.
#include "cache/object_cursor.hpp"
#include "indexer_scene.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <algorithm>
#include <atomic>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

using namespace indexer_test;

TEST_CASE("indexer: what is put is invisible until it is published") {
    indexer cache;
    const object a = make_pod("ns", "a");
    REQUIRE_FALSE(cache.put(a));
    REQUIRE(cache.current(object_key("ns", "a")).same_as(a));
    REQUIRE(cache.current("ns/a").same_as(a));
    REQUIRE(cache.current_size() == 1);
    REQUIRE(cache.current_snapshot().size() == 1);
    REQUIRE(cache.snapshot().size() == 0);
    REQUIRE_FALSE(cache.get(object_key("ns", "a")));
    cache.publish();
    REQUIRE(cache.snapshot().size() == 1);
    REQUIRE(cache.get(object_key("ns", "a")).same_as(a));
    REQUIRE(cache.erase(object_key("ns", "a")).same_as(a));
    REQUIRE(cache.snapshot().get("ns/a"));
    cache.publish();
    REQUIRE_FALSE(cache.snapshot().get("ns/a"));
    REQUIRE_FALSE(cache.erase(object_key("ns", "a")));
}

TEST_CASE("indexer: one object is read without a snapshot as it would be from one") {
    indexer cache;
    cache.put(make_pod("", "node1", "1"));
    cache.put(make_pod("a", "node1", "2"));
    cache.put(make_pod("a", "b/c", "3"));
    REQUIRE_FALSE(cache.get("a/node1"));
    REQUIRE_FALSE(cache.get("a", "node1"));
    cache.publish();
    REQUIRE(cache.get("node1").resource_version().str() == "1");
    REQUIRE(cache.get("", "node1").resource_version().str() == "1");
    REQUIRE(cache.get("a/node1").resource_version().str() == "2");
    REQUIRE(cache.get("a", "node1").resource_version().str() == "2");
    REQUIRE(cache.get(object_key("a", "node1")).resource_version().str() == "2");
    REQUIRE(cache.get("a/b/c").resource_version().str() == "3");
    REQUIRE_FALSE(cache.get("b/node1"));
    REQUIRE_FALSE(cache.get(""));

    object held = cache.get("a/node1");
    cache.put(make_pod("a", "node1", "4"));
    cache.publish();
    REQUIRE(held.resource_version().str() == "2");
    REQUIRE(cache.get("a/node1").resource_version().str() == "4");
}

TEST_CASE("indexer: names that collide cannot be made without its seed") {
    // Halves that change places, each with all of its bits turned, are the same to a product of both with secrets that
    // are each other's complement.
    const std::string one = "first---", two = "---other";
    std::string x, y;
    for (const char c : two) x += static_cast<char>(~c);
    for (const char c : one) y += static_cast<char>(~c);
    for (std::uint64_t seed = 0; seed < 1'000; ++seed) {
        const detail::object_traits traits{seed * 0x1234'5678'9abc'def1U};
        REQUIRE(traits.hash_namespace(one + two) != traits.hash_namespace(x + y));
        REQUIRE(traits.hash_namespace(one + two) != traits.hash_namespace(two + one));
    }
}

TEST_CASE("indexer: put returns what was there") {
    indexer cache;
    const object a1 = make_pod("ns", "a", "1"), a2 = make_pod("ns", "a", "2");
    cache.put(a1);
    REQUIRE(cache.put(a2).same_as(a1));
    REQUIRE(cache.current("ns/a").same_as(a2));
    REQUIRE(cache.put(a2).same_as(a2));
}

TEST_CASE("indexer: keys are ns/name, or name for cluster-scoped objects") {
    indexer cache;
    cache.put(make_pod("", "node1", "1"));
    cache.put(make_pod("a", "node1", "2"));
    cache.put(make_pod("b", "node1", "3"));
    cache.publish();
    const cache_snapshot s = cache.snapshot();
    REQUIRE(s.size() == 3);
    REQUIRE(s.get("node1").resource_version().str() == "1");
    REQUIRE(s.get("a/node1").resource_version().str() == "2");
    REQUIRE(s.get(object_key("b", "node1")).resource_version().str() == "3");
    REQUIRE(s.get("b", "node1").resource_version().str() == "3");
    REQUIRE(s.get("", "node1").resource_version().str() == "1");
    REQUIRE(s.find("a", "node1") == s.find("a/node1"));
    REQUIRE_FALSE(s.get("a/node1", ""));
    REQUIRE_FALSE(s.get("", "a/node1"));
    REQUIRE(s.find("c", "node1") == nullptr);
    REQUIRE_FALSE(s.get("c/node1"));
    REQUIRE_FALSE(s.get("node2"));
    REQUIRE_FALSE(s.get(""));
    REQUIRE_FALSE(s.get("/"));
}

TEST_CASE("indexer: an empty snapshot answers") {
    const cache_snapshot s;
    REQUIRE(s.size() == 0);
    REQUIRE_FALSE(s.get("a/b"));
    REQUIRE(s.list().empty());
    REQUIRE(s.list_namespace("x").empty());
    REQUIRE(s.resource_version().empty());
    REQUIRE(thrown_by([&] { s.by_index("node", "x"); }) == errc::unknown_index);
}

TEST_CASE("indexer: list, by selector, by namespace") {
    indexer cache;
    for (const char* ns : {"a", "b", "c"}) {
        for (int i = 0; i < 100; ++i) {
            cache.put(make_pod(ns, "p" + std::to_string(i), "1", "u", "n", i % 2 ? "odd" : "even"));
        }
    }
    cache.put(make_pod("", "cluster"));
    cache.publish();
    const cache_snapshot s = cache.snapshot();
    REQUIRE(s.list().size() == 301);
    REQUIRE(s.list(label_selector()).size() == 301);
    REQUIRE(s.list(label_selector::parse("app=odd")).size() == 150);
    REQUIRE(s.list(label_selector::parse("app=none")).empty());
    REQUIRE(s.list_namespace("b").size() == 100);
    for (const object& o : s.list_namespace("b")) REQUIRE(o.meta().name_space() == "b");
    REQUIRE(s.list_namespace("d").empty());
    REQUIRE(s.list_namespace("").size() == 301);
    std::size_t seen = 0;
    s.for_each([&](const object&) { return ++seen < 10; });
    REQUIRE(seen == 10);
}

TEST_CASE("indexer: a snapshot stays as it was across later publishes") {
    indexer cache;
    cache.add_index("node", index_by_pointer("/spec/nodeName"));
    for (int i = 0; i < 100; ++i) cache.put(make_pod("ns", "p" + std::to_string(i), "1", "u", "old"));
    cache.set_resource_version(resource_version("10"));
    cache.publish();
    const cache_snapshot before = cache.snapshot();
    for (int i = 0; i < 50; ++i) cache.put(make_pod("ns", "p" + std::to_string(i), "2", "u", "new"));
    for (int i = 50; i < 60; ++i) cache.erase(object_key("ns", "p" + std::to_string(i)));
    cache.set_resource_version(resource_version("20"));
    cache.publish();
    REQUIRE(before.size() == 100);
    REQUIRE(before.by_index("node", "old").size() == 100);
    REQUIRE(before.by_index("node", "new").empty());
    REQUIRE(before.resource_version().str() == "10");
    REQUIRE(before.get("ns/p0").resource_version().str() == "1");
    const cache_snapshot after = cache.snapshot();
    REQUIRE(after.size() == 90);
    REQUIRE(after.by_index("node", "old").size() == 40);
    REQUIRE(after.by_index("node", "new").size() == 50);
    REQUIRE(after.index_values("node") == std::vector<std::string>{"new", "old"});
    REQUIRE(after.resource_version().str() == "20");
}

TEST_CASE("indexer: the highest resource version wins, until it is forced") {
    indexer cache;
    const auto now = [&] {
        cache.publish();
        return cache.snapshot().resource_version().str();
    };
    REQUIRE(now().empty());
    cache.put(make_pod("ns", "a", "77"));
    REQUIRE(now().empty());
    cache.set_resource_version(resource_version("9"));
    REQUIRE(now() == "9");
    cache.set_resource_version(resource_version("100"));
    cache.set_resource_version(resource_version("99"));
    cache.set_resource_version(resource_version());
    cache.set_resource_version(resource_version("abc"));
    REQUIRE(now() == "100");
    cache.force_resource_version(resource_version("5"));
    REQUIRE(now() == "5");
}

TEST_CASE("an object of the cache is kept elsewhere while others have handles of it; those of indexes do not count") {
    indexer cache;
    cache.add_index("words", words);
    cache.put(make_pod("ns", "a", "1", "u", "n", "x.y.z"));
    cache.put(make_pod("ns", "b", "1", "u", "n", ""));
    cache.publish();
    const auto kept = [&](const char* name) {
        const cache_snapshot s = cache.snapshot();
        return cache.is_kept_elsewhere(*s.find(object_key("ns", name)));
    };
    CHECK_FALSE(kept("a"));
    CHECK_FALSE(kept("b"));
    {
        const object mine = cache.get(object_key("ns", "a"));
        CHECK(kept("a"));
        CHECK_FALSE(kept("b"));
    }
    CHECK_FALSE(kept("a"));
}

TEST_CASE("indexer: putting an equal handle does no work") {
    indexer cache;
    int calls = 0;
    cache.add_index("counted", [&](const object&) {
        ++calls;
        return std::vector<std::string>{"v"};
    });
    const object a = make_pod("ns", "a");
    cache.put(a);
    cache.publish();
    const int before = calls;
    const cache_snapshot::data* const state = cache.snapshot().contents();
    cache.put(a);
    cache.publish();
    REQUIRE(calls == before);
    REQUIRE(cache.snapshot().contents() == state);
}

TEST_CASE("indexer: memory is counted and comes back") {
    indexer cache;
    cache.add_index("node", index_by_pointer("/spec/nodeName"));
    cache.add_index(
        "key", [](const object& o) { return std::vector<std::string>{"a long value of its own: " + o.key().str()}; });
    const std::size_t empty = cache.memory();
    for (int i = 0; i < 1000; ++i)
        cache.put(make_pod("ns", "p" + std::to_string(i), "1", "u", "n" + std::to_string(i % 10)));
    REQUIRE(cache.memory() > empty + 1000 * 3 * sizeof(object));
    REQUIRE(cache.memory() < empty + 1000 * 400);
    for (int i = 0; i < 1000; ++i) cache.erase(object_key("ns", "p" + std::to_string(i)));
    REQUIRE(cache.memory() == empty);
}

TEST_CASE("indexer: a cursor walks a snapshot in slices while the cache changes") {
    indexer cache;
    for (int i = 0; i < 500; ++i) cache.put(make_pod("ns", "p" + std::to_string(i)));
    cache.publish();
    detail::object_cursor c(cache.snapshot());
    std::set<std::string> seen;
    while (const object* o = c.next()) {
        seen.insert(o->key().name);
        cache.erase(o->key());
        cache.publish();
    }
    REQUIRE(seen.size() == 500);
    REQUIRE(cache.snapshot().size() == 0);
}

TEST_CASE("completeness: readers on threads see the whole old or the whole new state, never a mixture") {
    indexer cache;
    cache.add_index("node", index_by_pointer("/spec/nodeName"));
    constexpr int pods = 60, versions = 60;
    std::vector<std::vector<object>> states;
    for (int v = 0; v < versions; ++v) {
        std::vector<object> state;
        for (int i = 0; i < pods; ++i) {
            state.push_back(
                make_pod("ns", "p" + std::to_string(i), std::to_string(v + 1), "u", "n" + std::to_string(v % 3)));
        }
        states.push_back(std::move(state));
    }
    std::atomic<bool> stop{false};
    std::atomic<int> wrong{0}, reads{0};
    std::vector<std::thread> readers;
    for (int t = 0; t < 3; ++t) {
        readers.emplace_back([&] {
            while (!stop) {
                const cache_snapshot s = cache.snapshot();
                ++reads;
                const std::string version = s.resource_version().str();
                if (version.empty()) continue;
                if (s.size() != pods) ++wrong;
                for (const object& o : s.list()) wrong += o.resource_version().str() != version;
                const auto nodes = s.index_values("node");
                if (nodes.size() != 1 || s.by_index("node", nodes[0]).size() != pods) ++wrong;
                if (!s.get("ns/p7")) ++wrong;
            }
        });
    }
    for (int v = 0; v < versions || reads < 50; ++v) {
        for (const object& o : states[static_cast<std::size_t>(v % versions)]) cache.put(o);
        cache.force_resource_version(resource_version(std::to_string(v % versions + 1)));
        cache.publish();
    }
    stop = true;
    for (auto& r : readers) r.join();
    REQUIRE(wrong == 0);
}

TEST_CASE("list of a namespace is exact however many namespaces there are, and whatever was erased") {
    // More than there are sub-tries for namespaces: some share one.
    constexpr int namespaces = 3000;
    indexer cache;
    const auto name = [](int i) { return "ns-" + std::to_string(i); };
    const auto check = [&](auto expected) {
        cache.publish();
        const cache_snapshot now = cache.snapshot();
        bool exact = true;
        for (int i = 0; i < namespaces; ++i) {
            const auto found = now.list_namespace(name(i));
            exact = exact && found.size() == expected(i) &&
                    std::all_of(found.begin(), found.end(),
                                [&](const object& o) { return o.meta().name_space() == name(i); });
        }
        REQUIRE(exact);
        REQUIRE(now.list_namespace("nobody's").empty());
    };
    for (int i = 0; i < namespaces; ++i) {
        cache.put(make_pod(name(i), "a"));
        if (i % 2 == 0) cache.put(make_pod(name(i), "b"));
    }
    check([](int i) { return i % 2 == 0 ? 2u : 1u; });
    for (int i = 0; i < namespaces; ++i) {
        if (i % 3 != 0) cache.erase(object_key(name(i), "a"));
        cache.put(make_pod(name(i), "b", "2")); // new to half of them
    }
    check([](int i) { return i % 3 == 0 ? 2u : 1u; });
    for (int i = 0; i < namespaces; ++i) {
        cache.erase(object_key(name(i), "a"));
        if (i != 17) cache.erase(object_key(name(i), "b"));
    }
    check([](int i) { return i == 17 ? 1u : 0u; });
}

TEST_CASE("list by labels gives exactly the objects that the selector matches one by one") {
    indexer cache;
    const auto pool = document_pool::make();
    failure f;
    for (int i = 0; i < 5000; ++i) { // equal labels, unique ones, none
        std::string json = R"({"metadata":{"namespace":"ns","name":"p)" + std::to_string(i) + "\"";
        if (i % 3 == 0) json += R"(,"labels":{"app":"a)" + std::to_string(i % 7) + R"(","tier":"x"})";
        if (i % 3 == 1) json += R"(,"labels":{"app":"a1","own":"u)" + std::to_string(i) + "\"}";
        cache.put(pool->decode(json + "}}", object(), f));
    }
    cache.publish();
    const cache_snapshot now = cache.snapshot();
    for (const char* text : {"app=a1", "app!=a1", "own", "!app", "app in (a3,a4),tier=x", "own=u4"}) {
        const auto selector = label_selector::parse(text);
        std::size_t expected = 0;
        now.for_each([&](const object& o) {
            expected += selector.matches([&](std::string_view key) -> std::optional<std::string> {
                const value v = o.meta().labels()[key];
                if (!v.is_string()) return std::nullopt;
                return v.as_string().str();
            });
            return true;
        });
        const auto found = now.list(selector);
        INFO(text);
        REQUIRE(found.size() == expected);
        REQUIRE(expected > 0);
        REQUIRE(std::all_of(found.begin(), found.end(), [&](const object& o) { return selector.matches(o); }));
    }
}

namespace {

object pod_on_node(int i, const char* version, const std::string& node) {
    return make_pod("ns" + std::to_string(i % 40), "p" + std::to_string(i), version, "u", node);
}

object pod_of_list(int i) {
    return pod_on_node(i, "1", "n" + std::to_string(i % 7));
}

/// Replaces, adds and erases objects.
void go_on(indexer& one, int pods) {
    for (int i = 0; i < pods; i += 3) {
        const object o = pod_on_node(i, "2", "n9");
        if (i % 2)
            one.put(o);
        else
            one.erase(o.key());
    }
}

/// Readers see the same in both. `late`: the first has an index of that name.
void require_alike(indexer& filled, indexer& put, bool late) {
    filled.publish();
    put.publish();
    const cache_snapshot a = filled.snapshot(), b = put.snapshot();
    REQUIRE(names(a.list()) == names(b.list()));
    for (int i = 0; i < 41; ++i) {
        const std::string space = "ns" + std::to_string(i);
        REQUIRE(names(a.list_namespace(space)) == names(b.list_namespace(space)));
    }
    REQUIRE(a.index_values("node") == b.index_values("node"));
    for (const std::string& node : b.index_values("node")) {
        REQUIRE(names(a.by_index("node", node)) == names(b.by_index("node", node)));
        if (late) REQUIRE(names(a.by_index("late", node)) == names(b.by_index("node", node)));
    }
}

} // namespace

TEST_CASE("indexer: filling in slices gives the same as putting each object, even if an index is begun meanwhile") {
    indexer source, filled, put;
    for (int i = 0; i < 500; ++i) {
        const object o = pod_of_list(i);
        source.put(o);
        put.put(o);
    }
    filled.add_index("node", index_by_pointer("/spec/nodeName"));
    put.add_index("node", index_by_pointer("/spec/nodeName"));
    filled.begin_fill(source.current_snapshot());
    int steps = 0;
    for (; !filled.fill_step(50); ++steps) {
        CHECK(filled.snapshot().size() == 0);
        if (steps == 5) filled.begin_index("late", index_by_pointer("/spec/nodeName"));
    }
    CHECK(steps == 10);
    while (!filled.add_index_step(64)) {
    }
    require_alike(filled, put, true);
    go_on(filled, 600);
    go_on(put, 600);
    require_alike(filled, put, true);
    CHECK(source.current_size() == 500); // shares its nodes with `filled`, and is unchanged
    CHECK(thrown_by([&] { filled.begin_fill(source.current_snapshot()); }) == errc::bad_configuration);
}

TEST_CASE("indexer: indexes made while objects are collected are used only if the cache would have the same") {
    enum class way { whole, one_twice, one_missing, index_added, index_begun, function_throws };
    const auto how = GENERATE(way::whole, way::one_twice, way::one_missing, way::index_added, way::index_begun,
                              way::function_throws);
    indexer source, filled(source.seed()), put(source.seed());
    const index_function by_node = [how](const object& o) {
        if (how == way::function_throws && o.name() == "p77") throw std::runtime_error("of 77 nothing is known");
        return index_by_pointer("/spec/nodeName")(o);
    };
    filled.add_index("node", by_node);
    put.add_index("node", by_node);
    const auto draft = filled.begin_draft();
    const detail::object_traits traits{source.seed()};
    for (int i = 0; i < 200; ++i) {
        const object o = pod_of_list(i);
        source.put(o);
        put.put(o);
        if (how == way::one_missing && i == 100) continue;
        filled.add(*draft, o, traits.hash(o));
        if (how == way::one_twice && i == 100) filled.add(*draft, o, traits.hash(o));
    }
    CHECK(filled.current_size() == 0);
    CHECK(filled.index_error_count() == 0); // none of the objects is in the cache
    if (how == way::index_added) filled.add_index("late", by_node);
    if (how == way::index_begun) filled.begin_index("late", by_node);
    filled.begin_fill(source.current_snapshot(), draft.get());
    CHECK(filled.fill_step(10) == (how == way::whole)); // nothing was left to do
    while (!filled.fill_step(10)) {
    }
    while (!filled.add_index_step(10)) {
    }
    const bool late = filled.knows_index("late");
    if (late) put.add_index("late", by_node);
    go_on(filled, 300);
    go_on(put, 300);
    require_alike(filled, put, late);
    CHECK(filled.index_error_count() == put.index_error_count());
}

TEST_CASE("indexer: a hash from a map of the same seed is enough to find and to put an object") {
    indexer index;
    index.add_index("node", index_by_pointer("/spec/nodeName"));
    std::vector<object> known;
    for (int i = 0; i < 3000; ++i) {
        known.push_back(
            make_pod("ns" + std::to_string(i % 40), "p" + std::to_string(i), "1", "u", "n" + std::to_string(i % 7)));
        index.put(known.back());
    }
    detail::object_map listed(detail::object_traits{index.seed()});
    for (std::size_t i = 0; i < known.size(); i += 2) listed.put(known[i]); // the same objects
    for (int i = 0; i < 600; ++i)
        listed.put(make_pod("late" + std::to_string(i % 3), "p" + std::to_string(i), "2", "u", "n9"));
    detail::object_map::cursor c(listed);
    std::size_t same = 0, fresh = 0;
    while (const object* o = c.next()) {
        const indexer::place there = index.find_current(*o, c.hash());
        REQUIRE(there.before.same_as(index.current(o->key())));
        ++(there.before ? same : fresh);
        if (!there.before) index.put(*o, there);
    }
    CHECK(same == 1500);
    CHECK(fresh == 600);
    index.publish();
    const cache_snapshot now = index.snapshot();
    CHECK(now.size() == 3600);
    CHECK(now.list_namespace("late1").size() == 200);
    CHECK(now.by_index("node", "n9").size() == 600);
    for (int i = 0; i < 600; ++i) CHECK(now.get({"late" + std::to_string(i % 3), "p" + std::to_string(i)}));
}
