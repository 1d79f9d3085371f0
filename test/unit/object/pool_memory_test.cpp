// What a pool shares, frees and reuses.
#include "support/pod_generator.hpp"
#include "support/pool.hpp"

#include <informer/object/diff.hpp>
#include <informer/object/document_pool.hpp>

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

using namespace informer;
using informer::testing::decode;
using informer::testing::drain;
using informer::testing::pod;

TEST_CASE("an unchanged document is its predecessor and costs nothing", "[pool]") {
    const auto pool = document_pool::make(decode_options().type("v1", "Pod"));
    std::vector<object> pods;
    for (unsigned i = 0; i < 60; ++i) pods.push_back(decode(*pool, pod(i)));
    const pool_statistics before = pool->statistics();
    for (unsigned i = 0; i < 60; ++i) {
        const object again = decode(*pool, pod(i, 0, i % 2 == 1), pods[i]);
        CHECK(again.same_as(pods[i]));
        CHECK(again.root() == pods[i].root());
    }
    drain(*pool);
    const pool_statistics after = pool->statistics();
    CHECK(after.bytes == before.bytes);
    CHECK(after.node_bytes == before.node_bytes);
    CHECK(after.nodes == before.nodes);
    CHECK(after.referenced_nodes == before.referenced_nodes);
    CHECK(after.objects == 60);
    // Without the older version at hand the tree is found all the same; only the root is new.
    const object lost = decode(*pool, pod(7));
    CHECK(lost.same_as(pods[7]));
    CHECK(pool->statistics().nodes == before.nodes);
}

TEST_CASE("order of members and spelling of numbers make no new version", "[pool]") {
    const auto pool = document_pool::make();
    const object a = decode(*pool, R"({"spec":{"replicas":1,"weight":2.50,"name":"long enough"},"list":[1,2]})");
    CHECK(decode(*pool, R"({"list":[1,2.0],"spec":{"name":"long enough","weight":25e-1,"replicas":1}})", a).same_as(a));
    CHECK_FALSE(
        decode(*pool, R"({"list":[2,1],"spec":{"name":"long enough","weight":2.5,"replicas":1}})", a).same_as(a));
}

TEST_CASE("a boolean that changes makes a new version, read at once and in slices", "[pool]") {
    const auto pool = document_pool::make();
    failure f;
    const object on = pool->decode(R"({"a":[1,2,3],"b":{"on":true}})", object(), f);
    constexpr std::string_view turned = R"({"a":[1,2,3],"b":{"on":false}})";
    CHECK(pool->decode(turned, on, f).to_json() == turned);
    const auto steps = pool->begin_decode(turned, on);
    while (!steps->step(1)) {
    }
    CHECK(steps->finish(f).to_json() == turned);
}

TEST_CASE("a changed document shares its unchanged parts", "[pool]") {
    const auto pool = document_pool::make();
    const object one = decode(*pool, pod(1));
    const pool_statistics before = pool->statistics();
    const object two = decode(*pool, pod(1, 1), one);
    CHECK_FALSE(two.same_as(one));
    CHECK_FALSE(two == one);
    CHECK(two["spec"].same_as(one["spec"]));
    CHECK(two["metadata"]["labels"].same_as(one["metadata"]["labels"]));
    CHECK(two.at_pointer("/status/podIPs").same_as(one.at_pointer("/status/podIPs")));
    CHECK_FALSE(two["status"].same_as(one["status"]));
    CHECK(pool->statistics().nodes - before.nodes < 30);
    CHECK(two.to_json() == decode(*document_pool::make(), pod(1, 1)).to_json());
}

TEST_CASE("equal parts of different documents are stored once", "[pool]") {
    const auto pool = document_pool::make();
    const object a = decode(*pool, R"({"x":{"image":"registry/app:1","ports":[80,443]},"n":12345678901})");
    const object b = decode(*pool, R"({"y":[{"image":"registry/app:1","ports":[80,443]}],"n":12345678901})");
    CHECK(a["x"].same_as(b["y"][0]));
    CHECK(a["n"].same_as(b["n"]));
    CHECK(pool->statistics().sharing() > 1.0);
    CHECK_FALSE(a["x"].same_as(b["y"]));
}

TEST_CASE("a previous version of another pool or another generation is only a hint that does not fit", "[pool]") {
    const auto pool = document_pool::make(), other = document_pool::make();
    const object foreign = decode(*other, pod(3));
    const object mine = decode(*pool, pod(3), foreign);
    CHECK_FALSE(mine.same_as(foreign));
    CHECK(mine == foreign);
    pool->begin_generation();
    const object newer = decode(*pool, pod(3), mine);
    CHECK_FALSE(newer.same_as(mine));
    CHECK(newer == mine);
    CHECK(newer.to_json() == mine.to_json());
    CHECK(decode(*pool, pod(3), newer).same_as(newer));
}

TEST_CASE("dead documents are freed, and their memory is used again", "[pool]") {
    const auto pool = document_pool::make();
    const object keep = decode(*pool, pod(0));
    const pool_statistics start = pool->statistics();
    for (int round = 0; round < 5; ++round) {
        std::vector<object> pods;
        for (unsigned i = 1; i < 100; ++i) pods.push_back(decode(*pool, pod(i)));
        CHECK(pool->statistics().objects == 100);
        pods.clear();
        CHECK(pool->statistics().objects == 1);
        drain(*pool);
        CHECK(pool->statistics().nodes == start.nodes);
        CHECK(pool->statistics().node_bytes == start.node_bytes);
        CHECK(pool->statistics().referenced_nodes == start.referenced_nodes);
    }
    CHECK(keep.to_json() == decode(*document_pool::make(), pod(0)).to_json());
}

TEST_CASE("collect works in small steps, long arrays and deep documents included", "[pool]") {
    const auto pool = document_pool::make();
    std::string wide = "{\"a\":[", deep = "{\"a\":";
    for (int i = 0; i < 50'000; ++i) wide += "\"element " + std::to_string(i) + "\",";
    wide.back() = ']';
    deep.append(999, '[').append(999, ']');
    object a = decode(*pool, wide + "}"), b = decode(*pool, deep + "}");
    a = b = object();
    std::size_t steps = 1;
    while (!pool->collect(100)) ++steps;
    CHECK(steps >= 500);
    CHECK(pool->statistics().nodes == 0);
    CHECK(pool->statistics().referenced_nodes == 0);
}

TEST_CASE("memory stays level under random updates", "[pool]") {
    const auto pool = document_pool::make();
    constexpr unsigned count = 1000;
    std::mt19937 random(7);
    std::vector<object> pods(count);
    std::vector<unsigned> revision(count);
    for (unsigned i = 0; i < count; ++i) pods[i] = decode(*pool, pod(i));
    std::uint64_t level = 0;
    for (int round = 0; round < 10; ++round) {
        for (unsigned n = 0; n < count; ++n) {
            const unsigned i = static_cast<unsigned>(random()) % count;
            ++revision[i];
            pods[i] = decode(*pool, pod(i, revision[i]), pods[i]);
        }
        drain(*pool);
        if (round == 2) level = pool->statistics().bytes;
        if (round > 2) CHECK(pool->statistics().bytes <= level + level / 10);
    }
    for (unsigned i = 0; i < count; i += 50) CHECK(pods[i] == decode(*document_pool::make(), pod(i, revision[i])));
    // The counts add up: nothing is left when nothing is held.
    pods.clear();
    drain(*pool);
    CHECK(pool->statistics().nodes == 0);
    CHECK(pool->statistics().node_bytes == 0);
}

namespace {

/// A document with one text of `bytes` bytes; no two documents are alike.
std::string long_text(unsigned index, unsigned revision, std::size_t bytes) {
    const std::string name = "\"document " + std::to_string(index) + " of revision " + std::to_string(revision) + '"';
    return "{\"name\":" + name + ",\"text\":\"" + std::string(bytes, static_cast<char>('a' + (index + revision) % 26)) +
           "\"}";
}

} // namespace

TEST_CASE("long texts take little more than their bytes, also after each has changed its length many times", "[pool]") {
    const auto pool = document_pool::make();
    constexpr unsigned count = 200;
    std::mt19937 random(11);
    std::vector<object> all(count);
    std::vector<std::size_t> bytes(count);
    const auto store = [&](unsigned i, unsigned revision) {
        bytes[i] = 16'000u << random() % 6; // up to 1 MB
        bytes[i] += random() % bytes[i];
        all[i] = decode(*pool, long_text(i, revision, bytes[i]), all[i]);
    };
    const auto share_too_much = [&] {
        drain(*pool);
        std::uint64_t text = 0;
        for (const std::size_t b : bytes) text += b;
        return static_cast<double>(pool->statistics().bytes) / static_cast<double>(text) - 1;
    };
    for (unsigned i = 0; i < count; ++i) store(i, 0);
    CHECK(share_too_much() < 0.04);
    for (unsigned round = 1; round <= 50; ++round) {
        for (unsigned n = 0; n < count; ++n) store(static_cast<unsigned>(random()) % count, round);
        REQUIRE(share_too_much() < 0.06);
    }
    CHECK_FALSE(pool->wants_compaction());
    for (unsigned i = 0; i < count; ++i) {
        const std::string text = all[i]["text"].as_string().str();
        REQUIRE(text.size() == bytes[i]);
        REQUIRE(text.find_first_not_of(text[0]) == std::string::npos);
    }
    // The memory of dead texts goes back to the system while others live, whatever lies between them.
    for (unsigned i = 0; i < count; i += 2) {
        all[i] = object();
        bytes[i] = 0;
    }
    CHECK(share_too_much() < 0.08);
}

TEST_CASE("long texts that die are freed by the documents that come, as short ones are", "[pool]") {
    const auto pool = document_pool::make();
    for (const std::size_t bytes : {20'000u, 400'000u, 1'000'000u}) {
        const auto text = [&](unsigned round) {
            std::string all = "{\"of round\":" + std::to_string(round);
            for (unsigned i = 0; i < 8'000'000 / bytes; ++i) {
                all += ",\"text " + std::to_string(i) + "\":\"" + std::to_string(i) + ' ';
                all += std::string(bytes, static_cast<char>('a' + round % 26)) + '"';
            }
            return all + '}';
        };
        object o;
        for (unsigned round = 0; round < 20; ++round) o = decode(*pool, text(round), o);
        CHECK(pool->statistics().bytes < 30'000'000); // a new one, an old one, and what died since
    }
}

namespace {

/// Decodes a document with a text of `bytes` bytes that no other document has.
object decode_unlike(document_pool& pool, unsigned index, std::size_t bytes) {
    return decode(pool, "{\"text\":\"" + std::string(bytes, 'x') + ' ' + std::to_string(index) + "\"}");
}

} // namespace

TEST_CASE("a share of collect gives back a few megabytes at most", "[pool]") {
    const auto pool = document_pool::make();
    const object keep = decode(*pool, long_text(9999, 0, 100'000));
    for (const std::size_t bytes : {17'000u, 100'000u, 500'000u, 800'000u}) {
        std::vector<object> all;
        for (unsigned i = 0; i < 40'000'000 / bytes; ++i) all.push_back(decode_unlike(*pool, i, bytes));
        all.clear();
        std::uint64_t before = pool->statistics().bytes, most = 0;
        for (bool done = false; !done;) {
            done = pool->collect(4'000);
            const std::uint64_t now = pool->statistics().bytes;
            most = std::max(most, before - std::min(before, now));
            before = now;
        }
        CHECK(most < 6'000'000);
        CHECK(before < 2'000'000);
    }
}

TEST_CASE("pages that were given back do not return in a huge one", "[pool]") {
    if (!std::filesystem::exists("/sys/kernel/mm/transparent_hugepage/enabled")) SKIP("the system has no huge pages");
    const auto pool = document_pool::make();
    std::vector<object> all;
    for (unsigned i = 0; i < 200; ++i) all.push_back(decode_unlike(*pool, i, 20'000));
    const text last = all.back()["text"].as_string();
    const auto of_text = reinterpret_cast<std::uintptr_t>(last.view().data());
    std::ifstream maps("/proc/self/smaps");
    std::string flags;
    bool here = false;
    for (std::string line; flags.empty() && std::getline(maps, line);) {
        unsigned long first = 0, end = 0;
        if (std::sscanf(line.c_str(), "%lx-%lx ", &first, &end) == 2) here = first <= of_text && of_text < end;
        if (here && line.starts_with("VmFlags:")) flags = line + ' ';
    }
    if (flags.empty()) SKIP("smaps tells no flags");
    CAPTURE(flags);
    CHECK(flags.find(" nh ") != std::string::npos);
}

TEST_CASE("if nothing lives any more, the memory goes back in shares, whatever comes meanwhile", "[pool]") {
    const auto pool = document_pool::make(decode_options().text_difference(false));
    std::vector<object> all;
    for (unsigned i = 0; i < 60'000; ++i) all.push_back(decode_unlike(*pool, i, 900));
    const std::uint64_t full = pool->statistics().bytes;
    REQUIRE(full > 50'000'000);
    all.clear();
    std::uint64_t before = full, most = 0;
    bool done = false;
    const auto share = [&] {
        done = pool->collect(4'000);
        const pool_statistics now = pool->statistics();
        const std::uint64_t accounted = now.node_bytes + now.free_bytes + now.table_bytes;
        REQUIRE(accounted <= now.bytes);
        REQUIRE(now.bytes - accounted < 4'096);
        most = std::max(most, before - std::min(before, now.bytes));
        before = now.bytes;
    };
    while (pool->statistics().nodes > 0) share();
    CHECK(before > full / 2);
    std::vector<object> others;
    unsigned i = 0;
    while (!done) {
        others.push_back(decode_unlike(*pool, i, i % 3 == 0 ? 900 : 20'000));
        others.push_back(decode_unlike(*pool, i, 50));
        share();
        if (i++ % 4 == 3) others.erase(others.begin(), others.begin() + 2);
    }
    CHECK(most < 16'000'000); // ten segments, and the table
    CHECK(before < 2'000'000);
    for (const object& o : others) {
        const std::string text = o["text"].as_string().str();
        REQUIRE(text.find_first_not_of('x') == text.find(' '));
    }
    others.clear();
    drain(*pool);
    CHECK(pool->statistics().node_bytes == 0);
}

TEST_CASE("handles outlive the pool, and the last one frees it", "[pool]") {
    object a, b;
    {
        const auto pool = document_pool::make();
        a = decode(*pool, pod(1));
        b = decode(*pool, pod(2));
        decode(*pool, pod(3)); // dropped while the pool lives
        pool->begin_generation();
        object c = decode(*pool, pod(4));
    }
    CHECK(a.meta().name().str().starts_with("service-0-"));
    a = object();
    CHECK(b["kind"].kind() == value_kind::missing);
    CHECK(b.to_json() == parse_object(pod(2)).to_json());
    // The address sanitizer sees a leak if b does not free everything, and a use after free if a did.
}

TEST_CASE("handles are dropped on other threads while the pool goes away", "[pool]") {
    for (int round = 0; round < 20; ++round) {
        auto pool = document_pool::make();
        std::vector<object> pods;
        for (unsigned i = 0; i < 64; ++i)
            pods.push_back(decode(*pool, "{\"some key\":\"some text " + std::to_string(i) + "\"}"));
        std::vector<std::thread> threads;
        for (unsigned t = 0; t < 3; ++t)
            threads.emplace_back(
                [mine = std::vector<object>(pods.begin() + t * 20, pods.begin() + t * 20 + 22)]() mutable {
                    while (!mine.empty()) mine.pop_back();
                });
        pods.clear();
        pool->collect(10);
        pool.reset();
        for (auto& t : threads) t.join();
    }
}

TEST_CASE("readers walk, copy and drop handles while the writer decodes", "[pool][threads]") {
    const auto pool = document_pool::make();
    constexpr unsigned count = 40;
    // What an indexer does: publish a new version, let readers take copies.
    struct slot {
        std::mutex m;
        object o;
    };
    std::vector<slot> slots(count);
    for (unsigned i = 0; i < count; ++i) slots[i].o = decode(*pool, pod(i));
    std::atomic<bool> stop{false};
    std::atomic<std::uint64_t> read{0}, wrong{0};
    std::vector<std::thread> readers;
    for (unsigned t = 0; t < 3; ++t)
        readers.emplace_back([&, t] {
            std::mt19937 random(t);
            std::vector<object> held(8);
            while (!stop) {
                const unsigned i = static_cast<unsigned>(random()) % count;
                object o;
                {
                    const std::lock_guard lock(slots[i].m);
                    o = slots[i].o;
                }
                const std::string json = o.to_json();
                if (!json.starts_with("{\"metadata\":{\"name\":\"service-") ||
                    !json.ends_with("\"qosClass\":\"Burstable\"}}"))
                    ++wrong;
                const object other = held[random() % held.size()];
                if (other && other.meta().uid() == o.meta().uid() && diff(other, o).size() > 30) ++wrong;
                held[random() % held.size()] = o;
                ++read;
            }
        });
    std::mt19937 random(99);
    unsigned revision = 0;
    while (read < 300 || revision < 1500) {
        const unsigned i = static_cast<unsigned>(random()) % count;
        if (++revision % 500 == 0) pool->begin_generation();
        object next = decode(*pool, pod(i, revision), slots[i].o);
        const std::lock_guard lock(slots[i].m);
        std::swap(slots[i].o, next);
    }
    stop = true;
    for (auto& r : readers) r.join();
    CHECK(wrong == 0);
    slots = std::vector<slot>(1);
    drain(*pool);
    CHECK(pool->statistics().objects == 0);
    CHECK(pool->statistics().nodes == 0);
    CHECK(pool->statistics().generations == 1);
}

TEST_CASE("a pool in which nothing lives gives its memory back", "[pool]") {
    const auto pool = document_pool::make();
    const std::uint64_t empty = pool->statistics().bytes;
    for (int round = 0; round < 3; ++round) {
        std::vector<object> pods;
        for (unsigned i = 0; i < 500; ++i) pods.push_back(decode(*pool, pod(i * 20)));
        CHECK(pool->statistics().bytes > 500'000);
        pods.clear();
        drain(*pool);
        CHECK(pool->statistics().node_bytes == 0);
        CHECK(pool->statistics().bytes - pool->statistics().table_bytes <= empty);
    }
}

TEST_CASE("the stacks and buffers that a text was read with are not kept if they are large", "[pool]") {
    const auto pool = document_pool::make();
    decode(*pool, R"({"kind":"Pod"})");
    const std::uint64_t before = pool->statistics().bytes;
    const auto held = [&] {
        drain(*pool);
        return pool->statistics().bytes;
    };
    failure f;
    std::string numbers = "{\"a\":[1";
    for (int i = 0; i < 1'000'000; ++i) numbers += ",1";
    CHECK_FALSE(pool->decode(numbers, object(), f)); // it has no end
    CHECK(held() < before + 100'000);
    decode(*pool, "{\"kind\":\"" + std::string(3'000'000, 'k') + "\"}");
    CHECK(held() > before + 2'900'000);
    decode(*pool, R"({"kind":"Pod"})");
    CHECK(held() < before + 100'000);
}

TEST_CASE("statistics add up", "[pool]") {
    const auto pool = document_pool::make();
    std::vector<object> pods;
    for (unsigned i = 0; i < 500; ++i) pods.push_back(decode(*pool, pod(i)));
    const pool_statistics s = pool->statistics();
    CHECK(s.objects == 500);
    CHECK(s.node_bytes == s.string_bytes + s.array_bytes + s.object_bytes + s.shape_bytes + s.number_bytes);
    CHECK(s.bytes >= s.node_bytes + s.table_bytes + s.free_bytes);
    CHECK(s.bytes - (s.node_bytes + s.table_bytes + s.free_bytes) < 64);
    CHECK(s.sharing() > 1.5);
    CHECK(s.generations == 1);
}

TEST_CASE("statistics count the stacks of a large document on its way, and of one that was given up", "[pool]") {
    const auto pool = document_pool::make();
    std::string json = "{\"a\":[0";
    for (int i = 0; i < 1'000'000; ++i) json += ",1";
    json += "]}";
    const auto counts_stacks = [&](const std::function<std::unique_ptr<decoding>()>& begin) {
        drain(*pool);
        const std::uint64_t before = pool->statistics().table_bytes;
        auto d = begin();
        std::uint64_t most = 0;
        while (!d->step(10'000)) most = std::max(most, pool->statistics().table_bytes);
        CHECK(most >= before + 4'000'000);
        failure f;
        object o = d->finish(f);
        REQUIRE(o);
        d.reset();
        CHECK(pool->statistics().table_bytes < before + 100'000);
        o = object();
        drain(*pool);
        d = begin();
        while (pool->statistics().table_bytes < before + 3'000'000) REQUIRE_FALSE(d->step(10'000));
        d.reset();
        CHECK(pool->statistics().table_bytes >= before + 3'000'000);
        drain(*pool);
        CHECK(pool->statistics().table_bytes < before + 100'000);
    };
    counts_stacks([&] { return pool->begin_decode(json, object()); });
    const object o = decode(*pool, json);
    pool->begin_generation();
    counts_stacks([&] { return pool->begin_move(o); });
}

TEST_CASE("one document alone is cheap", "[pool]") {
    const auto pool = detail::make_pool(decode_options(), detail::pool_limits());
    const std::string small = R"({"metadata":{"name":"x"}})";
    const object o = decode(*pool, small);
    CHECK(pool->statistics().bytes < 24 * 1024);
}
