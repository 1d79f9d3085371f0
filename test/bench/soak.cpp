// Shows in minutes how an informer's memory develops over weeks: a cluster in memory whose pods change and are
// replaced, on a manual clock, so that everything that depends on time happens as often as it would in reality.
//
//   bench_soak [pods = 3000] [changes = 4000000]
//
// Each change takes one second. A fifth of the changes end a pod and begin another one, with a name, a uid and, sooner
// or later, a Deployment that never existed before. Most changes fall on a tenth of the pods. Day and night alternate
// every twelve hours; at night there are half as many pods. Watches end when the client wants them to, after five to
// ten minutes. Every 50,000 changes the server has forgotten the version that the next watch asks for, and a fiftieth
// of the pods have changed unseen in the meantime. There are a handler, which keeps the last state of each pod as
// controllers may, a listener that sleeps for an hour at a time, a listener that comes anew every six hours, and a
// reader that keeps each snapshot for ten minutes.
//
// Prints JSON lines: one after each twentieth of the changes and one after the last, with the memory that is held
// then; at the end {"wrong": N}, the number of places where cache or handler differ from the cluster.
#include "support/pod_generator.hpp"
#include "support/process_memory.hpp"

#include <informer/cache/indexer.hpp>
#include <informer/cache/shared_informer.hpp>
#include <informer/object/framer.hpp>
#include <informer/task_group.hpp>
#include <informer/testing/manual_clock.hpp>

#include <boost/asio/io_context.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <unordered_map>
#include <vector>

namespace {

using namespace informer;
using namespace std::chrono_literals;
using testing::manual_clock;

constexpr unsigned slice = 16; // changes between two turns of the informer
constexpr std::uint64_t forgotten_after = 50'000;

class cluster final : public list_watch {
public:
    cluster(std::shared_ptr<manual_clock> clock, unsigned pods, std::uint64_t changes,
            std::function<void(const cluster&)> report)
        : clock_(std::move(clock)), by_day_(pods), changes_(changes), report_(std::move(report)) {
        for (unsigned i = 0; i < pods; ++i) pods_.push_back(begin_pod());
    }

    const api_resource& resource() const override { return resource_; }
    std::string describe() const override { return "pods"; }
    asio::awaitable<list_result> list(list_options, object_sink&, failure& f) override { return refuse(&f); }
    asio::awaitable<void> watch(watch_options o, object_sink& sink, failure& f) override {
        ends_ = clock_->now() + o.timeout_;
        return o.send_initial_events_ ? start(this, &sink) : follow(this, &sink, o.resource_version_, &f);
    }

    std::uint64_t made() const noexcept { return made_; }
    std::uint64_t gone() const noexcept { return serial_ - pods_.size(); }
    std::size_t pods() const noexcept { return pods_.size(); }
    /// The number of places in which the cache differs from the cluster.
    std::uint64_t wrong(const cache_snapshot& cache) const {
        std::uint64_t n = cache.size() == pods_.size() ? 0 : 1;
        for (const pod& p : pods_) {
            const object* const there = cache.find(peek_key(text_of(p)));
            if (!there || there->resource_version().str() != std::to_string(p.version)) ++n;
        }
        return n;
    }

private:
    struct pod {
        unsigned serial, revision;
        std::uint64_t version;
    };

    static asio::awaitable<list_result> refuse(failure* f) {
        *f = failure(errc::unexpected_status, "watch-list only");
        co_return list_result();
    }
    /// Sends the present state, then the changes.
    static asio::awaitable<void> start(cluster* c, object_sink* sink) {
        sink->opened();
        for (std::size_t i = 0; i < c->pods_.size(); ++i) {
            send(*sink, watch_event_type::added, c->pods_[i]);
            if (i % slice == 0) co_await sink->ready();
        }
        sink->bookmark(resource_version(std::to_string(c->version_)), true);
        co_await sink->ready();
        co_await live(c, sink);
    }
    static asio::awaitable<void> follow(cluster* c, object_sink* sink, std::string from, failure* f) {
        if (c->made_ >= c->forget_at_) {
            c->forget_at_ += forgotten_after;
            for (std::size_t i = 0; i < c->pods_.size() / 50; ++i) c->change(nullptr);
        }
        if (from != std::to_string(c->version_)) {
            *f = failure(errc::gone, "too old");
            co_return;
        }
        sink->opened();
        co_await live(c, sink);
    }
    static asio::awaitable<void> live(cluster* c, object_sink* sink) {
        while (true) {
            c->report_(*c); // also before the first change: the unseen ones may have been the last
            if (c->clock_->now() >= c->ends_ || c->made_ >= c->changes_) co_return;
            c->clock_->advance(std::chrono::seconds(slice));
            for (unsigned i = 0; i < slice; ++i) c->change(sink);
            const bool wanted = co_await sink->ready();
            if (!wanted) co_return;
        }
    }

    pod begin_pod() { return {serial_++, 0, ++version_}; }
    std::size_t wanted() const {
        const auto hours = std::chrono::duration_cast<std::chrono::hours>(clock_->now().time_since_epoch()).count();
        return hours / 12 % 2 == 0 ? by_day_ : by_day_ / 2;
    }
    /// Without a sink the change is not reported.
    void change(object_sink* sink) {
        ++made_;
        const std::size_t most = wanted();
        if (pods_.size() < most) return begin(sink);
        // Most pods are quiet: fifteen of sixteen changes fall on a tenth of them.
        const std::size_t among = random_() % 16 == 0 ? pods_.size() : pods_.size() / 10;
        pod& p = pods_[random_() % among];
        p.version = ++version_;
        ++p.revision;
        const bool ends = random_() % 5 == 0 || pods_.size() > most;
        if (sink) send(*sink, ends ? watch_event_type::deleted : watch_event_type::modified, p);
        if (!ends) return;
        p = pods_.back();
        pods_.pop_back();
        if (pods_.size() < most) begin(sink);
    }
    void begin(object_sink* sink) {
        pods_.push_back(begin_pod());
        if (sink) send(*sink, watch_event_type::added, pods_.back());
    }
    static std::string text_of(const pod& p) {
        testing::pod_options o(p.serial);
        o.revision = p.revision;
        o.resource_version = p.version;
        o.managed_fields = false; // the informer drops them anyway
        o.type = true;
        return make_pod_json(o);
    }
    static void send(object_sink& sink, watch_event_type type, const pod& p) {
        const std::string text = text_of(p);
        sink.received(text.size());
        failure f;
        const object before = sink.previous(peek_key(text), 0);
        object o = sink.pool().decode(text, before, f);
        if (f) std::abort();
        sink.event(type, std::move(o));
    }

    const std::shared_ptr<manual_clock> clock_;
    const unsigned by_day_;
    const std::uint64_t changes_;
    const std::function<void(const cluster&)> report_;
    api_resource resource_{"", "v1", "pods", "Pod"};
    informer::clock::time_point ends_{}; // when the watch ends
    std::mt19937_64 random_{1};
    std::vector<pod> pods_;
    unsigned serial_ = 0;
    std::uint64_t version_ = 0, made_ = 0, forget_at_ = forgotten_after;
};

// ---- users of the informer -----------------------------------------------------------------------------------------

/// Takes all pending events, then sleeps: events that come meanwhile are merged.
asio::awaitable<void> sleeper(shared_informer pods, std::shared_ptr<manual_clock> clock) {
    subscription events = pods.subscribe();
    for (bool on = true; on;) {
        while (events.try_next()) {
        }
        on = co_await clock->sleep_for(1h);
    }
}

/// Subscribes late, stays for an hour, and unsubscribes with events pending.
asio::awaitable<void> visitor(shared_informer pods, std::shared_ptr<manual_clock> clock) {
    for (bool on = true; on;) {
        {
            subscription events = pods.subscribe();
            for (std::size_t n = 0; n < 100 + pods.snapshot().size(); ++n) {
                const std::optional<event> e = co_await events.next();
                if (!e) co_return;
            }
            on = co_await clock->sleep_for(1h);
        }
        if (on) on = co_await clock->sleep_for(5h);
    }
}

/// Checks that the snapshot it keeps does not change, whatever is written.
asio::awaitable<void> reader(shared_informer pods, std::shared_ptr<manual_clock> clock, std::uint64_t* wrong) {
    for (bool on = true; on;) {
        const cache_snapshot kept = pods.snapshot();
        const std::string version = kept.resource_version().str();
        const std::size_t objects = kept.size();
        on = co_await clock->sleep_for(10min);
        std::size_t there = 0;
        kept.for_each([&](const object& o) {
            there += o.name().empty() ? 0 : 1;
            return true;
        });
        if (there != objects || kept.resource_version().str() != version) ++*wrong;
    }
}

// ---- memory figures ------------------------------------------------------------------------------------------------

void print(const cluster& c, const shared_informer& pods, std::chrono::seconds passed) {
    const informer_status s = pods.status();
    const auto n = [](std::uint64_t v) { return static_cast<unsigned long long>(v); };
    std::printf("{\"changes\":%llu,\"hours\":%.1f,\"gone\":%llu,\"watches\":%llu,\"relists\":%llu,", n(c.made()),
                static_cast<double>(passed.count()) / 3600, n(c.gone()), n(s.watches), n(s.relists));
    std::printf("\"rss_kb\":%.0f,\"heap_kb\":%.0f,\"accounted_kb\":%.0f}\n", bench::resident_bytes() / 1024,
                bench::heap_bytes() / 1024, static_cast<double>(s.bytes) / 1024);
    std::fflush(stdout);
}

} // namespace

int main(int argc, char** argv) {
    const unsigned count = argc > 1 ? static_cast<unsigned>(std::strtoul(argv[1], nullptr, 10)) : 3000;
    const std::uint64_t changes = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 4'000'000;
    if (count < 50 || changes < 20 * slice) { // with fewer changes, two reports would fall together
        std::fputs(("bench_soak [pods, at least 50] [changes, at least " + std::to_string(20 * slice) + "]\n").c_str(),
                   stderr);
        return 2;
    }

    asio::io_context io(1);
    const auto clock = std::make_shared<manual_clock>();
    const auto start = clock->now();
    const runtime rt = runtime(io.get_executor()).with_clock(clock).with_seed(1);
    std::uint64_t wrong = 0, next_report = changes / 20;
    std::unordered_map<std::string, object> known; // by the handler
    std::optional<shared_informer> pods;
    task_group users(io.get_executor()), running(io.get_executor());
    const auto source = std::make_shared<cluster>(clock, count, changes, [&](const cluster& c) {
        if (c.made() < std::min(next_report, changes)) return;
        print(c, *pods, std::chrono::duration_cast<std::chrono::seconds>(clock->now() - start));
        next_report += changes / 20;
        if (c.made() < changes) return;
        wrong += c.wrong(pods->snapshot());
        users.stop();
        pods->stop();
    });
    pods.emplace(rt, source, informer_options().index("node", index_by_pointer("/spec/nodeName")));
    const auto keep = [&known](const object& o) { known.insert_or_assign(o.key().str(), o); };
    pods->add_event_handler([&](const object& o, bool) { keep(o); }, [&](const object&, const object& o) { keep(o); },
                            [&](const object& o, bool) { known.erase(o.key().str()); });
    running.spawn(pods->run());
    users.spawn(sleeper(*pods, clock));
    users.spawn(visitor(*pods, clock));
    users.spawn(reader(*pods, clock, &wrong));
    while (!io.stopped()) {
        if (io.poll() != 0 || io.stopped()) continue;
        const auto next = clock->next_deadline(); // all sleep: a watch ended, and the next one waits
        if (!next) break;
        clock->set(*next);
    }
    if (known.size() != source->pods()) ++wrong;
    std::printf("{\"wrong\":%llu}\n", static_cast<unsigned long long>(wrong));
    return wrong == 0 ? 0 : 1;
}
