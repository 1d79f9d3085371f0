// Strategic merge patches: directives are followed or refused, but never stored.
#include "server_fixture.hpp"

#include <catch2/catch_test_macros.hpp>

using namespace server_tests;

namespace {

const std::string pods = "/api/v1/namespaces/default/pods";

answer patch(server_fixture& s, const std::string& body) {
    return s.ask("PATCH", pods + "/p", body, "application/strategic-merge-patch+json");
}

void make_pod(server_fixture& s) {
    const std::string spec =
        R"({"containers":[{"name":"a","image":"1","env":[{"name":"X","value":"1"}]},{"name":"b","image":"1"}],
        "schedulingGates":[{"name":"x.y/a"},{"name":"x.y/b"}],"tolerations":[{"key":"q"}]})";
    REQUIRE(s.ask("POST", pods, R"({"metadata":{"name":"p","labels":{"l":"1"}},"spec":)" + spec + "}").status == 201);
}

} // namespace

TEST_CASE("scheduling gates are merged by their names", "[api_server]") {
    server_fixture s;
    make_pod(s);
    CHECK(
        patch(s, R"({"spec":{"schedulingGates":[{"name":"x.y/a","$patch":"delete"}]}})").at("/spec/schedulingGates") ==
        R"([{"name":"x.y/b"}])");
    CHECK(
        patch(s, R"({"spec":{"schedulingGates":[{"name":"x.y/b","$patch":"delete"}]}})").at("/spec/schedulingGates") ==
        "[]");
}

TEST_CASE("a strategic patch refuses items without their merge key, and unknown directives", "[api_server]") {
    server_fixture s;
    make_pod(s);
    const auto before = s.server.current_resource_version();
    const auto why = [&](const std::string& body) {
        const auto a = patch(s, body);
        CHECK(a.status == 500);
        return a.at("/message");
    };
    CHECK(why(R"({"spec":{"containers":[{"image":"x"}]}})") ==
          R"(map: {"image":"x"} does not contain declared merge key: name)");
    CHECK(why(R"({"spec":{"containers":[{"name":"a","env":[{"value":"x"}]}]}})")
              .ends_with("does not contain declared merge key: name"));
    CHECK(
        why(R"({"spec":{"containers":[{"$patch":"delete"}]}})").ends_with("does not contain declared merge key: name"));
    CHECK(why(R"({"spec":{"containers":["x"]}})").starts_with("list element types are not identical"));
    CHECK(why(R"({"spec":{"containers":[{"name":"a","$patch":"zap"}]}})")
              .starts_with("unknown patch type: zap in map: "));
    CHECK(why(R"({"spec":{"containers":[{"name":"a","$patch":"merge"}]}})") ==
          "merging lists cannot yet be specified in the patch");
    CHECK(why(R"({"metadata":{"labels":{"$patch":"zap"}}})").starts_with("unknown patch type: zap in map: "));
    CHECK(s.server.current_resource_version() == before);
}

TEST_CASE("directives do not become data", "[api_server]") {
    server_fixture s;
    make_pod(s);
    const std::string gone = R"({"spec":{"tolerations":[{"key":"q","$patch":"delete"}]}})";
    CHECK(patch(s, gone).status == 400); // the server knows no merge key for tolerations
    const std::string part = R"({"spec":{"tolerations":[{"key":"r"}],"$setElementOrder/tolerations":[{"key":"q"}]}})";
    CHECK(patch(s, part).status == 400); // meant as a part of the list
    CHECK(patch(s, R"({"spec":{"$setElementOrder/tolerations":[{"key":"q"}]}})").status == 400);
    CHECK(patch(s, R"({"spec":{"tolerations":[{"key":"r"}]}})").at("/spec/tolerations") == R"([{"key":"r"}])");
    // Where nothing exists yet, the items are added, except those with a delete directive.
    const std::string fresh =
        R"({"spec":{"imagePullSecrets":[{"name":"x","$patch":"delete"},{"name":"y"}],"nodeSelector":{"a":null,"b":"c"}}})";
    const auto p = patch(s, fresh);
    CHECK(p.at("/spec/imagePullSecrets") == R"([{"name":"y"}])");
    CHECK(p.at("/spec/nodeSelector") == R"({"b":"c"})");
    const auto replaced = patch(
        s,
        R"({"spec":{"containers":[{"name":"c","image":"1","env":[{"name":"X","$patch":"delete"}]},{"name":"z","$patch":"replace"}]}})");
    CHECK(replaced.at("/spec/containers") == R"([{"name":"c","image":"1","env":[]}])");
}
