// A work queue when the system refuses memory: a request may be lost, with an exception, and a figure without one, but
// no key is stuck.
#include "refusal.hpp"

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

struct scene {
    explicit scene(bool metrics) : clock(std::make_shared<manual_clock>()), world(context.get_executor()) {
        world.with_clock(clock);
        if (metrics) world.with_metrics(std::make_shared<no_sink>());
        q = std::make_unique<queue>(world, work_queue_options().name("q"));
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
    for_every_request([metrics](const refusal& r) {
        scene s(metrics);
        for (int i = 0; i < 3; ++i) s.getter();
        // Asio does not recover if its heap of timers cannot grow; here it has room.
        std::vector<std::unique_ptr<asio::steady_timer>> timers;
        for (int i = 0; i < 16; ++i) {
            timers.push_back(std::make_unique<asio::steady_timer>(s.context, 1h));
            timers.back()->async_wait([](const boost::system::error_code&) {});
        }
        timers.clear();
        s.run();
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
