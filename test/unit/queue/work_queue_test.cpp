#include "queue_getter.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <chrono>
#include <map>
#include <string>
#include <vector>

using namespace informer;
using namespace std::chrono_literals;
using informer::testing::getter;
using informer::testing::queue_scene;
using queue = work_queue<>;

TEST_CASE("Q1 a key that waits already is not queued twice") {
    queue_scene s;
    s.q->add("a");
    s.q->add("b");
    s.q->add("a");
    CHECK(s.q->size() == 2);
    CHECK(s.q->figures().added == 2);
    CHECK(s.next() == "a");
    CHECK(s.next() == "b");
    CHECK(s.next() == "-");
    CHECK(s.q->empty());
}

TEST_CASE("Q2 get waits for an item; getters are served in the order they came") {
    queue_scene s;
    getter first(s), second(s), third(s);
    s.run();
    s.q->add("a");
    s.q->add("b");
    CHECK(s.q->try_get().operator bool() == false); // both items are promised to getters already
    s.run();
    CHECK(first.keys == "a");
    CHECK(second.keys == "b");
    CHECK_FALSE(third.ended);
    s.q->add("c");
    s.run();
    CHECK(third.keys == "c");
    CHECK(s.idle());
}

TEST_CASE("Q2 after shutdown what is ready is handed out, then getters get empty items") {
    queue_scene s;
    s.q->add("a");
    s.q->add("b");
    s.q->shut_down();
    s.q->add("c");
    getter one(s, 5), other(s, 5);
    s.run();
    CHECK(one.keys == "ab-");
    CHECK(other.keys == "-");
    CHECK(s.q->is_shut_down());
    CHECK(s.idle());
}

TEST_CASE("Q2 getters that wait get empty items when the queue is shut down") {
    queue_scene s;
    getter one(s), other(s);
    s.run();
    s.q->shut_down();
    s.run();
    CHECK(one.keys == "-");
    CHECK(other.keys == "-");
    CHECK(s.idle());
}

TEST_CASE(
    "Q2 a key that was marked while in processing is handed out once more after shutdown; getters do not wait for it") {
    queue_scene s;
    s.q->add("a");
    queue::item a = s.q->try_get();
    CHECK(a.key() == "a");
    s.q->add("a");
    s.q->shut_down();
    getter one(s);
    s.run();
    CHECK(one.keys == "-"); // nothing is ready: the pool of workers shrinks, the key's holder is still there
    a.done();
    CHECK(s.next() == "a");
}

TEST_CASE("Q3 the destructor of an item marks its key as done, and so does done by key after release") {
    queue_scene s;
    s.q->add("a");
    {
        const queue::item a = s.q->try_get();
        CHECK(a.key() == "a");
        s.q->add("a");
        CHECK(s.q->size() == 0);
    }
    CHECK(s.q->size() == 1);
    std::string key = s.q->try_get().release();
    s.q->add(key);
    s.q->done("someone else's");
    CHECK(s.q->size() == 0);
    s.q->done(key);
    CHECK(s.q->size() == 1);
    s.q->done(key); // not in processing any more: nothing happens
    CHECK(s.q->size() == 1);
    CHECK(s.next() == "a");
    CHECK(s.q->figures().known == 0);
}

TEST_CASE("Q3 done by key does not affect a key that an item handle holds") {
    queue_scene s;
    s.q->add("a");
    {
        const queue::item a = s.q->try_get();
        CHECK(a.key() == "a");
        s.q->done("a"); // as in client-go; here the handle does it
        CHECK(s.q->figures().processing == 1);
        s.q->add("a");
        CHECK(s.q->size() == 0); // no other worker gets it meanwhile
    }
    CHECK(s.q->size() == 1);
    const std::string key = s.q->try_get().release();
    s.q->done(key);
    s.q->add("a");
    queue::item other = s.q->try_get();
    CHECK(other.key() == "a");
    s.q->done(key); // once more, when another worker holds the key
    CHECK(s.q->figures().processing == 1);
    other.done();
    CHECK(s.q->figures().known == 0);
    for (const char* k : {"b", "c"}) s.q->add(k); // the slots are intact
    CHECK(s.next() == "b");
    CHECK(s.next() == "c");
    CHECK(s.q->figures().known == 0);
}

TEST_CASE("items can be moved, and moving into an item marks its old key as done") {
    queue_scene s;
    s.q->add("a");
    s.q->add("b");
    queue::item one = s.q->try_get();
    CHECK(one.key() == "a");
    queue::item other = std::move(one);
    CHECK_FALSE(one);
    CHECK(*other == "a");
    CHECK(other->size() == 1);
    other = s.q->try_get();
    CHECK(other.key() == "b");
    CHECK(s.q->figures().processing == 1);
    other.done();
    other.done();
    CHECK(s.q->figures().processing == 0);
}

TEST_CASE("an item whose key nobody looked at is not lost: it goes back to the head") {
    queue_scene s;
    s.q->add("a", 3);
    s.q->add("b", 3);
    { const queue::item dropped = s.q->try_get(); }
    CHECK(s.q->size() == 2);
    queue::item a = s.q->try_get();
    CHECK(a.priority() == 3);
    CHECK(a.key() == "a");
}

TEST_CASE("an item whose key nobody looked at, but that was requeued with a delay, waits for that delay") {
    queue_scene s;
    s.q->add("a");
    {
        queue::item paused = s.q->try_get();
        paused.requeue_after(1h);
    }
    CHECK(s.q->size() == 0);
    CHECK(s.q->figures().delayed == 1);
    s.pass(1h);
    CHECK(s.q->size() == 1);
    {
        queue::item limited = s.q->try_get();
        CHECK(limited.requeue_rate_limited() > 0ns);
    }
    CHECK(s.q->size() == 0);
    CHECK(s.q->figures().delayed == 1);
    s.q->shut_down();
    CHECK(s.idle());
}

TEST_CASE("Q1 what is asked for before a waiting getter goes on is covered by its work") {
    const auto how = GENERATE(0, 1, 2, 3);
    queue_scene s;
    informer::testing::getter idle(s);
    s.run();
    s.q->add("a", -100);
    s.q->add("a", -100);
    if (how == 1) s.q->add("a", 5);
    if (how == 2) s.q->add_after("a", 1h, 5);
    if (how == 3) CHECK(s.q->add_rate_limited("a", 5) == 0ns);
    s.run();
    REQUIRE(idle.held.size() == 1);
    CHECK(idle.held[0].priority() == (how == 0 ? -100 : 5));
    CHECK(s.q->num_requeues("a") == (how == 3 ? 1 : 0));
    CHECK(s.q->figures().marked == 0);
    CHECK(s.q->figures().added == 1);
    s.q->add("a"); // from now on it is for the next time
    CHECK(s.q->figures().marked == 1);
    idle.held.clear();
    s.q->forget("a");
    s.pass(2h);
    CHECK(s.next() == "a");
    CHECK(s.next() == "-");
    CHECK(s.q->figures().known == 0);
}

TEST_CASE("Q6 a delayed item is handed out when it is due, not before; a getter that waits is woken") {
    queue_scene s;
    s.q->add_after("a", 5s);
    getter one(s);
    s.pass(4999ms);
    CHECK(one.keys.empty());
    CHECK(s.q->size() == 0);
    s.pass(1ms);
    CHECK(one.keys == "a");
    CHECK(s.idle());
}

TEST_CASE("Q6 a delay of zero or less is an add") {
    queue_scene s;
    s.q->add_after("a", 0s);
    s.q->add_after("b", -5s);
    CHECK(s.next() == "a");
    CHECK(s.next() == "b");
    CHECK(s.idle());
}

TEST_CASE("Q6 an item that is added later but due earlier comes first; one timer serves all") {
    queue_scene s;
    s.q->add_after("c", 30s);
    s.run();
    s.q->add_after("a", 10s);
    s.q->add_after("b", 20s);
    for (int i = 0; i < 100; ++i) s.q->add_after("x" + std::to_string(i), 1h);
    s.run();
    CHECK(s.clock->waiters() == 1);
    getter one(s, 3);
    s.pass(10s);
    CHECK(one.keys == "a");
    s.pass(10s);
    CHECK(one.keys == "ab");
    s.pass(10s);
    CHECK(one.keys == "abc");
    CHECK(s.q->shut_down().size() == 100);
    CHECK(s.idle());
}

TEST_CASE("Q6 re-adding keeps the earlier time") {
    queue_scene s;
    s.q->add_after("a", 5s);
    s.run();
    s.q->add_after("a", 50s);
    s.q->add_after("b", 50s);
    s.run();
    s.q->add_after("b", 5s);
    getter one(s, 3);
    s.pass(5s);
    CHECK(one.keys == "ab");
    s.pass(100s);
    CHECK(one.keys == "ab");
    CHECK(s.q->figures().retried == 4);
    one.cancel();
    CHECK(s.idle());
}

TEST_CASE("Q6 if more items are due at once than one step moves, all of them come") {
    queue_scene s;
    for (int i = 0; i < 2000; ++i) s.q->add_after(std::to_string(i), 1s);
    s.pass(1s);
    CHECK(s.q->size() == 2000);
    CHECK(s.idle());
    for (int i = 0; i < 2000; ++i) CHECK(s.next() == std::to_string(i));
}

TEST_CASE("Q6 a late timer holds nothing up: an item that is due is handed out to a caller that asks") {
    queue_scene s;
    s.q->add_after("a", 1s);
    s.run();
    s.clock->advance(1s); // the timer has not run yet
    CHECK(s.next() == "a");
    CHECK(s.idle());
}

TEST_CASE("Q6 an immense delay neither throws nor ends") {
    queue_scene s;
    s.q->add_after("a", std::chrono::nanoseconds::max());
    s.pass(1000h);
    CHECK(s.next() == "-");
    CHECK(s.q->shut_down().size() == 1);
    CHECK(s.idle());
}

TEST_CASE("Q7 a rate-limited add waits as long as the limiter says; forget starts over") {
    queue_scene s;
    CHECK(s.q->add_rate_limited("a") == 5ms);
    CHECK(s.q->num_requeues("a") == 1);
    s.pass(4ms);
    CHECK(s.next() == "-");
    s.pass(1ms);
    CHECK(s.next() == "a");
    CHECK(s.q->add_rate_limited("a") == 10ms);
    s.pass(10ms);
    CHECK(s.next() == "a");
    s.q->forget("a");
    CHECK(s.q->num_requeues("a") == 0);
    CHECK(s.q->figures().known == 0);
    CHECK(s.q->add_rate_limited("a") == 5ms);
    s.q->forget("unknown");
    CHECK(s.q->num_requeues("unknown") == 0);
    CHECK(s.q->shut_down().size() == 1);
    CHECK(s.q->add_rate_limited("a") == 0ms);
    CHECK(s.idle());
}

TEST_CASE("Q7 the holder of an item requeues it without a look-up, at the priority of the item") {
    queue_scene s;
    s.q->add("a", 7);
    queue::item a = s.q->try_get();
    CHECK(a.key() == "a");
    CHECK(a.requeue_rate_limited() == 5ms);
    CHECK(a.requeues() == 1);
    a.done();
    s.pass(5ms);
    a = s.q->try_get();
    CHECK(a.priority() == 7);
    CHECK(a.key() == "a");
    a.forget();
    CHECK(a.requeues() == 0);
    a.requeue_after(1s);
    a.done();
    s.pass(1s);
    a = s.q->try_get();
    CHECK(a.key() == "a");
    a.requeue();
    a.done();
    CHECK(s.q->size() == 1);
    CHECK(s.next() == "a");
    CHECK(s.q->figures().known == 0);
    CHECK(s.idle());
}

TEST_CASE("get_batch hands out what is ready, at least one") {
    queue_scene s;
    for (const char* k : {"a", "b", "c"}) s.q->add(k);
    std::string keys;
    auto body = [](queue* q, std::string* k) -> asio::awaitable<void> {
        for (;;) {
            const std::vector<queue::item> some = co_await q->get_batch(2);
            if (some.empty()) co_return;
            for (const queue::item& one : some) *k += one.key();
            *k += "|";
        }
    };
    task_group group(s.context.get_executor());
    group.spawn(body(s.q.get(), &keys));
    s.run();
    CHECK(keys == "ab|c|");
    s.q->add("d");
    s.run();
    CHECK(keys == "ab|c|d|");
    s.q->shut_down();
    CHECK(s.idle());
}

TEST_CASE("5,000 items that are requeued at once by a few workers do not lock up") {
    queue_scene s;
    constexpr int keys = 5000, times = 3;
    std::map<std::string, int> seen;
    auto worker = [](queue* q, std::map<std::string, int>* seen_by, int* finished) -> asio::awaitable<void> {
        for (;;) {
            queue::item one = co_await q->get();
            if (!one) co_return;
            if (++(*seen_by)[one.key()] < times) {
                one.requeue();
            } else if (++*finished == keys) {
                q->shut_down();
            }
        }
    };
    int finished = 0;
    task_group group(s.context.get_executor());
    for (int w = 0; w < 3; ++w) group.spawn(worker(s.q.get(), &seen, &finished));
    for (int i = 0; i < keys; ++i) s.q->add(std::to_string(i));
    s.context.run();
    CHECK(finished == keys);
    for (const auto& [key, n] : seen) CHECK(n == times);
}

TEST_CASE("fairness works through the queue: namespaces take turns") {
    queue_scene s;
    work_queue<> q(s.world, work_queue_options(), [](const std::string& k) -> std::uint64_t {
        return std::hash<std::string_view>()(std::string_view(k).substr(0, k.find('/')));
    });
    for (int i = 0; i < 3; ++i) q.add("loud/" + std::to_string(i));
    q.add("quiet/0");
    std::string order;
    for (queue::item one = q.try_get(); one; one = q.try_get()) order += one.key() + " ";
    CHECK(order == "loud/0 quiet/0 loud/1 loud/2 ");
}

TEST_CASE("a group function that throws loses no key and no timer") {
    queue_scene s;
    bool broken = false;
    work_queue<> q(s.world, work_queue_options(), [&broken](const std::string&) -> std::uint64_t {
        if (broken) throw std::runtime_error("no group");
        return 1;
    });
    const auto next = [&q] {
        queue::item one = q.try_get();
        return one ? one.key() : std::string("-");
    };
    SECTION("when a delayed key is due") {
        q.add_after("a", 1s);
        q.add_after("b", 2s);
        broken = true;
        s.pass(1s);
        CHECK(next() == "a");
        broken = false;
        s.pass(1s);
        CHECK(q.size() == 1);
        CHECK(next() == "b");
    }
    SECTION("when a key that was asked for again is done") {
        q.add("a");
        queue::item one = q.try_get();
        REQUIRE(one.key() == "a");
        q.add("a");
        broken = true;
        one = queue::item();
        CHECK(next() == "a");
    }
    SECTION("when a key that nobody looked at goes back") {
        q.add("a");
        {
            const queue::item one = q.try_get();
            broken = true;
        }
        CHECK(next() == "a");
    }
    CHECK(q.figures().known == 0);
    q.shut_down();
}

namespace {

struct pair_key {
    std::string group, name;
    friend bool operator==(const pair_key&, const pair_key&) = default;
};
struct pair_hash {
    std::size_t operator()(const pair_key& k) const {
        return std::hash<std::string>()(k.group) * 31 + std::hash<std::string>()(k.name);
    }
};

} // namespace

TEST_CASE("keys are any type with a hash and an equality") {
    queue_scene s;
    work_queue<pair_key, pair_hash> q(s.world);
    pair_key one, other;
    one.group = "a";
    other.group = "b";
    q.add(one);
    q.add(other);
    q.add(one);
    CHECK(q.size() == 2);
    CHECK(q.try_get()->group == "a");
    work_queue<int> numbers(s.world);
    for (int i = 0; i < 1000; ++i) numbers.add(i * 1024);
    for (int i = 0; i < 1000; ++i) CHECK(numbers.try_get().key() == i * 1024);
}
