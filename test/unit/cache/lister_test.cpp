#include <informer/cache/lister.hpp>

#include "pods.hpp"

#include <catch2/catch_test_macros.hpp>

#include <memory>
#include <string>

using namespace informer;
using informer::testing::make_pod;

namespace {

class fixed_source final : public lister::source {
public:
    cache_snapshot snapshot() const override { return cache.snapshot(); }
    bool has_synced() const noexcept override { return synced; }
    std::string describe() const override { return "pods"; }
    bool namespaced() const noexcept override { return has_namespaces; }
    std::string_view name_space() const noexcept override { return only; }

    indexer cache;
    bool synced = true, has_namespaces = true;
    std::string only;
};

std::shared_ptr<fixed_source> filled() {
    auto s = std::make_shared<fixed_source>();
    s->cache.add_index("node", index_by_pointer("/spec/nodeName"));
    s->cache.put(make_pod("a", "p", "1", "u", "n1", "web"));
    s->cache.put(make_pod("a", "q", "2", "u", "n1", "db"));
    s->cache.put(make_pod("b", "p", "3", "u", "n1", "web"));
    s->cache.put(make_pod("", "cluster", "4", "u", "n2"));
    s->cache.publish();
    return s;
}

template <class F>
std::string message_of(F f, errc expected) {
    try {
        f();
    } catch (const error& e) {
        REQUIRE(e.failure() == expected);
        return e.what();
    }
    FAIL("nothing was thrown");
    return {};
}

} // namespace

TEST_CASE("lister: get by key, and not_found names resource and key") {
    const lister all(filled());
    REQUIRE(all.get("a/p").resource_version().str() == "1");
    REQUIRE(all.get("cluster").resource_version().str() == "4");
    const std::string what = message_of([&] { all.get("a/missing"); }, errc::not_found);
    REQUIRE(what.find("pods") != std::string::npos);
    REQUIRE(what.find("a/missing") != std::string::npos);
    REQUIRE_FALSE(all.find("a/missing"));
    REQUIRE(all.find("b/p"));
}

TEST_CASE("lister: within one namespace") {
    const lister all(filled());
    const lister in_a = all.in("a");
    REQUIRE(in_a.list().size() == 2);
    REQUIRE(in_a.list(label_selector::parse("app=web")).size() == 1);
    REQUIRE(in_a.list(label_selector()).size() == 2);
    REQUIRE(in_a.by_index("node", "n1").size() == 2);
    REQUIRE(in_a.get("q").resource_version().str() == "2");
    REQUIRE(in_a.get("a/q").resource_version().str() == "2");
    REQUIRE_FALSE(in_a.find("b/p"));
    REQUIRE(message_of([&] { in_a.get("cluster"); }, errc::not_found).find("\"a\"") != std::string::npos);
    REQUIRE(in_a.in("").list().size() == 4);
    REQUIRE(all.list(label_selector::parse("app=web")).size() == 2);
    REQUIRE(all.by_index("node", "n1").size() == 3);
}

TEST_CASE("lister: a namespace that is not in the cache is an error, not an empty answer") {
    const auto source = filled();
    source->only = "a";
    const lister all(source), elsewhere = all.in("b");
    REQUIRE(all.in("a").get("q"));
    REQUIRE(elsewhere.in("a").get("q"));
    REQUIRE(message_of([&] { elsewhere.find("q"); }, errc::not_cached).find("\"b\"") != std::string::npos);
    message_of([&] { elsewhere.get(object_key("b", "p")); }, errc::not_cached);
    message_of([&] { elsewhere.list(); }, errc::not_cached);
    message_of([&] { elsewhere.list(label_selector::parse("app=web")); }, errc::not_cached);
    message_of([&] { elsewhere.by_index("node", "n1"); }, errc::not_cached);
}

TEST_CASE("lister: of a resource without namespaces, a namespace is ignored") {
    const auto source = filled();
    source->has_namespaces = false;
    const lister in_a = lister(source).in("a");
    REQUIRE(in_a.get("cluster"));
    REQUIRE(in_a.list().size() == 4);
}

TEST_CASE("lister: by the key that a reconciler gets, whatever its name looks like") {
    const auto source = filled();
    source->cache.put(make_pod("", "a/p", "5"));
    source->cache.publish();
    const lister all(source), in_a = all.in("a");
    REQUIRE(all.get(object_key("a", "p")).resource_version().str() == "1");
    REQUIRE(all.get(object_key("", "a/p")).resource_version().str() == "5");
    REQUIRE(in_a.get(object_key("a", "q")).resource_version().str() == "2");
    REQUIRE_FALSE(in_a.find(object_key("b", "p")));
    REQUIRE_FALSE(in_a.find(object_key("", "a/p")));
    REQUIRE_FALSE(all.find(object_key("a", "missing")));
    REQUIRE(message_of([&] { all.get(object_key("a", "missing")); }, errc::not_found).find("a/missing") !=
            std::string::npos);
    source->synced = false;
    message_of([&] { all.find(object_key("a", "p")); }, errc::not_synced);
}

TEST_CASE("lister: within one namespace an object whose name has a slash comes before a key that reads the same") {
    const auto source = filled();
    source->cache.put(make_pod("a", "b/c", "5"));
    source->cache.put(make_pod("a", "a/q", "6"));
    source->cache.publish();
    const lister in_a = lister(source).in("a");
    REQUIRE(in_a.get("b/c").resource_version().str() == "5");
    REQUIRE(in_a.get("a/b/c").resource_version().str() == "5");
    REQUIRE(in_a.get("a/q").resource_version().str() == "6");
    REQUIRE(in_a.get("q").resource_version().str() == "2");
}

TEST_CASE("lister: a cache that was never filled is an error, not an empty answer") {
    auto source = filled();
    source->synced = false;
    const lister all(source);
    REQUIRE(message_of([&] { all.get("a/p"); }, errc::not_synced).find("pods") != std::string::npos);
    message_of([&] { all.find("a/p"); }, errc::not_synced);
    message_of([&] { all.list(); }, errc::not_synced);
    message_of([&] { all.list(label_selector::parse("a=b")); }, errc::not_synced);
    message_of([&] { all.by_index("node", "n1"); }, errc::not_synced);
    REQUIRE(all.snapshot().size() == 4);
    source->synced = true;
    REQUIRE(all.list().size() == 4);
}
