#include "cache/published.hpp"

#include "pods.hpp"

#include <informer/cache/indexer.hpp>

#include <catch2/catch_test_macros.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

using namespace informer;
using informer::testing::make_pod;
using numbers = detail::published<std::uint64_t>;

namespace {

std::shared_ptr<const std::uint64_t> number(std::uint64_t n) {
    return std::make_shared<const std::uint64_t>(n);
}

} // namespace

TEST_CASE("published: readers see what was stored last, and what they hold stays") {
    numbers p(number(1));
    const auto first = p.load();
    p.store(number(2));
    REQUIRE(*first == 1);
    REQUIRE(*p.load() == 2);
    REQUIRE(*p.current() == 2);
    REQUIRE(p.stores() == 1);
    REQUIRE(p.overlaps() == 0);
    REQUIRE(p.waits() == 0);
}

TEST_CASE("published: a state is freed as soon as it is replaced and nobody holds it") {
    auto state = number(1);
    const std::weak_ptr<const std::uint64_t> watched = state;
    numbers p(std::move(state));
    for (int i = 0; i < 1000; ++i) static_cast<void>(p.load());
    REQUIRE_FALSE(watched.expired());
    p.store(number(2));
    REQUIRE(watched.expired());
}

TEST_CASE("published: readers stopped amid a read, each in another state, do not hold up the writer") {
    numbers p(number(0));
    std::deque<numbers::reading> stopped;
    for (std::uint64_t i = 0; i + 1 < numbers::slots; ++i) {
        stopped.emplace_back(p);
        p.store(number(i + 1)); // the last one takes the last slot
    }
    REQUIRE(p.waits() == 0);
    REQUIRE(p.overlaps() == numbers::slots - 1);
    std::uint64_t expected = 0;
    for (const auto& r : stopped) REQUIRE(*r.state() == expected++);
    REQUIRE(*p.load() == numbers::slots - 1);
    // One of them goes on: its slot is enough for all further states.
    const std::weak_ptr<const std::uint64_t> oldest = stopped.front().state();
    stopped.pop_front();
    for (int i = 0; i < 1000; ++i) p.store(number(1000));
    REQUIRE(oldest.expired());
    REQUIRE(p.waits() == 0);
}

TEST_CASE("published: with every slot taken the writer waits for one reader, and counts that") {
    numbers p(number(0));
    std::deque<numbers::reading> stopped;
    for (std::uint64_t i = 0; i + 1 < numbers::slots; ++i) {
        stopped.emplace_back(p);
        p.store(number(i + 1));
    }
    stopped.emplace_back(p);
    std::thread writer([&p] { p.store(number(99)); });
    while (p.waits() == 0) std::this_thread::yield();
    REQUIRE(*p.load() == numbers::slots - 1); // readers never wait
    stopped.pop_front();
    writer.join();
    REQUIRE(*p.load() == 99);
}

TEST_CASE("published: threads read whole states in order while one writes") {
    struct pair {
        std::uint64_t a = 0, b = 0;
    };
    constexpr std::uint64_t last = 20'000;
    detail::published<pair> p(std::make_shared<const pair>());
    std::atomic<int> wrong{0};
    std::vector<std::thread> readers;
    for (int i = 0; i < 4; ++i) {
        readers.emplace_back([&] {
            for (std::uint64_t seen = 0; seen < last;) {
                const auto s = p.load();
                if (s->b != ~s->a && s->a != 0) ++wrong;
                if (s->a < seen) ++wrong;
                seen = s->a;
            }
        });
    }
    for (std::uint64_t i = 1; i <= last; ++i) p.store(std::make_shared<const pair>(pair{i, ~i}));
    for (auto& t : readers) t.join();
    REQUIRE(wrong == 0);
    REQUIRE(p.stores() == last);
    REQUIRE(p.waits() == 0); // at most four slots can be busy
}

namespace {

std::unique_ptr<indexer> filled(std::size_t n) {
    auto cache = std::make_unique<indexer>();
    cache->add_index("node", index_by_pointer("/spec/nodeName"));
    const auto pool = document_pool::make();
    failure f;
    for (std::size_t i = 0; i < n; ++i) {
        const std::string k = std::to_string(i);
        const std::string json = R"({"metadata":{"name":"p)" + k + R"(","namespace":"ns"},"spec":{"nodeName":"n)" +
                                 std::to_string(i % 100) + "\"}}";
        cache->put(pool->decode(json, object(), f));
    }
    cache->publish();
    return cache;
}

} // namespace

TEST_CASE("a snapshot of 200,000 objects shares the state of the cache, as one of 200 does: nothing is copied") {
    for (const std::size_t n : {200u, 200'000u}) {
        const auto cache = filled(n);
        const cache_snapshot s = cache->snapshot();
        REQUIRE(s.size() == n);
        REQUIRE(s.contents() == cache->snapshot().contents());
        const auto before = cache->publication();
        for (int i = 0; i < 1000; ++i) REQUIRE(cache->snapshot().contents() == s.contents());
        const auto after = cache->publication();
        REQUIRE(after.published == before.published);
        REQUIRE(after.waits == 0);
    }
}
