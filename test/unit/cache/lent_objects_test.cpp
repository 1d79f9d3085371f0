#include <informer/cache/lent_objects.hpp>

#include "object/detail/pool_core.hpp"
#include "pods.hpp"

#include <informer/cache/indexer.hpp>

#include <catch2/catch_test_macros.hpp>

#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

using namespace informer;
using informer::testing::make_pod;

namespace {

std::unique_ptr<indexer> filled(int pods) {
    auto cache = std::make_unique<indexer>();
    cache->add_index("node", index_by_pointer("/spec/nodeName"));
    for (int i = 0; i < pods; ++i) cache->put(make_pod("ns", "pod-" + std::to_string(i), std::to_string(i)));
    cache->publish();
    return cache;
}

unsigned number(const object& o) {
    return static_cast<unsigned>(std::stoul(o.resource_version().str()));
}

} // namespace

TEST_CASE("lent objects: an object taken from a temporary list is an owning handle") {
    auto cache = filled(3);
    static_assert(std::is_same_v<decltype(cache->snapshot().list()[0]), object>);
    static_assert(std::is_same_v<decltype(cache->snapshot().list().front()), object>);
    static_assert(std::is_same_v<decltype(std::declval<const lent_objects&>()[0]), const object&>);
    const object& first = cache->snapshot().by_index("node", "n1").front();
    const object& last = cache->snapshot().list().back();
    const std::string name = first.name().str();
    for (int i = 0; i < 3; ++i) cache->erase(object_key("ns", "pod-" + std::to_string(i)));
    cache->publish();
    cache.reset();
    CHECK(first.name() == name);
    CHECK(last.name().starts_with("pod-"));
}

TEST_CASE("lent objects: a list keeps its objects when cache and snapshot are gone") {
    auto cache = filled(100);
    const lent_objects all = cache->snapshot().list();
    const lent_objects indexed = cache->snapshot().by_index("node", "n1");
    const lent_objects in_namespace = cache->snapshot().list_namespace("ns");
    for (int i = 0; i < 100; ++i) cache->erase(object_key("ns", "pod-" + std::to_string(i)));
    cache->publish();
    cache.reset();
    for (const lent_objects* l : {&all, &indexed, &in_namespace}) {
        REQUIRE(l->size() == 100);
        unsigned sum = 0;
        for (const object& o : *l) {
            REQUIRE(o.key().str() == "ns/pod-" + o.resource_version().str());
            sum += number(o);
        }
        REQUIRE(sum == 4950);
    }
}

TEST_CASE("lent objects: neither making nor destroying a list changes the objects' reference counts") {
    const auto cache = filled(100);
    const object one = cache->snapshot().get("ns/pod-7");
    const auto count = [&] { return one.root()->count.load(); };
    const auto before = count();
    {
        const lent_objects all = cache->snapshot().list();
        const lent_objects copy = all;
        lent_objects rest = copy;
        erase_if(rest, [](const object& o) { return number(o) == 7; });
        REQUIRE(rest.size() == 99);
        REQUIRE(count() == before);
        const std::vector<object> counted = all;
        REQUIRE(count() == before + 1);
    }
    REQUIRE(count() == before);
}

TEST_CASE("lent objects: handles taken from a list live on their own") {
    auto cache = filled(20);
    std::vector<object> own = cache->snapshot().list();
    const object first = cache->snapshot().list().front();
    cache.reset();
    REQUIRE(own.size() == 20);
    REQUIRE(own.front().same_as(first));
    for (const object& o : own) REQUIRE(o.name() == "pod-" + o.resource_version().str());
}

TEST_CASE("lent objects: copied, moved, assigned and thinned out like a vector") {
    const auto cache = filled(50);
    const cache_snapshot now = cache->snapshot();
    const std::vector<object> expected = now.list();
    lent_objects a = now.list(), b = a;
    REQUIRE(b.size() == 50);
    REQUIRE(b.begin() != a.begin());
    lent_objects c = std::move(a);
    REQUIRE(a.empty()); // NOLINT(bugprone-use-after-move): that is what is promised
    a = c;
    c = lent_objects();
    REQUIRE(c.empty());
    REQUIRE(a.back().same_as(expected.back()));
    REQUIRE(a[49].same_as(expected[49]));
    REQUIRE(erase_if(a, [](const object& o) { return number(o) % 5 != 0; }) == 40);
    std::vector<object> fifth;
    for (const object& o : expected)
        if (number(o) % 5 == 0) fifth.push_back(o);
    REQUIRE(a.size() == fifth.size());
    for (std::size_t i = 0; i < fifth.size(); ++i) REQUIRE(a[i].same_as(fifth[i]));
    REQUIRE(erase_if(a, [](const object&) { return true; }) == 10);
    REQUIRE(a.empty());
}

TEST_CASE("snapshot: find lends the object that get returns") {
    const auto cache = filled(300);
    const cache_snapshot now = cache->snapshot();
    for (int i = 0; i < 300; ++i) {
        const std::string name = "pod-" + std::to_string(i);
        const object* lent = now.find("ns/" + name);
        REQUIRE(lent != nullptr);
        REQUIRE(lent->same_as(now.get("ns/" + name)));
        REQUIRE(now.find(object_key("ns", name)) == lent);
    }
    for (const char* absent : {"ns/pod", "ns/pod-300", "n/pod-1", "pod-1", "", "/"})
        REQUIRE(now.find(absent) == nullptr);
    const cache_snapshot empty;
    REQUIRE(empty.find("ns/pod-1") == nullptr);
}
