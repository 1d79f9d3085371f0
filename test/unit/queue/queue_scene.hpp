// A queue with a manual clock.
#pragma once

#include "support/run.hpp"

#include <informer/queue/work_queue.hpp>
#include <informer/task_group.hpp>
#include <informer/testing/manual_clock.hpp>

#include <boost/asio/io_context.hpp>

#include <memory>
#include <string>
#include <utility>

namespace informer::testing {

struct queue_scene {
    using queue = work_queue<>;
    explicit queue_scene(work_queue_options o = work_queue_options(), std::shared_ptr<metrics_sink> sink = nullptr,
                         logger log = nullptr)
        : clock(std::make_shared<manual_clock>()), world(context.get_executor()) {
        world.with_clock(clock).with_metrics(std::move(sink)).with_logger(std::move(log));
        q = std::make_unique<queue>(world, std::move(o));
    }

    /// The next key, done at once; "-" when nothing is ready.
    std::string next() {
        queue::item one = q->try_get();
        if (!one) return "-";
        std::string k = one.key();
        one.done();
        return k;
    }
    /// Runs all handlers that are ready.
    void run() {
        context.restart();
        context.poll();
    }
    /// Lets time pass, and runs what that made ready.
    void pass(informer::clock::duration d) {
        run();
        clock->advance(d);
        run();
    }
    /// True when nothing of the queue is left in the context.
    bool idle() {
        run();
        return context.stopped();
    }

    asio::io_context context{1};
    std::shared_ptr<manual_clock> clock;
    runtime world;
    std::unique_ptr<queue> q;
};

} // namespace informer::testing
