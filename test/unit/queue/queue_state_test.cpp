#include <informer/queue/queue_state.hpp>

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

using namespace informer;
using namespace std::chrono_literals;

namespace {

using state = queue_state<std::string>;
using time_point = state::time_point;
constexpr time_point start = time_point(1000h);

state make(std::uint32_t ageing = 0, state::group_function group_by = nullptr) {
    return state(std::make_shared<exponential_limiter>(1s, 1000s), ageing, std::move(group_by), true);
}

/// The next key, still in processing; "-" when nothing is ready.
std::string take(state& s, time_point now = start) {
    const state::index i = s.take(now);
    return i == state::none ? "-" : s.key_of(i);
}
void finish(state& s, std::string_view key) {
    s.finish(s.find(key));
}
std::string pass(state& s) {
    const std::string k = take(s);
    if (k != "-") finish(s, k);
    return k;
}
std::string all(state& s) {
    std::string keys;
    for (std::string k = pass(s); k != "-"; k = pass(s)) keys += (keys.empty() ? "" : " ") + k;
    return keys;
}
bool add(state& s, std::string_view key, int priority = 0) {
    return s.add(key, priority, start);
}

std::uint64_t first_letter(const std::string& k) {
    return static_cast<unsigned char>(k[0]);
}

} // namespace

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
    CHECK(all(s) == "a");
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

TEST_CASE("Q3 done of a key that is not in processing does nothing bad to the others") {
    state s = make();
    add(s, "a");
    CHECK(s.find("b") == state::none);
    CHECK_FALSE(s.in_processing(s.find("a")));
    CHECK(all(s) == "a");
}

TEST_CASE("Q6 delayed keys come when they are due, in the order of time, equal times in the order they came") {
    state s = make();
    s.add_at("c", start + 3s, 0);
    s.add_at("a", start + 1s, 0);
    s.add_at("b2", start + 2s, 0);
    s.add_at("b3", start + 2s, 0);
    s.add_at("b1", start + 2s, 0);
    CHECK(s.ready() == 0); // they do not count into the length
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

TEST_CASE("Q6 at most so many items become ready in one step") {
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

TEST_CASE("Q7 rate limits count per key until it is forgotten; forgetting takes nothing out") {
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

TEST_CASE("Q7 a key that is in line already counts its failures, and takes no turn from others") {
    state s(default_controller_rate_limiter(), 0, nullptr, false);
    s.add("a", 0, start);
    time_point now = start;
    for (int i = 0; i < 60'000; ++i, now += 10ms) { // ten minutes of failures at 100 per second, each with a change meanwhile
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

TEST_CASE("Q7 a key that is asked for before its time gives its turn back") {
    const auto bucket = std::make_shared<token_bucket_limiter>(10.0, 1);
    state s(bucket, 0, nullptr, false);
    CHECK(s.add_rate_limited("first", 0, start) == 0ns); // the one that is there
    CHECK(pass(s) == "first");
    for (int i = 0; i < 100; ++i) {
        CHECK(s.add_rate_limited("a", 0, start) == 100ms);
        s.add("a", 0, start); // a change
        CHECK(pass(s) == "a");
    }
    for (int i = 0; i < 100; ++i) { // the same while it is worked on
        s.add("a", 0, start);
        const state::index a = s.take(start);
        CHECK(s.limit(a, 0, start) == 100ms);
        s.add("a", 0, start);
        s.finish(a);
        CHECK(pass(s) == "a");
    }
    for (int i = 0; i < 100; ++i) { // an earlier time is another's, too
        CHECK(s.add_rate_limited("a", 0, start) == 100ms);
        s.add_at("a", start + 1ms, 0);
        s.add("a", 0, start);
        CHECK(pass(s) == "a");
    }
    s.add_at("a", start + 1ms, 0);
    for (int i = 0; i < 100; ++i) CHECK(s.add_rate_limited("a", 0, start) == 100ms); // later than what holds
    s.advance(start + 1ms, 1);
    CHECK(pass(s) == "a");
    CHECK(s.add_rate_limited("b", 0, start) == 100ms);
    s.advance(start + 100ms, 1);
    CHECK(pass(s) == "b");
    CHECK(s.add_rate_limited("b", 0, start) == 200ms); // that turn is used up
    s.advance(start + 200ms, 1);
    const state::index b = s.take(start);
    CHECK(s.limit(b, 0, start) == 300ms);
    s.advance(start + 300ms, 1); // while it is still worked on
    s.finish(b);
    CHECK(pass(s) == "b");
    CHECK(s.add_rate_limited("b", 0, start) == 400ms);
}

TEST_CASE("Q7 many keys that fail together are all tried again within the longest delay, and then it is over") {
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

TEST_CASE("X16 what is delayed at shutdown is told, earliest first, and leaves nothing behind") {
    state s = make();
    add(s, "ready");
    s.add_at("b", start + 2s, -7);
    s.add_at("a", start + 1s, 0);
    s.add_rate_limited("c", 0, start + 2s);
    s.shut_down();
    std::vector<delayed_item<std::string>> left;
    CHECK(s.give_up_delayed(std::back_inserter(left), 2));
    CHECK_FALSE(s.give_up_delayed(std::back_inserter(left), 2));
    REQUIRE(left.size() == 3);
    CHECK(left[0].key == "a");
    CHECK(left[0].due == start + 1s);
    CHECK(left[1].key == "b");
    CHECK(left[1].priority == -7);
    CHECK(left[2].key == "c");
    CHECK(all(s) == "ready");
    CHECK(s.known() == 0);
}

TEST_CASE("the higher priority first, FIFO within one") {
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
    add(s, "b", 0); // due now, still with 10
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

TEST_CASE("many levels: order holds and empty ones do not pile up") {
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

TEST_CASE("ageing: with groups an item waits for its place in its group times the groups") {
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

TEST_CASE("ageing: one of one counts as one of two, so that the highest level does not starve") {
    state s = make(1);
    add(s, "urgent", 100);
    for (int n = 0; n < 10; ++n) add(s, "low" + std::to_string(n), -n);
    CHECK(pass(s) == "urgent");
    add(s, "again", 100);
    CHECK(pass(s) == "low0");
    CHECK(pass(s) == "again");
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

TEST_CASE("fairness: a group that comes new, or comes back, stands at the end of the round") {
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

TEST_CASE("an item nobody saw goes back to the head of its level") {
    state s = make();
    add(s, "a");
    add(s, "b");
    const state::index i = s.take(start);
    s.give_back(i, 0);
    CHECK(all(s) == "a b");
    // Asked for meanwhile, later or more urgently: it waits once, with the higher priority.
    add(s, "a");
    add(s, "b");
    const state::index again = s.take(start);
    s.add_at("a", start + 5s, 3);
    add(s, "c", 1);
    s.give_back(again, 0);
    CHECK(s.delayed() == 0);
    CHECK(all(s) == "a c b");
}

TEST_CASE("times: since when an item waits and is worked on, and how much work is unfinished") {
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

TEST_CASE("memory goes back when a burst is over") {
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

TEST_CASE("a steady state takes no more memory") {
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
    broken = true; // of no account for what is in the queue
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
}

namespace {

/// What a queue must do, as slowly as can be.
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

TEST_CASE("random requests, hand-outs and times: never two holders, never lost, always the order of the model") {
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
                const time_point when = now + std::chrono::nanoseconds(1 + draw(1000) * 1000 + static_cast<unsigned>(step % 1000));
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
