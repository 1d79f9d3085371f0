// The cost of a subscriber: an informer on a source in memory, updates of its pods, and 1 to 1,000 listeners that count
// them. The informer's own share (0 listeners, measured alternately) is subtracted. One JSON line per figure.
//
//   bench_fanout [pods = 2000] [rounds of updates = 10]
//   bench_fanout pods rounds handlers|next_batch|next listeners slice      one run: nanoseconds per event, the
//                                                                          informer's share included
#include "support/process_memory.hpp"

#include <informer/cache/shared_informer.hpp>
#include <informer/detail/async.hpp>
#include <informer/task_group.hpp>

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <time.h>

namespace {

using namespace informer;

double cpu_seconds() {
    timespec t{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

std::string pod(unsigned i, unsigned version) {
    return R"({"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"default","name":"pod-)" + std::to_string(i) +
           R"(","uid":"uid-)" + std::to_string(i) + R"(","resourceVersion":")" + std::to_string(version) +
           R"("},"spec":{"nodeName":"n)" + std::to_string(i % 100) + R"("}})";
}

/// A watch-list in memory; after `go`, it sends MODIFIED events, `slice` of them between two turns of the consumer.
class source final : public list_watch {
public:
    source(asio::any_io_executor executor, unsigned pods, unsigned slice)
        : more_(executor), done_(executor), pods_(pods), slice_(slice) {}
    void go(unsigned rounds) {
        rounds_ = rounds;
        more_.notify();
    }
    /// Waits until all events were sent. Waiting for a version instead would wake the waiter at each event.
    asio::awaitable<bool> done() { return done_.wait(); }
    unsigned version() const noexcept { return version_; }
    const api_resource& resource() const override { return resource_; }
    std::string describe() const override { return "pods"; }
    asio::awaitable<list_result> list(list_options, object_sink&, failure& f) override { return refuse(f); }
    asio::awaitable<void> watch(watch_options, object_sink& sink, failure&) override { return play(this, &sink); }

private:
    static asio::awaitable<list_result> refuse(failure& f) {
        f = failure(errc::unexpected_status, "watch-list only");
        co_return list_result();
    }
    void event(object_sink& sink, watch_event_type type, unsigned i) {
        const std::string text = pod(i, ++version_);
        failure f;
        const object before = sink.previous(object_key("default", "pod-" + std::to_string(i)), i);
        sink.event(type, sink.pool().decode(text, before, f));
    }
    static asio::awaitable<void> play(source* s, object_sink* sink) {
        sink->opened();
        for (unsigned i = 0; i < s->pods_; ++i) s->event(*sink, watch_event_type::added, i);
        sink->bookmark(resource_version(std::to_string(s->version_)), true);
        co_await sink->ready();
        for (;;) {
            const bool told = co_await s->more_.wait();
            if (!told) co_return;
            for (; s->rounds_ > 0; --s->rounds_) {
                for (unsigned i = 0; i < s->pods_; ++i) {
                    s->event(*sink, watch_event_type::modified, i);
                    if (i % s->slice_ == 0) co_await sink->ready();
                }
            }
            co_await sink->ready();
            s->done_.notify();
        }
    }

    api_resource resource_{"", "v1", "pods", "Pod"};
    informer::detail::async_event more_, done_;
    unsigned pods_, slice_, version_ = 0, rounds_ = 0;
};

enum class listening { handlers, batches, one_by_one };

asio::awaitable<void> by_batches(std::shared_ptr<subscription> s, std::uint64_t* seen) {
    for (;;) {
        const std::vector<event> events = co_await s->next_batch(256);
        if (events.empty()) co_return;
        *seen += events.size();
    }
}

asio::awaitable<void> by_one(std::shared_ptr<subscription> s, std::uint64_t* seen) {
    for (;;) {
        const std::optional<event> e = co_await s->next();
        if (!e) co_return;
        ++*seen;
    }
}

struct outcome {
    double cpu = 0;
    std::uint64_t seen = 0;
    double bytes = 0; ///< memory of one idle listener
};

asio::awaitable<void> drive(shared_informer i, source* from, unsigned rounds, unsigned version, const outcome* r,
                            std::uint64_t expected, double* cpu) {
    co_await i.synced(std::chrono::minutes(1));
    const double start = cpu_seconds();
    from->go(rounds);
    co_await from->done();
    co_await i.wait_until(resource_version(std::to_string(version)), std::chrono::minutes(10));
    const auto executor = co_await asio::this_coro::executor;
    while (r->seen < expected) co_await asio::post(executor, asio::use_awaitable);
    *cpu = cpu_seconds() - start;
    i.stop();
}

outcome measure(listening how, unsigned listeners, unsigned pods, unsigned rounds, unsigned slice) {
    outcome r;
    asio::io_context io(1);
    runtime rt(io.get_executor());
    const auto from = std::make_shared<source>(io.get_executor(), pods, slice);
    shared_informer i(rt, from);
    task_group group(io.get_executor());
    group.spawn(i.run());
    std::vector<std::shared_ptr<subscription>> subscriptions;
    std::vector<shared_informer::handler_handle> handles;
    while (!i.has_synced()) io.run_one();
    while (io.poll() != 0) {
    }
    const double before = bench::heap_bytes();
    for (unsigned n = 0; n < listeners; ++n) {
        if (how == listening::handlers) {
            std::uint64_t* const seen = &r.seen;
            handles.push_back(i.add_event_handler([seen](const object&, bool) { ++*seen; },
                                                  [seen](const object&, const object&) { ++*seen; }, {}));
            continue;
        }
        subscriptions.push_back(std::make_shared<subscription>(i.subscribe()));
        if (how == listening::batches)
            group.spawn(by_batches(subscriptions.back(), &r.seen));
        else
            group.spawn(by_one(subscriptions.back(), &r.seen));
    }
    while (io.poll() != 0) {
    }
    if (listeners != 0) r.bytes = (bench::heap_bytes() - before) / listeners;
    r.seen = 0;
    const std::uint64_t expected = std::uint64_t{pods} * rounds * listeners;
    group.spawn(drive(i, from.get(), rounds, pods + pods * rounds, &r, expected, &r.cpu));
    io.run();
    return r;
}

struct form {
    listening how;
    const char* name;
};
constexpr form forms[] = {
    {listening::handlers, "handlers"}, {listening::batches, "next_batch"}, {listening::one_by_one, "next"}};

double median(std::vector<double> of) {
    const auto middle = of.begin() + static_cast<std::ptrdiff_t>(of.size() / 2);
    std::nth_element(of.begin(), middle, of.end());
    return *middle;
}

void print(const form& f, unsigned listeners, unsigned pods, unsigned rounds, unsigned slice) {
    // The fewer the listeners, the smaller their share of the measured time, and the more pairs it takes to find it. A
    // machine that is slower for a while affects both measurements of a pair, and their order alternates.
    const unsigned pairs = listeners <= 10 ? 25 : 5, n = listeners == 1'000 ? std::max(1u, rounds / 10) : rounds;
    std::vector<double> alone, added;
    outcome one;
    const auto without = [&] { alone.push_back(measure(f.how, 0, pods, n, slice).cpu); };
    for (unsigned i = 0; i < pairs; ++i) {
        if (i % 2 == 0) without();
        one = measure(f.how, listeners, pods, n, slice);
        if (i % 2 != 0) without();
        added.push_back(one.cpu - alone.back());
    }
    const double us = median(added) / pods / n * 1e6;
    std::printf("{\"what\":\"fan-out\",\"by\":\"%s\",\"events_a_slice\":%u,\"listeners\":%u,\"us_per_event\":%.3f,"
                "\"ns_per_event_and_listener\":%.0f,\"bytes_per_idle_listener\":%.0f,\"own_us_per_event\":%.3f}\n",
                f.name, slice, listeners, us, us * 1e3 / listeners, one.bytes, median(alone) / pods / n * 1e6);
    std::fflush(stdout);
}

unsigned number(const char* text) {
    return static_cast<unsigned>(std::strtoul(text, nullptr, 10));
}

} // namespace

int main(int argc, char** argv) {
    const unsigned pods = argc > 1 ? number(argv[1]) : 2'000, rounds = argc > 2 ? number(argv[2]) : 10;
    if (argc > 5) {
        for (const form& f : forms) {
            if (std::string(f.name) != argv[3]) continue;
            std::printf("%.0f\n",
                        measure(f.how, number(argv[4]), pods, rounds, number(argv[5])).cpu / pods / rounds * 1e9);
            return 0;
        }
        return 2;
    }
    for (const unsigned slice : {64u, 1u})
        for (const form& f : forms)
            for (const unsigned listeners : {1u, 10u, 100u, 1'000u}) print(f, listeners, pods, rounds, slice);
    return 0;
}
