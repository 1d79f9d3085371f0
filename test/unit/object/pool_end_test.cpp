// Objects that are kept when their pool ends: they stay as they are, and keep little else.
#include "support/pod_generator.hpp"
#include "support/pool.hpp"

#include "object/detail/pool.hpp"

#include <informer/object/document_pool.hpp>

#include <catch2/catch_test_macros.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

using namespace informer;
using informer::testing::decode;
using informer::testing::drain;
using informer::testing::pod;

namespace {

/// What the generation of an object has in segments, its pool being gone and nobody else dropping objects of it.
std::uint64_t held_with(const object& o) {
    return o.root()->generation->segment_bytes();
}

std::vector<object> pods_of(document_pool& pool, unsigned n) {
    std::vector<object> all;
    for (unsigned i = 0; i < n; ++i) all.push_back(decode(pool, pod(i * 20)));
    return all;
}

} // namespace

TEST_CASE("an object that outlives its pool does not keep what other objects needed", "[pool]") {
    auto pool = document_pool::make();
    std::vector<object> pods = pods_of(*pool, 3000);
    const std::vector<object> kept{pods[7], pods[1500]};
    const std::string first = kept[0].to_json(), second = kept[1].to_json();
    const std::uint64_t full = held_with(kept[0]);
    SECTION("all others were dropped before and freed") {
        pods.clear();
        drain(*pool);
        pool.reset();
    }
    SECTION("all others were dropped, but not freed yet") {
        pods.clear();
        pool.reset();
    }
    SECTION("all others are dropped later") {
        pool.reset();
        CHECK(held_with(kept[0]) > full * 9 / 10);
        pods.clear();
    }
    CHECK(held_with(kept[0]) < full / 10);
    CHECK(kept[0].to_json() == first);
    CHECK(kept[1].to_json() == second);
}

TEST_CASE("an object of an old generation that outlives its pool keeps neither its generation nor the last", "[pool]") {
    auto pool = document_pool::make();
    std::vector<object> old = pods_of(*pool, 3000);
    const object kept = old[7];
    const std::string text = kept.to_json();
    const std::uint64_t full = held_with(kept);
    pool->begin_generation();
    std::vector<object> pods = pods_of(*pool, 3000);
    const object also = pods[8];
    old.clear();
    pods.clear();
    pool.reset();
    CHECK(held_with(kept) < full / 10);
    CHECK(held_with(also) < full / 10);
    CHECK(kept.to_json() == text);
}

TEST_CASE("objects that outlive their pool stay as they are while threads read and drop them", "[pool]") {
    for (unsigned seed = 0; seed < 20; ++seed) {
        INFO("seed " << seed);
        std::mt19937 random(seed);
        const auto below = [&random](std::size_t n) { return static_cast<std::size_t>(random() % n); };
        detail::pool_limits limits;
        limits.first_chunk = 256; // many small segments, each of which can go
        auto pool = detail::make_pool(decode_options(), limits);
        constexpr std::size_t threads = 3;
        std::vector<std::pair<object, std::string>> kept[threads];
        for (int generation = 0; generation < 3; ++generation) {
            if (generation > 0) pool->begin_generation();
            for (std::size_t i = 0; i < 120; ++i) {
                const std::string text = R"({"metadata":{"name":"n)" + std::to_string(i) + R"("},"data":[")" +
                                         std::string(below(40) * below(40), 'y') + R"(",{"common":"value )" +
                                         std::to_string(below(9)) + "\"}]}";
                kept[below(threads)].emplace_back(decode(*pool, text), text);
            }
        }
        std::atomic<std::size_t> differences{0};
        std::vector<std::thread> all;
        for (auto& mine : kept)
            all.emplace_back([&mine, &differences] {
                for (; !mine.empty(); mine.pop_back()) {
                    if (mine.back().first.to_json() != mine.back().second) ++differences;
                    if (mine.front().first.to_json() != mine.front().second) ++differences;
                }
            });
        pool.reset();
        for (std::thread& t : all) t.join();
        CHECK(differences == 0);
        // The address sanitizer sees a leak if the last of them did not free everything.
    }
}
