// The table under the pool, against a plain map, with good hashes and with the worst.
#include "object/detail/intern_table.hpp"
#include "root/hash.hpp"

#include <catch2/catch_test_macros.hpp>

#include <cstdint>
#include <functional>
#include <random>
#include <set>
#include <string>

using namespace informer::detail;

namespace {

void compare_with_map(const std::function<std::uint64_t(std::uint32_t)>& hash_of, std::uint32_t range, int steps) {
    intern_table table;
    std::set<std::uint32_t> expected;
    std::mt19937 random(5);
    const auto find = [&](std::uint32_t k) {
        return table.find(hash_of(k), [&](handle h) { return h == (node_bit | k); });
    };
    for (int i = 0; i < steps; ++i) {
        const std::uint32_t k = static_cast<std::uint32_t>(random()) % range;
        if ((find(k) != 0) != (expected.count(k) != 0)) FAIL("wrong answer for " << k);
        if (expected.erase(k)) {
            table.erase(hash_of(k), node_bit | k);
        } else {
            table.reserve(hash_of(k));
            table.insert(hash_of(k), node_bit | k);
            expected.insert(k);
        }
    }
    std::uint32_t wrong = 0;
    for (std::uint32_t k = 0; k < range; ++k) wrong += (find(k) != 0) != (expected.count(k) != 0);
    CHECK(wrong == 0);
}

} // namespace

TEST_CASE("the intern table finds what is in it and nothing else", "[pool]") {
    const hash_seed seed = hash_seed::random();
    const auto good = [&](std::uint32_t k) { return hash_bytes(seed, 1, &k, 4); };
    compare_with_map(good, 100, 5'000);
    compare_with_map(good, 30'000, 150'000);
    // All in one place, all under one leading pattern, neighbours in order.
    compare_with_map([](std::uint32_t) { return std::uint64_t{0x1234'5678} << 32; }, 200, 3'000);
    compare_with_map([](std::uint32_t k) { return (std::uint64_t{0xabcd'0000} | (k & 0xff)) << 32; }, 2'000, 10'000);
    compare_with_map([](std::uint32_t k) { return std::uint64_t{k} << 32; }, 2'000, 10'000);
}

TEST_CASE("the hash takes every byte, the length, the tag and the seed into account", "[pool]") {
    const hash_seed seed = hash_seed::random(), other = hash_seed::random();
    std::set<std::uint64_t> seen;
    std::size_t made = 0;
    for (std::size_t size = 0; size < 200; ++size) {
        std::string s(size, 'a');
        const auto add = [&](hash_seed which, std::uint32_t tag) {
            seen.insert(hash_bytes(which, tag, s.data(), s.size()));
            ++made;
        };
        add(seed, 1);
        add(seed, 2);
        add(other, 1);
        for (std::size_t i = 0; i < size; ++i) {
            s[i] = 'b';
            add(seed, 1);
            s[i] = 'a';
        }
    }
    CHECK(seen.size() == made);
}
