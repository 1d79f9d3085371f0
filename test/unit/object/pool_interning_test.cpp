// What the pool interns: values at paths where they repeat; no decision is final.
#include "object/detail/interning.hpp"

#include "support/pod_generator.hpp"
#include "support/pool.hpp"

#include <informer/object/document_pool.hpp>

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <numeric>
#include <random>
#include <string>
#include <vector>

using namespace informer;
using informer::testing::decode;
using informer::testing::drain;
using informer::testing::pod;

namespace {

/// Teaches a pool that the values at /data/value hardly repeat.
void teach_unique(document_pool& pool, unsigned count, std::vector<object>& held) {
    for (unsigned i = 0; i < count; ++i)
        held.push_back(decode(pool, R"({"data":{"value":"a value like no other )" + std::to_string(i) + R"("},"n":[)" +
                                        std::to_string(i) + "]}"));
}

} // namespace

TEST_CASE("a path stops interning when its values do not repeat, samples on, and takes it up again", "[pool]") {
    detail::interning_record r;
    const auto look_up = [&](int times, int hit_every) {
        for (int i = 1; i <= times; ++i) r.looked_up(i % hit_every == 0);
    };
    const auto sampled = [&](std::uint64_t first, std::uint64_t last) {
        unsigned n = 0;
        for (std::uint64_t hash = first; hash < last; ++hash) n += r.wanted(hash);
        return n;
    };
    CHECK(sampled(0, 1600) == 1600);
    look_up(255, 8);
    CHECK_FALSE(r.stopped());
    look_up(1, 8);
    CHECK(r.stopped());
    CHECK(sampled(0, 800) == 50);
    look_up(64, 8);
    CHECK(r.stopped());
    look_up(64, 2);
    CHECK_FALSE(r.stopped());
    CHECK(sampled(0, 1600) == 1600);
    // At first the table holds none of its values: the path gets time to fill it, and stops again if they do not
    // repeat.
    look_up(4095, 8);
    CHECK_FALSE(r.stopped());
    look_up(1, 8);
    CHECK(r.stopped());
    // Every value is in some sample: any single one is found before long.
    unsigned passed = 0;
    while (!r.wanted(7) && passed < 100'000) ++passed;
    CHECK(passed <= 16 * 1024);
    // After long the sample is smaller; it changes as well, and decides as before.
    look_up(64 * 7, 8);
    CHECK(sampled(0, 3200) == 50);
    for (passed = 0; !r.wanted(7) && passed < 1'000'000;) ++passed;
    CHECK(passed > 16 * 1024);
    CHECK(passed <= 64 * 4096);
    look_up(64, 2);
    CHECK_FALSE(r.stopped());
    look_up(4096, 8);
    CHECK(r.stopped());
    CHECK(sampled(0, 800) == 50);
}

TEST_CASE("if failed look-ups are expensive, the first few decide, but only without a single hit", "[pool]") {
    const auto stops_at = [](int hit_at) {
        detail::interning_record r;
        int n = 0;
        while (!r.stopped()) r.looked_up(++n == hit_at, 64);
        return n;
    };
    CHECK(stops_at(0) == 64);
    CHECK(stops_at(64) == 256);
    CHECK(stops_at(1) == 256);
}

TEST_CASE("values that repeat after all are shared again", "[pool]") {
    const auto pool = document_pool::make();
    std::vector<object> held;
    teach_unique(*pool, 4000, held);
    const std::uint64_t unique = pool->statistics().string_bytes / held.size();
    CHECK(unique >= 32);
    // Now a few values in random order: soon they are stored once.
    std::mt19937 random(3);
    const auto value = [&] { return "one of not very many values " + std::to_string(random() % 50); };
    const auto add = [&](unsigned n) {
        for (unsigned i = 0; i < n; ++i)
            held.push_back(decode(*pool, R"({"data":{"value":")" + value() + R"("},"n":[1]})"));
    };
    add(16'000); // many samples, as few values may all miss one
    const pool_statistics before = pool->statistics();
    add(4000);
    CHECK(pool->statistics().string_bytes - before.string_bytes < 64 * 50);
    held.clear();
    drain(*pool);
    CHECK(pool->statistics().nodes == 0);
}

TEST_CASE("a value that a document holds twice is stored once, interned or not", "[pool]") {
    const auto pool = document_pool::make();
    std::vector<object> held;
    teach_unique(*pool, 4000, held);
    const auto nodes_of = [&](const std::string& json) {
        const std::uint64_t before = pool->statistics().nodes;
        held.push_back(decode(*pool, json));
        return pool->statistics().nodes - before;
    };
    // The string, the object around it (its shape exists already), the array, the root.
    CHECK(nodes_of(R"({"data":{"value":"said only once"},"n":[1]})") <= 4);
    unsigned made = 0, apart = 0;
    for (int i = 0; i < 16; ++i) {
        const std::string value = R"({"value":"said twice in number )" + std::to_string(i) + "\"}";
        made += static_cast<unsigned>(nodes_of(R"({"data":)" + value + R"(,"n":[1],"again":)" + value + "}"));
        apart += held.back()["data"].same_as(held.back()["again"]) ? 0 : 1;
    }
    CHECK(apart <= 4); // the memory of the document at hand is small and forgets a little
    CHECK(made <= 16 * 3 + 2 + 3 * apart);
}

TEST_CASE("versions share and unchanged documents stay whether their values are interned or not", "[pool]") {
    const auto pool = document_pool::make(decode_options().type("v1", "Pod"));
    std::vector<object> pods;
    std::vector<unsigned> order(2000);
    std::iota(order.begin(), order.end(), 0u);
    std::shuffle(order.begin(), order.end(), std::mt19937(11));
    for (const unsigned i : order) pods.push_back(decode(*pool, pod(i)));
    const pool_statistics before = pool->statistics();
    unsigned changed = 0;
    for (std::size_t i = 0; i < order.size(); ++i) changed += !decode(*pool, pod(order[i]), pods[i]).same_as(pods[i]);
    CHECK(changed == 0);
    drain(*pool);
    CHECK(pool->statistics().bytes == before.bytes);
    CHECK(pool->statistics().nodes == before.nodes);
    // Ten rounds of updates of all of them.
    for (unsigned revision = 1; revision <= 10; ++revision)
        for (std::size_t i = 0; i < order.size(); ++i) {
            const object next = decode(*pool, pod(order[i], revision), pods[i]);
            if (next.same_as(pods[i]) || !next["spec"].same_as(pods[i]["spec"])) ++changed;
            pods[i] = next;
        }
    CHECK(changed == 0);
    drain(*pool);
    CHECK(static_cast<double>(pool->statistics().bytes) <= 1.06 * static_cast<double>(before.bytes));
    for (std::size_t i = 0; i < order.size(); i += 100)
        CHECK(pods[i] == parse_object(pod(order[i], 10), decode_options().type("v1", "Pod")));
    pods.clear();
    drain(*pool);
    CHECK(pool->statistics().nodes == 0);
    CHECK(pool->statistics().referenced_nodes == 0);
}

TEST_CASE("counts do not saturate: what a hundred thousand documents share is freed with the last", "[pool]") {
    const auto pool = document_pool::make();
    const std::string shared = R"({"labels":{"a label":"a value that all have"},"list":["some text","some text"]})";
    std::vector<object> held;
    for (unsigned i = 0; i < 100'000; ++i)
        held.push_back(decode(*pool, R"({"n":)" + std::to_string(i) + R"(,"all":)" + shared + "}"));
    CHECK(held[0]["all"].same_as(held[99'999]["all"]));
    std::shuffle(held.begin(), held.end(), std::mt19937(5));
    while (held.size() > 1) held.pop_back();
    drain(*pool);
    CHECK(pool->statistics().nodes < 16);
    CHECK(held[0]["all"]["labels"]["a label"].as_string() == "a value that all have");
    held.clear();
    drain(*pool);
    CHECK(pool->statistics().nodes == 0);
    CHECK(pool->statistics().node_bytes == 0);
}

TEST_CASE("a compaction shares what was shared, and returns the memory of what is gone", "[pool]") {
    const auto pool = document_pool::make();
    std::vector<object> pods;
    for (unsigned i = 0; i < 3000; ++i) pods.push_back(decode(*pool, pod(i)));
    const pool_statistics full = pool->statistics();
    failure f;
    const auto compact = [&] {
        pool->begin_generation();
        for (object& o : pods) o = pool->move(o, f);
        drain(*pool);
    };
    compact();
    CHECK(pool->statistics().generations == 1);
    CHECK(pool->statistics().nodes == full.nodes);
    CHECK(pool->statistics().node_bytes == full.node_bytes);
    CHECK(pool->statistics().referenced_nodes == full.referenced_nodes);
    // In another order, from two generations at once, and of a document that is held twice.
    pool->begin_generation();
    for (std::size_t i = 0; i < pods.size(); i += 2) pods[i] = pool->move(pods[i], f);
    object twice = pods[1];
    pool->begin_generation();
    for (std::size_t i = pods.size(); i-- > 0;) pods[i] = pool->move(pods[i], f);
    CHECK(pool->move(twice, f).same_as(pods[1]));
    drain(*pool);
    CHECK(pool->statistics().generations == 2); // `twice`
    twice = object();
    for (unsigned i = 0; i < pods.size(); i += 100) CHECK(pods[i].to_json() == parse_object(pod(i)).to_json());
    pods.erase(pods.begin() + 1500, pods.end());
    compact();
    CHECK(pool->statistics().generations == 1);
    CHECK(pool->statistics().bytes < full.bytes * 3 / 4);
    CHECK(decode(*pool, pod(7), pods[7]).same_as(pods[7]));
    pods.clear();
    drain(*pool);
    CHECK(pool->statistics().nodes == 0);
}

TEST_CASE("an error gives every count back when much is stored and little is interned", "[pool]") {
    detail::pool_limits limits;
    limits.max_bytes = 1024 * 1024;
    const auto pool = detail::make_pool(decode_options(), limits);
    std::vector<object> pods;
    failure f;
    for (unsigned i = 0; !f; ++i)
        if (object o = pool->decode(pod(i), object(), f)) pods.push_back(std::move(o));
    REQUIRE(f == errc::pool_full);
    drain(*pool);
    const pool_statistics before = pool->statistics();
    REQUIRE(before.nodes > 8192);
    unsigned full = 0;
    for (unsigned i = 0; i < 200; ++i) {
        std::string bad = pod(i * 7, i + 1);
        if (i % 2) bad.resize(bad.size() * (i + 1) / 202);
        const object o = pool->decode(bad, pods[i], f);
        if (f == errc::pool_full) ++full;
        if (!o) continue;
        pods.back() = object(); // room for it
    }
    drain(*pool);
    CHECK(full > 10);
    for (unsigned i = 0; i + 1 < pods.size(); i += 50) CHECK(pods[i] == parse_object(pod(i)));
    pods.clear();
    drain(*pool);
    CHECK(pool->statistics().nodes == 0);
    CHECK(pool->statistics().referenced_nodes == 0);
}
