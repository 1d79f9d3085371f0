// Waiters that are kept from one wait to the next.
#include "kept_waiter.hpp"

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/strand.hpp>

#include <catch2/catch_test_macros.hpp>

#include <memory>
#include <vector>

using namespace parking_tests;
using informer::detail::wake;
using informer::detail::wake_list;

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
