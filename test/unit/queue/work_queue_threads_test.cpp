// All operations at once from many threads: ThreadSanitizer must find nothing, and no key may be lost.
#include "support/run.hpp"

#include <informer/queue/work_queue.hpp>
#include <informer/task_group.hpp>

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <catch2/catch_test_macros.hpp>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

using namespace informer;
using namespace std::chrono_literals;
using queue = work_queue<>;

namespace {

constexpr int keys = 64;

/// How many holders each key has, and whether its last request was served.
struct ledger {
    std::atomic<int> holders[keys] = {};
    std::atomic<int> asked[keys] = {};  ///< number of the last request
    std::atomic<int> served[keys] = {}; ///< that number when it was last handed out
    std::atomic<bool> two_holders = false;
    std::atomic<int> handed_out = 0;
};

void work_on(ledger& l, const std::string& key) {
    const auto k = static_cast<std::size_t>(std::stoi(key));
    if (l.holders[k].fetch_add(1) != 0) l.two_holders = true;
    l.served[k] = l.asked[k].load();
    ++l.handed_out;
    l.holders[k].fetch_sub(1);
}

asio::awaitable<void> worker(queue* q, ledger* l) {
    for (;;) {
        queue::item one = co_await q->get();
        if (!one) co_return;
        work_on(*l, one.key());
        if (l->handed_out % 7 == 0) one.requeue_after(10us);
        if (l->handed_out % 11 == 0) one.requeue_rate_limited();
        if (l->handed_out % 3 == 0) one.forget();
        one.done();
    }
}

/// An io_context with a thread of its own.
class loop {
public:
    loop() : thread_([this] { context.run(); }) {}
    void join() {
        work_.reset();
        thread_.join();
    }
    asio::io_context context{1};

private:
    asio::executor_work_guard<asio::io_context::executor_type> work_{context.get_executor()};
    std::thread thread_;
};

} // namespace

TEST_CASE("adds from any thread, getters on several executors: one holder per key, every request is served") {
    ledger l;
    loop home, away;
    auto q = std::make_unique<queue>(runtime(home.context.get_executor()),
                                     work_queue_options().limiter(std::make_shared<exponential_limiter>(1us, 10us)));
    for (int w = 0; w < 3; ++w) {
        asio::co_spawn(home.context, worker(q.get(), &l), [](std::exception_ptr) {});
        asio::co_spawn(away.context, worker(q.get(), &l), [](std::exception_ptr) {});
    }
    std::vector<std::thread> producers;
    for (int t = 0; t < 3; ++t) {
        producers.emplace_back([&, t] {
            for (int i = 0; i < 4000; ++i) {
                const int k = (i * 7 + t * 13) % keys;
                l.asked[k].fetch_add(1);
                const std::string key = std::to_string(k);
                switch (i % 4) {
                case 0: q->add(key, i % 3); break;
                case 1: q->add_after(key, 20us); break;
                case 2: q->add(key); break;
                default: q->add_rate_limited(key);
                }
                if (i % 16 == 0) q->forget(key);
                if (i % 64 == 0) static_cast<void>(q->figures());
            }
        });
    }
    producers.emplace_back([&] { // a thread that takes items with try_get()
        for (int i = 0; i < 2000; ++i) {
            queue::item one = q->try_get();
            if (!one) continue;
            if (i % 5 == 0) continue; // not looked at: goes back
            work_on(l, one.key());
        }
    });
    for (std::thread& t : producers) t.join();
    const auto until = std::chrono::steady_clock::now() + 30s;
    const auto all_served = [&] {
        for (int k = 0; k < keys; ++k) {
            if (l.served[k] != l.asked[k]) return false;
        }
        const work_queue_figures f = q->figures();
        return f.ready == 0;
    };
    while (!all_served() && std::chrono::steady_clock::now() < until) std::this_thread::yield();
    CHECK(all_served());
    CHECK_FALSE(l.two_holders);
    q->shut_down();
    home.join();
    away.join();
    CHECK(q->figures().processing == 0);
}

TEST_CASE("getters that are cancelled while other threads add lose nothing") {
    loop home;
    queue q(runtime(home.context.get_executor()));
    std::atomic<int> got = 0;
    std::atomic<bool> stop = false;
    auto one_get = [](queue* from, std::atomic<int>* count) -> asio::awaitable<void> {
        queue::item one = co_await from->get();
        if (!one) co_return;
        if (!one.key().empty()) ++*count;
        one.done();
    };
    auto hasty = [](queue* from, std::atomic<int>* count, std::atomic<bool>* stop_now,
                    auto get) -> asio::awaitable<void> {
        const auto executor = co_await asio::this_coro::executor;
        for (int round = 0; !*stop_now; ++round) {
            asio::cancellation_signal signal;
            bool ended = false;
            asio::co_spawn(executor, get(from, count),
                           asio::bind_cancellation_slot(signal.slot(), [&ended](std::exception_ptr) { ended = true; }));
            for (int turn = 0; turn < 1 + round % 4; ++turn) co_await asio::post(executor, asio::use_awaitable);
            signal.emit(asio::cancellation_type::terminal);
            while (!ended) co_await asio::post(executor, asio::use_awaitable);
        }
    };
    asio::co_spawn(home.context, hasty(&q, &got, &stop, one_get), [](std::exception_ptr) {});
    asio::co_spawn(home.context, hasty(&q, &got, &stop, one_get), [](std::exception_ptr) {});
    constexpr int added = 3000;
    std::vector<std::thread> producers;
    for (int t = 0; t < 2; ++t) {
        producers.emplace_back([&q, t] {
            for (int i = 0; i < added; ++i) q.add(std::to_string(t * added + i));
        });
    }
    for (std::thread& t : producers) t.join();
    const auto until = std::chrono::steady_clock::now() + 30s;
    while (got != 2 * added && std::chrono::steady_clock::now() < until) std::this_thread::yield();
    CHECK(got == 2 * added);
    stop = true;
    home.join();
    CHECK(q.figures().known == 0);
}

TEST_CASE("shutdown and destruction race with adds, getters and timers") {
    for (int round = 0; round < 30; ++round) {
        ledger l;
        loop home, away;
        auto q = std::make_shared<queue>(runtime(home.context.get_executor()));
        for (int w = 0; w < 2; ++w) {
            asio::co_spawn(home.context, worker(q.get(), &l), [q](std::exception_ptr) {});
            asio::co_spawn(away.context, worker(q.get(), &l), [q](std::exception_ptr) {});
        }
        std::thread adder([q] {
            for (int i = 0; i < 200; ++i) {
                q->add(std::to_string(i % keys));
                q->add_after(std::to_string((i + 1) % keys), 1us);
            }
        });
        std::thread stopper([q, round] {
            for (int i = 0; i < round * 10; ++i) std::this_thread::yield();
            q->shut_down();
        });
        stopper.join();
        adder.join();
        q.reset();
        home.join();
        away.join();
        CHECK_FALSE(l.two_holders);
    }
}

TEST_CASE("the queue object may be destroyed while another thread finishes its last item, metrics included") {
    class no_sink final : public metrics_sink {
    public:
        void add(std::string_view, double, labels) override {}
        void set(std::string_view, double, labels) override {}
        void observe(std::string_view, double, labels) override {}
    };
    const auto sink = std::make_shared<no_sink>();
    for (int round = 0; round < 200; ++round) {
        asio::io_context home(1);
        auto q =
            std::make_unique<queue>(runtime(home.get_executor()).with_metrics(sink), work_queue_options().name("q"));
        q->add("a");
        queue::item last = q->try_get();
        q->shut_down();
        home.run_for(5s); // the timer of the metrics ends: nothing else holds the queue
        REQUIRE(home.stopped());
        std::atomic<int> ready = 0;
        const auto meet = [&ready] {
            ++ready;
            while (ready != 2) std::this_thread::yield();
        };
        std::thread worker([&] {
            meet();
            if (last.key() == "a") last.done();
        });
        meet();
        for (int i = 0; i < round % 20; ++i) std::this_thread::yield();
        q.reset();
        worker.join();
        home.run_for(5s);
        CHECK(home.stopped());
    }
}

TEST_CASE("two threads may finish the last items of a queue that is destroyed, however slow the metrics are") {
    /// Once `armed`, holds up the next caller until it is released.
    class slow_sink final : public metrics_sink {
    public:
        void add(std::string_view, double, labels) override { hear(); }
        void set(std::string_view, double, labels) override { hear(); }
        void observe(std::string_view, double, labels) override { hear(); }
        void hear() {
            if (!armed.exchange(false)) return;
            while (!released) std::this_thread::yield();
        }
        std::atomic<bool> armed = false, released = false;
    };
    const auto sink = std::make_shared<slow_sink>();
    asio::io_context home(1);
    auto q = std::make_unique<queue>(runtime(home.get_executor()).with_metrics(sink), work_queue_options().name("q"));
    q->add("a");
    q->add("b");
    queue::item first = q->try_get(), second = q->try_get();
    q->shut_down();
    home.run_for(5s); // the timer of the metrics ends: nothing else holds the queue
    REQUIRE(home.stopped());
    q.reset();
    sink->armed = true;
    std::thread other([&first] { first.done(); });
    while (sink->armed) std::this_thread::yield();
    second.done(); // the last item: only the call of the other thread still needs the queue
    sink->released = true;
    other.join();
}
