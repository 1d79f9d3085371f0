// Documents read by their differences from others are what the parser makes of them.
#include "text_difference_scene.hpp"

#include "bench/support/object_generator.hpp"
#include "object/detail/text_difference.hpp"
#include "object/detail/text_scan.hpp"

#include <algorithm>
#include <array>
#include <ctime>
#include <limits>
#include <random>
#include <string>
#include <string_view>
#include <vector>

using namespace text_difference_test;
using informer::testing::decode;
using informer::testing::drain;

TEST_CASE("similar documents are read by their differences", "[pool][difference]") {
    const auto pool = make_pool(true, decode_options().type("v1", "Pod")),
               reference = make_pool(false, decode_options().type("v1", "Pod"));
    std::vector<object> pods;
    for (unsigned i = 0; i < 200; ++i) {
        pods.push_back(decode(*pool, pod(i)));
        REQUIRE(pods.back().to_json() == decode(*reference, pod(i)).to_json());
    }
    CHECK(pool->statistics().template_hits >= 198);
    // An unchanged text is its predecessor, whatever text it was compared with.
    std::vector<unsigned> order(pods.size());
    for (unsigned i = 0; i < order.size(); ++i) order[i] = i * 77 % 200;
    for (const unsigned i : order) CHECK(decode(*pool, pod(i), pods[i]).same_as(pods[i]));
    const std::uint64_t nodes = pool->statistics().nodes, before = pool->statistics().template_hits;
    for (const unsigned i : order) {
        const object old = pods[i];
        pods[i] = decode(*pool, pod(i, 1, true), old);
        CHECK_FALSE(pods[i].same_as(old));
        CHECK(pods[i]["spec"].same_as(old["spec"]));
        CHECK(pods[i].to_json() == decode(*reference, pod(i, 1)).to_json());
    }
    CHECK(pool->statistics().template_hits - before >= 198);
    CHECK(pool->statistics().nodes < nodes * 2);
}

TEST_CASE("parts that differ in structure are read by themselves, the rest by its differences", "[pool][difference]") {
    const auto pool = make_pool(true), reference = make_pool(false);
    std::vector<object> pods{decode(*pool, pod(0)), decode(*pool, pod(1))};
    const std::string base = pod(2);
    const std::string texts[] = {
        replaced(base, R"("nodeSelector":{"kubernetes.io/os":"linux"})",
                 R"("nodeSelector":{"kubernetes.io/os":"linux","disk":"fast"})"),
        replaced(base, R"("lastState":{},"ready":true)", R"("lastState":{"terminated":{"exitCode":1}},"ready":false)"),
        replaced(base, R"("drop":["ALL"])", R"("drop":["ALL",{"more":[1]}])"),
        replaced(base, R"("lastProbeTime":null)", R"("lastProbeTime":"2024-05-06T07:08:09Z")"),
        // managedFields need not be alike
        replaced(base, R"("f:generateName":{},)", R"("f:generateName":{},"f:finalizers":{".":{},"v:\"a\"":{}},)"),
        replaced(base, R"(,"subresource":"status"}])",
                 R"(,"subresource":"status"},{"manager":"other","fieldsV1":{"f:x":[1,-2.5e3]}}])"),
        replaced(base, R"("managedFields":[)", R"("managedFields":[{},)"),
    };
    const std::uint64_t before = pool->statistics().template_hits;
    for (const std::string& t : texts) {
        pods.push_back(decode(*pool, t));
        CHECK(pods.back().to_json() == decode(*reference, t).to_json());
        CHECK(decode(*pool, t, pods.back()).same_as(pods.back()));
    }
    CHECK(pool->statistics().template_hits - before == 2 * std::size(texts));
    // Whether skipped text may be broken is for the parser to decide.
    for (const auto& [what, by] : {std::pair(R"("f:generateName":{},)", R"("f:generateName":{,)"),
                                   std::pair(R"("f:hostIP":{})", R"("f:hostIP":{]})"),
                                   std::pair(R"("subresource":"status"}])", R"("subresource":"status"}})"),
                                   std::pair(R"("manager":"kubelet")", "\"manager\":\"kube\nlet\""),
                                   std::pair(R"("manager":"kubelet")", "\"manager\":\"kube\xfflet\""),
                                   std::pair(R"("manager":"kubelet")", R"("manager":kubelet)")}) {
        failure f, g;
        const object a = pool->decode(replaced(base, what, by), object(), f);
        const object b = reference->decode(replaced(base, what, by), object(), g);
        CHECK(f.code() == g.code());
        CHECK(f.message() == g.message());
        CHECK((a ? a.to_json() : "") == (b ? b.to_json() : ""));
    }
}

TEST_CASE("texts of a few documents are not kept", "[pool][difference]") {
    const auto pool = document_pool::make();
    std::vector<object> pods;
    for (unsigned i = 0; i < 60; ++i) pods.push_back(decode(*pool, pod(i)));
    CHECK(pool->statistics().templates == 0);
    CHECK(pool->statistics().template_hits == 0);
    for (unsigned i = 60; i < 260; ++i) pods.push_back(decode(*pool, pod(i)));
    CHECK(pool->statistics().templates == 1);
    CHECK(pool->statistics().template_hits > 120);
    // The templates go with the documents.
    pods.resize(10);
    drain(*pool);
    CHECK(pool->statistics().templates == 0);
    const pool_statistics s = pool->statistics();
    const auto plain = make_pool(false);
    std::vector<object> others;
    for (unsigned i = 0; i < 10; ++i) others.push_back(decode(*plain, pod(i)));
    CHECK(s.nodes == plain->statistics().nodes);
    CHECK(s.referenced_nodes == plain->statistics().referenced_nodes);
}

TEST_CASE("templates are few, small against the documents, and counted", "[pool][difference]") {
    const auto pool = document_pool::make(), plain = make_pool(false);
    std::vector<object> a, b;
    for (unsigned i = 0; i < 4000; ++i) {
        // Nine structures in turn.
        const std::string json =
            replaced(pod(i), R"("nodeSelector":{)", "\"nodeSelector\":{\"kind-" + std::to_string(i % 9) + "\":\"x\",");
        a.push_back(decode(*pool, json));
        b.push_back(decode(*plain, json));
    }
    const pool_statistics with = pool->statistics(), without = plain->statistics();
    CHECK(with.templates > 1);
    CHECK(with.templates <= 8);
    CHECK(with.template_bytes > 10'000);
    CHECK(with.table_bytes >= without.table_bytes / 2 + with.template_bytes);
    CHECK(with.bytes <= without.bytes + without.bytes / 25 + 64 * 1024);
    CHECK(with.nodes <= without.nodes + without.nodes / 50);
    // A large text is not kept.
    const std::string large = "{\"a\":\"" + std::string(300'000, 'x') + "\"}";
    for (int i = 0; i < 5; ++i) a.push_back(decode(*pool, large));
    CHECK(pool->statistics().template_bytes < 300'000);
}

TEST_CASE("deployments need not be alike for their pods to be read by differences", "[pool][difference]") {
    const auto pool = document_pool::make(decode_options().type("v1", "Pod"));
    const auto text = [](unsigned i) { // 20 to a Deployment, and each of those has members of its own
        std::string more;
        for (unsigned k = 0; k <= i / 20 % 50; ++k) more += "\"member-" + std::to_string(k) + "\":{\"enabled\":true},";
        return replaced(pod(i, 0, false, false), R"("restartPolicy":)", more + R"("restartPolicy":)");
    };
    constexpr unsigned n = 2000;
    std::vector<object> pods;
    for (unsigned i = 0; i < n; ++i) pods.push_back(decode(*pool, text(i)));
    CHECK(pool->statistics().template_hits > n * 85 / 100);
    // So is a list that comes again, also after texts in an order that no template could follow.
    const auto again = [&](unsigned step) {
        const std::uint64_t before = pool->statistics().template_hits;
        for (unsigned i = 0; i < n; ++i)
            REQUIRE(decode(*pool, text(i * step % n), pods[i * step % n]).same_as(pods[i * step % n]));
        return pool->statistics().template_hits - before;
    };
    CHECK(again(1) > n * 85 / 100);
    again(777);
    CHECK(again(1) > n * 75 / 100);
    CHECK(pool->statistics().templates <= 8);
}

TEST_CASE("pods of more structures than there are templates, in no order, cost what the parser takes for them",
          "[pool][difference]") {
    constexpr unsigned n = 1000;
    const auto text = [](unsigned i, unsigned revision) {
        informer::testing::pod_options o(i);
        o.replicas = 5;
        o.structures = n;
        o.revision = revision;
        return make_pod_json(o);
    };
    std::vector<std::string> lists[2];
    for (const unsigned revision : {0u, 1u})
        for (unsigned i = 0; i < n; ++i) lists[revision].push_back(text(i * 777 % n, revision));
    const auto pool = make_pool(true), reference = make_pool(false);
    std::vector<object> pods[2] = {std::vector<object>(n), std::vector<object>(n)};
    // processor time: other processes may be busy
    const auto time_of = [&](bool difference, const std::vector<std::string>& texts) {
        const auto begun = std::clock();
        for (unsigned i = 0; i < n; ++i)
            pods[difference][i] = decode(difference ? *pool : *reference, texts[i], pods[difference][i]);
        return static_cast<double>(std::clock() - begun);
    };
    // The median of pairs of runs, one right after the other: a processor may be half as fast for a while.
    std::vector<double> ratios;
    for (int times = 0; times < 9; ++times) { // each time another state than the time before
        const double without = time_of(false, lists[times % 2]);
        ratios.push_back(time_of(true, lists[times % 2]) / without);
    }
    std::sort(ratios.begin(), ratios.end());
    CAPTURE(ratios);
    CHECK(ratios[ratios.size() / 2] < 1.25);
}

TEST_CASE("texts that cannot be templates do not keep later ones from becoming some", "[pool][difference]") {
    const auto pool = make_pool(true);
    std::vector<object> held;
    for (unsigned i = 0; i < 400; ++i) // a key twice cannot be mapped
        held.push_back(decode(*pool, R"({"metadata":{"name":")" + std::to_string(i) + R"("},"a":1,"a":2})"));
    CHECK(pool->statistics().templates == 0);
    for (unsigned i = 0; i < 1000; ++i) held.push_back(decode(*pool, pod(i)));
    CHECK(pool->statistics().template_hits > 500);
}

TEST_CASE("large texts that are alike are read by differences among small ones, too", "[pool][difference]") {
    const auto pool = make_pool(true);
    const auto text = [](unsigned i) { // of each eleven one is hundreds of times as long
        std::string json = R"({"metadata":{"name":"c-)" + std::to_string(i) + R"("},"data":{"a":"b")";
        if (i % 11 == 10)
            for (unsigned k = 0; k < 100; ++k)
                json += ",\"key-" + std::to_string(k) + "\":\"" + std::string(400, 'x') + "\"";
        return json + "}}";
    };
    constexpr unsigned n = 11 * 300;
    std::vector<object> held;
    const auto hits = [&pool] { return pool->statistics().template_hits; };
    std::uint64_t large = 0;
    for (unsigned i = 0; i < n; ++i) {
        const std::uint64_t before = hits();
        held.push_back(decode(*pool, text(i)));
        if (i % 11 == 10) large += hits() - before;
    }
    CHECK(large > 200);
    CHECK(hits() > n * 9 / 10);
}

TEST_CASE("texts of which no two are alike do not make templates without end", "[pool][difference]") {
    const auto pool = make_pool(true);
    std::vector<object> held;
    for (unsigned i = 0; i < 3000; ++i) {
        held.push_back(decode(*pool, "{\"metadata\":{\"name\":\"n\"},\"key " + std::to_string(i) + "\":{\"other key " +
                                         std::to_string(i * 7) + "\":1}}"));
        CHECK(pool->statistics().templates <= 8);
    }
    CHECK(pool->statistics().template_hits == 0);
    CHECK(pool->statistics().template_bytes < 64 * 1024);
    // As soon as texts are alike, they are read by their differences.
    for (unsigned i = 0; i < 3000; ++i) held.push_back(decode(*pool, pod(i)));
    CHECK(pool->statistics().template_hits > 2500);
}

TEST_CASE("small objects are read by their differences, too", "[pool][difference]") {
    const auto pool = make_pool(true);
    const auto lease = [](unsigned i, unsigned renewed) {
        testing::object_options o("leases", i);
        o.resource_version = 1'000'000 + renewed;
        o.revision = renewed;
        return make_object_json(o);
    };
    constexpr unsigned n = 500;
    std::vector<object> leases(n);
    for (unsigned renewed = 0; renewed < 3; ++renewed)
        for (unsigned i = 0; i < n; ++i) leases[i] = decode(*pool, lease(i, renewed), leases[i]);
    CHECK(pool->statistics().template_hits > 3 * n * 8 / 10);
}

TEST_CASE("containers around one change are the nodes that the reader makes of them", "[pool][difference]") {
    const auto pool = make_pool(true), reference = make_pool(false);
    const auto document = [](unsigned i) {
        const std::string n = std::to_string(i), unique = "\"value " + n + "\"";
        return R"({"metadata":{"name":"o-)" + n + R"("},"chain":{"a":{"b":{"c":)" + unique + R"(}}},"arrays":[[[)" +
               unique + R"(]]],"siblings":{"first":"the same","second":{"many":[1,"two",{"three":)" + unique +
               R"(}]},"third":[true]},"twice":[{"x":)" + unique + R"(},{"x":)" + unique + R"(}],"number":{"of":[)" + n +
               R"(]},"word":[{"on":)" + (i % 2 ? "true" : "false") + R"(}],"short":{"s":[")" + n.substr(n.size() - 1) +
               R"("]},"long":{"n":[)" + n + R"(00000000000]},"escaped":{"e":["\n)" + n + "\"]}}";
    };
    const auto is_shared = [](const object& o) { return o.at_pointer("/twice/0").same_as(o.at_pointer("/twice/1")); };
    std::vector<object> read, expected;
    int shared = 0, expected_shared = 0; // not all: two values may fall on one place
    for (unsigned i = 1000; i < 4000; ++i) {
        read.push_back(decode(*pool, document(i)));
        expected.push_back(decode(*reference, document(i)));
        REQUIRE(read.back().to_json() == expected.back().to_json());
        shared += is_shared(read.back());
        expected_shared += is_shared(expected.back());
    }
    CHECK(shared > 2900);
    CHECK(expected_shared > 2900);
    CHECK(pool->statistics().template_hits > 1000);
    const auto about = [](std::uint64_t a, std::uint64_t b) { return std::max(a, b) - std::min(a, b) <= b / 200; };
    CHECK(about(pool->statistics().nodes, reference->statistics().nodes));
    CHECK(about(pool->statistics().referenced_nodes, reference->statistics().referenced_nodes));
    read.clear();
    drain(*pool);
    CHECK(pool->statistics().nodes == 0);
    CHECK(pool->statistics().referenced_nodes == 0);
}

TEST_CASE("templates go when they are too large beside the documents that are left", "[pool][difference]") {
    const auto pool = make_pool(true, decode_options(), 64);
    std::vector<object> pods;
    for (unsigned i = 0; i < 6000; ++i) // nine structures in turn
        pods.push_back(decode(*pool, replaced(pod(i), R"("nodeSelector":{)",
                                              "\"nodeSelector\":{\"kind-" + std::to_string(i % 9) + "\":\"x\",")));
    const pool_statistics before = pool->statistics();
    REQUIRE(before.template_bytes > 100 * 1024);
    pods.resize(100);
    drain(*pool);
    const pool_statistics after = pool->statistics();
    CHECK(after.templates > 0);
    CHECK(after.template_bytes <= 64 * 1024 + (after.bytes - after.free_bytes) / 64);
}

TEST_CASE("templates do not outlive their generation, nor a full pool", "[pool][difference]") {
    const auto pool = make_pool(true);
    std::vector<object> pods;
    for (unsigned i = 0; i < 50; ++i) pods.push_back(decode(*pool, pod(i)));
    CHECK(pool->statistics().templates > 0);
    pool->begin_generation();
    CHECK(pool->statistics().templates == 0);
    for (unsigned i = 0; i < 50; ++i) CHECK(decode(*pool, pod(i), pods[i]) == pods[i]);
    pods.clear();
    drain(*pool);
    CHECK(pool->statistics().nodes == 0);
    CHECK(pool->statistics().generations == 1);
    // Full at every point of a document: all or nothing.
    unsigned full = 0;
    for (std::uint64_t bytes = 16 * 1024; bytes < 24 * 1024; bytes += 64) {
        detail::pool_limits limits;
        limits.max_bytes = bytes;
        limits.first_chunk = 256;
        limits.template_documents = 1;
        const auto small = detail::make_pool(decode_options(), limits);
        failure f;
        std::vector<object> held;
        for (unsigned i = 0; i < 30; ++i) {
            object o = small->decode(pod(i), object(), f);
            if (!o) {
                ++full;
                CHECK(f == errc::pool_full);
                break;
            }
            if (i % 5 == 0) REQUIRE(o.to_json() == parse_object(pod(i)).to_json());
            held.push_back(std::move(o));
        }
        held.clear();
        drain(*small);
        REQUIRE(small->statistics().nodes == 0);
        REQUIRE(small->statistics().referenced_nodes == 0);
    }
    CHECK(full > 20);
}

namespace {

const char* string_end_by_letters(const std::string& s, bool& plain) {
    for (std::size_t i = 0; i < s.size(); ++i) {
        if (s[i] == '"') return s.data() + i + 1;
        const auto c = static_cast<unsigned char>(s[i]);
        plain = plain && c != '\\' && c >= 0x20 && c < 0x80;
        if (c == '\\') ++i;
    }
    return nullptr;
}

} // namespace

TEST_CASE("wide compares find what plain ones find", "[pool][difference]") {
    std::mt19937 random(3);
    for (int i = 0; i < 20'000; ++i) {
        std::string a(random() % 200, 'x');
        for (char& c : a)
            if (random() % 40 == 0) c = "\"\\\x1f\x7f\x80z"[random() % 6];
        std::string b = a;
        if (!b.empty() && random() % 4) b[random() % b.size()] ^= static_cast<char>(1 + random() % 255);
        const auto first = static_cast<std::size_t>(std::mismatch(a.begin(), a.end(), b.begin()).first - a.begin());
        REQUIRE(detail::common_prefix(a.data(), b.data(), a.size()) == first);
        REQUIRE(detail::common_prefix_portable(a.data(), b.data(), a.size()) == first);
        bool plain = true, plain_by_letters = true;
        const char* const end = detail::string_end(a.data(), a.data() + a.size(), plain);
        REQUIRE(end == string_end_by_letters(a, plain_by_letters));
        REQUIRE(plain == plain_by_letters);
    }
}

TEST_CASE("a failed attempt leaves no trace", "[pool][difference]") {
    const auto options = decode_options().project(projection::keep({"/spec/a/name", "/metadata/labels", "/spec/n"}));
    const auto pool = make_pool(true, options), reference = make_pool(false, options);
    const std::string base =
        R"({"metadata":{"name":"7","labels":{"k":1,"l":[]},"managedFields":[{"manager":"m","f":{}}]},"spec":{"a":[1],"n":{}}})";
    const object kept = decode(*pool, base);
    for (const auto& [what, by] :
         {std::pair(R"("m")", "\"\xed\xa0\x80\""), std::pair(R"("f":{})", R"("f":{"x":tru})"), std::pair("[1]", "[(]"),
          std::pair("[]", "[(]"),
          std::pair(R"("m","f":{}}]},"spec":{"a":[1])", "\"\xed\xa0\x80\",\"f\":{}}]},\"spec\":{\"a\":[(]"),
          std::pair(R"("name":"7")", R"("name":7x)"), std::pair(R"("k":1)", "\"k\":\"\xff\"")}) {
        failure f, g;
        const object a = pool->decode(replaced(base, what, by), kept, f);
        const object b = reference->decode(replaced(base, what, by), object(), g);
        CHECK(f.code() == g.code());
        CHECK(f.message() == g.message());
        CHECK((a ? a.to_json() : "") == (b ? b.to_json() : ""));
    }
}

TEST_CASE("managedFields that were cut out unread may hold anything", "[pool][difference]") {
    const auto text = [](const std::string& managed_fields) {
        return R"({"metadata":{"name":"a","managedFields":)" + managed_fields + "}}";
    };
    const std::string opening(30'000, '['), closing(30'000, ']');
    for (const std::string& skipped :
         {std::string("[{]]"), std::string("[{x]]"), std::string("[{:]]"), std::string("[{,}]"), std::string("[,,]"),
          std::string(R"(["a""b"])"), std::string(R"([{"a"}])"), std::string(R"([{"a":}])"),
          std::string(R"([{"a" "b"}])"), std::string(R"([\])"), opening + closing}) {
        CAPTURE(skipped.substr(0, 20));
        const auto pool = make_pool(true);
        const object first = decode(*pool, text(skipped)), second = decode(*pool, text(skipped));
        CHECK(second.to_json() == R"({"metadata":{"name":"a"}})");
        CHECK(pool->statistics().templates == 0); // it cannot be mapped
        CHECK(decode(*pool, text("[1]"), second).same_as(second));
    }
}

TEST_CASE("a template of very many short keys is made without looking for each among all", "[pool][difference]") {
    static constexpr std::string_view letters = "0123456789abcdefghijklmnopqrstuvwxyz";
    std::string text = R"({"metadata":{"name":"a"},"data":{)";
    for (unsigned i = 0; i < 2400; ++i)
        text.append(i == 0 ? "\"" : ",\"")
            .append({letters[i % 36], letters[i / 36 % 36], letters[i / 1296]})
            .append("\":1");
    text += "}}";
    std::size_t templates = 0;
    const auto least = [&](bool difference) { // processor time: other processes may be busy
        std::clock_t best = std::numeric_limits<std::clock_t>::max();
        for (int times = 0; times < 5; ++times) {
            const auto pool = make_pool(difference);
            const object before = decode(*pool, R"({"metadata":{"name":"b"}})"); // the first one is no template
            const auto begun = std::clock();
            const object o = decode(*pool, text);
            best = std::min(best, std::clock() - begun);
            CHECK(o["data"].size() == 2400);
            templates = pool->statistics().templates;
        }
        return static_cast<double>(best);
    };
    const double parsed = least(false), with_template = least(true);
    CHECK(templates == 1);
    CHECK(with_template < 6 * parsed);
}

// Values stored without interning may exist twice, and versions share what they have in common all the same: a value
// taken from the template is replaced by the previous version's. A value that a change has made must not be replaced,
// even if it is the template's.
TEST_CASE("a value that is spelled otherwise than the template's is counted as often as it is used",
          "[pool][difference]") {
    const tireless tries;
    const auto pool = make_pool(true);
    const auto document = [](const std::string& name, const std::string& data, const char* more = "") {
        return R"({"metadata":{"name":")" + name + R"("},"data":{)" + data + "}" + more + "}";
    };
    unsigned named = 0;
    std::vector<object> fillers;
    // What this teaches the pool makes interning of /data and its contents stop, or begin again.
    const auto fill = [&](unsigned n, unsigned values) {
        for (; n > 0; --n, ++named)
            fillers.push_back(
                decode(*pool, document("f" + std::to_string(named),
                                       "\"k0\":\"a filler's value " + std::to_string(named % values) + '"')));
    };
    std::string others; // more keys than are searched for members that have moved
    for (unsigned k = 1; k < 300; ++k) others += ",\"k" + std::to_string(k) + "\":" + std::to_string(k);
    const auto data = [](unsigned i, const char* a) {
        return "\"k0\":\"the v" + std::string(a) + "lue number " + std::to_string(i) + '"';
    };
    constexpr unsigned slots = 40;
    unsigned twice = 0; // values that are there twice
    for (unsigned round = 0; round < 3; ++round) {
        fill(round == 0 ? 10'000 : 4'000, std::numeric_limits<unsigned>::max());
        std::vector<object> before;
        for (unsigned i = 0; i < slots; ++i)
            before.push_back(decode(*pool, document("slot " + std::to_string(i), data(i, "a") + others)));
        fill(40'000, 200);
        std::vector<object> now, templates;
        for (unsigned i = 0; i < slots; ++i) {
            const char* const more = R"(,"g":1)";
            for (unsigned n = 0; n < 3; ++n)
                templates.push_back(
                    decode(*pool, document("t" + std::to_string(n), data(i, "a"), n == 0 ? R"(,"h":{"g":[]})" : more)));
            twice += !templates.back().at_pointer("/data/k0").same_as(before[i].at_pointer("/data/k0"));
            const object one =
                decode(*pool, document("slot " + std::to_string(i), data(i, "\\u0061"), more), before[i]);
            REQUIRE(one.to_json() == document("slot " + std::to_string(i), data(i, "a"), more));
            if (i % 2 == 0) now.push_back(one);
        }
        fillers.clear();
        templates.clear();
        drain(*pool);
        for (unsigned i = 0; i < slots; i += 2)
            CHECK(now[i / 2].to_json() == document("slot " + std::to_string(i), data(i, "a"), R"(,"g":1)"));
    }
    CHECK(twice > slots / 2); // by chance, in each round most of them
    drain(*pool);
    CHECK(pool->statistics().nodes == 0);
    CHECK(pool->statistics().referenced_nodes == 0);
}
