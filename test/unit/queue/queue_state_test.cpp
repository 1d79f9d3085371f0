// Which keys a work queue knows, when they are due, and what remains of them.
#include "queue_state_scene.hpp"

#include <catch2/catch_test_macros.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

using namespace queue_state_test;

TEST_CASE("Q1 a key in processing that is added is marked and queued when done, once") {
    state s = make();
    CHECK(add(s, "a"));
    CHECK(take(s) == "a");
    CHECK(add(s, "a"));
    CHECK_FALSE(add(s, "a"));
    CHECK(s.ready() == 0);
    CHECK(take(s) == "-"); // never to two at once
    finish(s, "a");
    CHECK(s.ready() == 1);
    CHECK(all(s) == "a");
    CHECK(s.known() == 0);
}

TEST_CASE("Q1 nothing is added after shutdown; what was marked before is still handed out") {
    state s = make();
    add(s, "a");
    CHECK(take(s) == "a");
    add(s, "a");
    add(s, "b");
    s.shut_down();
    CHECK_FALSE(add(s, "c"));
    CHECK_FALSE(s.add_at("c", start, 0));
    CHECK_FALSE(s.add_rate_limited("c", 0, start));
    CHECK(pass(s) == "b");
    finish(s, "a");
    const state::index a = s.take(start);
    CHECK_FALSE(s.request(a, 0, start));
    CHECK_FALSE(s.delay(a, start + 1s, 0));
    CHECK_FALSE(s.finish(a));
    CHECK(s.known() == 0);
}

TEST_CASE("Q3 a marked key goes to the tail when it is done") {
    state s = make();
    add(s, "a");
    CHECK(take(s) == "a");
    add(s, "b");
    add(s, "a");
    add(s, "c");
    finish(s, "a");
    CHECK(all(s) == "b c a");
}

TEST_CASE("Q6 delayed keys come when they are due, in the order of time, equal times in the order they came") {
    state s = make();
    s.add_at("c", start + 3s, 0);
    s.add_at("a", start + 1s, 0);
    s.add_at("b2", start + 2s, 0);
    s.add_at("b3", start + 2s, 0);
    s.add_at("b1", start + 2s, 0);
    CHECK(s.ready() == 0); // delayed keys do not count towards the length
    CHECK(s.next_due() == start + 1s);
    CHECK(s.advance(start + 999ms, 100) == 0);
    CHECK(s.advance(start + 1s, 100) == 1);
    CHECK(all(s) == "a");
    CHECK(s.advance(start + 10s, 100) == 4);
    CHECK(all(s) == "b2 b3 b1 c");
    CHECK(s.next_due() == time_point::max());
}

TEST_CASE("Q6 the earliest of several times wins, whichever came first") {
    state s = make();
    CHECK(s.add_at("a", start + 5s, 0));
    CHECK(s.add_at("a", start + 2s, 0));
    CHECK_FALSE(s.add_at("a", start + 9s, 0));
    CHECK(s.delayed() == 1);
    CHECK(s.next_due() == start + 2s);
    s.advance(start + 2s, 100);
    CHECK(all(s) == "a");
    s.advance(start + 100s, 100);
    CHECK(all(s) == "");
}

TEST_CASE("Q6 a delayed key that is added is due now, and only once") {
    state s = make();
    s.add_at("a", start + 5s, 0);
    CHECK(add(s, "a"));
    CHECK(s.delayed() == 0);
    CHECK(all(s) == "a");
    s.advance(start + 100s, 100);
    CHECK(all(s) == "");
}

TEST_CASE("Q6 a delay of a key that waits already changes nothing") {
    state s = make();
    add(s, "a");
    CHECK_FALSE(s.add_at("a", start + 5s, 0));
    CHECK(s.delayed() == 0);
    CHECK(all(s) == "a");
}

TEST_CASE("Q6 a key in processing can be delayed; when due it is marked, or queued if done") {
    state s = make();
    add(s, "a");
    add(s, "b");
    take(s);
    take(s);
    s.add_at("a", start + 5s, 0);
    s.add_at("b", start + 5s, 0);
    finish(s, "a");
    s.advance(start + 5s, 100);
    CHECK(pass(s) == "a");
    CHECK(take(s) == "-");
    finish(s, "b");
    CHECK(all(s) == "b");
}

TEST_CASE("Q6 one step makes at most the given number of items ready") {
    state s = make();
    for (int i = 0; i < 10; ++i) s.add_at(std::to_string(i), start, 0);
    CHECK(s.advance(start, 4) == 4);
    CHECK(s.ready() == 4);
    CHECK(s.next_due() <= start);
    CHECK(s.advance(start, 100) == 6);
}

TEST_CASE("Q6 an immense delay neither throws nor wraps") {
    CHECK(state::later(start, std::chrono::nanoseconds::max()) == time_point::max());
    CHECK(state::later(start, 1s) == start + 1s);
    CHECK(state::later(start, -1s) == start - 1s);
    state s(std::make_shared<exponential_limiter>(std::chrono::nanoseconds::max(), std::chrono::nanoseconds::max()), 0,
            nullptr, false);
    s.add_rate_limited("a", 0, start);
    s.advance(start + 1000h, 100);
    CHECK(s.ready() == 0);
    CHECK(s.delayed() == 1);
}

TEST_CASE("Q7 rate limits count per key until it is forgotten; forgetting takes no key out of the queue") {
    state s = make();
    CHECK(s.add_rate_limited("a", 0, start) == 1s);
    CHECK(s.add_rate_limited("a", 0, start) == 2s);
    CHECK(s.add_rate_limited("b", 0, start) == 1s); // keys do not affect each other
    CHECK(s.requeues_of(s.find("a")) == 2);
    s.forget(s.find("a"));
    CHECK(s.requeues_of(s.find("a")) == 0);
    CHECK(s.delayed() == 2);
    CHECK(s.add_rate_limited("a", 0, start) == 1s);
    s.advance(start + 1s, 100);
    CHECK(all(s) == "a b"); // a second request for the same time moves nothing
}

TEST_CASE("Q7 a key that is already in line counts its failures, and takes no turn from other keys") {
    state s(default_controller_rate_limiter(), 0, nullptr, false);
    s.add("a", 0, start);
    time_point now = start;
    // ten minutes of failures at 100 per second, each with a change meanwhile
    for (int i = 0; i < 60'000; ++i, now += 10ms) {
        const state::index a = s.take(now);
        REQUIRE(a != state::none);
        s.add("a", 0, now);
        REQUIRE(s.limit(a, 0, now) == 0ns);
        s.finish(a);
    }
    CHECK(s.requeues_of(s.find("a")) == 60'000);
    CHECK(s.add_rate_limited("a", 0, now) == 0ns); // ready
    CHECK(s.add_rate_limited("b", 0, now) == 5ms);
}

TEST_CASE("Q7 a key that is asked for before its time gives its turn at the limiter back") {
    const auto bucket = std::make_shared<token_bucket_limiter>(10.0, 1);
    state s(bucket, 0, nullptr, false);
    CHECK(s.add_rate_limited("first", 0, start) == 0ns); // the one token of the bucket
    CHECK(pass(s) == "first");
    for (int i = 0; i < 100; ++i) {
        CHECK(s.add_rate_limited("a", 0, start) == 100ms);
        s.add("a", 0, start); // a change
        CHECK(pass(s) == "a");
    }
    for (int i = 0; i < 100; ++i) { // the same while the key is in processing
        s.add("a", 0, start);
        const state::index a = s.take(start);
        CHECK(s.limit(a, 0, start) == 100ms);
        s.add("a", 0, start);
        s.finish(a);
        CHECK(pass(s) == "a");
    }
    for (int i = 0; i < 100; ++i) { // a request for an earlier time gives the turn back, too
        CHECK(s.add_rate_limited("a", 0, start) == 100ms);
        s.add_at("a", start + 1ms, 0);
        s.add("a", 0, start);
        CHECK(pass(s) == "a");
    }
    for (int i = 0; i < 100; ++i) { // and it stays given back when that time has come
        CHECK(s.add_rate_limited("a", 0, start) == 100ms);
        s.add_at("a", start + 1ms, 0);
        s.advance(start + 1ms, 1);
        CHECK(pass(s) == "a");
    }
    s.add_at("a", start + 1ms, 0);
    for (int i = 0; i < 100; ++i) CHECK(s.add_rate_limited("a", 0, start) == 100ms); // later than the time that holds
    s.advance(start + 1ms, 1);
    CHECK(pass(s) == "a");
    CHECK(s.add_rate_limited("b", 0, start) == 100ms);
    s.advance(start + 100ms, 1);
    CHECK(pass(s) == "b");
    CHECK(s.add_rate_limited("b", 0, start) == 200ms);                       // that turn is used up
    for (int i = 0; i < 100; ++i) CHECK_FALSE(s.add_at("b", start + 1h, 0)); // a request for later gives none back
    s.advance(start + 200ms, 1);
    const state::index b = s.take(start);
    CHECK(s.limit(b, 0, start) == 300ms);
    s.advance(start + 300ms, 1); // while the key is still in processing
    s.finish(b);
    CHECK(pass(s) == "b");
    CHECK(s.add_rate_limited("b", 0, start) == 400ms);
}

TEST_CASE("Q7 many keys that fail together are all tried again within the longest delay; then delays are short again") {
    state s(default_controller_rate_limiter(), 0, nullptr, false);
    for (int i = 0; i < 20'000; ++i) REQUIRE(s.add_rate_limited(std::to_string(i), 0, start + i * 1500us) <= 1000s);
    time_point now = start + 30s;
    CHECK(s.next_due() < now);
    now += 1000s;
    CHECK(s.advance(now, 100'000) == 20'000);
    CHECK(s.delayed() == 0);
    now += 10s;
    CHECK(s.add_rate_limited("later", 0, now) == 5ms);
}

TEST_CASE("Q7 a key is remembered while its failures count, and no longer") {
    state s = make();
    s.add_rate_limited("a", 0, start);
    s.advance(start + 1s, 100);
    CHECK(all(s) == "a");
    CHECK(s.known() == 1);
    CHECK(s.requeues_of(s.find("a")) == 1);
    s.forget(s.find("a"));
    CHECK(s.known() == 0);
    CHECK(s.find("a") == state::none);
}

TEST_CASE("X16 delayed items are reported at shutdown, earliest first, and nothing of them is left") {
    state s = make();
    add(s, "ready");
    s.add_at("b", start + 2s, -7);
    s.add_at("a", start + 1s, 0);
    s.add_rate_limited("c", 0, start + 2s);
    s.shut_down();
    std::vector<delayed_item<std::string>> left;
    const auto take = [&left](const std::string& key, informer::clock::time_point due, int priority) {
        left.emplace_back(key, due, priority);
    };
    CHECK(s.give_up_delayed(take, 2));
    CHECK_FALSE(s.give_up_delayed(take, 2));
    REQUIRE(left.size() == 3);
    CHECK(left[0].key == "a");
    CHECK(left[0].due == start + 1s);
    CHECK(left[1].key == "b");
    CHECK(left[1].priority == -7);
    CHECK(left[2].key == "c");
    CHECK(all(s) == "ready");
    CHECK(s.known() == 0);
}

TEST_CASE("times: when an item was added and started, and how much work is unfinished") {
    state s = make();
    s.add("a", 0, start);
    s.add("b", 0, start + 1s);
    const state::index a = s.take(start + 2s);
    const state::index b = s.take(start + 5s);
    CHECK(s.times_of(a).added == start);
    CHECK(s.times_of(b).started == start + 5s);
    CHECK(s.unfinished(start + 7s) == std::pair(7.0, 5.0));
    s.finish(a);
    CHECK(s.unfinished(start + 7s) == std::pair(2.0, 2.0));
    s.finish(b);
    CHECK(s.unfinished(start + 7s) == std::pair(0.0, 0.0));
}

TEST_CASE("memory is given back after a burst") {
    state s = make();
    const auto burst = [&s] {
        for (int i = 0; i < 100'000; ++i) {
            const std::string key = "key-" + std::to_string(i);
            if (i % 2 == 0) s.add_at(key, start + 1s, 0);
            if (i % 2 != 0) s.add(key, 0, start);
        }
    };
    burst();
    const std::size_t full = s.bytes();
    s.advance(start + 1s, 1'000'000);
    while (pass(s) != "-") {
    }
    const std::size_t empty = s.bytes();
    CHECK(empty * 50 < full);
    for (int round = 0; round < 5; ++round) {
        burst();
        s.advance(start + 1s, 1'000'000);
        while (pass(s) != "-") {
        }
    }
    CHECK(s.bytes() < empty + 4096);
}

TEST_CASE("the figure of memory counts what keys take in time, in line and as groups") {
    constexpr std::size_t n = 10'000;
    const auto with = [](bool delayed, state::group_function group_by) {
        state s = make(0, std::move(group_by));
        for (std::size_t i = 0; i < n; ++i) {
            if (delayed) s.add_at(std::to_string(i), start + 1s, 0);
            if (!delayed) add(s, std::to_string(i));
        }
        return s.bytes();
    };
    const std::size_t plain = with(false, nullptr);
    CHECK(plain >= n * 64);
    CHECK(with(true, nullptr) >= plain + n * 16);
    CHECK(with(false, [](const std::string& key) { return std::stoull(key); }) >= plain + n * 48);
}

TEST_CASE("a steady state does not use more and more memory") {
    state s = make();
    std::size_t peak = 0;
    for (int i = 0; i < 200'000; ++i) {
        s.add("key-" + std::to_string(i), i % 3, start);
        s.add_at("later-" + std::to_string(i), start + std::chrono::nanoseconds(i + 50), 0);
        s.advance(start + std::chrono::nanoseconds(i), 10);
        pass(s);
        if (i >= 50) pass(s);
        if (i == 1000) peak = s.bytes();
    }
    CHECK(s.bytes() <= peak * 2);
}

namespace {

class throwing_key {
public:
    throwing_key() = default;
    explicit throwing_key(int v) : value(v) {}
    throwing_key(const throwing_key&) = default;
    throwing_key& operator=(const throwing_key& o) {
        if (armed) throw std::bad_alloc();
        value = o.value;
        return *this;
    }
    friend bool operator==(const throwing_key& a, const throwing_key& b) { return a.value == b.value; }
    int value = 0;
    static inline bool armed = false;
};
struct throwing_hash {
    std::size_t operator()(const throwing_key& k) const { return std::hash<int>()(k.value); }
};

} // namespace

TEST_CASE("a key that cannot be copied, or a group function that throws, leaves the queue as it was") {
    bool broken = false;
    queue_state<throwing_key, throwing_hash> s(
        nullptr, 0,
        [&broken](const throwing_key&) -> std::uint64_t {
            if (broken) throw std::runtime_error("no group");
            return 1;
        },
        false);
    s.add(throwing_key(1), 0, start);
    throwing_key::armed = true;
    CHECK_THROWS(s.add(throwing_key(2), 0, start));
    CHECK_THROWS(s.add_at(throwing_key(2), start + 1s, 0));
    throwing_key::armed = false;
    broken = true;
    CHECK_THROWS(s.add(throwing_key(2), 0, start));
    CHECK_THROWS(s.add(throwing_key(1), 5, start)); // cannot be raised
    broken = false;
    CHECK(s.known() == 1);
    const auto i = s.take(start);
    REQUIRE(i != s.none);
    CHECK(s.key_of(i).value == 1);
    s.add(throwing_key(1), 0, start);
    broken = true; // does not matter for a key that is in the queue
    CHECK(s.finish(i));
    broken = false;
    CHECK(s.take(start) == i);
    s.finish(i);
    CHECK(s.known() == 0);
    s.add_rate_limited(throwing_key(1), 0, start);
    s.finish(s.take(start));
    broken = true;
    CHECK_THROWS(s.add_rate_limited(throwing_key(1), 0, start));
    CHECK(s.requeues_of(s.find(throwing_key(1))) == 1);
    s.add_at(throwing_key(2), start + 1s, 0);
    CHECK_THROWS(s.add(throwing_key(2), 0, start)); // still comes when it was to come
    CHECK(s.next_due() == start + 1s);
    CHECK(s.advance(start + 1s, 1) == 1);
    CHECK(s.ready() == 1);
}
