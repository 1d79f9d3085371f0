// Unusual input that a server could send to an informer: its cost per byte compared with pods, and its memory compared
// with the pool's own figures. Each case runs in a process of its own and prints one JSON line.
//
//   bench_edges [case[:items]…]
//
//   cpu_ns_per_byte  thread CPU time of framer, pool and cache
//   sax_ns_per_byte  Boost.JSON's SAX parser with an empty handler on the same items
//   resident         growth of the resident set with all objects held and the text freed
//   accounted        memory by the figures of pool and cache
//   peak             the highest resident set of the run, the framer's buffer included
//   longest_ms       CPU time of the longest step: 64 KB and the items that end in them, or 64 KB of a large item
//                    (256 KB while its key is read)
//
// The items take the path of an informer's first list: they are collected in a map, which the empty cache takes over.
#include "cache/cache_data.hpp"
#include "cache/replacement.hpp"
#include "support/edge_lists.hpp"
#include "support/empty_sax.hpp"
#include "support/process_memory.hpp"

#include <informer/cache/indexer.hpp>
#include <informer/object/document_pool.hpp>
#include <informer/object/framer.hpp>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <malloc.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

using namespace informer;
using bench::edge;
using bench::edges;

constexpr std::size_t slice = 64 * 1024;
constexpr std::size_t large_text = 256 * 1024; // the same as in the client

double cpu_seconds() {
    timespec t{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

int run(const edge& e) {
    const auto pool = document_pool::make(decode_options().type("v1", "Thing").text_difference(e.text_difference));
    indexer index;
    auto collected = std::make_unique<detail::replacement>(index);
    list_framer framer;
    framer.guess();
    failure f;
    std::size_t bytes = 0, bad = 0;
    double cpu = 0, longest = 0, sax = 0;
    const auto timed = [&](const auto& step) {
        const double start = cpu_seconds();
        step();
        const double took = cpu_seconds() - start;
        cpu += took;
        longest = std::max(longest, took);
    };
    // As the client does with an empty cache, which has no older versions to compare with: one step takes a slice and
    // all items that it completes; a large item takes steps of its own.
    const auto keep = [&](object o) {
        bad += o ? 0 : 1;
        if (o) collected->put(std::move(o));
    };
    const auto feed = [&](std::string_view text) {
        bool more = true;
        bytes += text.size();
        timed([&] { framer.lend(text); });
        while (more) {
            std::optional<key_peek> key;
            failure why;
            timed([&] {
                while (!key && (more = framer.next(f))) {
                    if (framer.item().size() > large_text)
                        key.emplace(framer.item());
                    else if (object o = pool->decode(framer.item(), object(), why); o || !framer.unproven())
                        keep(std::move(o));
                    else
                        framer.look_again();
                }
            });
            if (!key) break;
            for (bool whole = false; !whole;) timed([&] { whole = key->step(large_text); });
            const auto steps = pool->begin_decode(framer.item(), index.current(key->key()));
            for (bool whole = false; !whole;) timed([&] { whole = steps->step(); });
            timed([&] { keep(steps->finish(why)); });
        }
    };
    std::string waiting;
    const auto send = [&](std::string_view text, bool last) {
        waiting += text;
        std::string_view rest = waiting;
        for (; rest.size() >= slice; rest.remove_prefix(slice)) feed(rest.substr(0, slice));
        if (last) feed(rest);
        waiting.erase(0, waiting.size() - rest.size());
    };
    ::malloc_trim(0);
    const double before = bench::resident_bytes();
    double text_peak = 0; // text of the benchmark, not of the informer
    std::string small;
    std::vector<std::size_t> small_ends;
    send("{\"kind\":\"List\",\"apiVersion\":\"v1\",\"metadata\":{},\"items\":[", false);
    for (std::size_t i = 0; i < e.items; ++i) {
        const std::string text = e.text(i);
        if (text.size() < slice) {
            small += text;
            small_ends.push_back(small.size());
        }
        // Small items are walked in batches: reading the clock costs as much as a tiny item.
        if (text.size() >= slice || small.size() >= slice || i + 1 == e.items) {
            const double start = cpu_seconds();
            if (text.size() >= slice && !bench::walk_by_sax(text)) ++bad;
            std::size_t from = 0;
            for (const std::size_t to : small_ends) {
                if (!bench::walk_by_sax(std::string_view(small).substr(from, to - from))) ++bad;
                from = to;
            }
            sax += cpu_seconds() - start;
            small.clear();
            small_ends.clear();
        }
        text_peak = std::max(text_peak, static_cast<double>(text.size()));
        if (i) send(",", false);
        send(text, false);
    }
    send("]}", true);
    std::string().swap(waiting); // an assignment would keep the memory
    std::string().swap(small);
    std::vector<std::size_t>().swap(small_ends);
    timed([&] {
        const auto all = std::make_shared<cache_snapshot::data>();
        all->objects = std::move(collected->objects());
        index.begin_fill(cache_snapshot(all), collected->draft());
        collected.reset();
    });
    for (bool whole = false; !whole;) timed([&] { whole = index.fill_step(1024); });
    timed([&] { index.publish(); });
    const bool whole = framer.done() && !f;
    framer = list_framer();
    while (!pool->collect()) {
    }
    ::malloc_trim(0);
    const double resident = bench::resident_bytes() - before, peak = bench::peak_bytes() - before - 2 * text_peak;
    const double accounted = static_cast<double>(pool->statistics().bytes + index.memory());
    std::printf("{\"name\":\"%s\",\"about\":\"%s\",\"items\":%zu,\"bytes\":%zu,\"bad\":%zu,", e.name, e.about, e.items,
                bytes, bad);
    std::printf("\"cpu_ns_per_byte\":%.3f,\"sax_ns_per_byte\":%.3f,", cpu / static_cast<double>(bytes) * 1e9,
                sax / static_cast<double>(bytes) * 1e9);
    std::printf("\"resident\":%.0f,\"accounted\":%.0f,\"peak\":%.0f,\"longest_ms\":%.2f}\n", resident, accounted, peak,
                longest * 1e3);
    std::fflush(stdout);
    return whole && bad == 0 ? 0 : 1;
}

} // namespace

int main(int argc, char** argv) {
    int status = 0;
    for (edge e : edges()) {
        const auto is_named = [&](std::string_view a) {
            const auto colon = a.find(':');
            if (a.substr(0, colon) != e.name) return false;
            if (colon != a.npos) e.items = std::strtoul(a.data() + colon + 1, nullptr, 10);
            return true;
        };
        if (argc > 1 && std::none_of(argv + 1, argv + argc, is_named)) continue;
        const pid_t child = ::fork();
        if (child == 0) std::_Exit(run(e));
        int how = 0;
        ::waitpid(child, &how, 0);
        if (how != 0) {
            std::fprintf(stderr, "%s: ended with %d\n", e.name, how);
            status = 1;
        }
    }
    return status;
}
