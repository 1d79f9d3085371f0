// A work queue's decisions against a model of them.
#include "queue_state_scene.hpp"

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>

using namespace queue_state_test;

namespace {

/// What a queue must do, in the simplest and slowest way.
class model {
public:
    struct entry {
        bool ready = false, processing = false, dirty = false;
        std::optional<time_point> due;
        int priority = 0;
        std::uint32_t requeues = 0;
        std::uint64_t place = 0; ///< in line
    };
    std::map<std::string, entry> items;
    std::uint64_t clock = 0;

    void request(const std::string& key, int priority) {
        entry& e = items[key];
        if (e.due) priority = std::max(priority, e.priority);
        if (e.ready || e.dirty) {
            if (priority > e.priority) {
                e.priority = priority;
                e.place = ++clock;
            }
            return;
        }
        e.due.reset();
        e.priority = priority;
        e.place = ++clock;
        (e.processing ? e.dirty : e.ready) = true;
    }
    void delay(const std::string& key, time_point when, int priority) {
        entry& e = items[key];
        if (e.ready || e.dirty) return request(key, priority);
        e.priority = e.due ? std::max(e.priority, priority) : priority;
        e.due = e.due ? std::min(*e.due, when) : when;
    }
    std::string expected() const {
        const entry* best = nullptr;
        std::string key = "-";
        for (const auto& [k, e] : items) {
            if (!e.ready) continue;
            if (best != nullptr &&
                (e.priority < best->priority || (e.priority == best->priority && e.place > best->place))) {
                continue;
            }
            best = &e;
            key = k;
        }
        return key;
    }
    void finish(const std::string& key) {
        entry& e = items[key];
        e.processing = false;
        if (e.dirty) {
            e.dirty = false;
            e.ready = true;
            e.place = ++clock;
        }
        clean(key);
    }
    void clean(const std::string& key) {
        const entry& e = items[key];
        if (!e.ready && !e.processing && !e.due && e.requeues == 0) items.erase(key);
    }
};

} // namespace

TEST_CASE("random requests, hand-outs and times: no two holders, nothing lost, always the order of the model") {
    for (const std::uint64_t seed : {1U, 2U, 3U, 4U, 5U, 6U}) {
        CAPTURE(seed);
        std::mt19937_64 random(seed);
        state s = make(0);
        model m;
        std::set<std::string> held;
        time_point now = start;
        const auto draw = [&random](std::uint64_t n) { return random() % n; };
        for (int step = 0; step < 20'000; ++step) {
            const std::string key = "key-number-" + std::to_string(draw(seed % 2 == 0 ? 40 : 400));
            const int priority = static_cast<int>(draw(4)) - 2;
            switch (draw(8)) {
            case 0:
            case 1:
                s.add(key, priority, now);
                m.request(key, priority);
                break;
            case 2: {
                const time_point when =
                    now + std::chrono::nanoseconds(1 + draw(1000) * 1000 + static_cast<unsigned>(step % 1000));
                s.add_at(key, when, priority);
                m.delay(key, when, priority);
                break;
            }
            case 3: {
                if (draw(4) != 0) break;
                const auto d = s.add_rate_limited(key, priority, now);
                const bool in_line = m.items[key].ready || m.items[key].dirty;
                REQUIRE(d == rate_limiter::duration(in_line ? 0s : 1s) * (1 << m.items[key].requeues));
                m.delay(key, now + *d, priority);
                if (++m.items[key].requeues > 5) {
                    s.forget(s.find(key));
                    m.items[key].requeues = 0;
                    m.clean(key);
                }
                break;
            }
            case 4: {
                now += std::chrono::nanoseconds(draw(100'000));
                s.advance(now, 1'000'000);
                std::multimap<time_point, std::string> due;
                for (const auto& [k, e] : m.items) {
                    if (e.due && *e.due <= now) due.emplace(*e.due, k);
                }
                for (const auto& [when, k] : due) m.request(k, m.items[k].priority);
                break;
            }
            case 5:
            case 6: {
                const std::string expected = m.expected();
                const std::string got = take(s, now);
                REQUIRE(got == expected);
                if (got == "-") break;
                REQUIRE(held.insert(got).second);
                m.items[got].ready = false;
                m.items[got].processing = true;
                break;
            }
            default: {
                if (held.empty()) break;
                auto at = std::next(held.begin(), static_cast<std::ptrdiff_t>(draw(held.size())));
                finish(s, *at);
                m.finish(*at);
                held.erase(at);
            }
            }
            REQUIRE(s.known() == m.items.size());
            REQUIRE(s.processing() == held.size());
        }
        std::size_t ready = 0, delayed = 0;
        for (const auto& [k, e] : m.items) {
            const state::index i = s.find(k);
            REQUIRE(i != state::none);
            CHECK(s.requeues_of(i) == e.requeues);
            ready += e.ready ? 1 : 0;
            delayed += e.due ? 1 : 0;
        }
        CHECK(s.ready() == ready);
        CHECK(s.delayed() == delayed);
    }
}
