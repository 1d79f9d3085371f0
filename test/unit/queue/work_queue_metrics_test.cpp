#include "queue_getter.hpp"
#include "support/recording_sink.hpp"
#include "support/throwing_sink.hpp"

#include <catch2/catch_test_macros.hpp>

#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

using namespace informer;
using namespace std::chrono_literals;
using informer::testing::queue_scene;
using informer::testing::recording_sink;
using queue = work_queue<>;

TEST_CASE("Q9 metrics of a named queue carry client-go's names and the queue's") {
    const auto sink = std::make_shared<recording_sink>();
    queue_scene s(work_queue_options().name("foos"), sink);
    s.q->add("a");
    s.q->add("a"); // counted once
    s.q->add("b");
    CHECK(sink->counters["workqueue_adds_total name=foos"] == 2);
    CHECK(sink->gauges["workqueue_depth name=foos"] == 2);
    s.pass(3s);
    queue::item a = s.q->try_get();
    CHECK(a.key() == "a");
    CHECK(sink->gauges["workqueue_depth name=foos"] == 1);
    CHECK(sink->samples["workqueue_queue_duration_seconds name=foos"] == std::vector<double>{3.0});
    s.pass(2s);
    s.q->add("a"); // marked: not in line yet, but as in client-go it counts from now on
    CHECK(sink->counters["workqueue_adds_total name=foos"] == 3);
    CHECK(sink->gauges["workqueue_depth name=foos"] == 2);
    CHECK(s.q->size() == 1);
    CHECK(s.q->figures().marked == 1);
    s.pass(2s);
    a.done();
    CHECK(sink->gauges["workqueue_depth name=foos"] == 2);
    CHECK(sink->samples["workqueue_work_duration_seconds name=foos"] == std::vector<double>{4.0});
    CHECK(s.next() == "b");
    CHECK(s.next() == "a");
    CHECK(sink->samples["workqueue_queue_duration_seconds name=foos"] == std::vector<double>{3.0, 7.0, 2.0});
    CHECK(sink->gauges["workqueue_depth name=foos"] == 0);
}

TEST_CASE("Q9 a key that is added five times during its own work is one add, and the depth is one, as in client-go") {
    const auto sink = std::make_shared<recording_sink>();
    queue_scene s(work_queue_options().name("foos"), sink);
    s.q->add("a");
    queue::item a = s.q->try_get();
    CHECK(a.key() == "a");
    for (int i = 0; i < 5; ++i) s.q->add("a");
    CHECK(sink->counters["workqueue_adds_total name=foos"] == 2);
    CHECK(sink->gauges["workqueue_depth name=foos"] == 1);
    a.done();
    CHECK(sink->gauges["workqueue_depth name=foos"] == 1);
    CHECK(s.next() == "a");
    CHECK(sink->gauges["workqueue_depth name=foos"] == 0);
}

TEST_CASE("Q9 counters exist before there is anything to count, so that the first count is an increase") {
    const auto sink = std::make_shared<recording_sink>();
    const queue_scene s(work_queue_options().name("foos"), sink);
    CHECK(sink->live.contains("workqueue_adds_total name=foos"));
    CHECK(sink->live.contains("workqueue_retries_total name=foos"));
    CHECK(sink->counters["workqueue_retries_total name=foos"] == 0);
}

TEST_CASE("Q9 every delayed and rate-limited request is a retry; a delayed key counts as an add when it is due") {
    const auto sink = std::make_shared<recording_sink>();
    queue_scene s(work_queue_options().name("foos"), sink);
    s.q->add_after("a", 5s);
    s.q->add_after("a", 9s);
    s.q->add_rate_limited("b");
    CHECK(sink->counters["workqueue_retries_total name=foos"] == 3);
    CHECK(sink->counters["workqueue_adds_total name=foos"] == 0);
    CHECK(sink->gauges["workqueue_depth name=foos"] == 0);
    s.pass(5s);
    CHECK(sink->counters["workqueue_adds_total name=foos"] == 2);
    CHECK(sink->gauges["workqueue_depth name=foos"] == 2);
    s.q->add_after("c", 5s);
    s.q->add("c"); // delayed, then now: one add
    s.pass(10s);
    CHECK(sink->counters["workqueue_adds_total name=foos"] == 3);
}

TEST_CASE("Q9 unfinished work is reported every 500 ms while there is some; then no timer is left") {
    const auto sink = std::make_shared<recording_sink>();
    queue_scene s(work_queue_options().name("foos"), sink);
    s.q->add("a");
    s.q->add("b");
    CHECK(s.idle());
    queue::item a = s.q->try_get();
    CHECK(a.key() == "a");
    s.pass(500ms);
    CHECK(sink->gauges["workqueue_unfinished_work_seconds name=foos"] == 0.5);
    queue::item b = s.q->try_get();
    CHECK(b.key() == "b");
    s.pass(500ms);
    CHECK(sink->gauges["workqueue_unfinished_work_seconds name=foos"] == 1.5);
    CHECK(sink->gauges["workqueue_longest_running_processor_seconds name=foos"] == 1.0);
    a.done();
    s.pass(500ms);
    CHECK(sink->gauges["workqueue_unfinished_work_seconds name=foos"] == 1.0);
    CHECK(sink->gauges["workqueue_longest_running_processor_seconds name=foos"] == 1.0);
    b.done();
    s.pass(500ms);
    CHECK(sink->gauges["workqueue_unfinished_work_seconds name=foos"] == 0.0);
    CHECK(sink->gauges["workqueue_longest_running_processor_seconds name=foos"] == 0.0);
    CHECK(s.idle());
    CHECK(s.clock->waiters() == 0);
}

TEST_CASE("Q9 a key that comes due meanwhile changes nothing about the reports of unfinished work") {
    const auto sink = std::make_shared<recording_sink>();
    queue_scene s(work_queue_options().name("foos"), sink);
    s.q->add("a");
    const queue::item a = s.q->try_get();
    CHECK(a.key() == "a");
    for (int i = 1; i <= 9; ++i) s.q->add_after(std::to_string(i), i * 300ms);
    s.pass(300ms);
    CHECK_FALSE(sink->live.contains("workqueue_unfinished_work_seconds name=foos"));
    s.pass(200ms);
    CHECK(sink->gauges["workqueue_unfinished_work_seconds name=foos"] == 0.5);
    s.pass(100ms);
    CHECK(sink->gauges["workqueue_unfinished_work_seconds name=foos"] == 0.5);
    s.pass(400ms);
    CHECK(sink->gauges["workqueue_unfinished_work_seconds name=foos"] == 1.0);
}

TEST_CASE("Q9 the time in line is reported for an item that goes to a getter which waited, too") {
    const auto sink = std::make_shared<recording_sink>();
    queue_scene s(work_queue_options().name("foos"), sink);
    CHECK(s.next() == "-"); // an empty queue reports nothing
    informer::testing::getter waits(s);
    s.pass(3s);
    CHECK(sink->samples["workqueue_queue_duration_seconds name=foos"].empty());
    s.q->add("a");
    s.run();
    CHECK(waits.keys == "a");
    CHECK(sink->samples["workqueue_queue_duration_seconds name=foos"] == std::vector<double>{0.0});
    CHECK(sink->gauges["workqueue_depth name=foos"] == 0);
}

TEST_CASE("Q9 shutdown ends the periodic reports, although work is unfinished") {
    const auto sink = std::make_shared<recording_sink>();
    queue_scene s(work_queue_options().name("foos"), sink);
    s.q->add("a");
    const queue::item a = s.q->try_get();
    CHECK(a.key() == "a");
    s.pass(500ms);
    CHECK(s.clock->waiters() == 1);
    s.q->shut_down();
    CHECK(s.idle());
    CHECK(s.clock->waiters() == 0);
}

TEST_CASE("Q9 the series of a queue are removed with it, so that names may change without end") {
    const auto sink = std::make_shared<recording_sink>();
    queue_scene s(work_queue_options().name("foos"), sink);
    s.q->add("a");
    s.q->add("b");
    s.q->add_rate_limited("c");
    {
        queue::item a = s.q->try_get();
        s.pass(1s); // makes the gauges of unfinished work appear
        a.done();
    }
    CHECK(sink->live.size() == 7);
    s.q.reset();
    s.pass(1min);
    CHECK(sink->live.empty());
    CHECK(sink->gauges["workqueue_depth name=foos"] == 0); // for a sink that keeps the last value
}

TEST_CASE("Q9 a queue without a name has no metrics, and no timer for them") {
    const auto sink = std::make_shared<recording_sink>();
    queue_scene s(work_queue_options(), sink);
    s.q->add("a");
    const queue::item a = s.q->try_get();
    CHECK(a.key() == "a");
    CHECK(s.idle());
    CHECK(s.clock->waiters() == 0);
    CHECK(sink->counters.empty());
    CHECK(sink->gauges.empty());
    CHECK(sink->samples.empty());
}

namespace {

/// Adds a key to the queue each time the depth is reported, up to `most` keys.
class busy_sink final : public metrics_sink {
public:
    void add(std::string_view, double, labels) override {}
    void set(std::string_view gauge, double value, labels) override {
        if (gauge != "workqueue_depth") return;
        if (added < most) q->add(std::to_string(added++));
        depth = value;
    }
    void observe(std::string_view, double, labels) override {}

    queue* q = nullptr;
    int added = 0, most = 0;
    double depth = -1;
};

} // namespace

TEST_CASE("Q9 a sink may use the queue whose figures it gets, and the gauge ends with the last depth") {
    const auto sink = std::make_shared<busy_sink>();
    queue_scene s(work_queue_options().name("foos"), sink);
    sink->q = s.q.get();
    sink->most = 3;
    s.q->add("a");
    CHECK(sink->depth == 4);
    CHECK(s.next() == "a");
    CHECK(sink->depth == 3);
}

TEST_CASE("Q9 a caller that reports the depth of a busy queue is not kept at it: the executor goes on") {
    const auto sink = std::make_shared<busy_sink>();
    queue_scene s(work_queue_options().name("foos"), sink);
    sink->q = s.q.get();
    sink->most = 1000;
    s.q->add("a");
    CHECK(sink->added < 100);
    s.run();
    CHECK(sink->added == 1000);
    CHECK(sink->depth == 1001);
    CHECK(s.idle());
}

TEST_CASE("Q9 a sink that throws does not disturb the queue") {
    queue_scene s(work_queue_options().name("foos"), std::make_shared<informer::testing::throwing_sink>());
    s.q->add("a");
    s.q->add_after("b", 1s);
    s.pass(1s);
    CHECK(s.next() == "a");
    CHECK(s.next() == "b");
    s.pass(500ms);
    CHECK(s.idle());
}

TEST_CASE("Q9 of two queues of one name the last one ends the series") {
    const auto sink = std::make_shared<recording_sink>();
    queue_scene s(work_queue_options().name("foos"), sink);
    s.q->add("a");
    { const queue_scene::queue other(s.world, work_queue_options().name("foos")); }
    s.pass(1min);
    CHECK(sink->live.contains("workqueue_adds_total name=foos"));
    CHECK(sink->live.contains("workqueue_depth name=foos"));
    s.q.reset();
    s.pass(1min);
    CHECK(sink->live.empty());
}
