#include <informer/queue/work_queue.hpp>

#include <informer/testing/manual_clock.hpp>

#include "support/run.hpp"

#include <catch2/catch_test_macros.hpp>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

using namespace informer;
using namespace std::chrono_literals;
using informer::testing::manual_clock;
using informer::testing::run_test;
using informer::testing::settle;

namespace {

using queue = work_queue<>;

/// A queue, its clock and its io_context.
struct scene {
    explicit scene(work_queue_options o = work_queue_options())
        : clock(std::make_shared<manual_clock>()), world(context.get_executor()),
          q(std::make_unique<queue>(world.with_clock(clock), std::move(o))) {}

    std::string next() {
        queue::item one = q->try_get();
        if (!one) return "-";
        std::string k = one.key();
        one.done();
        return k;
    }
    /// Lets time pass, and what it started run.
    void pass(informer::clock::duration d) {
        clock->advance(d);
        context.restart();
        context.poll();
    }

    asio::io_context context{1};
    std::shared_ptr<manual_clock> clock;
    runtime world;
    std::unique_ptr<queue> q;
};

} // namespace

TEST_CASE("Q1 a key that waits already is not queued twice") {
    scene s;
    s.q->add("a");
    s.q->add("b");
    s.q->add("a");
    CHECK(s.q->size() == 2);
    CHECK(s.next() == "a");
    CHECK(s.next() == "b");
    CHECK(s.next() == "-");
}

TEST_CASE("Q2 get waits for an item and resumes when one is added") {
    scene s;
    auto body = [](scene* c) -> asio::awaitable<void> {
        queue::item one = co_await c->q->get();
        CHECK(one.key() == "a");
    };
    asio::co_spawn(s.context, body(&s), asio::detached);
    s.context.poll();
    s.q->add("a");
    s.context.run();
    CHECK(s.q->figures().processing == 0);
}

TEST_CASE("Q6 a delayed item is handed out when it is due, not before") {
    scene s;
    s.q->add_after("a", 5s);
    s.pass(4999ms);
    CHECK(s.next() == "-");
    s.pass(1ms);
    CHECK(s.q->size() == 1);
    CHECK(s.next() == "a");
}
