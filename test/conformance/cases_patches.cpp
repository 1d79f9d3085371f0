// What patches and applies make of an object: the order of lists with keys, indexes of JSON patches, owners of fields
// that are dropped, and what is refused.
#include "objects.hpp"

#include <map>

using namespace informer;
using namespace informer::conformance;
using informer::kubernetes::patch_type;
using informer::kubernetes::write_options;

namespace {

int code_of(const failure& f) {
    return !f ? 200 : f.status() ? f.status()->code : 0;
}

write_options as(std::string manager) {
    write_options o;
    o.field_manager(std::move(manager)).force();
    return o;
}

/// "a,b" as [{"name":"a", …},{"name":"b", …}], or with `plain` only the names.
std::string list_of(std::string_view names, bool plain = false) {
    std::string out;
    for (const char name : names) {
        if (name == ',') continue;
        out += out.empty() ? "[" : ",";
        out += R"({"name":")" + std::string(1, name) + (plain ? R"("})" : R"(","image":"i:1"})");
    }
    return out.empty() ? "[]" : out + "]";
}

std::string names_of(const value& list) {
    std::string out;
    for (const value one : list) {
        if (!out.empty()) out += ',';
        out += one["name"].as_string();
    }
    return out;
}

std::string containers_of(const object& d) {
    return names_of(d.at_pointer("/spec/template/spec/containers"));
}

json::value of_template(const std::string& specification) {
    return json::parse(R"({"spec":{"template":{"spec":)" + specification + "}}}");
}

std::string managed_fields_of(const std::string& text) {
    const auto whole = json::parse(text);
    const auto* list = whole.at("metadata").as_object().if_contains("managedFields");
    std::map<std::string, std::string> sorted;
    if (list == nullptr) return {};
    for (const auto& e : list->as_array())
        sorted[std::string(e.at("manager").as_string())] = json::serialize(e.at("fieldsV1"));
    std::string out;
    for (const auto& [manager, fields] : sorted) out += (out.empty() ? "" : "; ") + manager + " " + fields;
    return out;
}

asio::awaitable<object> make_deployment(std::shared_ptr<cluster> c, std::string containers) {
    const write_options plain;
    const auto d = deployment(*c, list_of(containers), 0);
    auto made = co_await c->client().create(deployments(), d, plain);
    co_return made;
}

asio::awaitable<void> orders_patched_lists(std::shared_ptr<cluster> c) {
    const object_key key(c->name_space(), "d");
    const write_options plain = write_options().dry_run();
    co_await make_deployment(c, "a,b,c,d");
    const auto part = [](std::string_view names) { return R"("containers":)" + list_of(names); };
    const auto order = [](std::string_view names) {
        return R"("$setElementOrder/containers":)" + list_of(names, true);
    };
    const auto gone = [](const std::string& name, std::string_view rest) {
        return R"("containers":[{"name":")" + name + R"(","$patch":"delete"})" + (rest.empty() ? "]" : ",") +
               (rest.empty() ? "" : list_of(rest).substr(1));
    };
    const std::pair<std::string, std::string> patches[] = {{part("n"), "n,a,b,c,d"}, // new items come first
                                                           {part("b"), "a,b,c,d"},
                                                           {part("d,a"), "b,c,d,a"},
                                                           {part("x,d,y,a,z"), "x,b,c,d,y,a,z"},
                                                           {part("a,n"), "a,n,b,c,d"},
                                                           {part("n,c"), "n,a,b,c,d"},
                                                           {gone("a", "n"), "n,b,c,d"},
                                                           {gone("a", "a"), "a,b,c,d"},
                                                           {gone("c", ""), "a,b,d"},
                                                           {order("d,a"), "b,c,d,a"},
                                                           {order("b,x,a"), "b,a,c,d"},
                                                           {order(""), "a,b,c,d"},
                                                           {order("d,n,a") + "," + part("n"), "b,c,d,n,a"},
                                                           {order("b,m,a,n") + "," + part("m,n"), "b,m,a,n,c,d"},
                                                           {order("d,a") + "," + gone("b", ""), "c,d,a"}};
    for (const auto& [patch, expected] : patches) {
        INFO(patch);
        const auto change = of_template("{" + patch + "}");
        const object now = co_await c->client().patch(deployments(), key, patch_type::strategic_merge, change, plain);
        CHECK(containers_of(now) == expected);
    }
    for (const std::string& odd : {order("b,a") + "," + part("a,b"), order("b,a") + "," + part("n"),
                                   std::string(R"("$setElementOrder/containers":3)"),
                                   std::string(R"("$setElementOrder/containers":[{"image":"x"}])")}) {
        INFO(odd);
        const auto change = of_template("{" + odd + "}");
        failure f;
        co_await c->client().patch(deployments(), key, patch_type::strategic_merge, change, plain, f);
        CHECK(code_of(f) == 500);
    }
    const auto env = [](const std::string& name) {
        return of_template(R"({"containers":[{"name":"a","env":[{"name":")" + name + R"(","value":"1"}]}]})");
    };
    const write_options stored;
    const auto first = env("E"), second = env("F");
    co_await c->client().patch(deployments(), key, patch_type::strategic_merge, first, stored);
    const object both = co_await c->client().patch(deployments(), key, patch_type::strategic_merge, second, stored);
    CHECK(names_of(both.at_pointer("/spec/template/spec/containers/0/env")) == "F,E");
}

asio::awaitable<void> orders_patched_sets(std::shared_ptr<cluster> c) {
    const object_key key(c->name_space(), "a");
    auto made = with_data(*c, R"({"a":"1"})");
    made.at("metadata").as_object()["finalizers"] = json::parse(R"(["x.io/1","x.io/2","x.io/3"])");
    co_await c->client().create(c->config_maps(), made);
    const std::pair<std::string, std::string> patches[] = {
        {R"("finalizers":["x.io/n"])", R"(["x.io/n","x.io/1","x.io/2","x.io/3"])"},
        {R"("finalizers":["x.io/3","x.io/1"])", R"(["x.io/2","x.io/3","x.io/1"])"},
        {R"("finalizers":["x.io/n"],"$setElementOrder/finalizers":["x.io/3","x.io/n","x.io/1"])",
         R"(["x.io/2","x.io/3","x.io/n","x.io/1"])"},
        {R"("$setElementOrder/finalizers":["x.io/3","x.io/1"],"$deleteFromPrimitiveList/finalizers":["x.io/2"])",
         R"(["x.io/3","x.io/1"])"}};
    const write_options dry = write_options().dry_run();
    for (const auto& [patch, expected] : patches) {
        INFO(patch);
        const auto change = json::parse(R"({"metadata":{)" + patch + "}}");
        const object now = co_await c->client().patch(c->config_maps(), key, patch_type::strategic_merge, change, dry);
        CHECK(now["metadata"]["finalizers"].to_json() == expected);
    }
    // Applied to the set, the same rules hold as for lists.
    const std::pair<std::string, std::string> applied[] = {
        {R"(["x.io/n"])", R"(["x.io/1","x.io/2","x.io/3","x.io/n"])"},
        {R"(["x.io/3","x.io/n","x.io/1"])", R"(["x.io/2","x.io/3","x.io/n","x.io/1"])"},
        {R"(["x.io/n","x.io/2"])", R"(["x.io/1","x.io/n","x.io/2","x.io/3"])"}};
    auto how = as("one");
    how.dry_run();
    for (const auto& [list, expected] : applied) {
        INFO(list);
        auto o = named(*c, "a", json::object());
        o.at("metadata").as_object()["finalizers"] = json::parse(list);
        const object now = co_await c->client().apply(c->config_maps(), o, how);
        CHECK(now["metadata"]["finalizers"].to_json() == expected);
    }
    co_await merge(c, c->config_maps(), "a", R"({"metadata":{"finalizers":null}})");
}

asio::awaitable<void> orders_applied_lists(std::shared_ptr<cluster> c) {
    co_await make_deployment(c, "a,b,c,d"); // by a manager that stays out of it
    auto dry = as("one");
    dry.dry_run();
    const std::pair<std::string, std::string> lists[] = {
        {"n", "a,b,c,d,n"},       {"a,n", "a,b,c,d,n"},       {"n,a", "n,a,b,c,d"},
        {"n,d", "a,b,c,n,d"},     {"d,a", "b,c,d,a"},         {"c,n,b", "a,c,d,n,b"},
        {"n,m,c", "a,b,n,m,c,d"}, {"b,n,a,m", "b,c,d,n,a,m"}, {"d,n,m,k", "a,b,c,d,n,m,k"}};
    for (const auto& [list, expected] : lists) {
        INFO(list);
        const auto o = deployment(*c, list_of(list), -1);
        const object now = co_await c->client().apply(deployments(), o, dry);
        CHECK(containers_of(now) == expected);
    }
}

asio::awaitable<void> reorders_by_apply(std::shared_ptr<cluster> c) {
    const auto one = as("one"), two = as("two");
    resource_version version;
    const auto apply = [&](std::string list, write_options who) -> asio::awaitable<std::string> {
        const auto o = deployment(*c, list_of(list), 0);
        const object now = co_await c->client().apply(deployments(), o, who);
        const bool written = now.resource_version() != version;
        version = now.resource_version();
        co_return containers_of(now) + (written ? "" : " unchanged");
    };
    const std::pair<std::string, std::string> mine[] = {{"a,b", "a,b"},     {"n,a,b", "n,a,b"},
                                                        {"b,n,a", "b,n,a"}, {"b,n,a", "b,n,a unchanged"},
                                                        {"a,b", "a,b"},     {"c,a", "c,a"}};
    for (const auto& [list, expected] : mine) {
        const auto now = co_await apply(list, one);
        CHECK(now == expected);
    }
    // Two managers share the list: each orders what it applies, and takes away what it alone applied.
    const std::pair<std::string, std::string> theirs[] = {{"x,c,y", "x,c,a,y"}, {"y,c", "a,y,c"}, {"c,y", "a,c,y"}};
    for (const auto& [list, expected] : theirs) {
        const auto now = co_await apply(list, two);
        CHECK(now == expected);
    }
    const auto last = co_await apply("a,n", one);
    CHECK(last == "a,c,y,n");
    // An item goes with the manager that applied it, even if somebody else put a field into it.
    const object_key key(c->name_space(), "d");
    const write_options plain;
    const auto env = of_template(R"({"containers":[{"name":"n","env":[{"name":"E","value":"1"}]}]})");
    co_await c->client().patch(deployments(), key, patch_type::strategic_merge, env, plain);
    const auto without = co_await apply("a", one);
    CHECK(without == "a,c,y");
}

asio::awaitable<void> patches_by_operations(std::shared_ptr<cluster> c) {
    auto made = with_data(*c, R"({"k":"v"})");
    made.at("metadata").as_object()["finalizers"] = json::parse(R"(["x.io/1","x.io/2","x.io/3"])");
    co_await c->client().create(c->config_maps(), made);
    const std::string path = "/api/v1/namespaces/" + c->name_space() + "/configmaps/a?dryRun=All";
    const auto at = [](std::string op, std::string index, std::string rest) {
        return R"([{"op":")" + op + R"(","path":"/metadata/finalizers/)" + index + "\"" + rest + "}]";
    };
    const std::string n = R"(,"value":"x.io/n")", all = R"(["x.io/1","x.io/2","x.io/3"])", refused;
    const std::pair<std::string, std::string> patches[] = {
        {R"([{"op":"test","path":"/data/none","value":null}])", all}, // absent is null
        {R"([{"op":"test","path":"/none","value":null}])", all},
        {R"([{"op":"test","path":"/none/none","value":null}])", refused},
        {R"([{"op":"test","path":"/data/k","value":null}])", refused},
        {R"([{"op":"test","path":"","value":null}])", refused},
        {at("test", "9", R"(,"value":null)"), refused},
        {at("test", "-1", R"(,"value":"x.io/3")"), all}, // the last element
        {at("test", "-3", R"(,"value":"x.io/1")"), all},
        {at("test", "-4", R"(,"value":null)"), refused},
        {at("add", "-1", n), R"(["x.io/1","x.io/2","x.io/3","x.io/n"])"}, // the last element then
        {at("add", "-2", n), R"(["x.io/1","x.io/2","x.io/n","x.io/3"])"},
        {at("add", "-4", n), R"(["x.io/n","x.io/1","x.io/2","x.io/3"])"},
        {at("add", "-5", n), refused},
        {at("add", "4", n), refused},
        {at("remove", "-1", ""), R"(["x.io/1","x.io/2"])"},
        {at("remove", "-3", ""), R"(["x.io/2","x.io/3"])"},
        {at("remove", "-4", ""), refused},
        {at("remove", "01", ""), R"(["x.io/1","x.io/3"])"},
        {at("remove", "+1", ""), R"(["x.io/1","x.io/3"])"},
        {at("remove", "-", ""), refused},
        {at("replace", "-1", n), R"(["x.io/1","x.io/2","x.io/n"])"},
        {at("replace", "-4", n), refused},
        {at("move", "0", R"(,"from":"/metadata/finalizers/-1")"), R"(["x.io/3","x.io/1","x.io/2"])"},
        {at("move", "-1", R"(,"from":"/metadata/finalizers/0")"), R"(["x.io/2","x.io/3","x.io/1"])"}};
    for (const auto& [patch, expected] : patches) {
        INFO(patch);
        failure f;
        const auto now = co_await c->client().raw("PATCH", path, patch, f);
        CHECK(code_of(f) == (expected.empty() ? 422 : 200));
        if (!f && !expected.empty())
            CHECK(json::serialize(json::parse(now).at("metadata").at("finalizers")) == expected);
    }
    failure f;
    co_await c->client().raw("PATCH", path, "[3]", f);
    CHECK(code_of(f) == 400);
    co_await merge(c, c->config_maps(), "a", R"({"metadata":{"finalizers":null}})");
}

asio::awaitable<void> drops_managers(std::shared_ptr<cluster> c) {
    const auto widgets = co_await c->make_crd();
    const std::string maps = "/api/v1/namespaces/" + c->name_space() + "/configmaps/a",
                      custom = "/apis/" + widgets.group + "/v1/namespaces/" + c->name_space() + "/widgets/a";
    write_options one;
    one.field_manager("one");
    const auto map = with_data(*c, R"({"k":"v"})");
    co_await c->client().create(c->config_maps(), map, one);
    auto widget = named(*c, "a", json::object{{"spec", {{"k", "v"}}}});
    widget.as_object()["apiVersion"] = widgets.api_version();
    widget.as_object()["kind"] = widgets.kind;
    widget.at("metadata").as_object()["labels"] = json::object{{"l", "1"}};
    co_await c->client().create(widgets, widget, one);
    const std::string fields = R"(one {"f:data":{".":{},"f:k":{}}})",
                      of_widget = R"(one {"f:metadata":{"f:labels":{".":{},"f:l":{}}},"f:spec":{".":{},"f:k":{}}})";
    const auto put = [&](std::string path, std::string managers) -> asio::awaitable<std::string> {
        const auto before = co_await c->client().raw("GET", path);
        auto now = json::parse(before);
        now.at("metadata").as_object()["managedFields"] = json::parse(managers);
        const auto text = json::serialize(now);
        const auto answer = co_await c->client().raw("PUT", path + "?dryRun=All&fieldManager=two", text);
        co_return managed_fields_of(answer);
    };
    const std::string given = R"([{"manager":"you","operation":"Update","apiVersion":"v1","fieldsType":"FieldsV1",)"
                              R"("time":"2026-01-01T00:00:00Z","fieldsV1":{"f:data":{"f:k":{}}}}])";
    const std::pair<std::string, std::string> puts[] = {
        {"[]", ""}, {"[{}]", ""}, {"null", fields}, {"[{},{}]", fields}, {given, R"(you {"f:data":{"f:k":{}}})"}};
    for (const auto& [managers, expected] : puts) {
        INFO(managers);
        const auto now = co_await put(maps, managers);
        CHECK(now == expected);
    }
    const auto kept = co_await put(custom, "[]"); // a custom resource cannot tell it from an absent one
    CHECK(kept == of_widget);
    const auto dropped = co_await put(custom, "[{}]");
    CHECK(dropped.empty());
    for (const std::string patch :
         {R"({"metadata":{"managedFields":[]}})", R"([{"op":"add","path":"/metadata/managedFields","value":[{}]}])"}) {
        const auto now = co_await c->client().raw("PATCH", maps + "?dryRun=All", patch);
        CHECK(managed_fields_of(now).empty());
    }
    // What nobody manages stays so until it is applied; then it belongs to somebody unknown.
    const std::string reset = R"({"metadata":{"managedFields":[{}]},"data":{"n":"1"}})", more = R"({"data":{"m":"1"}})";
    co_await c->client().raw("PATCH", maps, reset);
    const auto later = co_await c->client().raw("PATCH", maps, more);
    CHECK(managed_fields_of(later).empty());
    write_options me;
    me.field_manager("me");
    const auto mine = with_data(*c, R"({"k":"w"})");
    failure f;
    co_await c->client().apply(c->config_maps(), mine, me, f);
    REQUIRE(f.status());
    CHECK(f.status()->message ==
          R"(Apply failed with 1 conflict: conflict with "before-first-apply" using v1: .data.k)");
    const auto same = with_data(*c, R"({"k":"v"})");
    co_await c->client().apply(c->config_maps(), same, me);
    const auto now = co_await c->client().raw("GET", maps);
    CHECK(managed_fields_of(now) ==
          R"(before-first-apply {"f:data":{".":{},"f:k":{},"f:m":{},"f:n":{}}}; me {"f:data":{"f:k":{}}})");
}

asio::awaitable<void> refuses_patches(std::shared_ptr<cluster> c) {
    const auto made = with_data(*c, R"({"k":"v"})");
    co_await c->client().create(c->config_maps(), made);
    const std::string path = "/api/v1/namespaces/" + c->name_space() + "/configmaps/a?dryRun=All";
    const object_key key(c->name_space(), "a");
    const write_options dry = write_options().dry_run();
    const auto is_invalid = [](const failure& f) {
        return code_of(f) == 422 && f.status()->reason == "Invalid" && f.status()->causes.size() == 1 &&
               f.status()->causes[0].field == "patch" && f.status()->details_name.empty() &&
               f.status()->message.find(R"("" is invalid: patch: Invalid value: ")") != std::string::npos;
    };
    for (const std::string patch : {R"({"metadata":{"labels":{"a":3}}})", R"({"metadata":{"labels":3}})",
                                    R"({"metadata":{"finalizers":"x"}})", R"({"metadata":{"name":3}})",
                                    R"({"metadata":3})", R"({"metadata":{"managedFields":[3]}})", R"({"kind":3})"}) {
        INFO(patch);
        failure f;
        co_await c->client().raw("PATCH", path, patch, f);
        CHECK(is_invalid(f));
        const auto change = json::parse(patch);
        co_await c->client().patch(c->config_maps(), key, patch_type::strategic_merge, change, dry, f);
        CHECK(is_invalid(f));
    }
    for (const std::string patch : {R"({"kind":"Pod"})", R"({"apiVersion":"v2"})"}) {
        INFO(patch);
        failure f;
        co_await c->client().raw("PATCH", path, patch, f);
        CHECK(is_invalid(f));
        const auto change = json::parse(patch); // a strategic patch is not asked
        co_await c->client().patch(c->config_maps(), key, patch_type::strategic_merge, change, dry, f);
        CHECK(code_of(f) == 200);
    }
    failure f;
    co_await c->client().raw("PATCH", path, R"([{"op":"add","path":"/kind","value":"Pod"}])", f);
    CHECK(is_invalid(f));
    co_await c->client().raw("PATCH", path, R"({"metadata":{"namespace":"other"}})", f);
    CHECK(code_of(f) == 400);
    const auto widgets = co_await c->make_crd();
    co_await make_widget(c, widgets, "w", "1");
    const std::string custom = "/apis/" + widgets.group + "/v1/namespaces/" + c->name_space() + "/widgets/w?dryRun=All";
    co_await c->client().raw("PATCH", custom, R"({"metadata":{"labels":{"a":3}}})", f);
    CHECK(is_invalid(f));
    co_await c->client().raw("PATCH", custom, R"({"kind":"Pod"})", f);
    REQUIRE(f.status());
    CHECK(f.status()->message ==
          "Pod." + widgets.group + R"( "w" is invalid: kind: Invalid value: "Pod": must be Widget)");
}

asio::awaitable<void> refuses_numbers(std::shared_ptr<cluster> c) {
    const std::string maps = "/api/v1/namespaces/" + c->name_space() + "/configmaps", nothing;
    const auto words = [](std::string_view text, std::string_view what = "invalid syntax") {
        return "strconv.ParseInt: parsing \"" + std::string(text) + "\": " + std::string(what);
    };
    const std::pair<std::string, std::string> queries[] = {
        {"?timeoutSeconds=abc", words("abc")},
        {"?timeoutSeconds=1.5", words("1.5")},
        {"?timeoutSeconds=", words("")},
        {"?timeoutSeconds=99999999999999999999", words("99999999999999999999", "value out of range")},
        {"?limit=abc", words("abc")},
        {"?watch=1&timeoutSeconds=abc", words("abc")},
        {"?watch=1&limit=abc", words("abc")},
        {"?watch=1&sendInitialEvents=true&timeoutSeconds=abc", words("abc")}};
    for (const auto& [query, message] : queries) {
        INFO(query);
        failure f;
        co_await c->client().raw("GET", maps + query, nothing, f);
        CHECK(code_of(f) == 400);
        if (f.status()) CHECK(f.status()->message == message);
    }
    failure f;
    co_await c->client().raw("DELETE", maps + "?timeoutSeconds=abc", nothing, f);
    CHECK(code_of(f) == 400);
    co_await c->client().raw("GET", maps + "?timeoutSeconds=%2B5&limit=-1", nothing, f);
    CHECK(code_of(f) == 200);
    co_await c->client().raw("GET", maps + "?watch=1&timeoutSeconds=1&resourceVersion=abc", nothing, f);
    CHECK(code_of(f) == 500);
    co_await c->client().raw("GET", maps + "?resourceVersion=abc", nothing, f);
    const bool known = code_of(f) == 400 || (!c->embedded() && code_of(f) == 500); // as 1.30 says it
    CHECK(known);
}

} // namespace

TEST_CASE("a strategic patch puts new items first, its own in its order, and the others where they were",
          "[conformance]") {
    run_case(orders_patched_lists);
}
TEST_CASE("sets are ordered as lists are, by patches and by applies", "[conformance]") {
    run_case(orders_patched_sets);
}
TEST_CASE("an apply orders its items; others keep their places among them", "[conformance]") {
    run_case(orders_applied_lists);
}
TEST_CASE("an apply that only reorders is written", "[conformance]") {
    run_case(reorders_by_apply);
}
TEST_CASE("a JSON patch counts from the end of a list, and takes an absent member for null", "[conformance]") {
    run_case(patches_by_operations);
}
TEST_CASE("an empty list of managers drops them all", "[conformance]") {
    run_case(drops_managers);
}
TEST_CASE("a patch that makes an object unreadable is invalid", "[conformance]") {
    run_case(refuses_patches);
}
TEST_CASE("limits and time-outs that are no numbers are refused", "[conformance]") {
    run_case(refuses_numbers);
}
