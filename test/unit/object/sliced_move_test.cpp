// A document moved in slices is the document moved at once, whatever happens between two slices; and the generation
// that it came from dies in shares.
#include "support/pod_generator.hpp"
#include "support/pool.hpp"

#include <informer/object/document_pool.hpp>

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

using namespace informer;
using informer::testing::decode;
using informer::testing::drain;
using informer::testing::pod;

namespace {

/// A document with values of all kinds and 4,000 containers, much of it twice.
std::string long_list(unsigned index) {
    std::string json = R"({"metadata":{"name":"long-)" + std::to_string(index) + R"("},"list":[)";
    for (unsigned i = 0; i < 2000; ++i) {
        const std::string n = std::to_string(i % 1500 + index);
        json += R"({"a":"text )" + n + R"(","b":[1.5e300,)" + n + R"(,null,"x)" + n + R"("]},)";
    }
    return json + "{}]}";
}

/// Moves an object in steps of `bytes`.
object in_slices(document_pool& pool, const object& o, std::size_t bytes) {
    failure f;
    const auto m = pool.begin_move(o);
    while (!m->step(bytes)) {
    }
    object moved = m->finish(f);
    REQUIRE(!f);
    return moved;
}

} // namespace

TEST_CASE("sliced move: the document, and what it shares with others, are as they were", "[pool]") {
    const auto pool = document_pool::make();
    std::vector<object> held;
    std::vector<std::string> text;
    for (unsigned i = 0; i < 300; ++i) {
        text.push_back(i % 100 == 0 ? long_list(i) : pod(i));
        held.push_back(decode(*pool, text.back()));
        text.back() = held.back().to_json();
    }
    const pool_statistics before = pool->statistics();
    pool->begin_generation();
    for (object& o : held) o = in_slices(*pool, o, 100);
    drain(*pool);
    const pool_statistics after = pool->statistics();
    CHECK(after.objects == before.objects);
    CHECK(after.nodes == before.nodes);
    CHECK(after.node_bytes == before.node_bytes);
    CHECK(after.referenced_nodes == before.referenced_nodes);
    CHECK(after.generations == 1);
    for (std::size_t i = 0; i < held.size(); ++i) REQUIRE(held[i].to_json() == text[i]);
    // An object of the current generation, and an empty one, stay as they are.
    CHECK(in_slices(*pool, held[0], 1).same_as(held[0]));
    CHECK_FALSE(in_slices(*pool, object(), 1));
    // From another pool.
    const object other = in_slices(*pool, parse_object(text[0]), 100);
    CHECK(other == held[0]);
    CHECK(other.value().generation() == held[0].value().generation());
}

TEST_CASE("sliced move: documents on their way at the same time share what they shared", "[pool]") {
    const auto pool = document_pool::make();
    for (int i = 0; i < 500; ++i) decode(*pool, pod(static_cast<unsigned>(i))); // the paths stop interning
    std::vector<object> held{decode(*pool, long_list(1))};
    for (int i = 0; i < 5; ++i) held.push_back(held[0]); // the same document
    held.push_back(decode(*pool, long_list(1) + " ", held[0]));
    std::string next = long_list(1);
    next.replace(next.rfind("{}"), 2, "[]");
    held.push_back(decode(*pool, next, held[0])); // all but the last
    drain(*pool);
    const pool_statistics before = pool->statistics();
    pool->begin_generation();
    std::vector<std::unique_ptr<decoding>> moves;
    for (const object& o : held) moves.push_back(pool->begin_move(o));
    for (std::size_t left = moves.size(); left > 0;) {
        left = 0;
        for (const auto& m : moves) left += m->step(1000) ? 0 : 1;
    }
    failure f;
    for (std::size_t i = 0; i < held.size(); ++i) held[i] = moves[i]->finish(f);
    moves.clear();
    for (std::size_t i = 1; i < 6; ++i) CHECK(held[i].same_as(held[0]));
    drain(*pool);
    const pool_statistics after = pool->statistics();
    CHECK(after.nodes == before.nodes);
    CHECK(after.node_bytes == before.node_bytes);
}

TEST_CASE("sliced move: a step makes as many nodes as its bytes allow, and no more", "[pool]") {
    const auto pool = document_pool::make();
    const object o = decode(*pool, long_list(0));
    const std::uint64_t nodes = pool->statistics().nodes;
    pool->begin_generation();
    const auto m = pool->begin_move(o);
    std::uint64_t before = nodes, most = 0, steps = 0;
    for (bool whole = false; !whole; ++steps) {
        whole = m->step(6400);
        const std::uint64_t now = pool->statistics().nodes;
        most = std::max(most, now - before);
        before = now;
    }
    CHECK(most <= 220); // a container is counted when it is opened
    CHECK(steps >= nodes / 200);
}

TEST_CASE("sliced move: between steps the pool decodes, frees, moves and begins generations", "[pool]") {
    std::mt19937 random(5);
    const auto pool = document_pool::make();
    std::vector<object> held(30);
    std::vector<std::string> text(held.size());
    failure f;
    unsigned revision = 0, generations = 0, given_up = 0, moved = 0;
    const auto store = [&](std::size_t slot, std::string json) {
        held[slot] = pool->decode(json, held[slot], f);
        REQUIRE(!f);
        text[slot] = held[slot].to_json();
    };
    for (std::size_t i = 0; i < held.size(); ++i)
        store(i, i < 5 ? long_list(static_cast<unsigned>(i)) : pod(static_cast<unsigned>(i)));
    for (int round = 0; round < 400; ++round) {
        if (random() % 3 == 0) pool->begin_generation();
        const std::size_t slot = random() % held.size();
        const std::string expected = text[slot];
        const object from = held[slot];
        auto m = pool->begin_move(from);
        while (!m->step(random() % 20'000)) {
            const std::size_t other = random() % held.size();
            switch (random() % 30) {
            case 0:
                pool->begin_generation();
                ++generations;
                break;
            case 1: pool->collect(random() % 1000); break;
            case 2: drain(*pool); break;
            case 3:
                store(other, other < 5 ? long_list(++revision) : pod(static_cast<unsigned>(other), ++revision));
                break;
            case 4: held[other] = pool->move(held[other], f); break;
            case 5: held[other] = in_slices(*pool, held[other], 1000); break;
            case 6:
                if (random() % 4 == 0) m = pool->begin_move(from), ++given_up;
                break;
            default: break;
            }
        }
        const object o = m->finish(f);
        REQUIRE(!f);
        if (text[slot] == expected) {
            moved += o.root() != from.root();
            held[slot] = o;
        }
        REQUIRE(o.to_json() == expected);
    }
    CHECK(generations > 20);
    CHECK(given_up > 5);
    CHECK(moved > 50);
    for (std::size_t i = 0; i < held.size(); ++i) CHECK(held[i].to_json() == text[i]);
    held.clear();
    drain(*pool);
    CHECK(pool->statistics().nodes == 0);
    CHECK(pool->statistics().referenced_nodes == 0);
    CHECK(pool->statistics().generations == 1);
}

TEST_CASE("sliced move: given up, it leaves nothing but work for collect", "[pool]") {
    const auto pool = document_pool::make();
    std::string json = "{\"list\":[";
    for (int i = 0; i < 5000; ++i) json += "{\"a\":\"text number " + std::to_string(i) + "\"},";
    const object o = decode(*pool, json + "0]}"); // values that nobody shares
    const std::string text = o.to_json();
    const std::uint64_t nodes = pool->statistics().nodes;
    pool->begin_generation();
    auto m = pool->begin_move(o);
    CHECK_FALSE(m->step(1));
    m = pool->begin_move(o);
    CHECK_FALSE(m->step(100'000));
    CHECK(pool->statistics().nodes > nodes + 1000);
    m.reset();
    CHECK(pool->statistics().nodes > nodes + 1000);
    while (!pool->collect(10)) {
    }
    CHECK(pool->statistics().nodes <= nodes + 1); // the shape of the elements
    CHECK(in_slices(*pool, o, 1000).to_json() == text);
}

TEST_CASE("sliced move: a full pool says so, loses nothing, and finds room where there is some", "[pool]") {
    detail::pool_limits limits;
    limits.max_bytes = 1024 * 1024;
    const auto pool = detail::make_pool(decode_options(), limits);
    const auto long_text = [](int kilobytes, char c) {
        std::string json = "{\"list\":[";
        for (int i = 0; i < kilobytes; ++i) json += "\"" + std::to_string(i) + std::string(1000, c) + "\",";
        return json + "0]}";
    };
    failure f;
    const object o = decode(*pool, long_text(600, 'a'));
    pool->begin_generation();
    object in_the_way = decode(*pool, long_text(600, 'b'));
    auto m = pool->begin_move(o);
    while (!m->step(10'000)) {
    }
    CHECK_FALSE(m->finish(f));
    CHECK(f == errc::pool_full);
    CHECK(o.to_json() == parse_object(long_text(600, 'a')).to_json());
    m = pool->begin_move(o);
    CHECK_FALSE(m->step(10'000));
    in_the_way = object();
    while (!m->step(10'000)) {
    }
    CHECK(m->finish(f) == o);
    CHECK(!f);
}

TEST_CASE("a generation that nobody holds dies in shares", "[pool]") {
    const auto pool = document_pool::make();
    std::vector<object> pods;
    for (unsigned i = 0; i < 8000; ++i) pods.push_back(decode(*pool, pod(i)));
    pool->begin_generation();
    failure f;
    for (object& o : pods) o = pool->move(o, f);
    std::uint64_t before = pool->statistics().bytes, most = 0;
    const std::uint64_t both = before;
    for (bool clean = false; !clean;) {
        clean = pool->collect(600);
        const std::uint64_t now = pool->statistics().bytes;
        most = std::max(most, before - std::min(before, now));
        before = now;
    }
    CHECK(pool->statistics().generations == 1);
    CHECK(before < both * 6 / 10);
    CHECK(most <= 3 * 1024 * 1024);
    CHECK(both - before > 2 * most);
    for (unsigned i = 0; i < pods.size(); i += 500) CHECK(pods[i].to_json() == parse_object(pod(i)).to_json());
}
