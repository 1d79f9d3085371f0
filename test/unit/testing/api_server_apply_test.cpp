// Server-side apply: who owns which field.
#include "server_fixture.hpp"

#include <catch2/catch_test_macros.hpp>

using namespace server_tests;

namespace {

const std::string maps = "/api/v1/namespaces/default/configmaps";
const std::string apps = "/apis/apps/v1/namespaces/default/deployments";

answer apply(server_fixture& s, const std::string& path, const std::string& manager, const std::string& body,
             const std::string& more = "") {
    return s.ask("PATCH", path + "?fieldManager=" + manager + more, body, "application/apply-patch+yaml");
}

answer apply_map(server_fixture& s, const std::string& manager, const std::string& data, const std::string& more = "") {
    return apply(s, maps + "/a", manager,
                 R"({"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":)" + data + "}", more);
}

answer merge(server_fixture& s, const std::string& path, const std::string& manager, const std::string& body) {
    return s.ask("PATCH", path + "?fieldManager=" + manager, body, "application/merge-patch+json");
}

/// fieldsV1 of a manager; "" when it owns nothing.
std::string owns(const answer& a, const std::string& manager, const std::string& operation = "Apply") {
    const auto whole = a.json();
    const auto* entries = whole.at("metadata").as_object().if_contains("managedFields");
    if (entries == nullptr) return {};
    for (const auto& e : entries->as_array()) {
        if (text_at(e, "/manager") == manager && text_at(e, "/operation") == operation)
            return json::serialize(e.at("fieldsV1"));
    }
    return {};
}

std::string deployment(const std::string& spec) {
    return R"({"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"d"},"spec":)" + spec + "}";
}

} // namespace

TEST_CASE("apply creates an object that does not exist, and owns the fields that it set") {
    server_fixture s;
    const auto made = apply_map(s, "me", R"({"k":"v"})");
    CHECK(made.status == 201);
    CHECK(made.at("/data/k") == "v");
    CHECK(owns(made, "me") == R"({"f:data":{"f:k":{}}})");
    const auto again = apply_map(s, "me", R"({"k":"v"})");
    CHECK(again.status == 200);
    CHECK(again.at("/metadata/resourceVersion") == made.at("/metadata/resourceVersion")); // nothing was written
    CHECK(again.json() == made.json());
}

TEST_CASE("apply gives up fields that it no longer sets, and they are removed") {
    server_fixture s;
    apply_map(s, "me", R"({"k":"v","gone":"x"})");
    merge(s, maps + "/a", "other", R"({"data":{"theirs":"y"}})");
    const auto after = apply_map(s, "me", R"({"k":"w"})");
    CHECK(after.at("/data") == R"({"k":"w","theirs":"y"})");
    CHECK(owns(after, "me") == R"({"f:data":{"f:k":{}}})");
    CHECK(owns(after, "other", "Update") == R"({"f:data":{"f:theirs":{}}})");
    const auto nothing =
        apply(s, maps + "/a", "me", R"({"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}})");
    CHECK(nothing.at("/data") == R"({"theirs":"y"})");
    CHECK(owns(nothing, "me").empty());
}

TEST_CASE("a field that two managers applied alike stays until both give it up") {
    server_fixture s;
    apply_map(s, "one", R"({"k":"v"})");
    const auto both = apply_map(s, "two", R"({"k":"v"})");
    CHECK(both.status == 200);
    CHECK(owns(both, "one") == owns(both, "two"));
    const auto still = apply_map(s, "one", R"({})");
    CHECK(still.at("/data/k") == "v");
    const auto gone = apply_map(s, "two", R"({})");
    CHECK(gone.at("/data/k").empty());
}

TEST_CASE("apply of another value than its owner's is a conflict that names field and manager") {
    server_fixture s;
    apply_map(s, "one", R"({"a":"1","b":"1","c":"1"})");
    const auto before = s.server.current_resource_version();
    const auto refused = apply_map(s, "two", R"({"a":"2","c":"1"})");
    CHECK(refused.status == 409);
    CHECK(refused.at("/reason") == "Conflict");
    CHECK(refused.at("/message") == R"(Apply failed with 1 conflict: conflict with "one": .data.a)");
    CHECK(refused.at("/details/causes/0/reason") == "FieldManagerConflict");
    CHECK(refused.at("/details/causes/0/field") == ".data.a");
    CHECK(refused.at("/details/causes/0/message") == R"(conflict with "one")");
    CHECK(s.server.current_resource_version() == before);

    merge(s, maps + "/a", "three", R"({"data":{"b":"3"}})");
    const auto several = apply_map(s, "two", R"({"a":"2","b":"2"})");
    CHECK(several.status == 409);
    CHECK(several.at("/message") == "Apply failed with 2 conflicts: conflicts with \"one\":\n- .data.a\nconflicts with "
                                    "\"three\" using v1:\n- .data.b");

    const auto forced = apply_map(s, "two", R"({"a":"2","b":"2"})", "&force=true");
    CHECK(forced.status == 200);
    CHECK(forced.at("/data") == R"({"a":"2","b":"2","c":"1"})");
    CHECK(owns(forced, "one") == R"({"f:data":{"f:c":{}}})");
    CHECK(owns(forced, "two") == R"({"f:data":{"f:a":{},"f:b":{}}})");
    CHECK(owns(forced, "three", "Update").empty());
}

TEST_CASE("an update takes over the fields that it changes, whoever owned them") {
    server_fixture s;
    apply_map(s, "me", R"({"a":"1","b":"1"})");
    const auto changed = merge(s, maps + "/a", "editor", R"({"data":{"a":"2","b":null}})");
    CHECK(owns(changed, "me").empty());
    CHECK(owns(changed, "editor", "Update") == R"({"f:data":{"f:a":{}}})");
    CHECK(apply_map(s, "me", R"({"a":"1"})").status == 409);
    CHECK(apply_map(s, "me", R"({"a":"2"})").status == 200); // the same value is no conflict
}

TEST_CASE("list items have owners of their own, by their keys") {
    server_fixture s;
    const auto made =
        apply(s, apps + "/d", "one",
              deployment(R"({"replicas":2,"selector":{"matchLabels":{"a":"b"}},"template":{"spec":{"containers":[
        {"name":"web","image":"i:1","ports":[{"containerPort":80}],"args":["x","y"]}]}}})"));
    REQUIRE(made.status == 201);
    CHECK(
        owns(made, "one") ==
        R"({"f:spec":{"f:replicas":{},"f:selector":{},"f:template":{"f:spec":{"f:containers":{"k:{\"name\":\"web\"}":{".":{},"f:args":{},"f:image":{},"f:name":{},)"
        R"("f:ports":{"k:{\"containerPort\":80,\"protocol\":\"TCP\"}":{".":{},"f:containerPort":{}}}}}}}}})");

    const auto beside = apply(
        s, apps + "/d", "two",
        deployment(
            R"({"template":{"spec":{"containers":[{"name":"side","image":"s:1"},{"name":"web","env":[{"name":"E","value":"1"}]}]}}})"));
    REQUIRE(beside.status == 200);
    CHECK(beside.at("/spec/template/spec/containers/0/image") == "s:1");
    CHECK(beside.at("/spec/template/spec/containers/1/image") == "i:1");
    CHECK(beside.at("/spec/template/spec/containers/1/env/0/value") == "1");

    const auto refused = apply(s, apps + "/d", "two",
                               deployment(R"({"template":{"spec":{"containers":[{"name":"web","args":["z"]}]}}})"));
    CHECK(refused.at("/details/causes/0/field") == R"(.spec.template.spec.containers[name="web"].args)");

    // Its own item goes, and so does its part of the item of the other manager; the rest of that item stays.
    const auto less =
        apply(s, apps + "/d", "two", deployment(R"({"template":{"spec":{"containers":[{"name":"web"}]}}})"));
    CHECK(less.json().at_pointer("/spec/template/spec/containers").as_array().size() == 1);
    CHECK_FALSE(less.json().at_pointer("/spec/template/spec/containers/0").as_object().contains("env"));
    const auto rest = apply(s, apps + "/d", "one", deployment(R"({"replicas":2})"));
    CHECK(rest.at("/spec/template/spec/containers") == R"([{"name":"web"}])");
    const auto none = apply(s, apps + "/d", "two", deployment(R"({})"));
    CHECK(none.at("/spec") == R"({"replicas":2})");
}

TEST_CASE("finalizers are a set: each belongs to the manager that added it") {
    server_fixture s;
    const auto with = [&](const std::string& manager, const std::string& list) {
        return apply(s, maps + "/a", manager,
                     R"({"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","finalizers":)" + list + "}}");
    };
    with("one", R"(["x/one"])");
    const auto both = with("two", R"(["x/two"])");
    CHECK(both.at("/metadata/finalizers") == R"(["x/one","x/two"])");
    CHECK(owns(both, "two") == R"({"f:metadata":{"f:finalizers":{"v:\"x/two\"":{}}}})");
    CHECK(with("one", "[]").at("/metadata/finalizers") == R"(["x/two"])");
}

TEST_CASE("status is applied by its subresource, and scale by its own") {
    server_fixture s;
    const auto made = apply(
        s, apps + "/d", "me",
        R"({"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"d"},"spec":{"replicas":1},"status":{"replicas":9}})");
    CHECK_FALSE(made.json().as_object().contains("status"));
    CHECK(owns(made, "me") == R"({"f:spec":{"f:replicas":{}}})");
    const auto status = apply(
        s, apps + "/d/status", "me",
        R"({"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"d"},"spec":{"replicas":7},"status":{"replicas":1,
        "conditions":[{"type":"Available","status":"True"}]}})");
    CHECK(status.status == 200);
    CHECK(status.at("/spec/replicas") == "1");
    CHECK(status.at("/status/replicas") == "1");
    const auto scaled =
        apply(s, apps + "/d/scale", "autoscaler",
              R"({"apiVersion":"autoscaling/v1","kind":"Scale","metadata":{"name":"d"},"spec":{"replicas":5}})");
    CHECK(scaled.status == 409);
    const auto forced =
        apply(s, apps + "/d/scale", "autoscaler",
              R"({"apiVersion":"autoscaling/v1","kind":"Scale","metadata":{"name":"d"},"spec":{"replicas":5}})",
              "&force=true");
    CHECK(forced.at("/kind") == "Scale");
    CHECK(forced.at("/spec/replicas") == "5");
    const auto now = s.ask("GET", apps + "/d");
    CHECK(now.at("/spec/replicas") == "5");
    CHECK(owns(now, "autoscaler") == R"({"f:spec":{"f:replicas":{}}})");
    CHECK(apply(s, apps + "/none/status", "me",
                R"({"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"none"},"status":{"replicas":1}})")
              .status == 404);
}

TEST_CASE("invalid apply requests are refused") {
    server_fixture s;
    const std::string type = "application/apply-patch+yaml";
    const std::string good = R"({"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}})";
    CHECK(s.ask("PATCH", maps + "/a", good, type).status == 422); // no field manager
    CHECK(s.ask("PATCH", maps + "/a?fieldManager=m", R"({"metadata":{"name":"a"}})", type).status == 400);
    CHECK(s.ask("PATCH", maps + "/a?fieldManager=m", R"({"apiVersion":"v1","kind":"Secret","metadata":{"name":"a"}})",
                type)
              .status == 400);
    CHECK(s.ask("PATCH", maps + "/b?fieldManager=m", good, type).status == 400);
    CHECK(s.ask("PATCH", maps + "/a?fieldManager=m", "[]", type).status == 400);
    CHECK(s.ask("PATCH", maps + "/a?fieldManager=m",
                R"({"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","managedFields":[{"manager":"x"}]}})",
                type)
              .status == 400);
    CHECK(s.ask("GET", maps + "/a").status == 404);
    CHECK(apply_map(s, "m", R"({"k":"v"})", "&dryRun=All").at("/data/k") == "v");
    CHECK(s.ask("GET", maps + "/a").status == 404);
    apply_map(s, "m", "{}");
    CHECK(s.ask("PATCH", maps + "/a?force=true", "{}", "application/merge-patch+json").status == 422);
    CHECK(s.ask("PATCH", maps + "/a?fieldManager=m",
                R"({"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","resourceVersion":"5"}})", type)
              .status == 409);
}

TEST_CASE("managed fields do not grow without bound") {
    server_fixture s(api_server_options(), true);
    s.put("a", "0");
    for (int i = 0; i < 30; ++i) {
        s.advance(std::chrono::seconds(1));
        merge(s, maps + "/a", "m" + std::to_string(i), R"({"data":{"k)" + std::to_string(i) + R"(":"x"}})");
    }
    const auto a = s.ask("GET", maps + "/a");
    CHECK(a.json().at_pointer("/metadata/managedFields").as_array().size() == 10);
    const auto old = json::parse(owns(a, "ancient-changes", "Update"));
    CHECK(old.at_pointer("/f:data").as_object().contains("f:k3"));
}

TEST_CASE("deep and odd configurations do no harm") {
    server_fixture s;
    std::string deep = "1";
    for (int i = 0; i < 900; ++i) deep = R"({"a":)" + deep + "}";
    CHECK(apply_map(s, "me", R"({"deep":)" + deep + "}").status == 201);
    CHECK(apply_map(s, "me", R"({"deep":{"a":2}})").status == 200);
    const auto odd = apply(
        s, apps + "/d", "me",
        deployment(
            R"({"template":{"spec":{"containers":[{"image":"no name"},{"name":"x"},{"name":"y"}],"volumes":7}}})"));
    CHECK(odd.status == 201);
    CHECK(apply(s, apps + "/d", "me",
                deployment(R"({"template":{"spec":{"containers":[{"name":"x"}],"volumes":[{"name":"v"}]}}})"))
              .status == 200);
    CHECK(apply(s, apps + "/d", "me", deployment(R"({"template":7})")).status == 200);
    CHECK(apply(s, apps + "/d", "me", deployment(R"({"template":null})")).status == 200);
}

TEST_CASE("an apply with two items of one key is refused") {
    server_fixture s;
    const auto why = [&](const std::string& containers) {
        const auto a =
            apply(s, apps + "/d", "me", deployment(R"({"template":{"spec":{"containers":)" + containers + "}}}"));
        CHECK(a.status == 500);
        return a.at("/message");
    };
    CHECK(why(R"([{"name":"x"},{"name":"x"}])") ==
          "failed to create typed patch object (/d; apps/v1, Kind=Deployment): .spec.template.spec.containers: "
          "duplicate entries for key "
          "[name=\"x\"]");
    CHECK(
        why(R"([{"name":"x","ports":[{"containerPort":80},{"containerPort":80,"protocol":"TCP"}]}])")
            .ends_with(
                R"(.spec.template.spec.containers[name="x"].ports: duplicate entries for key [containerPort=80,protocol="TCP"])"));
    const auto map =
        apply(s, maps + "/a", "me",
              R"({"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","finalizers":["x.io/y","x.io/y"]}})");
    CHECK(
        map.at("/message") ==
        R"(failed to create typed patch object (/a; /v1, Kind=ConfigMap): .metadata.finalizers: duplicate entries for key [="x.io/y"])");
    CHECK(s.ask("GET", apps + "/d").status == 404);
}
