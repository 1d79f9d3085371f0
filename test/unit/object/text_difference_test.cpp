// Documents read by their differences from others are what the parser makes of them.
#include "object/detail/text_difference.hpp"
#include "object/detail/text_scan.hpp"
#include "support/fuzz.hpp"
#include "support/pod_generator.hpp"
#include "support/pool.hpp"

#include <informer/object/document_pool.hpp>

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <ctime>
#include <limits>
#include <random>
#include <string>
#include <string_view>
#include <vector>

using namespace informer;
using informer::testing::decode;
using informer::testing::drain;
using informer::testing::fuzz_rounds;
using informer::testing::fuzz_seed;

namespace {

std::string pod(unsigned index, unsigned revision = 0, bool type = false, bool managed_fields = true) {
    informer::testing::pod_options o(index);
    o.revision = revision;
    o.type = type;
    o.managed_fields = managed_fields;
    return make_pod_json(o);
}

std::shared_ptr<document_pool> make_pool(bool difference, decode_options options = decode_options(),
                                         std::uint32_t from = 1) {
    detail::pool_limits limits;
    limits.template_documents = from;
    return detail::make_pool(options.text_difference(difference), limits);
}

std::string replaced(std::string s, std::string_view what, std::string_view by) {
    const auto at = s.find(what);
    REQUIRE(at != std::string::npos);
    return s.replace(at, what.size(), by);
}

/// The same history in a pool with templates and in one without.
class pair_of_pools {
public:
    explicit pair_of_pools(const decode_options& options, std::size_t slots)
        : with_(make_pool(true, options)), without_(make_pool(false, options)), a_(slots), b_(slots), texts_(slots) {}

    void decode(std::size_t slot, const std::string& json, bool with_previous) {
        failure f, g;
        const object none;
        object x = with_->decode(json, with_previous ? a_[slot] : none, f);
        object y = without_->decode(json, with_previous ? b_[slot] : none, g);
        if (f.code() != g.code() || f.message() != g.message() || bool(x) != bool(y) ||
            (x && x.to_json() != y.to_json())) {
            UNSCOPED_INFO("text " << json);
            UNSCOPED_INFO("by differences: " << f.message() << " " << (x ? x.to_json() : std::string()));
            UNSCOPED_INFO("by the parser: " << g.message() << " " << (y ? y.to_json() : std::string()));
            FAIL("the ways differ");
        }
        if (!x) return;
        ++decoded_;
        if (with_previous && a_[slot] && x && ++checked_ % 4 == 0) {
            const std::uint64_t with = apart(a_[slot].value(), x.value()), without = apart(b_[slot].value(), y.value());
            if (with > without) {
                UNSCOPED_INFO("text " << json << " after " << texts_[slot]);
                FAIL("versions share less: " << with << " places, by the parser " << without);
            }
        }
        if (with_previous && x.same_as(a_[slot]) != y.same_as(b_[slot])) {
            UNSCOPED_INFO("text " << json << " after " << texts_[slot]);
            FAIL("one way calls it unchanged, the other does not");
        }
        a_[slot] = std::move(x);
        b_[slot] = std::move(y);
        texts_[slot] = json;
    }
    void drop(std::size_t slot) { a_[slot] = b_[slot] = object(); }
    void begin_generation() {
        with_->begin_generation();
        without_->begin_generation();
    }
    void finish() {
        std::fill(a_.begin(), a_.end(), object());
        std::fill(b_.begin(), b_.end(), object());
        drain(*with_);
        CHECK(with_->statistics().nodes == 0);
        CHECK(with_->statistics().referenced_nodes == 0);
        CHECK(with_->statistics().objects == 0);
    }
    const std::string& text(std::size_t slot) const { return texts_[slot]; }
    std::size_t slots() const { return texts_.size(); }
    std::uint64_t decoded() const { return decoded_; }
    document_pool& with() { return *with_; }
    document_pool& without() { return *without_; }

private:
    std::shared_ptr<document_pool> with_, without_;
    std::vector<object> a_, b_;
    std::vector<std::string> texts_;
    /// Places at which two versions read alike and are not the same.
    static std::uint64_t apart(value a, value b) {
        if (a.same_as(b)) return 0;
        std::uint64_t n = 0;
        if (a.kind() == value_kind::object && b.kind() == value_kind::object) {
            for (auto [key, member] : b.members())
                if (const value old = a[key.view()]) n += apart(old, member);
        } else if (a.kind() == value_kind::array && b.kind() == value_kind::array) {
            for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) n += apart(a[i], b[i]);
        }
        return n + (n == 0 && a.to_json() == b.to_json() ? 1 : 0);
    }
    std::uint64_t decoded_ = 0, checked_ = 0;
};

class mutator {
public:
    explicit mutator(unsigned seed) : random_(seed) {}
    std::size_t pick(std::size_t n) { return n == 0 ? 0 : random_() % n; }

    /// Small documents in which everything occurs.
    std::string document() {
        std::string s = "{";
        if (pick(3) > 0) s += R"("kind":"K","apiVersion":"v1",)";
        s += R"("metadata":{"name":")" + std::to_string(pick(50)) + R"(-name","labels":{"app":)" + scalar() +
             R"(,"k":)" + scalar() + "}";
        if (pick(2))
            s += R"(,"managedFields":[{"manager":)" + scalar() + R"(,"fieldsV1":{"f:a":{"k:{\"uid\":\")" +
                 std::to_string(pick(1000)) + R"(\"}":{}},"f:b":[1,)" + scalar() + R"(]}}])";
        s += R"(},"spec":{"a":)" + value(3) + R"(,"b":[)" + value(2) + "," + value(2) + R"(],"n":)" + scalar() +
             R"(},"status":)" + value(3) + R"(,"last":)" + scalar() + "}";
        return s;
    }
    std::string change_scalars(std::string s) {
        for (std::size_t n = pick(6); n > 0; --n) {
            const auto v = a_value(s);
            if (v.second > v.first && s[v.first] != '{' && s[v.first] != '[')
                s.replace(v.first, v.second - v.first, good_scalar());
        }
        return s;
    }
    std::string change(std::string s, const std::string& other) {
        for (std::size_t n = 1 + pick(pick(4) == 0 ? 12 : 3); n > 0; --n) change_once(s, other);
        return s;
    }

private:
    void change_once(std::string& s, const std::string& other) {
        if (s.empty()) s = "{}";
        switch (pick(16)) {
        case 0: s[pick(s.size())] = byte(); return;
        case 1: s.insert(s.begin() + static_cast<std::ptrdiff_t>(pick(s.size() + 1)), byte()); return;
        case 2: s.erase(pick(s.size()), 1); return;
        case 3:
            if (pick(8) == 0) s.resize(pick(s.size()));
            return;
        case 4: s.insert(token(s), pick(2) ? " " : "\n\t"); return;
        case 5: { // a piece of another text
            const std::size_t from = pick(other.size()), n = pick(40);
            s.insert(pick(s.size()), other.substr(from, n));
            return;
        }
        case 6: { // a member twice, or another order
            const auto m = member(s);
            if (m.second > m.first) s.insert(m.first, s.substr(m.first, m.second - m.first) + ",");
            return;
        }
        case 7: {
            const auto m = member(s);
            if (m.second > m.first)
                s.erase(m.first, m.second - m.first + (m.second < s.size() && s[m.second] == ',' ? 1 : 0));
            return;
        }
        case 8: {
            const auto m = member(s);
            s.insert(m.first, "\"new" + std::to_string(pick(4)) + "\":" + value(2) + ",");
            return;
        }
        case 9: { // inside of a string
            const auto v = a_value(s);
            if (v.second > v.first + 1 && s[v.first] == '"')
                s.insert(v.first + 1 + pick(v.second - v.first - 1), piece());
            return;
        }
        default: { // the value of a member
            const auto v = a_value(s);
            if (v.second > v.first) s.replace(v.first, v.second - v.first, pick(6) == 0 ? value(2) : scalar());
        }
        }
    }
    char byte() {
        static constexpr std::string_view likely = "\"\\{}[],:0123456789-+.eEtfn u/\n\x01\x7f\xc3\xa4\xff";
        return pick(4) ? likely[pick(likely.size())] : static_cast<char>(pick(256));
    }
    std::size_t token(const std::string& s) {
        const std::size_t at = s.find_first_of("{}[],:", pick(s.size()));
        return at == std::string::npos ? s.size() : at + pick(2);
    }
    /// From the quote of a key to behind its value, roughly.
    std::pair<std::size_t, std::size_t> member(const std::string& s) {
        const auto v = a_value(s);
        const std::size_t colon = v.first == 0 ? std::string::npos : s.rfind(':', v.first);
        const std::size_t key = colon == std::string::npos || colon < 2 ? std::string::npos : s.rfind('"', colon - 2);
        return key == std::string::npos ? std::pair(v.first, v.first) : std::pair(key, v.second);
    }
    std::pair<std::size_t, std::size_t> a_value(const std::string& s) {
        std::size_t at = s.find_first_of(":[,", pick(s.size()));
        if (at == std::string::npos || ++at >= s.size()) return {0, 0};
        std::size_t end = at;
        if (s[at] == '"') {
            for (++end; end < s.size() && s[end] != '"'; ++end)
                if (s[end] == '\\') ++end;
            ++end;
        } else if (s[at] == '{' || s[at] == '[') {
            int depth = 0;
            do {
                depth += s[end] == '{' || s[end] == '[' ? 1 : s[end] == '}' || s[end] == ']' ? -1 : 0;
                ++end;
            } while (depth > 0 && end < s.size());
        } else {
            end = std::min(s.find_first_of(",]}", at), s.size());
        }
        return {at, std::min(end, s.size())};
    }
    std::string piece() {
        static const char* const pieces[] = {"a",
                                             "xyz",
                                             "\\n",
                                             "\\\"",
                                             "\\u00e4",
                                             "\\ud83d\\ude00",
                                             "\\ud800",
                                             "\\udc00",
                                             "\\x",
                                             "\\u12",
                                             "ä",
                                             "日本",
                                             "😀",
                                             "\xc3",
                                             "\xed\xa0\x80",
                                             "\xf4\x90\x80\x80",
                                             "\x1f",
                                             "\t",
                                             "\\/",
                                             "\\\\",
                                             "a rather long piece of text that goes over sixteen bytes",
                                             "\\u0000",
                                             "\x7f"};
        return pieces[pick(std::size(pieces))];
    }
    std::string scalar() {
        static const char* const scalars[] = {
            "0",
            "-0",
            "1",
            "12",
            "123456789",
            "268435456",
            "-268435457",
            "9223372036854775807",
            "9223372036854775808",
            "18446744073709551616",
            "1.5",
            "1.50",
            "-1e3",
            "1E+05",
            "1e400",
            "1e-400",
            "0.1e1",
            "01",
            "1.",
            ".5",
            "-",
            "+1",
            "1e",
            "1e+",
            "0x1",
            "1a",
            "true",
            "false",
            "null",
            "True",
            "tru",
            "nulll",
            "NaN",
            "Infinity",
            "\"\"",
            "\"a\"",
            "\"ab\"",
            "\"abc\"",
            "\"abcd\"",
            "\"2024-05-06T07:08:09Z\"",
            "\"2024-02-30T07:08:09Z\"",
            "\"123e4567-e89b-12d3-a456-426614174000\"",
            "\"123E4567-e89b-12d3-a456-426614174000\"",
            "{}",
            "[]",
            "{ }",
            "[ ]",
            "\"sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\"",
            "1e99999999999999999999",
            "123456789012345678.5"};
        if (pick(3) == 0) return "\"" + piece() + (pick(2) ? piece() : "") + "\"";
        if (pick(3) == 0) return "\"text number " + std::to_string(pick(300)) + "\"";
        if (pick(3) == 0) return std::to_string(pick(1000));
        return scalars[pick(std::size(scalars))];
    }
    std::string good_scalar() {
        return pick(2) ? std::to_string(pick(100)) : "\"value " + std::to_string(pick(100)) + "\"";
    }
    std::string value(int depth) {
        if (depth == 0 || pick(3) == 0) return pick(12) ? good_scalar() : scalar();
        std::string s;
        if (pick(2)) {
            for (std::size_t n = pick(4); n > 0; --n) s += (s.empty() ? "" : ",") + value(depth - 1);
            return "[" + s + "]";
        }
        static const char* const keys[] = {"a", "name", "long key", "k\\u0065y", "ü", "x", "metadata", "managedFields"};
        for (std::size_t n = pick(4); n > 0; --n)
            s += (s.empty() ? "\"" : ",\"") + std::string(keys[pick(std::size(keys))]) + "\":" + value(depth - 1);
        return "{" + s + "}";
    }
    std::mt19937 random_;
};

class tireless {
public:
    tireless() noexcept { informer::detail::text_difference::tireless = true; }
    tireless(const tireless&) = delete;
    tireless& operator=(const tireless&) = delete;
    ~tireless() { informer::detail::text_difference::tireless = false; }
};

void fuzz(const decode_options& options, unsigned with_seed, std::size_t n, bool pods) {
    const tireless tries;
    pair_of_pools pools(options, 12);
    mutator m(fuzz_seed(with_seed));
    std::vector<std::string> sources;
    for (unsigned i = 0; sources.size() < 4; ++i) {
        const std::string json = pods ? pod(i * 7, i % 3, i % 2 == 0, i % 4 != 0) : m.document();
        failure f;
        if (pools.without().decode(json, object(), f)) sources.push_back(json);
    }
    for (std::size_t i = 0; i < fuzz_rounds(n); ++i) {
        // One mistake hides all others: good ones in between.
        const std::size_t slot = m.pick(pools.slots());
        const std::string& source = sources[m.pick(sources.size())];
        if (i % 2 == 0) {
            pools.decode(slot, m.change_scalars(source), m.pick(5) != 0);
        } else {
            const std::string& from = m.pick(4) == 0 && !pools.text(slot).empty() ? pools.text(slot) : source;
            const std::string json = m.change(from, sources[m.pick(sources.size())]);
            if (json.size() < 20'000) pools.decode(slot, json, m.pick(5) != 0);
        }
        if (m.pick(40) == 0) pools.drop(m.pick(pools.slots()));
        if (m.pick(2000) == 0) pools.begin_generation();
        if (m.pick(200) == 0) drain(pools.with());
    }
    const pool_statistics s = pools.with().statistics();
    CHECK(pools.decoded() > fuzz_rounds(n) / 3);
    if (!std::getenv("INFORMER_FUZZ_SEED"))
        CHECK(s.template_hits > fuzz_rounds(n) / 15); // chance decides how alike they are
    CHECK(s.templates <= 8);
    CHECK(pools.without().statistics().template_hits == 0);
    pools.finish();
}

} // namespace

TEST_CASE("by differences or by the parser: the same documents and the same errors", "[pool][difference]") {
    SECTION("small documents") {
        fuzz(decode_options(), 1, 12'000, false);
    }
    SECTION("pods") {
        fuzz(decode_options().type("v1", "Pod"), 2, 3'000, true);
    }
    SECTION("managedFields kept") {
        fuzz(decode_options().keep_managed_fields(), 3, 6'000, false);
    }
    SECTION("hardly any depth") {
        fuzz(decode_options().max_depth(5), 4, 6'000, false);
    }
    SECTION("a projection that drops") {
        fuzz(decode_options().project(
                 projection::drop({"/spec/a", "/status", "/metadata/labels/k", "/spec/b/*/name", "/last"})),
             5, 6'000, false);
        fuzz(decode_options().project(
                 projection::drop({"/spec/containers/*/env", "/metadata/annotations", "/status/conditions"})),
             6, 1'000, true);
    }
    SECTION("a projection that keeps") {
        fuzz(
            decode_options().type("v1", "K").project(projection::keep({"/spec/a/name", "/metadata/labels", "/spec/n"})),
            7, 6'000, false);
        fuzz(decode_options().project(
                 projection::keep({"/spec/nodeName", "/status/phase", "/status/conditions/*/type"})),
             8, 1'000, true);
    }
}

TEST_CASE("documents alike are read by their differences", "[pool][difference]") {
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

TEST_CASE("what differs in structure is read by itself, the rest by its differences", "[pool][difference]") {
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
    // Whether what is skipped may be broken is for the parser to say.
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
    // They go with the documents.
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
        for (unsigned i = 0; i < n; ++i) REQUIRE(decode(*pool, text(i * step % n), pods[i * step % n]).same_as(pods[i * step % n]));
        return pool->statistics().template_hits - before;
    };
    CHECK(again(1) > n * 85 / 100);
    again(777);
    CHECK(again(1) > n * 75 / 100);
    CHECK(pool->statistics().templates <= 8);
}

TEST_CASE("pods of more structures than there are templates, in no order, cost what the parser takes for them", "[pool][difference]") {
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
    const auto time_of = [&](bool difference, const std::vector<std::string>& texts) { // processor time: others may be busy
        const auto begun = std::clock();
        for (unsigned i = 0; i < n; ++i)
            pods[difference][i] = decode(difference ? *pool : *reference, texts[i], pods[difference][i]);
        return static_cast<double>(std::clock() - begun);
    };
    double with = std::numeric_limits<double>::max(), without = with;
    for (int times = 0; times < 8; ++times) { // each of them a state that is not the one before
        without = std::min(without, time_of(false, lists[times % 2]));
        with = std::min(with, time_of(true, lists[times % 2]));
    }
    CHECK(with < 1.25 * without);
}

TEST_CASE("texts that can be no templates keep later ones from none", "[pool][difference]") {
    const auto pool = make_pool(true);
    std::vector<object> held;
    for (unsigned i = 0; i < 400; ++i) // a key twice cannot be mapped
        held.push_back(decode(*pool, R"({"metadata":{"name":")" + std::to_string(i) + R"("},"a":1,"a":2})"));
    CHECK(pool->statistics().templates == 0);
    for (unsigned i = 0; i < 1000; ++i) held.push_back(decode(*pool, pod(i)));
    CHECK(pool->statistics().template_hits > 500);
}

TEST_CASE("texts of which no two are alike cost no templates without end", "[pool][difference]") {
    const auto pool = make_pool(true);
    std::vector<object> held;
    for (unsigned i = 0; i < 3000; ++i) {
        held.push_back(decode(*pool, "{\"metadata\":{\"name\":\"n\"},\"key " + std::to_string(i) + "\":{\"other key " +
                                         std::to_string(i * 7) + "\":1}}"));
        CHECK(pool->statistics().templates <= 8);
    }
    CHECK(pool->statistics().template_hits == 0);
    CHECK(pool->statistics().template_bytes < 64 * 1024);
    // As soon as they are alike, they are read as such.
    for (unsigned i = 0; i < 3000; ++i) held.push_back(decode(*pool, pod(i)));
    CHECK(pool->statistics().template_hits > 2500);
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
        bool plain = true, plain_portable = true;
        const char* const end = detail::string_end(a.data(), a.data() + a.size(), plain);
        REQUIRE(end == detail::string_end_portable(a.data(), a.data() + a.size(), plain_portable));
        REQUIRE(plain == plain_portable);
    }
}

TEST_CASE("what was tried in vain leaves no trace", "[pool][difference]") {
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
          std::string(R"(["a""b"])"), std::string(R"([{"a"}])"), std::string(R"([{"a":}])"), std::string(R"([{"a" "b"}])"),
          std::string(R"([\])"), opening + closing}) {
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
        text.append(i == 0 ? "\"" : ",\"").append({letters[i % 36], letters[i / 36 % 36], letters[i / 1296]}).append("\":1");
    text += "}}";
    std::size_t templates = 0;
    const auto least = [&](bool difference) { // processor time: others may be busy
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
