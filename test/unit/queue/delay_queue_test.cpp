#include <informer/queue/detail/delay_queue.hpp>

#include <catch2/catch_test_macros.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <map>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

using namespace informer;
using namespace std::chrono_literals;

namespace {

using table = detail::item_table<std::string, queue_hash<std::string>, std::equal_to<>>;
using delays = detail::delay_queue<table>;
using time_point = delays::time_point;

} // namespace

TEST_CASE("delayed items come out by time, then by arrival, whatever is brought forward or taken out") {
    // 0: any times · 1: mostly in order · 2: always in order · 3: an item far away first, then in order · 4: any of a few
    const auto of_few = [](time_point t) { return time_point(t.time_since_epoch() / 1000 * 1000); };
    for (const int pattern : {0, 1, 2, 3, 4}) {
        for (const std::uint64_t seed : {1U, 2U, 3U}) {
            CAPTURE(pattern, seed);
            std::mt19937_64 random(seed);
            const auto draw = [&random](std::uint64_t n) { return static_cast<int>(random() % n); };
            table items(false);
            delays d;
            std::map<std::pair<time_point, int>, detail::item_index> expected; // (when, arrival) -> item
            std::map<detail::item_index, std::pair<time_point, int>> known;
            int arrival = 0, names = 0;
            time_point now(1h);
            const auto pop = [&] {
                const auto first = expected.begin();
                REQUIRE(d.front() == first->second);
                REQUIRE(d.next() == first->first.first);
                d.remove(items, first->second);
                REQUIRE_FALSE(items[first->second].delayed());
                items.erase(first->second);
                known.erase(first->second);
                expected.erase(first);
            };
            for (int step = 0; step < 30'000; ++step) {
                const int what = draw(step < 15'000 ? 10 : 16);
                if (what < 7) {
                    time_point when = now + (pattern % 4 == 0 ? std::chrono::nanoseconds(draw(5000)) : 5000ns);
                    if (pattern == 1 && draw(10) == 0) when -= std::chrono::nanoseconds(draw(4000));
                    if (pattern == 3 && step == 0) when += 1h;
                    if (pattern == 4) when = of_few(when);
                    const auto i = items.find_or_add(std::to_string(names++));
                    d.push(items, i, when);
                    known[i] = {when, arrival};
                    expected[known[i]] = i;
                    ++arrival;
                } else if (what == 7 && !known.empty()) {
                    const auto at = std::next(known.begin(), draw(std::min<std::size_t>(known.size(), 50)));
                    expected.erase(at->second);
                    if (draw(2) == 0) {
                        REQUIRE(d.when(items, at->first) == at->second.first);
                        time_point when = at->second.first - std::chrono::nanoseconds(1 + draw(3000));
                        if (pattern == 4) when = of_few(when);
                        d.bring_forward(items, at->first, when);
                        at->second = {when, arrival++};
                        expected[at->second] = at->first;
                    } else {
                        d.remove(items, at->first);
                        items.erase(at->first);
                        known.erase(at);
                    }
                } else if (!expected.empty()) {
                    pop();
                }
                now += std::chrono::nanoseconds(draw(4));
                REQUIRE(d.size() == expected.size());
            }
            while (!expected.empty()) pop();
            CHECK(d.empty());
            CHECK(items.size() == 0);
            CHECK(d.bytes() <= 2 * 2048 * 16);
        }
    }
}

TEST_CASE("items that are taken out long before they are due leave no room behind, and the others their order") {
    table items(false);
    delays d;
    std::map<time_point, detail::item_index> expected;
    int names = 0;
    const auto push = [&](time_point when) {
        const auto i = items.find_or_add(std::to_string(names++));
        d.push(items, i, when);
        expected[when] = i;
    };
    const auto take_out = [&](std::map<time_point, detail::item_index>::iterator at) {
        d.remove(items, at->second);
        items.erase(at->second);
        return expected.erase(at);
    };
    for (int n = 0; n < 10'000; ++n) push(time_point(1h) + n * 1us);
    const std::size_t full = d.bytes();
    CHECK(full >= 10'000 * 16);                                // what an item takes
    for (int n = 0; n < 6000; ++n) take_out(expected.begin()); // when they are due
    int n = 0;
    for (auto at = std::next(expected.begin()); std::next(at) != expected.end();) {
        at = n++ % 100 == 50 ? std::next(at) : take_out(at);
    }
    CHECK(d.size() == expected.size());
    CHECK(d.bytes() < full / 10);
    const std::size_t few = d.bytes();
    for (int round = 0; round < 100'000; ++round) { // the first and the last stay
        push(time_point(2h) + round * 1us);
        const auto last = std::prev(expected.end());
        if (round > 0) take_out(std::prev(last));
    }
    CHECK(d.bytes() <= few + 1024 * 16);
    // Where the others are is still known.
    for (const auto& [when, i] : expected) REQUIRE(d.when(items, i) == when);
    const auto second = std::next(expected.begin());
    d.bring_forward(items, second->second, time_point(1min));
    expected[time_point(1min)] = second->second;
    expected.erase(second);
    take_out(std::next(expected.begin(), 5));
    while (!expected.empty()) {
        REQUIRE(d.front() == expected.begin()->second);
        REQUIRE(d.next() == expected.begin()->first);
        take_out(expected.begin());
    }
    CHECK(d.empty());
}

TEST_CASE("keys cannot be chosen so that they collide in the table") {
    const auto slot = [](std::size_t hash) { return (hash * 0x9e3779b97f4a7c15U) >> 32 & 4095; };
    std::set<std::size_t> slots;
    int chosen = 0;
    for (int i = 0; chosen < 64; ++i) {
        const std::string name = "default/pod-" + std::to_string(i);
        if (slot(std::hash<std::string>()(name)) != 0) continue; // a hash that anybody can compute
        ++chosen;
        slots.insert(slot(queue_hash<std::string>()(name)));
    }
    CHECK(slots.size() > 32);
}
