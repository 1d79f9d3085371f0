// Patches of each kind, and what they change.
#include "config_maps.hpp"
#include "server_fixture.hpp"

#include <catch2/catch_test_macros.hpp>

#include <string>

using namespace server_tests;

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
