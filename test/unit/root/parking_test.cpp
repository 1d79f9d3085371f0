// Coroutines that are parked until they are woken.
#include "root/parking.hpp"
#include "scenario.hpp"
#include "support/parking_place.hpp"

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/this_coro.hpp>

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <stdexcept>
#include <utility>
#include <vector>

namespace asio = boost::asio;
using informer::detail::is_waiting;
using informer::detail::wait_parked;
using informer::detail::waiter_ptr;
using informer::detail::wake;
using informer::detail::wake_all;
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
