// The savings from reading documents by their differences from others: the same texts through a pool with
// `text_difference` on and one with it off, each in a process of its own, compared with Boost.JSON's SAX parser with an
// empty handler (the floor). With at least 20,000 pods in order and one structure, it prints the goals of the pool with
// `text_difference`; a missed goal gives exit status 1.
//
//   bench_text_difference [pods = 20000] [replicas = 20] [list|shuffled] [structures = 1]
#include "support/empty_sax.hpp"
#include "support/goals.hpp"
#include "support/pod_generator.hpp"
#include "support/process_memory.hpp"

#include <informer/object/document_pool.hpp>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include <malloc.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

using namespace informer;

double cpu_seconds() {
    timespec t{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

double floor_seconds(const std::vector<std::string>& texts) {
    const double start = cpu_seconds();
    for (const std::string& t : texts)
        if (!bench::walk_by_sax(t)) std::abort();
    return cpu_seconds() - start;
}

struct figures {
    double sax = std::numeric_limits<double>::infinity();
    double load = std::numeric_limits<double>::infinity(), relist = std::numeric_limits<double>::infinity(), events = 0,
           event_floor = 0;
    double resident = 0, bytes = 0, bytes_later = 0, template_bytes = 0, templates = 0;
    double hits_load = 0, hits_relist = 0, hits_events = 0;
};

struct cluster {
    unsigned pods, replicas, structures;
    bool shuffled;
};

std::string pod(const cluster& c, unsigned index, unsigned revision, bool type) {
    informer::testing::pod_options o(index);
    o.replicas = c.replicas;
    o.structures = c.structures;
    o.revision = revision;
    o.type = type;
    return make_pod_json(o);
}

figures run(bool difference, const cluster& c, std::uint64_t& check) {
    figures r;
    const unsigned count = c.pods;
    std::vector<unsigned> order(count);
    for (unsigned i = 0; i < count; ++i) order[i] = i;
    std::mt19937 random(5);
    if (c.shuffled) std::shuffle(order.begin(), order.end(), random);
    std::vector<std::string> texts;
    for (const unsigned i : order) texts.push_back(pod(c, i, 0, false));
    for (int round = 0; round < 7; ++round) r.sax = std::min(r.sax, floor_seconds(texts));
    std::vector<object> pods;
    failure f;
    const auto make_pool = [&] {
        return document_pool::make(decode_options().type("v1", "Pod").text_difference(difference));
    };
    const auto load = [&](document_pool& pool) {
        pods.assign(count, object());
        const double start = cpu_seconds();
        for (unsigned i = 0; i < count; ++i) pods[i] = pool.decode(texts[i], object(), f);
        r.load = std::min(r.load, cpu_seconds() - start);
    };
    for (int round = 0; round < 2; ++round) load(*make_pool()); // the least time counts, as for the floor
    pods.assign(count, object());
    const auto pool = make_pool();
    ::malloc_trim(0);
    const double resident = bench::resident_bytes();
    std::uint64_t hits = 0;
    const auto hit_rate = [&] {
        const std::uint64_t now = pool->statistics().template_hits;
        return static_cast<double>(now - std::exchange(hits, now)) / count;
    };
    load(*pool);
    r.hits_load = hit_rate();
    r.resident = (bench::resident_bytes() - resident) / count;
    r.bytes = static_cast<double>(pool->statistics().bytes) / count;
    double start = 0;
    for (int round = 0; round < 5; ++round) {
        start = cpu_seconds();
        for (unsigned i = 0; i < count; ++i) {
            object o = pool->decode(texts[i], pods[i], f);
            if (!o.same_as(pods[i])) std::abort();
            pods[i] = std::move(o);
        }
        r.relist = std::min(r.relist, cpu_seconds() - start);
        r.hits_relist = hit_rate();
    }
    texts = {};
    std::vector<unsigned> revision(count);
    constexpr int rounds = 10;
    for (int round = 1; round <= rounds; ++round) {
        std::vector<std::string> events;
        std::vector<unsigned> which;
        for (unsigned i = 0; i < count; ++i) {
            which.push_back(static_cast<unsigned>(random() % count));
            events.push_back(pod(c, order[which.back()], ++revision[which.back()], true));
        }
        r.event_floor += floor_seconds(events) / rounds;
        hit_rate();
        start = cpu_seconds();
        for (unsigned i = 0; i < count; ++i) pods[which[i]] = pool->decode(events[i], pods[which[i]], f);
        r.events += (cpu_seconds() - start) / rounds;
        r.hits_events += hit_rate() / rounds;
        while (!pool->collect()) {
        }
    }
    r.bytes_later = static_cast<double>(pool->statistics().bytes) / count;
    r.template_bytes = static_cast<double>(pool->statistics().template_bytes);
    r.templates = static_cast<double>(pool->statistics().templates);
    for (const object& o : pods) check = check * 31 + std::hash<std::string>()(o.to_json());
    return r;
}

} // namespace

int main(int argc, char** argv) {
    const auto number = [&](int i, unsigned otherwise) {
        return argc > i ? static_cast<unsigned>(std::strtoul(argv[i], nullptr, 10)) : otherwise;
    };
    const cluster c{number(1, 20'000), number(2, 20), number(4, 1), argc > 3 && std::strcmp(argv[3], "shuffled") == 0};
    std::printf(
        "%u pods, %u replicas per Deployment%s, structures: %u; times in us per document, (ratio to the floor)\n",
        c.pods, c.replicas, c.shuffled ? ", shuffled" : "", c.structures);
    std::printf("%-10s %6s  %-14s %-14s %-14s %9s %9s %9s  %s\n", "", "floor", "load", "relist", "events", "B stat.",
                "B RSS", "B later", "hits: load, relist, events; templates");
    std::uint64_t checks[2] = {};
    constexpr int missed = 3;
    int result = 0;
    for (const bool difference : {false, true}) {
        int ends[2];
        if (::pipe(ends) != 0) return 1;
        std::fflush(stdout);
        const pid_t child = ::fork();
        if (child == 0) {
            std::uint64_t check = 0;
            const figures r = run(difference, c, check);
            const double us = 1e6 / c.pods;
            std::printf("%-10s %6.2f  %5.2f (%.2f)   %5.2f (%.2f)   %5.2f (%.2f)   %9.0f %9.0f %9.0f  %.3f, %.3f, "
                        "%.3f; %.0f of %.0f B\n",
                        difference ? "difference" : "parser", r.sax * us, r.load * us, r.sax / r.load, r.relist * us,
                        r.sax / r.relist, r.events * us, r.event_floor / r.events, r.bytes, r.resident, r.bytes_later,
                        r.hits_load, r.hits_relist, r.hits_events, r.templates, r.template_bytes);
            bool met = true;
            if (difference && c.pods >= 20'000 && !c.shuffled && c.structures == 1) {
                bench::goals wanted;
                wanted.at_least("load, SAX / it", r.sax / r.load, 1);
                wanted.at_least("relist, SAX / it", r.sax / r.relist, 1.5);
                met = wanted.print();
            }
            std::fflush(stdout);
            if (::write(ends[1], &check, sizeof check) != sizeof check) ::_exit(1);
            ::_exit(met ? 0 : missed);
        }
        int status = 0;
        if (child < 0 || ::waitpid(child, &status, 0) != child || !WIFEXITED(status)) return 1;
        if (WEXITSTATUS(status) == missed)
            result = 1;
        else if (status != 0)
            return 1;
        if (::read(ends[0], &checks[difference ? 1 : 0], sizeof checks[0]) != sizeof checks[0]) return 1;
        ::close(ends[0]);
        ::close(ends[1]);
    }
    if (checks[0] == checks[1]) return result;
    std::printf("the documents differ: a defect\n");
    return 1;
}
