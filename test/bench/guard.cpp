// The hot paths of an informer, each with a floor that does the same work and keeps nothing. `./dev bench check` counts
// their instructions.
//
//   bench_guard [rounds = 1] [pods = 1000]
//
// Prints one JSON line per part, in the order in which `measured` returns, with the least CPU time of the rounds.
// Everything that is counted runs inside `measured`, its preparation does not. Only the seeds of the hashes are random:
// they change the counts by less than half a percent. Code that is chosen by processor is the same on all processors.
#include "object/json_block.hpp"
#include "support/empty_sax.hpp"
#include "support/pod_generator.hpp"

#include <informer/cache/indexer.hpp>
#include <informer/object/document_pool.hpp>
#include <informer/object/framer.hpp>
#include <informer/queue/work_queue.hpp>

#include <boost/asio/io_context.hpp>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

namespace {
using work = std::function<void()>;
}

/// The driver passes this name to valgrind.
extern "C" [[gnu::noinline, gnu::used]] void measured(const work& f);
extern "C" void measured(const work& f) {
    f();
    __asm__ volatile("" ::: "memory"); // prevents a tail call, so that it returns after the work
}

namespace {

using namespace informer;

constexpr std::size_t slice = 256 * 1024; // the client reads this much at once
constexpr unsigned reads = 20'000, lists = 2'000;
constexpr unsigned keys = 20'000;

double cpu_seconds() {
    timespec t{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

void demand(bool right) {
    if (!right) std::abort(); // do not measure code that does not work
}

/// The texts that a server would send.
struct corpus {
    explicit corpus(unsigned pods) {
        list = "{\"kind\":\"PodList\",\"apiVersion\":\"v1\",\"metadata\":{\"resourceVersion\":\"1\"},\"items\":[";
        for (unsigned i = 0; i < pods; ++i) {
            testing::pod_options o(i);
            items.push_back(make_pod_json(o));
            list.append(i ? "," : "").append(items.back());
            o.index = static_cast<unsigned>(testing::pod_detail::mix(i) % pods);
            o.type = true;
            o.revision = i + 1;
            events.push_back(make_pod_json(o));
            stream.append("{\"type\":\"MODIFIED\",\"object\":").append(events.back()).append("}\n");
        }
        list += "]}";
    }
    std::string list, stream;
    std::vector<std::string> items, events;
};

/// The work of an informer between its socket and its handlers.
class cache {
public:
    /// With `difference`, texts are read by their differences, except the first 64; otherwise each is parsed.
    explicit cache(bool difference)
        : pool_(document_pool::make(decode_options().type("v1", "Pod").text_difference(difference))) {
        index_.add_index("node", index_by_pointer("/spec/nodeName"));
    }

    void relist(std::string_view text) {
        list_framer framer;
        framer.guess();
        failure f;
        while (!text.empty()) {
            framer.lend(next_slice(text));
            while (framer.next(f)) take(framer.item());
        }
        demand(!f && framer.done());
        index_.publish();
    }
    void follow(std::string_view text) {
        watch_framer framer;
        failure f;
        while (!text.empty()) {
            framer.lend(next_slice(text));
            while (framer.next(f)) take(framer.object());
            index_.publish();
        }
        demand(!f && framer.idle());
    }
    const indexer& index() const noexcept { return index_; }
    unsigned changes() const noexcept { return changes_; }

private:
    static std::string_view next_slice(std::string_view& text) {
        const std::string_view first = text.substr(0, slice);
        text.remove_prefix(first.size());
        return first;
    }
    void take(std::string_view text) {
        failure f;
        const object previous = index_.current(peek_key(text));
        object o = pool_->decode(text, previous, f);
        demand(!f);
        changes_ += o.same_as(previous) ? 0 : 1;
        index_.put(std::move(o));
    }

    std::shared_ptr<document_pool> pool_;
    indexer index_;
    unsigned changes_ = 0;
};

/// The least time of each part, by name; the parts keep their order.
class report {
public:
    void part(const char* name, const char* floor, double operations, const work& f) {
        const double start = cpu_seconds();
        measured(f);
        const double seconds = cpu_seconds() - start;
        const auto known = std::find_if(lines_.begin(), lines_.end(), [&](const line& l) { return l.name == name; });
        if (known != lines_.end()) {
            known->seconds = std::min(known->seconds, seconds);
        } else {
            lines_.push_back(line{name, floor, operations, seconds});
        }
    }
    void print() const {
        for (const line& l : lines_) {
            std::printf("{\"part\":\"%s\",\"floor\":\"%s\",\"operations\":%.0f,\"cpu_ns_per_op\":%.1f}\n",
                        l.name.c_str(), l.floor.c_str(), l.operations, l.seconds / l.operations * 1e9);
        }
    }

private:
    struct line {
        std::string name, floor;
        double operations, seconds;
    };
    std::vector<line> lines_;
};

/// Measures a first list, the same list again, and one event per pod.
void follow(report& r, const corpus& c, cache& into, const char* load, const char* relist, const char* events) {
    const auto pods = static_cast<double>(c.items.size());
    r.part(load, "sax_items", pods, [&] { into.relist(c.list); });
    demand(into.changes() == c.items.size());
    r.part(relist, "sax_items", pods, [&] { into.relist(c.list); });
    demand(into.changes() == c.items.size());
    r.part(events, "sax_events", pods, [&] { into.follow(c.stream); });
    demand(into.changes() == 2 * c.items.size());
}

void reading(report& r, const corpus& c) {
    cache full(true);
    follow(r, c, full, "load", "relist", "events");
    {
        cache parsed(false);
        follow(r, c, parsed, "load_parsed", "relist_parsed", "events_parsed");
    }
    const auto walk = [](const std::vector<std::string>& texts) {
        return [&texts] {
            for (const std::string& t : texts) demand(bench::walk_by_sax(t));
        };
    };
    r.part("sax_items", "", static_cast<double>(c.items.size()), walk(c.items));
    r.part("sax_events", "", static_cast<double>(c.events.size()), walk(c.events));

    std::vector<std::string> names, nodes;
    std::unordered_map<std::string, const std::string*> map;
    full.index().snapshot().for_each([&](const object& o) {
        names.push_back(o.key().str());
        nodes.push_back(o.at_pointer("/spec/nodeName").as_string().str());
        return true;
    });
    for (std::size_t i = 0; i < names.size(); ++i) map.emplace(names[i], &nodes[i]);
    const auto selector = label_selector::parse("app=none,tier in (backend,frontend)");
    r.part("get", "map_find", reads, [&] {
        for (unsigned i = 0; i < reads; ++i) {
            const object o = full.index().snapshot().get(names[i % names.size()]);
            demand(o.at_pointer("/spec/nodeName").is_string());
        }
    });
    r.part("list", "map_find", lists, [&] {
        const cache_snapshot now = full.index().snapshot();
        for (unsigned i = 0; i < lists; ++i) {
            demand(!now.by_index("node", nodes[i % nodes.size()]).empty());
            if (i % 10 == 0)
                demand(
                    !now.list_namespace(names[i % names.size()].substr(0, names[i % names.size()].find('/'))).empty());
            if (i % 100 == 0) demand(now.list(selector).empty());
        }
    });
    r.part("map_find", "", reads, [&] {
        for (unsigned i = 0; i < reads; ++i) demand(map.find(names[i % names.size()])->second != nullptr);
    });
}

void queueing(report& r) {
    std::vector<std::string> names;
    for (unsigned i = 0; i < keys; ++i) names.push_back("ns-" + std::to_string(i % 20) + "/pod-" + std::to_string(i));
    asio::io_context io(1);
    runtime rt(io.get_executor());
    work_queue<> queue(rt);
    r.part("queue", "set_insert_erase", keys, [&] {
        for (unsigned batch = 0; batch < keys; batch += 100) {
            for (unsigned i = batch; i < batch + 100; ++i) queue.add(names[i]);
            for (unsigned i = batch; i < batch + 100; ++i) queue.add(names[i]); // is in the queue already
            for (unsigned i = batch; i < batch + 100; ++i) {
                auto one = queue.try_get();
                demand(static_cast<bool>(one));
                one.done();
            }
        }
    });
    std::unordered_set<std::string> set;
    r.part("set_insert_erase", "", keys, [&] {
        for (unsigned batch = 0; batch < keys; batch += 100) {
            for (unsigned i = batch; i < batch + 100; ++i) set.insert(names[i]);
            for (unsigned i = batch; i < batch + 100; ++i) set.insert(names[i]);
            for (unsigned i = batch; i < batch + 100; ++i) demand(set.erase(names[i]) == 1);
        }
    });
}

} // namespace

int main(int argc, char** argv) {
    const auto number = [&](int i, unsigned otherwise) {
        return argc > i ? static_cast<unsigned>(std::strtoul(argv[i], nullptr, 10)) : otherwise;
    };
    const unsigned rounds = std::max(1u, number(1, 1));
#if defined(INFORMER_AVX2)
    informer::detail::scan_with_avx2 = false;
#endif
    const corpus c(std::max(1u, number(2, 1000)));
    report r;
    for (unsigned i = 0; i < rounds; ++i) {
        reading(r, c);
        queueing(r);
    }
    r.print();
    return 0;
}
