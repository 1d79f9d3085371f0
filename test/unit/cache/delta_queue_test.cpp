#include "support/run.hpp"

#include <informer/cache/delta_queue.hpp>
#include <informer/task_group.hpp>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

using namespace informer;
using namespace informer::testing;

namespace {

delta mark(int n) {
    delta d(delta::kind::bookmark);
    d.version = resource_version(std::to_string(n));
    return d;
}

asio::awaitable<void> produce(delta_queue* q, int from, int to, bool* done) {
    co_await asio::this_coro::throw_if_cancelled(false);
    for (int i = from; i < to; ++i) {
        q->push(mark(i));
        const bool room = co_await q->room();
        if (!room) co_return;
    }
    *done = true;
}

asio::awaitable<void> consume(delta_queue* q, std::size_t max, std::vector<std::string>* got, bool* ended) {
    co_await asio::this_coro::throw_if_cancelled(false);
    for (;;) {
        const std::vector<delta> batch = co_await q->pop(max);
        if (batch.empty()) break;
        if (batch.size() > std::min<std::size_t>(max, 1000)) co_return;
        for (const delta& d : batch) got->push_back(d.version.str());
    }
    *ended = true;
}

} // namespace

TEST_CASE("RF1 deltas come out in order, in batches, none merged", "[delta_queue]") {
    asio::io_context context;
    delta_queue q(context.get_executor(), 10);
    bool produced = false, consumed = false;
    std::vector<std::string> got;
    asio::co_spawn(context, consume(&q, 7, &got, &consumed), asio::detached);
    asio::co_spawn(context, produce(&q, 0, 1000, &produced), asio::detached);
    context.poll();
    CHECK(produced);
    REQUIRE(got.size() == 1000);
    for (int i = 0; i < 1000; ++i) CHECK(got[static_cast<std::size_t>(i)] == std::to_string(i));
    CHECK(q.peak() <= 10);
    q.close();
    context.restart();
    context.poll();
    CHECK(consumed);
}

TEST_CASE("RF1 deltas come out in order, each once, however many were pushed at once", "[delta_queue]") {
    for (const std::size_t max : {1U, 300U, 999U, 1000U, 100'000U}) {
        CAPTURE(max);
        asio::io_context context;
        delta_queue q(context.get_executor(), 10);
        bool consumed = false;
        std::vector<std::string> got;
        for (int i = 0; i < 4500; ++i) q.push(mark(i));
        CHECK(q.peak() == 4500);
        q.close();
        asio::co_spawn(context, consume(&q, max, &got, &consumed), asio::detached);
        context.run();
        CHECK(consumed);
        REQUIRE(got.size() == 4500);
        for (int i = 0; i < 4500; ++i) CHECK(got[static_cast<std::size_t>(i)] == std::to_string(i));
        CHECK(q.size() == 0);
    }
}

TEST_CASE("pop(0) returns one delta: an empty result would mean that the queue is closed", "[delta_queue]") {
    asio::io_context context;
    delta_queue q(context.get_executor(), 10);
    q.push(mark(1));
    q.push(mark(2));
    std::size_t got = 0;
    asio::co_spawn(context, q.pop(0), [&got](std::exception_ptr, std::vector<delta> batch) { got = batch.size(); });
    context.poll();
    CHECK(got == 1);
    CHECK(q.size() == 1);
}

TEST_CASE("a full queue holds its producer until there is room", "[delta_queue]") {
    asio::io_context context;
    delta_queue q(context.get_executor(), 3);
    bool produced = false;
    asio::co_spawn(context, produce(&q, 0, 5, &produced), asio::detached);
    context.poll();
    CHECK_FALSE(produced);
    CHECK(q.size() == 3);
    CHECK(q.peak() == 3);
    bool consumed = false;
    std::vector<std::string> got;
    asio::co_spawn(context, consume(&q, 100, &got, &consumed), asio::detached);
    context.restart();
    context.poll();
    CHECK(produced);
    CHECK(got.size() == 5);
    q.close();
    context.restart();
    context.run();
}

TEST_CASE("RF9 a closed queue gives what it holds, then ends; nothing more goes in", "[delta_queue]") {
    asio::io_context context;
    delta_queue q(context.get_executor(), 3);
    CHECK(q.push(mark(1)));
    CHECK(q.push(mark(2)));
    q.close();
    CHECK_FALSE(q.push(mark(3)));
    bool ended = false;
    std::vector<std::string> got;
    asio::co_spawn(context, consume(&q, 1, &got, &ended), asio::detached);
    context.run();
    CHECK(ended);
    CHECK(got == std::vector<std::string>{"1", "2"});
}

TEST_CASE("closing and cancelling end both waits", "[delta_queue]") {
    asio::io_context context;
    delta_queue empty(context.get_executor(), 1), full(context.get_executor(), 1);
    task_group group(context.get_executor());
    bool produced = false, ended = false;
    std::vector<std::string> got;
    group.spawn(consume(&empty, 1, &got, &ended));
    group.spawn(produce(&full, 0, 2, &produced));
    context.poll();
    SECTION("closed") {
        empty.close();
        full.close();
    }
    SECTION("cancelled") {
        group.stop();
    }
    context.restart();
    context.run();
    CHECK(ended);
    CHECK_FALSE(produced);
    CHECK(group.size() == 0);
}
