// Writes the corpus that the canned server serves: a folder with
//
//   items.jsonl   one list item a line, in the order of etcd (by namespace and name), without kind and apiVersion
//   events.jsonl  a later version of each object, one a line, with kind and apiVersion, in another order. ConfigMaps
//                 have a second later version each, in the same order: their updates change the length of the text,
//                 which a replay cannot do in place
//   meta.json     {"group","version","resource","kind","count","events","resourceVersion","item_bytes",
//                 "event_bytes",…}
//
// All resource versions have ten digits, and each object has the annotation bench/sent of twenty digits, so that a
// replay can overwrite them in place.
//
// With --edge it writes a list of bench_edges instead, in the order of that list, without events and that annotation.
//
//   bench_corpus --out DIR --edge CASE
//   bench_corpus --out DIR [--kind pods] [--count 20000] [--replicas 20] [--structures 1] [--shuffle]
//                [--managed-fields PERCENT] [--no-events]
#include "bench/support/edge_lists.hpp"
#include "bench/support/object_generator.hpp"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <numeric>
#include <string>
#include <vector>

namespace {

using namespace informer::testing;

constexpr std::uint64_t first_version = 1'000'000'000, list_version = 1'100'000'000, event_version = 1'200'000'000;

constexpr object_kind thing{"edge", "bench.example.com", "v1", "things", "Thing"};

struct options {
    std::string out;
    const informer::bench::edge* edge = nullptr;
    const object_kind* kind = find_object_kind("pods");
    unsigned count = 20'000, replicas = 20, structures = 1;
    int managed_fields = -1; ///< percent of the text; -1: as generated
    bool shuffle = false, events = true;
};

int usage(const std::string& problem) {
    std::cerr << problem
              << "\nusage: bench_corpus --out DIR --edge CASE\n       bench_corpus --out DIR [--kind "
                 "pods|configmaps|secrets|events|crs|leases] [--count N] "
                 "[--replicas N] [--structures N] [--shuffle] [--managed-fields PERCENT] [--no-events]\n";
    return 2;
}

/// Reads a number into `into`; true when `text` is a number from `least` to `most`.
template <class Number>
bool read(std::string_view text, Number& into, Number least, Number most) {
    const char* end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, into);
    return error == std::errc() && stop == end && into >= least && into <= most;
}

/// Repeats the first entry of managedFields under other managers until managedFields are `percent` of the text.
void grow_managed_fields(std::string& text, double percent) {
    static constexpr std::string_view key = "\"managedFields\":[";
    const std::size_t at = text.find(key);
    if (at == std::string::npos) return;
    const std::size_t begin = at + key.size();
    std::size_t end = begin, depth = 0;
    bool in_string = false;
    for (; end < text.size(); ++end) {
        const char c = text[end];
        if (in_string && c == '\\')
            ++end;
        else if (c == '"')
            in_string = !in_string;
        else if (in_string)
            continue;
        else if (c == '{')
            ++depth;
        else if (c == '}' && --depth == 0)
            break;
    }
    const std::string entry = text.substr(begin, end + 1 - begin);
    std::size_t close = text.find("\"}]", end); // pods end with "subresource":"status"}]; other kinds have one entry
    close = close == std::string::npos ? end + 1 : close + 2;
    double managed = static_cast<double>(close - begin);
    std::string more;
    for (unsigned n = 0;
         managed + static_cast<double>(more.size()) < percent / 100 * static_cast<double>(text.size() + more.size());
         ++n) {
        std::string one = entry;
        one.replace(one.find("\"manager\":\"") + 11, 0, "controller-" + std::to_string(n) + "-");
        more += one + ",";
    }
    text.insert(begin, more);
}

std::string make(const options& o, unsigned index, unsigned revision, std::uint64_t version, bool type) {
    if (o.edge) return informer::bench::served(*o.edge, index);
    object_options which(o.kind->name, index);
    which.replicas = o.replicas;
    which.structures = o.structures;
    which.resource_version = version;
    which.revision = revision;
    which.type = type;
    which.managed_fields = o.managed_fields != 0;
    std::string text = make_object_json(which);
    if (o.managed_fields > 0) grow_managed_fields(text, o.managed_fields);
    static constexpr std::string_view annotations = "\"annotations\":{";
    text.insert(text.find(annotations) + annotations.size(), "\"bench/sent\":\"00000000000000000000\",");
    return text;
}

std::string_view between(std::string_view text, std::string_view before) {
    const std::size_t at = text.find(before) + before.size();
    return text.substr(at, text.find('"', at) - at);
}

} // namespace

int main(int argc, char** argv) {
    static constexpr unsigned most = 100'000'000;
    options o;
    bool in_range = true;
    for (int i = 1; i < argc; ++i) {
        const std::string_view a = argv[i];
        if (a == "--shuffle")
            o.shuffle = true;
        else if (a == "--no-events")
            o.events = false;
        else if (i + 1 == argc)
            return usage("no value for " + std::string(a));
        else if (a == "--out")
            o.out = argv[++i];
        else if (a == "--edge") {
            const auto& all = informer::bench::edges();
            const std::string_view name = argv[++i];
            const auto found = std::find_if(all.begin(), all.end(), [&](const auto& e) { return e.name == name; });
            if (found == all.end()) return usage("there is no case " + std::string(name));
            o.edge = &*found;
            o.kind = &thing;
            o.count = static_cast<unsigned>(found->items);
            o.events = false;
        } else if (a == "--kind")
            o.kind = find_object_kind(argv[++i]);
        else if (a == "--count" || a == "--pods")
            in_range = read(argv[++i], o.count, 1u, most);
        else if (a == "--replicas")
            in_range = read(argv[++i], o.replicas, 1u, most);
        else if (a == "--structures")
            in_range = read(argv[++i], o.structures, 1u, most);
        else if (a == "--managed-fields")
            in_range = read(argv[++i], o.managed_fields, 0, 90);
        else
            return usage("unknown option " + std::string(a));
        if (!in_range) return usage(std::string(a) + " cannot be '" + argv[i] + "'");
    }
    if (o.out.empty() || !o.kind) return usage("--out and a known --kind are needed");
    std::filesystem::create_directories(o.out);

    std::vector<unsigned> order(o.count);
    std::iota(order.begin(), order.end(), 0u);
    const auto shuffle = [&](std::uint64_t seed) {
        for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[pod_detail::mix(seed + i) % i]);
    };
    if (o.shuffle) {
        shuffle(1);
    } else if (!o.edge) { // in the order of etcd
        std::vector<std::string> keys(o.count);
        for (unsigned i = 0; i < o.count; ++i) {
            const std::string text = make(o, i, 0, first_version + i, false);
            keys[i] = std::string(between(text, "\"namespace\":\"")) + "/" + std::string(between(text, "\"name\":\""));
        }
        std::sort(order.begin(), order.end(), [&](unsigned a, unsigned b) { return keys[a] < keys[b]; });
    }
    std::uint64_t item_bytes = 0, event_bytes = 0;
    const auto write = [&](const char* name, unsigned lines, const auto& text_of, std::uint64_t& bytes) {
        std::ofstream file(o.out + "/" + name, std::ios::binary | std::ios::trunc);
        for (unsigned n = 0; n < lines; ++n) {
            const std::string text = text_of(order[n % o.count], n);
            bytes += text.size();
            file << text << '\n';
        }
        file.flush();
        return file.good();
    };
    bool good = write(
        "items.jsonl", o.count, [&](unsigned i, unsigned) { return make(o, i, 0, first_version + i, false); },
        item_bytes);
    const unsigned events = !o.events ? 0 : o.kind->name == "configmaps" ? 2 * o.count : o.count;
    if (o.events) {
        shuffle(2);
        const auto update = [&](unsigned i, unsigned n) {
            return make(o, i, 1 + n / o.count, event_version + n, true);
        };
        good = good && write("events.jsonl", events, update, event_bytes);
    }
    std::ofstream meta(o.out + "/meta.json", std::ios::trunc);
    meta << "{\"group\":\"" << o.kind->group << "\",\"version\":\"" << o.kind->version << "\",\"resource\":\""
         << o.kind->resource << "\",\"kind\":\"" << o.kind->kind << "\",\"namespaced\":true,\"count\":" << o.count
         << ",\"events\":" << events << ",\"resourceVersion\":\"" << list_version << "\",\"item_bytes\":" << item_bytes
         << ",\"event_bytes\":" << event_bytes << ",\"replicas\":" << o.replicas << ",\"structures\":" << o.structures
         << ",\"shuffled\":" << (o.shuffle ? "true" : "false") << ",\"managed_fields\":" << o.managed_fields << "}\n";
    meta.flush();
    if (!good || !meta.good()) {
        std::cerr << "cannot write " << o.out << "\n";
        return 1;
    }
    return 0;
}
