// What a pod costs in a document pool: bytes by the pool's own statistics and by the process's resident set, time against
// Boost.JSON's SAX parser with a handler that does nothing, a relist, updates.
//
//   bench_pool_memory [pods = 20000] [replicas = 20]
#include "support/pod_generator.hpp"

#include <informer/object/document_pool.hpp>

#include <boost/json/basic_parser_impl.hpp>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include <malloc.h>
#include <unistd.h>

namespace {

struct null_handler {
    static constexpr std::size_t max_array_size = std::numeric_limits<std::size_t>::max();
    static constexpr std::size_t max_object_size = max_array_size;
    static constexpr std::size_t max_string_size = max_array_size;
    static constexpr std::size_t max_key_size = max_array_size;
    using view = boost::json::string_view;
    using code = boost::json::error_code;
    bool on_document_begin(code&) { return true; }
    bool on_document_end(code&) { return true; }
    bool on_object_begin(code&) { return true; }
    bool on_object_end(std::size_t, code&) { return true; }
    bool on_array_begin(code&) { return true; }
    bool on_array_end(std::size_t, code&) { return true; }
    bool on_key_part(view, std::size_t, code&) { return true; }
    bool on_key(view, std::size_t, code&) { return true; }
    bool on_string_part(view, std::size_t, code&) { return true; }
    bool on_string(view, std::size_t, code&) { return true; }
    bool on_number_part(view, code&) { return true; }
    bool on_int64(std::int64_t, view, code&) { return true; }
    bool on_uint64(std::uint64_t, view, code&) { return true; }
    bool on_double(double, view, code&) { return true; }
    bool on_bool(bool, code&) { return true; }
    bool on_null(code&) { return true; }
    bool on_comment_part(view, code&) { return true; }
    bool on_comment(view, code&) { return true; }
};

double cpu_seconds() {
    timespec t{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

double resident_bytes() {
    std::ifstream statm("/proc/self/statm");
    long size = 0, resident = 0;
    statm >> size >> resident;
    return static_cast<double>(resident) * static_cast<double>(::sysconf(_SC_PAGESIZE));
}

} // namespace

int main(int argc, char** argv) {
    using namespace informer;
    const auto count = static_cast<unsigned>(argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 20'000);
    const auto replicas = static_cast<unsigned>(argc > 2 ? std::strtoul(argv[2], nullptr, 10) : 20);
    std::vector<std::string> texts;
    double text_bytes = 0, managed = 0;
    for (unsigned i = 0; i < count; ++i) {
        informer::testing::pod_options o(i);
        o.replicas = replicas;
        texts.push_back(make_pod_json(o));
        text_bytes += static_cast<double>(texts.back().size());
        o.managed_fields = false;
        managed += static_cast<double>(texts.back().size() - make_pod_json(o).size());
    }
    const double n = count;
    std::printf("%u pods of %.0f bytes, %.0f of them managedFields, %u replicas per Deployment\n", count, text_bytes / n, managed / n,
                replicas);

    double sax = std::numeric_limits<double>::infinity();
    for (int round = 0; round < 3; ++round) {
        const double start = cpu_seconds();
        for (const std::string& t : texts) {
            boost::json::parse_options options;
            options.max_depth = 1000;
            options.numbers = boost::json::number_precision::none;
            boost::json::basic_parser<null_handler> parser(options);
            boost::json::error_code ec;
            parser.write_some(false, t.data(), t.size(), ec);
            if (ec) return 1;
        }
        sax = std::min(sax, cpu_seconds() - start);
    }
    std::printf("%-28s %7.2f us/pod  %.2f GB/s\n", "SAX, empty handler", sax / n * 1e6, text_bytes / sax * 1e-9);

    std::vector<object> pods(count);
    const auto pool = document_pool::make(decode_options().type("v1", "Pod"));
    ::malloc_trim(0);
    const double resident = resident_bytes();
    failure f;
    const auto report = [&](const char* what, double seconds) {
        const pool_statistics s = pool->statistics();
        std::printf("%-28s %7.2f us/pod  ratio to SAX %.2f  %6.0f B/pod by statistics  %6.0f B/pod resident\n", what,
                    seconds / n * 1e6, sax / seconds, static_cast<double>(s.bytes) / n, (resident_bytes() - resident) / n);
    };
    double start = cpu_seconds();
    for (unsigned i = 0; i < count; ++i) pods[i] = pool->decode(texts[i], object(), f);
    report("load", cpu_seconds() - start);
    const pool_statistics s = pool->statistics();
    const auto per_pod = [&](std::uint64_t v) { return static_cast<double>(v) / n; };
    std::printf("  nodes %.1f per pod, sharing %.1f; bytes per pod: objects %.0f, arrays %.0f, strings %.0f, shapes %.0f, numbers %.0f, "
                "free %.0f, tables %.0f\n",
                per_pod(s.nodes), s.sharing(), per_pod(s.object_bytes), per_pod(s.array_bytes), per_pod(s.string_bytes),
                per_pod(s.shape_bytes), per_pod(s.number_bytes), per_pod(s.free_bytes), per_pod(s.table_bytes));

    for (int round = 0; round < 2; ++round) {
        start = cpu_seconds();
        unsigned changed = 0;
        for (unsigned i = 0; i < count; ++i) {
            object o = pool->decode(texts[i], pods[i], f);
            changed += o.same_as(pods[i]) ? 0 : 1;
            pods[i] = std::move(o);
        }
        report("relist", cpu_seconds() - start);
        if (changed) std::printf("  %u pods changed: a defect\n", changed);
    }
    std::vector<unsigned> revision(count);
    for (int round = 1; round <= 5; ++round) {
        std::vector<std::string> events;
        std::vector<unsigned> which;
        for (unsigned i = 0; i < count; ++i) {
            which.push_back(static_cast<unsigned>(informer::testing::pod_detail::mix(i + static_cast<unsigned>(round) * 1'000'003ULL) % count));
            informer::testing::pod_options o(which.back());
            o.replicas = replicas;
            o.type = true;
            o.revision = ++revision[which.back()];
            events.push_back(make_pod_json(o));
        }
        start = cpu_seconds();
        for (unsigned i = 0; i < count; ++i) pods[which[i]] = pool->decode(events[i], pods[which[i]], f);
        const double seconds = cpu_seconds() - start;
        while (!pool->collect()) {}
        const pool_statistics after = pool->statistics();
        std::printf("events, round %d              %7.2f us/event  %6.0f B/pod by statistics, %.0f of them free\n", round,
                    seconds / n * 1e6, static_cast<double>(after.bytes) / n, static_cast<double>(after.free_bytes) / n);
    }
    start = cpu_seconds();
    std::string json;
    double written = 0;
    for (const object& o : pods) {
        json.clear();
        o.value().to_json(json);
        written += static_cast<double>(json.size());
    }
    std::printf("%-28s %7.2f GB/s\n", "serialise", written / (cpu_seconds() - start) * 1e-9);
    {
        std::vector<object> alone(std::min(count, 2000u));
        ::malloc_trim(0);
        const double before = resident_bytes();
        start = cpu_seconds();
        for (std::size_t i = 0; i < alone.size(); ++i) alone[i] = parse_object(texts[i]);
        const double seconds = cpu_seconds() - start, m = static_cast<double>(alone.size());
        std::printf("%-28s %7.2f us/pod  %34s  %6.0f B/pod resident\n", "a pool for each", seconds / m * 1e6, "",
                    (resident_bytes() - before) / m);
    }
    start = cpu_seconds();
    pods.clear();
    while (!pool->collect()) {}
    std::printf("%-28s %7.2f us/pod\n", "free", (cpu_seconds() - start) / n * 1e6);
    return pool->statistics().nodes == 0 ? 0 : 1;
}
