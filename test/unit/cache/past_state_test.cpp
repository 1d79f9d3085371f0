// States of the cache that are freed a little at a time.
#include "indexer_scene.hpp"

#include "cache/past_state.hpp"
#include "object/detail/root.hpp"

#include <atomic>
#include <string>
#include <thread>
#include <vector>

using namespace indexer_test;

namespace {

/// Puts many objects, each of which is alone under its value of one of the indexes.
void fill(indexer& cache, int objects, int version) {
    for (int i = 0; i < objects; ++i) {
        const std::string name = "p" + std::to_string(i);
        cache.put(make_pod("ns", name, std::to_string(version), "u"));
    }
}

std::vector<std::string> by_name(const object& o) {
    return {o.name().str()};
}
std::vector<std::string> by_namespace(const object& o) {
    return {o.name_space().str()};
}

} // namespace

TEST_CASE("past state: objects and indexes that nobody holds any more are freed in steps") {
    constexpr int n = 5000;
    indexer cache(1);
    cache.add_index("name", by_name);
    cache.add_index("namespace", by_namespace);
    fill(cache, n, 1);
    cache.publish();
    const object first = cache.get(object_key("ns", "p7"));
    detail::past_state old(cache.snapshot());
    fill(cache, n, 2);
    cache.publish();
    std::size_t steps = 1;
    while (!old.step(100)) ++steps;
    CHECK(steps >= 3 * n / 200); // each object stood in the cache and in two indexes
    CHECK(old.step(100));
    CHECK(first.root()->count.load() == 1);
    CHECK(cache.snapshot().by_index("name", "p7").size() == 1);
    CHECK(cache.snapshot().by_index("namespace", "ns").size() == n);
    CHECK(cache.get(object_key("ns", "p7")).resource_version().str() == "2");
}

TEST_CASE("past state: what a reader still holds stays as it is") {
    constexpr int n = 1000;
    indexer cache(1);
    cache.add_index("namespace", by_namespace);
    fill(cache, n, 1);
    cache.publish();
    const cache_snapshot reader = cache.snapshot();
    detail::past_state old(cache.snapshot());
    fill(cache, n, 2);
    cache.publish();
    CHECK(old.step(1));
    CHECK(reader.by_index("namespace", "ns").size() == n);
    CHECK(reader.get(object_key("ns", "p7")).resource_version().str() == "1");
    // So does the state that is still published.
    detail::past_state shown(cache.snapshot());
    CHECK(shown.step(1));
    CHECK(cache.snapshot().size() == n);
}

TEST_CASE("past state: readers on threads keep what they read while the writer frees what nobody reads") {
    constexpr int n = 300;
    std::vector<std::vector<object>> versions(4);
    for (int v = 0; v < 4; ++v)
        for (int i = 0; i < n; ++i)
            versions[static_cast<std::size_t>(v)].push_back(
                make_pod("ns", "p" + std::to_string(i), std::to_string(v), "u"));
    indexer cache(1);
    cache.add_index("namespace", by_namespace);
    const auto put_all = [&](const std::vector<object>& all) {
        for (const object& o : all) cache.put(o);
        cache.publish();
    };
    put_all(versions[0]);
    std::atomic<bool> done{false};
    std::atomic<int> mixed{0}, reads{0};
    std::vector<std::thread> readers;
    for (int t = 0; t < 2; ++t)
        readers.emplace_back([&] {
            while (!done) {
                const cache_snapshot s = cache.snapshot();
                const std::string version = s.get(object_key("ns", "p0")).resource_version().str();
                for (const object& o : s.by_index("namespace", "ns")) mixed += o.resource_version().str() != version;
                ++reads;
            }
        });
    for (std::size_t round = 1; round < 200 || reads < 100; ++round) {
        detail::past_state old(cache.snapshot());
        put_all(versions[round % 4]);
        while (!old.step(50)) {
        }
    }
    done = true;
    for (std::thread& t : readers) t.join();
    CHECK(mixed == 0);
    for (const auto& all : versions)
        for (const object& o : all) REQUIRE(o.root()->count.load() <= 3); // ours, the cache's, its index's
}

TEST_CASE("past state: another map that was added to it is freed, too") {
    const auto traits = detail::object_traits{1};
    detail::object_map collected(traits);
    const object o = make_pod("ns", "a", "1", "u");
    collected.put(o);
    detail::past_state old{cache_snapshot()};
    old.add(std::move(collected));
    CHECK(old.step(100));
    CHECK(o.root()->count.load() == 1);
}
