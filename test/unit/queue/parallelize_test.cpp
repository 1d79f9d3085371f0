#include <informer/queue/parallelize.hpp>

#include "support/run.hpp"

#include <informer/detail/async.hpp>
#include <informer/error.hpp>
#include <informer/task_group.hpp>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers.hpp>

#include <exception>
#include <stdexcept>
#include <string>
#include <vector>

using namespace informer;
using informer::testing::run_test;
using informer::testing::settle;

namespace {

/// What the pieces record.
struct record {
    std::vector<int> times = std::vector<int>(100);
    int running = 0, most = 0;
};

asio::awaitable<void> piece(record* r, std::size_t i) {
    ++r->times[i];
    r->most = std::max(r->most, ++r->running);
    co_await settle(static_cast<int>(i % 5));
    --r->running;
}

} // namespace

TEST_CASE("Q10 each piece is worked on exactly once, and at most as many at a time as there are workers") {
    for (const std::size_t workers : {0U, 1U, 3U, 1000U}) {
        record r;
        std::function<asio::awaitable<void>(std::size_t)> work = [&r](std::size_t i) { return piece(&r, i); };
        run_test(parallelize(workers, 100, work));
        CHECK(r.times == std::vector<int>(100, 1));
        CHECK(r.most <= static_cast<int>(std::max<std::size_t>(workers, 1)));
        CHECK(r.most > static_cast<int>(std::min<std::size_t>(workers, 10)) / 2);
    }
}

TEST_CASE("Q10 a missing work function is an error at once") {
    CHECK_THROWS_AS(parallelize(1, 3, nullptr), error);
}

TEST_CASE("Q10 no pieces: nothing happens") {
    record r;
    std::function<asio::awaitable<void>(std::size_t)> work = [&r](std::size_t i) { return piece(&r, i); };
    run_test(parallelize(3, 0, work));
    CHECK(r.times == std::vector<int>(100, 0));
}

TEST_CASE("Q10 after an exception no further piece starts, the running ones end, and then it is thrown") {
    record r;
    auto failing = [](record* of, std::size_t i) -> asio::awaitable<void> {
        co_await piece(of, i);
        if (i == 10) throw std::runtime_error("piece 10");
    };
    std::function<asio::awaitable<void>(std::size_t)> work = [&](std::size_t i) { return failing(&r, i); };
    CHECK_THROWS_WITH(run_test(parallelize(3, 100, work)), "piece 10");
    CHECK(r.running == 0);
    CHECK(r.times[10] == 1);
    CHECK(r.times[20] == 0);
}

TEST_CASE("Q10 cancelled: the running pieces are cancelled and joined, no further one starts") {
    asio::io_context context(1);
    std::vector<int> started, unwound;
    auto endless = [](std::vector<int>* s, std::vector<int>* u, std::size_t i) -> asio::awaitable<void> {
        s->push_back(static_cast<int>(i));
        const auto executor = co_await asio::this_coro::executor;
        detail::async_event never(executor);
        const bool woken = co_await never.wait();
        if (!woken) u->push_back(static_cast<int>(i));
    };
    std::function<asio::awaitable<void>(std::size_t)> work = [&](std::size_t i) {
        return endless(&started, &unwound, i);
    };
    task_group group(context.get_executor());
    std::exception_ptr failed;
    auto outer = [](std::function<asio::awaitable<void>(std::size_t)> w,
                    std::exception_ptr* f) -> asio::awaitable<void> {
        try {
            co_await parallelize(2, 100, w);
        } catch (...) {
            *f = std::current_exception();
        }
    };
    group.spawn(outer(work, &failed));
    context.poll();
    CHECK(started == std::vector<int>{0, 1});
    group.stop();
    context.run();
    CHECK(unwound == std::vector<int>{0, 1});
    CHECK(started == std::vector<int>{0, 1});
    REQUIRE(failed);
    CHECK_THROWS_AS(std::rethrow_exception(failed), error);
}
