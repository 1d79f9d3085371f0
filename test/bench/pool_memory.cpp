// The cost of a pod in a document pool: bytes by the pool's own statistics and by the process's resident set, and
// thread CPU time compared with Boost.JSON's SAX parser with an empty handler on the same text. Measured are the first
// load, a relist and its peak, MODIFIED events, growth, and what remains after half of the pods are deleted and the
// pool is compacted. With at least 20,000 pods (the goals were set for 20,000), each variant ends with its goals, met
// or missed. A missed goal or a defect gives exit status 1.
//
//   bench_pool_memory [pods = 20000] [replicas = 20,3,1,shuffled] [rounds of events = 10]
#include "support/empty_sax.hpp"
#include "support/goals.hpp"
#include "support/pod_generator.hpp"
#include "support/process_memory.hpp"

#include <informer/object/document_pool.hpp>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <limits>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include <malloc.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

double cpu_seconds() {
    timespec t{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

double resident_bytes() {
    ::malloc_trim(0);
    return informer::bench::resident_bytes();
}

/// The floor: the seconds that it takes to parse the texts and do nothing with them.
double sax_seconds(const std::vector<std::string>& texts) {
    const double start = cpu_seconds();
    for (const std::string& t : texts)
        if (!informer::bench::walk_by_sax(t)) std::abort();
    return cpu_seconds() - start;
}

using namespace informer;
using informer::testing::pod_options;

class run {
public:
    run(unsigned count, unsigned replicas, bool shuffled)
        : replicas_(replicas), shuffled_(shuffled), order_(count), n_(count) {
        std::iota(order_.begin(), order_.end(), 0u);
        if (shuffled) std::shuffle(order_.begin(), order_.end(), std::mt19937(1));
        double bytes = 0, managed = 0;
        for (const unsigned i : order_) {
            texts_.push_back(text(i, 0, false));
            bytes += static_cast<double>(texts_.back().size());
            pod_options bare(i);
            bare.replicas = replicas;
            bare.managed_fields = false;
            managed += static_cast<double>(texts_.back().size() - make_pod_json(bare).size());
        }
        std::printf("%u pods of %.0f bytes, %.0f of them managedFields, %u replicas per Deployment%s\n", count,
                    bytes / n_, managed / n_, replicas, shuffled ? ", in random order" : "");
        for (int i = 0; i < 3; ++i) floor_ = std::min(floor_, sax_seconds(texts_));
        std::printf("%-28s %7.2f us/pod  %.2f GB/s\n", "SAX, empty handler", floor_ / n_ * 1e6, bytes / floor_ * 1e-9);
    }

    /// Runs all measurements; true when the goals are met and there is no defect.
    bool all(int rounds) {
        for (int i = 0; i < 2; ++i) load_once(*make_pool()); // with `load` as often as the floor; the least time counts
        pods_.assign(order_.size(), object());
        resident_ = resident_bytes();
        load();
        relist();
        events(rounds);
        readers();
        delete_and_compact();
        const bool met = n_ < 20'000 || goals_.print();
        std::printf("\n");
        return met && !defect_;
    }

private:
    std::string text(unsigned index, unsigned revision, bool type) const {
        pod_options o(index);
        o.replicas = replicas_;
        o.revision = revision;
        o.type = type;
        return make_pod_json(o);
    }
    double per_pod(std::uint64_t v) const { return static_cast<double>(v) / n_; }
    double bytes() const { return static_cast<double>(pool_->statistics().bytes); }
    void drain() {
        while (!pool_->collect()) {
        }
    }
    void defect(const char* what) {
        std::printf("  %s: a defect\n", what);
        defect_ = true;
    }
    double resident_kb() const { return (resident_bytes() - resident_) / n_ / 1000; }
    void report(const char* what, double seconds) {
        std::printf("%-28s %7.2f us/pod  ratio to SAX %.2f  %6.0f B/pod by statistics  %6.0f B/pod resident\n", what,
                    seconds / n_ * 1e6, floor_ / seconds, bytes() / n_, resident_kb() * 1000);
    }

    static std::shared_ptr<document_pool> make_pool() {
        return document_pool::make(decode_options().type("v1", "Pod"));
    }
    void load_once(document_pool& pool) {
        pods_.assign(order_.size(), object());
        const double start = cpu_seconds();
        for (std::size_t i = 0; i < pods_.size(); ++i) pods_[i] = pool.decode(texts_[i], object(), f_);
        load_ = std::min(load_, cpu_seconds() - start);
    }
    void load() {
        load_once(*pool_);
        report("load", load_);
        goals_.at_least("load, SAX / it", floor_ / load_, 0.5);
        if (const double most = shuffled_ ? 1.8 : replicas_ == 20 ? 1.25 : replicas_ == 3 ? 1.6 : 0; most > 0)
            goals_.at_most("KB/pod", resident_kb(), most);
        const pool_statistics s = pool_->statistics();
        std::printf("  nodes %.1f per pod, sharing %.1f; bytes per pod: objects %.0f, arrays %.0f, strings %.0f, "
                    "shapes %.0f, numbers %.0f, "
                    "free %.0f, tables %.0f\n",
                    per_pod(s.nodes), s.sharing(), per_pod(s.object_bytes), per_pod(s.array_bytes),
                    per_pod(s.string_bytes), per_pod(s.shape_bytes), per_pod(s.number_bytes), per_pod(s.free_bytes),
                    per_pod(s.table_bytes));
    }

    void relist() {
        double best = std::numeric_limits<double>::infinity();
        unsigned changed = 0;
        for (int round = 0; round < 3; ++round) {
            const double start = cpu_seconds();
            for (std::size_t i = 0; i < pods_.size(); ++i) {
                object o = pool_->decode(texts_[i], pods_[i], f_);
                changed += o.same_as(pods_[i]) ? 0 : 1;
                pods_[i] = std::move(o);
            }
            best = std::min(best, cpu_seconds() - start);
        }
        report("relist, nothing changed", best);
        goals_.at_least("relist, SAX / it", floor_ / best, 0.6);
        if (changed) defect((std::to_string(changed) + " pods changed").c_str());
        // A tenth of the pods changed, and the old list is held until the new one is complete.
        const double steady = bytes();
        double peak = steady;
        std::vector<object> next;
        for (std::size_t i = 0; i < pods_.size(); ++i) {
            next.push_back(pool_->decode(i % 10 ? texts_[i] : text(order_[i], 1, false), pods_[i], f_));
            if (i % 256 == 0) peak = std::max(peak, bytes());
        }
        peak = std::max(peak, bytes());
        next.clear();
        drain();
        std::printf("relist, a tenth changed: peak %.3f of steady\n", peak / steady);
        goals_.at_most("relist's peak / steady", peak / steady, 1.1);
    }

    void events(int rounds) {
        const double before = bytes(), resident_before = resident_bytes();
        double of_floor = 0;
        for (int round = 1; round <= rounds; ++round) {
            std::vector<unsigned> which(pods_.size());
            std::iota(which.begin(), which.end(), 0u);
            std::shuffle(which.begin(), which.end(), std::mt19937(static_cast<unsigned>(round)));
            double seconds = 0, floor = 0;
            for (std::size_t first = 0; first < which.size(); first += 2000) {
                std::vector<std::string> batch;
                const std::size_t last = std::min(first + 2000, which.size());
                for (std::size_t i = first; i < last; ++i)
                    batch.push_back(text(order_[which[i]], static_cast<unsigned>(round), true));
                floor += sax_seconds(batch);
                const double start = cpu_seconds();
                for (std::size_t i = first; i < last; ++i)
                    pods_[which[i]] = pool_->decode(batch[i - first], pods_[which[i]], f_);
                seconds += cpu_seconds() - start;
            }
            const double start = cpu_seconds();
            drain();
            seconds += cpu_seconds() - start;
            of_floor = std::max(of_floor, seconds / floor);
            if (round == 1 || round == rounds)
                std::printf("events, round %-3d            %7.2f us/event  %.2f of SAX  %6.0f B/pod by statistics, "
                            "%.0f of them free\n",
                            round, seconds / n_ * 1e6, seconds / floor, bytes() / n_,
                            per_pod(pool_->statistics().free_bytes));
        }
        const double growth = (resident_bytes() - resident_) / (resident_before - resident_);
        std::printf("growth after %d rounds: %.3f by statistics, %.3f resident\n", rounds, bytes() / before, growth);
        goals_.at_most("event, it / SAX", of_floor, 2.2);
        goals_.at_most("growth", growth, 1.06);
    }

    void readers() {
        double start = cpu_seconds(), written = 0;
        std::string json;
        for (const object& o : pods_) {
            json.clear();
            o.value().to_json(json);
            written += static_cast<double>(json.size());
        }
        std::printf("%-28s %7.2f GB/s\n", "serialise", written / (cpu_seconds() - start) * 1e-9);
        std::vector<object> alone(std::min<std::size_t>(pods_.size(), 2000));
        const double before = resident_bytes(), m = static_cast<double>(alone.size());
        start = cpu_seconds();
        for (std::size_t i = 0; i < alone.size(); ++i) alone[i] = parse_object(texts_[i]);
        const double seconds = cpu_seconds() - start;
        std::printf("%-28s %7.2f us/pod  %34s  %6.0f B/pod resident\n", "a pool for each", seconds / m * 1e6, "",
                    (resident_bytes() - before) / m);
    }

    void delete_and_compact() {
        const double full = bytes(), full_resident = resident_bytes() - resident_;
        for (std::size_t i = 0; i < pods_.size(); i += 2) pods_[i] = object();
        drain();
        const bool wanted = pool_->wants_compaction();
        double peak = bytes();
        double start = cpu_seconds();
        pool_->begin_generation();
        for (std::size_t i = 1; i < pods_.size(); i += 2) {
            pods_[i] = pool_->move(pods_[i], f_);
            if (i % 256 == 1) peak = std::max(peak, bytes());
        }
        drain();
        std::printf(
            "half deleted and compacted   %7.2f us/pod  %.2f of the bytes, %.2f of the resident set; peak %.2f\n",
            (cpu_seconds() - start) / n_ * 2e6, bytes() / full, (resident_bytes() - resident_) / full_resident,
            peak / full);
        if (!wanted && full > 2e6) defect("the compaction was not asked for"); // a smaller pool needs none
        start = cpu_seconds();
        pods_.clear();
        drain();
        std::printf("%-28s %7.2f us/pod\n", "free", (cpu_seconds() - start) / n_ * 2e6);
        if (pool_->statistics().nodes != 0) defect("nodes outlive their documents");
    }

    const unsigned replicas_;
    const bool shuffled_;
    std::vector<unsigned> order_; ///< the indexes of the pods in list order
    const double n_;
    std::vector<std::string> texts_;
    double floor_ = std::numeric_limits<double>::infinity(), load_ = floor_;
    double resident_ = 0;
    std::vector<object> pods_;
    std::shared_ptr<document_pool> pool_ = make_pool();
    failure f_;
    bench::goals goals_;
    bool defect_ = false;
};

} // namespace

int main(int argc, char** argv) {
    const auto count = static_cast<unsigned>(argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 20'000);
    std::string which = argc > 2 ? argv[2] : "20,3,1,shuffled";
    const int rounds = argc > 3 ? std::atoi(argv[3]) : 10;
    int result = 0;
    for (which += ','; !which.empty(); which.erase(0, which.find(',') + 1)) {
        const std::string variant = which.substr(0, which.find(','));
        const bool shuffled = variant == "shuffled";
        const auto replicas = static_cast<unsigned>(shuffled ? 20 : std::max(1, std::atoi(variant.c_str())));
        // Each variant runs in a process of its own: after another variant, the resident set would mean nothing.
        std::fflush(stdout);
        const pid_t child = ::fork();
        if (child < 0) return 1;
        if (child == 0) {
            const bool ok = run(count, replicas, shuffled).all(rounds);
            std::fflush(stdout);
            ::_exit(ok ? 0 : 1);
        }
        int status = 0;
        ::waitpid(child, &status, 0);
        if (status != 0) result = 1;
    }
    return result;
}
