// Waiting for a subscription, closing and ending it.
#include "subscription_scene.hpp"
#include "support/run.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/this_coro.hpp>
#include <catch2/catch_test_macros.hpp>

#include <cstddef>
#include <functional>
#include <malloc.h>
#include <memory>
#include <string>
#include <utility>

using namespace informer;
using namespace informer::testing;

namespace {

asio::awaitable<void> wait_synced(state_ptr state, std::string& result) { // lint: law2 outlives the test
    try {
        co_await state->synced();
        result = "synced";
    } catch (const error& e) {
        result = e.failure() == errc::stopped ? "stopped" : e.failure() == errc::cancelled ? "cancelled" : e.what();
    }
}

asio::awaitable<void> synced_waits(std::string expected, std::function<void(subscription::state&, subscription&)> act) {
    const auto state = make_state();
    subscription sub(state);
    state->push(initial(pod(1)));
    std::string one, two;
    asio::co_spawn(co_await asio::this_coro::executor, wait_synced(state, one), asio::detached);
    asio::co_spawn(co_await asio::this_coro::executor, wait_synced(state, two), asio::detached);
    co_await settle();
    REQUIRE(one.empty());
    act(*state, sub);
    co_await settle();
    REQUIRE(one == expected);
    REQUIRE(two == expected);
}

} // namespace

TEST_CASE("synced(): waits for the consumer, and says stopped when the initial state cannot come any more") {
    run_test(synced_waits("synced", [](subscription::state& state, subscription& sub) {
        REQUIRE(sub.try_next());
        state.initial_complete(resource_version("1"));
        REQUIRE_FALSE(sub.try_next());
    }));
    run_test(synced_waits("synced", [](subscription::state& state, subscription& sub) {
        state.initial_complete(resource_version("1"));
        state.end();
        REQUIRE(sub.try_next());
        REQUIRE_FALSE(sub.try_next());
    }));
    run_test(synced_waits("stopped", [](subscription::state& state, subscription&) { state.end(); }));
    run_test(synced_waits("stopped", [](subscription::state&, subscription& sub) { sub.close(); }));
    run_test(synced_waits("stopped", [](subscription::state& state, subscription& sub) {
        state.initial_complete(resource_version("1"));
        sub.close();
    }));
}

namespace {

asio::awaitable<void> cancelled_waits_leave_nothing() {
    const auto heap = [] {
        return mallinfo2().uordblks; // 0 under the sanitizers
    };
    const auto state = make_state();
    state->push(initial(pod(1)));
    const auto executor = co_await asio::this_coro::executor;
    std::size_t before = 0;
    for (int i = 0; i < 5'000; ++i) {
        if (i == 500) before = heap();
        asio::cancellation_signal stop;
        std::string result;
        asio::co_spawn(executor, wait_synced(state, result), asio::bind_cancellation_slot(stop.slot(), asio::detached));
        co_await settle();
        stop.emit(asio::cancellation_type::terminal);
        co_await settle();
        REQUIRE(result == "cancelled");
    }
    CHECK(heap() < before + 100'000);
}

} // namespace

TEST_CASE("synced(): waits that are cancelled leave nothing behind, however many there are") {
    run_test(cancelled_waits_leave_nothing());
}

// ---- waiting, closing, ending ---------------------------------------------------------------------------------------

namespace {

asio::awaitable<void> consume(state_ptr state, lines& got) { // lint: law2 outlives the test
    subscription sub(state);
    for (;;) {
        const auto e = co_await sub.next();
        if (!e) break;
        got.push_back(line(*e));
    }
    got.push_back("end");
}

asio::awaitable<void> consume_once(subscription& sub, std::string& result) { // lint: law2 outlives the test
    try {
        const auto e = co_await sub.next();
        result = e ? line(*e) : "end";
    } catch (const error& e) {
        result = e.failure() == errc::cancelled ? "cancelled" : e.what();
    }
}

asio::awaitable<void> wakes() {
    const auto state = make_state();
    lines got;
    asio::co_spawn(co_await asio::this_coro::executor, consume(state, got), asio::detached);
    co_await settle();
    state->push(added(pod(1)));
    REQUIRE(got.empty()); // never inline
    co_await settle();
    REQUIRE(got == lines{"ADDED a@1"});
    state->initial_complete(resource_version("1"));
    REQUIRE(state->has_synced()); // the consumer has come back for more
    state->push(added(pod(2, "b")));
    state->end();
    state->push(added(pod(3, "c")));
    co_await settle();
    REQUIRE(got == lines{"ADDED a@1", "ADDED b@2", "end"});
}

/// Two consumers, one after the other.
struct two_consumers {
    explicit two_consumers(asio::any_io_executor e) : executor(std::move(e)) {
        asio::co_spawn(executor, consume_once(sub, first), asio::bind_cancellation_slot(stop.slot(), asio::detached));
    }
    void cancel_first() { stop.emit(asio::cancellation_type::terminal); }
    void begin_second() { asio::co_spawn(executor, consume_once(sub, second), asio::detached); }

    asio::any_io_executor executor;
    std::shared_ptr<subscription::state> state = make_state();
    subscription sub{state};
    asio::cancellation_signal stop;
    std::string first, second;
};

asio::awaitable<void> cancels(bool event_at_once) {
    const auto executor = co_await asio::this_coro::executor;
    two_consumers c(executor);
    co_await settle();
    if (event_at_once) c.state->push(added(pod(1)));
    c.cancel_first();
    co_await settle();
    REQUIRE(c.first == "cancelled");
    if (!event_at_once) c.state->push(added(pod(1)));
    c.begin_second();
    co_await settle();
    REQUIRE(c.second == "ADDED a@1");
}

asio::awaitable<void> cancelled_but_not_gone() {
    const auto executor = co_await asio::this_coro::executor;
    two_consumers c(executor);
    co_await settle();
    c.cancel_first();
    c.begin_second();
    REQUIRE(c.first.empty()); // resumed after the second has begun
    co_await settle();
    REQUIRE(c.first == "cancelled");
    REQUIRE(c.second.empty());
    c.state->push(added(pod(1)));
    co_await settle();
    REQUIRE(c.second == "ADDED a@1");
}

asio::awaitable<void> closes(subscription::pending_events how, lines expected) {
    const auto state = make_state(subscription_options().sync_marks());
    indexer cache;
    subscription sub(state);
    state->start(snapshot_of(1, cache), resource_version("1"));
    state->push(added(pod(1)));
    sub.close(how);
    state->push(added(pod(2, "b")));
    REQUIRE(state->closed());
    lines got;
    for (;;) {
        const auto e = co_await sub.next();
        if (!e) break;
        got.push_back(line(*e));
    }
    REQUIRE(got == expected);
}

asio::awaitable<void> close_wakes() {
    const auto state = make_state();
    subscription sub(state);
    std::string result;
    asio::co_spawn(co_await asio::this_coro::executor, consume_once(sub, result), asio::detached);
    co_await settle();
    state->push(added(pod(1))); // the consumer was woken, but does not have it yet
    sub.close();
    co_await settle();
    REQUIRE(result == "end");
}

asio::awaitable<void> second_consumer() {
    const auto state = make_state();
    subscription sub(state);
    std::string first, second;
    const auto executor = co_await asio::this_coro::executor;
    asio::co_spawn(executor, consume_once(sub, first), asio::detached);
    asio::co_spawn(executor, consume_once(sub, second), asio::detached);
    co_await settle();
    REQUIRE(second.find("two consumers") != std::string::npos);
    state->push(added(pod(1)));
    co_await settle();
    REQUIRE(first == "ADDED a@1");
}

asio::awaitable<void> batches() {
    const auto state = make_state();
    subscription sub(state);
    for (int i = 0; i < 10; ++i) state->push(added(pod(i, "p" + std::to_string(i))));
    auto some = co_await sub.next_batch(4);
    REQUIRE(some.size() == 4);
    some = co_await sub.next_batch(100);
    REQUIRE(some.size() == 6);
    state->end();
    some = co_await sub.next_batch(100);
    REQUIRE(some.empty());
}

} // namespace

TEST_CASE("next(): waits, wakes on the awaiter's executor, ends after what is pending") {
    run_test(wakes());
}
TEST_CASE("next_batch(): returns the events that are ready, at most so many; empty at the end") {
    run_test(batches());
}

TEST_CASE("next(): cancelling it loses no event") {
    run_test(cancels(false));
    run_test(cancels(true));
}

TEST_CASE("next(): the next consumer need not wait until a cancelled one has ended") {
    run_test(cancelled_but_not_gone());
}

TEST_CASE(
    "next(): a consumer may move between contexts, even from a context that was destroyed while it waited there") {
    const auto state = make_state();
    subscription sub(state);
    int version = 0;
    for (const bool in_strand : {false, true, false, true}) {
        for (const bool woken : {false, true}) {
            std::string lost, got;
            {
                asio::io_context context;
                asio::co_spawn(context, consume_once(sub, lost), asio::detached);
                context.poll();
                if (woken) state->push(added(pod(++version)));
            }
            REQUIRE(lost.empty());
            asio::io_context context;
            if (in_strand)
                asio::co_spawn(asio::make_strand(context), consume_once(sub, got), asio::detached);
            else
                asio::co_spawn(context, consume_once(sub, got), asio::detached);
            context.poll();
            REQUIRE(got.empty() != woken);
            if (!woken) state->push(added(pod(++version)));
            context.run();
            REQUIRE(got == "ADDED a@" + std::to_string(version));
        }
    }
}

TEST_CASE("close: pending events are dropped, or drained, as asked") {
    run_test(closes(subscription::pending_events::discard, {}));
    run_test(closes(subscription::pending_events::drain, {"ADDED p0@1", "SYNCED 1", "ADDED a@1"}));
}

TEST_CASE("close: nothing is delivered after it returned, not even to a consumer that was woken already") {
    run_test(close_wakes());
}

TEST_CASE("next(): a second consumer at the same time is an error") {
    run_test(second_consumer());
}

TEST_CASE("subscription: its destructor and an assignment to it close it") {
    const auto one = make_state(), two = make_state();
    {
        subscription sub(one);
        sub = subscription(two);
        REQUIRE(one->closed());
        REQUIRE_FALSE(two->closed());
        subscription moved(std::move(sub));
        REQUIRE_FALSE(two->closed());
    }
    REQUIRE(two->closed());
}

TEST_CASE("subscription: destroying the io_context under a waiting consumer and a waiting producer frees both") {
    const auto full = make_state(subscription_options().capacity(1).policy(overflow_policy::back_pressure));
    const auto empty = make_state();
    const std::weak_ptr<subscription::state> watch_full = full, watch_empty = empty;
    lines got;
    std::string synced;
    int pushed = 0;
    {
        asio::io_context context(1);
        asio::co_spawn(context, consume(empty, got), asio::detached);
        asio::co_spawn(context, wait_synced(empty, synced), asio::detached);
        asio::co_spawn(context, produce_with_room(full, 5, pushed), asio::detached);
        for (int i = 0; i < 20; ++i) context.poll();
        REQUIRE(pushed == 1);
        empty->push(added(pod(1))); // woken, but never run
    }
    REQUIRE(got.empty());
    REQUIRE(empty->closed());
    full->close(subscription::pending_events::discard);
    empty->end();
    REQUIRE(watch_full.use_count() == 1);
    REQUIRE(watch_empty.use_count() == 1);
}
