// Generations: what a compaction moves, what it gives back, and when it is wanted.
#include "support/pod_generator.hpp"
#include "support/pool.hpp"

#include <informer/object/document_pool.hpp>

#include <catch2/catch_test_macros.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <thread>
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
    std::vector<object> kept(pods.end() - 750, pods.end()); // too many for the old generation to be trimmed to them
    halve();
    CHECK(pool->wants_compaction());
    CHECK(pool->wants_compaction(1 + pods.size() / 50));
    CHECK_FALSE(pool->wants_compaction(pods.size() / 4));
    pool->begin_generation();
    failure f;
    for (object& o : pods) o = pool->move(o, f);
    drain(*pool);
    REQUIRE(pool->statistics().generations == 2);
    // The old generation, which is kept, holds as much as another compaction could free.
    fill(3000, 4500);
    halve();
    CHECK(pool->statistics().free_bytes > pool->statistics().bytes / 5);
    CHECK_FALSE(pool->wants_compaction());
    kept.clear();
    drain(*pool);
    CHECK(pool->wants_compaction());
}

TEST_CASE("an object that is kept of an old generation keeps what it needs of it; the rest goes back", "[pool]") {
    const auto pool = document_pool::make();
    std::vector<object> pods;
    for (unsigned i = 0; i < 4000; ++i) pods.push_back(decode(*pool, pod(i * 20)));
    // Nodes of every kind of memory: one with pages of its own, one that shares them, and of such ones that all die.
    const auto long_one = [](std::size_t text, std::size_t elements) {
        std::string s = R"({"metadata":{"name":"long"},"text":")" + std::string(text, 'x') + R"(","more":[-7)";
        for (std::size_t i = 0; i < elements; ++i)
            s += ",{\"key " + std::to_string(i) + "\":" + std::to_string(i) + "}";
        return s + "]}";
    };
    std::vector<object> kept{decode(*pool, long_one(700'000, 0)), decode(*pool, long_one(100'000, 5000)), pods[17],
                             pods[1000]};
    for (std::size_t i = 1; i < 20; ++i) pods.push_back(decode(*pool, long_one(100'000 + i * 1000, i)));
    const std::uint64_t full = pool->statistics().bytes;
    std::vector<std::string> texts;
    for (const object& o : kept) texts.push_back(o.to_json());
    pods.resize(500);
    drain(*pool);
    REQUIRE(pool->wants_compaction());
    pool->begin_generation();
    failure f;
    for (object& o : pods) o = pool->move(o, f);
    std::atomic<bool> done = false;
    std::size_t differences = 0;
    std::thread reader([&] {
        while (!done)
            for (std::size_t i = 0; i < kept.size(); ++i) differences += kept[i].to_json() != texts[i];
    });
    std::size_t steps = 0;
    while (!pool->collect(100)) {
        const pool_statistics s = pool->statistics();
        if (++steps > 100'000 || s.bytes - s.table_bytes < s.node_bytes + s.free_bytes) break;
    }
    done = true;
    reader.join();
    CHECK(steps > 50);
    CHECK(differences == 0);
    const pool_statistics s = pool->statistics();
    CHECK(s.generations == 2);
    CHECK(s.bytes < full / 2);
    CHECK(s.bytes - s.table_bytes >= s.node_bytes + s.free_bytes);
    for (std::size_t i = 0; i < kept.size(); ++i) {
        CHECK(kept[i].to_json() == texts[i]);
        CHECK(pool->move(kept[i], f) == kept[i]);
    }
    drain(*pool);
    kept.clear();
    drain(*pool);
    CHECK(pool->statistics().generations == 1);
    pods.clear();
    drain(*pool);
    CHECK(pool->statistics().nodes == 0);
}

TEST_CASE("what is kept of an old generation is looked through again when half of it is gone", "[pool]") {
    const auto pool = document_pool::make();
    std::vector<object> pods, kept;
    for (unsigned i = 0; i < 3000; ++i) pods.push_back(decode(*pool, pod(i * 20)));
    for (std::size_t i = 0; i < 300; ++i) kept.push_back(pods[i * 10]);
    pool->begin_generation();
    const std::uint64_t full = pool->statistics().bytes;
    pods.clear();
    drain(*pool);
    const std::uint64_t some = pool->statistics().bytes;
    CHECK(some < full * 3 / 4);
    const std::string text = kept[3].to_json();
    kept.resize(160);
    drain(*pool);
    CHECK(pool->statistics().bytes >= some * 99 / 100); // not yet
    kept.resize(4);
    drain(*pool);
    CHECK(pool->statistics().bytes < some / 2);
    CHECK(kept[3].to_json() == text);
}

TEST_CASE("a pool in which nothing lives holds nothing of what it once read", "[pool]") {
    const auto pool = document_pool::make();
    std::string text = R"({"metadata":{"name":"a"},"data":")";
    for (int i = 0; i < 100'000; ++i) text += "line\\n";
    object o = decode(*pool, text + "\"}");
    REQUIRE(pool->statistics().bytes > 800'000);
    o = object();
    drain(*pool);
    CHECK(pool->statistics().bytes < 100'000);
}

TEST_CASE("whatever is kept of old generations stays as it was while they are trimmed", "[pool]") {
    for (unsigned seed = 0; seed < 60; ++seed) {
        INFO("seed " << seed);
        std::mt19937 random(seed);
        const auto below = [&random](std::size_t n) { return static_cast<std::size_t>(random() % n); };
        detail::pool_limits limits;
        limits.first_chunk = 256; // many small segments, each of which can go
        const auto pool = detail::make_pool(decode_options(), limits);
        const auto text = [&] {
            std::string s = R"({"metadata":{"name":"n)" + std::to_string(below(50)) + R"("},"spec":[0)";
            for (std::size_t n = below(12); n > 0; --n)
                s += ",{\"key " + std::to_string(below(60)) + "\":{\"x\":\"" + std::string(below(40) * below(40), 'y') +
                     "\",\"common\":[\"value " + std::to_string(below(9)) + "\"]}}";
            return s + "]}";
        };
        std::vector<object> now, kept;
        std::vector<std::string> texts; // of those kept
        std::vector<std::unique_ptr<decoding>> moves;
        const auto check = [&] {
            for (std::size_t i = 0; i < kept.size(); ++i) REQUIRE(kept[i].to_json() == texts[i]);
        };
        failure f;
        for (int round = 0; round < 8; ++round) {
            for (std::size_t i = 0, n = 80 + below(80); i < n; ++i) {
                if (now.size() < 100 || below(2) == 0) now.emplace_back();
                object& o = now[below(now.size())];
                o = decode(*pool, text(), o);
            }
            for (std::size_t n = below(12); n > 0; --n) {
                const object& o = now[below(now.size())];
                if (!o) continue;
                kept.push_back(o);
                texts.push_back(o.to_json());
            }
            pool->begin_generation();
            now.resize(below(now.size()));
            for (object& o : now) o = pool->move(o, f);
            while (!pool->collect(1 + below(40))) {
                check();
                if (kept.empty()) continue;
                const std::size_t one = below(kept.size());
                if (below(8) == 0) {
                    kept.erase(kept.begin() + static_cast<std::ptrdiff_t>(one));
                    texts.erase(texts.begin() + static_cast<std::ptrdiff_t>(one));
                } else if (below(8) == 0) {
                    moves.push_back(pool->begin_move(kept[one]));
                } else if (below(8) == 0) {
                    REQUIRE(pool->move(kept[one], f) == kept[one]);
                }
                if (moves.empty() || below(2) == 0) continue;
                if (!moves.back()->step(16)) continue;
                const object moved = moves.back()->finish(f);
                moves.pop_back();
                REQUIRE(!moved.to_json().empty());
            }
            check();
        }
        moves.clear();
        kept.clear();
        now.clear();
        drain(*pool);
        CHECK(pool->statistics().generations == 1);
        CHECK(pool->statistics().nodes == 0);
    }
}
