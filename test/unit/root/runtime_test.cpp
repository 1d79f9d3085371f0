#include "support/log_capture.hpp"
#include "support/run.hpp"
#include "support/throwing_sink.hpp"

#include "root/executor_home.hpp"

#include <informer/runtime.hpp>

#include <boost/asio/strand.hpp>

#include <atomic>
#include <memory>
#include <optional>
#include <set>
#include <stdexcept>
#include <thread>

using namespace informer;
using namespace std::chrono_literals;

TEST_CASE("equal seeds draw equal sequences, copies share one", "[runtime]") {
    asio::io_context context;
    runtime a(context.get_executor()), b(context.get_executor());
    a.with_seed(5);
    b.with_seed(5);
    const auto first = a.draw_seed();
    CHECK(first == b.draw_seed());
    const runtime copy = a;
    const auto second = copy.draw_seed();
    CHECK(second != first);
    CHECK(a.draw_seed() != second);
    CHECK(runtime(context.get_executor()).draw_seed() != runtime(context.get_executor()).draw_seed());
}

TEST_CASE("a runtime may outlive its context, on a strand, too: its executor is then empty", "[runtime]") {
    for (const bool on_strand : {false, true}) {
        auto context = std::make_unique<asio::io_context>(1);
        std::optional<runtime> first(on_strand ? asio::any_io_executor(asio::make_strand(*context))
                                               : context->get_executor());
        const runtime copy = *first;
        std::optional<runtime> other(context->get_executor());
        CHECK(copy.executor() == first->executor());
        first.reset();
        other.reset();
        CHECK(copy.executor());
        context.reset();
        CHECK_FALSE(copy.executor());
        context = std::make_unique<asio::io_context>(1); // perhaps at the same address
        CHECK_FALSE(copy.executor());
    }
}

TEST_CASE("runtimes may be dropped, and posted to, while their context is being destroyed", "[runtime]") {
    for (int i = 0; i < 300; ++i) {
        auto context = std::make_unique<asio::io_context>(2);
        auto used = std::make_unique<runtime>(context->get_executor()),
             dropped = std::make_unique<runtime>(context->get_executor());
        std::atomic<int> ready{0};
        const auto together = [&ready] {
            ++ready;
            while (ready != 3) std::this_thread::yield();
        };
        std::thread posts([&] {
            together();
            for (int k = 0; k < 20; ++k) detail::home_of(*used).post([] {});
            used.reset();
        });
        std::thread drops([&] {
            together();
            for (int k = 0; k < i * 5; ++k) static_cast<void>(ready.load());
            dropped.reset();
        });
        together();
        context.reset();
        posts.join();
        drops.join();
    }
    SUCCEED();
}

TEST_CASE("threads draw different seeds", "[runtime]") {
    asio::io_context context;
    const runtime r(context.get_executor());
    std::vector<std::uint64_t> drawn(4000);
    std::vector<std::thread> threads;
    for (std::size_t t = 0; t < 4; ++t)
        threads.emplace_back([&, t] {
            for (std::size_t i = 0; i < 1000; ++i) drawn[t * 1000 + i] = r.draw_seed();
        });
    for (auto& t : threads) t.join();
    CHECK(std::set<std::uint64_t>(drawn.begin(), drawn.end()).size() == drawn.size());
}

TEST_CASE("log levels have names") {
    CHECK(to_string(log_level::error) == "error");
    CHECK(to_string(log_level::warning) == "warning");
    CHECK(to_string(log_level::info) == "info");
    CHECK(to_string(log_level::debug) == "debug");
}

TEST_CASE("log lines pass up to the chosen verbosity", "[runtime]") {
    asio::io_context context;
    testing::log_capture logs;
    runtime r(context.get_executor());
    r.log(log_level::error, "nobody listens");
    CHECK_FALSE(r.logs(log_level::error));
    r.with_logger(logs.logger(), log_level::warning);
    r.log(log_level::error, "one");
    r.log(log_level::warning, "two");
    r.log(log_level::info, "three");
    CHECK(r.logs(log_level::warning));
    CHECK_FALSE(r.logs(log_level::info));
    REQUIRE(logs.lines().size() == 2);
    CHECK(logs.lines()[1].text == "two");
    CHECK(logs.count(log_level::error) == 1);
}

TEST_CASE("text that others chose cannot break a log line", "[runtime]") {
    asio::io_context context;
    testing::log_capture logs;
    runtime r(context.get_executor());
    r.with_logger(logs.logger());
    r.log(log_level::info, "the leader is a\nerror: all is lost\x1b[2J\x7f\t\xc3\xa4");
    REQUIRE(logs.lines().size() == 1);
    CHECK(logs.lines()[0].text == "the leader is a error: all is lost [2J  \xc3\xa4");
}

TEST_CASE("a logger that throws disturbs nobody", "[runtime]") {
    asio::io_context context;
    runtime r(context.get_executor());
    r.with_logger([](log_level, std::string_view) { throw std::runtime_error("disk full"); });
    CHECK_NOTHROW(r.log(log_level::error, "x"));
}

TEST_CASE("a metrics sink that throws disturbs nobody", "[runtime]") {
    asio::io_context context;
    runtime r(context.get_executor());
    CHECK(r.metrics() == nullptr);
    r.with_metrics(std::make_shared<informer::testing::throwing_sink>());
    REQUIRE(r.metrics() != nullptr);
    CHECK_NOTHROW(r.metrics()->add("a", 1, {{"b", "c"}}));
    CHECK_NOTHROW(r.metrics()->set("a", 1, {}));
    CHECK_NOTHROW(r.metrics()->observe("a", 1, {}));
    CHECK_NOTHROW(r.metrics()->forget("a", {}));
    r.with_metrics(nullptr);
    CHECK(r.metrics() == nullptr);
}

namespace {

asio::awaitable<void> sleeps(std::shared_ptr<informer::clock> c) {
    const auto start = c->now();
    const bool slept = co_await c->sleep_for(5ms);
    CHECK(slept);
    CHECK(c->now() - start >= 5ms);
    const bool past = co_await c->sleep_until(start);
    CHECK(past);
}

} // namespace

TEST_CASE("the system clock sleeps", "[runtime]") {
    testing::run_test(sleeps(system_clock()));
}

TEST_CASE("a missing clock is the system clock", "[runtime]") {
    asio::io_context context;
    runtime r(context.get_executor());
    r.with_clock(nullptr);
    const auto before = std::chrono::steady_clock::now();
    CHECK(r.clock().now() >= before);
}

TEST_CASE("a sleep of the longest duration lasts for ever", "[runtime]") {
    struct noting_clock final : informer::clock {
        time_point now() const override { return time_point(std::chrono::hours(1)); }
        std::chrono::system_clock::time_point wall() const override { return {}; }
        asio::awaitable<bool> sleep_until(time_point when) override {
            until = when;
            co_return true;
        }
        time_point until;
    };
    noting_clock c;
    const auto sleep = [](noting_clock* of, clock::duration d) -> asio::awaitable<void> { co_await of->sleep_for(d); };
    testing::run_test(sleep(&c, clock::duration::max()));
    CHECK(c.until == clock::time_point::max());
    testing::run_test(sleep(&c, std::chrono::hours(2)));
    CHECK(c.until == clock::time_point(std::chrono::hours(3)));
}
