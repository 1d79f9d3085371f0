// Keys that hardly repeat are not interned. Except for the memory saved, this must not show in what documents say, what
// their versions share and what they cost.
#include "alike_keys.hpp"
#include "support/pool.hpp"

#include <informer/object/diff.hpp>
#include <informer/object/document_pool.hpp>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <algorithm>
#include <random>
#include <string>
#include <utility>
#include <vector>

using namespace informer;
using informer::testing::alike;
using informer::testing::decode;
using informer::testing::drain;
using informer::testing::padded;

namespace {

struct field {
    std::string key, value;
    bool operator==(const field&) const = default;
};
using fields = std::vector<field>;

std::string text_of(const fields& m) {
    std::string s = "{";
    for (std::size_t i = 0; i < m.size(); ++i)
        s.append(i ? ",\"" : "\"").append(m[i].key).append("\":").append(m[i].value);
    return s += "}";
}

/// What a document keeps of keys that come more than once: the first place and the last value.
fields kept_of(const fields& m) {
    fields kept;
    for (const field& one : m) {
        const auto at = std::find_if(kept.begin(), kept.end(), [&](const field& k) { return k.key == one.key; });
        if (at == kept.end())
            kept.push_back(one);
        else
            at->value = one.value;
    }
    return kept;
}

std::string document(unsigned i, const fields& data) {
    return R"({"metadata":{"name":"number )" + std::to_string(i) + R"("},"data":)" + text_of(data) + "}";
}

/// A pool in which the keys of /data do not repeat.
struct taught_pool {
    explicit taught_pool(bool difference = false)
        : pool(document_pool::make(decode_options().text_difference(difference))) {
        for (unsigned i = 0; i < 300; ++i) {
            fields m;
            for (unsigned k = 0; k < 40; ++k) m.push_back({"unique-" + std::to_string(i * 40 + k), "1"});
            teachers.push_back(decode(*pool, document(i, m)));
        }
    }
    std::shared_ptr<document_pool> pool;
    std::vector<object> teachers;
};

/// Documents with a few to many keys, most of which no other document has, and their next versions.
class history {
public:
    explicit history(unsigned seed) : random_(seed) {}
    unsigned below(unsigned n) { return std::uniform_int_distribution<unsigned>(0, n - 1)(random_); }
    std::string key() {
        switch (below(8)) {
        case 0: return "common-" + std::to_string(below(10));
        case 1: return std::to_string(below(100)); // short
        case 2: return alike(below(1'000'000), random_() % 1'000'000);
        case 3: return padded(random_(), 90); // too long to wait in `waiting_keys`
        default: return "key-" + std::to_string(random_());
        }
    }
    std::string value() {
        switch (below(5)) {
        case 0: return std::to_string(below(1000));
        case 1: return "\"a text of its own " + std::to_string(random_()) + "\"";
        case 2: return "[\"v\"," + std::to_string(below(3)) + "]";
        case 3: {
            std::string s = "{";
            for (unsigned n = 1 + below(5); n > 0; --n)
                s += "\"" + std::to_string(n) + key() + "\":\"text " + std::to_string(below(10)) +
                     (n > 1 ? "\"," : "\"}");
            return s;
        }
        default: return "\"v\"";
        }
    }
    fields fresh() {
        fields m;
        for (unsigned n = below(4) == 0 ? below(400) : 1 + below(30); n > 0; --n) m.push_back({key(), value()});
        return kept_of(m);
    }
    /// The next version; sometimes only its text changes, by a key that comes twice.
    fields next(const fields& before) {
        fields m = before;
        const auto place = [&] {
            return m.begin() + static_cast<std::ptrdiff_t>(below(static_cast<unsigned>(m.size())));
        };
        for (unsigned n = below(4); n > 0; --n) {
            switch (m.empty() ? 0 : below(7)) {
            case 0: m.insert(m.empty() ? m.begin() : place(), {key(), value()}); break;
            case 1: m.erase(place()); break;
            case 2: place()->value = value(); break;
            case 3: place()->key = key(); break;
            case 4: std::shuffle(m.begin(), m.end(), random_); break;
            case 5: m.push_back({place()->key, value()}); break;
            default: m.push_back({key(), value()});
            }
        }
        return m;
    }

private:
    std::mt19937 random_;
};

} // namespace

TEST_CASE("a key that does not repeat costs its node, its place and a byte", "[pool][keys]") {
    const taught_pool p;
    const pool_statistics before = p.pool->statistics();
    std::vector<object> held;
    for (unsigned i = 0; i < 200; ++i) {
        fields m;
        for (unsigned k = 0; k < 200; ++k) m.push_back({padded(i * 1000 + k, 24), "1"});
        held.push_back(decode(*p.pool, document(1000 + i, m)));
    }
    const pool_statistics after = p.pool->statistics();
    // A sixteenth is interned all the same; each document has some bytes of its own.
    const std::uint64_t keys = 200 * 200, one = (8 + 24) + 4 + 4 + 1;
    CHECK(after.bytes - after.free_bytes - (before.bytes - before.free_bytes) <=
          keys * one + keys / 16 * 13 + 200 * 200);
    CHECK(after.table_bytes - before.table_bytes <= keys * 2);
}

TEST_CASE("keys that do not repeat are distinguished however much they look alike", "[pool][keys]") {
    const taught_pool p;
    for (const unsigned n : {2u, 9u, 10u, 40u, 255u, 256u, 300u}) {
        CAPTURE(n);
        fields m;
        for (unsigned i = 0; i < n; ++i) m.push_back({alike(i, 1000 * n), std::to_string(i)});
        const object o = decode(*p.pool, document(n, m));
        CHECK(o.to_json() == document(n, m));
        unsigned wrong = 0;
        for (unsigned i = 0; i < n; ++i) wrong += o["data"][alike(i, 1000 * n)].as_int64() != i;
        for (unsigned i = n; i < 2 * n; ++i) wrong += o["data"][alike(i, 1000 * n)].exists();
        CHECK(wrong == 0);
        for (const unsigned again : {0u, n / 2, n - 1}) {
            fields twice = m;
            twice.push_back({m[again].key, "\"the last value\""});
            CHECK(decode(*p.pool, document(n, twice)).to_json() == document(n, kept_of(twice)));
        }
        fields turned(m.rbegin(), m.rend());
        turned.push_back({"one more", "1"});
        const object next = decode(*p.pool, document(n, turned), o);
        CHECK(next.to_json() == document(n, turned));
        CHECK(diff(o, next).size() == 1);
    }
}

TEST_CASE("keys that repeat after all are shared again", "[pool][keys]") {
    const taught_pool p;
    std::vector<object> held;
    const auto add = [&](unsigned n) {
        for (unsigned i = 0; i < n; ++i)
            held.push_back(
                decode(*p.pool, document(i, {{"one of " + std::to_string(i * 7 % 41), "1"}, {"another", "2"}})));
    };
    add(12'000);
    const pool_statistics before = p.pool->statistics();
    add(2000);
    CHECK(p.pool->statistics().shape_bytes == before.shape_bytes);
}

TEST_CASE("documents with loose keys are read as the parser alone would read them", "[pool][keys]") {
    const bool difference = GENERATE(false, true);
    taught_pool p(difference);
    document_pool& pool = *p.pool;
    history h(difference ? 5 : 3);
    struct version {
        fields data;
        object o;
    };
    std::vector<version> held(150);
    unsigned wrong = 0, apart = 0, missing = 0, other_verdict = 0;
    for (unsigned round = 0; round < 12; ++round) {
        for (unsigned i = 0; i < held.size(); ++i) {
            version& v = held[i];
            const fields text = v.o ? h.next(v.data) : h.fresh();
            const fields now = kept_of(text);
            const object o = decode(pool, document(i, text), v.o);
            if (v.o) {
                const bool same =
                    now.size() == v.data.size() && std::is_permutation(now.begin(), now.end(), v.data.begin());
                other_verdict += same != o.same_as(v.o) || same != (o == v.o) || same != diff(v.o, o).empty();
                wrong += !same && o.to_json() != document(i, now);
                if (same) continue; // the order of the older version stays
                for (const field& m : v.data) {
                    const auto at =
                        std::find_if(now.begin(), now.end(), [&](const field& n) { return n.key == m.key; });
                    if (at != now.end())
                        apart += (at->value == m.value) != o["data"][m.key].same_as(v.o["data"][m.key]);
                }
            }
            for (const field& m : now) {
                const value there = o["data"][m.key];
                missing += !there.exists();
                if (!m.value.starts_with("{")) continue;
                for (std::size_t at = 0; (at = m.value.find("\":", at)) != std::string::npos; ++at) {
                    const std::size_t from = m.value.rfind('"', at - 1) + 1;
                    missing += !there[m.value.substr(from, at - from)].exists();
                }
            }
            missing += o["data"][h.key() + "?"].exists();
            v = {now, o};
        }
        if (round % 5 == 4) { // into a new generation
            pool.begin_generation();
            failure f;
            for (unsigned i = 0; i < held.size(); ++i) {
                held[i].o = pool.move(held[i].o, f);
                wrong += held[i].o.to_json() != document(i, held[i].data);
            }
            for (object& o : p.teachers) o = pool.move(o, f);
            drain(pool);
            CHECK(pool.statistics().generations == 1);
        }
    }
    CHECK(wrong == 0);
    CHECK(other_verdict == 0);
    CHECK(apart == 0);
    CHECK(missing == 0);
    held.clear();
    p.teachers.clear();
    while (pool.statistics().nodes > 0 && !pool.collect(1000)) {
    }
    drain(pool);
    CHECK(pool.statistics().nodes == 0);
    CHECK(pool.statistics().referenced_nodes == 0);
}

TEST_CASE("keys of an object are not taken for those of the one before it in a list", "[pool][keys]") {
    const auto pool = document_pool::make(decode_options().text_difference(false));
    const auto of_list = [](unsigned i, const std::string& data) {
        return R"({"metadata":{"name":"number )" + std::to_string(i) + R"("},"data":[)" + data + "]}";
    };
    std::vector<object> held;
    for (unsigned i = 0; i < 300; ++i) {
        fields m;
        for (unsigned k = 0; k < 40; ++k) m.push_back({"unique-" + std::to_string(i * 40 + k), "1"});
        held.push_back(decode(*pool, of_list(i, text_of(m))));
    }
    // The first keys of the second object are the cursor's, in their place or elsewhere, and as many as the first
    // object has.
    for (unsigned i = 300; i < 340; ++i) {
        const std::string own = "own-" + std::to_string(i);
        fields first{{own + "-a", "1"}}, second{{"common-b", "2"}, {own + "-c", "3"}};
        if (i % 4 != 3) {
            first.push_back({own + "-b", "2"});
            second.insert(second.begin(), {"common-a", "1"});
        }
        const object o = held.emplace_back(decode(*pool, of_list(i, text_of(first) + "," + text_of(second))));
        CAPTURE(i);
        for (const field& m : first) CHECK(o["data"][0][m.key].exists());
        for (const field& m : second) CHECK(o["data"][1][m.key].exists());
    }
}

TEST_CASE("replicas share the shape of the first though its keys are loose", "[pool][keys]") {
    const taught_pool p;
    fields m;
    for (unsigned k = 0; k < 300; ++k) m.push_back({"of these replicas " + std::to_string(k), "1"});
    std::vector<object> held{decode(*p.pool, document(0, m))};
    const pool_statistics before = p.pool->statistics();
    for (unsigned i = 1; i < 20; ++i) {
        m[i].value = "2";
        held.push_back(decode(*p.pool, document(i, m)));
    }
    CHECK(p.pool->statistics().shape_bytes == before.shape_bytes);
}

TEST_CASE("a text that breaks off amid loose keys leaves nothing behind", "[pool][keys]") {
    const taught_pool p;
    const pool_statistics before = p.pool->statistics();
    fields m;
    for (unsigned k = 0; k < 60; ++k) m.push_back({"broken off " + std::to_string(k), "\"a value\""});
    m.push_back(m[3]);
    const std::string whole = document(1, m);
    failure f;
    for (std::size_t n = 1; n < whole.size(); n += 7) CHECK_FALSE(p.pool->decode(whole.substr(0, n), object(), f));
    drain(*p.pool);
    CHECK(p.pool->statistics().nodes == before.nodes);
    CHECK(p.pool->statistics().referenced_nodes == before.referenced_nodes);
}

TEST_CASE("versions share even if a text was read by differences from one whose equal keys are other nodes",
          "[pool][keys][difference]") {
    const taught_pool p(true);
    document_pool& pool = *p.pool;
    fields m, changed;
    for (unsigned k = 0; k < 30; ++k)
        m.push_back({"the same text " + std::to_string(k), "\"a value " + std::to_string(k) + "\""});
    changed = m;
    changed[7].value = "\"another value\"";
    const object own = decode(pool, document(1, m));
    std::vector<object> held;
    history h(1);
    // so that the pool forgets the keys of `own`
    for (unsigned i = 0; i < 100; ++i) held.push_back(decode(pool, document(2000 + i, h.fresh())));
    // At some time a template is made of one of these.
    for (unsigned i = 0; i < 2000 && pool.statistics().template_hits == 0; ++i)
        held.push_back(decode(pool, document(1000 + i, m)));
    REQUIRE(pool.statistics().template_hits == 1);
    REQUIRE_FALSE(held.back()["data"].same_as(own["data"]));
    const object renamed = decode(pool, document(2, m), own);
    CHECK(renamed["data"].same_as(own["data"]));
    const object next = decode(pool, document(2, changed), renamed);
    CHECK(next.to_json() == document(2, changed));
    for (unsigned k = 0; k < m.size(); ++k) CHECK(next["data"][m[k].key].same_as(own["data"][m[k].key]) == (k != 7));
    CHECK(decode(pool, document(2, changed), next).same_as(next));
}

TEST_CASE("a member that a projection drops leaves no trace, whatever its key is", "[pool][keys][projection]") {
    const auto pool = document_pool::make(decode_options().project(projection::keep({"/spec/*/a"})));
    const auto text = [](std::string_view name, std::string_view key, std::string_view more) {
        return R"({"metadata":{"name":")" + std::string(name) + R"("},"spec":{")" + std::string(key) + R"(":{"a":1})" +
               std::string(more) + "}}";
    };
    // The key of what is kept is interned at first; once such keys do not repeat, it is not.
    std::vector<object> held;
    for (const bool loose : {false, true}) {
        CAPTURE(loose);
        for (std::size_t i = 0; loose && i < 10'000; ++i)
            held.push_back(decode(*pool, text("m", "one of many " + std::to_string(i), "")));
        const std::string key = loose ? "a last one" : "a first one";
        const object before = decode(*pool, text("m", key, ""));
        const std::uint64_t shape_bytes = pool->statistics().shape_bytes;
        for (int i = 0; i < 1000; ++i) {
            const std::string n = std::to_string(i);
            held.push_back(decode(*pool, text("m" + n, key, ",\"dropped " + n + "\":5,\"x\":null"), before));
            REQUIRE(held.back()["spec"].same_as(before["spec"]));
        }
        CHECK(pool->statistics().shape_bytes == shape_bytes);
    }
}
