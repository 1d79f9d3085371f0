#include "root/parking.hpp"
#include "scenario.hpp"
#include "support/parking_place.hpp"

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/execution.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/this_coro.hpp>

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <latch>
#include <memory>
#include <optional>
#include <set>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

namespace asio = boost::asio;
using informer::detail::is_waiting;
using informer::detail::wait_in;
using informer::detail::wait_parked;
using informer::detail::waiter;
using informer::detail::waiter_ptr;
using informer::detail::wake;
using informer::detail::wake_all;
using informer::detail::wake_list;
using informer::testing::place;

namespace {

// Outlives its contexts.
struct lot {
    explicit lot(std::size_t n) : waiters(n) {}
    std::vector<waiter_ptr> waiters;
    std::vector<std::size_t> resumed;
    std::vector<bool> woken;
    int frames = 0;
};

asio::awaitable<void> waits(lot* l, std::size_t i) {
    const scenario::alive frame(l->frames);
    const place here(&l->waiters[i]);
    const bool woken = co_await wait_parked(here);
    l->resumed.push_back(i);
    l->woken.push_back(woken);
}

asio::awaitable<void> waits_and_throws(lot* l, std::size_t i) {
    const place here(&l->waiters[i]);
    co_await wait_parked(here);
    throw std::runtime_error("of the coroutine");
}

void rethrow(const std::exception_ptr& e) {
    if (e) std::rethrow_exception(e);
}

std::vector<std::size_t> numbers(std::size_t n) {
    std::vector<std::size_t> all(n);
    for (std::size_t i = 0; i < n; ++i) all[i] = i;
    return all;
}

} // namespace

TEST_CASE("a woken coroutine is resumed through its executor, never inline, once, in the order of the wake-ups") {
    for (const std::size_t n : {std::size_t{1}, std::size_t{16}, std::size_t{17}, std::size_t{100}}) {
        lot l(n);
        asio::io_context io;
        for (std::size_t i = 0; i < n; ++i) asio::co_spawn(io, waits(&l, i), asio::detached);
        io.poll();
        for (const waiter_ptr& w : l.waiters) REQUIRE(is_waiting(w));
        for (const waiter_ptr& w : l.waiters) {
            wake(w);
            wake(w, false);
            CHECK_FALSE(is_waiting(w));
        }
        CHECK(l.resumed.empty());
        io.run();
        CHECK(l.resumed == numbers(n));
        CHECK(l.woken == std::vector<bool>(n, true));
        CHECK(l.frames == 0);
    }
}

TEST_CASE("a woken coroutine is resumed where a handler posted at its wake-up would have run") {
    constexpr std::size_t n = 40;
    lot l(n);
    asio::io_context io(1);
    for (std::size_t i = 0; i < n; ++i) asio::co_spawn(io, waits(&l, i), asio::detached);
    io.poll();
    for (const waiter_ptr& w : l.waiters) wake(w);
    std::size_t before = 0;
    asio::post(io, [&] { before = l.resumed.size(); });
    io.run();
    CHECK(before == n);
}

namespace {

asio::awaitable<void> runs_the_context(asio::io_context* io, lot* l, std::size_t i) {
    const place here(&l->waiters[i]);
    co_await wait_parked(here);
    for (int n = 0; n < 100 && l->resumed.empty(); ++n) io->poll_one();
    CHECK(l->resumed.size() == 1);
}

} // namespace

TEST_CASE("a coroutine that runs the io_context itself resumes those that were woken with it") {
    asio::io_context io;
    lot l(2);
    asio::co_spawn(io, runs_the_context(&io, &l, 0), asio::detached);
    asio::co_spawn(io, waits(&l, 1), asio::detached);
    io.poll();
    wake_all(l.waiters);
    io.run();
    CHECK(l.resumed == std::vector<std::size_t>{1});
}

TEST_CASE("wake_all wakes waiters in their order, whatever their executors, and skips those woken before") {
    constexpr std::size_t n = 60;
    lot l(n);
    asio::io_context one, other;
    const auto strand = asio::make_strand(one);
    // Groups of waiters on each context, and some on a strand.
    const auto in_other = [](std::size_t i) { return i / 5 % 2 == 1; };
    for (std::size_t i = 0; i < n; ++i) {
        if (in_other(i))
            asio::co_spawn(other, waits(&l, i), asio::detached);
        else if (i % 7 == 0)
            asio::co_spawn(strand, waits(&l, i), asio::detached);
        else
            asio::co_spawn(one, waits(&l, i), asio::detached);
    }
    one.poll();
    other.poll();
    wake(l.waiters[2], false);
    wake(l.waiters[7], false);
    std::vector<waiter_ptr> all = l.waiters;
    all.insert(all.begin() + 10, waiter_ptr());
    wake_all(all);
    CHECK(all.empty());
    CHECK(l.resumed.empty());
    other.poll();
    std::vector<std::size_t> expected;
    for (std::size_t i = 0; i < n; ++i)
        if (in_other(i) && i != 7) expected.push_back(i);
    expected.insert(expected.begin(), 7);
    CHECK(l.resumed == expected);
    CHECK_FALSE(l.woken.front());
    one.poll();
    CHECK(l.resumed.size() == n);
    CHECK(std::count(l.woken.begin(), l.woken.end(), false) == 2);
    CHECK(std::set<std::size_t>(l.resumed.begin(), l.resumed.end()).size() == n);
    CHECK(l.frames == 0);
}

TEST_CASE("waiters of a context at the address of a destroyed one wait in the new context") {
    lot l(1);
    std::optional<asio::io_context> io;
    for (std::size_t n = 1; n <= 3; ++n) {
        io.emplace();
        asio::co_spawn(*io, waits(&l, 0), asio::detached);
        io->poll();
        wake(l.waiters[0]);
        io->run();
        CHECK(l.resumed.size() == n);
        io->restart();
        asio::co_spawn(*io, waits(&l, 0), asio::detached);
        io->poll();
        io.reset(); // finds the coroutine
        CHECK(l.frames == 0);
    }
}

TEST_CASE("a coroutine that is parked keeps its io_context running") {
    lot l(1);
    asio::io_context io;
    asio::co_spawn(io, waits(&l, 0), asio::detached);
    io.poll();
    CHECK_FALSE(io.stopped());
    wake(l.waiters[0]);
    io.run();
    CHECK(io.stopped());
}

TEST_CASE("a coroutine that throws loses no wake-up of those that were woken with it") {
    constexpr std::size_t n = 20;
    lot l(n + 1);
    asio::io_context io;
    asio::co_spawn(io, waits_and_throws(&l, n), rethrow);
    for (std::size_t i = 0; i < n; ++i) asio::co_spawn(io, waits(&l, i), asio::detached);
    io.poll();
    wake(l.waiters[n]);
    for (std::size_t i = 0; i < n; ++i) wake(l.waiters[i]);
    CHECK_THROWS_AS(io.run(), std::runtime_error);
    io.run();
    CHECK(l.resumed == numbers(n));
}

TEST_CASE("cancellation resumes a parked coroutine with false, and does nothing to a woken one") {
    lot l(2);
    asio::io_context io;
    asio::cancellation_signal stop;
    asio::co_spawn(io, waits(&l, 0), asio::bind_cancellation_slot(stop.slot(), asio::detached));
    io.poll();
    stop.emit(asio::cancellation_type::terminal);
    CHECK(l.resumed.empty());
    io.run();
    CHECK(l.woken == std::vector<bool>{false});

    io.restart();
    asio::co_spawn(io, waits(&l, 1), asio::bind_cancellation_slot(stop.slot(), asio::detached));
    io.poll();
    wake(l.waiters[1]);
    stop.emit(asio::cancellation_type::terminal);
    io.run();
    CHECK(l.woken == std::vector<bool>{false, true});
}

TEST_CASE("a coroutine that is parked, or woken but not resumed, is destroyed with its io_context") {
    lot l(40);
    auto io = std::make_unique<asio::io_context>();
    for (std::size_t i = 0; i < l.waiters.size(); ++i) asio::co_spawn(*io, waits(&l, i), asio::detached);
    io->poll();
    CHECK(l.frames == 40);
    for (std::size_t i = 0; i < 20; ++i) wake(l.waiters[i]);
    io.reset();
    CHECK(l.frames == 0);
    CHECK(l.resumed.empty());
    for (std::size_t i = 20; i < 40; ++i) CHECK_FALSE(is_waiting(l.waiters[i]));
    for (std::size_t i = 0; i < 40; i += 2) wake(l.waiters[i]); // in vain, and without access to what is gone
    wake_all(l.waiters);
    CHECK(l.waiters.empty());
    CHECK(l.resumed.empty());
}

TEST_CASE("a waiter of a strand is resumed in the strand") {
    lot l(20);
    asio::io_context io;
    const auto strand = asio::make_strand(io);
    bool outside = false;
    const auto works = [](lot* all, std::size_t i, asio::strand<asio::io_context::executor_type> s,
                          bool* out) -> asio::awaitable<void> {
        const place here(&all->waiters[i]);
        co_await wait_parked(here);
        *out = *out || !s.running_in_this_thread();
        all->resumed.push_back(i);
    };
    for (std::size_t i = 0; i < 20; ++i) asio::co_spawn(strand, works(&l, i, strand, &outside), asio::detached);
    io.poll();
    for (const waiter_ptr& w : l.waiters) wake(w);
    io.run();
    CHECK(l.resumed == numbers(20));
    CHECK_FALSE(outside);
}

namespace {

/// Puts the coroutine into a waiter that is kept.
class into {
public:
    explicit into(waiter* w) : waiter_(w) {}
    template <class Handler>
    void operator()(Handler h) const {
        waiter_->wait(std::move(h));
    }

private:
    waiter* waiter_;
};

asio::awaitable<void> waits_in(waiter_ptr w, int times, int* frames, std::vector<bool>* woken) {
    const scenario::alive frame(*frames);
    for (int n = 0; n < times; ++n) {
        const into here(w.get());
        const bool one = co_await wait_in(here);
        woken->push_back(one);
    }
}

} // namespace

TEST_CASE("a kept waiter serves one wait after another, on any executor and context") {
    const auto w = std::make_shared<waiter>();
    asio::io_context one, other;
    const auto strand = asio::make_strand(one);
    int frames = 0;
    std::vector<bool> woken;
    for (int round = 0; round < 3; ++round) {
        for (int where = 0; where < 3; ++where) {
            asio::io_context& io = where == 2 ? other : one;
            if (where == 1)
                asio::co_spawn(strand, waits_in(w, 2, &frames, &woken), asio::detached);
            else
                asio::co_spawn(io, waits_in(w, 2, &frames, &woken), asio::detached);
            for (int n = 0; n < 2; ++n) {
                io.restart();
                io.poll();
                CHECK(w->waiting());
                const std::size_t before = woken.size();
                wake(w);
                CHECK_FALSE(w->waiting());
                CHECK_FALSE(w->idle()); // its coroutine has not left it
                wake(w, false);
                CHECK(woken.size() == before);
                io.restart();
                io.poll();
                CHECK(woken.size() == before + 1);
            }
            CHECK(w->idle());
            CHECK(frames == 0);
        }
    }
    CHECK(woken == std::vector<bool>(18, true));
}

TEST_CASE(
    "a coroutine in a kept waiter is destroyed with its io_context, woken or not; the waiter then serves another one") {
    const auto w = std::make_shared<waiter>();
    int frames = 0;
    std::vector<bool> woken;
    for (const bool wakes : {false, true, false}) {
        for (const bool in_strand : {false, true}) {
            auto io = std::make_unique<asio::io_context>();
            if (in_strand)
                asio::co_spawn(asio::make_strand(*io), waits_in(w, 1, &frames, &woken), asio::detached);
            else
                asio::co_spawn(*io, waits_in(w, 1, &frames, &woken), asio::detached);
            io->poll();
            CHECK(frames == 1);
            if (wakes) wake(w);
            io.reset();
            CHECK(frames == 0);
            CHECK(w->idle());
            wake(w); // no coroutine is in it
        }
    }
    CHECK(woken.empty());
    asio::io_context io;
    asio::co_spawn(io, waits_in(w, 1, &frames, &woken), asio::detached);
    io.poll();
    wake(w);
    io.run();
    CHECK(woken == std::vector<bool>{true});
}

TEST_CASE("cancellation resumes the coroutine in a kept waiter with false, and affects that wait only") {
    const auto w = std::make_shared<waiter>();
    asio::io_context io;
    asio::cancellation_signal stop;
    int frames = 0;
    std::vector<bool> woken;
    asio::co_spawn(io, waits_in(w, 1, &frames, &woken), asio::bind_cancellation_slot(stop.slot(), asio::detached));
    io.poll();
    stop.emit(asio::cancellation_type::terminal);
    CHECK_FALSE(w->claim());
    io.run();
    CHECK(woken == std::vector<bool>{false});
    io.restart();
    asio::co_spawn(io, waits_in(w, 1, &frames, &woken), asio::detached);
    io.poll();
    stop.emit(asio::cancellation_type::terminal);
    CHECK(w->waiting());
    wake(w);
    io.run();
    CHECK(woken == std::vector<bool>{false, true});
}

TEST_CASE("a cancellation that comes when the io_context and the waiter are gone has no effect") {
    asio::cancellation_signal stop;
    int frames = 0;
    std::vector<bool> woken;
    {
        asio::io_context io;
        asio::co_spawn(io, waits_in(std::make_shared<waiter>(), 1, &frames, &woken),
                       asio::bind_cancellation_slot(stop.slot(), asio::detached));
        io.poll();
        CHECK(frames == 1);
    }
    CHECK(frames == 0);
    stop.emit(asio::cancellation_type::terminal);
    CHECK(woken.empty());
}

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

TEST_CASE("a wake list wakes all added waiters, even more than it holds, at the latest when it is destroyed") {
    constexpr std::size_t n = 70;
    std::vector<waiter_ptr> all;
    asio::io_context io;
    int frames = 0;
    std::vector<bool> woken;
    for (std::size_t i = 0; i < n; ++i) {
        all.push_back(std::make_shared<waiter>());
        if (i % 7 != 0) asio::co_spawn(io, waits_in(all[i], 1, &frames, &woken), asio::detached);
    }
    io.poll();
    {
        wake_list some;
        for (const waiter_ptr& w : all) some.add(*w);
        for (const waiter_ptr& w : all) some.add(*w); // does nothing: they are claimed already
        CHECK(some.size() == 60 - 32);
    }
    CHECK(woken.empty());
    io.run();
    CHECK(woken == std::vector<bool>(60, true));
    CHECK(frames == 0);
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
