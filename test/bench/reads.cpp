// Reads of a cache of 10,000 pods: nanoseconds per operation, one JSON line per case. Then readers on 0 to 4 threads
// while 20,000 events a second are written, with a count of everything that could have been a wait, and the time for a
// batch of events.
//
//   bench_reads [rounds = 5] [seconds = 2]
//
// Cases with the same name as in the Go counterpart (test/bench/peers/go, micro) do the same work on pods that are
// spread over namespaces, nodes and apps in the same way. The pods here are those of the corpus, twice as large as the
// simple ones in Go.
#include "support/pod_generator.hpp"

#include <informer/cache/indexer.hpp>
#include <informer/object/document_pool.hpp>
#include <informer/object/framer.hpp>
#include <informer/object/selector.hpp>

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace {

using namespace informer;

constexpr unsigned pods = 10'000, nodes = 100, namespaces = 20, replicas = 20;
constexpr unsigned event_rate = 20'000, batch = 100;

double seconds(clockid_t c) {
    timespec t{};
    ::clock_gettime(c, &t);
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

void demand(bool right) {
    if (!right) std::abort();
}

std::string text_of(unsigned i, unsigned revision) {
    testing::pod_options o(i);
    o.revision = revision;
    o.managed_fields = false;
    o.type = true;
    boost::json::value v = boost::json::parse(make_pod_json(o));
    auto& metadata = v.at("metadata").as_object();
    const std::string app = "app-" + std::to_string(i / replicas);
    metadata["name"] = app + "-7d4b9c6f5-" + std::to_string(i);
    metadata["namespace"] = "ns-" + std::to_string(i % namespaces);
    metadata["labels"] = {{"app", app}, {"pod-template-hash", "7d4b9c6f5"}, {"tier", "backend"}};
    v.at("spec").as_object()["nodeName"] = "node-" + std::to_string(i % nodes);
    return boost::json::serialize(v);
}

class scene {
public:
    scene() {
        index.add_index("node", index_by_pointer("/spec/nodeName"));
        for (unsigned i = 0; i < pods; ++i) {
            texts.push_back(text_of(i, 0));
            newer.push_back(text_of(i, 1));
            put(texts.back());
        }
        index.publish();
        index.snapshot().for_each([this](const object& o) {
            keys.push_back(o.key().str());
            return true;
        });
        // Sorted by pod as in Go, instead of the order of the trie.
        std::sort(keys.begin(), keys.end(), [](const std::string& a, const std::string& b) {
            const auto number = [](const std::string& s) { return std::stoul(s.substr(s.rfind('-') + 1)); };
            return number(a) < number(b);
        });
        keys = std::vector<std::string>(keys.begin(), keys.end()); // allocates the texts in that order, too
    }
    object decode(const std::string& text) {
        failure f;
        const object previous = index.current(peek_key(text));
        object o = pool->decode(text, previous, f);
        demand(!f);
        return o;
    }
    void put(const std::string& text) { index.put(decode(text)); }

    std::shared_ptr<document_pool> pool = document_pool::make(decode_options().type("v1", "Pod"));
    indexer index;
    std::vector<std::string> texts, newer, keys;
};

void measure(const char* name, unsigned rounds, unsigned operations, const std::function<void()>& f) {
    double best = std::numeric_limits<double>::infinity();
    for (unsigned i = 0; i < rounds; ++i) {
        const double start = seconds(CLOCK_THREAD_CPUTIME_ID);
        f();
        best = std::min(best, seconds(CLOCK_THREAD_CPUTIME_ID) - start);
    }
    std::printf("{\"name\":\"%s\",\"cpu_ns_per_op\":%.1f}\n", name, best / operations * 1e9);
    std::fflush(stdout);
}

/// Measures taking a snapshot of a cache of this many small objects.
void snapshots(const char* name, unsigned objects, unsigned rounds) {
    const auto pool = document_pool::make();
    indexer index;
    for (unsigned i = 0; i < objects; ++i) {
        failure f;
        index.put(pool->decode(R"({"metadata":{"name":"o)" + std::to_string(i) + "\"}}", object(), f));
        demand(!f);
    }
    index.publish();
    constexpr unsigned times = 200'000;
    measure(name, rounds, times, [&] {
        for (unsigned i = 0; i < times; ++i) demand(index.snapshot().contents() != nullptr);
    });
}

void alone(scene& s, unsigned rounds) {
    constexpr unsigned gets = 200'000, lists = 1000;
    const cache_snapshot held = s.index.snapshot();
    snapshots("snapshot_of_200", 200, rounds);
    snapshots("snapshot_of_200000", 200'000, rounds);
    measure("get", rounds, gets, [&] {
        for (unsigned i = 0; i < gets; ++i) demand(static_cast<bool>(s.index.get(s.keys[i % pods])));
    });
    measure("get_of_new_snapshot", rounds, gets, [&] {
        for (unsigned i = 0; i < gets; ++i) demand(static_cast<bool>(s.index.snapshot().get(s.keys[i % pods])));
    });
    std::vector<std::pair<std::string, std::string>> parts; // as a client-go lister is called
    for (const std::string& k : s.keys) parts.emplace_back(k.substr(0, k.find('/')), k.substr(k.find('/') + 1));
    measure("get_by_parts", rounds, gets, [&] {
        for (unsigned i = 0; i < gets; ++i) {
            const auto& [name_space, name] = parts[i % pods];
            demand(static_cast<bool>(s.index.get(name_space, name)));
        }
    });
    measure("get_of_held_snapshot", rounds, gets, [&] {
        for (unsigned i = 0; i < gets; ++i) demand(static_cast<bool>(held.get(s.keys[i % pods])));
    });
    measure("find_in_held_snapshot", rounds, gets, [&] {
        for (unsigned i = 0; i < gets; ++i) demand(held.find(s.keys[i % pods]) != nullptr);
    });
    measure("get_same_100", rounds, gets, [&] {
        for (unsigned i = 0; i < gets; ++i) demand(static_cast<bool>(held.get(s.keys[i % 100])));
    });
    const lent_objects all = held.list();
    measure("at_pointer", rounds, gets, [&] {
        for (unsigned i = 0; i < gets; ++i) demand(all[i % pods].at_pointer("/spec/nodeName").is_string());
    });
    measure("at_pointer_same_100", rounds, gets, [&] {
        for (unsigned i = 0; i < gets; ++i) demand(all[i % 100].at_pointer("/spec/nodeName").is_string());
    });
    measure("by_index_100", rounds, lists, [&] {
        for (unsigned i = 0; i < lists; ++i)
            demand(held.by_index("node", "node-" + std::to_string(i % nodes)).size() == pods / nodes);
    });
    measure("namespace_500", rounds, lists, [&] {
        for (unsigned i = 0; i < lists; ++i)
            demand(held.list_namespace("ns-" + std::to_string(i % namespaces)).size() == pods / namespaces);
    });
    const auto selector = label_selector::parse("app=app-7,tier=backend");
    measure("selector_20_of_10000", rounds, lists / 20, [&] {
        for (unsigned i = 0; i < lists / 20; ++i) demand(held.list(selector).size() == replicas);
    });
    measure("list_10000", rounds, lists / 20, [&] {
        for (unsigned i = 0; i < lists / 20; ++i) demand(held.list().size() == pods);
    });
    measure("for_each_10000", rounds, lists / 20, [&] {
        for (unsigned i = 0; i < lists / 20; ++i) {
            unsigned n = 0;
            held.for_each([&n](const object&) {
                ++n;
                return true;
            });
            demand(n == pods);
        }
    });
}

/// Each reader repeats the same round: it walks the whole cache, gets 1,000 objects by key, each from a new snapshot,
/// and lists by index, by namespace and by labels. As in Go's part "together".
struct reader {
    void run(const scene& s, const std::atomic<bool>& stop) {
        constexpr unsigned gets = 1000;
        const auto selector = label_selector::parse("app=app-7,tier=backend");
        std::uint64_t x = 88172645463325252U;
        const auto next = [&x] { return x ^= x << 13, x ^= x >> 7, x ^= x << 17; };
        while (!stop.load(std::memory_order_relaxed)) {
            std::uint64_t n = 0;
            s.index.snapshot().for_each([&n](const object& o) {
                n += o.value().exists();
                return true;
            });
            for (unsigned i = 0; i < gets; ++i) n += static_cast<bool>(s.index.snapshot().get(s.keys[next() % pods]));
            n += s.index.snapshot().by_index("node", "node-" + std::to_string(next() % nodes)).size();
            n += s.index.snapshot().list_namespace("ns-" + std::to_string(next() % namespaces)).size();
            n += s.index.snapshot().list(selector).size();
            wrong += n != pods + gets + pods / nodes + pods / namespaces + replicas;
            objects += n;
            snapshots += gets + 4;
        }
        cpu = seconds(CLOCK_THREAD_CPUTIME_ID);
    }
    std::uint64_t snapshots = 0, objects = 0, wrong = 0;
    double cpu = 0;
};

void together(scene& s, unsigned threads, double lasts) {
    std::atomic<bool> stop{false};
    std::vector<reader> readers(threads);
    std::vector<std::thread> running;
    const auto before = s.index.publication();
    for (reader& r : readers) running.emplace_back([&] { r.run(s, stop); });
    using clock = std::chrono::steady_clock;
    const auto begin = clock::now(),
               end = begin + std::chrono::duration_cast<clock::duration>(std::chrono::duration<double>(lasts));
    const auto pause = std::chrono::nanoseconds(1'000'000'000LL * batch / event_rate);
    static std::uint64_t sent = 0;
    const std::uint64_t first = sent;
    double decoding = 0, writing = 0;
    std::vector<object> next;
    std::vector<double> batches; // microseconds
    for (auto due = begin; due < end && clock::now() < end; due += pause) {
        std::this_thread::sleep_until(due); // lint: sleep the rate is what is measured
        const double start = seconds(CLOCK_THREAD_CPUTIME_ID);
        for (unsigned i = 0; i < batch; ++i, ++sent)
            next.push_back(s.decode((sent / pods % 2 == 0 ? s.newer : s.texts)[sent % pods]));
        const double decoded = seconds(CLOCK_THREAD_CPUTIME_ID);
        const auto ready = clock::now();
        for (object& o : next) s.index.put(std::move(o));
        s.index.publish();
        batches.push_back(std::chrono::duration<double, std::micro>(clock::now() - ready).count());
        writing += seconds(CLOCK_THREAD_CPUTIME_ID) - decoded;
        decoding += decoded - start;
        next.clear();
    }
    const double took = std::chrono::duration<double>(clock::now() - begin).count();
    stop = true;
    for (auto& t : running) t.join();
    const auto after = s.index.publication();
    reader sum;
    for (const reader& r : readers) {
        sum.snapshots += r.snapshots;
        sum.objects += r.objects;
        sum.wrong += r.wrong;
        sum.cpu += r.cpu;
    }
    std::sort(batches.begin(), batches.end());
    const auto events = static_cast<double>(sent - first);
    std::printf("{\"name\":\"together\",\"threads\":%u,\"events_per_s\":%.0f,\"writer_ns_per_event\":%.0f,"
                "\"decode_ns_per_event\":%.0f,\"batch_p99_us\":%.1f,\"batch_max_us\":%.1f,\"snapshots\":%llu,"
                "\"objects_per_cpu_s\":%.0f,\"published\":%llu,\"overlapping\":%llu,\"writer_waits\":%llu,"
                "\"wrong\":%llu}\n",
                threads, events / took, writing / events * 1e9, decoding / events * 1e9,
                batches[batches.size() * 99 / 100], batches.back(), static_cast<unsigned long long>(sum.snapshots),
                sum.cpu > 0 ? static_cast<double>(sum.objects) / sum.cpu : 0.0,
                static_cast<unsigned long long>(after.published - before.published),
                static_cast<unsigned long long>(after.overlapping - before.overlapping),
                static_cast<unsigned long long>(after.waits - before.waits),
                static_cast<unsigned long long>(sum.wrong));
    std::fflush(stdout);
    demand(sum.wrong == 0);
}

} // namespace

int main(int argc, char** argv) {
    const unsigned rounds = argc > 1 ? std::max(1u, static_cast<unsigned>(std::strtoul(argv[1], nullptr, 10))) : 5;
    const double lasts = argc > 2 ? std::strtod(argv[2], nullptr) : 2;
    scene s;
    alone(s, rounds);
    for (unsigned threads = 0; threads <= 4; ++threads) together(s, threads, lasts);
    return 0;
}
