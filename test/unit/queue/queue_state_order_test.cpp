// The order in which a work queue hands out ready keys: priorities, ageing, fairness between groups.
#include "queue_state_scene.hpp"

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <random>
#include <string>
#include <utility>

using namespace queue_state_test;

namespace {

std::uint64_t first_letter(const std::string& k) {
    return static_cast<unsigned char>(k[0]);
}

} // namespace

TEST_CASE("higher priorities come first, FIFO within one priority") {
    state s = make();
    add(s, "l1", -100);
    add(s, "n1");
    add(s, "h1", 5);
    add(s, "l2", -100);
    add(s, "h2", 5);
    add(s, "n2");
    CHECK(all(s) == "h1 h2 n1 n2 l1 l2");
}

TEST_CASE(
    "adding a waiting key with a higher priority moves it to the end of that level, a lower one changes nothing") {
    state s = make();
    add(s, "a", -100);
    add(s, "b", 0);
    add(s, "c", -100);
    CHECK_FALSE(add(s, "a", 0));
    CHECK_FALSE(add(s, "b", -100));
    CHECK(s.ready() == 3);
    CHECK(all(s) == "b a c");
}

TEST_CASE("a delayed key takes the highest priority it was asked for, and overtakes when it becomes ready") {
    state s = make();
    s.add_at("a", start + 1s, 0);
    s.add_at("a", start + 9s, 10);
    s.add_at("b", start + 1s, 10);
    add(s, "b", 0); // due now, still with priority 10
    add(s, "c", 0);
    CHECK(pass(s) == "b");
    s.advance(start + 1s, 100);
    CHECK(all(s) == "a c");
}

TEST_CASE("a key in processing comes back with the priority of the new request, not with its old one") {
    state s = make();
    add(s, "a", 10);
    take(s);
    add(s, "a", -100);
    add(s, "b", 0);
    finish(s, "a");
    CHECK(all(s) == "b a");
    add(s, "a", 0);
    take(s);
    add(s, "a", -100);
    add(s, "a", 10);
    add(s, "b", 0);
    finish(s, "a");
    CHECK(all(s) == "a b");
}

TEST_CASE("many levels: the order holds, and empty levels do not pile up") {
    state s = make();
    for (int round = 0; round < 3; ++round) {
        for (int p = 0; p < 200; ++p) add(s, std::to_string(p), (p * 37) % 200 + round * 1000);
        int before = 100'000;
        for (state::index i = s.take(start); i != state::none; i = s.take(start)) {
            CHECK(s.priority_of(i) < before);
            before = s.priority_of(i);
            s.finish(i);
        }
    }
    const std::size_t bytes = s.bytes();
    for (int p = 0; p < 100'000; ++p) {
        add(s, "a", p);
        pass(s);
    }
    CHECK(s.bytes() <= bytes + 4096);
}

TEST_CASE(
    "ageing: while urgent keys keep coming, the p-th waiting one is handed out within share * L * (p + 1) hand-outs") {
    constexpr std::uint32_t share = 16;
    for (const std::uint32_t lower_levels : {1U, 2U, 5U}) {
        state s = make(share);
        constexpr std::uint32_t waiting = 20;
        for (std::uint32_t p = 0; p < waiting; ++p) {
            for (std::uint32_t l = 1; l <= lower_levels; ++l) {
                add(s, "low" + std::to_string(l) + "/" + std::to_string(p), -static_cast<int>(l));
            }
        }
        std::map<std::string, std::uint32_t> at;
        for (std::uint32_t n = 1; n <= share * lower_levels * waiting; ++n) {
            add(s, "urgent" + std::to_string(n), 100);
            at[pass(s)] = n;
        }
        std::uint32_t urgent = 0;
        for (const auto& [key, n] : at) urgent += key.starts_with("urgent") ? 1 : 0;
        CHECK(urgent >= (share - 1) * lower_levels * waiting); // and urgent ones keep their share
        for (std::uint32_t p = 0; p < waiting; ++p) {
            for (std::uint32_t l = 1; l <= lower_levels; ++l) {
                const std::string key = "low" + std::to_string(l) + "/" + std::to_string(p);
                REQUIRE(at.contains(key));
                CHECK(at[key] <= share * lower_levels * (p + 1));
            }
        }
    }
}

TEST_CASE("ageing: levels that appear later do not push back one that waits") {
    constexpr std::uint32_t share = 4;
    state s = make(share);
    add(s, "old", -1000);
    bool seen = false;
    for (std::uint32_t n = 0; n < share * 2 && !seen; ++n) {
        add(s, "urgent" + std::to_string(n), 100);
        add(s, "new" + std::to_string(n), -static_cast<int>(n));
        seen = pass(s) == "old";
    }
    CHECK(seen);
}

TEST_CASE("ageing: with groups, an item is handed out within share * groups * its place in its group") {
    constexpr std::uint32_t share = 4, groups = 5, each = 6;
    state s = make(share, [](const std::string& key) { return static_cast<std::uint64_t>(key.at(0)); });
    for (std::uint32_t place = 1; place <= each; ++place)
        for (std::uint32_t g = 0; g < groups; ++g) add(s, std::string(1, char('a' + g)) + std::to_string(place), -1);
    std::map<std::string, std::uint32_t> at;
    for (std::uint32_t n = 1; n <= share * groups * each; ++n) {
        add(s, "urgent" + std::to_string(n), 100);
        at[pass(s)] = n;
    }
    for (std::uint32_t place = 1; place <= each; ++place)
        for (std::uint32_t g = 0; g < groups; ++g) {
            const std::string key = std::string(1, char('a' + g)) + std::to_string(place);
            REQUIRE(at.contains(key));
            CHECK(at[key] <= share * groups * place);
        }
}

TEST_CASE("ageing: a share of 1 counts as 2, so that the highest level does not starve") {
    state s = make(1);
    add(s, "urgent", 100);
    for (int n = 0; n < 10; ++n) add(s, "low" + std::to_string(n), -n);
    CHECK(pass(s) == "urgent");
    add(s, "again", 100);
    CHECK(pass(s) == "low0");
    CHECK(pass(s) == "again");
}

TEST_CASE("ageing: one of every `share` hand-outs goes to a lower level, counted while one waits") {
    const auto add_some = [](state& s) {
        for (const char* k : {"l1", "l2"}) add(s, k, -1);
        for (const char* k : {"u1", "u2", "u3", "u4", "u5", "u6", "u7"}) add(s, k, 100);
    };
    state s = make(4);
    add_some(s);
    CHECK(all(s) == "u1 u2 u3 l1 u4 u5 u6 l2 u7");
    for (int n = 0; n < 10; ++n) {
        add(s, "alone", 100);
        CHECK(pass(s) == "alone");
    }
    add_some(s);
    CHECK(all(s) == "u1 u2 u3 l1 u4 u5 u6 l2 u7");
    for (const char* k : {"u1", "u2", "u3"}) add(s, k, 100);
    add(s, "l1", -1);
    CHECK(pass(s) == "u1");
    add(s, "l1", 100); // none waits any more
    CHECK(all(s) == "u2 u3 l1");
    add_some(s);
    CHECK(all(s) == "u1 u2 u3 l1 u4 u5 u6 l2 u7");
}

TEST_CASE("ageing: a hand-out that is due to a lower level goes there even if the highest level is another by then") {
    state s = make(2);
    add(s, "middle", 0);
    add(s, "low", -1);
    add(s, "high", 1);
    CHECK(all(s) == "high low middle");
}

TEST_CASE("ageing: of the lower levels comes first the one that has waited longest, if anything waits there") {
    state s = make(2);
    add(s, "empty", -1);
    CHECK(pass(s) == "empty");
    add(s, "first", -3);
    add(s, "second", -4);
    add(s, "third", -2);
    for (const char* k : {"u1", "u2", "u3", "u4"}) add(s, k, 100);
    CHECK(all(s) == "u1 first u2 second u3 third u4");
}

TEST_CASE("without ageing a lower priority never overtakes") {
    state s = make(0);
    add(s, "low", -1);
    for (int n = 0; n < 1000; ++n) {
        add(s, "urgent", 1);
        CHECK(pass(s) == "urgent");
    }
    CHECK(all(s) == "low");
}

TEST_CASE("fairness: the groups of a level take turns, FIFO within a group") {
    state s = make(0, first_letter);
    for (const char* k : {"a1", "a2", "a3", "a4", "b1", "b2", "c1"}) add(s, k);
    CHECK(all(s) == "a1 b1 c1 a2 b2 a3 a4");
}

TEST_CASE("fairness: a new group, or one that comes back, stands at the end of the round") {
    state s = make(0, first_letter);
    for (const char* k : {"a1", "a2", "a3", "b1", "b2"}) add(s, k);
    CHECK(pass(s) == "a1");
    add(s, "c1");
    CHECK(pass(s) == "b1");
    CHECK(pass(s) == "a2");
    CHECK(all(s) == "c1 b2 a3");
}

TEST_CASE("fairness: priority comes first, and raising a key takes it out of its group's line") {
    state s = make(0, first_letter);
    for (const char* k : {"a1", "a2", "b1"}) add(s, k);
    add(s, "c1", 7);
    add(s, "a2", 7);
    add(s, "a1", 7);
    CHECK(all(s) == "c1 a2 a1 b1");
    CHECK(s.known() == 0);
}

TEST_CASE("an item whose key nobody looked at goes back to the head of its level") {
    state s = make();
    add(s, "a");
    add(s, "b");
    const state::index i = s.take(start);
    s.give_back(i, 0);
    CHECK(all(s) == "a b");
    // If it is asked for meanwhile, for later or more urgently, it waits once, with the higher priority.
    add(s, "a");
    add(s, "b");
    const state::index again = s.take(start);
    s.add_at("a", start + 5s, 3);
    add(s, "c", 1);
    s.give_back(again, 0);
    CHECK(s.delayed() == 0);
    CHECK(all(s) == "a c b");
}

TEST_CASE("an item that goes back to the head of its level stands before those that wait, and they lose nothing") {
    state s = make(0, first_letter);
    for (const char* k : {"a1", "b1", "a2", "b2"}) add(s, k);
    s.give_back(s.take(start), 0);
    CHECK(s.dirty() == 0);
    add(s, "a3");
    CHECK(all(s) == "a1 b1 a2 b2 a3");
    for (const char* k : {"a1", "a2", "a3"}) add(s, k);
    s.give_back(s.take(start), 0);
    add(s, "a2", 1); // which stood at the head meanwhile
    CHECK(all(s) == "a2 a1 a3");
}

TEST_CASE("fairness: keys that were delayed, or asked for during their work, take turns as well") {
    state s = make(0, first_letter);
    for (const char* k : {"a1", "a2", "a3", "b1", "c1"}) s.add_at(k, start + 1s, 0);
    s.advance(start + 1s, 100);
    CHECK(all(s) == "a1 b1 c1 a2 a3");
    for (const char* k : {"a1", "a2", "b1"}) add(s, k);
    for (int n = 0; n < 3; ++n) take(s);
    for (const char* k : {"a1", "a2", "b1"}) {
        add(s, k);
        finish(s, k);
    }
    CHECK(all(s) == "a1 b1 a2");
}

namespace {

/// Levels of groups that take turns, in the simplest way. A level starts with the group whose turn is next.
class turns {
public:
    void add(const std::string& key, int priority) {
        auto& level = levels_[-priority];
        const auto at = std::find_if(level.begin(), level.end(), [&](const auto& g) { return g.front()[0] == key[0]; });
        if (at == level.end()) {
            level.push_back({key});
        } else {
            at->push_back(key);
        }
    }
    void remove(const std::string& key, int priority) {
        auto& level = levels_.at(-priority);
        for (auto& group : level) std::erase(group, key);
        clean(-priority);
    }
    std::pair<std::string, int> pop() {
        const auto first = levels_.begin();
        if (first == levels_.end()) return {"-", 0};
        const int priority = -first->first;
        auto& level = first->second;
        const std::string key = level.front().front();
        level.front().pop_front();
        std::rotate(level.begin(), level.begin() + 1, level.end());
        clean(-priority);
        return {key, priority};
    }
    void give_back(const std::string& key, int priority) {
        auto& level = levels_[-priority];
        auto at = std::find_if(level.begin(), level.end(), [&](const auto& g) { return g.front()[0] == key[0]; });
        if (at == level.end()) at = level.insert(level.end(), std::deque<std::string>());
        at->push_front(key);
        std::rotate(level.begin(), at, level.end());
    }

private:
    void clean(int level) {
        std::erase_if(levels_[level], [](const auto& group) { return group.empty(); });
        if (levels_[level].empty()) levels_.erase(level);
    }
    std::map<int, std::deque<std::deque<std::string>>> levels_; // the highest priority first
};

} // namespace

TEST_CASE("fairness: whatever comes, rises or goes back, groups take turns") {
    for (const std::uint64_t seed : {1U, 2U, 3U, 4U}) {
        CAPTURE(seed);
        std::mt19937_64 random(seed);
        const auto draw = [&random](std::uint64_t n) { return static_cast<int>(random() % n); };
        state s = make(0, first_letter);
        turns model;
        std::map<std::string, int> waiting; // with their priorities
        for (int step = 0; step < 20'000; ++step) {
            const int what = draw(step % 1000 < 500 ? 5 : 8);
            if (what < 3) {
                const std::string key = std::string(1, static_cast<char>('a' + draw(6))) + std::to_string(draw(20));
                const int priority = draw(seed);
                const auto [at, fresh] = waiting.try_emplace(key, priority);
                REQUIRE(add(s, key, priority) == fresh);
                if (!fresh && priority <= at->second) continue;
                if (!fresh) model.remove(key, at->second);
                model.add(key, priority);
                at->second = priority;
                continue;
            }
            const auto [key, priority] = model.pop();
            const state::index i = s.take(start);
            REQUIRE((i == state::none ? "-" : s.key_of(i)) == key);
            if (i == state::none) continue;
            if (what == 3) {
                s.give_back(i, priority);
                model.give_back(key, priority);
            } else {
                s.finish(i);
                waiting.erase(key);
            }
            REQUIRE(s.known() == waiting.size());
        }
    }
}

TEST_CASE("an item that is given back unseen keeps the higher priority that was asked for meanwhile") {
    state s = make();
    add(s, "a", -100);
    const state::index i = s.take(start);
    add(s, "a", 10);
    add(s, "b", 5);
    s.give_back(i, -100);
    CHECK(s.dirty() == 0);
    CHECK(all(s) == "a b");
    add(s, "a", 10);
    const state::index urgent = s.take(start);
    add(s, "a", -100); // nor does it sink
    add(s, "b", 5);
    s.give_back(urgent, 10);
    CHECK(all(s) == "a b");
}
