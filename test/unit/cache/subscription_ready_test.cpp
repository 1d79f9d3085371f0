// Waiting for one of several subscriptions.
#include "subscription_scene.hpp"
#include "support/run.hpp"

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/io_context.hpp>
#include <catch2/catch_test_macros.hpp>

#include <exception>
#include <string>
#include <utility>

using namespace informer;
using namespace informer::testing;

namespace {

/// Uses ready() as documented: takes every event of both, whichever comes first.
asio::awaitable<void> hear_both(subscription* a, subscription* b, std::size_t* from_a, std::size_t* from_b) {
    using namespace asio::experimental::awaitable_operators;
    while (!a->finished() || !b->finished()) {
        if (a->finished())
            co_await b->ready();
        else if (b->finished())
            co_await a->ready();
        else
            co_await (a->ready() || b->ready());
        while (a->try_next()) ++*from_a;
        while (b->try_next()) ++*from_b;
    }
}

std::string outcome(asio::io_context& io, asio::awaitable<void> work, asio::cancellation_signal* stop = nullptr) {
    std::string result = "waits";
    asio::cancellation_signal none;
    auto done = [&result](std::exception_ptr e) {
        try {
            if (e) std::rethrow_exception(e);
            result = "ready";
        } catch (const error& x) {
            result = x.what();
        }
    };
    asio::co_spawn(io, std::move(work), asio::bind_cancellation_slot((stop ? stop : &none)->slot(), done));
    io.restart();
    io.poll();
    const std::string first = result;
    if (!stop) return first;
    stop->emit(asio::cancellation_type::terminal);
    io.restart();
    io.poll();
    return first + ", then " + result;
}

} // namespace

TEST_CASE("subscription: waiting until one of two is ready loses no event of either", "[subscription]") {
    constexpr std::size_t n = 300;
    asio::io_context io(1);
    subscribed a, b;
    std::size_t from_a = 0, from_b = 0;
    bool over = false;
    asio::co_spawn(io, hear_both(&a.sub, &b.sub, &from_a, &from_b), [&](std::exception_ptr e) { over = !e; });
    for (std::size_t i = 0; i < n; ++i) {
        // Both at once, or the one and soon the other.
        a.state->push(added(pod(1, "p" + std::to_string(i))));
        if (i % 2 == 0) io.poll_one();
        b.state->push(added(pod(1, "p" + std::to_string(i))));
        for (std::size_t steps = i % 5; steps > 0; --steps) io.poll_one();
        io.restart();
    }
    a.state->end();
    io.restart();
    io.poll();
    CHECK(from_a == n);
    CHECK(from_b == n);
    CHECK_FALSE(over);
    b.state->end();
    io.restart();
    io.poll();
    CHECK(over);
    CHECK(a.sub.figures().delivered == n);
}

TEST_CASE("subscription: ready when an event is pending, or none will come, and not before", "[subscription]") {
    asio::io_context io(1);
    {
        subscribed s;
        asio::cancellation_signal stop;
        CHECK(outcome(io, s.sub.ready(), &stop) == "waits, then subscription: cancelled");
        s.state->push(added(pod(1)));
        CHECK(outcome(io, s.sub.ready()) == "ready");
        CHECK(outcome(io, s.sub.ready()) == "ready"); // ready() takes nothing
        CHECK_FALSE(s.sub.finished());
        s.state->end();
        CHECK_FALSE(s.sub.finished()); // one is pending
        CHECK(s.sub.try_next());
        CHECK(s.sub.finished());
        CHECK(outcome(io, s.sub.ready()) == "ready");
        CHECK_FALSE(s.sub.try_next());
    }
    {
        subscribed_late s(3);
        CHECK(outcome(io, s.sub.ready()) == "ready");
        std::size_t initial_ones = 0;
        while (s.sub.try_next()) ++initial_ones;
        CHECK(initial_ones == 3);
        CHECK(s.sub.has_synced());
        s.sub.close();
        CHECK(s.sub.finished());
    }
}

TEST_CASE("subscription: a caller of ready() is a consumer, and only one is allowed", "[subscription]") {
    asio::io_context io(1);
    subscribed s;
    std::string first = "waits";
    asio::co_spawn(io, s.sub.ready(), [&](std::exception_ptr e) { first = e ? "failed" : "ready"; });
    io.poll();
    CHECK(outcome(io, s.sub.ready()) == "subscription: two consumers at once: already running");
    CHECK(first == "waits");
    s.state->end();
    io.restart();
    io.poll();
    CHECK(first == "ready");
}
