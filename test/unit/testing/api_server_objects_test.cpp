#include "server_fixture.hpp"

#include <catch2/catch_test_macros.hpp>

#include <malloc.h>

#include <regex>

using namespace server_tests;

namespace {

const std::string maps = "/api/v1/namespaces/default/configmaps";
const std::string merge = "application/merge-patch+json";
const std::string operations = "application/json-patch+json";

std::string map_named(const std::string& name, const std::string& rest = R"("data":{"k":"v"})") {
    return R"({"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":")" + name + R"("},)" + rest + "}";
}

} // namespace

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

TEST_CASE("invalid creations are refused with the status of the real server", "[api_server]") {
    server_fixture s;
    s.put("taken", "1");
    const auto refused = [&](const std::string& path, const std::string& body, int code, const std::string& reason) {
        const auto a = s.ask("POST", path, body);
        INFO(body << " -> " << a.body);
        CHECK(a.status == code);
        CHECK(a.at("/kind") == "Status");
        CHECK(a.at("/status") == "Failure");
        CHECK(a.at("/reason") == reason);
        CHECK(a.at("/code") == std::to_string(code));
    };
    refused(maps, map_named("taken"), 409, "AlreadyExists");
    refused(maps, map_named("Not_a_name"), 422, "Invalid");
    refused(maps, R"({"metadata":{}})", 422, "Invalid");
    refused(maps, R"({"kind":"Pod","apiVersion":"v1","metadata":{"name":"a"}})", 400, "BadRequest");
    refused(maps, R"({"kind":"ConfigMap","apiVersion":"v2","metadata":{"name":"a"}})", 400, "BadRequest");
    refused(maps, R"({"metadata":{"name":"a","namespace":"other"}})", 400, "BadRequest");
    refused(maps, R"({"metadata":{"name":"a","labels":{"n":1}}})", 400, "BadRequest");
    refused(maps, R"({"metadata":{"name":"a","finalizers":"x"}})", 400, "BadRequest");
    refused(maps, R"({"metadata":[]})", 400, "BadRequest");
    refused(maps, R"({"metadata":)", 400, "BadRequest");
    refused(maps, R"([1])", 400, "BadRequest");
    refused("/api/v1/namespaces/nowhere/configmaps", map_named("a"), 404, "NotFound");
    refused("/api/v1/configmaps", map_named("a"), 405, "MethodNotAllowed");
    refused("/api/v1/namespaces", R"({"metadata":{"name":"a.b"}})", 422, "Invalid");
    const auto yaml = s.ask("POST", maps, "a: b", "application/yaml");
    CHECK(yaml.status == 415);
    const auto missing = s.ask("GET", maps + "/missing");
    CHECK(missing.status == 404);
    CHECK(missing.at("/message") == "configmaps \"missing\" not found");
    CHECK(missing.at("/details/name") == "missing");
    CHECK(missing.at("/details/kind") == "configmaps");
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

TEST_CASE("merge, JSON and strategic patches change what they say", "[api_server]") {
    server_fixture s;
    s.ask("POST", maps, map_named("a", R"("data":{"k":"v","gone":"x"})"));
    const auto merged = s.ask("PATCH", maps + "/a", R"({"data":{"gone":null,"new":"y"}})", merge);
    CHECK(merged.at("/data") == R"({"k":"v","new":"y"})");
    const auto patched = s.ask("PATCH", maps + "/a", R"([{"op":"replace","path":"/data/k","value":"w"}])", operations);
    CHECK(patched.at("/data/k") == "w");
    CHECK(s.ask("PATCH", maps + "/a", R"([{"op":"test","path":"/data/k","value":"no"}])", operations).status == 422);
    CHECK(s.ask("PATCH", maps + "/a", R"({"op":"test"})", operations).status == 400);
    CHECK(s.ask("PATCH", maps + "/a", R"([1])", merge).status == 400);
    CHECK(s.ask("PATCH", maps + "/a", "{}", "text/plain").status == 415);
    CHECK(s.ask("PATCH", maps + "/nope", "{}", merge).status == 404);

    const std::string pods = "/api/v1/namespaces/default/pods";
    s.ask(
        "POST", pods,
        R"({"metadata":{"name":"p"},"spec":{"containers":[{"name":"a","image":"1","env":[{"name":"X","value":"1"}]},{"name":"b","image":"1"}]}})");
    const auto strategic = s.ask(
        "PATCH", pods + "/p",
        R"({"spec":{"containers":[{"name":"a","image":"2"},{"name":"b","$patch":"delete"},{"name":"c","image":"3"}]}})",
        "application/strategic-merge-patch+json");
    CHECK(strategic.at("/spec/containers/0/image") == "2");
    CHECK(strategic.at("/spec/containers/0/env/0/value") == "1");
    CHECK(strategic.at("/spec/containers/1/name") == "c");
    CHECK(strategic.json().at_pointer("/spec/containers").as_array().size() == 2);
}

TEST_CASE("a strategic patch adds to finalizers and takes from them", "[api_server]") {
    server_fixture s;
    const std::string strategic = "application/strategic-merge-patch+json";
    s.ask("POST", maps, R"({"metadata":{"name":"a","finalizers":["x.io/1","x.io/2"]}})");
    s.ask("PATCH", maps + "/a", R"({"metadata":{"finalizers":["x.io/2","x.io/3"]}})", strategic);
    CHECK(s.ask("GET", maps + "/a").at("/metadata/finalizers") == R"(["x.io/1","x.io/2","x.io/3"])");
    s.ask(
        "PATCH", maps + "/a",
        R"({"metadata":{"$deleteFromPrimitiveList/finalizers":["x.io/2"],"$setElementOrder/finalizers":["x.io/1","x.io/3"]}})",
        strategic); // as kubectl edit and controller-runtime send it
    CHECK(s.ask("GET", maps + "/a").at("/metadata/finalizers") == R"(["x.io/1","x.io/3"])");
}

TEST_CASE("a strategic patch replaces a list if told to", "[api_server]") {
    server_fixture s;
    const std::string pods = "/api/v1/namespaces/default/pods";
    s.ask("POST", pods, R"({"metadata":{"name":"p"},"spec":{"containers":[{"name":"a"},{"name":"b"}]}})");
    s.ask("PATCH", pods + "/p", R"({"spec":{"containers":[{"name":"c"},{"$patch":"replace"}]}})",
          "application/strategic-merge-patch+json");
    CHECK(s.ask("GET", pods + "/p").at("/spec/containers") == R"([{"name":"c"}])");
}

TEST_CASE("a strategic patch replaces taints, and keeps only the retained keys of a union", "[api_server]") {
    server_fixture s;
    const std::string strategic = "application/strategic-merge-patch+json";
    s.ask("POST", "/api/v1/nodes",
          R"({"metadata":{"name":"n"},"spec":{"taints":[{"key":"a","effect":"NoSchedule"}]}})");
    const auto n =
        s.ask("PATCH", "/api/v1/nodes/n", R"({"spec":{"taints":[{"key":"b","effect":"NoExecute"}]}})", strategic);
    CHECK(n.at("/spec/taints") == R"([{"key":"b","effect":"NoExecute"}])");
    const std::string deployments = "/apis/apps/v1/namespaces/default/deployments";
    s.ask("POST", deployments,
          R"({"metadata":{"name":"d"},"spec":{"strategy":{"type":"RollingUpdate","rollingUpdate":{"maxSurge":1}}}})");
    const auto d = s.ask("PATCH", deployments + "/d",
                         R"({"spec":{"strategy":{"$retainKeys":["type"],"type":"Recreate"}}})", strategic);
    CHECK(d.at("/spec/strategy") == R"({"type":"Recreate"})");
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

TEST_CASE("a delete answers, honours preconditions, and takes effect at once", "[api_server]") {
    server_fixture s;
    const auto made = s.ask("POST", maps, map_named("a"));
    CHECK(s.ask("DELETE", maps + "/a", R"({"preconditions":{"uid":"x"}})").status == 409);
    CHECK(s.ask("DELETE", maps + "/a", R"({"preconditions":{"resourceVersion":"1"}})").status == 409);
    const auto gone =
        s.ask("DELETE", maps + "/a", R"({"preconditions":{"uid":")" + made.at("/metadata/uid") + R"("}})");
    CHECK(gone.status == 200);
    CHECK(gone.at("/kind") == "Status");
    CHECK(gone.at("/status") == "Success");
    CHECK(gone.at("/details/uid") == made.at("/metadata/uid"));
    CHECK(s.ask("DELETE", maps + "/a").status == 404);
    s.ask("POST", "/api/v1/namespaces/default/pods", R"({"metadata":{"name":"p"}})");
    CHECK(s.ask("DELETE", "/api/v1/namespaces/default/pods/p").at("/kind") == "Pod");
}

TEST_CASE("finalizers hold an object until the last is gone", "[api_server]") {
    server_fixture s;
    s.ask("POST", maps, R"({"metadata":{"name":"a","finalizers":["x.io/1","x.io/2"]}})");
    const auto deleting = s.ask("DELETE", maps + "/a");
    CHECK(deleting.status == 200);
    CHECK(deleting.at("/kind") == "ConfigMap");
    CHECK_FALSE(deleting.at("/metadata/deletionTimestamp").empty());
    CHECK(s.ask("PATCH", maps + "/a", R"({"metadata":{"finalizers":["x.io/3"]}})", merge).status == 422);
    CHECK(s.ask("PATCH", maps + "/a", R"({"metadata":{"finalizers":["x.io/1"]}})", merge).status == 200);
    const auto again = s.ask("DELETE", maps + "/a"); // changes nothing
    CHECK(again.status == 200);
    CHECK(s.ask("GET", maps + "/a").status == 200);
    CHECK(s.ask("PATCH", maps + "/a", R"({"metadata":{"finalizers":null}})", merge).status == 200);
    CHECK(s.ask("GET", maps + "/a").status == 404);
}

TEST_CASE("a collection is deleted by selector", "[api_server]") {
    server_fixture s;
    s.put("a", "1", {{"app", "x"}});
    s.put("b", "1", {{"app", "y"}});
    s.put("c", "1", {{"app", "x"}});
    const auto gone = s.ask("DELETE", maps + "?labelSelector=app%3Dx");
    CHECK(gone.status == 200);
    CHECK(gone.json().at("items").as_array().size() == 2);
    CHECK(s.server.list("configmaps", "default").size() == 1);
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

TEST_CASE("objects nested almost a thousand levels deep are kept, deeper ones refused", "[api_server]") {
    server_fixture s;
    const auto nested = [](int levels) {
        std::string body = R"({"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"deep"},"data":)";
        for (int i = 0; i < levels; ++i) body += R"({"a":)";
        body += "1";
        body.append(static_cast<std::size_t>(levels), '}');
        return body + "}";
    };
    CHECK(s.ask("POST", maps, nested(1100)).status == 400);
    REQUIRE(s.ask("POST", maps, nested(990)).status == 201);
    const auto changed = s.ask("PATCH", maps + "/deep", R"({"metadata":{"labels":{"a":"b"}}})", merge);
    CHECK(changed.status == 200);
    CHECK(changed.body.find(R"("labels":{"a":"b"})") != std::string::npos);
    CHECK(s.ask("DELETE", maps + "/deep").status == 200);
}

TEST_CASE("numbers that no double can hold are refused: they could not be written as JSON", "[api_server]") {
    server_fixture s;
    const auto odd = s.ask("POST", maps, map_named("odd", R"("data":{"k":1e400})"));
    INFO(odd.body);
    CHECK(odd.status == 400);
    CHECK(s.ask("POST", maps, map_named("small", R"("data":{"k":1e-400,"big":1e308})")).status == 201);
    CHECK(s.ask("GET", maps).json().at("items").as_array().size() == 1);
}

TEST_CASE("a DELETE of a subresource is refused, and does not delete the object", "[api_server]") {
    server_fixture s;
    s.ask("POST", "/api/v1/namespaces/default/services", R"({"metadata":{"name":"a"}})");
    CHECK(s.ask("DELETE", "/api/v1/namespaces/default/services/a/status").status == 405);
    CHECK(s.ask("GET", "/api/v1/namespaces/default/services/a").status == 200);
}

TEST_CASE("a PUT of an object as a list showed it is no change", "[api_server]") {
    server_fixture s;
    s.put("a", "1");
    const auto before = s.server.current_resource_version();
    const auto item = json::serialize(s.ask("GET", maps).json().at("items").at(0)); // without kind and apiVersion
    CHECK(s.ask("PUT", maps + "/a", item).status == 200);
    CHECK(s.server.current_resource_version() == before);
}

TEST_CASE("a field manager or user agent that is not UTF-8 or is too long does no harm to the object", "[api_server]") {
    server_fixture s;
    const auto a = s.ask("POST", maps + "?fieldManager=%FF", map_named("a"));
    REQUIRE(a.status == 201);
    CHECK(a.at("/metadata/managedFields/0/manager") == "\xEF\xBF\xBD");
    CHECK(s.ask("PATCH", maps + "/a", R"({"data":{"k":"2"}})", merge).status == 200);
    CHECK(s.ask("GET", maps).json().at("items").as_array().size() == 1);
    CHECK(s.ask("DELETE", maps + "/a").status == 200);

    informer::http::request by_agent("POST", maps);
    by_agent
        .header("User-Agent", "od\xFF"
                              "d\xC2\x80/1.0")
        .body(map_named("b"), "application/json");
    const auto b = s.ask(std::move(by_agent));
    REQUIRE(b.status == 201);
    CHECK(b.at("/metadata/managedFields/0/manager") == "od\xEF\xBF\xBD"
                                                       "d");
    CHECK(s.ask("DELETE", maps + "/b").status == 200);
    informer::http::request long_agent("POST", maps);
    long_agent.header("User-Agent", std::string(200, 'x')).body(map_named("c"), "application/json");
    CHECK(s.ask(std::move(long_agent)).at("/metadata/managedFields/0/manager") == std::string(128, 'x'));

    for (const std::string& manager : {std::string(129, 'x'), std::string("a%0Ab"), std::string("%C2%80")}) {
        const auto no = s.ask("POST", maps + "?fieldManager=" + manager, map_named("d"));
        CHECK(no.status == 422);
        CHECK(no.at("/details/causes/0/field") == "fieldManager");
    }
    CHECK(s.ask("POST", maps + "?fieldManager=" + std::string(128, 'x'), map_named("d")).status == 201);
}

TEST_CASE("text that is not UTF-8 is not stored, and answers that quote it are valid JSON", "[api_server]") {
    server_fixture s;
    json::value bad = {
        {"apiVersion", "v1"}, {"kind", "ConfigMap"}, {"metadata", {{"name", "a"}}}, {"data", {{"k", "\xFF"}}}};
    CHECK_THROWS_AS(s.server.create(bad), informer::error);
    CHECK(s.server.get("configmaps", "default", "a").is_null());
    const std::string role = R"({"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole"})";
    const auto applied = s.ask("PATCH", "/apis/rbac.authorization.k8s.io/v1/clusterroles/%FF?fieldManager=me", role,
                               "application/apply-patch+yaml");
    CHECK(applied.status == 400);
    CHECK(s.server.list("clusterroles.rbac.authorization.k8s.io").empty());
    const auto missing = s.ask("GET", maps + "/%FF");
    CHECK(missing.status == 404);
    CHECK(missing.at("/details/name") == "\xEF\xBF\xBD");
}

TEST_CASE("labels and annotations that break the rules are refused, in creations and changes", "[api_server]") {
    server_fixture s;
    const auto with = [](const std::string& name, const std::string& metadata) {
        return R"({"metadata":{"name":")" + name + R"(",)" + metadata + "}}";
    };
    REQUIRE(
        s.ask("POST", maps,
              with("good", R"("labels":{"x.io/A_b.c":"V-1_2.z","empty":""},"annotations":{"X.io/Any":"any text: ✓"})"))
            .status == 201);
    const std::string bad[] = {
        R"("labels":{"a":"two words"})",
        R"("labels":{"a":")" + std::string(64, 'x') + R"("})",
        R"("labels":{"a":"-x"})",
        R"("labels":{"a b":"x"})",
        R"("labels":{"X.io/a":"x"})",
        R"("annotations":{"a b":"x"})",
        R"("annotations":{"a":")" + std::string(256 << 10, 'x') + R"("})",
    };
    for (const auto& metadata : bad) {
        INFO(metadata.substr(0, 80));
        CHECK(s.ask("POST", maps, with("bad", metadata)).status == 422);
        const auto no = s.ask("PATCH", maps + "/good", R"({"metadata":{)" + metadata + "}}", merge);
        CHECK(no.status == 422);
        CHECK(no.at("/reason") == "Invalid");
        CHECK(no.at("/details/causes/0/field") == metadata.substr(1, metadata.find(':') - 2).insert(0, "metadata."));
    }
    CHECK(s.ask("POST", maps, with("most", R"("annotations":{"a":")" + std::string((256 << 10) - 1, 'x') + R"("})"))
              .status == 201);
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

TEST_CASE("collections are deleted within a namespace only, namespaces one by one", "[api_server]") {
    server_fixture s;
    s.put("a", "1");
    CHECK(s.ask("DELETE", "/api/v1/configmaps").status == 405);
    CHECK(s.ask("DELETE", "/api/v1/namespaces").status == 405);
    CHECK(s.server.list("configmaps").size() == 1);
    CHECK(s.server.list("namespaces").size() == 4);
    const auto core = s.ask("GET", "/api/v1").json();
    for (const auto& r : core.at("resources").as_array()) {
        const bool deletes = json::serialize(r.at("verbs")).find("deletecollection") != std::string::npos;
        const std::string_view name = r.at("name").as_string();
        if (name.find('/') == std::string_view::npos) CHECK(deletes == (name != "namespaces"));
    }
}

namespace {

std::string of_size(std::size_t n) {
    auto o = map_named("a", R"("data":{"k":""})");
    o.insert(o.size() - 3, std::string(n - o.size(), 'x'));
    return o;
}

} // namespace

TEST_CASE("bodies beyond the limit are refused as too large", "[api_server]") {
    server_fixture s(api_server_options().max_object(4 << 20));
    const auto no = s.ask("POST", maps, of_size((3 << 20) + 1));
    CHECK(no.status == 413);
    CHECK(no.at("/reason") == "RequestEntityTooLarge");
    CHECK(s.ask("POST", maps, of_size(3 << 20)).status == 201);
    server_fixture small(api_server_options().max_body(100));
    CHECK(small.ask("POST", maps, of_size(101)).status == 413);
    CHECK(small.ask("POST", maps, of_size(100)).status == 201);
}

TEST_CASE("objects that are too large for etcd are refused in its words", "[api_server]") {
    server_fixture s;
    const auto no = s.ask("POST", maps, of_size(3 << 19));
    CHECK(no.status == 500);
    CHECK(no.at("/message") == "etcdserver: request is too large");
    CHECK(s.ask("GET", maps + "/a").status == 404);
    CHECK(s.ask("POST", maps, of_size((3 << 19) - 2'000)).status == 201);
    CHECK(s.ask("PUT", maps + "/a", of_size(3 << 19)).status == 500);
    server_fixture large(api_server_options().max_object(3 << 20));
    CHECK(large.ask("POST", maps, of_size(2 << 20)).status == 201);
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
