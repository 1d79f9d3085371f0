// Free room of one length serves texts of another.
#include "object/detail/generation.hpp"
#include "support/pool.hpp"

#include <informer/object/document_pool.hpp>

#include <catch2/catch_test_macros.hpp>

#include <cstddef>
#include <random>
#include <string>
#include <vector>

using namespace informer;
using informer::testing::decode;
using informer::testing::drain;

namespace {

/// A document with one text of `bytes` bytes that no other document has.
std::string unlike_any(unsigned index, unsigned revision, std::size_t bytes) {
    std::string text = std::to_string(index) + " of revision " + std::to_string(revision) + ' ';
    text.resize(bytes, '.');
    return R"({"text":")" + text + "\"}";
}

} // namespace

TEST_CASE("the room of shorter texts, or of texts of any length, is used again", "[pool]") {
    const auto pool = document_pool::make();
    constexpr unsigned count = 20'000;
    std::vector<object> held(count);
    const auto update = [&](unsigned revision, const auto& bytes) {
        for (unsigned i = 0; i < count; ++i) held[i] = decode(*pool, unlike_any(i, revision, bytes()), held[i]);
        drain(*pool);
        const pool_statistics s = pool->statistics();
        return static_cast<double>(s.bytes) / static_cast<double>(s.node_bytes);
    };
    std::mt19937 random(3);
    const auto any = [&] { return 100 + random() % 900; };
    for (unsigned revision = 0; revision < 10; ++revision) CHECK(update(revision, any) < 1.3);
    // Longer in each round: no room that was freed before is long enough by itself.
    for (unsigned revision = 10; revision < 25; ++revision)
        CHECK(update(revision, [&] { return 1000 + 8 * revision; }) < 2.2);
    for (unsigned i = 0; i < count; i += 50) CHECK(held[i].to_json() == unlike_any(i, 24, 1000 + 8 * 24));
    held.clear();
    drain(*pool);
    CHECK(pool->statistics().nodes == 0);
}

TEST_CASE("free room is joined in shares, whatever comes meanwhile", "[pool]") {
    const auto pool = document_pool::make();
    constexpr unsigned count = 20'000;
    std::vector<object> held(count);
    std::size_t shares = 0;
    const auto bytes = [](unsigned i, unsigned revision) { return 1500 + 40 * revision + i % 7; };
    for (unsigned revision = 0; revision < 6; ++revision) {
        for (unsigned i = 0; i < count; ++i) {
            held[i] = decode(*pool, unlike_any(i, revision, bytes(i, revision)), held[i]);
            if (i % 16 == 0) shares += !pool->collect(64); // the document before died, and little else
        }
        for (unsigned i = 0; i < count; i += 100)
            REQUIRE(held[i].to_json() == unlike_any(i, revision, bytes(i, revision)));
        const pool_statistics s = pool->statistics();
        CHECK(s.bytes < s.node_bytes * 9 / 4);
    }
    CHECK(shares > 0);
    for (unsigned i = 0; i < count; i += 2) held[i] = object();
    drain(*pool);
    CHECK(pool->wants_compaction());
    held.clear();
    drain(*pool);
    CHECK(pool->statistics().bytes < 100'000);
}

TEST_CASE("a pool is not full while its free room would suffice, in pieces that are all too small", "[pool]") {
    detail::pool_limits limits;
    limits.max_bytes = 16 * 1024 * 1024;
    const auto pool = detail::make_pool(decode_options(), limits);
    std::vector<object> held(5'000);
    failure f;
    for (std::size_t bytes = 400; bytes < 1'200; bytes += 20)
        for (std::size_t i = 0; i < held.size(); ++i) {
            held[i] = pool->decode(unlike_any(static_cast<unsigned>(i), 0, bytes), held[i], f);
            REQUIRE_FALSE(f);
        }
}

TEST_CASE("a pool that was full of short texts takes as many bytes of longer ones when they are gone", "[pool]") {
    detail::pool_limits limits;
    limits.max_bytes = 16 * 1024 * 1024;
    const auto pool = detail::make_pool(decode_options(), limits);
    std::vector<object> held;
    failure f;
    while (!f) held.push_back(pool->decode(unlike_any(static_cast<unsigned>(held.size()), 0, 400), object(), f));
    REQUIRE(held.size() > 30'000);
    held.resize(1);
    for (unsigned i = 0; i < 1'800; ++i) {
        held.push_back(pool->decode(unlike_any(i, 1, 8'000), object(), f));
        REQUIRE_FALSE(f);
    }
}
