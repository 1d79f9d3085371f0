// Getters that are cancelled or destroyed, and the orders in which the queue, its items and their context may be
// destroyed.
#include "queue_getter.hpp"

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/strand.hpp>
#include <catch2/catch_test_macros.hpp>

#include <chrono>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <vector>

using namespace informer;
using namespace std::chrono_literals;
using informer::testing::getter;
using informer::testing::queue_scene;
using queue = work_queue<>;

TEST_CASE("a cancelled getter throws cancelled and leaves its place to the next") {
    for (const auto type :
         {asio::cancellation_type::terminal, asio::cancellation_type::partial, asio::cancellation_type::total}) {
        queue_scene s;
        getter first(s), second(s);
        s.run();
        first.cancel(type);
        s.run();
        CHECK(first.code == condition::cancelled);
        s.q->add("a");
        s.run();
        CHECK(second.keys == "a");
        CHECK(s.idle());
    }
}

TEST_CASE("a getter that is cancelled after an item was handed to it returns the item") {
    queue_scene s;
    getter first(s), second(s);
    s.run();
    s.q->add("a"); // handed to first, which has not run yet
    first.cancel();
    s.run();
    CHECK(first.keys == "a");
    CHECK_FALSE(second.ended);
    s.q->add("b");
    s.run();
    CHECK(second.keys == "b");
}

TEST_CASE("a getter that is cancelled before an item comes, but has not run yet, loses nothing") {
    queue_scene s;
    getter first(s);
    s.run();
    first.cancel();
    s.q->add("a");
    s.run();
    if (first.keys.empty()) {
        CHECK(s.next() == "a");
    } else {
        CHECK(first.keys == "a");
    }
}

TEST_CASE("a getter that is cancelled before it asks takes nothing") {
    queue_scene s;
    s.q->add("a");
    error_code code;
    auto body = [](queue* q, error_code* c) -> asio::awaitable<void> {
        co_await asio::this_coro::throw_if_cancelled(false);
        co_await testing::settle(2);
        try {
            const queue::item one = co_await q->get();
        } catch (const error& e) {
            *c = e.code();
        }
    };
    asio::cancellation_signal signal;
    asio::co_spawn(s.context, body(s.q.get(), &code),
                   asio::bind_cancellation_slot(signal.slot(), [](std::exception_ptr) {}));
    s.context.poll_one();
    signal.emit(asio::cancellation_type::terminal);
    s.run();
    CHECK(code == condition::cancelled);
    CHECK(s.next() == "a");
}

TEST_CASE("a getter that is destroyed with its context gives its item to the next getter, in another context") {
    queue_scene s;
    auto other = std::make_unique<asio::io_context>(1);
    auto body = [](queue* q) -> asio::awaitable<void> {
        const queue::item one = co_await q->get();
        FAIL("it is destroyed before it runs");
    };
    asio::co_spawn(*other, body(s.q.get()), [](std::exception_ptr) {});
    other->poll();
    getter second(s);
    s.run();
    s.q->add("a");
    s.run();
    CHECK_FALSE(second.ended);
    other.reset();
    s.run();
    CHECK(second.keys == "a");
    CHECK(s.idle());
}

TEST_CASE("the queue object may be destroyed while getters wait and items are held") {
    queue_scene s;
    s.q->add("a");
    s.q->add("b");
    queue::item a = s.q->try_get(), unseen = s.q->try_get();
    CHECK(a.key() == "a");
    getter one(s);
    s.run();
    s.q->add_after("later", 1h);
    s.run();
    s.q.reset();
    CHECK(s.idle());
    CHECK(one.keys == "-");
    CHECK(a.key() == "a");
    a.requeue();
    a.requeue_after(1s);
    a.done();
    unseen.done();
    CHECK(s.idle());
}

TEST_CASE("the queue object may be destroyed between a hand-out and the run of the getter that it woke") {
    queue_scene s;
    getter one(s);
    std::vector<queue::item> batch;
    const auto get_batch = [](queue* q, std::vector<queue::item>* into) -> asio::awaitable<void> {
        *into = co_await q->get_batch(5);
    };
    asio::co_spawn(s.context, get_batch(s.q.get(), &batch), asio::detached);
    s.run();
    s.q->add("a");
    s.q->add("b");
    s.q->add("c");
    s.q.reset();
    CHECK(s.idle());
    CHECK(one.keys == "a"); // the key is read when nothing but the item holds the state of the queue
    REQUIRE(batch.size() == 2);
    CHECK(batch[0].key() == "b");
    CHECK(batch[1].key() == "c");
    one.held.clear();
    batch[0].done();
    batch.clear();
    CHECK(s.idle());
}

TEST_CASE("the context may be destroyed while the timer sleeps") {
    queue_scene s;
    {
        asio::io_context other(1);
        queue q(runtime(other.get_executor()).with_clock(s.clock));
        q.add_after("a", 1h);
        other.poll();
        CHECK(s.clock->waiters() == 1);
    }
    CHECK(s.clock->waiters() == 0);
}

TEST_CASE("an item may outlive queue and context, and may then still be asked to come back later") {
    for (const bool on_strand : {false, true}) {
        auto context = std::make_unique<asio::io_context>(1);
        const auto clock = std::make_shared<testing::manual_clock>();
        runtime world(on_strand ? asio::any_io_executor(asio::make_strand(*context)) : context->get_executor());
        world.with_clock(clock);
        auto q = std::make_unique<work_queue<>>(world, work_queue_options());
        world = runtime(context->get_executor());
        q->add("a");
        q->add_after("b", 1h);
        work_queue<>::item kept = q->try_get();
        REQUIRE(kept);
        context->poll();
        q.reset();
        context.reset();
        kept.requeue_after(1min);
        kept.done();
        CHECK_FALSE(kept);
        CHECK(clock->waiters() == 0);
    }
}

TEST_CASE("a key that is delayed after the timer had nothing left to do comes, too") {
    queue_scene s;
    for (int i = 0; i < 3; ++i) {
        s.q->add_after("a", 1s);
        s.pass(1s);
        CHECK(s.next() == "a");
        CHECK(s.idle());
    }
}
