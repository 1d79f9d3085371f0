#include "server_fixture.hpp"

#include <catch2/catch_test_macros.hpp>

using namespace server_tests;

namespace {

const std::string definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const std::string foos = "/apis/samples.io/v1/namespaces/default/foos";
const std::string merge = "application/merge-patch+json";

const std::string foo_definition = R"({"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition",
"metadata":{"name":"foos.samples.io"},"spec":{"group":"samples.io","scope":"Namespaced",
"names":{"kind":"Foo","plural":"foos","singular":"foo","shortNames":["fo"]},
"versions":[{"name":"v1","served":true,"storage":true,"subresources":{"status":{}},"selectableFields":[{"jsonPath":".spec.color"}]},
 {"name":"v1beta1","served":true,"storage":false},{"name":"v1alpha1","served":false,"storage":false}]}})";

std::string foo(const std::string& name, const std::string& spec, const std::string& version = "v1") {
    return R"({"apiVersion":"samples.io/)" + version + R"(","kind":"Foo","metadata":{"name":")" + name +
           R"("},"spec":)" + spec + "}";
}

} // namespace

TEST_CASE("a definition is established and served at once", "[api_server][crd]") {
    server_fixture s;
    CHECK(s.ask("GET", foos).body == "404 page not found\n");
    const auto d = s.ask("POST", definitions, foo_definition);
    REQUIRE(d.status == 201);
    CHECK(d.at("/status/conditions/1/type") == "Established");
    CHECK(d.at("/status/conditions/1/status") == "True");
    CHECK(d.at("/status/storedVersions") == R"(["v1"])");
    CHECK(d.at("/spec/names/listKind") == "FooList");
    CHECK(s.ask("GET", foos).status == 200);
    CHECK(s.ask("GET", "/apis/samples.io").at("/preferredVersion/version") == "v1");
    const auto resources = s.ask("GET", "/apis/samples.io/v1");
    CHECK(resources.at("/resources/0/name") == "foos");
    CHECK(resources.at("/resources/0/shortNames/0") == "fo");
    CHECK(resources.at("/resources/1/name") == "foos/status");
    CHECK(s.ask("GET", "/apis/samples.io/v1alpha1").status == 404);
}

TEST_CASE("custom objects behave like built-in ones, and have kind and version in lists", "[api_server][crd]") {
    server_fixture s;
    s.ask("POST", definitions, foo_definition);
    const auto made = s.ask("POST", foos, foo("a", R"({"color":"red","unknown":[1,2.5]})"));
    REQUIRE(made.status == 201);
    CHECK(made.at("/metadata/generation") == "1");
    CHECK(made.at("/spec/unknown") == "[1,2.5E0]");
    const auto list = s.ask("GET", foos);
    CHECK(list.at("/kind") == "FooList");
    CHECK(list.at("/items/0/kind") == "Foo");
    CHECK(list.at("/items/0/apiVersion") == "samples.io/v1");
    const auto status = s.ask("PATCH", foos + "/a/status", R"({"spec":{"color":"x"},"status":{"n":1}})", merge);
    CHECK(status.at("/spec/color") == "red");
    CHECK(status.at("/status/n") == "1");
    CHECK(status.at("/metadata/generation") == "1");
    CHECK(s.ask("PATCH", foos + "/a", R"({"spec":{"color":"blue"}})", merge).at("/metadata/generation") == "2");
    CHECK(s.ask("PUT", foos + "/a", foo("a", "{}")).status == 422);           // no resource version
    CHECK(s.ask("POST", foos, R"({"metadata":{"name":"b"}})").status == 400); // does not say what it is
    CHECK(s.ask("PATCH", foos + "/a", "{}", "application/strategic-merge-patch+json").status == 415);
}

TEST_CASE("the versions of a definition show the same objects", "[api_server][crd]") {
    server_fixture s;
    s.ask("POST", definitions, foo_definition);
    s.ask("POST", foos, foo("a", R"({"color":"red"})"));
    const std::string beta = "/apis/samples.io/v1beta1/namespaces/default/foos";
    auto w = s.watch(beta + "?watch=1&resourceVersion=" + s.server.current_resource_version());
    CHECK(s.ask("GET", beta + "/a").at("/apiVersion") == "samples.io/v1beta1");
    CHECK(s.ask("POST", beta, foo("b", "{}", "v1beta1")).status == 201);
    CHECK(s.ask("GET", foos + "/b").at("/apiVersion") == "samples.io/v1");
    const auto e = w.next();
    CHECK(e.name() == "b");
    CHECK(text_at(e.object, "/apiVersion") == "samples.io/v1beta1");
    w.close();
}

TEST_CASE("a definition offers fields for selectors", "[api_server][crd]") {
    server_fixture s;
    s.ask("POST", definitions, foo_definition);
    s.ask("POST", foos, foo("a", R"({"color":"red"})"));
    s.ask("POST", foos, foo("b", R"({"color":"blue"})"));
    const auto red = s.ask("GET", foos + "?fieldSelector=spec.color%3Dred");
    CHECK(red.json().at("items").as_array().size() == 1);
    CHECK(red.at("/items/0/metadata/name") == "a");
    CHECK(s.ask("GET", foos + "?fieldSelector=spec.shade%3Dred").status == 400);
}

TEST_CASE("a field that a definition offers later also selects the objects from before", "[api_server][crd]") {
    server_fixture s;
    s.ask("POST", definitions, foo_definition);
    s.ask("POST", foos, foo("a", R"({"size":"large"})"));
    s.ask("POST", foos, foo("b", R"({"size":"small"})"));
    const auto version = s.ask("GET", foos + "/a").at("/metadata/resourceVersion");
    const std::string versions =
        R"([{"name":"v1","served":true,"storage":true,"selectableFields":[{"jsonPath":".spec.size"}]}])";
    REQUIRE(
        s.ask("PATCH", definitions + "/foos.samples.io", R"({"spec":{"versions":)" + versions + "}}", merge).status ==
        200);
    const auto large = s.ask("GET", foos + "?fieldSelector=spec.size%3Dlarge");
    REQUIRE(large.json().at("items").as_array().size() == 1);
    CHECK(large.at("/items/0/metadata/name") == "a");
    CHECK(large.at("/items/0/metadata/resourceVersion") == version);
    auto w = s.watch(foos +
                     "?watch=1&fieldSelector=spec.size%3Dlarge&resourceVersion=" + s.server.current_resource_version());
    CHECK(s.ask("PATCH", foos + "/a", R"({"spec":{"size":"small"}})", merge).status == 200);
    CHECK(w.next().type == "DELETED");
    w.close();
}

TEST_CASE("deleting a definition deletes its objects, ends watches, and makes the resource unknown",
          "[api_server][crd]") {
    server_fixture s;
    s.ask("POST", definitions, foo_definition);
    s.ask("POST", foos, foo("a", "{}"));
    auto w = s.watch(foos + "?watch=1&resourceVersion=" + s.server.current_resource_version());
    CHECK(s.ask("DELETE", definitions + "/foos.samples.io").status == 200);
    const auto e = w.next();
    CHECK(e.type == "DELETED");
    CHECK(e.name() == "a");
    CHECK(w.next().type.empty());
    CHECK_FALSE(w.failure());
    CHECK(s.ask("GET", foos).body == "404 page not found\n");
    CHECK(s.ask("GET", "/apis/samples.io").status == 404);
    REQUIRE(s.ask("POST", definitions, foo_definition).status == 201);
    CHECK(s.ask("GET", foos).at("/items") == "[]");
    auto again = s.watch(foos + "?watch=1&resourceVersion=" + s.server.current_resource_version());
    s.ask("POST", foos, foo("b", "{}"));
    CHECK(again.next().name() == "b");
    again.close();
}

TEST_CASE("no watch resumes from before a definition was deleted and created again", "[api_server][crd]") {
    server_fixture s;
    s.ask("POST", definitions, foo_definition);
    s.ask("POST", foos, foo("a", "{}"));
    const auto before = s.server.current_resource_version();
    s.ask("DELETE", definitions + "/foos.samples.io");
    s.ask("POST", definitions, foo_definition);
    auto w = s.watch(foos + "?watch=1&resourceVersion=" + before);
    const auto e = w.next();
    CHECK(e.type == "ERROR");
    CHECK(text_at(e.object, "/code") == "410");
    CHECK(w.next().type.empty());
    CHECK(s.ask("GET", foos + "?resourceVersionMatch=Exact&resourceVersion=" + before).status == 410);
}

TEST_CASE("a changed definition keeps the objects and ends no watch", "[api_server][crd]") {
    server_fixture s;
    s.ask("POST", definitions, foo_definition);
    s.ask("POST", foos, foo("a", "{}"));
    auto w = s.watch(foos + "?watch=1&resourceVersion=" + s.server.current_resource_version());
    const auto changed =
        s.ask("PATCH", definitions + "/foos.samples.io", R"({"spec":{"names":{"shortNames":["fx"]}}})", merge);
    CHECK(changed.status == 200);
    CHECK(s.ask("GET", "/apis/samples.io/v1").at("/resources/0/shortNames/0") == "fx");
    CHECK(s.ask("GET", foos + "/a").status == 200);
    s.ask("POST", foos, foo("b", "{}"));
    CHECK(w.next().name() == "b");
    w.close();
}

namespace {

answer serve(server_fixture& s, bool on) {
    const std::string served = on ? "true" : "false";
    return s.ask("PATCH", definitions + "/foos.samples.io",
                 R"([{"op":"replace","path":"/spec/versions/0/served","value":)" + served +
                     R"(},{"op":"replace","path":"/spec/versions/1/served","value":)" + served + "}]",
                 "application/json-patch+json");
}

} // namespace

TEST_CASE("a definition without a served version keeps its objects; watches end without an event",
          "[api_server][crd]") {
    server_fixture s;
    s.ask("POST", definitions, foo_definition);
    const auto made = s.ask("POST", foos, foo("a", "{}"));
    auto w = s.watch(foos + "?watch=1&resourceVersion=" + s.server.current_resource_version());
    REQUIRE(serve(s, false).status == 200);
    CHECK(w.next().type.empty());
    CHECK_FALSE(w.failure());
    CHECK(s.ask("GET", foos).body == "404 page not found\n");
    CHECK(s.ask("GET", "/apis/samples.io").status == 404);
    REQUIRE(serve(s, true).status == 200);
    CHECK(s.ask("GET", foos + "/a").json() == made.json());
    auto again = s.watch(foos + "?watch=1&resourceVersion=" + s.server.current_resource_version());
    s.ask("POST", foos, foo("b", "{}"));
    CHECK(again.next().name() == "b");
    again.close();
}

TEST_CASE("namespaces and definitions wait for objects that are not served", "[api_server][namespace][crd]") {
    server_fixture s;
    s.ask("POST", definitions, foo_definition);
    s.ask("POST", "/api/v1/namespaces", R"({"metadata":{"name":"work"}})");
    const std::string held =
        R"({"apiVersion":"samples.io/v1","kind":"Foo","metadata":{"name":"a","finalizers":["x.io/y"]}})";
    const std::string path = "/apis/samples.io/v1/namespaces/work/foos";
    REQUIRE(s.ask("POST", path, held).status == 201);
    REQUIRE(serve(s, false).status == 200);
    s.ask("DELETE", "/api/v1/namespaces/work");
    s.ask("DELETE", definitions + "/foos.samples.io");
    CHECK(s.ask("GET", "/api/v1/namespaces/work").at("/status/phase") == "Terminating");
    CHECK(s.ask("GET", definitions + "/foos.samples.io").status == 200);
    REQUIRE(serve(s, true).status == 200);
    CHECK_FALSE(s.ask("GET", path + "/a").at("/metadata/deletionTimestamp").empty());
    s.ask("PATCH", path + "/a", R"({"metadata":{"finalizers":null}})", merge);
    CHECK(s.ask("GET", "/api/v1/namespaces/work").status == 404);
    CHECK(s.ask("GET", definitions + "/foos.samples.io").status == 404);
}

TEST_CASE("versions in which objects may be stored add up, and must stay in the definition", "[api_server][crd]") {
    server_fixture s;
    const auto made = s.ask("POST", definitions, foo_definition);
    auto o = made.json();
    o.at_pointer("/spec/versions/0/storage") = false;
    o.at_pointer("/spec/versions/1/storage") = true;
    const auto moved = s.ask("PUT", definitions + "/foos.samples.io", json::serialize(o));
    CHECK(moved.at("/status/storedVersions") == R"(["v1","v1beta1"])");
    auto without = moved.json();
    auto& versions = without.at_pointer("/spec/versions").as_array();
    versions.erase(versions.begin());
    const auto no = s.ask("PUT", definitions + "/foos.samples.io", json::serialize(without));
    CHECK(no.status == 422);
    CHECK(no.at("/details/causes/0/field") == "status.storedVersions[0]");
    const std::string migrated = R"({"status":{"storedVersions":["v1beta1"]}})";
    CHECK(s.ask("PATCH", definitions + "/foos.samples.io/status", migrated, merge).status == 200);
    without.at("metadata").as_object().erase("resourceVersion");
    CHECK(s.ask("PUT", definitions + "/foos.samples.io", json::serialize(without)).status == 422); // conditional
    without = s.ask("GET", definitions + "/foos.samples.io").json();
    auto& rest = without.at_pointer("/spec/versions").as_array();
    rest.erase(rest.begin());
    CHECK(s.ask("PUT", definitions + "/foos.samples.io", json::serialize(without)).status == 200);
}

TEST_CASE("custom objects are deleted, created and changed within their namespace only", "[api_server][crd]") {
    server_fixture s;
    s.ask("POST", definitions, foo_definition);
    s.ask("POST", foos, foo("a", "{}"));
    CHECK(s.ask("DELETE", "/apis/samples.io/v1/foos").body == "404 page not found\n");
    CHECK(s.ask("POST", "/apis/samples.io/v1/foos", foo("b", "{}")).status == 404);
    CHECK(s.ask("GET", "/apis/samples.io/v1/foos").json().at("items").as_array().size() == 1);
}

TEST_CASE("a definition that is deleted waits for the finalizers of its objects", "[api_server][crd]") {
    server_fixture s;
    s.ask("POST", definitions, foo_definition);
    s.ask("POST", foos, foo("free", "{}"));
    s.ask("POST", foos,
          R"({"apiVersion":"samples.io/v1","kind":"Foo","metadata":{"name":"held","finalizers":["x.io/y"]}})");
    const auto definition = definitions + "/foos.samples.io";
    CHECK(s.ask("DELETE", definition + "?dryRun=All").status == 200);
    CHECK(s.ask("GET", foos).json().at("items").as_array().size() == 2);
    CHECK(s.ask("DELETE", definition).status == 200);
    const auto waiting = s.ask("GET", definition);
    CHECK(waiting.at("/metadata/finalizers") == R"(["customresourcecleanup.apiextensions.k8s.io"])");
    CHECK_FALSE(waiting.at("/metadata/deletionTimestamp").empty());
    CHECK(waiting.at("/status/conditions/2/type") == "Terminating");
    CHECK(s.ask("GET", foos + "/free").status == 404);
    CHECK_FALSE(s.ask("GET", foos + "/held").at("/metadata/deletionTimestamp").empty());
    CHECK(s.ask("POST", foos, foo("late", "{}")).status == 403);
    CHECK(s.ask("DELETE", definition).status == 200); // again: it still waits
    CHECK(s.ask("GET", definition).at("/metadata/finalizers") == R"(["customresourcecleanup.apiextensions.k8s.io"])");
    s.ask("PATCH", foos + "/held", R"({"metadata":{"finalizers":null}})", merge);
    CHECK(s.ask("GET", definition).status == 404);
    CHECK(s.ask("GET", foos).body == "404 page not found\n");
}

TEST_CASE("definitions that cannot be served are refused", "[api_server][crd]") {
    server_fixture s;
    const auto with = [&](std::string_view pointer, json::value v) {
        auto d = json::parse(foo_definition);
        d.at_pointer(pointer) = std::move(v);
        return s.ask("POST", definitions, json::serialize(d)).status;
    };
    CHECK(with("/metadata/name", "bars.samples.io") == 422);
    CHECK(with("/spec/group", "") == 422);
    CHECK(with("/spec/scope", "Somewhere") == 422);
    CHECK(with("/spec/versions", json::array()) == 422);
    CHECK(with("/spec/versions", json::array{1}) == 422);
    CHECK(with("/spec/names", "foos") == 422);
    CHECK(with("/spec/versions/1/storage", true) == 422);  // two of them
    CHECK(with("/spec/versions/0/storage", false) == 422); // none
    CHECK(with("/spec/versions/1/name", "v1") == 422);     // twice
    CHECK(s.ask("POST", definitions, R"({"metadata":{"name":"x.y"}})").status == 422);
    CHECK(s.ask("GET", foos).status == 404);
}

TEST_CASE("group, scope, kind and plural name of a definition cannot change", "[api_server][crd]") {
    server_fixture s;
    s.ask("POST", definitions, foo_definition);
    s.ask("POST", foos, foo("a", "{}"));
    const auto changed = [&](const std::string& spec, const std::string& field) {
        const auto a = s.ask("PATCH", definitions + "/foos.samples.io", R"({"spec":)" + spec + "}", merge);
        CHECK(a.status == 422);
        CHECK(a.at("/details/causes/0/field") == field);
        CHECK(a.at("/details/causes/0/message").ends_with("field is immutable"));
    };
    changed(R"({"scope":"Cluster"})", "spec.scope");
    changed(R"({"group":"x.io"})", "spec.group");
    changed(R"({"names":{"kind":"Bar"}})", "spec.names.kind");
    changed(R"({"names":{"plural":"bars"}})", "spec.names.plural");
    CHECK(s.ask("GET", foos + "/a").status == 200);
    const auto renamed =
        s.ask("PATCH", definitions + "/foos.samples.io", R"({"spec":{"names":{"shortNames":["f"]}}})", merge);
    CHECK(renamed.at("/status/acceptedNames/shortNames") == R"(["f"])");
    CHECK(s.ask("GET", "/apis/samples.io/v1").at("/resources/0/shortNames") == R"(["f"])");
}

TEST_CASE("of two definitions of one kind in a group the first is served, the second waits", "[api_server][crd]") {
    server_fixture s;
    s.ask("POST", definitions, foo_definition);
    const auto second = [](const std::string& plural, const std::string& kind, const std::string& group) {
        return R"({"metadata":{"name":")" + plural + "." + group + R"("},"spec":{"group":")" + group +
               R"(","scope":"Namespaced","names":{"kind":")" + kind + R"(","plural":")" + plural +
               R"("},"versions":[{"name":"v1","served":true,"storage":true}]}})";
    };
    const auto waits = s.ask("POST", definitions, second("fools", "Foo", "samples.io"));
    CHECK(waits.status == 201);
    CHECK(waits.at("/status/conditions/0/type") == "NamesAccepted");
    CHECK(waits.at("/status/conditions/0/status") == "False");
    CHECK(waits.at("/status/conditions/0/message") == "\"FooList\" is already in use");
    CHECK(waits.at("/status/conditions/1/type") == "Established");
    CHECK(waits.at("/status/conditions/1/status") == "False");
    CHECK(waits.at("/status/acceptedNames/kind").empty());
    const std::string fools = "/apis/samples.io/v1/namespaces/default/fools";
    CHECK(s.ask("GET", fools).status == 404);
    CHECK(s.ask("POST", definitions, second("foods", "Food", "samples.io")).at("/status/conditions/0/status") ==
          "True");
    const auto singular = s.ask("POST", definitions, second("foodies", "Foods", "samples.io"));
    CHECK(singular.at("/status/conditions/0/reason") == "SingularConflict");
    CHECK(s.ask("POST", definitions, second("fools", "Foo", "other.io")).at("/status/conditions/1/status") == "True");

    CHECK(s.ask("DELETE", definitions + "/foos.samples.io").status == 200);
    CHECK(s.ask("GET", fools).status == 200); // now it has the names
    const auto served = s.ask("GET", definitions + "/fools.samples.io");
    CHECK(served.at("/status/conditions/1/status") == "True");
    CHECK(served.at("/status/acceptedNames/kind") == "Foo");
    CHECK(s.ask("DELETE", definitions + "/foodies.samples.io").status == 200); // it never was served
}

TEST_CASE("an established definition that asks for a name in use keeps the names that it has", "[api_server][crd]") {
    server_fixture s;
    s.ask("POST", definitions, foo_definition);
    s.ask("POST", definitions,
          R"({"metadata":{"name":"bars.samples.io"},"spec":{"group":"samples.io","scope":"Namespaced",
        "names":{"kind":"Bar","plural":"bars","shortNames":["b"]},"versions":[{"name":"v1","served":true,"storage":true}]}})");
    const auto short_names = [&](const std::string& list) {
        return s.ask("PATCH", definitions + "/bars.samples.io", R"({"spec":{"names":{"shortNames":)" + list + "}}}",
                     merge);
    };
    const auto clash = short_names(R"(["fo"])");
    CHECK(clash.at("/status/conditions/0/reason") == "ShortNamesConflict");
    CHECK(clash.at("/status/conditions/1/status") == "True");
    CHECK(s.ask("GET", "/apis/samples.io/v1").at("/resources/2/shortNames") == R"(["b"])");
    CHECK(s.ask("PATCH", definitions + "/foos.samples.io", R"({"spec":{"names":{"shortNames":null}}})", merge).status ==
          200);
    const auto resources = s.ask("GET", "/apis/samples.io/v1").body;
    CHECK(resources.find(R"("shortNames":["fo"])") != std::string::npos);
    CHECK(s.ask("GET", definitions + "/bars.samples.io").at("/status/conditions/0/status") == "True");
}

TEST_CASE("a finalizer of a custom object may be any name", "[api_server][crd]") {
    server_fixture s;
    s.ask("POST", definitions, foo_definition);
    const std::string held =
        R"({"apiVersion":"samples.io/v1","kind":"Foo","metadata":{"name":"a","finalizers":["mine"]}})";
    CHECK(s.ask("POST", foos, held).status == 201);
}

TEST_CASE("cluster-scoped custom objects have no namespace", "[api_server][crd]") {
    server_fixture s;
    auto d = json::parse(foo_definition);
    d.at_pointer("/spec/scope") = "Cluster";
    s.ask("POST", definitions, json::serialize(d));
    CHECK(s.ask("POST", "/apis/samples.io/v1/foos", foo("a", "{}")).status == 201);
    CHECK(s.ask("GET", "/apis/samples.io/v1/foos/a").at("/metadata/namespace").empty());
    CHECK(s.ask("GET", foos).status == 404);
}

TEST_CASE("a namespace that is deleted deletes its objects, then goes", "[api_server][namespace]") {
    server_fixture s;
    s.ask("POST", "/api/v1/namespaces", R"({"metadata":{"name":"work"}})");
    s.ask("POST", "/api/v1/namespaces/work/configmaps", R"({"metadata":{"name":"a"}})");
    s.ask("POST", "/api/v1/namespaces/work/secrets", R"({"metadata":{"name":"b"}})");
    auto w = s.watch("/api/v1/namespaces?watch=1&resourceVersion=" + s.server.current_resource_version());
    const auto deleting = s.ask("DELETE", "/api/v1/namespaces/work");
    CHECK(deleting.at("/status/phase") == "Terminating");
    CHECK_FALSE(deleting.at("/metadata/deletionTimestamp").empty());
    CHECK(w.next().type == "MODIFIED");
    CHECK(w.next().type == "DELETED");
    CHECK(s.ask("GET", "/api/v1/namespaces/work").status == 404);
    CHECK(s.server.list("configmaps", "work").empty());
    w.close();
}

TEST_CASE("a terminating namespace takes nothing new and waits for finalizers", "[api_server][namespace]") {
    server_fixture s;
    s.ask("POST", "/api/v1/namespaces", R"({"metadata":{"name":"work"}})");
    const std::string maps = "/api/v1/namespaces/work/configmaps";
    s.ask("POST", maps, R"({"metadata":{"name":"held","finalizers":["x.io/y"]}})");
    s.ask("DELETE", "/api/v1/namespaces/work");
    CHECK(s.ask("GET", "/api/v1/namespaces/work").at("/status/phase") == "Terminating");
    const auto late = s.ask("POST", maps, R"({"metadata":{"name":"late"}})");
    CHECK(late.status == 403);
    CHECK(late.at("/details/causes/0/reason") == "NamespaceTerminating");
    s.ask("PATCH", maps + "/held", R"({"metadata":{"finalizers":null}})", merge);
    CHECK(s.ask("GET", "/api/v1/namespaces/work").status == 404);
}

TEST_CASE("a terminating namespace waits for its own finalizers, and goes with the last", "[api_server][namespace]") {
    server_fixture s;
    s.ask("POST", "/api/v1/namespaces", R"({"metadata":{"name":"work","finalizers":["x.io/y"]}})");
    s.ask("DELETE", "/api/v1/namespaces/work");
    CHECK(s.ask("GET", "/api/v1/namespaces/work").at("/status/phase") == "Terminating");
    s.ask("PATCH", "/api/v1/namespaces/work", R"({"metadata":{"finalizers":null}})", merge);
    CHECK(s.ask("GET", "/api/v1/namespaces/work").status == 404);
}

TEST_CASE("a terminating namespace goes when a deleted definition takes the last of its objects",
          "[api_server][namespace][crd]") {
    server_fixture s;
    s.ask("POST", definitions, foo_definition);
    s.ask("POST", "/api/v1/namespaces", R"({"metadata":{"name":"work"}})");
    const std::string held =
        R"({"apiVersion":"samples.io/v1","kind":"Foo","metadata":{"name":"a","finalizers":["x.io/y"]}})";
    REQUIRE(s.ask("POST", "/apis/samples.io/v1/namespaces/work/foos", held).status == 201);
    s.ask("DELETE", "/api/v1/namespaces/work");
    REQUIRE(s.ask("GET", "/api/v1/namespaces/work").status == 200);
    s.ask("DELETE", definitions + "/foos.samples.io");
    s.ask("PATCH", definitions + "/foos.samples.io", R"({"metadata":{"finalizers":null}})", merge); // by force
    CHECK(s.ask("GET", "/api/v1/namespaces/work").status == 404);
}

TEST_CASE("a namespace can be finalized as a dry run, and does not go while its own finalizers hold it",
          "[api_server][namespace]") {
    server_fixture s;
    s.ask("POST", "/api/v1/namespaces", R"({"metadata":{"name":"work","finalizers":["x.io/y"]}})");
    s.ask("DELETE", "/api/v1/namespaces/work");
    const std::string body = R"({"metadata":{"name":"work"},"spec":{"finalizers":[]}})";
    CHECK(s.ask("PUT", "/api/v1/namespaces/work/finalize?dryRun=All", body).status == 200);
    CHECK(s.ask("GET", "/api/v1/namespaces/work").at("/spec/finalizers/0") == "kubernetes");
    CHECK(s.ask("PUT", "/api/v1/namespaces/work/finalize", body).status == 200);
    CHECK(s.ask("GET", "/api/v1/namespaces/work").at("/spec/finalizers/0").empty());
    s.ask("PATCH", "/api/v1/namespaces/work", R"({"metadata":{"finalizers":null}})", merge);
    CHECK(s.ask("GET", "/api/v1/namespaces/work").status == 404);
}
