// A work queue when the system refuses memory: a request may be lost, with an exception, and a figure without one, but
// no key is stuck, and the end of work cannot fail.
#include "refusal.hpp"

#include <informer/queue/queue_state.hpp>
#include <informer/queue/work_queue.hpp>
#include <informer/task_group.hpp>
#include <informer/testing/manual_clock.hpp>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <chrono>
#include <exception>
#include <memory>
#include <new>
#include <set>
#include <string>
#include <string_view>
#include <vector>

using namespace informer;
using informer::testing::for_every_request;
using informer::testing::lack;
using informer::testing::manual_clock;
using informer::testing::refusal;
using namespace std::chrono_literals;
namespace asio = boost::asio;
using queue = work_queue<>;

namespace {

class no_sink final : public metrics_sink {
public:
    void add(std::string_view, double, labels) override {}
    void set(std::string_view, double, labels) override {}
    void observe(std::string_view, double, labels) override {}
};

asio::awaitable<void> take(queue* q, std::set<std::string>* taken) {
    for (;;) {
        queue::item one = co_await q->get();
        if (!one) co_return;
        taken->insert(one.key());
        one.done();
    }
}

/// Needs no memory for what it got.
asio::awaitable<void> count(queue* q, int* taken) {
    for (;;) {
        queue::item one = co_await q->get();
        if (!one) co_return;
        ++*taken;
        one.done();
    }
}

struct scene {
    explicit scene(bool metrics, bool grouped = false)
        : clock(std::make_shared<manual_clock>()), world(context.get_executor()) {
        world.with_clock(clock);
        if (metrics) world.with_metrics(std::make_shared<no_sink>());
        queue::group_function group;
        if (grouped) group = [](const std::string& key) { return key.size(); };
        q = std::make_unique<queue>(world, work_queue_options().name("q"), std::move(group));
    }
    /// Asio does not recover if its heap of timers cannot grow.
    void make_room_for_timers() {
        std::vector<std::unique_ptr<asio::steady_timer>> timers;
        for (int i = 0; i < 16; ++i) {
            timers.push_back(std::make_unique<asio::steady_timer>(context, 1h));
            timers.back()->async_wait([](const boost::system::error_code&) {});
        }
        timers.clear();
        run();
    }
    void getter() {
        asio::co_spawn(context, take(q.get(), &taken), [this](std::exception_ptr) { ++ended; });
    }
    void run() {
        context.restart();
        context.poll();
    }
    void pass(clock::duration d) {
        run();
        clock->advance(d);
        run();
    }

    asio::io_context context{1};
    std::shared_ptr<manual_clock> clock;
    runtime world;
    std::unique_ptr<queue> q;
    std::set<std::string> taken;
    int ended = 0;
};

} // namespace

TEST_CASE("without memory a work queue may lose a request, but no key is stuck in it", "[memory]") {
    const bool metrics = GENERATE(true, false);
    const bool grouped = GENERATE(true, false);
    for_every_request([metrics, grouped](const refusal& r) {
        scene s(metrics, grouped);
        for (int i = 0; i < 3; ++i) s.getter();
        s.make_room_for_timers();
        try {
            const lack l(r);
            s.q->add("a");
            s.q->add("b");
            s.q->add_after("c", 1s);
            s.q->add_rate_limited("d");
            s.run();
            s.clock->advance(2s);
            s.run();
            if (queue::item one = s.q->try_get()) one.done();
        } catch (const std::bad_alloc&) { // the caller was told
        }
        for (int i = 0; i < 3; ++i) s.getter();
        s.run();
        s.taken.clear();
        for (const char* key : {"a", "b", "c", "d"}) s.q->add(key);
        s.q->add_after("e", 1s);
        s.pass(1s);
        CHECK(s.taken == std::set<std::string>{"a", "b", "c", "d", "e"});
        CHECK(s.q->figures().processing == 0);
        CHECK(s.q->figures().ready == 0);
        s.q->shut_down();
        s.pass(1min);
        CHECK(s.context.stopped());
    });
}

TEST_CASE("without memory a key that was asked for during its work comes again, without another request", "[memory]") {
    const bool handle_ends = GENERATE(true, false);
    const bool grouped = GENERATE(true, false);
    const bool drains = GENERATE(true, false);
    for_every_request([&](const refusal& r) {
        scene s(true, grouped);
        s.make_room_for_timers();
        s.q->add("a", -100);
        queue::item held = s.q->try_get();
        REQUIRE(held.key() == "a");
        s.q->add("a", 7); // a level that was never there before
        {
            const lack l(r);
            if (handle_ends) {
                const queue::item ends = std::move(held);
            } else {
                held.done();
            }
        }
        bool drained = !drains;
        if (drains) asio::co_spawn(s.context, s.q->drain(), [&](std::exception_ptr, const auto&) { drained = true; });
        s.run();
        s.getter();
        s.pass(1min);
        CHECK(s.taken == std::set<std::string>{"a"});
        CHECK(drained);
        CHECK(s.q->figures().processing == 0);
        s.q->shut_down();
        s.pass(1min);
        CHECK(s.context.stopped());
    });
}

TEST_CASE("keys that are done without memory for their place in line come to its tail, once there is memory",
          "[memory]") {
    queue_state<std::string> s(nullptr, 0, nullptr, false);
    const clock::time_point now(1h);
    refusal all;
    all.before = 0;
    const auto add = [&](const char* key, int priority) { return s.add(std::string_view(key), priority, now); };
    const auto take = [&] {
        const auto i = s.take(now);
        return i == s.none ? std::string("-") : s.key_of(i);
    };
    for (const char* key : {"working", "a", "b"}) add(key, 0);
    for (const char* key : {"working", "a", "b"}) REQUIRE(take() == key);
    const auto a = s.find(std::string_view("a")), b = s.find(std::string_view("b"));
    add("a", 7); // a level that was never there before
    {
        const lack l(all);
        s.finish(a);
        s.give_back(b, 7);
        s.line_up_ended();
    }
    CHECK(s.ended() == 2);
    CHECK(s.dirty() == 2);
    CHECK_FALSE(add("a", 7));
    CHECK_FALSE(add("b", 7));
    CHECK(add("c", 7));
    s.line_up_ended();
    CHECK(s.ended() == 0);
    CHECK(s.dirty() == 0);
    CHECK(s.processing() == 1);
    for (const char* key : {"c", "a", "b", "-"}) CHECK(take() == key);
}

TEST_CASE("without memory for a moment a key that is due is handed out later, without another request", "[memory]") {
    std::uint64_t n = 0;
    for (bool refused = true; refused; ++n) {
        CAPTURE(n);
        refusal r;
        r.once = true;
        r.before = n;
        informer::testing::refusal_now = refusal();
        scene s(false);
        s.make_room_for_timers();
        int taken = 0;
        asio::co_spawn(s.context, count(s.q.get(), &taken), [](std::exception_ptr) {});
        s.run();
        s.q->add_after("a", 1s, 5);
        s.run();
        {
            const lack l(r);
            s.clock->advance(2s);
            s.run();
        }
        refused = informer::testing::refusal_now.refused != 0;
        s.pass(1min);
        CHECK(taken == 1);
        s.q->shut_down();
        s.pass(1min);
        CHECK(s.context.stopped());
    }
    CHECK(n > 1);
}

TEST_CASE("a work queue with delayed keys can be destroyed without memory", "[memory]") {
    for_every_request([](const refusal& r) {
        scene s(true);
        s.q->add_after("a key that owns memory of its own", 1h);
        s.run();
        {
            const lack l(r);
            s.q.reset();
        }
        s.pass(2h); // a timer that could not be told rings once more
        CHECK(s.context.stopped());
    });
}

TEST_CASE("a waiter of a work queue that is shut down without memory is resumed with the next one that is woken",
          "[memory]") {
    for_every_request([](refusal r) {
        r.handlers = true;
        scene s(false);
        for (int i = 0; i < 3; ++i) s.getter();
        s.run();
        {
            const lack l(r);
            s.q->shut_down();
        }
        s.run();
        s.q->shut_down();
        queue other(s.world);
        asio::co_spawn(s.context, take(&other, &s.taken), [&s](std::exception_ptr) { ++s.ended; });
        s.run();
        other.add("a");
        s.run();
        other.shut_down();
        s.pass(1min);
        CHECK(s.taken.size() == 1);
        CHECK(s.ended == 4);
        CHECK(s.context.stopped());
    });
}
