// Event handlers: when they are called, and what they may do meanwhile.
#include "informer_fixture.hpp"

#include <boost/asio/post.hpp>

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

using namespace informer;
using informer::testing::bench;
using informer::testing::pod;
using informer::testing::words;

TEST_CASE("a handler that is removed by another one is not called again", "[informer]") {
    bench b;
    auto w = b.sync_with({pod("a", 1)}, 1);
    int first = 0, second = 0, told = -1;
    std::vector<shared_informer::handler_handle> handles;
    const auto remove_second = [&](const object&, const object&) {
        if (++first != 2) return;
        handles.at(1).remove();
        told = second;
    };
    handles.push_back(b.pods.add_event_handler(nullptr, remove_second, nullptr));
    handles.push_back(b.pods.add_event_handler(
        nullptr, [&](const object&, const object&) { ++second; }, nullptr));
    b.settle();
    for (int v = 2; v <= 400; ++v) w->modified(pod("a", v, std::to_string(v)));
    b.settle();
    CHECK(first == 399);
    CHECK(second == told);
    w->modified(pod("a", 500, "last"));
    b.settle();
    CHECK(first == 400);
    CHECK(second == told);
}

TEST_CASE("a handler may remove itself in the middle of a shared batch", "[informer]") {
    bench b;
    auto w = b.sync_with({pod("a", 1)}, 1);
    int calls = 0;
    std::vector<shared_informer::handler_handle> handles;
    handles.push_back(b.pods.add_event_handler(
        nullptr,
        [&](const object&, const object&) {
            if (++calls == 3) handles.front().remove();
        },
        nullptr));
    b.settle();
    for (int v = 2; v <= 100; ++v) w->modified(pod("a", v, std::to_string(v)));
    b.settle();
    CHECK(calls == 3);
}

TEST_CASE("handlers are called in the turn that publishes the event: it costs no wake-up", "[informer]") {
    bench b;
    auto w = b.sync_with({pod("a", 1)}, 1);
    bool in_cache = false, called = false;
    const auto handler = b.pods.add_event_handler(
        nullptr,
        [&](const object&, const object& now) {
            called = true;
            in_cache = b.note("a") == "new" && now.same_as(b.pods.get("default/a"));
        },
        nullptr);
    b.settle();
    w->modified(pod("a", 2, "new"));
    b.context.restart();
    while (b.note("a") != "new") REQUIRE(b.context.poll_one() == 1);
    CHECK(called);
    CHECK(in_cache);
    b.settle();
}

TEST_CASE("slow handlers give the executor back, and get all events in order", "[informer]") {
    bench b;
    auto w = b.sync_with({pod("a", 0)}, 1);
    std::vector<std::string> first, second;
    std::size_t turns = 0, most = 0, since = 0;
    const auto busy = [&](std::vector<std::string>* of) {
        return [&since, &most, of](const object&, const object& now) {
            of->push_back(now.resource_version().str());
            most = std::max(most, ++since);
            const auto end = std::chrono::steady_clock::now() + std::chrono::microseconds(300);
            while (std::chrono::steady_clock::now() < end) {
            }
        };
    };
    const auto one = b.pods.add_event_handler(nullptr, busy(&first), nullptr);
    const auto two = b.pods.add_event_handler(nullptr, busy(&second), nullptr);
    b.settle();
    std::vector<std::string> expected;
    for (int v = 2; v <= 200; ++v) {
        w->modified(pod("a", v, std::to_string(v)));
        expected.push_back(std::to_string(v));
    }
    std::function<void()> turn = [&] { // other work
        ++turns;
        since = 0;
        if (second.size() < expected.size()) boost::asio::post(b.context, turn);
    };
    boost::asio::post(b.context, turn);
    b.settle();
    CHECK(first == expected);
    CHECK(second == expected);
    CHECK(most <= 32); // calls of 300 us; a slice is 2 ms, and the clock is read after 16 calls
    CHECK(turns > 10);
}

TEST_CASE("a handler's handle tells how far behind it is, also amid what was taken in one piece", "[informer]") {
    bench b;
    std::vector<std::string> pods;
    for (int i = 0; i < 199; ++i) pods.push_back(pod("p" + std::to_string(i), 1));
    auto w = b.sync_with(pods, 1);
    std::size_t calls = 0, most = 0;
    const auto slow = [&calls](const object&, const object&) {
        ++calls;
        const auto end = std::chrono::steady_clock::now() + std::chrono::microseconds(300);
        while (std::chrono::steady_clock::now() < end) {
        }
    };
    const auto h = b.pods.add_event_handler(nullptr, slow, nullptr);
    b.settle();
    const auto before = h.figures();
    CHECK(before.pending == 0);
    w->begin_change();
    for (int i = 0; i < 199; ++i) w->modified(pod("p" + std::to_string(i), 2));
    w->end_change();
    std::function<void()> look = [&] { // between two slices of calls
        CHECK(h.figures().delivered == before.delivered + calls);
        most = std::max(most, h.figures().pending);
        if (calls < 199) boost::asio::post(b.context, look);
    };
    boost::asio::post(b.context, look);
    b.settle();
    CHECK(calls == 199);
    CHECK(most > 100);
    CHECK(h.figures().pending == 0);
    CHECK(h.figures().delivered == before.delivered + 199);
}

TEST_CASE("a handler that runs the io_context itself gets every event once, in order", "[informer]") {
    bench b;
    auto w = b.sync_with({pod("a", 0)}, 1);
    std::vector<std::string> seen, expected;
    std::size_t depth = 0, deepest = 0;
    const auto handler = b.pods.add_event_handler(
        nullptr,
        [&](const object&, const object& now) {
            deepest = std::max(deepest, ++depth);
            while (b.context.poll_one() != 0) {
            }
            seen.push_back(now.resource_version().str());
            --depth;
        },
        nullptr);
    b.settle();
    for (int round = 0; round < 5; ++round) {
        for (int v = 1; v <= 40; ++v) {
            expected.push_back(std::to_string(100 * (round + 1) + v));
            w->modified(pod("a", 100 * (round + 1) + v, expected.back()));
        }
        if (round % 2 == 0) b.settle();
    }
    b.settle();
    CHECK(seen == expected);
    CHECK(deepest == 1);
}

TEST_CASE("between two batches that already wait other work has its turn", "[informer]") {
    bench b(informer_options().queue_capacity(20'000));
    auto w = b.sync_with({pod("a", 1)}, 1);
    std::size_t turns = 0;
    bool last = false;
    std::function<void()> turn = [&] { // other work
        ++turns;
        if (!last) boost::asio::post(b.context, turn);
    };
    const auto handler = b.pods.add_event_handler(
        nullptr,
        [&](const object&, const object& now) {
            last = now.resource_version().str() == "20000";
            if (last) return;
            while (b.context.poll_one() != 0) { // until all the rest is in the queue
            }
            boost::asio::post(b.context, turn);
        },
        nullptr);
    b.settle();
    w->modified(pod("a", 2, "first"));
    for (int v = 3; v < 10'000; ++v) w->bookmark(std::to_string(v));
    w->modified(pod("a", 20'000, "last"));
    b.settle();
    CHECK(last);
    CHECK(turns >= 9); // a batch is 1000
}

namespace {

/// The calls of a handler, one word each.
struct told {
    words calls;
    shared_informer::handler_handle add_to(shared_informer& to, std::function<bool(const object&)> of,
                                           subscription_options options = subscription_options()) {
        const auto word = [](const object& o) { return o.name().str() + ":" + o.resource_version().str(); };
        return to.add_event_handler(
            std::move(of),
            [=, this](const object& o, bool initial) { calls.push_back("+" + word(o) + (initial ? "!" : "")); },
            [=, this](const object& was, const object& is) { calls.push_back("~" + word(was) + ">" + word(is)); },
            [=, this](const object& o, bool known) { calls.push_back("-" + word(o) + (known ? "" : "?")); },
            std::move(options));
    }
    words take() { return std::exchange(calls, {}); }
};

bool ours(const object& o) {
    return o.at_pointer("/spec/note").string_or_empty() == "ours";
}

} // namespace

TEST_CASE("a handler with a filter sees the objects that match as if there were no others", "[informer]") {
    bench b;
    auto w = b.sync_with({pod("a", 1, "ours"), pod("b", 1)}, 1);
    told t;
    const auto handler = t.add_to(b.pods, ours);
    b.settle();
    CHECK(t.take() == words{"+a:1!"});
    CHECK(handler.has_synced());
    w->added(pod("c", 2));
    w->modified(pod("b", 3, "ours"));
    w->modified(pod("b", 4, "ours"));
    w->modified(pod("a", 5));
    w->modified(pod("a", 6));
    b.settle();
    CHECK(t.take() == words{"+b:3", "~b:3>b:4", "-a:1"});
    w->deleted(pod("a", 7));
    w->deleted(pod("c", 8, "ours")); // was never reported
    w->deleted(pod("b", 9));         // no longer one of ours, which was not reported
    b.settle();
    CHECK(t.take() == words{"-b:9"});
}

TEST_CASE("a handler with a filter that fell behind learns what became of the objects that it knew", "[informer]") {
    bench b;
    auto w = b.sync_with({pod("a", 1, "ours"), pod("b", 1), pod("c", 1, "ours")}, 1);
    told t;
    const auto blocking = b.pods.add_event_handler(
        nullptr,
        [&](const object&, const object& now) {
            if (now.resource_version().str() != "2") return;
            while (b.context.poll_one() != 0) { // until all the rest is in the queue
            }
        },
        nullptr);
    const auto handler = t.add_to(b.pods, ours, subscription_options().capacity(1));
    b.settle();
    t.take();
    w->modified(pod("c", 2, "ours"));
    w->modified(pod("a", 3));         // leaves the filter
    w->modified(pod("a", 4, "ours")); // and comes back
    w->modified(pod("b", 5, "ours")); // the other way round
    w->modified(pod("b", 6));
    w->modified(pod("c", 7));
    b.settle();
    CHECK(t.take() == words{"~c:1>c:2", "~a:1>a:4", "-c:2"});
}

TEST_CASE("exceptions of a handler's filter are contained and counted as the handler's", "[informer]") {
    bench b;
    auto w = b.sync_with({pod("a", 1, "ours")}, 1);
    told t;
    const auto handler = t.add_to(b.pods, [](const object& o) -> bool {
        if (o.name() == "bad") throw std::runtime_error("no note");
        return ours(o);
    });
    w->added(pod("bad", 2));
    w->modified(pod("a", 3, "ours"));
    b.settle();
    CHECK(t.take() == words{"+a:1!", "~a:1>a:3"});
    CHECK(handler.exceptions() == 1);
    CHECK(handler.has_synced());
}

TEST_CASE("an object for which a handler's filter throws does not match; if it was reported, its deletion is reported",
          "[informer]") {
    bench b;
    auto w = b.sync_with({pod("a", 1, "ours"), pod("b", 1, "ours")}, 1);
    told t;
    const auto handler = t.add_to(b.pods, [](const object& o) -> bool {
        if (o.at_pointer("/spec/note").string_or_empty() == "bad") throw std::runtime_error("no note");
        return ours(o);
    });
    b.settle();
    t.take();
    w->modified(pod("a", 2, "bad"));
    w->deleted(pod("a", 3));
    w->modified(pod("b", 4, "bad"));
    w->modified(pod("b", 5, "ours"));
    b.settle();
    CHECK(t.take() == words{"-a:1", "-b:1", "+b:5"});
    CHECK(handler.exceptions() != 0);
}
