// The work queue: nanoseconds per operation and bytes per item, one JSON line per case.
//
//   bench_queue [rounds = 5] [case…]
//
//   ns_per_op       wall time for one key (added, handed out, done), the least of the rounds
//   cpu_ns_per_op   CPU time of all threads, the least of the rounds
//   bytes_per_item  memory for each of 100,000 waiting keys, the copy of the key included; 0: not measured
//
// Cases with the same name as in the Go counterpart (test/bench/peers/go, micro) do the same work.
#include "support/process_memory.hpp"

#include <informer/object/object_key.hpp>
#include <informer/queue/work_queue.hpp>
#include <informer/task_group.hpp>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace {

using namespace informer;
using namespace std::chrono_literals;
using queue = work_queue<>;
using object_queue = work_queue<object_key>;

constexpr std::size_t operations = 1'000'000;
constexpr std::size_t held = 100'000;
constexpr std::size_t delayed = 50'000;

double seconds(clockid_t c) {
    timespec t{};
    ::clock_gettime(c, &t);
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

/// The keys and the executor of all rounds of a case.
struct scene {
    scene() {
        for (std::size_t i = 0; i < held; ++i) {
            objects.emplace_back("ns-" + std::to_string(i % 20), "pod-" + std::to_string(i));
            keys.push_back(objects.back().str());
        }
    }
    std::vector<object_key> objects;
    std::vector<std::string> keys;
    asio::io_context context{1};
    runtime world{context.get_executor()};
};

template <class Queue>
void take_one(Queue& q) {
    typename Queue::item one = q.try_get();
    if (!one) std::abort();
    static_cast<void>(one.key());
    one.done();
}

// ---- without waiting -----------------------------------------------------------------------------------------------

void add_get_done(scene& s, queue& q) {
    for (std::size_t i = 0; i < operations; ++i) {
        q.add(s.keys[i % held]);
        take_one(q);
    }
}

void duplicate_add(scene& s, queue& q) {
    q.add(s.keys[0]);
    for (std::size_t i = 0; i < operations; ++i) q.add(s.keys[0]);
    take_one(q);
}

void priority_add_get_done(scene& s, object_queue& q) {
    for (std::size_t i = 0; i < operations / 10; ++i) {
        q.add(s.objects[i % held]);
        take_one(q);
    }
}

void priority_backlog(scene& s, object_queue& q) {
    for (const object_key& k : s.objects) q.add(k);
    for (std::size_t i = 0; i < held; ++i) take_one(q);
}

void priority_ten_levels(scene& s, object_queue& q) {
    for (std::size_t i = 0; i < held; ++i) q.add(s.objects[i], static_cast<int>(i % 10));
    for (std::size_t i = 0; i < held; ++i) take_one(q);
}

// ---- through coroutines --------------------------------------------------------------------------------------------

constexpr const char* last = "the last";

// `eager`: tries `try_get()` before it waits in `get()`, as a busy worker does.
asio::awaitable<void> consumer(queue* q, bool eager) {
    for (;;) {
        queue::item one;
        if (eager) one = q->try_get();
        if (!one) one = co_await q->get();
        const bool end = one.key() == last;
        one.done();
        if (end) co_return;
    }
}

// Like an informer: adds the keys of a batch of events, then lets other coroutines run.
asio::awaitable<void> producer(scene* s, queue* q, std::size_t batch) {
    const auto executor = co_await asio::this_coro::executor;
    for (std::size_t i = 0; i < operations; ++i) {
        q->add(s->keys[i % held]);
        if (i % batch == 0) co_await asio::post(executor, asio::use_awaitable);
    }
    q->add(last);
}

void coroutines(scene& s, queue& q, std::size_t batch, bool eager) {
    s.context.restart();
    task_group group(s.context.get_executor());
    group.spawn(consumer(&q, eager));
    group.spawn(producer(&s, &q, batch));
    s.context.run();
}
void eager_worker(scene& s, queue& q) {
    coroutines(s, q, 64, true);
}
void plain_worker(scene& s, queue& q) {
    coroutines(s, q, 64, false);
}
/// Every get() has to wait: the most expensive case.
void one_by_one(scene& s, queue& q) {
    coroutines(s, q, 1, false);
}

void other_thread(scene& s, queue& q) {
    s.context.restart();
    task_group group(s.context.get_executor());
    group.spawn(consumer(&q, true));
    std::thread adder([&s, &q] {
        for (std::size_t i = 0; i < operations; ++i) q.add(s.keys[i % held]);
        q.add(last);
    });
    s.context.run();
    adder.join();
}

// ---- delays --------------------------------------------------------------------------------------------------------

asio::awaitable<void> take(queue* q, std::size_t count, bool forget) {
    for (; count > 0; --count) {
        queue::item one = q->try_get();
        if (!one) one = co_await q->get();
        static_cast<void>(one.key());
        if (forget) one.forget();
        one.done();
    }
}

void take_all(scene& s, queue& q, bool forget) {
    s.context.restart();
    task_group group(s.context.get_executor());
    group.spawn(take(&q, delayed, forget));
    s.context.run();
}

void add_after(scene& s, queue& q) {
    for (std::size_t i = 0; i < delayed; ++i) q.add_after(s.keys[i], 1ms);
    take_all(s, q, false);
}

void rate_limited(scene& s, queue& q) {
    for (std::size_t i = 0; i < delayed; ++i) q.add_rate_limited(s.keys[i]);
    take_all(s, q, true);
}

// ---- measuring -----------------------------------------------------------------------------------------------------

work_queue_options options(std::chrono::nanoseconds base) {
    work_queue_options o;
    o.limiter(std::make_shared<exponential_limiter>(base, 1h));
    return o;
}

/// Bytes per item, with 100,000 items.
template <class Queue, class Keys>
double bytes(scene& s, const Keys& keys, void (*put)(Queue&, const typename Queue::key_type&)) {
    const double before = bench::heap_bytes();
    Queue q(s.world, options(1h));
    for (const auto& k : keys) put(q, k);
    return (bench::heap_bytes() - before) / static_cast<double>(held);
}

int rounds = 5;
std::vector<std::string> wanted;

template <class Queue>
void measure(const char* name, std::size_t count, void (*body)(scene&, Queue&), double (*holding)(scene&) = nullptr) {
    if (!wanted.empty() && std::find(wanted.begin(), wanted.end(), name) == wanted.end()) return;
    scene s;
    double wall = std::numeric_limits<double>::max(), cpu = wall;
    Queue q(s.world, options(1ms));
    for (int round = 0; round < rounds; ++round) {
        const double wall_before = seconds(CLOCK_MONOTONIC), cpu_before = seconds(CLOCK_PROCESS_CPUTIME_ID);
        body(s, q);
        wall = std::min(wall, seconds(CLOCK_MONOTONIC) - wall_before);
        cpu = std::min(cpu, seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu_before);
    }
    const double per = 1e9 / static_cast<double>(count);
    std::printf("{\"name\":\"%s\",\"ns_per_op\":%.1f,\"cpu_ns_per_op\":%.1f,\"bytes_per_item\":%.1f}\n", name,
                wall * per, cpu * per, holding != nullptr ? holding(s) : 0.0);
    std::fflush(stdout);
}

double waiting(scene& s) {
    return bytes<queue>(s, s.keys, [](queue& q, const std::string& k) { q.add(k); });
}
double waiting_for_time(scene& s) {
    return bytes<queue>(s, s.keys, [](queue& q, const std::string& k) { q.add_after(k, 1h); });
}
double waiting_for_limit(scene& s) {
    return bytes<queue>(s, s.keys, [](queue& q, const std::string& k) { q.add_rate_limited(k); });
}
double waiting_objects(scene& s) {
    return bytes<object_queue>(s, s.objects, [](object_queue& q, const object_key& k) { q.add(k); });
}

} // namespace

int main(int argc, char** argv) {
    if (argc > 1) rounds = std::max(1, std::atoi(argv[1]));
    wanted.assign(argv + std::min(argc, 2), argv + argc);
    measure<queue>("queue/add_get_done", operations, add_get_done, waiting);
    measure<queue>("queue/add_get_done_coroutines", operations, eager_worker);
    measure<queue>("queue/add_get_done_plain_get", operations, plain_worker);
    measure<queue>("queue/add_get_done_one_by_one", operations, one_by_one);
    measure<queue>("queue/add_get_done_threads", operations, other_thread);
    measure<queue>("queue/duplicate_add", operations, duplicate_add);
    measure<queue>("queue/add_after_done", delayed, add_after, waiting_for_time);
    measure<queue>("queue/rate_limited_done", delayed, rate_limited, waiting_for_limit);
    measure<object_queue>("queue/priority_add_get_done", operations / 10, priority_add_get_done, waiting_objects);
    measure<object_queue>("queue/priority_backlog_add_get_done", held, priority_backlog);
    measure<object_queue>("queue/priority_ten_levels", held, priority_ten_levels);
    return 0;
}
