// The end of a queue: what drain() waits for, and what is left over.
#include "queue_getter.hpp"

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <catch2/catch_test_macros.hpp>

#include <chrono>
#include <exception>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

using namespace informer;
using namespace std::chrono_literals;
using informer::testing::queue_scene;
using queue = work_queue<>;

namespace {

/// Of a queue in which nothing is delayed.
asio::awaitable<void> drains(queue* q, bool* drained) {
    const queue::left_over left = co_await q->drain();
    CHECK(left.empty());
    *drained = true;
}

} // namespace

TEST_CASE("Q4 drain waits until all ready keys are handed out and done") {
    queue_scene s;
    s.q->add("a");
    s.q->add("b");
    bool drained = false;
    task_group group(s.context.get_executor());
    group.spawn(drains(s.q.get(), &drained));
    s.run();
    queue::item a = s.q->try_get(), b = s.q->try_get();
    CHECK(a.key() + b.key() == "ab");
    s.q->add("c");
    a.done();
    s.run();
    CHECK_FALSE(drained);
    b.done();
    s.run();
    CHECK(drained);
    CHECK(s.idle());
}

TEST_CASE("Q4 drain waits for a key that was marked while in processing") {
    queue_scene s;
    s.q->add("a");
    queue::item a = s.q->try_get();
    CHECK(a.key() == "a");
    s.q->add("a");
    bool drained = false;
    task_group group(s.context.get_executor());
    group.spawn(drains(s.q.get(), &drained));
    s.run();
    a.done();
    s.run();
    CHECK_FALSE(drained);
    CHECK(s.next() == "a");
    s.run();
    CHECK(drained);
}

TEST_CASE("Q4 a getter that waits during a drain gets the key that was asked for while it was worked on") {
    queue_scene s;
    s.q->add("a");
    queue::item a = s.q->try_get();
    CHECK(a.key() == "a");
    informer::testing::getter waiting(s, 2);
    s.run();
    s.q->add("a");
    bool drained = false;
    task_group group(s.context.get_executor());
    group.spawn(drains(s.q.get(), &drained));
    s.run();
    CHECK_FALSE(waiting.ended);
    informer::testing::getter later(s);
    s.run();
    CHECK_FALSE(later.ended);
    a.done();
    s.run();
    CHECK(waiting.keys == "a-");
    CHECK(later.keys == "-");
    CHECK_FALSE(drained);
    waiting.held.clear();
    s.run();
    CHECK(drained);
    CHECK(s.idle());
}

TEST_CASE("Q4 a getter does not wait for a marked key when the queue is shut down without a drain") {
    queue_scene s;
    s.q->add("a");
    queue::item a = s.q->try_get();
    CHECK(a.key() == "a");
    s.q->add("a");
    informer::testing::getter waiting(s);
    s.run();
    s.q->shut_down();
    s.run();
    CHECK(waiting.keys == "-");
    a.done();
    CHECK(s.next() == "a");
}

TEST_CASE("Q4 drain of an idle queue returns at once; shutdown ends one that waits") {
    queue_scene s;
    auto idle = [](queue* q) -> asio::awaitable<void> { co_await q->drain(); };
    queue_scene other;
    informer::testing::run_test(other.context, idle(other.q.get()));

    s.q->add("a");
    queue::item stuck = s.q->try_get();
    bool drained = false;
    task_group group(s.context.get_executor());
    group.spawn(drains(s.q.get(), &drained));
    s.run();
    CHECK_FALSE(drained);
    s.q->shut_down();
    s.run();
    CHECK(drained);
}

TEST_CASE("Q4 drain shuts the queue down even if it is not awaited") {
    queue_scene s;
    { const auto not_awaited = s.q->drain(); }
    CHECK(s.q->is_shut_down());
    s.q->add("a");
    CHECK(s.q->empty());
    CHECK(s.idle());
}

TEST_CASE("Q4 a cancelled drain throws cancelled; shut_down still returns what was delayed") {
    queue_scene s;
    s.q->add("a");
    s.q->add_after("later", 1h);
    queue::item stuck = s.q->try_get();
    asio::cancellation_signal signal;
    std::exception_ptr failed;
    auto body = [](queue* q) -> asio::awaitable<void> { co_await q->drain(); };
    asio::co_spawn(s.context, body(s.q.get()),
                   asio::bind_cancellation_slot(signal.slot(), [&failed](std::exception_ptr e) { failed = e; }));
    s.run();
    signal.emit(asio::cancellation_type::terminal);
    s.run();
    REQUIRE(failed);
    CHECK_THROWS_AS(std::rethrow_exception(failed), error);
    const queue::left_over left = s.q->shut_down();
    REQUIRE(left.size() == 1);
    CHECK(left[0].key == "later");
    CHECK(s.idle());
}

TEST_CASE("X16 drain closes everything: delayed keys are returned and logged, and the timer is gone") {
    std::vector<std::string> lines;
    queue_scene s(work_queue_options().name("foos"), nullptr,
                  [&lines](log_level, std::string_view l) { lines.emplace_back(l); });
    s.q->add_after("b", 2h);
    s.q->add_after("a", 1h, -3);
    s.run();
    CHECK(s.clock->waiters() == 1);
    std::optional<queue::left_over> left;
    auto body = [](queue* q, std::optional<queue::left_over>* l) -> asio::awaitable<void> {
        queue::left_over got = co_await q->drain();
        l->emplace(std::move(got));
    };
    task_group group(s.context.get_executor());
    group.spawn(body(s.q.get(), &left));
    CHECK(s.idle());
    REQUIRE(left);
    REQUIRE(left->size() == 2);
    CHECK(left->at(0).key == "a");
    CHECK(left->at(0).priority == -3);
    CHECK(left->at(0).due == s.clock->now() + 1h);
    CHECK(left->at(1).key == "b");
    CHECK(s.q->shut_down().empty()); // reported once
    REQUIRE(lines.size() == 1);
    CHECK(lines[0].find("foos") != std::string::npos);
    CHECK(lines[0].find("2 delayed keys") != std::string::npos);
    CHECK(s.clock->waiters() == 0);
}

TEST_CASE("X16 the end of a queue in which nothing is delayed is not worth a line") {
    std::vector<std::string> lines;
    queue_scene s(work_queue_options(), nullptr, [&lines](log_level, std::string_view l) { lines.emplace_back(l); });
    s.q->add("a");
    s.q->shut_down();
    s.q->shut_down();
    s.q.reset();
    CHECK(lines.empty());
}

TEST_CASE("X16 however many keys are delayed, they are counted and reported once") {
    std::vector<std::string> lines;
    queue_scene s(work_queue_options(), nullptr, [&lines](log_level, std::string_view l) { lines.emplace_back(l); });
    for (int i = 0; i < 1000; ++i) s.q->add_after(std::to_string(i), 1h);
    CHECK(s.q->shut_down().size() == 1000);
    s.q.reset();
    REQUIRE(lines.size() == 1);
    CHECK(lines[0].find("1000 delayed keys") != std::string::npos);
}
