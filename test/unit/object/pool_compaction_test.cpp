// Generations: what a compaction moves, what it gives back, and when it is wanted.
#include "support/pod_generator.hpp"
#include "support/pool.hpp"

#include <informer/object/document_pool.hpp>

#include <catch2/catch_test_macros.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

using namespace informer;
using informer::testing::decode;
using informer::testing::drain;
using informer::testing::pod;

TEST_CASE("compaction moves what lives into a new generation and frees the old one", "[pool]") {
    const auto pool = document_pool::make();
    std::vector<object> pods;
    for (unsigned i = 0; i < 3000; ++i) pods.push_back(decode(*pool, pod(i * 20)));
    CHECK_FALSE(pool->wants_compaction());
    const pool_statistics full = pool->statistics();
    // Every second one goes: its memory is free room, but pages stay.
    for (unsigned i = 0; i < 1500; ++i) pods.erase(pods.begin() + i);
    drain(*pool);
    CHECK(pool->statistics().bytes >= full.bytes * 9 / 10);
    CHECK(pool->wants_compaction());
    object outside = pods[5];
    const std::string text = outside.to_json();
    pool->begin_generation();
    failure f;
    for (object& o : pods) {
        object moved = pool->move(o, f);
        REQUIRE(!f);
        REQUIRE(moved == o);
        o = moved;
    }
    CHECK(pool->move(pods[0], f).root() == pods[0].root());
    drain(*pool);
    CHECK(pool->statistics().generations == 2); // somebody still holds one old document
    CHECK(outside.to_json() == text);
    CHECK(outside == pods[5]);
    outside = object();
    drain(*pool);
    const pool_statistics after = pool->statistics();
    CHECK(after.generations == 1);
    CHECK(after.bytes < full.bytes * 7 / 10);
    CHECK(after.objects == pods.size());
    CHECK_FALSE(pool->wants_compaction());
    CHECK(decode(*pool, pod(20), pods[0]).same_as(pods[0]));
    // A document of another pool can move in as well.
    CHECK(pool->move(parse_object(pod(20)), f).same_as(pods[0]));
}

TEST_CASE("when few or none of many objects are left, their memory does not stay", "[pool]") {
    const auto pool = document_pool::make();
    std::vector<object> many;
    const auto fill = [&] {
        for (int i = 0; i < 100'000; ++i)
            many.push_back(decode(*pool, "{\"metadata\":{\"name\":\"number " + std::to_string(i) + "\"}}"));
        REQUIRE(pool->statistics().table_bytes >= 100'000 * 24);
    };
    fill();
    many.resize(10);
    drain(*pool);
    REQUIRE(pool->wants_compaction());
    pool->begin_generation();
    failure f;
    for (object& o : many) o = pool->move(o, f);
    drain(*pool);
    CHECK(pool->statistics().bytes < 1'000'000);
    CHECK(many[9].name() == "number 9");
    fill();
    many.clear();
    drain(*pool);
    CHECK(pool->statistics().bytes < 1'000'000);
}

TEST_CASE("a moved object is freed when nobody holds it, though somebody holds an old object", "[pool]") {
    const auto pool = document_pool::make();
    std::vector<object> pods;
    for (unsigned i = 0; i < 1000; ++i) pods.push_back(decode(*pool, pod(i)));
    pool->begin_generation(); // its templates go
    drain(*pool);
    const pool_statistics old = pool->statistics();
    object kept = pods[5];
    failure f;
    for (object& o : pods) o = pool->move(o, f);
    std::size_t steps = 1;
    while (!pool->collect(100)) ++steps;
    CHECK(steps > 50);
    CHECK(pool->statistics().nodes > old.nodes * 3 / 2);
    pods.clear();
    drain(*pool);
    const pool_statistics left = pool->statistics();
    CHECK(left.nodes == old.nodes);
    CHECK(left.node_bytes == old.node_bytes);
    CHECK(left.referenced_nodes == old.referenced_nodes);
    // An object that is moved later is unchanged.
    const object late = pool->move(kept, f);
    CHECK(late == kept);
    CHECK(late.to_json() == kept.to_json());
    kept = object();
    drain(*pool);
    CHECK(pool->statistics().generations == 1);
}

TEST_CASE("an old generation that is given back in shares does not count as live nodes", "[pool]") {
    const auto pool = document_pool::make();
    std::vector<object> pods;
    for (unsigned i = 0; i < 1000; ++i) pods.push_back(decode(*pool, pod(i)));
    pool->begin_generation();
    const object kept = decode(*pool, pod(0));
    pods.clear();
    for (bool done = false; !done;) {
        done = pool->collect(1);
        const pool_statistics s = pool->statistics();
        if (s.bytes - s.table_bytes < s.node_bytes + s.free_bytes) FAIL("more than there is");
    }
    CHECK(pool->statistics().generations == 1);
}

TEST_CASE("a compaction is not wanted if others keep what it would free", "[pool]") {
    const auto pool = document_pool::make();
    std::vector<object> pods;
    const auto fill = [&](unsigned from, unsigned until) {
        for (unsigned i = from; i < until; ++i) pods.push_back(decode(*pool, pod(i * 20)));
    };
    const auto halve = [&] {
        for (std::size_t i = 0, n = pods.size() / 2; i < n; ++i)
            pods.erase(pods.begin() + static_cast<std::ptrdiff_t>(i));
        drain(*pool);
    };
    fill(0, 3000);
    object kept = pods.back();
    halve();
    CHECK(pool->wants_compaction());
    CHECK(pool->wants_compaction(1 + pods.size() / 50));
    CHECK_FALSE(pool->wants_compaction(pods.size() / 4));
    pool->begin_generation();
    failure f;
    for (object& o : pods) o = pool->move(o, f);
    drain(*pool);
    REQUIRE(pool->statistics().generations == 2);
    // The old generation, kept for one document, holds as much as another compaction could free.
    fill(3000, 4500);
    halve();
    CHECK(pool->statistics().free_bytes > pool->statistics().bytes / 5);
    CHECK_FALSE(pool->wants_compaction());
    kept = object();
    drain(*pool);
    CHECK(pool->wants_compaction());
}
