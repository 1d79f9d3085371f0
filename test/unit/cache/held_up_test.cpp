// What goes on while a subscriber under back-pressure holds an informer up.
#include "informer_fixture.hpp"

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/detached.hpp>

#include <string>

using namespace informer;
using namespace informer::testing;

namespace {

subscription_options held(std::size_t capacity) {
    return subscription_options().capacity(capacity).policy(overflow_policy::back_pressure);
}

/// One change of `n` objects: "p0", "p1", …
void add_at_once(watch_script& w, int n) {
    w.begin_change();
    for (int i = 0; i < n; ++i) w.added(pod("p" + std::to_string(i), 10 + i));
    w.end_change();
}

asio::awaitable<void> count(subscription of, int* seen) {
    for (;;) {
        const auto e = co_await of.next();
        if (!e) co_return;
        ++*seen;
    }
}

} // namespace

TEST_CASE("back_pressure: while one subscriber is full, one that waits for events gets them", "[informer]") {
    bench b;
    auto full = b.pods.subscribe(held(2));
    const auto w = b.sync_with({}, 5);
    int seen = 0;
    asio::co_spawn(b.context, count(b.pods.subscribe(), &seen), asio::detached);
    b.settle();
    add_at_once(*w, 6);
    b.settle();
    REQUIRE_FALSE(b.pods.status().held_up_by.empty());
    CHECK(seen == 6);
}

TEST_CASE("back_pressure: a handler gets all events of a change that is larger than its capacity", "[informer]") {
    bench b;
    const auto w = b.sync_with({}, 5);
    int seen = 0;
    const auto mine = b.pods.add_event_handler([&seen](const object&, bool) { ++seen; }, nullptr, nullptr, held(2));
    b.settle();
    add_at_once(*w, 100);
    b.settle();
    CHECK(seen == 100);
    CHECK(b.pods.status().held_up_by.empty());
}

TEST_CASE("back_pressure: cancelling run() ends it although a subscriber is full", "[informer]") {
    for (const bool resync : {false, true}) {
        CAPTURE(resync);
        bench b;
        auto full = b.pods.subscribe(held(2).resync(std::chrono::seconds(resync ? 10 : 0)));
        auto w = b.source->on_watch();
        for (int i = 0; i < 6; ++i) w->added(pod("a" + std::to_string(i), 1 + i));
        w->bookmark("7", true);
        asio::cancellation_signal stop;
        bool ended = false;
        asio::co_spawn(b.context, b.pods.run(),
                       asio::bind_cancellation_slot(stop.slot(), [&ended](std::exception_ptr) { ended = true; }));
        b.settle();
        read_all(full);
        if (resync)
            b.pass(std::chrono::seconds(10));
        else
            add_at_once(*w, 6);
        b.settle();
        REQUIRE_FALSE(b.pods.status().held_up_by.empty());
        stop.emit(asio::cancellation_type::terminal);
        b.settle();
        CHECK(ended);
        CHECK(b.pods.status().held_up_by.empty());
    }
}
