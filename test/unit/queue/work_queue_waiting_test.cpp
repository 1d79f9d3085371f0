// Who is served when several wait, and what is handed out when less, or more, is asked for than there is.
#include "queue_getter.hpp"

#include <catch2/catch_test_macros.hpp>

#include <chrono>
#include <cstddef>
#include <limits>
#include <string>
#include <vector>

using namespace informer;
using namespace std::chrono_literals;
using informer::testing::getter;
using informer::testing::queue_scene;
using queue = work_queue<>;

TEST_CASE("Q2 a getter that is cancelled in the middle of the line leaves those before and behind it in line") {
    queue_scene s;
    getter first(s), second(s), third(s), last(s);
    s.run();
    second.cancel();
    s.run();
    last.cancel();
    s.run();
    getter fourth(s);
    s.run();
    for (const char* k : {"a", "b", "c"}) s.q->add(k);
    s.run();
    CHECK(first.keys == "a");
    CHECK(third.keys == "b");
    CHECK(fourth.keys == "c");
    CHECK(s.idle());
}

TEST_CASE("Q2 an item that is dropped without a look goes to a getter that waits") {
    queue_scene s;
    s.q->add("a");
    queue::item unseen = s.q->try_get();
    getter waits(s);
    s.run();
    CHECK(waits.keys.empty());
    unseen = queue::item();
    s.run();
    CHECK(waits.keys == "a");
}

TEST_CASE("Q6 an item that is due goes to a getter that waits, not to a later caller, also if the timer is late") {
    queue_scene s;
    s.q->add_after("a", 1s);
    getter waits(s);
    s.run();
    s.clock->advance(1s); // the timer has not run yet
    CHECK(s.next() == "-");
    s.run();
    CHECK(waits.keys == "a");
}

TEST_CASE("Q7 a getter that waits is woken when a rate-limited key is due") {
    queue_scene s;
    getter waits(s);
    s.run();
    CHECK(s.q->add_rate_limited("a") == 5ms);
    s.pass(4ms);
    CHECK(waits.keys.empty());
    s.pass(1ms);
    CHECK(waits.keys == "a");
}

TEST_CASE("Q6 a requeue after zero or less is a requeue") {
    for (const auto delay : {0s, -5s}) {
        queue_scene s;
        s.q->add("a");
        queue::item a = s.q->try_get();
        a.requeue_after(delay);
        CHECK(s.q->figures().marked == 1);
        CHECK(s.q->figures().delayed == 0);
        a.done();
        CHECK(s.next() == "a");
    }
}

TEST_CASE("Q2 after shutdown nothing can be requeued") {
    queue_scene s;
    s.q->add("a");
    queue::item a = s.q->try_get();
    s.q->shut_down();
    a.requeue();
    a.requeue_after(1s);
    CHECK(a.requeue_rate_limited() == 0ns);
    a.done();
    CHECK(s.next() == "-");
    CHECK(s.q->figures().retried == 0);
    CHECK(s.q->figures().known == 0);
    CHECK(s.idle());
}

TEST_CASE("the figures of a queue tell what waits, what is known, and what was tried again") {
    queue_scene s;
    const std::size_t empty = s.q->figures().bytes;
    for (int i = 0; i < 100; ++i) s.q->add(std::to_string(i));
    queue::item one = s.q->try_get(), other = s.q->try_get();
    one.requeue_after(1h);
    other.requeue_rate_limited();
    s.q->add_after("x", 1h);
    const work_queue_figures f = s.q->figures();
    CHECK(f.ready == 98);
    CHECK(f.delayed == 3);
    CHECK(f.processing == 2);
    CHECK(f.known == 101);
    CHECK(f.retried == 3);
    CHECK(f.bytes > empty + 100 * sizeof(std::string));
    CHECK(f.bytes < empty + 100'000);
}

TEST_CASE("a batch has no more items than it was asked for, however much room there is") {
    queue_scene s;
    for (const char* k : {"a", "b", "c"}) s.q->add(k);
    std::vector<queue::item> some;
    some.reserve(10);
    CHECK(s.q->try_get_batch(some, 2) == 2);
    CHECK(some.size() == 2);
    CHECK(s.q->size() == 1);
    CHECK(s.q->try_get_batch(some, 5) == 1); // only one more is ready
    CHECK(some.size() == 3);
    CHECK(s.q->try_get_batch(some, 5) == 0);
}

TEST_CASE("a batch may be asked for without a limit, and has at least one item") {
    queue_scene s;
    constexpr std::size_t most = std::numeric_limits<std::size_t>::max();
    std::vector<std::size_t> sizes;
    const auto body = [](queue* q, std::vector<std::size_t>* all, std::size_t max) -> asio::awaitable<void> {
        const std::vector<queue::item> some = co_await q->get_batch(max);
        all->push_back(some.size());
    };
    task_group group(s.context.get_executor());
    for (const std::size_t max : {std::size_t(0), std::size_t(1), most}) {
        for (const char* k : {"a", "b", "c"}) s.q->add(k);
        group.spawn(body(s.q.get(), &sizes, max));
        s.run();
    }
    CHECK(sizes == std::vector<std::size_t>{1, 1, 3});
    for (const char* k : {"a", "b", "c"}) s.q->add(k);
    std::vector<queue::item> all;
    CHECK(s.q->try_get_batch(all, most) == 3);
}
