// Reading documents: members, pointers, equality, text, differences.
#include "object/detail/pointer_reader.hpp"

#include <informer/object/diff.hpp>
#include <informer/object/document_pool.hpp>
#include <informer/object/json.hpp>

#include <catch2/catch_test_macros.hpp>

#include <cstddef>
#include <sstream>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

using namespace informer;

namespace {

template <class T>
concept compared_with_values = requires(const value& v, const T& t) {
    v == t;
};

// `if (status["ready"])` would ask whether it is there, and null pointers would be read as texts.
static_assert(!std::is_constructible_v<bool, value>);
static_assert(compared_with_values<const char*> && compared_with_values<std::string>);
static_assert(!compared_with_values<std::nullptr_t> && !compared_with_values<bool> && !compared_with_values<int>);

} // namespace

TEST_CASE("members, elements and pointers are found, and what is missing is missing", "[value]") {
    const object o =
        parse_object(R"({"a":{"b c":[10,{"x":null}],"~t/":1,"":"empty"},"list":[[1,2],[3]],"s":"text","no":"x"})");
    CHECK(o["a"]["b c"][0].as_int64() == 10);
    CHECK(o.at_pointer("") == o.value());
    CHECK(o.at_pointer("/a/b c/0").as_int64() == 10);
    CHECK(o.at_pointer("/a/b c/1/x").is_null());
    CHECK(o.at_pointer("/a/~0t~1").as_int64() == 1);
    CHECK(o.at_pointer("/a/").as_string() == "empty");
    CHECK(o.at_pointer("/list/1/0").as_int64() == 3);
    for (const char* none : {"/x", "/a/x", "/list/2", "/list/01", "/list/-", "/list/1/0/0", "/s/0", "a", "/list/",
                             "/a/~2", "/list/-1", "/list/99999999999999999999999"})
        CHECK_FALSE(o.at_pointer(none).exists());
    CHECK_FALSE(o["x"]["y"][3]["z"].exists());
    CHECK_FALSE(o["list"][-1].exists());
    CHECK_FALSE(o["list"]["0"].exists());
    CHECK_FALSE(o["a"][0].exists());
    CHECK(o["a"].contains("b c"));
    CHECK(o["a"].size() == 3);
    CHECK(o["list"].size() == 2);
    CHECK(o["s"].size() == 0);
    CHECK(value().kind() == value_kind::missing);
    CHECK(o["x"].string_or_empty().empty());
    CHECK(o["no"].string_or_empty() == "x");
    CHECK(o["list"].int64_or(4) == 4);
    CHECK(o["x"].bool_or(true));
    std::string seen;
    for (const value row : o["list"])
        for (const value cell : row) seen += cell.number_text() + ",";
    CHECK(seen == "1,2,3,");
    seen.clear();
    for (const auto [key, v] : o.value().members()) {
        seen += key;
        seen += ' ';
    }
    CHECK(seen == "a list s no ");
    int none = 0;
    for (const auto m : o["list"].members()) none += static_cast<int>(m.key.size()) + 1;
    for (const value v : o["a"]) none += v.exists();
    CHECK(none == 0);
}

TEST_CASE("a text is used as a string is", "[value]") {
    const object o =
        parse_object(R"({"metadata":{"name":"web","namespace":"prod","uid":"123e4567-e89b-12d3-a456-426614174000"}})");
    const std::string name(o.name());
    CHECK(name == "web");
    CHECK(o.name_space() + "/" + o.name() == "prod/web");
    CHECK(o.name() + o.name_space() == "webprod");
    CHECK(std::string("a-") + o.name() == "a-web");
    CHECK(o.meta().uid().starts_with("123e4567-"));
    CHECK(o.meta().uid().ends_with("4174000"));
    CHECK_FALSE(o.meta().uid().starts_with("x"));
}

TEST_CASE("a value is compared with a text, and what is no string equals none", "[value]") {
    // Each way in which a pool keeps strings.
    for (const std::string kept :
         {"", "ab", "Running", "2024-01-02T03:04:05Z", "123e4567-e89b-12d3-a456-426614174000"}) {
        CAPTURE(kept);
        const object o = parse_object("{\"s\":\"" + kept + "\"}");
        const value v = o["s"];
        CHECK(v == kept);
        CHECK(kept == v);
        CHECK(v == kept.c_str());
        CHECK(std::string_view(kept) == v);
        CHECK(v == v.as_string());
        CHECK(v != kept + "x");
        CHECK("Pending" != v);
        CHECK_FALSE(v == "Pending");
    }
    const object o = parse_object(R"({"null":null,"no":false,"n":0,"list":[],"members":{}})");
    for (const char* none : {"absent", "null", "no", "n", "list", "members"}) {
        CHECK_FALSE(o[none] == "");
        CHECK(o[none] != o[none].string_or_empty());
    }
    CHECK_FALSE(o["no"] == "false");
    CHECK_FALSE(o["n"] == "0");
}

TEST_CASE("values and objects are written as compact JSON, and what is missing as nothing", "[value]") {
    const object o = parse_object(R"({ "s" : "a\"b", "list" : [1, 2.5, null] })");
    std::ostringstream out;
    out << o["s"] << ' ' << o["list"] << ' ' << o["absent"] << '|' << o << '|' << object();
    CHECK(out.str() == R"("a\"b" [1,2.5,null] |{"s":"a\"b","list":[1,2.5,null]}|)");
}

TEST_CASE("an element is found by an index of any whole type", "[value]") {
    const object o = parse_object(R"({"list":["a","b"]})");
    const value list = o["list"];
    CHECK(list[0].as_string() == "a");
    CHECK(list[1U].as_string() == "b");
    CHECK(list[std::uint8_t(1)].as_string() == "b");
    CHECK(list[1L].as_string() == "b");
    CHECK(list[std::size_t(1)].as_string() == "b");
    CHECK_FALSE(list[-1].exists());
    CHECK_FALSE(list[std::int64_t(-1)].exists());
    CHECK_FALSE(list[2ULL].exists());
    CHECK_FALSE(o.value()[0].exists());
}

TEST_CASE("a pointer that is parsed once finds the same in any value as at_pointer", "[value]") {
    std::vector<object> objects{object()};
    for (const char* json :
         {R"({"a":{"b":"1","long key":2}})", R"({"x":0,"a":{"long key":3,"y":1,"b":"4"}})", R"({"a":[10,{"b":[5]}]})",
          R"({"a":"text","":{"":6}})", R"({"~":{"/":7},"a/b":8,"a":{}})", R"({})"})
        objects.push_back(parse_object(json));
    for (const char* pointer : {"", "/", "//", "/a", "/a/b", "/a/long key", "/a/0", "/a/1/b/0", "/a/01", "/a/-", "/a/2",
                                "/~0/~1", "/a~1b", "/a~2", "/~", "a", "/a/b/c", "/none/of/these"}) {
        const detail::pointer_reader read{std::string_view(pointer)};
        for (int round = 0; round < 2; ++round) // the second time each meets what another one has left
            for (const object& o : objects) {
                CAPTURE(pointer, o.to_json());
                const value v = read(o.value());
                CHECK(v.handle() == o.at_pointer(pointer).handle());
                CHECK(v.exists() == o.at_pointer(pointer).exists());
            }
    }
    const detail::pointer_reader by_keys(std::vector<std::string>{"a/b"});
    CHECK(by_keys(objects[5].value()).as_int64() == 8);
}

TEST_CASE("a member is found in objects of every size, also among keys of one fingerprint, and no other", "[value]") {
    enum class kind { different, alike, small };
    for (const kind keys : {kind::different, kind::alike, kind::small}) {
        const auto key = [keys](unsigned i) {
            const std::string n = std::to_string(1000 + i);
            return keys == kind::alike ? "a" + n + "-beyond" : keys == kind::small ? std::to_string(i) : n + "-" + n;
        };
        std::string text;
        for (unsigned n = 1; n <= 270; ++n) {
            text.append(n == 1 ? "{\"" : ",\"").append(key(n)).append("\":").append(std::to_string(n));
            const object o = parse_object(text + "}");
            CAPTURE(static_cast<int>(keys), n);
            bool all = true;
            for (unsigned i = 1; i <= n; ++i) all = all && o[key(i)].int64_or(0) == i;
            CHECK(all);
            CHECK_FALSE(o[key(n + 1)].exists());
        }
    }
}

TEST_CASE("keys with one fingerprint are told apart", "[value]") {
    std::string json = "{";
    for (int i = 0; i < 2000; ++i) json += "\"key-" + std::to_string(i * 7919) + "\":" + std::to_string(i) + ",";
    json.back() = '}';
    const object o = parse_object(json);
    for (int i = 0; i < 2000; ++i) REQUIRE(o["key-" + std::to_string(i * 7919)].as_int64() == i);
    CHECK_FALSE(o["key-1"].exists());
    CHECK_FALSE(o["key"].exists());
    CHECK_FALSE(o[""].exists());
}

TEST_CASE("a wrong type is an error that names what was found", "[value]") {
    const object o = parse_object(R"({"s":"x","n":1,"b":true,"o":{},"z":null,"f":1.5})");
    const auto message = [](const auto& act) -> std::string {
        try {
            act();
        } catch (const error& e) {
            CHECK(e.code() == make_error_code(errc::wrong_type));
            return e.what();
        }
        return "no error";
    };
    CHECK(message([&] { (void)o["s"].as_int64(); }).find("found string") != std::string::npos);
    CHECK(message([&] { (void)o["n"].as_string(); }).find("found integer") != std::string::npos);
    CHECK(message([&] { (void)o["none"].as_string(); }).find("found nothing") != std::string::npos);
    CHECK(message([&] { (void)o["o"].as_bool(); }).find("found object") != std::string::npos);
    CHECK(message([&] { (void)o["z"].as_double(); }).find("found null") != std::string::npos);
    CHECK(message([&] { (void)o["f"].as_int64(); }).find("found number") != std::string::npos);
    CHECK(message([&] { (void)o["b"].number_text(); }).find("found boolean") != std::string::npos);
}

TEST_CASE("equality is deep, in one pool and between pools", "[value]") {
    const auto same = [](std::string_view a, std::string_view b) {
        const object x = parse_object(a), y = parse_object(b);
        const auto pool = document_pool::make();
        failure f;
        const object p = pool->decode(a, object(), f), q = pool->decode(b, object(), f);
        CHECK((x == y) == (y == x));
        CHECK((x == y) == (p == q));
        CHECK(x == p);
        return x == y;
    };
    CHECK(same(R"({"a":1,"b":[1,"x"]})", R"({"b":[1,"x"],"a":1})"));
    CHECK(same(R"({"n":1})", R"({"n":1.0})"));
    CHECK(same(R"({"n":100000})", R"({"n":1e5})"));
    CHECK(same(R"({"n":0.5})", R"({"n":5e-1})"));
    CHECK(same(R"({"n":0.5})", R"({"n":0.50})"));
    CHECK(same(R"({"n":0})", R"({"n":-0.0})"));
    CHECK(same(R"({"n":1e400})", R"({"n":10e399})"));
    CHECK(same(R"({"n":12345678901234567890123})", R"({"n":12345678901234567890123.0})"));
    CHECK(same(R"({"n":18446744073709551615})", R"({"n":18446744073709551615.0})"));
    CHECK(same(R"({"n":1e99999999999999999999})", R"({"n":1e99999999999999999999})"));
    CHECK_FALSE(same(R"({"n":1e99999999999999999999})", R"({"n":2e99999999999999999999})"));
    CHECK_FALSE(same(R"({"n":9007199254740993})", R"({"n":9007199254740992.0})"));
    CHECK_FALSE(same(R"({"n":0.1})", R"({"n":0.1000000000000000055})"));
    CHECK_FALSE(same(R"({"n":-1})", R"({"n":1})"));
    CHECK_FALSE(same(R"({"n":18446744073709551615})", R"({"n":-1})"));
    CHECK_FALSE(same(R"({"n":9223372036854775807})", R"({"n":9223372036854775806})"));
    CHECK_FALSE(same(R"({"a":1})", R"({"a":"1"})"));
    CHECK_FALSE(same(R"({"a":1})", R"({"a":true})"));
    CHECK(same(R"({"a":true,"b":[false]})", R"({"b":[false],"a":true})"));
    CHECK_FALSE(same(R"({"a":true})", R"({"a":false})"));
    CHECK_FALSE(same(R"({"a":[{"b":false}]})", R"({"a":[{"b":true}]})"));
    CHECK_FALSE(same(R"({"a":null})", R"({"a":false})"));
    CHECK_FALSE(same(R"({"a":null})", R"({})"));
    CHECK_FALSE(same(R"({"a":null})", R"({"b":null})"));
    CHECK_FALSE(same(R"({"a":{}})", R"({"a":[]})"));
    CHECK_FALSE(same(R"({"a":[1,2]})", R"({"a":[2,1]})"));
    CHECK_FALSE(same(R"({"a":[1,2]})", R"({"a":[1,2,3]})"));
    CHECK_FALSE(same(R"({"a":"some text"})", R"({"a":"some texu"})"));
    CHECK_FALSE(same(R"({"some key":{"x":1}})", R"({"some key":{"y":1}})"));
    CHECK_FALSE(
        same(R"({"a":"123e4567-e89b-12d3-a456-426614174000"})", R"({"a":"123e4567-e89b-12d3-a456-426614174001"})"));
    CHECK(object() == object());
    CHECK_FALSE(object() == parse_object("{}"));
}

TEST_CASE("pretty JSON is indented", "[value]") {
    const object o = parse_object(R"({"a":[1,{"b":"x"}],"e":{},"f":[]})");
    CHECK(o.value().to_pretty_json() ==
          "{\n  \"a\": [\n    1,\n    {\n      \"b\": \"x\"\n    }\n  ],\n  \"e\": {},\n  \"f\": []\n}");
    CHECK(o["a"].to_pretty_json(1) == "[\n 1,\n {\n  \"b\": \"x\"\n }\n]");
}

TEST_CASE("metadata reads what Kubernetes writes", "[value]") {
    const object o = parse_object(
        R"({"apiVersion":"v1","kind":"Pod","metadata":{"name":"n","namespace":"ns","uid":"123e4567-e89b-12d3-a456-426614174000",)"
        R"("resourceVersion":"42","generation":3,"labels":{"app":"web"},"annotations":{"note":"x"},"finalizers":["f"],)"
        R"("creationTimestamp":"2024-05-06T07:08:09Z","deletionTimestamp":"2024-05-06T09:08:09.250+02:00"}})");
    CHECK(o.key().str() == "ns/n");
    CHECK(o.uid() == "123e4567-e89b-12d3-a456-426614174000");
    CHECK(o.resource_version().str() == "42");
    CHECK(o.meta().generation() == 3);
    CHECK(o.meta().label("app") == "web");
    CHECK(o.meta().annotation("none").empty());
    CHECK(o.meta().finalizers().size() == 1);
    REQUIRE(o.meta().creation_time());
    CHECK(std::chrono::system_clock::to_time_t(*o.meta().creation_time()) == 1714979289);
    REQUIRE(o.meta().deletion_time());
    CHECK(*o.meta().deletion_time() - *o.meta().creation_time() == std::chrono::milliseconds(250));
    for (const char* bad : {"", "x", "2024-02-30T00:00:00Z", "2024-05-06T07:08:09", "2024-05-06T07:08:09.Z",
                            "9999-01-01T00:00:00Z", "2024-05-06T07:08:09+2:00", "2024-05-06T25:08:09Z"}) {
        const object b = parse_object(std::string(R"({"metadata":{"creationTimestamp":")") + bad + "\"}}");
        CHECK_FALSE(b.meta().creation_time());
    }
    const object empty = parse_object("{}");
    CHECK(empty.key().empty());
    CHECK_FALSE(empty.meta().creation_time());
    CHECK(empty.meta().resource_version().empty());
    const object wrong = parse_object(R"({"metadata":[1],"kind":7})");
    CHECK(wrong.key().empty());
    CHECK(wrong.kind().empty());
    CHECK(object().key().empty());
    const object none;
    CHECK_FALSE(none.value().exists());
}

TEST_CASE("an object knows its key, whatever form its parts are stored in", "[value]") {
    const auto pool = document_pool::make();
    failure f;
    for (const char* name_space : {"", "a", "abc", "kube-system", "123e4567-e89b-12d3-a456-426614174000"}) {
        for (const char* name :
             {"n", "web", "a-longer-name", "2024-05-06T07:08:09Z", "00000000-0000-0000-0000-000000000001"}) {
            const std::string space =
                *name_space ? std::string(R"("namespace":")") + name_space + "\"," : std::string();
            object o = pool->decode("{\"metadata\":{" + space + "\"name\":\"" + name + "\"}}", object(), f);
            REQUIRE(o.name() == name);
            REQUIRE(o.name_space() == name_space);
            REQUIRE(o.key() == object_key(name_space, name));
            REQUIRE(o.has_key(name_space, name));
            REQUIRE_FALSE(o.has_key(name_space, std::string(name) + "x"));
            REQUIRE_FALSE(o.has_key(std::string(name_space) + "x", name));
            REQUIRE_FALSE(o.has_key(name_space, ""));
            pool->begin_generation();
            o = pool->move(o, f); // its handles change there
            REQUIRE(o.has_key(name_space, name));
            pool->collect(100'000); // so that the root of the object before is used again
        }
    }
    for (const char* keyless : {"{}", R"({"metadata":[1]})", R"({"metadata":{"name":7,"namespace":{}}})"}) {
        const object o = parse_object(keyless);
        REQUIRE(o.key() == object_key());
        REQUIRE(o.has_key("", ""));
        REQUIRE_FALSE(o.has_key("", "7"));
    }
    const object none;
    REQUIRE(none.has_key("", ""));
    REQUIRE_FALSE(none.has_key("", "n"));
    REQUIRE(none.name().empty());
}

TEST_CASE("a document survives the way through boost::json", "[value]") {
    const char* json = R"({"a":[1,-1,18446744073709551615,0.5,1.0,"x",true,null,{},[]],"o":{"k":"long enough text"}})";
    const object o = parse_object(json);
    CHECK(from_value(to_value(o)) == o);
    CHECK(from_value(to_value(o)).to_json() == json);
    CHECK(to_value(o["none"]).is_null());
    CHECK_THROWS_AS(from_value(boost::json::array()), error);
}

namespace {

std::string changes(std::string_view a, std::string_view b, bool one_pool) {
    failure f;
    const auto pool = document_pool::make();
    const object x = pool->decode(a, object(), f), y = one_pool ? pool->decode(b, x, f) : parse_object(b);
    std::string s;
    for (const change& c : diff(x, y)) {
        s += c.pointer + " " + (c.before.exists() ? c.before.to_json() : "-") + ">" +
             (c.after.exists() ? c.after.to_json() : "-") + "; ";
    }
    return s;
}

} // namespace

TEST_CASE("diff names what changed, was added and was removed", "[diff]") {
    for (const bool one_pool : {true, false}) {
        const auto d = [&](std::string_view a, std::string_view b) { return changes(a, b, one_pool); };
        CHECK(d(R"({"a":1})", R"({"a":1})") == "");
        CHECK(d(R"({"a":1,"b":"some text","c":[1,2]})", R"({"c":[1,2],"b":"some text","a":1.0})") == "");
        CHECK(d(R"({"a":1,"b":2})", R"({"a":1,"b":3})") == "/b 2>3; ");
        CHECK(d(R"({"a":true,"b":true})", R"({"a":true,"b":false})") == "/b true>false; ");
        CHECK(d(R"({"a":{"x":1,"gone":{"y":2}}})", R"({"a":{"new":[1],"x":2}})") ==
              "/a/new ->[1]; /a/x 1>2; /a/gone {\"y\":2}>-; ");
        CHECK(d(R"({"a":[1,2,3]})", R"({"a":[1,5]})") == "/a/1 2>5; /a/2 3>-; ");
        CHECK(d(R"({"a":[1]})", R"({"a":[1,{"b":2}]})") == "/a/1 ->{\"b\":2}; ");
        CHECK(d(R"({"a":[{"b":{"c":1}}]})", R"({"a":[{"b":{"c":2}}]})") == "/a/0/b/c 1>2; ");
        CHECK(d(R"({"a":{}})", R"({"a":[]})") == "/a {}>[]; ");
        CHECK(d(R"({"a":{}})", R"({"a":{"b":1}})") == "/a/b ->1; ");
        CHECK(d(R"({"a":"text one"})", R"({"a":null})") == "/a \"text one\">null; ");
        CHECK(d(R"({"a/b":{"~":1}})", R"({"a/b":{"~":2}})") == "/a~1b/~0 1>2; ");
        CHECK(d(R"({"t":"2024-05-06T07:08:09Z"})", R"({"t":"2024-05-06T07:08:10Z"})") ==
              "/t \"2024-05-06T07:08:09Z\">\"2024-05-06T07:08:10Z\"; ");
    }
    const object a = parse_object(R"({"a":1})");
    const object nothing;
    CHECK(diff(nothing, nothing).empty());
    REQUIRE(diff(nothing, a).size() == 1);
    CHECK_FALSE(diff(nothing, a)[0].before.exists());
}

namespace {

template <class Object>
concept gives_views = requires(Object&& o) {
    std::forward<Object>(o).value();
}
|| requires(Object&& o) {
    std::forward<Object>(o)["a"];
}
|| requires(Object&& o) {
    std::forward<Object>(o).at_pointer("/a");
}
|| requires(Object&& o) {
    std::forward<Object>(o).meta();
}
|| requires(Object&& o) {
    std::forward<Object>(o).kind();
}
|| requires(Object&& o) {
    std::forward<Object>(o).api_version();
}
|| requires(Object&& o) {
    std::forward<Object>(o).name();
}
|| requires(Object&& o) {
    std::forward<Object>(o).name_space();
};
static_assert(gives_views<object&> && gives_views<const object&>);
static_assert(!gives_views<object> && !gives_views<const object>);

template <class Text>
concept gives_pointers = requires(Text&& t) {
    std::forward<Text>(t).view();
}
|| requires(Text&& t) {
    std::forward<Text>(t).data();
};
static_assert(gives_pointers<text&> && gives_pointers<const text&>);
static_assert(!gives_pointers<text> && !gives_pointers<const text>);

} // namespace
