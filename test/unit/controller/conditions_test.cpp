// Conditions of a status: what apimachinery's SetStatusCondition and related functions do.
#include <informer/controller/conditions.hpp>
#include <informer/object/json.hpp>

#include <boost/json.hpp>
#include <catch2/catch_test_macros.hpp>

#include <chrono>
#include <string>

using namespace informer;
using namespace std::chrono_literals;
namespace json = boost::json;

namespace {

constexpr std::chrono::system_clock::time_point noon =
    std::chrono::sys_days(std::chrono::year(2024) / std::chrono::February / 29) + 12h + 1999ms;

status_condition ready(condition_status s = condition_status::yes) {
    return status_condition("Ready", s, "Applied", "all is there").observed_generation(3);
}

std::string since(const json::value& status, std::string_view type) {
    const json::value* one = find_condition(status, type);
    REQUIRE(one != nullptr);
    return std::string(one->at("lastTransitionTime").as_string());
}

} // namespace

TEST_CASE("a condition is added with the current time, also to a status that does not exist yet") {
    json::value status;
    CHECK(set_condition(status, ready(), noon));
    CHECK(status ==
          json::parse(R"({"conditions":[{"type":"Ready","status":"True","lastTransitionTime":"2024-02-29T12:00:01Z",
        "reason":"Applied","message":"all is there","observedGeneration":3}]})"));
    CHECK(set_condition(status, status_condition("Degraded", condition_status::unknown, "Starting"), noon + 1h));
    CHECK(status.at_pointer("/conditions/1/status") == "Unknown");
    CHECK(status.at_pointer("/conditions/1/message") == "");
    CHECK_FALSE(status.at_pointer("/conditions/1").as_object().contains("observedGeneration"));
    json::value odd = {{"phase", "Up"}, {"conditions", "none"}};
    CHECK(set_condition(odd, ready(), noon));
    CHECK(odd.at("phase") == "Up");
    CHECK(is_condition_true(odd, "Ready"));
}

TEST_CASE("lastTransitionTime stays unless the status changes; other members are replaced") {
    json::value status;
    set_condition(status, status_condition("First", condition_status::no, "X"), noon);
    set_condition(status, ready(), noon);
    const json::value before = status;
    CHECK_FALSE(set_condition(status, ready(), noon + 1h));
    CHECK(status == before);
    CHECK(set_condition(status, ready().observed_generation(4), noon + 1h));
    CHECK(set_condition(status, status_condition("Ready", condition_status::yes, "Other", "all is there"), noon + 1h));
    CHECK(set_condition(status, status_condition("Ready", condition_status::yes, "Other", "words"), noon + 1h));
    CHECK(since(status, "Ready") == "2024-02-29T12:00:01Z");
    CHECK(find_condition(status, "Ready")->at("message") == "words");
    CHECK_FALSE(find_condition(status, "Ready")->as_object().contains("observedGeneration"));
    CHECK(set_condition(status, ready(condition_status::no), noon + 1h));
    CHECK(since(status, "Ready") == "2024-02-29T13:00:01Z");
    CHECK(since(status, "First") == "2024-02-29T12:00:01Z");
    CHECK(status.at("conditions").as_array().size() == 2);
    CHECK(status.at_pointer("/conditions/0/type") == "First"); // the order stays
}

TEST_CASE("what others wrote beside or into a condition stays; a missing lastTransitionTime is added") {
    json::value status =
        json::parse(R"({"conditions":[7,{"type":"Theirs"},{"type":"Ready","status":"True","extra":1}],"replicas":2})");
    CHECK(set_condition(status, ready(), noon));
    CHECK(since(status, "Ready") == "2024-02-29T12:00:01Z");
    CHECK(status.at_pointer("/conditions/2/extra") == 1);
    CHECK(status.at_pointer("/conditions/1") == json::parse(R"({"type":"Theirs"})"));
    CHECK(status.at_pointer("/conditions/0") == 7);
    CHECK(status.at("replicas") == 2);
}

TEST_CASE("a condition is removed; other conditions, and elements that are no conditions, stay") {
    json::value status = json::parse(R"({"conditions":[7,{"type":"A"},{"type":"B"}],"x":1})");
    CHECK(remove_condition(status, "A"));
    CHECK_FALSE(remove_condition(status, "A"));
    CHECK(status == json::parse(R"({"conditions":[7,{"type":"B"}],"x":1})"));
    for (const char* none : {"null", "{}", R"({"conditions":{}})"}) {
        json::value other = json::parse(none);
        CHECK_FALSE(remove_condition(other, "A"));
        CHECK(other == json::parse(none));
    }
}

TEST_CASE("a condition is found in a status and in an object, and is true only if its status says True") {
    const json::value whole = json::parse(
        R"({"apiVersion":"v1","kind":"X","metadata":{"name":"x"},"status":{"conditions":[{"type":"A","status":"True"},{"type":"B","status":"False"},{"type":"C","status":true}]}})");
    const json::value& status = whole.at("status");
    const object o = from_value(whole);
    for (const char* type : {"A", "B", "C", "D"}) {
        const bool there = *type != 'D', so = *type == 'A';
        CHECK((find_condition(status, type) != nullptr) == there);
        CHECK(find_condition(o, type).exists() == there);
        CHECK(is_condition_true(status, type) == so);
        CHECK(is_condition_true(o, type) == so);
    }
    CHECK(find_condition(o, "B")["status"].as_string() == "False");
    const json::value nothing;
    CHECK(find_condition(nothing, "A") == nullptr);
    CHECK_FALSE(is_condition_true(from_value(json::parse(R"({"metadata":{"name":"x"}})")), "A"));
}
