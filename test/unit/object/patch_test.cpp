#include "support/cpu_time.hpp"

#include <informer/object/json.hpp>

#include <catch2/catch_test_macros.hpp>

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>

#include <string>
#include <vector>

using namespace informer;
using boost::json::parse;
namespace json = boost::json;

namespace {

std::string merged(const char* target, const char* patch) {
    auto v = parse(target);
    apply_merge_patch(v, parse(patch));
    return boost::json::serialize(v);
}

struct outcome {
    bool ok = false;
    std::string text;
    failure failed;
};

outcome patched(const std::string& target, const std::string& operations) {
    outcome o;
    auto v = parse(target);
    o.ok = apply_json_patch(v, parse(operations), o.failed);
    o.text = boost::json::serialize(v);
    return o;
}

} // namespace

TEST_CASE("merge patch: the examples of RFC 7386", "[patch]") {
    struct row {
        const char *target, *patch, *result;
    };
    const std::vector<row> rows{
        {R"({"a":"b"})", R"({"a":"c"})", R"({"a":"c"})"},
        {R"({"a":"b"})", R"({"b":"c"})", R"({"a":"b","b":"c"})"},
        {R"({"a":"b"})", R"({"a":null})", R"({})"},
        {R"({"a":"b","b":"c"})", R"({"a":null})", R"({"b":"c"})"},
        {R"({"a":["b"]})", R"({"a":"c"})", R"({"a":"c"})"},
        {R"({"a":"c"})", R"({"a":["b"]})", R"({"a":["b"]})"},
        {R"({"a":{"b":"c"}})", R"({"a":{"b":"d","c":null}})", R"({"a":{"b":"d"}})"},
        {R"({"a":[{"b":"c"}]})", R"({"a":[1]})", R"({"a":[1]})"},
        {R"(["a","b"])", R"(["c","d"])", R"(["c","d"])"},
        {R"({"a":"b"})", R"(["c"])", R"(["c"])"},
        {R"({"a":"foo"})", R"(null)", R"(null)"},
        {R"({"a":"foo"})", R"("bar")", R"("bar")"},
        {R"({"e":null})", R"({"a":1})", R"({"e":null,"a":1})"},
        {R"([1,2])", R"({"a":"b","c":null})", R"({"a":"b"})"},
        {R"({})", R"({"a":{"bb":{"ccc":null}}})", R"({"a":{"bb":{}}})"},
    };
    for (const auto& r : rows) {
        CAPTURE(r.target, r.patch);
        CHECK(merged(r.target, r.patch) == r.result);
    }
}

TEST_CASE("merge patch keeps the order of what stays", "[patch]") {
    CHECK(merged(R"({"a":1,"b":2,"c":3,"d":4})", R"({"b":null})") == R"({"a":1,"c":3,"d":4})");
}

TEST_CASE("merge patch takes very many members out in one go", "[patch]") {
    json::value v;
    const double growth = testing::growth(4000, [&v](std::size_t n) {
        json::object all, gone;
        for (std::size_t i = 0; i < n; ++i) all.emplace("key " + std::to_string(i), i);
        for (std::size_t i = 0; i < n - 1; ++i) gone.emplace("key " + std::to_string(i), nullptr);
        v = std::move(all);
        return [&v, gone] { apply_merge_patch(v, gone); };
    });
    CHECK(growth < testing::linear);
    CHECK(v == parse(R"({"key 31999":31999})"));
}

TEST_CASE("make_merge_patch makes one document of the other", "[patch]") {
    const std::vector<const char*> documents{
        R"({})",
        R"({"a":1})",
        R"({"a":{"b":1,"c":[1,2]}})",
        R"({"a":{"b":2}})",
        R"({"a":{"c":[1]},"d":"x"})",
        R"([1])",
        R"("s")",
        R"({"a":{}})",
    };
    for (const char* from : documents)
        for (const char* to : documents) {
            CAPTURE(from, to);
            auto v = parse(from);
            apply_merge_patch(v, make_merge_patch(v, parse(to)));
            CHECK(v == parse(to));
        }
    CHECK(make_merge_patch(parse(R"({"a":{},"x":null})"), parse(R"({"a":{"b":null},"x":null,"y":null})")) ==
          parse("{}"));
    CHECK(make_merge_patch(parse(R"({"a":{"b":1},"x":2})"), parse(R"({"a":{"b":1},"x":2})")) == parse("{}"));
    CHECK(make_merge_patch(parse(R"({"a":{"b":1,"c":1}})"), parse(R"({"a":{"b":2,"c":1}})")) ==
          parse(R"({"a":{"b":2}})"));
}

TEST_CASE("JSON patch: the examples of RFC 6902", "[patch]") {
    struct row {
        const char *target, *operations, *result;
    };
    const std::vector<row> rows{
        // A.1 … A.16 in their order, less the failing ones
        {R"({"foo":"bar"})", R"([{"op":"add","path":"/baz","value":"qux"}])", R"({"foo":"bar","baz":"qux"})"},
        {R"({"foo":["bar","baz"]})", R"([{"op":"add","path":"/foo/1","value":"qux"}])",
         R"({"foo":["bar","qux","baz"]})"},
        {R"({"baz":"qux","foo":"bar"})", R"([{"op":"remove","path":"/baz"}])", R"({"foo":"bar"})"},
        {R"({"foo":["bar","qux","baz"]})", R"([{"op":"remove","path":"/foo/1"}])", R"({"foo":["bar","baz"]})"},
        {R"({"baz":"qux","foo":"bar"})", R"([{"op":"replace","path":"/baz","value":"boo"}])",
         R"({"baz":"boo","foo":"bar"})"},
        {R"({"foo":{"bar":"baz","waldo":"fred"},"qux":{"corge":"grault"}})",
         R"([{"op":"move","from":"/foo/waldo","path":"/qux/thud"}])",
         R"({"foo":{"bar":"baz"},"qux":{"corge":"grault","thud":"fred"}})"},
        {R"({"foo":["all","grass","cows","eat"]})", R"([{"op":"move","from":"/foo/1","path":"/foo/3"}])",
         R"({"foo":["all","cows","eat","grass"]})"},
        {R"({"baz":"qux","foo":["a",2,"c"]})",
         R"([{"op":"test","path":"/baz","value":"qux"},{"op":"test","path":"/foo/1","value":2}])",
         R"({"baz":"qux","foo":["a",2,"c"]})"},
        {R"({"foo":"bar"})", R"([{"op":"add","path":"/child","value":{"grandchild":{}}}])",
         R"({"foo":"bar","child":{"grandchild":{}}})"},
        {R"({"foo":"bar"})", R"([{"op":"add","path":"/baz","value":"qux","xyz":123}])", R"({"foo":"bar","baz":"qux"})"},
        {R"({"/":9,"~1":10})", R"([{"op":"test","path":"/~01","value":10}])", R"({"/":9,"~1":10})"},
        {R"({"foo":["bar"]})", R"([{"op":"add","path":"/foo/-","value":["abc","def"]}])",
         R"({"foo":["bar",["abc","def"]]})"},
        // beyond the appendix
        {R"({"a":1})", R"([{"op":"copy","from":"/a","path":"/b"}])", R"({"a":1,"b":1})"},
        {R"({"a":1})", R"([{"op":"replace","path":"","value":[1]}])", R"([1])"},
        {R"({"a":1})", R"([{"op":"add","path":"","value":"x"}])", R"("x")"},
        {R"({"a":1})", R"([{"op":"add","path":"/a","value":2}])", R"({"a":2})"},
        {R"({"":1})", R"([{"op":"replace","path":"/","value":2}])", R"({"":2})"},
        {R"([1,2])", R"([{"op":"add","path":"/2","value":3}])", R"([1,2,3])"},
        {R"({"a":1})", R"([{"op":"move","from":"/a","path":"/a"}])", R"({"a":1})"},
        {R"({"a":{"b":1}})", R"([{"op":"copy","from":"/a","path":"/a/c"}])", R"({"a":{"b":1,"c":{"b":1}}})"},
        {R"({"a":{"b":1}})", R"([{"op":"move","from":"/a/b","path":"/a"}])", R"({"a":1})"},
        {R"({"a":{"x":1,"y":[1.0]}})", R"([{"op":"test","path":"/a","value":{"y":[1],"x":1e0}}])",
         R"({"a":{"x":1,"y":[1E0]}})"},
        {R"({"a":9007199254740992})", R"([{"op":"test","path":"/a","value":9007199254740992e0}])",
         R"({"a":9007199254740992})"},
        {R"({"a":-9223372036854775808})", R"([{"op":"test","path":"/a","value":-9223372036854775808e0}])",
         R"({"a":-9223372036854775808})"},
        {R"({})", R"([])", R"({})"},
    };
    for (const auto& r : rows) {
        CAPTURE(r.target, r.operations);
        const auto o = patched(r.target, r.operations);
        CHECK(o.ok);
        CHECK_FALSE(o.failed);
        CHECK(o.text == r.result);
    }
}

TEST_CASE("a JSON patch that fails names its operation and changes nothing", "[patch]") {
    struct row {
        const char *target, *operations, *wrong;
    };
    const std::vector<row> rows{
        {R"({"baz":"qux"})", R"([{"op":"test","path":"/baz","value":"bar"}])",
         "operation 0 (test /baz): the value is another one"},
        {R"({"a":9007199254740993})", R"([{"op":"test","path":"/a","value":9007199254740992e0}])",
         "the value is another one"},
        {R"({"a":9223372036854775807})", R"([{"op":"test","path":"/a","value":9223372036854775808e0}])",
         "the value is another one"},
        {R"({"a":1.8446744073709552E19})", R"([{"op":"test","path":"/a","value":18446744073709551615}])",
         "the value is another one"},
        {R"({"foo":"bar"})", R"([{"op":"add","path":"/baz/bat","value":"qux"}])",
         "operation 0 (add /baz/bat): no such path"},
        {R"({"/":9,"~1":10})", R"([{"op":"test","path":"/~01","value":"10"}])", "the value is another one"},
        {R"({"a":1})", R"([{"op":"add","path":"/b","value":1},{"op":"remove","path":"/c"}])",
         "operation 1 (remove /c): no such path"},
        {R"({"a":1})", R"([{"op":"replace","path":"/b","value":1}])", "no such path"},
        {R"({"a":[1]})", R"([{"op":"add","path":"/a/2","value":1}])", "no such index"},
        {R"({"a":[1]})", R"([{"op":"add","path":"/a/01","value":1}])", "no such index"},
        {R"({"a":[1]})", R"([{"op":"add","path":"/a/99999999999999999999","value":1}])", "no such index"},
        {R"({"a":[1]})", R"([{"op":"remove","path":"/a/-"}])", "no such path"},
        {R"({"a":[1]})", R"([{"op":"replace","path":"/a/-1","value":1}])", "no such path"},
        {R"({"a":[1]})", R"([{"op":"add","path":"/a/-1","value":1}])", "no such index"},
        {R"({"a":[1]})", R"([{"op":"test","path":"/b","value":null}])", "no such path"},
        {R"({"a":[1]})", R"([{"op":"copy","from":"/b","path":"/a/0"}])", "\"from\" does not exist"},
        {R"({"a":1})", R"([{"op":"add","path":"/a/b","value":1}])", "neither an object nor an array"},
        {R"({"a":1})", R"([{"op":"remove","path":""}])", "cannot be removed"},
        {R"({"a":{"b":1}})", R"([{"op":"move","from":"/a","path":"/a/c"}])", "cannot be moved into itself"},
        {R"({"a":1})", R"([{"op":"move","from":"/x","path":"/a"}])", "\"from\" does not exist"},
        {R"({"a":1})", R"([{"op":"copy","path":"/b"}])", "\"from\" is missing"},
        {R"({"a":1})", R"([{"op":"add","path":"/b"}])", "\"value\" is missing"},
        {R"({"a":1})", R"([{"op":"add","path":"b","value":1}])", "no JSON pointer"},
        {R"({"a":1})", R"([{"op":"add","path":"/~2","value":1}])", "no JSON pointer"},
        {R"({"a":1})", R"([{"op":"add","path":"/~","value":1}])", "no JSON pointer"},
        {R"({"a":1})", R"([{"op":"add","value":1}])", "\"path\" is missing"},
        {R"({"a":1})", R"([{"op":"frob","path":"/a","value":1}])", "no such operation"},
        {R"({"a":1})", R"([{"path":"/a","value":1}])", "no such operation"},
        {R"({"a":1})", R"([7])", "operation 0: not an object"},
        {R"({"a":1})", R"({"op":"remove","path":"/a"})", "not an array"},
        {R"({"a":1})", R"([{"op":"test","path":"/a","value":null}])", "the value is another one"},
        {R"({"a":[1,2]})", R"([{"op":"test","path":"/a","value":[1]}])", "the value is another one"},
        {R"({"a":{"b":1}})", R"([{"op":"test","path":"/a","value":{"c":1}}])", "the value is another one"},
    };
    for (const auto& r : rows) {
        CAPTURE(r.target, r.operations);
        const auto o = patched(r.target, r.operations);
        CHECK_FALSE(o.ok);
        CHECK(o.failed == errc::bad_patch);
        CAPTURE(o.failed.what());
        CHECK(o.failed.what().find(r.wrong) != std::string::npos);
        CHECK(o.text == r.target);
    }
}

TEST_CASE("a small JSON patch cannot blow a document up", "[patch]") {
    std::string doubling = "[";
    for (int i = 0; i < 60; ++i) {
        if (i != 0) doubling += ',';
        doubling += R"({"op":"copy","from":"","path":"/a)" + std::to_string(i) + "\"}";
    }
    const auto wide = patched(R"({"a":1})", doubling + "]");
    CHECK(wide.failed == errc::bad_patch);
    CHECK(wide.failed.what().find("too much") != std::string::npos);

    std::string deepening = "[", path;
    for (int i = 0; i < 12; ++i) {
        if (i != 0) deepening += ',';
        const std::size_t depth = std::size_t(1) << i;
        path.clear();
        for (std::size_t d = 0; d < depth; ++d) path += "/a";
        deepening += R"({"op":"copy","from":"","path":")" + path + "\"}";
    }
    const auto deep = patched(R"({"a":{}})", deepening + "]");
    CHECK(deep.failed == errc::bad_patch);
    CHECK(deep.failed.what().find("nested too deeply") != std::string::npos);

    json::object members;
    for (int i = 0; i < 10'000; ++i) members.emplace("key " + std::to_string(i), i);
    json::array to_and_fro;
    for (int i = 0; i < 10'000; ++i)
        to_and_fro.push_back({{"op", "move"}, {"from", i % 2 ? "/b" : "/a"}, {"path", i % 2 ? "/a" : "/b"}});
    json::value v{{"a", members}};
    failure f;
    CHECK_FALSE(apply_json_patch(v, to_and_fro, f));
    CHECK(f == errc::bad_patch);
    to_and_fro.resize(50);
    CHECK(apply_json_patch(v, to_and_fro, f));
    CHECK(v == json::value{{"a", members}});

    // The elements or members behind its place are moved by each of many operations.
    json::array numbers;
    for (int i = 0; i < 100'000; ++i) numbers.push_back(i);
    members.clear();
    for (int i = 0; i < 10'000; ++i) members.emplace("key " + std::to_string(i), i);
    const json::value large{{"array", numbers}, {"object", members}};
    for (const bool in_array : {true, false}) {
        for (const bool adds : {true, false}) {
            if (!in_array && adds) continue; // an added member comes last and moves nothing
            json::array many;
            for (int i = 0; i < 10'000; ++i) {
                const std::string at = in_array ? "/array/0" : "/object/key " + std::to_string(i);
                many.push_back(adds ? json::object{{"op", "add"}, {"path", at}, {"value", 1}}
                                    : json::object{{"op", "remove"}, {"path", at}});
            }
            v = large;
            CHECK_FALSE(apply_json_patch(v, many, f));
            CHECK(f.what().find("too much") != std::string::npos);
            many.resize(50);
            CHECK(apply_json_patch(v, many, f));
            CHECK_FALSE(f);
        }
    }
}
