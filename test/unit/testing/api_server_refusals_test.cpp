// Objects that cannot be stored are refused, and what cannot be stored of a request does no harm.
#include "config_maps.hpp"
#include "server_fixture.hpp"

#include <catch2/catch_test_macros.hpp>

#include <string>
#include <string_view>

using namespace server_tests;

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
