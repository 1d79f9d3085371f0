// What a written object becomes.
#include "config_maps.hpp"
#include "server_fixture.hpp"

#include <catch2/catch_test_macros.hpp>

#include <malloc.h>

#include <regex>

using namespace server_tests;

TEST_CASE("a created object has the metadata that the server sets", "[api_server]") {
    server_fixture s;
    const auto a = s.ask("POST", maps, map_named("a"));
    REQUIRE(a.status == 201);
    CHECK(a.type == "application/json");
    CHECK(a.at("/kind") == "ConfigMap");
    CHECK(a.at("/apiVersion") == "v1");
    CHECK(a.at("/metadata/namespace") == "default");
    CHECK(a.at("/data/k") == "v");
    CHECK(std::regex_match(a.at("/metadata/uid"),
                           std::regex("[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")));
    CHECK(std::regex_match(a.at("/metadata/creationTimestamp"),
                           std::regex("\\d{4}-\\d\\d-\\d\\dT\\d\\d:\\d\\d:\\d\\dZ")));
    CHECK(a.at("/metadata/resourceVersion") == s.server.current_resource_version());
    CHECK(a.at("/metadata/managedFields/0/operation") == "Update");
    CHECK(a.at("/metadata/managedFields/0/manager") == "libinformer");
    CHECK(a.json().at_pointer("/metadata/managedFields/0/fieldsV1/f:data/f:k").is_object());
    const auto got = s.ask("GET", maps + "/a");
    CHECK(got.status == 200);
    CHECK(got.json() == a.json());
}

TEST_CASE("generateName makes a name", "[api_server]") {
    server_fixture s;
    const auto a = s.ask("POST", maps, R"({"metadata":{"generateName":"run-"}})");
    REQUIRE(a.status == 201);
    CHECK(a.at("/metadata/name").size() == 9);
    CHECK(a.at("/metadata/name").starts_with("run-"));
    CHECK(a.at("/metadata/generateName") == "run-");
}

TEST_CASE("generated names that are taken are drawn again", "[api_server]") {
    server_fixture s;
    for (int i = 0; i < 12'000; ++i) // about 5 pairs of these share their first suffix
        s.server.create({{"apiVersion", "v1"}, {"kind", "ConfigMap"}, {"metadata", {{"generateName", "run-"}}}});
    CHECK(s.server.list("configmaps").size() == 12'000);
}

TEST_CASE("a dry run answers and changes nothing", "[api_server]") {
    server_fixture s;
    s.put("there", "1");
    const auto before = s.server.current_resource_version();
    CHECK(s.ask("POST", maps + "?dryRun=All", map_named("a")).status == 201);
    CHECK(s.ask("GET", maps + "/a").status == 404);
    CHECK(s.ask("PATCH", maps + "/there?dryRun=All", R"({"data":{"v":"2"}})", merge).at("/data/v") == "2");
    CHECK(s.ask("DELETE", maps + "/there?dryRun=All").status == 200);
    CHECK(s.ask("GET", maps + "/there").at("/data/v") == "1");
    CHECK(s.server.current_resource_version() == before);
}

TEST_CASE("an update with a stale resource version is a conflict, one without is not", "[api_server]") {
    server_fixture s;
    const auto first = s.ask("POST", maps, map_named("a"));
    auto o = first.json();
    o.at_pointer("/data/k") = "2";
    CHECK(s.ask("PUT", maps + "/a", json::serialize(o)).status == 200);
    o.at_pointer("/data/k") = "3";
    const auto stale = s.ask("PUT", maps + "/a", json::serialize(o));
    CHECK(stale.status == 409);
    CHECK(stale.at("/reason") == "Conflict");
    CHECK(s.ask("PUT", maps + "/a", map_named("a", R"("data":{"k":"4"})")).at("/data/k") == "4");
    const auto stale_patch = s.ask("PATCH", maps + "/a", R"({"metadata":{"resourceVersion":"1"}})", merge);
    CHECK(stale_patch.status == 409);
}

TEST_CASE("an update keeps the identity of an object, and refuses another one", "[api_server]") {
    server_fixture s;
    const auto first = s.ask("POST", maps, map_named("a"));
    const auto forged =
        s.ask("PUT", maps + "/a", R"({"metadata":{"name":"a","creationTimestamp":"1999-01-01T00:00:00Z"}})");
    CHECK(forged.status == 200);
    CHECK(forged.at("/metadata/uid") == first.at("/metadata/uid"));
    CHECK(forged.at("/metadata/creationTimestamp") == first.at("/metadata/creationTimestamp"));
    CHECK(forged.at("/metadata/deletionTimestamp").empty());
    CHECK(s.ask("PUT", maps + "/a", R"({"metadata":{"name":"a","uid":"x"}})").status == 409);
    CHECK(s.ask("PUT", maps + "/a", map_named("b")).status == 400);
    CHECK(s.ask("PUT", maps + "/nope", map_named("nope")).status == 404);
    CHECK(s.ask("PUT", maps, map_named("a")).status == 405);
}

TEST_CASE("the times of a Lease are null or have microseconds; anything else is refused", "[api_server]") {
    server_fixture s;
    const std::string leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
    const auto lease = [](const std::string& name, const std::string& acquired) {
        return R"({"metadata":{"name":")" + name + R"("},"spec":{"holderIdentity":"a","acquireTime":)" + acquired +
               "}}";
    };
    CHECK(s.ask("POST", leases, lease("null", "null")).status == 201);
    CHECK(s.ask("POST", leases, lease("time", R"("2026-11-01T08:00:00.000001Z")")).status == 201);
    CHECK(s.ask("POST", leases, lease("zone", R"("2026-11-01T08:00:00.000001+01:00")")).status == 201);
    for (const char* bad : {R"("")", R"("soon")", R"("2026-11-01T08:00:00Z")", R"("2026-11-01T08:00:00.001Z")",
                            R"("2026-13-01T08:00:00.000001Z")", "1"}) {
        CAPTURE(bad);
        CHECK(s.ask("POST", leases, lease("bad", bad)).status == 400);
        CHECK(s.ask("PUT", leases + "/time", lease("time", bad)).status == 400);
        CHECK(s.ask("PATCH", leases + "/time", lease("time", bad), merge).status == 422);
    }
}

TEST_CASE("a write that changes nothing returns the old version and causes no event", "[api_server]") {
    server_fixture s;
    const auto first = s.ask("POST", maps, map_named("a"));
    const auto again = s.ask("PUT", maps + "/a", map_named("a"));
    CHECK(again.at("/metadata/resourceVersion") == first.at("/metadata/resourceVersion"));
    CHECK(s.ask("PATCH", maps + "/a", "{}", merge).at("/metadata/resourceVersion") ==
          first.at("/metadata/resourceVersion"));
    CHECK(s.server.current_resource_version() == first.at("/metadata/resourceVersion"));
}

TEST_CASE("status and specification are written separately, and generation counts the specification", "[api_server]") {
    server_fixture s;
    const std::string path = "/apis/apps/v1/namespaces/default/deployments";
    const auto made = s.ask("POST", path, R"({"metadata":{"name":"d"},"spec":{"replicas":1},"status":{"replicas":9}})");
    REQUIRE(made.status == 201);
    CHECK(made.at("/status/replicas").empty());
    CHECK(made.at("/metadata/generation") == "1");
    const auto status = s.ask("PATCH", path + "/d/status", R"({"spec":{"replicas":5},"status":{"replicas":1}})", merge);
    CHECK(status.at("/status/replicas") == "1");
    CHECK(status.at("/spec/replicas") == "1");
    CHECK(status.at("/metadata/generation") == "1");
    const auto both = s.ask("PATCH", path + "/d", R"({"spec":{"replicas":2},"status":{"replicas":7}})", merge);
    CHECK(both.at("/spec/replicas") == "2");
    CHECK(both.at("/status/replicas") == "1");
    CHECK(both.at("/metadata/generation") == "2");
    const auto labelled = s.ask("PATCH", path + "/d", R"({"metadata":{"labels":{"a":"b"}}})", merge);
    CHECK(labelled.at("/metadata/generation") == "2");
    CHECK(s.ask("GET", path + "/d/status").at("/status/replicas") == "1");
    CHECK(s.ask("GET", maps + "/d/status").status == 404);
}

TEST_CASE("scale reads and writes the number of replicas", "[api_server]") {
    server_fixture s;
    const std::string path = "/apis/apps/v1/namespaces/default/deployments";
    s.ask("POST", path, R"({"metadata":{"name":"d"},"spec":{"replicas":1,"selector":{"matchLabels":{"a":"b"}}}})");
    const auto scale = s.ask("GET", path + "/d/scale");
    CHECK(scale.at("/kind") == "Scale");
    CHECK(scale.at("/spec/replicas") == "1");
    CHECK(scale.at("/status/selector") == "a=b");
    const auto set = s.ask("PATCH", path + "/d/scale", R"({"spec":{"replicas":4}})", merge);
    CHECK(set.at("/spec/replicas") == "4");
    CHECK(s.ask("GET", path + "/d").at("/spec/replicas") == "4");
    CHECK(s.ask("GET", path + "/d").at("/metadata/generation") == "2");
    CHECK(s.ask("PATCH", path + "/d/scale", R"({"spec":{"replicas":-1}})", merge).status == 422);
    const auto entries = s.ask("GET", path + "/d").json().at_pointer("/metadata/managedFields");
    CHECK(text_at(entries, "/1/subresource") == "scale");
    CHECK(text_at(entries, "/1/fieldsV1") == R"({"f:spec":{"f:replicas":{}}})");
}

TEST_CASE("events are forgotten after an hour", "[api_server]") {
    server_fixture s(api_server_options(), true);
    const std::string events = "/api/v1/namespaces/default/events";
    const auto make = [&](const std::string& name) {
        REQUIRE(s.ask("POST", events, R"({"metadata":{"name":")" + name + R"("},"reason":"r"})").status == 201);
    };
    make("old");
    make("repeated");
    s.advance(std::chrono::minutes(40));
    s.ask("PATCH", events + "/repeated", R"({"count":2})", merge);
    s.put("map", "1");
    auto w = s.watch(events + "?watch=1&timeoutSeconds=7200&resourceVersion=" + s.server.current_resource_version());
    s.advance(std::chrono::minutes(40));
    make("new");
    const auto gone = w.next();
    CHECK(gone.type == "DELETED");
    CHECK(gone.name() == "old");
    CHECK(w.next().name() == "new");
    CHECK(s.ask("GET", events).json().at("items").as_array().size() == 2);
    CHECK(s.ask("GET", maps + "/map").status == 200);
    w.close();
}

TEST_CASE("an event that is written again and again does not use more and more memory", "[api_server]") {
    server_fixture s(api_server_options().history(10), true);
    const std::string events = "/api/v1/namespaces/default/events";
    REQUIRE(s.ask("POST", events, R"({"metadata":{"name":"repeated"},"reason":"r"})").status == 201);
    int count = 0;
    const auto rounds = [&](int n) {
        for (int i = 0; i < n; ++i)
            s.ask("PATCH", events + "/repeated", R"({"count":)" + std::to_string(++count) + "}", merge);
        s.server.forget_requests();
        return mallinfo2().uordblks; // always zero under the sanitizers
    };
    const std::size_t before = rounds(200);
    CHECK(rounds(2000) < before + 100'000);
}

TEST_CASE("direct writes are seen by clients, and are refused like those of clients", "[api_server]") {
    server_fixture s;
    s.put("a", "1");
    CHECK(s.ask("GET", maps + "/a").at("/data/v") == "1");
    s.server.merge_patch("configmaps", "default", "a", json::parse(R"({"data":{"v":"2"}})"));
    CHECK(s.ask("GET", maps + "/a").at("/data/v") == "2");
    CHECK(text_at(s.server.get("configmaps", "default", "a"), "/data/v") == "2");
    CHECK(s.server.get("configmaps", "default", "nope").is_null());
    try {
        s.server.remove("configmaps", "default", "nope");
        FAIL("not refused");
    } catch (const informer::error& e) {
        CHECK(e.code() == informer::condition::not_found);
    }
    CHECK_THROWS_AS(s.server.list("nonsense"), informer::error);
    CHECK_THROWS_AS(s.server.create(json::parse(R"({"kind":"Nonsense","apiVersion":"v1"})")), informer::error);
}

TEST_CASE("direct writes set status and specification at once", "[api_server]") {
    server_fixture s;
    s.server.create(json::parse(
        R"({"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},"spec":{"nodeName":"n"},"status":{"phase":"Running"}})"));
    const auto pod = s.ask("GET", "/api/v1/namespaces/default/pods/p");
    CHECK(pod.at("/spec/nodeName") == "n");
    CHECK(pod.at("/status/phase") == "Running");
}

TEST_CASE("names and values that JSON must escape come back as they were", "[api_server]") {
    server_fixture s;
    json::value o = json::parse(map_named("a"));
    const std::string nasty = "\"resourceVersion\":\"7\" \\ \n\t\x01 \xe2\x82\xac </script>";
    o.as_object()["data"].as_object()[nasty] = nasty;
    o.as_object()["metadata"].as_object()["annotations"] = json::object{{"resourceVersion", nasty}};
    REQUIRE(s.ask("POST", maps, json::serialize(o)).status == 201);
    const auto got = s.ask("GET", maps + "/a").json();
    CHECK(std::string_view(got.at("data").at(nasty).as_string()) == nasty);
    CHECK(text_at(got, "/metadata/annotations/resourceVersion") == nasty);
    CHECK(text_at(got, "/metadata/resourceVersion") == s.server.current_resource_version());
}

TEST_CASE("a PUT of an object as a list showed it is no change", "[api_server]") {
    server_fixture s;
    s.put("a", "1");
    const auto before = s.server.current_resource_version();
    const auto item = json::serialize(s.ask("GET", maps).json().at("items").at(0)); // without kind and apiVersion
    CHECK(s.ask("PUT", maps + "/a", item).status == 200);
    CHECK(s.server.current_resource_version() == before);
}

TEST_CASE("PUT creates some kinds, and needs a resource version for some", "[api_server]") {
    server_fixture s;
    const std::string leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
    const std::string budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
    const std::string roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
    const std::string a = R"({"metadata":{"name":"a"},"spec":{}})";
    CHECK(s.ask("PUT", maps + "/a", map_named("a")).status == 404);
    CHECK(s.ask("PUT", budgets + "/a", a).status == 404);
    CHECK(s.ask("PUT", leases + "/b", a).status == 400);
    CHECK(s.ask("PUT", leases + "/a", R"({"metadata":{"name":"a","uid":"x"}})").status == 409);
    CHECK(s.ask("PUT", leases + "/a", a).status == 201);
    CHECK(s.ask("PUT", roles + "/a", R"({"metadata":{"name":"a"}})").status == 201);
    CHECK(s.ask("PUT", roles + "/a", R"({"metadata":{"name":"a","labels":{"x":"y"}}})").status == 200);
    CHECK(s.ask("POST", budgets, a).status == 201);
    for (const auto& path : {leases, budgets}) {
        const auto no = s.ask("PUT", path + "/a", a);
        CHECK(no.status == 422);
        CHECK(no.at("/details/causes/0/field") == "metadata.resourceVersion");
        const auto now = s.ask("GET", path + "/a");
        CHECK(s.ask("PUT", path + "/a", now.body).status == 200);
    }
}

TEST_CASE("the members of a created object may stand in any order", "[api_server]") {
    server_fixture s;
    const std::string space = R"({"apiVersion":"v1","kind":"Namespace","status":{},"metadata":{"name":"x"}})";
    const auto made = s.ask("POST", "/api/v1/namespaces", space);
    CHECK(made.status == 201);
    CHECK(made.at("/metadata/labels/kubernetes.io~1metadata.name") == "x");
    CHECK(made.at("/status/phase") == "Active");
}

TEST_CASE("finalize is a subresource of namespaces only, and only for PUT", "[api_server]") {
    server_fixture s;
    s.put("a", "1");
    CHECK(s.ask("GET", maps + "/a/finalize").status == 404);
    CHECK(s.ask("GET", "/api/v1/namespaces/default/finalize").status == 405);
    CHECK(s.ask("PUT", "/api/v1/namespaces/default/finalize", R"({"metadata":{"name":"default"}})").status == 200);
}
