// What a projection leaves out of a document, and what it never does.
#include <informer/object/document_pool.hpp>
#include <informer/object/json.hpp>

#include <catch2/catch_test_macros.hpp>

#include <string>

using namespace informer;

TEST_CASE("a projection drops what it names", "[pool]") {
    const auto project = [](std::string_view json, std::vector<std::string> pointers) {
        return parse_object(json, decode_options().project(projection::drop(std::move(pointers)))).to_json();
    };
    const std::string_view json =
        R"({"apiVersion":"v1","kind":"Pod","metadata":{"name":"n","uid":"u","labels":{"a":"1","b":"2"}},)"
        R"("spec":{"containers":[{"name":"c","env":[1,2],"image":"i"},{"env":[],"image":"j"}]},"status":{"x":1}})";
    CHECK(project(json, {"/status"}) ==
          R"({"apiVersion":"v1","kind":"Pod","metadata":{"name":"n","uid":"u","labels":{"a":"1","b":"2"}},)"
          R"("spec":{"containers":[{"name":"c","env":[1,2],"image":"i"},{"env":[],"image":"j"}]}})");
    CHECK(project(json, {"/spec/containers/*/env", "/metadata/labels/*", "/status/x"}) ==
          R"({"apiVersion":"v1","kind":"Pod","metadata":{"name":"n","uid":"u","labels":{}},)"
          R"("spec":{"containers":[{"name":"c","image":"i"},{"image":"j"}]},"status":{}})");
    CHECK(
        project(json, {"/spec/containers/0", "/status", "/metadata/labels"}) ==
        R"({"apiVersion":"v1","kind":"Pod","metadata":{"name":"n","uid":"u"},"spec":{"containers":[{"env":[],"image":"j"}]}})");
    // The identity stays whatever one drops.
    CHECK(project(json, {"/metadata", "/kind", "/spec", "/status"}) ==
          R"({"apiVersion":"v1","kind":"Pod","metadata":{"name":"n","uid":"u"}})");
    CHECK(project(json, {"/*"}) == R"({"apiVersion":"v1","kind":"Pod","metadata":{"name":"n","uid":"u"}})");
    CHECK(project(json, {"/metadata/name", "/metadata/*", "/spec", "/status"}) ==
          R"({"apiVersion":"v1","kind":"Pod","metadata":{"name":"n","uid":"u"}})");
    CHECK(project(R"({"a/b":1,"c~d":2,"e":3})", {"/a~1b", "/c~0d"}) == R"({"e":3})");
}

TEST_CASE("a projection keeps what it names and the identity", "[pool]") {
    const auto project = [](std::string_view json, std::vector<std::string> pointers) {
        return parse_object(json, decode_options().project(projection::keep(std::move(pointers)))).to_json();
    };
    const std::string_view json =
        R"({"apiVersion":"v1","kind":"Pod","metadata":{"name":"n","namespace":"ns","labels":{"a":"1"},"resourceVersion":"5"},)"
        R"("spec":{"nodeName":"node","containers":[{"name":"c","image":"i"},7,{"image":"j"}]},"status":{"x":{"y":1}}})";
    const std::string head =
        R"({"apiVersion":"v1","kind":"Pod","metadata":{"name":"n","namespace":"ns","resourceVersion":"5"})";
    CHECK(project(json, {"/spec/nodeName"}) == head + R"(,"spec":{"nodeName":"node"}})");
    CHECK(project(json, {"/spec/containers/*/image", "/status"}) ==
          head + R"(,"spec":{"containers":[{"image":"i"},{"image":"j"}]},"status":{"x":{"y":1}}})");
    CHECK(
        project(json, {"/metadata/labels", "/none"}) ==
        R"({"apiVersion":"v1","kind":"Pod","metadata":{"name":"n","namespace":"ns","labels":{"a":"1"},"resourceVersion":"5"}})");
    CHECK(project(json, {"/spec/nodeName/deeper"}) == head + R"(,"spec":{}})");
    const auto pool = document_pool::make(decode_options().project(projection::keep({"/spec/containers/*/image"})));
    failure f;
    const object o = pool->decode(json, object(), f);
    CHECK(pool->decode(json, o, f).same_as(o));
}

TEST_CASE("a projection keeps what controllers decide by: generation, deletionTimestamp and finalizers", "[pool]") {
    const std::string metadata =
        R"("metadata":{"name":"n","uid":"u","generation":7,"deletionTimestamp":"2026-01-01T00:00:00Z",)"
        R"("finalizers":["a.example.com/x","b"]}})";
    const std::string text =
        R"({"apiVersion":"v1","kind":"Pod","spec":{"generation":1,"finalizers":["c"],"x":2},)" + metadata;
    for (const projection& p : {projection::keep({"/spec/x"}), projection::keep({"/spec/x", "/metadata/finalizers/0"}),
                                projection::drop({"/metadata", "/spec/generation", "/spec/finalizers"}),
                                projection::drop({"/metadata/finalizers/*", "/metadata/generation", "/spec/generation",
                                                  "/spec/finalizers"})}) {
        const auto options = decode_options().project(p);
        CHECK(parse_object(text, options).to_json() == R"({"apiVersion":"v1","kind":"Pod","spec":{"x":2},)" + metadata);
    }
}

TEST_CASE("a projection of the whole document keeps all, or drops all but the identity", "[pool]") {
    const std::string text =
        R"({"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","namespace":"b","labels":{"c":"d"}},"spec":[1,{"e":2}]})";
    CHECK(parse_object(text, decode_options().project(projection::keep({""}))).to_json() == text);
    CHECK(parse_object(text, decode_options().project(projection::keep({"/spec", ""}))).to_json() == text);
    CHECK(parse_object(text, decode_options().project(projection::drop({}))).to_json() == text);
    // A list of pointers that was computed and turned out empty.
    CHECK(parse_object(text, decode_options().project(projection::keep({}))).to_json() ==
          parse_object(text, decode_options().project(projection::drop({""}))).to_json());
    CHECK(parse_object(text, decode_options().project(projection::keep({}))).to_json() != text);
    CHECK(parse_object(text, decode_options().project(projection::drop({""}))).to_json() ==
          R"({"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","namespace":"b"}})");
    CHECK(parse_object(R"({"spec":1,"metadata":2})", decode_options().project(projection::keep({""}))).to_json() ==
          R"({"spec":1,"metadata":2})");
}

TEST_CASE("a projection refuses a text that is no pointer", "[pool]") {
    for (const std::string bad : {"spec", "metadata/name", "/a~", "/a~2b", "/~"}) {
        CAPTURE(bad);
        CHECK_THROWS_AS(projection::drop({bad}), error);
        CHECK_THROWS_AS(projection::keep({"/good", bad}), error);
    }
    CHECK(projection::drop({"", "/", "/a//b", "/~0~1"}).pointers().size() == 4);
}
