// Label selectors that stand in objects, as client-go's LabelSelectorAsSelector reads them.
#include <informer/object/document_pool.hpp>
#include <informer/object/selector.hpp>

#include <catch2/catch_test_macros.hpp>

#include <string>

using namespace informer;

namespace {

object holding(const std::string& selector) {
    return parse_object(R"({"spec":{"selector":)" + selector + "}}");
}

label_selector of(const std::string& selector) {
    const object o = holding(selector);
    return label_selector::from(o["spec"]["selector"]);
}

label_selector of_map(const std::string& labels, failure& f) {
    const object o = holding(labels);
    return label_selector::from_map(o["spec"]["selector"], f);
}

std::string read(const std::string& selector) {
    return of(selector).str();
}

std::string wrong(const std::string& selector) {
    const object o = holding(selector);
    failure f;
    const auto s = label_selector::from(o["spec"]["selector"], f);
    CHECK(f == errc::bad_selector);
    CHECK(s == label_selector::nothing());
    CHECK_THROWS_AS(label_selector::from(o["spec"]["selector"]), error);
    return f.message();
}

object labelled(const std::string& labels) {
    return parse_object(R"({"metadata":{"name":"p","labels":)" + labels + "}}");
}

} // namespace

TEST_CASE("a LabelSelector of an object is read as client-go reads it", "[selector]") {
    CHECK(read(R"({"matchLabels":{"b":"2","a":"1"}})") == "a=1,b=2");
    CHECK(read(R"({"matchLabels":{"example.com/app":"web","empty":""},"matchExpressions":[
        {"key":"tier","operator":"In","values":["front","back","front"]},{"key":"env","operator":"NotIn","values":["test"]},
        {"key":"owner","operator":"Exists"},{"key":"old","operator":"DoesNotExist","values":[]}]})") ==
          "empty=,env notin (test),example.com/app=web,!old,owner,tier in (back,front)");
    CHECK(read(R"({"matchLabels":null,"matchExpressions":[{"key":"a","operator":"Exists","values":null}]})") == "a");

    const object deployment =
        holding(R"({"matchLabels":{"app":"web"},"matchExpressions":[{"key":"old","operator":"DoesNotExist"}]})");
    const auto s = label_selector::from(deployment["spec"]["selector"]);
    CHECK(s == label_selector::parse("app=web,!old"));
    CHECK(s.matches(labelled(R"({"app":"web","x":"y"})")));
    CHECK_FALSE(s.matches(labelled(R"({"app":"web","old":"yes"})")));
    CHECK_FALSE(s.matches(labelled(R"({"app":"db"})")));
}

TEST_CASE("a missing LabelSelector selects nothing, an empty one everything", "[selector]") {
    const object none = parse_object(R"({"spec":{}})");
    const auto nothing = label_selector::from(none["spec"]["selector"]);
    CHECK(nothing == label_selector::nothing());
    CHECK(of("null") == nothing);
    CHECK_FALSE(nothing.everything());
    CHECK_FALSE(nothing.matches(none));
    for (const char* labels : {"{}", R"({"nothing":"x"})", R"({"a":"b"})"})
        CHECK_FALSE(nothing.matches(labelled(labels)));
    CHECK(label_selector::parse(nothing.str()) == nothing); // so that a server finds nothing, too

    for (const char* empty : {"{}", R"({"matchLabels":{}})", R"({"matchLabels":null,"matchExpressions":[]})"})
        CHECK(of(empty).everything());
}

TEST_CASE("a LabelSelector that the API would refuse is an error that says where", "[selector]") {
    const auto expression = [](const std::string& e) {
        return R"({"matchExpressions":[{"key":"ok","operator":"Exists"},)" + e + "]}";
    };
    CHECK(wrong(expression(R"({"key":"a","operator":"Like","values":["x"]})")) ==
          "label selector at matchExpressions/1: 'Like' is no operator; there are In, NotIn, Exists and DoesNotExist");
    CHECK(wrong(expression(R"({"key":"a"})"))
              .ends_with("'' is no operator; there are In, NotIn, Exists and DoesNotExist"));
    CHECK(wrong(expression(R"({"key":"a","operator":"In"})")) ==
          "label selector at matchExpressions/1: In needs values");
    CHECK(wrong(expression(R"({"key":"a","operator":"NotIn","values":[]})")).ends_with("NotIn needs values"));
    CHECK(wrong(expression(R"({"key":"a","operator":"Exists","values":["x"]})")).ends_with("Exists takes no values"));
    CHECK(wrong(expression(R"({"key":"a","operator":"DoesNotExist","values":["x"]})"))
              .ends_with("DoesNotExist takes no values"));
    CHECK(wrong(expression(R"({"key":"-a","operator":"Exists"})")).ends_with("'-a' is no label key"));
    CHECK(wrong(expression(R"({"operator":"Exists"})")).ends_with("'' is no label key"));
    CHECK(wrong(expression(R"({"key":"a","operator":"In","values":["b b"]})")) ==
          "label selector at matchExpressions/1/a: 'b b' is no label value");
    CHECK(wrong(expression(R"({"key":"a","operator":"In","values":"x"})")) ==
          "label selector at matchExpressions/1/values: found string, not an array");
    CHECK(wrong(expression(R"({"key":"a","operator":"In","values":[1]})")).ends_with("found integer, not a string"));
    CHECK(wrong(expression("7")) == "label selector at matchExpressions/1: found integer, not an object");
    CHECK(wrong(R"({"matchExpressions":{}})") == "label selector at matchExpressions: found object, not an array");
    CHECK(wrong(R"({"matchLabels":{"a":1}})") == "label selector at matchLabels/a: found integer, not a string");
    CHECK(wrong(R"({"matchLabels":{"a":"b c"}})") == "label selector at matchLabels/a: 'b c' is no label value");
    CHECK(wrong(R"({"matchLabels":"a=b"})").ends_with("at matchLabels: found string, not an object"));
    CHECK(wrong(R"("a=b")") == "label selector: found string, not an object");
    // The map of a Service, taken for a LabelSelector, would match all.
    CHECK(wrong(R"({"app":"web"})") == "label selector: 'app' is no member of a selector");
}

TEST_CASE("a plain map of labels is read as client-go's sets are", "[selector]") {
    const object service = holding(R"({"b":"2","a":"1"})");
    const auto s = label_selector::from_map(service["spec"]["selector"]);
    CHECK(s.str() == "a=1,b=2");
    CHECK(s.matches(labelled(R"({"a":"1","b":"2","c":"3"})")));
    CHECK_FALSE(s.matches(labelled(R"({"a":"1"})")));
    CHECK(label_selector::from_map(service["spec"]["none"]).everything());
    failure f;
    CHECK(of_map("{}", f).everything());
    CHECK(of_map(R"({"matchLabels":{"a":"b"}})", f) == label_selector::nothing());
    CHECK(f.message() == "label selector at matchLabels: found object, not a string");
    label_selector::from_map(service["spec"]["selector"], f);
    CHECK_FALSE(f);
    const object broken = holding(R"({"a b":"c"})");
    CHECK_THROWS_AS(label_selector::from_map(broken["spec"]["selector"]), error);
}
