// A document decoded in slices is the document decoded at once: whatever happens between two slices, and wherever it
// ends.
#include "support/pod_generator.hpp"
#include "support/pool.hpp"

#include <informer/object/document_pool.hpp>
#include <informer/object/framer.hpp>

#include <boost/json/value.hpp>
#include <catch2/catch_test_macros.hpp>

#include <functional>
#include <random>
#include <string>
#include <vector>

using namespace informer;
using informer::testing::check_empty;
using informer::testing::drain;
using informer::testing::in_slices;
using informer::testing::pod;
using informer::testing::said;

namespace {

/// 20,000 strings.
std::string long_list() {
    std::string json = "{\"list\":[";
    for (int i = 0; i < 20'000; ++i) json += "\"text number " + std::to_string(i) + "\",";
    return json + "0]}";
}

/// Texts that are nearly JSON, and near everything that is treated specially.
class mutator {
public:
    explicit mutator(unsigned seed) : random_(seed) {}
    std::size_t pick(std::size_t n) { return random_() % n; }
    std::string text() {
        static const std::vector<std::string> whole = {
            R"({"metadata":{"name":"a","managedFields":[{"x":"]\"}","y":[{}]}],"uid":"123e4567-e89b-12d3-a456-426614174000"},"n":[1e400,-0.5,12345678901]})",
            R"({"kind":"K","metadata" : { "managedFields"  :  {"a":[1,2,{"b":null}]} , "labels":{"managedFields":"x"}},"t":true,"f":false,"z":null})",
            R"({"metadata":{"managedFields":[{]]},"a":["managedFields"],"b":{"managedFields":[1]}})",
            R"({"s":"\u00e9\ud83d\ude00\\\"\n\\\\","t":"äöü日本😀","u":"\\\\\\\\\\\\\\\\\\\\","v":["\u0001","\/"]})",
            R"({"a":[[[[[[[[[[]]]]]]]]]],"a":{"b":{"c":{}}},"b":"2024-05-06T07:08:09Z","c":["abc","abcd","",1,22,333333333]})",
        };
        std::string s = pick(6) == 0 ? pod(static_cast<unsigned>(pick(50)), static_cast<unsigned>(pick(3)))
                                     : whole[pick(whole.size())];
        static const std::vector<std::string> pieces = {
            "\"",   "\\",       "{", "}", "[", "]", ",", ":", "\\u", "\\ud83d", "\xff",
            "\xe4", "\xc3\xa4", " ", "0", "-", ".", "e", "x", "\n",  "\x01",    "\"managedFields\":",
            "null", "tru"};
        for (std::size_t n = pick(4); n > 0; --n) {
            const std::size_t at = pick(s.size() + 1);
            switch (pick(4)) {
            case 0: s.insert(at, pieces[pick(pieces.size())]); break;
            case 1: s.erase(at, 1 + pick(4)); break;
            case 2: s.resize(at); break;
            default: s.replace(at, 1, pieces[pick(pieces.size())]);
            }
            if (s.size() < 2) s = "{}";
        }
        return s;
    }

private:
    std::mt19937 random_;
};

} // namespace

TEST_CASE("slices: the same documents and the same errors as at once, wherever the slices end", "[pool]") {
    mutator m(7);
    const std::vector<decode_options> all = {
        decode_options().type("v1", "Kind"), decode_options().keep_managed_fields(), decode_options().max_depth(6),
        decode_options().project(projection::keep({"/metadata/uid", "/n/1", "/a"}))};
    unsigned good = 0, bad = 0;
    for (int i = 0; i < 6000; ++i) {
        const decode_options& o = all[m.pick(all.size())];
        const auto whole = document_pool::make(o), sliced = document_pool::make(o);
        object before[2];
        for (int version = 0; version < 2; ++version) {
            const std::string json = m.text();
            const std::size_t bytes = 1 + m.pick(version == 0 ? 8 : json.size());
            failure f, g;
            const object a = whole->decode(json, before[0], f), b = in_slices(*sliced, json, before[1], g, bytes);
            if (said(f) != said(g) || bool(a) != bool(b) || (a && a.to_json() != b.to_json()) ||
                a.same_as(before[0]) != b.same_as(before[1])) {
                UNSCOPED_INFO("slices of " << bytes << " of " << json);
                UNSCOPED_INFO("at once: " << said(f) << " " << (a ? a.to_json() : std::string()));
                UNSCOPED_INFO("in slices: " << said(g) << " " << (b ? b.to_json() : std::string()));
                FAIL("they differ");
            }
            ++(a ? good : bad);
            before[0] = a;
            before[1] = b;
        }
        if (i % 50 != 0) continue;
        before[1] = object();
        check_empty(*sliced);
    }
    CHECK(good > 1500);
    CHECK(bad > 1500);
}

// Boost.JSON 1.83 writes beyond its buffer if it resumes within a character or an escape and then meets 4 KiB of them:
// boostorg/json#876.
TEST_CASE("slices: none ends within a character or an escape, even if there is nothing else for long", "[pool]") {
    const auto many = [](std::string_view what) {
        std::string s;
        for (int i = 0; i < 30'000; ++i) s += what;
        return s;
    };
    detail::pool_limits by_parser;
    by_parser.parser_only = true;
    for (const std::string& text :
         {many("\xe4\xb8\xad"), many("\xf0\x9f\x98\x80"), many("\\u4e2d") + many("\xe4\xb8\xad")}) {
        for (const char* const end : {"\"}", "\",\"b\":00}"}) { // the second one is refused: the parser says why
            const std::string json = "{\"a\":\"" + text + end;
            for (const detail::pool_limits& limits : {detail::pool_limits(), by_parser}) {
                for (std::size_t bytes = 5'000; bytes < 5'004; ++bytes) {
                    const auto whole = detail::make_pool(decode_options(), limits),
                               sliced = detail::make_pool(decode_options(), limits);
                    failure f, g;
                    const object expected = whole->decode(json, object(), f),
                                 o = in_slices(*sliced, json, object(), g, bytes);
                    CHECK(said(g) == said(f));
                    REQUIRE(bool(o) == bool(expected));
                    if (o) CHECK(o == expected);
                }
            }
        }
    }
}

TEST_CASE("slices: a text takes as many as it needs, and makes one document", "[pool]") {
    const auto pool = document_pool::make();
    const std::string json = pod(1);
    failure f;
    unsigned steps = 0;
    object o = in_slices(*pool, json, object(), f, 1000, [&] { ++steps; });
    CHECK(steps + 1 >= json.size() / 5096); // a slice may become longer for the sake of its end
    CHECK(steps >= 3);
    CHECK(o.to_json() == parse_object(json).to_json());
    // An unchanged text is its predecessor, and makes nothing.
    const std::uint64_t nodes = pool->statistics().nodes;
    CHECK(in_slices(*pool, json, o, f, 1000).root() == o.root());
    CHECK(pool->statistics().nodes == nodes);
    // One that fits into the first step is decoded there.
    auto d = pool->begin_decode(json, o);
    CHECK(d->step());
    CHECK(d->finish(f).same_as(o));
    d.reset();
    o = object();
    check_empty(*pool);
}

TEST_CASE(
    "slices: a long string with escapes, and white space, numbers and keys that nobody writes so long, go in parts",
    "[pool]") {
    constexpr std::size_t n = 1'000'000;
    std::string escaped, other;
    while (escaped.size() < n) escaped += R"(\\\"\n\u00e9\ud83d\ude00)";
    while (other.size() < n) other += "\\t\\u4e2d\xe4\xb8\xad\xf0\x9f\x98\x80";
    const std::string space(n, ' '), digits(n, '7'), value = R"("v":")" + escaped + '"';
    for (const std::string& json :
         {"{" + value + "}", R"({"a":[1,")" + other + R"(",{}]})", space + "{}", "{}" + space,
          "{" + space + value + "}", "{" + value + space + "}", R"({"a")" + space + R"(:[]})",
          R"({"a":)" + space + "1}", R"({"a":[1)" + space + ",2]}", R"({"a":[1,)" + space + "2]}",
          R"({"a":)" + digits + "}", R"({"a":-0.)" + digits + "e1}", "{\"" + escaped + R"(":1})",
          "{\"" + other + R"(":1})"}) {
        INFO(json.substr(0, 20) << "…" << json.substr(json.size() - 20));
        const auto pool = document_pool::make();
        failure f;
        unsigned steps = 0;
        object o = in_slices(*pool, json, object(), f, 10'000, [&] { ++steps; });
        INFO(f.what());
        REQUIRE(o);
        CHECK(steps > 90);
        detail::pool_limits by_parser;
        by_parser.parser_only = true;
        CHECK((o == detail::make_pool(decode_options(), by_parser)->decode(json, object(), f)));
        CHECK(pool->decode(json, o, f).same_as(o));
        // Broken at its end it is refused, for the same reason as at once.
        std::string broken = json;
        broken[broken.find_last_not_of(' ')] = '\x01';
        failure g;
        CHECK_FALSE(in_slices(*pool, broken, object(), g, 10'000));
        CHECK_FALSE(pool->decode(broken, object(), f));
        CHECK(f == errc::syntax_error);
        CHECK(said(g) == said(f));
        o = object();
        check_empty(*pool);
    }
}

TEST_CASE("slices: if a decoding is given up at any of them, nothing is left", "[pool]") {
    const std::string old = pod(3), json = pod(3, 1);
    for (const bool with_previous : {false, true}) {
        const auto pool = document_pool::make();
        failure f;
        object before = with_previous ? pool->decode(old, object(), f) : object();
        drain(*pool);
        const pool_statistics at_first = pool->statistics();
        bool whole = false;
        for (std::size_t n = 0; !whole; ++n) {
            auto d = pool->begin_decode(json, before);
            for (std::size_t i = 0; i < n && !whole; ++i) whole = d->step(64);
            d.reset();
            drain(*pool);
            const pool_statistics now = pool->statistics();
            REQUIRE(now.nodes == at_first.nodes);
            REQUIRE(now.referenced_nodes == at_first.referenced_nodes);
            REQUIRE(now.objects == at_first.objects);
        }
        before = object();
        check_empty(*pool);
    }
}

TEST_CASE("slices: a decoding that is given up is freed a share at a time", "[pool]") {
    const auto pool = document_pool::make();
    const std::string json = long_list();
    {
        const auto d = pool->begin_decode(json, object());
        while (pool->statistics().nodes < 15'000) REQUIRE_FALSE(d->step(1000));
    }
    CHECK(pool->statistics().nodes >= 15'000);
    unsigned shares = 0;
    while (!pool->collect(1000)) ++shares;
    CHECK(shares >= 15);
    check_empty(*pool);
}

TEST_CASE("slices: a large dead document is not freed in one step with the next small one", "[pool]") {
    const auto pool = document_pool::make();
    const std::string json = long_list();
    failure f;
    object o = in_slices(*pool, json, object(), f, 10'000);
    REQUIRE(pool->statistics().nodes > 20'000);
    o = object();
    pool->decode(R"({"a":1})", object(), f);
    CHECK(pool->statistics().nodes > 15'000);
    check_empty(*pool);
}

TEST_CASE("slices: a pool that fills at any point rolls back, is emptied and tried again", "[pool]") {
    const std::string json = pod(5);
    const object expected = parse_object(json);
    unsigned full = 0, stored = 0, rescued = 0;
    for (std::uint64_t bytes = 256; bytes < 40'000; bytes += 208) {
        detail::pool_limits limits;
        limits.max_bytes = bytes;
        limits.first_chunk = 256;
        const auto pool = detail::make_pool(decode_options(), limits);
        failure f, g;
        // Something that fills it and is dead when the slices meet the limit.
        object filler = pool->decode(pod(1), object(), g);
        unsigned steps = 0;
        object o = in_slices(*pool, json, object(), f, 100, [&] {
            if (++steps == 5) filler = object();
        });
        if (o) {
            ++stored;
            rescued += steps > json.size() / 100 ? 1 : 0;
            CHECK(o == expected);
            o = object();
        } else {
            ++full;
            CHECK(f == errc::pool_full);
        }
        filler = object();
        check_empty(*pool);
        CHECK(bool(pool->decode(R"({"a":[true]})", object(), f)));
    }
    CHECK(full >= 10);
    CHECK(stored >= 10);
    CHECK(rescued >= 1);
}

TEST_CASE("slices: between them the pool decodes, frees, counts, moves and begins generations", "[pool]") {
    std::mt19937 random(11);
    const auto pool = document_pool::make();
    std::vector<object> held(40);
    failure f;
    unsigned revision = 0, generations = 0;
    for (unsigned i = 0; i < held.size(); ++i) held[i] = pool->decode(pod(i), object(), f);
    for (int round = 0; round < 200; ++round) {
        const std::size_t slot = random() % held.size();
        const std::string json = pod(static_cast<unsigned>(slot), revision += static_cast<unsigned>(random() % 2));
        object previous = random() % 3 == 0 ? object() : held[slot];
        if (random() % 4 == 0) held[slot] = object();
        const std::string expected = parse_object(json).to_json();
        object o = in_slices(*pool, json, previous, f, 300, [&] {
            const std::size_t other = random() % held.size();
            switch (random() % 40) {
            case 0:
                pool->begin_generation();
                ++generations;
                break;
            case 1: pool->collect(random() % 100); break;
            case 2: drain(*pool); break;
            case 3: held[other] = object(); break;
            case 4: held[other] = pool->decode(pod(static_cast<unsigned>(other), ++revision), held[other], f); break;
            case 5: held[other] = pool->move(held[other], f); break;
            case 6: held[other] = pool->decode(json, object(), f); break;
            case 7: CHECK(pool->statistics().nodes > 0); break;
            case 8: {
                const std::string its = pod(static_cast<unsigned>(other), revision);
                const auto another = pool->begin_decode(its, held[other]);
                for (std::size_t n = random() % 50; n > 0 && !another->step(300); --n) {
                }
                held[other] = another->finish(f);
                break;
            }
            default: break;
            }
        });
        REQUIRE(!f);
        REQUIRE(o.to_json() == expected);
        held[slot] = std::move(o);
    }
    CHECK(generations > 5);
    held.clear();
    check_empty(*pool);
}

TEST_CASE("slices: a document equal except for the order of members is no new version, found in steps", "[pool]") {
    std::string one = R"({"metadata":{"name":"x"},"list":[)", other = R"({"list":[)";
    for (int i = 0; i < 3000; ++i) {
        const std::string n = std::to_string(i);
        one += R"({"a":"text )" + n + R"(","b":[1.0,)" + n + "]},";
        other += R"({"b":[1,)" + n + R"(],"a":"text )" + n + R"("},)";
    }
    one += "0]}";
    other += R"(0],"metadata":{"name":"x"}})";
    const auto pool = document_pool::make();
    failure f;
    object a = pool->decode(one, object(), f);
    unsigned steps = 0;
    object b = in_slices(*pool, other, a, f, 1000, [&] { ++steps; });
    CHECK(b.root() == a.root());
    CHECK(steps > other.size() / 1000 + 10);
    // A difference in the last place counts.
    other.replace(other.rfind("\"x\""), 3, "\"y\"");
    b = in_slices(*pool, other, a, f, 1000);
    CHECK(b != a);
    CHECK(b.meta().name() == "y");
    a = b = object();
    check_empty(*pool);
}

TEST_CASE("slices: keys in another order are recognized even if an object died between two slices", "[pool]") {
    // Four objects with short keys. The second one is read alongside the first, the fourth alongside the third. The
    // first two die when the value of their key comes a second time, and the keys of the third one take their place.
    static constexpr unsigned n = 300;
    const auto wide = [](unsigned members, const std::function<unsigned(unsigned)>& place) {
        std::string s;
        for (unsigned i = 0; i < members; ++i) {
            const std::string number = std::to_string(place(i));
            s.append(i == 0 ? "{\"" : ",\"").append(number).append("\":").append(number);
        }
        return s + "}";
    };
    for (const unsigned members : {n, n + 5}) { // with either number the keys take as much memory
        CAPTURE(members);
        const std::string text =
            R"({"metadata":{"name":"x"},"p":{"a":[)" + wide(members, [](unsigned i) { return i; }) + "," +
            wide(members, [&](unsigned i) { return members - 1 - i; }) + R"(],"a":0},"pad":")" +
            std::string(100'000, 'x') + R"(","q":[)" + wide(n, [](unsigned i) { return i * 7 % n; }) + "," +
            wide(n, [](unsigned i) { return (n - 1 - i) * 7 % n; }) + "]}";
        const auto pool = document_pool::make();
        failure f;
        object o = in_slices(*pool, text, object(), f, decoding::slice);
        REQUIRE(!f);
        CHECK((o.to_json() == parse_object(text).to_json())); // in parentheses, so as not to be printed
        for (unsigned i = 0; i < n; ++i) REQUIRE(o["q"][std::size_t{1}][std::to_string(i)].int64_or(n) == i);
        o = object();
        check_empty(*pool);
    }
}

TEST_CASE("slices: a decoding holds its pool and the previous version", "[pool]") {
    failure f;
    auto pool = document_pool::make();
    object old = pool->decode(pod(1), object(), f);
    const std::string json = pod(1, 1);
    auto d = pool->begin_decode(json, old);
    CHECK_FALSE(d->step(100));
    old = object();
    pool.reset();
    while (!d->step(100)) {
    }
    const object o = d->finish(f);
    d.reset();
    CHECK(!f);
    CHECK(o.to_json() == parse_object(json).to_json());
}

TEST_CASE("slices: a transform is applied, once", "[pool]") {
    int times = 0;
    const auto pool = document_pool::make(decode_options().transform_with([&](boost::json::value& v) {
        ++times;
        v.as_object()["seen"] = true;
    }));
    failure f;
    const object o = in_slices(*pool, pod(1), object(), f, 100);
    CHECK(o["seen"].as_bool());
    CHECK(times == 1);
}

TEST_CASE("slices: the key is found in steps as at once", "[pool]") {
    mutator m(3);
    unsigned named = 0;
    for (int i = 0; i < 5000; ++i) {
        const std::string json = m.text();
        const object_key key = peek_key(json);
        for (const std::size_t bytes : {std::size_t(1), 1 + m.pick(30), json.size() + 1}) {
            key_peek peek(json);
            std::size_t steps = 1;
            while (!peek.step(bytes)) REQUIRE(++steps <= json.size() + 1);
            INFO("steps of " << bytes << " in " << json);
            REQUIRE(peek.key() == key);
        }
        named += key.empty() ? 0 : 1;
    }
    CHECK(named > 500);
}

TEST_CASE("slices: the key is found in steps in long metadata, but not behind absurd blanks or names", "[framer]") {
    std::string annotations;
    for (int i = 0; i < 20'000; ++i) annotations += "\"a" + std::to_string(i) + R"(":"\\\"\\",)";
    const std::string space(100'000, ' '), many(100'000, 'n');
    const auto found = [](const std::string& json) {
        key_peek peek(json);
        unsigned steps = 1;
        while (!peek.step(10'000)) ++steps;
        CHECK(peek.key() == peek_key(json));
        CHECK(steps + 15 > json.size() / 10'000); // keys and what is looked for are not divided
        return peek.key();
    };
    const std::string name = R"("name":"n","namespace":"ns"})";
    CHECK(found(R"({"metadata":{"annotations":{)" + annotations + R"("z":""},)" + name + "}") == object_key("ns", "n"));
    CHECK(found(R"({"metadata":{)" + annotations + name + "}") == object_key("ns", "n"));
    CHECK(found("{" + annotations + R"("metadata":{)" + name + "}") == object_key("ns", "n"));
    for (const std::string& json :
         {space + R"({"metadata":{)" + name + "}", R"({"metadata":)" + space + "{" + name + "}",
          R"({"metadata":{)" + space + name + "}", R"({"metadata":{"name")" + space + R"(:"n"}})",
          R"({"metadata":{"name":"n")" + space + R"(,"a":0}})", R"({"metadata":{"name":"n",)" + space + R"("a":0}})",
          R"({"metadata":{"name":")" + many + R"("}})", R"({"metadata":{")" + many + R"(":1,)" + name + "}"}) {
        INFO(json.substr(0, 30));
        CHECK(peek_key(json).empty());
    }
}

TEST_CASE("a second document behind the first is refused, whatever its keys", "[pool]") {
    for (const char* json :
         {R"({"a":1}{"b":2})", R"({"a":1} {"metadata":{"managedFields":[1]}})", R"({} "managedFields")"}) {
        failure f;
        CHECK_FALSE(parse_object(json, f));
        CHECK(f == errc::syntax_error);
    }
}
