// The work queue: nanoseconds an operation and bytes an item, one JSON line a case.
//
//   bench_queue [rounds = 15] [case…]
//
// An operation is the whole way of one key: asked for, handed out, done. Least time of all rounds: what a busy machine adds
// is not ours. Cases are the same as the Go counterpart's (test/bench/peers/go, micro).
#include <informer/queue/work_queue.hpp>
#include <informer/task_group.hpp>

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
#include <string>
#include <thread>
#include <vector>

#include <malloc.h>

namespace {

using namespace informer;
using namespace std::chrono_literals;
using queue = work_queue<>;

constexpr std::size_t key_count = 1000;
constexpr std::size_t operations = 200'000;

std::vector<std::string> make_keys(std::size_t n) {
    std::vector<std::string> keys;
    keys.reserve(n);
    for (std::size_t i = 0; i < n; ++i) {
        keys.push_back("namespace-" + std::to_string(i % 20) + "/pod-" + std::to_string(100000 + i));
    }
    return keys;
}

double seconds(clockid_t c) {
    timespec t{};
    ::clock_gettime(c, &t);
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

double allocated() {
    return static_cast<double>(mallinfo2().uordblks + mallinfo2().hblkhd);
}

/// What a case works with, fresh in each round.
struct scene {
    explicit scene(rate_limiter_ptr limiter = nullptr)
        : keys(make_keys(key_count)),
          q(runtime(context.get_executor()), work_queue_options().limiter(std::move(limiter))) {}
    const std::string& key(std::size_t i) const { return keys[i % key_count]; }

    asio::io_context context{1};
    std::vector<std::string> keys;
    queue q;
    std::size_t finished = 0;
};

void take_one(queue& q) {
    queue::item one = q.try_get();
    if (one.key().empty()) std::abort();
    one.done();
}

// ---- one at a time ------------------------------------------------------------------------------------------------------

void add_get_done(scene& s) {
    for (std::size_t i = 0; i < operations; ++i) {
        s.q.add(s.key(i));
        take_one(s.q);
    }
}

void add_get_done_batch(scene& s) {
    for (std::size_t i = 0; i < operations / key_count; ++i) {
        for (const std::string& k : s.keys) s.q.add(k);
        for (std::size_t n = 0; n < key_count; ++n) take_one(s.q);
    }
}

void duplicate_add(scene& s) {
    s.q.add(s.key(0));
    for (std::size_t i = 0; i < operations; ++i) s.q.add(s.key(0));
    take_one(s.q);
}

// ---- workers are coroutines ---------------------------------------------------------------------------------------------

asio::awaitable<void> worker(scene* s) {
    for (;;) {
        queue::item one = co_await s->q.get();
        if (!one) co_return;
        if (one.key().empty()) std::abort();
        ++s->finished;
        one.done();
    }
}

// Keeps at most half of the keys waiting, so that an add is never a duplicate for lack of workers.
asio::awaitable<void> producer(scene* s) {
    const auto executor = co_await asio::this_coro::executor;
    for (std::size_t i = 0; i < operations; ++i) {
        s->q.add(s->key(i));
        if (i % (key_count / 2) == 0) {
            while (!s->q.empty()) co_await asio::post(executor, asio::use_awaitable);
        }
    }
    s->q.shut_down();
}

asio::awaitable<void> run_and_join(scene* s, std::size_t workers, bool produce) {
    const auto executor = co_await asio::this_coro::executor;
    task_group group(executor);
    for (std::size_t w = 0; w < workers; ++w) group.spawn(worker(s));
    if (produce) group.spawn(producer(s));
    co_await group.join();
}

void workers(scene& s) {
    task_group main(s.context.get_executor());
    main.spawn(run_and_join(&s, 8, true));
    s.context.run();
    if (s.finished != operations) std::abort();
}

void other_thread(scene& s) {
    task_group main(s.context.get_executor());
    main.spawn(run_and_join(&s, 8, false));
    std::thread adder([&s] {
        for (std::size_t i = 0; i < operations; ++i) {
            s.q.add(s.key(i));
            if (i % (key_count / 2) == 0) {
                while (!s.q.empty()) std::this_thread::yield();
            }
        }
        s.q.shut_down();
    });
    s.context.run();
    adder.join();
}

// One key at a time comes to a coroutine that waits for it: the dearest way, every get() suspends.
asio::awaitable<void> ping(scene* s) {
    const auto executor = co_await asio::this_coro::executor;
    for (std::size_t i = 0; i < operations / 4; ++i) {
        s->q.add(s->key(i));
        while (s->finished <= i) co_await asio::post(executor, asio::use_awaitable);
    }
    s->q.shut_down();
}
asio::awaitable<void> ping_and_join(scene* s) {
    const auto executor = co_await asio::this_coro::executor;
    task_group group(executor);
    group.spawn(worker(s));
    group.spawn(ping(s));
    co_await group.join();
}
void wake_each(scene& s) {
    task_group main(s.context.get_executor());
    main.spawn(ping_and_join(&s));
    s.context.run();
}

// ---- delays -------------------------------------------------------------------------------------------------------------

// The workers wait; everything comes through the timer.
asio::awaitable<void> delayed_producer(scene* s) {
    const auto executor = co_await asio::this_coro::executor;
    for (std::size_t i = 0; i < operations; i += key_count) {
        for (const std::string& k : s->keys) s->q.add_after(k, 1us);
        while (s->finished < i + key_count) co_await asio::post(executor, asio::use_awaitable);
    }
    s->q.shut_down();
}
asio::awaitable<void> limited_producer(scene* s) {
    const auto executor = co_await asio::this_coro::executor;
    for (std::size_t i = 0; i < operations; i += key_count) {
        for (const std::string& k : s->keys) s->q.add_rate_limited(k);
        while (s->finished < i + key_count) co_await asio::post(executor, asio::use_awaitable);
    }
    s->q.shut_down();
}
asio::awaitable<void> forgetting_worker(scene* s) {
    for (;;) {
        queue::item one = co_await s->q.get();
        if (!one) co_return;
        one.forget();
        ++s->finished;
        one.done();
    }
}
asio::awaitable<void> delayed_and_join(scene* s, bool limited) {
    const auto executor = co_await asio::this_coro::executor;
    task_group group(executor);
    if (limited) {
        group.spawn(forgetting_worker(s));
        group.spawn(limited_producer(s));
    } else {
        group.spawn(worker(s));
        group.spawn(delayed_producer(s));
    }
    co_await group.join();
}
void add_after(scene& s) {
    task_group main(s.context.get_executor());
    main.spawn(delayed_and_join(&s, false));
    s.context.run();
}
void rate_limited(scene& s) {
    task_group main(s.context.get_executor());
    main.spawn(delayed_and_join(&s, true));
    s.context.run();
}

// ---- priorities ---------------------------------------------------------------------------------------------------------

void priority(scene& s) {
    for (std::size_t i = 0; i < operations / key_count; ++i) {
        for (std::size_t n = 0; n < key_count; ++n) s.q.add(s.keys[n], static_cast<int>(n % 10));
        for (std::size_t n = 0; n < key_count; ++n) take_one(s.q);
    }
}

// ---- the frame ----------------------------------------------------------------------------------------------------------

/// Bytes of one waiting key, the key itself included.
double bytes_per_item(bool delayed) {
    constexpr std::size_t many = 100'000;
    const std::vector<std::string> keys = make_keys(many);
    asio::io_context context(1);
    queue q{runtime(context.get_executor())};
    const double before = allocated();
    for (const std::string& k : keys) {
        if (delayed) {
            q.add_after(k, 1h);
        } else {
            q.add(k);
        }
    }
    return (allocated() - before) / static_cast<double>(many);
}

struct one_case {
    const char* name;
    void (*body)(scene&);
    std::size_t count = operations;
    rate_limiter_ptr limiter = nullptr;
    bool delayed = false;
};

void measure(const one_case& c, int rounds) {
    double wall = std::numeric_limits<double>::max(), cpu = wall;
    for (int round = 0; round < rounds; ++round) {
        scene s(c.limiter);
        const double wall_before = seconds(CLOCK_MONOTONIC), cpu_before = seconds(CLOCK_PROCESS_CPUTIME_ID);
        c.body(s);
        wall = std::min(wall, seconds(CLOCK_MONOTONIC) - wall_before);
        cpu = std::min(cpu, seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu_before);
    }
    const double per = 1e9 / static_cast<double>(c.count);
    std::printf("{\"name\":\"%s\",\"ns_per_op\":%.1f,\"cpu_ns_per_op\":%.1f,\"bytes_per_item\":%.1f}\n", c.name,
                wall * per, cpu * per, bytes_per_item(c.delayed));
    std::fflush(stdout);
}

} // namespace

int main(int argc, char** argv) {
    const int rounds = argc > 1 ? std::max(1, std::atoi(argv[1])) : 15;
    const auto brief = std::make_shared<exponential_limiter>(1us, 1s);
    const std::vector<one_case> cases = {
        {"queue_add_get_done", add_get_done},
        {"queue_add_get_done_batch", add_get_done_batch},
        {"queue_duplicate_add", duplicate_add},
        {"queue_workers", workers},
        {"queue_other_thread", other_thread},
        {"queue_wake_each", wake_each, operations / 4},
        {"queue_add_after", add_after, operations, nullptr, true},
        {"queue_rate_limited", rate_limited, operations, brief, true},
        {"queue_priority", priority},
    };
    for (const one_case& c : cases) {
        const bool asked =
            argc < 3 || std::any_of(argv + 2, argv + argc, [&](const char* a) { return std::string(a) == c.name; });
        if (asked) measure(c, rounds);
    }
    return 0;
}
