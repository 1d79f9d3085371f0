// What a server could send that an informer does not see every day: huge, tiny and hostile documents. Their cost is
// measured in counts and bytes.
#include "object/detail/intern_table.hpp"
#include "object/detail/packed.hpp"
#include "root/hash.hpp"

#include "alike_keys.hpp"
#include "support/pool.hpp"

#include <informer/object/diff.hpp>
#include <informer/object/document_pool.hpp>

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <ctime>
#include <functional>
#include <initializer_list>
#include <random>
#include <string>
#include <vector>

using namespace informer;
using informer::testing::decode;
using informer::testing::drain;
using informer::testing::padded;

namespace {

std::string join(std::size_t n, const std::function<std::string(std::size_t)>& f) {
    std::string s;
    for (std::size_t i = 0; i < n; ++i) s.append(i ? "," : "").append(f(i));
    return s;
}

std::string field(const std::string& key, const std::string& value) {
    std::string s = "\"";
    return s.append(key).append("\":").append(value);
}

std::string alike(std::size_t n) {
    return testing::alike(n, n + 7);
}

std::string object_of(std::size_t n, const std::function<std::string(std::size_t)>& key) {
    return "{" + join(n, [&](std::size_t i) { return field(key(i), std::to_string(i)); }) + "}";
}

struct shared_pool {
    std::shared_ptr<document_pool> pool = document_pool::make(decode_options().text_difference(false));
    pool_statistics now() const { return pool->statistics(); }
};

} // namespace

// ---- keys

TEST_CASE("members of a wide object are found, whatever their keys look like", "[pool][edges]") {
    const auto pool = document_pool::make();
    const auto check = [&](std::size_t n, const std::function<std::string(std::size_t)>& key) {
        const std::string json = object_of(n, key);
        const object o = decode(*pool, json);
        CHECK(o.value().size() == n);
        CHECK(o.to_json() == json);
        std::size_t wrong = 0;
        for (std::size_t i = 0; i < n; ++i) wrong += o.value()[key(i)].as_int64() != static_cast<std::int64_t>(i);
        for (std::size_t i = n; i < 2 * n; ++i) wrong += o.value()[key(i)].exists();
        CHECK(wrong == 0);
        CHECK_FALSE(o.value()["absent"].exists());
        CHECK_FALSE(o.value()[""].exists());
    };
    for (const std::size_t n : std::initializer_list<std::size_t>{1, 8, 9, 10, 33, 255, 256, 257, 258, 1000, 20'000})
        check(n, alike);
    const auto longer = [](std::size_t i) { return "x" + std::to_string(i) + std::string(80, 'y'); };
    check(300, longer);
    check(300, [](std::size_t i) { return std::to_string(i); }); // some fit into a handle
}

TEST_CASE("a wide object in another order shares all its values with its older version", "[pool][edges]") {
    for (const std::size_t n : std::initializer_list<std::size_t>{100, 256, 257, 3000}) { // none a multiple of seven
        const auto pool = document_pool::make();
        const auto text = [&](std::size_t from) {
            return "{" +
                   join(n,
                        [&](std::size_t i) {
                            const std::string k = alike((i * 7 + from) % n);
                            return field(k, "{" + field(k, "[\"" + k + "\"]") + "}");
                        }) +
                   "}";
        };
        std::string first = text(0), second = text(n / 2 + 1);
        second.insert(second.size() - 1, "," + field("one-more", "1"));
        const object a = decode(*pool, first), b = decode(*pool, second, a);
        std::size_t differ = 0;
        for (std::size_t i = 0; i < n; ++i) differ += !b.value()[alike(i)].same_as(a.value()[alike(i)]);
        CHECK(differ == 0);
        const auto changes = diff(a, b);
        REQUIRE(changes.size() == 1);
        CHECK(changes[0].pointer == "/one-more");
    }
}

TEST_CASE("very many short keys are not compared one by one with very many others", "[pool][edges]") {
    constexpr unsigned n = 100'000;
    static constexpr std::string_view letters = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz~";
    const auto text = [](unsigned first) { // every second one, in order, as API servers write them
        std::string s = R"({"metadata":{"name":"a"},"data":{)";
        for (unsigned i = first; i < 2 * n; i += 2)
            s.append(i == first ? "\"" : ",\"")
                .append({letters[i >> 12], letters[i >> 6 & 63], letters[i & 63]})
                .append("\":1");
        return s + "}}";
    };
    failure f;
    const auto pool = document_pool::make();
    std::clock_t spent = 0; // processor time: other processes may be busy
    const auto read = [&](unsigned first, const object& previous) {
        const auto begun = std::clock();
        object o = pool->decode(text(first), previous, f);
        spent = std::clock() - begun;
        return o;
    };
    const object even = read(0, object());
    const auto alone = spent;
    REQUIRE(even["data"].size() == n);
    const object odd = read(1, even);
    CHECK(spent < 20 * alone); // it would be hundreds of times otherwise
    CHECK(odd["data"].size() == n);
    CHECK(odd.to_json() == text(1));
    CHECK(pool->decode(text(0), odd, f).to_json() == text(0));
}

TEST_CASE("of keys that come twice in a wide object the last value counts, at the first place", "[pool][edges]") {
    for (const std::size_t n : std::initializer_list<std::size_t>{10, 16, 17, 60, 400}) {
        const auto pool = document_pool::make();
        const auto key = [](std::size_t i) { return i % 3 == 0 ? std::to_string(i % 100) : alike(i); };
        std::string twice = "{" + join(n, [&](std::size_t i) { return field(key(i), "[1]"); }) + ",";
        twice += join(n, [&](std::size_t i) { return field(key(n - 1 - i), std::to_string(n - 1 - i)); }) + "}";
        std::vector<std::string> seen;
        std::string expected = "{";
        for (std::size_t i = 0; i < n; ++i) {
            if (std::find(seen.begin(), seen.end(), key(i)) != seen.end()) continue;
            seen.push_back(key(i));
            std::size_t value = i; // the smallest number with this key comes last
            expected += (seen.size() > 1 ? "," : "") + field(key(i), std::to_string(value));
        }
        expected += "}";
        CHECK(decode(*pool, twice).to_json() == expected);
    }
}

TEST_CASE("every list of keys is stored once, also when its keys are new", "[pool][edges]") {
    for (const std::size_t n : std::initializer_list<std::size_t>{1, 8, 9, 30, 45, 300}) {
        const auto key = [](std::size_t i) { return "key-number-" + std::to_string(i); };
        shared_pool flat, nested;
        decode(*flat.pool, object_of(n, key));
        // The last value has the very keys of the object around it.
        const std::string inner = object_of(n, key);
        const std::string outer =
            "{" + join(n, [&](std::size_t i) { return field(key(i), i + 1 == n ? inner : "1"); }) + "}";
        const object o = decode(*nested.pool, outer);
        CHECK(o.to_json() == outer);
        CHECK(nested.now().shape_bytes == flat.now().shape_bytes);
    }
}

TEST_CASE("a text that breaks off amid many unknown keys leaves nothing behind", "[pool][edges]") {
    shared_pool p;
    const object held = decode(*p.pool, R"({"some-key":1,"another-key":["text"]})");
    drain(*p.pool);
    const pool_statistics before = p.now();
    std::string json =
        R"({"some-key":2,"list":[)" + object_of(50, alike) + R"(],"data":{"nested":)" + object_of(50, alike) + "}}";
    for (std::size_t n = 0; n < json.size(); n += 3) {
        failure f;
        REQUIRE_FALSE(p.pool->decode(json.substr(0, n), held, f));
        REQUIRE(f);
    }
    drain(*p.pool);
    CHECK(p.now().nodes == before.nodes);
    CHECK(p.now().referenced_nodes == before.referenced_nodes);
    CHECK(decode(*p.pool, json, held).to_json() == json);
}

TEST_CASE("a projection takes its members from among many unknown keys", "[pool][edges]") {
    const auto key = [](std::size_t i) { return "key-number-" + std::to_string(i); };
    const auto value = [](std::size_t i) { return i % 3 == 0 ? R"({"a":"text","b":2})" : "\"text\""; };
    const std::string json = R"({"spec":{)" + join(100, [&](std::size_t i) { return field(key(i), value(i)); }) + "}}";
    const std::string expected =
        R"({"spec":{)" + join(34, [&](std::size_t i) { return field(key(i * 3), R"({"a":"text"})"); }) + "}}";
    CHECK(parse_object(json, decode_options().project(projection::keep({"/spec/*/a"}))).to_json() == expected);
}

TEST_CASE("10,000 shapes are stored right and found again", "[pool][edges]") {
    const auto text = [](std::size_t i) {
        std::mt19937 random(static_cast<unsigned>(i));
        return "{" +
               join(20,
                    [&](std::size_t k) {
                        return field("f" + std::to_string(random() % 300) + "-" + std::to_string(k), "\"v\"");
                    }) +
               "}";
    };
    shared_pool p;
    std::vector<object> held;
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < 10'000; ++i) {
        held.push_back(decode(*p.pool, text(i)));
        wrong += held.back().to_json() != text(i);
    }
    CHECK(wrong == 0);
    const pool_statistics once = p.now();
    for (std::size_t i = 10'000; i-- > 0;) held.push_back(decode(*p.pool, text(i)));
    CHECK(p.now().shape_bytes == once.shape_bytes);
    CHECK(p.now().string_bytes == once.string_bytes);
    held.clear();
    drain(*p.pool);
    CHECK(p.now().nodes == 0);
    CHECK(p.now().referenced_nodes == 0);
}

// ---- the table

TEST_CASE("the intern table looks at few slots for a missing node, at any size", "[pool][edges]") {
    const detail::hash_seed seed = detail::hash_seed::random();
    const auto hash = [&](const std::string& s) { return detail::hash_bytes(seed, 1, s.data(), s.size()); };
    detail::intern_table table;
    std::uint64_t worst = 0, sum = 0, asked = 0;
    for (std::uint32_t i = 0; i < 200'000; ++i) {
        const std::uint64_t h = hash(alike(i));
        table.reserve(h);
        table.insert(h, detail::node_bit | i);
        if (i % 16 != 0) continue;
        const std::uint64_t slots = table.slots_passed(hash(alike(i + 1'000'000)));
        worst = std::max(worst, slots);
        sum += slots;
        ++asked;
    }
    CHECK(sum <= 4 * asked); // 1.6 expected at a load of 0.75
    CHECK(worst <= 100);
}

TEST_CASE("the intern table grows in small steps and keeps its load", "[pool][edges]") {
    const detail::hash_seed seed = detail::hash_seed::random();
    detail::intern_table table;
    std::uint64_t most = 0, before = table.bytes();
    for (std::uint32_t i = 0; i < 1'000'000; ++i) {
        const std::uint64_t h = detail::hash_bytes(seed, 1, &i, sizeof i);
        table.reserve(h);
        table.insert(h, detail::node_bit | i);
        const std::uint64_t now = table.bytes();
        most = std::max(most, now > before ? now - before : before - now);
        before = now;
    }
    CHECK(most <= 128 * 1024);
    CHECK(before <= 1'000'000 * 13);
}

// ---- memory

TEST_CASE("a million tiny objects would cost at most 200 bytes each beyond their unique text", "[pool][edges]") {
    for (const bool by_differences : {true, false}) {
        const auto pool = document_pool::make(decode_options().type("v1", "Thing").text_difference(by_differences));
        std::vector<object> held;
        constexpr std::size_t n = 50'000;
        for (std::size_t i = 0; i < n; ++i)
            held.push_back(decode(*pool, R"({"metadata":{"name":"o)" + std::to_string(i) +
                                             R"(","namespace":"n"},"spec":{"holder":"holder-number-)" +
                                             std::to_string(i) + R"(","n":)" + std::to_string(i % 7) + "}}"));
        const std::size_t own = 6 + 19;
        CHECK(pool->statistics().bytes / n <= 200 + own);
    }
}

TEST_CASE("one huge first document stops interning in the middle, like many small ones", "[pool][edges]") {
    shared_pool p;
    const object o =
        decode(*p.pool, R"({"list":[)" + join(100'000, [](std::size_t i) {
                            return R"({"name":"entry-)" + std::to_string(i) + R"(","tags":["some","tags"]})";
                        }) + "]}");
    const pool_statistics s = p.now();
    CHECK(o.value()["list"].size() == 100'000);
    CHECK(o.value()["list"][99'999].to_json() == R"({"name":"entry-99999","tags":["some","tags"]})");
    // A string of 20 or 24 bytes and an object of 16 each, and the list; the tags are there once.
    CHECK(s.node_bytes <= 100'000 * (24 + 16 + 4) + 4096);
    CHECK(s.table_bytes <= s.node_bytes / 3);
}

TEST_CASE("the cost of a value is bounded whatever it is, and given back", "[pool][edges]") {
    const auto unique = [](std::size_t i) { return "\"" + padded(i * 7919, 40) + "\""; };
    struct kind {
        std::size_t most; ///< bytes per value
        std::function<std::string(std::size_t)> text;
    };
    const auto list = [](const std::function<std::string(std::size_t)>& element) {
        return [element](std::size_t i) {
            return "[" + join(200, [&](std::size_t k) { return element(i * 200 + k); }) + "]";
        };
    };
    const kind kinds[] = {
        {40 + 8 + 4 + 4, list(unique)},
        {16 + 4 + 4, list([](std::size_t n) { return "0.1" + padded(n, 13) + "1"; })},
        // A key is in the table and in the list of keys.
        {40 + 8 + 13 + 9,
         [&](std::size_t i) {
             return "{" + join(200, [&](std::size_t k) { return unique(i * 200 + k) + ":\"v\""; }) + "}";
         }},
        // Each with a list of keys of its own.
        {24 + 8 + 13 + 16 + 13 + 12 + 4 + 4, list([](std::size_t n) { return "{" + field(alike(n), "1") + "}"; })},
    };
    for (const kind& k : kinds) {
        const auto pool = document_pool::make();
        const std::uint64_t empty = pool->statistics().bytes;
        std::vector<object> held;
        for (std::size_t i = 0; i < 400; ++i) {
            const std::string json = R"({"data":)" + k.text(i) + "}";
            held.push_back(decode(*pool, json));
            REQUIRE(held.back().to_json() == json);
        }
        const pool_statistics full = pool->statistics();
        CHECK(full.bytes - full.free_bytes <= 400 * 200 * k.most + 200'000);
        held.clear();
        drain(*pool);
        // Nothing is left but what the pool needs for its next document: records of paths, stacks.
        const pool_statistics after = pool->statistics();
        CHECK(after.nodes == 0);
        CHECK(after.referenced_nodes == 0);
        CHECK(after.bytes <= empty + 256 * 1024);
    }
}

// ---- numbers

TEST_CASE("a decimal is stored in binary exactly when it prints back the same", "[pool][edges]") {
    const auto expected = [](const std::string& text) {
        double d = 0;
        const auto r = std::from_chars(text.data(), text.data() + text.size(), d);
        char buffer[64];
        const auto end = std::to_chars(buffer, buffer + sizeof buffer, d).ptr;
        return r.ptr == text.data() + text.size() &&
                       text == std::string_view(buffer, static_cast<std::size_t>(end - buffer))
                   ? d
                   : -1.0;
    };
    std::mt19937_64 random(3);
    std::size_t wrong = 0, binary = 0;
    const auto check = [&](const std::string& text) {
        const auto form = detail::classify_number(text);
        const double d = expected(text);
        const bool is_binary = form.type == detail::number_form::type::floating;
        binary += is_binary;
        if (is_binary ? form.d != d : d != -1.0) {
            ++wrong;
            CAPTURE(text);
            CHECK(form.d == d);
        }
    };
    for (int i = 0; i < 200'000; ++i) {
        std::string digits = std::to_string(random() % 1'000'000'000'000'000'000);
        digits.resize(std::min<std::size_t>(digits.size(), 1 + random() % 18));
        const std::size_t whole = random() % (digits.size() + 1);
        std::string text = digits.substr(0, whole) + "." + std::string(random() % 4 == 0 ? random() % 8 : 0, '0') +
                           digits.substr(whole);
        if (whole == 0 || text[0] == '.') text.insert(0, "0");
        if (text.back() == '.') text += random() % 2 ? "0" : "5";
        if (text[0] == '0' && text[1] != '.') text.erase(0, 1);
        check(text);
    }
    CHECK(wrong == 0);
    CHECK(binary > 50'000);
    for (const char* s : {"0.1",
                          "0.001",
                          "0.0001",
                          "0.00012",
                          "0.00001",
                          "0.000012",
                          "0.0000012",
                          "1.0",
                          "0.0",
                          "1.50",
                          "99999999.5",
                          "123456789012345.5",
                          "12345678901234.5",
                          "0.123456789012345",
                          "0.1234567890123456",
                          "0.30000000000000004",
                          "4503599627370497.5",
                          "0.123456789012e5",
                          "0.12345678901E+5",
                          "1.23456789012345e-5",
                          "12.3456789e-00001",
                          "0.12345678901234567",
                          "1.1234567890123456"})
        check(s);
    CHECK(detail::classify_number("-0.5").d == -0.5);
    CHECK(detail::classify_number("-0").type == detail::number_form::type::text);
    CHECK(detail::classify_number("-0.0").type == detail::number_form::type::text);
    CHECK(detail::classify_number("-123456789012345678").i == -123'456'789'012'345'678);
    CHECK(detail::classify_number("9223372036854775808").u == 9'223'372'036'854'775'808u);
}
