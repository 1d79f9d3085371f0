// Documents as structs, and back.
#include <informer/object/document_pool.hpp>
#include <informer/object/typed.hpp>

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <catch2/catch_test_macros.hpp>

#include <cstdint>
#include <limits>
#include <map>
#include <unordered_map>

using namespace informer;
using time_point = std::chrono::system_clock::time_point;

namespace scene {

using int_or_string = std::variant<std::int32_t, std::string>;

struct port {
    std::string name;
    std::uint16_t container_port = 0;
    int_or_string target;
};
BOOST_DESCRIBE_STRUCT(port, (), (name, container_port, target))

struct meta {
    std::string name, namespace_ = "default";
    std::map<std::string, std::string> labels;
    std::optional<time_point> creation_timestamp;
};
BOOST_DESCRIBE_STRUCT(meta, (), (name, namespace_, labels, creation_timestamp))

struct spec {
    std::optional<int> replicas;
    bool paused = true;
    double weight = 0.5;
    std::vector<port> ports;
    std::unordered_map<std::string, std::vector<std::int64_t>> many;
    boost::json::value anything;
};
BOOST_DESCRIBE_STRUCT(spec, (), (replicas, paused, weight, ports, many, anything))

struct base {
    std::string kind;
};
BOOST_DESCRIBE_STRUCT(base, (), (kind))

struct foo : base {
    meta metadata;
    struct spec spec;
};
BOOST_DESCRIBE_STRUCT(foo, (base), (metadata, spec))

struct tree {
    int size = 0;
    std::vector<tree> children;
};
BOOST_DESCRIBE_STRUCT(tree, (), (size, children))

struct names {
    int pod_IP = 0, two__words = 0, _id = 0, operator_ = 0, as_it_is2 = 0, camelCase = 0;
};
BOOST_DESCRIBE_STRUCT(names, (), (pod_IP, two__words, _id, operator_, as_it_is2, camelCase))

struct numbers {
    std::int8_t small = 0;
    std::uint64_t large = 0;
    std::int64_t whole = 0;
};
BOOST_DESCRIBE_STRUCT(numbers, (), (small, large, whole))

struct seconds {
    int count = 0;
};
struct timed {
    seconds wait;
    std::optional<seconds> again;
};
BOOST_DESCRIBE_STRUCT(timed, (), (wait, again))

template <class T>
std::string why_not(const char* text) {
    failure f;
    as<T>(parse_object(text), f);
    CHECK(f == errc::wrong_type);
    return f.message();
}

} // namespace scene

template <>
struct informer::conversion<scene::seconds> {
    static void read(const value& from, scene::seconds& to, failure& f) {
        const text said = from.string_or_empty();
        if (!said.view().ends_with('s')) {
            f = failure(errc::wrong_type, "no duration");
            return;
        }
        to.count = std::stoi(said.str());
    }
    static boost::json::value write(const scene::seconds& from) {
        return boost::json::value(std::to_string(from.count) + "s");
    }
};

TEST_CASE("an object is read as a struct, nested ones, lists, maps and bases included") {
    const object o = parse_object(R"({"kind":"Foo","apiVersion":"v1",
        "metadata":{"name":"a","namespace":"ns","labels":{"app":"x","tier":"y"},"creationTimestamp":"2024-01-01T00:00:00Z"},
        "spec":{"replicas":3,"paused":false,"weight":1.25,"ports":[{"name":"http","containerPort":8080,"target":"web"},{"target":81}],
                "many":{"a":[1,2],"b":[]},"anything":{"deep":[1,"x",null]},"unknown":true}})");
    const auto f = as<scene::foo>(o);
    CHECK(f.kind == "Foo");
    CHECK(f.metadata.name == "a");
    CHECK(f.metadata.namespace_ == "ns");
    CHECK(f.metadata.labels == std::map<std::string, std::string>{{"app", "x"}, {"tier", "y"}});
    CHECK(f.metadata.creation_timestamp == parse_rfc3339("2024-01-01T00:00:00Z"));
    CHECK(f.spec.replicas == 3);
    CHECK_FALSE(f.spec.paused);
    CHECK(f.spec.weight == 1.25);
    REQUIRE(f.spec.ports.size() == 2);
    CHECK(f.spec.ports[0].name == "http");
    CHECK(f.spec.ports[0].container_port == 8080);
    CHECK(f.spec.ports[0].target == scene::int_or_string("web"));
    CHECK(f.spec.ports[1].target == scene::int_or_string(81));
    CHECK(f.spec.many.at("a") == std::vector<std::int64_t>{1, 2});
    CHECK(f.spec.many.at("b").empty());
    CHECK(f.spec.anything == boost::json::parse(R"({"deep":[1,"x",null]})"));
}

TEST_CASE("a value read into a struct and written again is unchanged, also at the limits of what its member holds") {
    const object o = parse_object(R"({"float":[0.1,3.5,-1e-7,3.4e38],"double":[0.1,1e300],)"
                                  R"("time":["9999-12-31T23:59:59Z","0001-01-01T00:00:00Z","2024-02-29T00:00:00Z"]})");
    const auto back = [&](const char* member, const auto& read) {
        boost::json::array all;
        for (const auto one : read) all.push_back(conversion<std::decay_t<decltype(one)>>::write(one));
        CAPTURE(member);
        CHECK(boost::json::value(all) == to_value(o[member]));
    };
    back("float", as<std::vector<float>>(o["float"]));
    back("double", as<std::vector<double>>(o["double"]));
    back("time", as<std::vector<time_point>>(o["time"]));
    CHECK(conversion<time_point>::write(time_point::min() + std::chrono::nanoseconds(1)) ==
          "1677-09-21T00:12:43.145224Z");
}

TEST_CASE("a time beyond the range of the clock is read as its first or its last") {
    const object o = parse_object(
        R"({"times":["9999-12-31T23:59:59Z","2262-05-01T00:00:00+01:00","0001-01-01T00:00:00Z","9999-02-30T00:00:00Z"]})");
    CHECK(as<time_point>(o["times"][0]) == time_point::max());
    CHECK(as<time_point>(o["times"][1]) == time_point::max());
    CHECK(as<time_point>(o["times"][2]) == time_point::min());
    failure f;
    as<time_point>(o["times"][3], f);
    CHECK(f == errc::wrong_type);
}

TEST_CASE("a number that its member cannot hold is an error, and does not become infinity") {
    const object o = parse_object(R"({"narrow":[1e300],"wide":[-1e400]})");
    failure f;
    as<std::vector<float>>(o["narrow"], f);
    CHECK(f.what().find("/0: expected a number that a float can hold, found a number") != std::string::npos);
    as<std::vector<double>>(o["wide"], f);
    CHECK(f.what().find("/0: expected a number that a double can hold, found a number") != std::string::npos);
    as<std::vector<float>>(o["wide"], f);
    CHECK(f == errc::wrong_type);
}

TEST_CASE("a missing or null member keeps the struct's own value") {
    for (const char* text : {R"({"metadata":{}})", R"({"metadata":{"namespace":null},"spec":null})",
                             R"({"metadata":{},"spec":{"replicas":null,"paused":null,"ports":null,"many":null}})"}) {
        CAPTURE(text);
        const auto f = as<scene::foo>(parse_object(text));
        CHECK(f.metadata.namespace_ == "default");
        CHECK_FALSE(f.spec.replicas);
        CHECK(f.spec.paused);
        CHECK(f.spec.ports.empty());
    }
    CHECK(as<scene::spec>(value()).weight == 0.5);
    const object o = parse_object(R"({"n":[1,null]})");
    CHECK(as<int>(o["missing"]) == 0);
    const object narrow = parse_object(R"({"n":1.5})");
    CHECK(as<float>(narrow["n"]) == 1.5f);
    CHECK(as<std::vector<std::optional<int>>>(o["n"]).at(1) == std::nullopt);
    CHECK(as<std::vector<int>>(o["n"]).at(1) == 0);
}

TEST_CASE("names are the document's, or its words with underscores between them") {
    const auto n =
        as<scene::names>(parse_object(R"({"podIP":1,"two_words":2,"_id":3,"operator":4,"asItIs2":5,"camelCase":6})"));
    CHECK(n.pod_IP == 1);
    CHECK(n.two__words == 2);
    CHECK(n._id == 3);
    CHECK(n.operator_ == 4);
    CHECK(n.as_it_is2 == 5);
    CHECK(n.camelCase == 6);
}

TEST_CASE("a struct may hold structs of its own kind") {
    const auto t =
        as<scene::tree>(parse_object(R"({"size":1,"children":[{"size":2,"children":[{"size":3}]},{"size":4}]})"));
    CHECK(t.children.at(0).children.at(0).size == 3);
    CHECK(t.children.at(1).size == 4);
}

TEST_CASE("a whole number is read where it fits, whatever its spelling, and nowhere else") {
    using scene::numbers;
    const auto n = as<numbers>(parse_object(R"({"small":-128,"large":18446744073709551615,"whole":1e3})"));
    CHECK(n.small == -128);
    CHECK(n.large == std::numeric_limits<std::uint64_t>::max());
    CHECK(n.whole == 1000);
    const auto why = [](const char* text) { return scene::why_not<numbers>(text); };
    CHECK(why(R"({"small":128})") == "/small: expected a whole number from -128 to 127, found 128");
    CHECK(why(R"({"small":-129})") == "/small: expected a whole number from -128 to 127, found -129");
    CHECK(why(R"({"large":-1})") == "/large: expected a whole number from 0 to 18446744073709551615, found -1");
    const std::string whole =
        "/whole: expected a whole number from -9223372036854775808 to 9223372036854775807, found ";
    CHECK(why(R"({"whole":1.5})") == whole + "1.5");
    CHECK(why(R"({"whole":18446744073709551615})") == whole + "18446744073709551615");
    CHECK(why(R"({"whole":"5"})") == whole + "a string");
    // A number may be of any length: the message does not repeat it.
    CHECK(why(("{\"whole\":1" + std::string(100'000, '0') + "}").c_str()) == whole + "a number");
}

TEST_CASE("a document of other types is an error that says where") {
    using scene::foo, scene::why_not;
    CHECK(why_not<foo>(R"({"kind":5})") == "/kind: expected a string, found 5");
    CHECK(why_not<foo>(R"({"spec":[]})") == "/spec: expected an object, found array");
    CHECK(why_not<foo>(R"({"spec":{"ports":{}}})") == "/spec/ports: expected an array, found object");
    CHECK(why_not<foo>(R"({"spec":{"ports":[{},{"name":true}]}})") ==
          "/spec/ports/1/name: expected a string, found true");
    CHECK(why_not<foo>(R"({"spec":{"paused":"yes"}})") == "/spec/paused: expected true or false, found a string");
    CHECK(why_not<foo>(R"({"spec":{"weight":"1"}})") == "/spec/weight: expected a number, found a string");
    CHECK(why_not<foo>(R"({"spec":{"many":{"a/b~c":[1,"x"]}}})") ==
          "/spec/many/a~1b~0c/1: expected a whole number from -9223372036854775808 to 9223372036854775807, found a "
          "string");
    CHECK(why_not<foo>(R"({"metadata":{"creationTimestamp":"noon"}})") ==
          "/metadata/creationTimestamp: expected a time (RFC 3339), found a string");
    CHECK(why_not<foo>(R"({"spec":{"ports":[{"target":{}}]}})") ==
          "/spec/ports/0/target: expected a string, found object");
    CHECK_THROWS_AS(as<foo>(parse_object(R"({"kind":5})")), error);
    failure f(errc::stopped, "before");
    as<foo>(parse_object(R"({"kind":"x"})"), f);
    CHECK_FALSE(f);
}

TEST_CASE("a struct is written as it is read, without missing members") {
    scene::foo f;
    f.kind = "Foo";
    f.metadata.name = "a";
    f.metadata.labels["app"] = "x";
    f.spec.ports.push_back({"http", 80, 8080});
    f.spec.ports.push_back({"", 81, "web"});
    const boost::json::value v = to_value(f);
    CHECK(boost::json::serialize(v) ==
          R"({"kind":"Foo","metadata":{"name":"a","namespace":"default","labels":{"app":"x"}},)"
          R"("spec":{"paused":true,"weight":5E-1,"ports":[{"name":"http","containerPort":80,"target":8080},)"
          R"({"name":"","containerPort":81,"target":"web"}],"many":{},"anything":null}})");
    const auto again = as<scene::foo>(from_value(v));
    CHECK(again.spec.ports.at(0).target == scene::int_or_string(8080));
    CHECK(to_value(again) == v);

    f.metadata.creation_timestamp = *parse_rfc3339("2024-01-01T00:00:00Z");
    CHECK(to_value(f).at("metadata").at("creationTimestamp") == "2024-01-01T00:00:00Z");
    f.metadata.creation_timestamp = *parse_rfc3339("2024-01-01T00:00:00.25Z");
    CHECK(to_value(f).at("metadata").at("creationTimestamp") == "2024-01-01T00:00:00.250000Z");
}

TEST_CASE("a type may have a conversion of its own, whose errors get a path") {
    const auto t = as<scene::timed>(parse_object(R"({"wait":"30s","again":"5s"})"));
    CHECK(t.wait.count == 30);
    CHECK(t.again->count == 5);
    CHECK(scene::why_not<scene::timed>(R"({"again":"soon"})") == "/again: no duration");
    CHECK(to_value(scene::timed{{7}, {}}) == boost::json::parse(R"({"wait":"7s"})"));
}
