// Wake-ups from other threads than those that run the io_context, or destroy it.
#include "kept_waiter.hpp"
#include "support/parking_place.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/execution.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>

#include <catch2/catch_test_macros.hpp>

#include <atomic>
#include <chrono>
#include <functional>
#include <latch>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

using namespace parking_tests;
using informer::detail::wait_parked;
using informer::detail::wake;
using informer::detail::wake_all;
using informer::detail::wake_list;
using informer::testing::place;

TEST_CASE("the destruction of an io_context waits for a waker that has claimed a waiter") {
    const auto w = std::make_shared<waiter>();
    int frames = 0;
    std::vector<bool> woken;
    for (int n = 0; n < 100; ++n) {
        auto io = std::make_unique<asio::io_context>();
        asio::co_spawn(*io, waits_in(w, 1, &frames, &woken), asio::detached);
        io->poll();
        REQUIRE(w->claim());
        std::thread destroys([&io] { io.reset(); });
        for (int turns = n % 10; turns > 0; --turns) std::this_thread::yield();
        CHECK(frames == 1);
        w->wake_claimed();
        destroys.join();
        CHECK(frames == 0);
        CHECK(w->idle());
    }
    CHECK(woken.empty());
}

namespace {

/// Like the io_context's own executor, but calls `before` first, once, when something is posted.
class careful_executor {
public:
    careful_executor(asio::io_context* io, std::function<void()>* before) : io_(io), before_(before) {}
    asio::execution_context& query(asio::execution::context_t) const noexcept { return *io_; }
    static constexpr asio::execution::blocking_t query(asio::execution::blocking_t) noexcept {
        return asio::execution::blocking.never;
    }
    friend bool operator==(const careful_executor&, const careful_executor&) noexcept = default;
    template <class Function>
    void execute(Function f) const {
        if (const auto once = std::exchange(*before_, {})) once();
        asio::post(*io_, std::move(f));
    }

private:
    asio::io_context* io_;
    std::function<void()>* before_;
};

} // namespace

TEST_CASE("the destruction of an io_context waits for a waker that has yet to post") {
    const auto w = std::make_shared<waiter>();
    int frames = 0;
    std::vector<bool> woken;
    for (int n = 0; n < 20; ++n) {
        auto io = std::make_unique<asio::io_context>();
        std::function<void()> before;
        asio::co_spawn(careful_executor(io.get(), &before), waits_in(w, 1, &frames, &woken), asio::detached);
        io->poll();
        REQUIRE(w->waiting());
        std::thread destroys;
        std::atomic<bool> gone{false};
        bool early = false;
        before = [&] {
            destroys = std::thread([&] {
                io.reset();
                gone = true;
            });
            for (int turns = 0; turns < 200 && !gone; ++turns) std::this_thread::yield();
            early = gone;
        };
        wake(w);
        destroys.join();
        REQUIRE_FALSE(early);
        CHECK(frames == 0);
    }
    CHECK(woken.empty());
}

namespace {

asio::awaitable<void> waits_many_times(waiter_ptr* where, std::atomic<bool>* parked, int times) {
    for (int n = 0; n < times; ++n) {
        const auto here = [where, parked](const waiter_ptr& w) {
            *where = w;
            parked->store(true, std::memory_order_release);
        };
        co_await wait_parked(here);
    }
}

} // namespace

TEST_CASE("wake-ups from another thread on a context of two threads lose no coroutine") {
    constexpr int times = 2'000;
    asio::io_context io;
    std::vector<waiter_ptr> waiters(32);
    std::vector<std::atomic<bool>> parked(waiters.size());
    for (std::size_t i = 0; i < waiters.size(); ++i)
        asio::co_spawn(io, waits_many_times(&waiters[i], &parked[i], times), asio::detached);
    std::atomic<bool> over{false};
    std::thread waker([&] {
        while (!over) {
            for (std::size_t i = 0; i < waiters.size(); ++i) {
                if (!parked[i].exchange(false, std::memory_order_acquire)) continue;
                const waiter_ptr w = std::move(waiters[i]);
                wake(w);
            }
        }
    });
    std::thread second([&] { io.run(); });
    io.run(); // ends when all have been resumed as often as they waited
    second.join();
    over = true;
    waker.join();
    for (const std::atomic<bool>& p : parked) CHECK_FALSE(p);
}

namespace {

asio::awaitable<void> waits_in_many_times(waiter_ptr w, std::atomic<int>* resumed, int times) {
    for (int n = 0; n < times; ++n) {
        const into here(w.get());
        co_await wait_in(here);
        resumed->fetch_add(1);
    }
}

} // namespace

TEST_CASE("kept waiters: each wake-up from two threads at once, on a context of two threads, ends one wait") {
    constexpr int times = 2'000, n = 16;
    asio::io_context io;
    std::vector<waiter_ptr> all;
    std::vector<std::atomic<int>> resumed(n);
    for (std::size_t i = 0; i < n; ++i) {
        all.push_back(std::make_shared<waiter>());
        asio::co_spawn(io, waits_in_many_times(all[i], &resumed[i], times), asio::detached);
    }
    std::atomic<bool> over{false};
    std::atomic<int> claimed{0};
    const auto wakes = [&] {
        while (!over) {
            wake_list some;
            for (const waiter_ptr& w : all) {
                if (!w->claim()) continue;
                ++claimed;
                w->wake_claimed();
            }
            for (const waiter_ptr& w : all) some.add(*w);
            claimed += static_cast<int>(some.size());
        }
    };
    std::thread first(wakes), second(wakes), runs([&] { io.run(); });
    io.run();
    runs.join();
    over = true;
    first.join();
    second.join();
    CHECK(claimed == times * n);
    for (const std::atomic<int>& r : resumed) CHECK(r == times);
}

namespace {

asio::awaitable<void> meets_the_others(waiter_ptr* where, std::latch* all, std::atomic<int>* met) {
    const place here(where);
    co_await wait_parked(here);
    all->count_down();
    for (int i = 0; i < 1'000 && !all->try_wait(); ++i)
        std::this_thread::sleep_for(std::chrono::milliseconds(10)); // lint: sleep a blocked thread is what is tested
    if (all->try_wait()) met->fetch_add(1);
}

} // namespace

TEST_CASE(
    "a woken coroutine that blocks its thread does not hold up those woken with it if the context has other threads") {
    constexpr int n = 4;
    asio::io_context io;
    std::vector<waiter_ptr> waiters(n);
    std::latch all(n);
    std::atomic<int> met{0};
    for (waiter_ptr& w : waiters) asio::co_spawn(io, meets_the_others(&w, &all, &met), asio::detached);
    io.poll();
    std::vector<std::thread> threads;
    std::latch started(n);
    for (int i = 0; i < n; ++i) {
        threads.emplace_back([&] {
            started.arrive_and_wait();
            io.run();
        });
    }
    wake_all(waiters);
    for (std::thread& t : threads) t.join();
    CHECK(met == n);
}
