// Keys, read from the text of an object that may break off.
#include <informer/object/framer.hpp>

#include <catch2/catch_test_macros.hpp>

#include <cstddef>
#include <string>
#include <string_view>

using namespace informer;

TEST_CASE("peek_key reads namespace and name wherever metadata stands", "[framer]") {
    CHECK(peek_key(R"({"metadata":{"name":"n","namespace":"ns"}})") == object_key("ns", "n"));
    CHECK(peek_key(
              R"( { "spec" : {"metadata":{"name":"no"}} , "metadata" : { "namespace" : "ns" , "labels":{"name":"x"},)"
              R"( "name" : "n" } } )") == object_key("ns", "n"));
    CHECK(peek_key(R"({"metadata":{"name":"n"}})") == object_key("", "n"));
    CHECK(peek_key(R"({"metadata":{"n\u0061me":"\u0061\n\"","namespace":"\ud83d\ude00"}})") ==
          object_key("\xF0\x9F\x98\x80", "a\n\""));
    for (const char* none : {"", "{", "{}", "[]", "7", "null", "garbage", R"({"metadata":null})", R"({"metadata":[]})",
                             R"({"metadata":{}})", R"({"metadata":{"name":5}})", R"({"metadata":{"name":"\ud800"}})",
                             R"({"a" "b"})", R"({"metadata"})", R"({"metadata":{"namespace":"ns"}})"})
        CHECK(peek_key(none).empty());
}

TEST_CASE("peek_key never takes half a key from a text that breaks off", "[framer]") {
    const std::string_view text =
        R"({"kind":"P","metadata":{"name":"n","labels":{"a":"b"},"namespace":"ns","uid":"u"},"spec":{}})";
    for (std::size_t i = 0; i <= text.size(); ++i) {
        const auto key = peek_key(text.substr(0, i));
        CHECK((key.empty() || key == object_key("ns", "n")));
    }
    const std::string_view cluster = R"({"metadata":{"name":"n","uid":"u"}})";
    CHECK(peek_key(cluster.substr(0, cluster.size() - 2)).empty());
    CHECK(peek_key(cluster.substr(0, cluster.size() - 1)) == object_key("", "n"));
}

TEST_CASE("peek_key reads the same from a text as servers write it and from one with spaces, wherever it breaks off",
          "[framer]") {
    for (const std::string_view text :
         {R"({"kind":"P","apiVersion":"v1","metadata":{"name":"n","generateName":"g","namespace":"ns","uid":"u"}})",
          R"({"metadata":{"namespace":"ns","name":"n"},"spec":{}})", R"({"metadata":{"name":"n","uid":"u"}})",
          R"({"metadata":{"name":"n","name":"m","namespace":"ns"}})", R"({"metadata":{"name":"","namespace":"ns"}})",
          R"({"metadata":{"name":"n","namespace":""}})", R"({"metadata":{"name":"n\u0061","namespace":"ns"}})",
          R"({"metadata":{"name":"n","labels":{"name":"x"},"namespace":"ns"}})",
          R"({"metadata":{"name":"n","namespace":5}})", R"({"m\u0065tadata":{"name":"n","namespace":"ns"}})",
          R"({"metadata":"name","spec":{"name":"n"}})", R"({"a":"metadata","metadata":{"name":"n","namespace":"ns"}})",
          R"({"metadata":{"a":"name","name":"n"}})"}) {
        for (std::size_t i = 0; i <= text.size(); ++i) {
            const std::string_view part = text.substr(0, i);
            CAPTURE(part);
            CHECK(peek_key(part) == peek_key(" " + std::string(part)));
        }
    }
    const std::string long_name(5000, 'x');
    CHECK(peek_key(R"({"metadata":{"name":")" + long_name + R"(","namespace":"ns"}})") == object_key("ns", long_name));
}

TEST_CASE("peek_uid reads the uid of the object and no other, and none from a text that breaks off in it", "[framer]") {
    CHECK(peek_uid(R"({"metadata":{"name":"n","namespace":"ns","uid":"u"}})") == "u");
    // Of members that come twice the decoder takes the last one, which perhaps cannot be reached.
    CHECK(peek_uid(R"({"metadata":{"uid":"u","uid":"v"}})").empty());
    CHECK(peek_uid(R"({"metadata":{"uid":"u"},"spec":{},"metadata":{"uid":"v"}})").empty());
    CHECK(peek_uid(R"({"metadata":{"uid":"u"},"spec":})") == "u");
    CHECK(peek_uid(R"( { "spec":{"uid":"no"}, "uid":"no", "metadata" : { "ownerReferences":[{"uid":"no"}],)"
                   R"( "labels":{"uid":"no"}, "u\u0069d" : "\u0061\"" } } )") == "a\"");
    for (const char* none : {"", "{", "[]", "7", "garbage", R"({"metadata":null})", R"({"metadata":{}})",
                             R"({"metadata":{"uid":5}})", R"({"metadata":{"uid":null}})", R"({"uid":"u"})",
                             R"({"metadata":{"name":"n"},"spec":{"uid":"u"}})", R"({"metadata":{"uid":"\ud800"}})"})
        CHECK(peek_uid(none).empty());
    const std::string_view text = R"({"kind":"P","metadata":{"name":"n","labels":{"a":"b"},"uid":"u-1"},"spec":{}})";
    const std::size_t whole = text.find("u-1") + 4;
    for (std::size_t i = 0; i <= text.size(); ++i) CHECK(peek_uid(text.substr(0, i)) == (i < whole ? "" : "u-1"));
}
