// Keys become names, values become objects.
#include "bench.hpp"
#include "etcd/document.hpp"

#include <informer/object/json.hpp>

#include "support/fuzz.hpp"

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>

#include <random>

using namespace etcd_test;
using namespace informer::etcd::detail;

namespace {

std::string name(const mapping& m, std::string_view key) {
    const named_key n = name_of(m, key);
    return (n.fits ? "" : "bad ") + n.key.str();
}

/// The object that the pool would hold, without uid, generation and version; or the error.
std::string made(const mapping& m, const std::string& value, const std::string& key = "/s/a") {
    key_value kv;
    kv.key = key;
    kv.value = value;
    kv.create_revision = 5;
    kv.mod_revision = 9;
    kv.version = 3;
    const named_key n = name_of(m, key);
    document d;
    failure f;
    if (!d.make(m, n, kv, kv.mod_revision, f)) return f.what();
    object o = parse_object(d.text(), f);
    if (f == errc::syntax_error && d.try_as_text(m, n, kv, kv.mod_revision)) o = parse_object(d.text(), f);
    if (f) return "decode: " + f.code().message();
    if (!is_the_one(o, n, kv.mod_revision)) return "another one";
    auto v = to_value(o);
    auto& metadata = v.as_object()["metadata"].as_object();
    CHECK(metadata["uid"].as_string() == uid_of(key, 5));
    CHECK(metadata["generation"].as_int64() == 3);
    metadata.erase("uid");
    metadata.erase("generation");
    metadata.erase("resourceVersion");
    return boost::json::serialize(v);
}

} // namespace

TEST_CASE("etcd prefixes: the range of all keys that begin with them") {
    CHECK(range_begin("/s/") == "/s/");
    CHECK(range_end("/s/") == "/s0");
    CHECK(range_end("a\xff\xff") == "b");
    CHECK(range_end("\xff") == std::string(1, '\0'));
    CHECK(range_begin("") == std::string(1, '\0'));
    CHECK(range_end("") == std::string(1, '\0'));
}

TEST_CASE("etcd keys: the part after the prefix is name or namespace/name; other keys get names that no object has") {
    const mapping flat("/s/"), spaced = mapping("/s/").namespaced();
    CHECK(name(flat, "/s/a") == "a");
    CHECK(name_of(flat, "/s/a/b").key == object_key("", "a/b"));
    CHECK(name_of(spaced, "/s/a/b").key == object_key("a", "b"));
    CHECK(name_of(spaced, "/s/a/b/c").key == object_key("a", "b/c"));
    CHECK(name(flat, "/s/") == "bad key//s/");
    CHECK(name(flat, "/s/\xff\n%") == "bad key//s/%ff%0a%25");
    CHECK(name(spaced, "/s/a") == "bad /s/a");
    CHECK(name(spaced, "/s//a") == "bad /s//a");
    CHECK(name(spaced, "/s/a/") == "bad /s/a/");
    CHECK(name(mapping(""), "x") == "x");
    for (const std::string key : {"/s/a", "/s/a/b", "/s/a/b/c", "/s/", "/s//a", "/s/a/", "/s/50%/b"}) {
        CHECK(flat.etcd_key(name_of(flat, key).key) == key);
        CHECK(spaced.etcd_key(name_of(spaced, key).key) == key);
    }
    CHECK(flat.etcd_key(name_of(flat, "/s/\xff").key) == "/s/%ff");
}

TEST_CASE("etcd uids: a UUID of the key and the revision that created it") {
    CHECK(uid_of("/s/a", 5) != uid_of("/s/a", 6));
    CHECK(uid_of("/s/a", 5) != uid_of("/s/b", 5));
    CHECK(uid_of("/s/a", 0x123456789abcdef).substr(0, 18) == "456789ab-cdef-8123");
    const std::string u = uid_of("/s/a", 5);
    REQUIRE(u.size() == 36);
    CHECK(u.substr(0, 15) == "00000000-0005-8");
    CHECK(u[19] >= '8');
}

TEST_CASE("etcd values: a JSON object is the object; its labels stay, its identity is the key's") {
    const mapping m("/s/");
    CHECK(made(m, R"({"x":1})") == R"({"x":1,"metadata":{"name":"a"}})");
    CHECK(made(m, " { } \n") == R"({"metadata":{"name":"a"}})");
    CHECK(
        made(
            m,
            R"({"metadata":{"labels":{"l":"1"},"name":"evil","uid":"u","resourceVersion":"1"},"x":[{"metadata":2}]})") ==
        R"({"metadata":{"labels":{"l":"1"},"name":"a"},"x":[{"metadata":2}]})");
    CHECK(made(m, R"({"metadata":{ },"x":1})") == R"({"metadata":{"name":"a"},"x":1})");
    CHECK(made(m, R"({"metadata":null,"x":1})") == R"({"metadata":{"name":"a"},"x":1})");
    CHECK(made(m, R"({"metadata":{"namespace":"evil"}})") == R"({"metadata":{"namespace":"","name":"a"}})");
    CHECK(made(m, R"({"metadata":{"n\u0061me":"evil","namesp\u0061ce":"evil"}})") ==
          R"({"metadata":{"name":"a","namespace":""}})");
    CHECK(made(m, R"({"metad\u0061ta":{"name":"evil","labels":{}},"x":1})") ==
          R"({"metadata":{"name":"a","labels":{}},"x":1})");
    CHECK(made(m, R"({"metadata":{"name":"evil"},"metadata":{"y":1}})") == R"({"metadata":{"y":1,"name":"a"}})");
    CHECK(made(mapping("/s/").namespaced(), R"({"metadata":{"namespace":"evil"}})", "/s/n/a\"\\\x01") ==
          R"({"metadata":{"namespace":"n","name":"a\"\\\u0001"}})");
}

TEST_CASE("etcd values: a value that is no JSON object is reported, and does not become one") {
    const mapping m("/s/");
    for (const char* bad : {"", "x", "7", "\"{}\"", "[{}]", "true", "null"}) {
        CAPTURE(bad);
        CHECK(made(m, bad).find("wrap_values()") != std::string::npos);
    }
    for (const char* bad :
         {"{", "{]", "{}}", "{},{}", R"({"a":1},"b":{"c":2})", R"({"a"})", "{\"a\":1}x", "{a:1}", R"({"metadata":{]}})",
          R"({"a":1,})", R"({,"a":1})", R"({"metadata":{}}})", R"({"metadata":{"a":1,}})", R"({"a":1 "b":2})"}) {
        CAPTURE(bad);
        CHECK(made(m, bad).substr(0, 7) == "decode:");
    }
    CHECK(made(m, R"({"metadata":"mine"})").find("metadata of the value is no object") != std::string::npos);
}

TEST_CASE("etcd values: if wrapped, JSON stays JSON, other text becomes a string, and bytes become base64") {
    const mapping others = mapping("/s/").wrap_values(), all = mapping("/s/").wrap_values(wrap::all);
    const auto wrapped = [](const std::string& v) { return R"({"metadata":{"name":"a"},"value":)" + v + "}"; };
    CHECK(made(others, R"({"x":1})") == R"({"x":1,"metadata":{"name":"a"}})");
    CHECK(made(all, R"({"x":1,"metadata":"mine","kind":7})") == wrapped(R"({"x":1,"metadata":"mine","kind":7})"));
    for (const auto& m : {others, all}) {
        CHECK(made(m, " 7 ") == wrapped("7"));
        CHECK(made(m, "true") == wrapped("true"));
        CHECK(made(m, R"("on")") == wrapped(R"("on")"));
        CHECK(made(m, "[1,{}]") == wrapped("[1,{}]"));
        CHECK(made(m, "") == wrapped(R"("")"));
        CHECK(made(m, "tru") == wrapped(R"("tru")"));
        CHECK(made(m, "10.0.0.1:80") == wrapped(R"("10.0.0.1:80")"));
        CHECK(made(m, "two\nlines \"") == wrapped(R"("two\nlines \"")"));
        CHECK(made(m, R"(1,"metadata":{"name":"evil"})") == wrapped(R"("1,\"metadata\":{\"name\":\"evil\"}")"));
        CHECK(made(m, R"("a\q")") == wrapped(R"("\"a\\q\"")"));
        CHECK(made(m, "\xff\x01") == R"({"metadata":{"name":"a"},"valueBase64":"/wE="})");
        // Half a document is not wrapped as text: nobody can have meant it.
        CHECK(made(m, "[1").find("begins like JSON") != std::string::npos);
        CHECK(made(m, "[1}") == "decode: " + make_error_code(errc::syntax_error).message());
    }
    CHECK(made(all, R"({"x":)").find("begins like JSON") != std::string::npos);
}

TEST_CASE("etcd values: whatever a value holds, its object has the key's name, and is no other document") {
    std::mt19937 random(testing::fuzz_seed(20261124));
    const auto pick = [&](std::size_t n) { return std::uniform_int_distribution<std::size_t>(0, n - 1)(random); };
    const std::vector<std::string> seeds{
        R"({"metadata":{"name":"evil","namespace":"evil","labels":{"l":"1"}},"x":[1,{"metadata":{}}]})",
        R"( { "a" : "}\"," , "metadata" : { } , "b" : -1.5e3 } )",
        R"({"metad\u0061ta":{"n\u0061me":"evil"},"metadata":null})", R"([{"metadata":1},"x"])"};
    const std::string alphabet = "{}[]\",:\\ metadatanamespacenull0.u";
    std::size_t good = 0;
    for (std::size_t round = 0; round < testing::fuzz_rounds(20'000); ++round) {
        std::string value = seeds[pick(seeds.size())];
        for (std::size_t changes = pick(4); changes != 0; --changes) {
            const std::size_t at = pick(value.size());
            switch (pick(4)) {
            case 0: value[at] = alphabet[pick(alphabet.size())]; break;
            case 1: value.erase(at, pick(8) + 1); break;
            case 2: value.insert(at, 1, alphabet[pick(alphabet.size())]); break;
            default: value.insert(at, value.substr(pick(value.size()), pick(30))); break;
            }
            if (value.empty()) value = "x";
        }
        key_value kv;
        kv.key = "/s/n/a";
        kv.value = value;
        kv.create_revision = kv.mod_revision = 9;
        const mapping m = mapping("/s/").namespaced(pick(2) == 0).wrap_values(static_cast<wrap>(pick(3)));
        const named_key n = name_of(m, kv.key);
        document d;
        failure f;
        object o;
        if (d.make(m, n, kv, 9, f)) o = parse_object(d.text(), f);
        CAPTURE(value, d.text(), f.what(), static_cast<int>(m.wrap_));
        boost::system::error_code ec;
        const boost::json::value as_it_was = boost::json::parse(value, ec);
        if (m.wrap_ != wrap::all && !ec && as_it_was.is_object()) {
            const auto* const metadata = as_it_was.as_object().if_contains("metadata");
            const bool fits = !metadata || metadata->is_object() || metadata->is_null();
            REQUIRE(fits == !f);
        }
        if (f) continue;
        ++good;
        if (m.wrap_ == wrap::none) REQUIRE(!ec); // a value that is no JSON does not become JSON
        REQUIRE(is_the_one(o, n, 9));
        if (ec || !as_it_was.is_object() || m.wrap_ == wrap::all) continue;
        for (const auto& member : as_it_was.as_object())
            if (member.key() != "metadata") REQUIRE(to_value(o[std::string_view(member.key())]) == member.value());
    }
    CHECK(good > 1000);
}
