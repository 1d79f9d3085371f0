// Server-side apply against a server: ownership of fields and conflicts, and texts that arrive unchanged.
#include "objects.hpp"

using namespace informer;
using namespace informer::conformance;
using informer::kubernetes::field_conflicts;
using informer::kubernetes::write_options;

namespace {

write_options as(std::string manager) {
    write_options o;
    o.field_manager(std::move(manager));
    return o;
}

std::string text(const object& o, std::string_view pointer) {
    return o.at_pointer(pointer).to_json();
}

asio::awaitable<void> applies(std::shared_ptr<cluster> c) {
    const auto maps = c->config_maps();
    const auto one = as("one"), two = as("two");
    const auto first = with_data(*c, R"({"a":"1","b":"1"})");
    const object made = co_await c->client().apply(maps, first, one);
    CHECK(made["data"]["a"].as_string() == "1");
    const object again = co_await c->client().apply(maps, first, one);
    CHECK(again.resource_version() == made.resource_version()); // nothing changed, nothing was written

    const auto other = with_data(*c, R"({"a":"2","c":"2"})");
    failure f;
    co_await c->client().apply(maps, other, two, f);
    CHECK(f == errc::conflict);
    const auto found = field_conflicts(f);
    REQUIRE(found.size() == 1);
    CHECK(found[0].field == ".data.a");
    CHECK(found[0].manager == "one");
    CHECK(found[0].message == "conflict with \"one\"");
    REQUIRE(f.status());
    CHECK(f.status()->message == "Apply failed with 1 conflict: conflict with \"one\": .data.a");

    auto by_force = two;
    by_force.force();
    const object forced = co_await c->client().apply(maps, other, by_force);
    CHECK(text(forced, "/data") == R"({"a":"2","b":"1","c":"2"})");
    const auto less = with_data(*c, R"({"b":"1"})"); // "a" belongs to "two" by now, "b" stays
    const object kept = co_await c->client().apply(maps, less, one);
    CHECK(text(kept, "/data") == R"({"a":"2","b":"1","c":"2"})");
    const auto gone = with_data(*c, R"({"c":"2"})");
    const object left = co_await c->client().apply(maps, gone, two);
    CHECK(text(left, "/data") == R"({"b":"1","c":"2"})");
}

asio::awaitable<void> updates_take_fields(std::shared_ptr<cluster> c) {
    const auto maps = c->config_maps();
    const auto me = as("me"), editor = as("editor");
    const auto mine = with_data(*c, R"({"a":"1"})");
    co_await c->client().apply(maps, mine, me);
    const object_key key(c->name_space(), "a");
    const auto change = json::parse(R"({"data":{"a":"2"}})");
    co_await c->client().patch(maps, key, kubernetes::patch_type::merge, change, editor);
    failure f;
    co_await c->client().apply(maps, mine, me, f);
    const auto found = field_conflicts(f);
    REQUIRE(found.size() == 1);
    CHECK(found[0].manager == "editor");
    CHECK(found[0].message == "conflict with \"editor\" using v1");
    const auto same = with_data(*c, R"({"a":"2"})");
    co_await c->client().apply(maps, same, me);
}

asio::awaitable<void> applies_to_lists(std::shared_ptr<cluster> c) {
    const auto one = as("one"), two = as("two");
    const auto whole = deployment(
        *c, R"([{"name":"web","image":"i:1","ports":[{"containerPort":80,"protocol":"TCP"}],"args":["x"]}])", 0);
    co_await c->client().apply(deployments(), whole, one);
    json::object o;
    o["spec"] = json::parse(
        R"({"template":{"spec":{"containers":[{"name":"side","image":"s:1"},{"name":"web","env":[{"name":"E","value":"1"}]}]}}})");
    const auto part = named(*c, "d", o);
    const object both = co_await c->client().apply(deployments(), part, two);
    const auto containers = both.at_pointer("/spec/template/spec/containers");
    REQUIRE(containers.size() == 2);
    CHECK(text(both, "/spec/template/spec/containers/0/name") == "\"side\""); // as applied
    CHECK(text(both, "/spec/template/spec/containers/1/name") == "\"web\"");

    o["spec"] = json::parse(R"({"template":{"spec":{"containers":[{"name":"web","args":["y"]}]}}})");
    const auto rival = named(*c, "d", o);
    failure f;
    co_await c->client().apply(deployments(), rival, two, f);
    const auto found = field_conflicts(f);
    REQUIRE(found.size() == 1);
    CHECK(found[0].field == R"(.spec.template.spec.containers[name="web"].args)");

    o["spec"] = json::parse(R"({"template":{"spec":{"containers":[{"name":"web"}]}}})");
    const auto less = named(*c, "d", o);
    const object alone = co_await c->client().apply(deployments(), less, two);
    REQUIRE(alone.at_pointer("/spec/template/spec/containers").size() == 1);
    CHECK(text(alone, "/spec/template/spec/containers/0/name") == "\"web\"");
    CHECK(text(alone, "/spec/template/spec/containers/0/image") == "\"i:1\"");
    CHECK_FALSE(alone.at_pointer("/spec/template/spec/containers/0/env").exists());
}

asio::awaitable<void> applies_to_custom_resources(std::shared_ptr<cluster> c) {
    const auto widgets = co_await c->make_crd();
    const auto one = as("one"), two = as("two");
    json::object o;
    o["spec"] = json::parse(R"({"list":[{"name":"a"}],"deep":{"x":1}})");
    o["status"] = json::parse(R"({"seen":1})");
    const auto whole = named(*c, "w", o);
    const object made = co_await c->client().apply(widgets, whole, one);
    CHECK(made.kind() == "Widget");
    CHECK_FALSE(made["status"].exists()); // status is a subresource
    auto to_status = one;
    to_status.subresource("status");
    const object seen = co_await c->client().apply(widgets, whole, to_status);
    CHECK(seen["status"]["seen"].as_int64() == 1);
    o.erase("status");
    o["spec"] = json::parse(R"({"list":[{"name":"b"}],"deep":{"y":2}})"); // lists are atomic, maps are not
    const auto other = named(*c, "w", o);
    failure f;
    co_await c->client().apply(widgets, other, two, f);
    const auto found = field_conflicts(f);
    REQUIRE(found.size() == 1);
    CHECK(found[0].field == ".spec.list");
    auto by_force = two;
    by_force.force();
    const object forced = co_await c->client().apply(widgets, other, by_force);
    CHECK(text(forced, "/spec/list") == R"([{"name":"b"}])");
    CHECK(text(forced, "/spec/deep/x") == "1");
    CHECK(text(forced, "/status/seen") == "1");
}

// The body of an apply is read as YAML, which refuses some characters that JSON strings may contain, and folds line
// breaks other than "\n" into blanks.
asio::awaitable<void> applies_any_text(std::shared_ptr<cluster> c) {
    const std::string odd = "a \x7f \u0080 \u0085 \u009f \u00a0 \u2027 \u2028 \u2029\u2029 \ufeff \ufffe \uffff "
                            "\U0001f600 \U0001ffff / \\u2028 \t\r\n \u0085";
    json::object rest;
    rest["data"] = json::object{{"odd", odd}, {"plain", "1"}};
    const auto o = named(*c, "a", std::move(rest));
    const object made = co_await c->client().apply(c->config_maps(), o, as("me"));
    CHECK(made["data"]["odd"].as_string() == odd);
    const object now = co_await read(c, c->config_maps(), "a");
    CHECK(now["data"]["odd"].as_string() == odd);
    const object again = co_await c->client().apply(c->config_maps(), o, as("me"));
    CHECK(again.resource_version() == made.resource_version());
}

} // namespace

TEST_CASE("apply owns the fields it sets, conflicts name them, force takes and omission drops them", "[conformance]") {
    run_case(applies);
}
TEST_CASE("an update takes the fields that it changes from the manager that applied them", "[conformance]") {
    run_case(updates_take_fields);
}
TEST_CASE("apply shares a keyed list item by item", "[conformance]") {
    run_case(applies_to_lists);
}
TEST_CASE("apply works on custom resources and their status", "[conformance]") {
    run_case(applies_to_custom_resources);
}
TEST_CASE("apply stores any text as it is", "[conformance]") {
    run_case(applies_any_text);
}
