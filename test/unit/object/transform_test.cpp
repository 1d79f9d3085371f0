// Objects that are rewritten before they are stored.
#include <informer/object/document_pool.hpp>
#include <informer/object/json.hpp>

#include <boost/json.hpp>
#include <catch2/catch_test_macros.hpp>

#include <limits>
#include <stdexcept>
#include <string>

using namespace informer;

TEST_CASE("a transform rewrites each object once before it is stored", "[pool]") {
    int calls = 0;
    const auto pool = document_pool::make(decode_options().transform_with([&](boost::json::value& v) {
        ++calls;
        if (v.as_object().contains("boom")) throw std::runtime_error("no such luck");
        if (v.as_object().contains("list"))
            v = boost::json::array();
        else
            v.as_object()["added"] = calls;
    }));
    failure f;
    const object o = pool->decode(R"({"metadata":{"managedFields":[1],"name":"x"},"a":1.25})", object(), f);
    CHECK(o.to_json() == R"({"metadata":{"name":"x"},"a":1.25,"added":1})");
    CHECK(calls == 1);
    CHECK_FALSE(pool->decode(R"({"boom":1})", object(), f));
    CHECK(f.message().find("no such luck") != std::string::npos);
    CHECK_FALSE(pool->decode(R"({"list":1})", object(), f));
    CHECK(f == errc::not_an_object);
    CHECK_FALSE(pool->decode(R"({"a":)", object(), f));
    CHECK(f == errc::syntax_error);
    CHECK(calls == 3);
}

TEST_CASE(
    "a transform sees apiVersion and kind also where the wire has none, and no managedFields unless they are kept",
    "[pool]") {
    const std::string item = R"({"metadata":{"managedFields":[1],"name":"x","uid":"u"},"a":1})";
    const std::string event =
        R"({"kind":"Pod","apiVersion":"v1","metadata":{"managedFields":[1],"name":"x","uid":"u"},"a":1})";
    for (const bool keep : {false, true}) {
        std::string seen;
        const auto pool = document_pool::make(
            decode_options().type("v1", "Pod").keep_managed_fields(keep).transform_with([&](boost::json::value& v) {
                seen = v.at("apiVersion").as_string();
                seen += " " + std::string(v.at("kind").as_string());
                seen += " " + boost::json::serialize(v.at("metadata"));
            }));
        const std::string metadata =
            keep ? R"({"managedFields":[1],"name":"x","uid":"u"})" : R"({"name":"x","uid":"u"})";
        for (const std::string& text : {item, event}) {
            failure f;
            const object o = pool->decode(text, object(), f);
            CHECK(o.to_json() == R"({"apiVersion":"v1","kind":"Pod","metadata":)" + metadata + R"(,"a":1})");
            CHECK(seen == "v1 Pod " + metadata);
        }
    }
}

TEST_CASE("a transform that nests an object too deeply is an error", "[pool]") {
    const auto pool = document_pool::make(decode_options().transform_with([](boost::json::value& v) {
        for (int i = 0; i < 1000; ++i) v = boost::json::object{{"deeper", std::move(v)}};
    }));
    failure f;
    CHECK_FALSE(pool->decode(R"({"metadata":{"name":"x"}})", object(), f));
    CHECK(f == errc::bad_configuration);
}

TEST_CASE("a number beyond all doubles becomes the largest one on its way through a double, and NaN is null",
          "[pool]") {
    const auto pool = document_pool::make(decode_options().transform_with(
        [](boost::json::value& v) { v.as_object()["none"] = std::numeric_limits<double>::quiet_NaN(); }));
    failure f;
    const object o = pool->decode(R"({"metadata":{"name":"x"},"a":1e400,"b":-1e400})", object(), f);
    CHECK(o.to_json() ==
          R"({"metadata":{"name":"x"},"a":1.7976931348623157e+308,"b":-1.7976931348623157e+308,"none":null})");
    const object p = from_value(boost::json::value{{"a", std::numeric_limits<double>::infinity()}});
    CHECK(p["a"].as_double() == std::numeric_limits<double>::max());
}

TEST_CASE("a transform cannot change which object it is, nor which state of it", "[pool]") {
    const auto rewritten = [](transform t, const std::string& json) {
        failure f;
        return document_pool::make(decode_options().transform_with(std::move(t)))->decode(json, object(), f).to_json();
    };
    const std::string metadata = R"({"name":"a","namespace":"n","uid":"u","resourceVersion":"7"})";
    const std::string whole = R"({"metadata":)" + metadata + R"(,"spec":1})";

    const transform change = [](boost::json::value& v) {
        auto& m = v.as_object()["metadata"].as_object();
        for (const char* one : {"name", "namespace", "uid", "resourceVersion"}) m[one] = "another";
    };
    CHECK(rewritten(change, whole) == whole);
    // An object does not get members of its identity that it never had.
    CHECK(rewritten(change, R"({"metadata":{"name":"a"}})") == R"({"metadata":{"name":"a"}})");

    const transform anew = [](boost::json::value& v) {
        v = boost::json::object{{"metadata", boost::json::object()}, {"spec", 2}};
    };
    CHECK(rewritten(anew, whole) == R"({"metadata":)" + metadata + R"(,"spec":2})");

    // Nothing is made up if no metadata is left.
    const transform without = [](boost::json::value& v) { v.as_object().erase("metadata"); };
    CHECK(rewritten(without, whole) == R"({"spec":1})");
}
