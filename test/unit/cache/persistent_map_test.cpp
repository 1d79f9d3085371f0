#include "cache/persistent_map.hpp"

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

using namespace informer::detail;

namespace {

struct number {
    int key = 0;
    int value = 0;
    friend bool operator==(const number&, const number&) = default;
};

std::uint64_t spread(int key) {
    std::uint64_t h = static_cast<std::uint64_t>(key) * 0x9e3779b97f4a7c15u;
    h ^= h >> 32;
    return h * 0xd6e8feb86659fd93u;
}

struct good_traits {
    std::uint64_t hash(int key) const noexcept { return spread(key); }
    std::uint64_t hash(const number& n) const noexcept { return hash(n.key); }
    bool equal(const number& n, int key) const noexcept { return n.key == key; }
    bool equal(const number& a, const number& b) const noexcept { return a.key == b.key; }
};
// Three hashes in all, which differ only in the highest bits that the map uses.
struct colliding_traits : good_traits {
    std::uint64_t hash(int key) const noexcept { return static_cast<std::uint64_t>(key % 3) << 38; }
    std::uint64_t hash(const number& n) const noexcept { return hash(n.key); }
};
// Half of the bits never differ.
struct deep_traits : good_traits {
    std::uint64_t hash(int key) const noexcept { return spread(key) & 0xffc0000fffu; }
    std::uint64_t hash(const number& n) const noexcept { return hash(n.key); }
};

// All keys in one place of the first two levels; below, nodes are split by the bits that they keep of each hash.
struct crowded_traits : good_traits {
    std::uint64_t hash(int key) const noexcept { return spread(key) << 10; }
    std::uint64_t hash(const number& n) const noexcept { return hash(n.key); }
};

using model = std::map<int, int>;

template <class Map>
model contents(const Map& m) {
    model found;
    typename Map::cursor c(m);
    while (const number* n = c.next()) {
        const bool fresh = found.emplace(n->key, n->value).second;
        REQUIRE(fresh);
        REQUIRE(c.hash() == (m.traits().hash(*n) & ((std::uint64_t{1} << 42) - 1))); // all that the map uses of it
    }
    return found;
}

template <class Traits>
void compare_with_model(unsigned seed, int keys, int steps) {
    using map = persistent_map<number, Traits>;
    std::mt19937 random(seed);
    map m;
    model expected;
    std::vector<std::pair<map, model>> versions;
    for (int step = 0; step < steps; ++step) {
        const int key = static_cast<int>(random() % static_cast<unsigned>(keys));
        const auto there = expected.find(key);
        switch (random() % 8) {
        case 0:
        case 1:
        case 2:
        case 3: {
            const auto old = m.put(number{key, step});
            REQUIRE(old.has_value() == (there != expected.end()));
            if (old) REQUIRE(*old == number{key, there->second});
            expected[key] = step;
            break;
        }
        case 4:
        case 5:
        case 6: {
            const auto old = m.erase(key);
            REQUIRE(old.has_value() == (there != expected.end()));
            if (old) REQUIRE(old->value == there->second);
            expected.erase(key);
            break;
        }
        default: {
            number* n = m.edit(key);
            REQUIRE((n != nullptr) == (there != expected.end()));
            if (n) n->value = expected[key] = -step;
        }
        }
        REQUIRE(m.size() == expected.size());
        if (random() % 50 == 0) versions.emplace_back(m, expected);
        if (versions.size() > 8) versions.erase(versions.begin() + static_cast<long>(random() % versions.size()));
    }
    for (int key = 0; key < keys; ++key) {
        const number* n = m.find(key);
        const auto there = expected.find(key);
        REQUIRE((n != nullptr) == (there != expected.end()));
        if (n) REQUIRE(n->value == there->second);
    }
    REQUIRE(contents(m) == expected);
    for (const auto& [version, then] : versions) {
        REQUIRE(version.size() == then.size());
        REQUIRE(contents(version) == then);
    }
}

} // namespace

TEST_CASE("persistent map behaves like std::map and snapshots taken in between stay as they were") {
    for (unsigned seed = 0; seed < 10; ++seed) {
        compare_with_model<good_traits>(seed, 40, 2000);
        compare_with_model<good_traits>(seed, 3000, 6000);
        compare_with_model<crowded_traits>(seed, 300, 3000);
        compare_with_model<crowded_traits>(seed, 5000, 8000);
    }
}

TEST_CASE("persistent map keeps keys with equal hashes apart") {
    for (unsigned seed = 0; seed < 10; ++seed) {
        compare_with_model<colliding_traits>(seed, 60, 3000);
        compare_with_model<colliding_traits>(seed, 600, 3000);
        compare_with_model<deep_traits>(seed, 2000, 4000);
    }
}

TEST_CASE("persistent map of 200,000 entries: bytes are counted exactly down to zero") {
    persistent_map<number, good_traits> m;
    for (int i = 0; i < 200'000; ++i) m.put(number{i, i});
    REQUIRE(m.size() == 200'000);
    const auto full = m;
    const std::size_t bytes = m.bytes();
    REQUIRE(bytes > 200'000 * sizeof(number));
    REQUIRE(bytes < 200'000 * (sizeof(number) + 24));
    for (int i = 0; i < 200'000; ++i) REQUIRE(m.find(i)->value == i);
    for (int i = 0; i < 200'000; i += 2) REQUIRE(m.erase(i));
    REQUIRE(m.bytes() < bytes);
    for (int i = 0; i < 200'000; i += 2) m.put(number{i, i});
    REQUIRE(m.bytes() < bytes + bytes / 8); // the same content, except for free room in the nodes
    for (int i = 0; i < 200'000; ++i) REQUIRE(m.erase(i));
    REQUIRE(m.empty());
    REQUIRE(m.bytes() == 0);
    REQUIRE(full.size() == 200'000);
    REQUIRE(contents(full).size() == 200'000);
}

TEST_CASE("persistent map: keys may be prefetched whatever the map looks like") {
    const auto fill = [](auto map, int n) {
        for (int i = 0; i < n; ++i) map.put({i, i});
        for (int i = 0; i < 2 * n + 2; ++i) { // half of them are not there
            map.prefetch(static_cast<std::uint64_t>(i));
            const number* const found = map.find(i);
            if (i < n ? !found || found->value != i : found != nullptr) return false;
        }
        return true;
    };
    for (const int n : {0, 1, 9'999, 10'000, 70'000}) CHECK(fill(persistent_map<number, good_traits>(), n));
    CHECK(fill(persistent_map<number, deep_traits>(), 20'000));
    CHECK(fill(persistent_map<number, crowded_traits>(), 70'000));
}

TEST_CASE("persistent map edits in place what no snapshot holds and copies what one holds") {
    persistent_map<number, good_traits> m;
    for (int i = 0; i < 1000; ++i) m.put(number{i, i});
    const number* const before = m.find(7);
    m.put(number{7, 8});
    REQUIRE(m.find(7) == before);
    {
        const auto snapshot = m;
        m.put(number{7, 9});
        REQUIRE(m.find(7) != before);
        REQUIRE(snapshot.find(7) == before);
        REQUIRE(snapshot.find(7)->value == 8);
    }
    const number* const after = m.find(7);
    m.put(number{7, 10});
    REQUIRE(m.find(7) == after);
}

TEST_CASE("persistent map: a cursor outlives its map and goes on in slices") {
    auto m = std::make_unique<persistent_map<number, good_traits>>();
    for (int i = 0; i < 5000; ++i) m->put(number{i, i});
    persistent_map<number, good_traits>::cursor c(*m);
    std::size_t seen = 0;
    while (seen < 2000 && c.next()) ++seen;
    for (int i = 0; i < 5000; ++i) m->erase(i);
    m.reset();
    while (c.next()) ++seen;
    REQUIRE(seen == 5000);
    REQUIRE(c.next() == nullptr);
}

TEST_CASE("persistent map: a cursor over a prefix of the hash sees exactly its leaves") {
    persistent_map<number, good_traits> m;
    std::map<std::uint64_t, std::size_t> expected;
    for (const int entries : {3, 100, 20'000}) {
        for (int i = static_cast<int>(m.size()); i < entries; ++i) {
            m.put(number{i, i});
            ++expected[spread(i) & 1023];
        }
        for (std::uint64_t prefix = 0; prefix < 1024; ++prefix) {
            persistent_map<number, good_traits>::cursor c(m, prefix, 2);
            std::size_t matching = 0, others = 0;
            while (const number* n = c.next()) ++((spread(n->key) & 1023) == prefix ? matching : others);
            REQUIRE(matching == expected[prefix]);
            REQUIRE(others <= 1); // a leaf that lies above the prefix' end
        }
    }
}

TEST_CASE("persistent map: leaves are dropped as often as they were made") {
    struct counted_traits {
        std::uint64_t hash(const std::shared_ptr<int>& p) const noexcept { return spread(*p); }
        std::uint64_t hash(int k) const noexcept { return spread(k); }
        bool equal(const std::shared_ptr<int>& a, const std::shared_ptr<int>& b) const noexcept { return *a == *b; }
        bool equal(const std::shared_ptr<int>& a, int k) const noexcept { return *a == k; }
    };
    std::vector<std::shared_ptr<int>> all;
    for (int i = 0; i < 2000; ++i) all.push_back(std::make_shared<int>(i));
    {
        persistent_map<std::shared_ptr<int>, counted_traits> m;
        std::vector<persistent_map<std::shared_ptr<int>, counted_traits>> versions;
        for (int i = 0; i < 2000; ++i) {
            m.put(all[static_cast<std::size_t>(i)]);
            if (i % 100 == 0) versions.push_back(m);
            if (i % 3 == 0) m.erase(i / 2);
        }
        m.clear();
        REQUIRE(m.empty());
    }
    for (const auto& p : all) REQUIRE(p.use_count() == 1);
}

TEST_CASE("persistent map: what nobody needs is freed a little at a time, and what others share stays as it is") {
    using map = persistent_map<number, good_traits>;
    map m;
    for (int i = 0; i < 20'000; ++i) m.put(number{i, 1});
    const map other = m;
    for (int i = 0; i < 20'000; i += 2) m.put(number{i, 2});
    map third = m;
    for (int i = 0; i < 100; ++i) third.erase(i);
    const model expected = contents(other), expected_third = contents(third);

    constexpr std::size_t budget = 100;
    map::remains r;
    CHECK(r.empty());
    r.begin(std::move(m));
    std::size_t leaves = 0;
    while (!r.empty()) {
        const std::size_t used = r.step(budget, [&](const number&) { ++leaves; });
        REQUIRE(used <= budget + 65); // a bucket is not left half freed
    }
    CHECK(leaves <= 100 * 65); // those that only `m` had: `third` has the rest
    CHECK(contents(other) == expected);
    CHECK(contents(third) == expected_third);

    leaves = 0;
    std::size_t steps = 0;
    r.begin(std::move(third));
    for (; r.step(budget, [&](const number&) { ++leaves; }) != 0; ++steps) {
    }
    CHECK(leaves >= 10'000);
    CHECK(steps >= leaves / (budget + 65));
    CHECK(contents(other) == expected);
}

TEST_CASE("persistent map: the rest of a map that is being freed goes with the object that frees it") {
    struct shared_traits {
        std::uint64_t hash(const std::shared_ptr<int>& p) const noexcept { return spread(*p); }
        bool equal(const std::shared_ptr<int>& a, const std::shared_ptr<int>& b) const noexcept { return *a == *b; }
    };
    std::vector<std::shared_ptr<int>> all;
    for (int i = 0; i < 5000; ++i) all.push_back(std::make_shared<int>(i));
    {
        persistent_map<std::shared_ptr<int>, shared_traits>::remains r;
        persistent_map<std::shared_ptr<int>, shared_traits> m;
        for (const auto& p : all) m.put(p);
        r.begin(std::move(m));
        r.step(1000, [](const std::shared_ptr<int>&) {});
        const auto held = [](const std::shared_ptr<int>& p) { return p.use_count() == 2; };
        const auto left = std::count_if(all.begin(), all.end(), held);
        CHECK(left > 0);
        CHECK(left <= 4500);
    }
    for (const auto& p : all) REQUIRE(p.use_count() == 1);
}

TEST_CASE("persistent map: bits are counted alike with and without an instruction for that") {
    std::mt19937 random(4);
    for (int i = 0; i < 10'000; ++i) {
        const auto x = static_cast<std::uint32_t>(random() & random());
        REQUIRE(ones_portable(x) == static_cast<unsigned>(std::popcount(x)));
        REQUIRE(ones(x) == static_cast<unsigned>(std::popcount(x)));
    }
    REQUIRE(ones_portable(0) == 0);
    REQUIRE(ones_portable(~0u) == 32);
}

TEST_CASE("persistent map: readers on other threads see whole versions while one thread writes") {
    using map = persistent_map<number, good_traits>;
    std::mutex mutex;
    map published;
    std::atomic<bool> stop{false};
    std::atomic<int> torn{0};
    std::vector<std::thread> readers;
    for (int t = 0; t < 3; ++t) {
        readers.emplace_back([&] {
            while (!stop) {
                map mine;
                {
                    const std::lock_guard lock(mutex);
                    mine = published;
                }
                map::cursor c(mine);
                int common = -1;
                while (const number* n = c.next()) {
                    if (common != -1 && n->value != common) ++torn;
                    common = n->value;
                }
            }
        });
    }
    map m;
    for (int version = 0; version < 300; ++version) {
        for (int i = 0; i < 200; ++i) m.put(number{i, version});
        map old = m;
        const std::lock_guard lock(mutex);
        std::swap(published, old);
    }
    stop = true;
    for (auto& r : readers) r.join();
    REQUIRE(torn == 0);
}
