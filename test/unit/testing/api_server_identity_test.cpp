// Which object a write refers to, in which version, and which members no client may write.
#include "config_maps.hpp"
#include "server_fixture.hpp"

#include <catch2/catch_test_macros.hpp>

using namespace server_tests;

namespace {

const std::string leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases";

std::string with(const std::string& member) {
    return R"({"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a",)" + member + "}}";
}

answer apply_map(server_fixture& s, const std::string& body) {
    return s.ask("PATCH", maps + "/a?fieldManager=m", body, "application/apply-patch+yaml");
}

void is_immutable(const answer& a, const std::string& field) {
    INFO(a.body);
    CHECK(a.status == 422);
    CHECK(a.at("/details/causes/0/field") == field);
    CHECK(a.at("/details/causes/0/message").ends_with("field is immutable"));
}

} // namespace

TEST_CASE("a PUT with another uid is a conflict, a patch with another uid is invalid", "[api_server]") {
    server_fixture s;
    s.put("a", "1");
    const auto put = s.ask("PUT", maps + "/a", with(R"("uid":"x","resourceVersion":"1")"));
    CHECK(put.status == 409);
    CHECK(put.at("/message").find("Precondition failed: UID in precondition: x") != std::string::npos);
    is_immutable(s.ask("PATCH", maps + "/a", R"({"metadata":{"uid":"x"}})", merge), "metadata.uid");
    is_immutable(s.ask("PATCH", maps + "/a", R"({"metadata":{"uid":"x"}})", "application/strategic-merge-patch+json"),
                 "metadata.uid");
    is_immutable(s.ask("PATCH", maps + "/a", R"([{"op":"replace","path":"/metadata/uid","value":"x"}])", operations),
                 "metadata.uid");
    is_immutable(apply_map(s, with(R"("uid":"x")")), "metadata.uid");
    CHECK(s.ask("PATCH", maps + "/a", R"({"metadata":{"uid":"x","resourceVersion":"1"}})", merge).status ==
          409); // the resource version is checked first
    CHECK(s.ask("PATCH", maps + "/a", R"({"metadata":{"uid":null}})", merge).status == 200);
}

TEST_CASE("an apply with a uid does not create another object", "[api_server]") {
    server_fixture s;
    const auto a = apply_map(s, with(R"("uid":"0aa0")"));
    CHECK(a.status == 409);
    CHECK(a.at("/reason") == "Conflict");
    CHECK(a.at("/message") ==
          "Operation cannot be fulfilled on configmaps \"a\": uid mismatch: the provided object specified uid "
          "0aa0, and no existing object was found");
    CHECK(s.ask("GET", maps + "/a").status == 404);
}

TEST_CASE("an apply that creates ignores the resource version, but it must be a valid one", "[api_server]") {
    server_fixture s;
    CHECK(apply_map(s, with(R"("resourceVersion":"abc")")).status == 500);
    const auto a = apply_map(s, with(R"("resourceVersion":"5")"));
    CHECK(a.status == 201);
    CHECK(a.at("/metadata/resourceVersion") == s.server.current_resource_version());
    CHECK(apply_map(s, with(R"("resourceVersion":"5")")).status == 409);
}

TEST_CASE("an apply may not contain managed fields, not even an empty list", "[api_server]") {
    server_fixture s;
    CHECK(apply_map(s, with(R"("managedFields":[])")).status == 400);
    CHECK(apply_map(s, with(R"("managedFields":null)")).status == 201);
}

TEST_CASE("only a DELETE sets the deletion time, no other write", "[api_server]") {
    server_fixture s;
    s.put("a", "1");
    const std::string then = R"("deletionTimestamp":"2020-01-01T00:00:00Z")";
    is_immutable(s.ask("PATCH", maps + "/a", R"({"metadata":{)" + then + "}}", merge), "metadata.deletionTimestamp");
    is_immutable(s.ask("PUT", maps + "/a", with(then)), "metadata.deletionTimestamp");
    is_immutable(apply_map(s, with(then)), "metadata.deletionTimestamp");
    is_immutable(s.ask("PATCH", maps + "/a", R"({"metadata":{"deletionGracePeriodSeconds":5}})", merge),
                 "metadata.deletionGracePeriodSeconds");
    s.ask("PATCH", maps + "/a", R"({"metadata":{"finalizers":["x.io/y"]}})", merge);
    s.ask("DELETE", maps + "/a");
    const auto when = s.ask("GET", maps + "/a").at("/metadata/deletionTimestamp");
    for (const std::string other : {R"("2020-01-01T00:00:00Z")", "null"}) { // has no effect any more
        const auto a = s.ask("PATCH", maps + "/a", R"({"metadata":{"deletionTimestamp":)" + other + "}}", merge);
        CHECK(a.status == 200);
        CHECK(a.at("/metadata/deletionTimestamp") == when);
    }
}

TEST_CASE("an invalid resource version is an error, not a conflict", "[api_server]") {
    server_fixture s;
    s.put("a", "1");
    const auto put = s.ask("PUT", maps + "/a", with(R"("resourceVersion":"abc")"));
    CHECK(put.status == 500);
    CHECK(put.at("/message") == R"(strconv.ParseUint: parsing "abc": invalid syntax)");
    CHECK(s.ask("PATCH", maps + "/a", R"({"metadata":{"resourceVersion":"-1"}})", merge).status == 500);
    CHECK(s.ask("PUT", maps + "/none", R"({"metadata":{"name":"none","resourceVersion":"abc"}})").status == 404);
    CHECK(s.ask("PUT", leases + "/none", R"({"metadata":{"name":"none","resourceVersion":"abc"}})").status == 500);
    const auto create = [&](const std::string& name, const std::string& version) {
        return s.ask("POST", maps, R"({"metadata":{"name":")" + name + R"(","resourceVersion":")" + version + R"("}})")
            .status;
    };
    CHECK(create("b", "0") == 201); // 0 counts as none
    CHECK(create("c", "abc") == 201);
    CHECK(create("d", "5") == 500);
}

TEST_CASE("a single object is read at a resource version in the same way as a list", "[api_server]") {
    server_fixture s;
    s.put("a", "1");
    CHECK(s.ask("GET", maps + "/a?resourceVersion=0").status == 200);
    CHECK(s.ask("GET", maps + "/a?resourceVersion=" + s.server.current_resource_version()).status == 200);
    for (const std::string name : {"/a", "/none"}) {
        const auto later = s.ask("GET", maps + name + "?resourceVersion=99999999");
        CHECK(later.status == 504);
        CHECK(later.at("/details/causes/0/reason") == "ResourceVersionTooLarge");
    }
    CHECK(s.ask("GET", maps + "/a?resourceVersion=abc").status == 500); // for a list it is 400
}

TEST_CASE("a creation over an object that is being deleted is refused, with that reason", "[api_server]") {
    server_fixture s;
    s.ask("POST", maps, with(R"("finalizers":["x.io/y"])"));
    s.ask("DELETE", maps + "/a");
    const auto a = s.ask("POST", maps, with(R"("labels":{})"));
    CHECK(a.status == 409);
    CHECK(a.at("/reason") == "AlreadyExists");
    CHECK(a.at("/message") == "object is being deleted: configmaps \"a\" already exists");
}

TEST_CASE("a PUT of an object or of its scale must contain the name", "[api_server]") {
    server_fixture s;
    const std::string apps = "/apis/apps/v1/namespaces/default/deployments";
    s.ask("POST", apps, R"({"metadata":{"name":"d"},"spec":{"replicas":1}})");
    const auto scale = [&](const std::string& metadata) {
        return s.ask("PUT", apps + "/d/scale", R"({"metadata":)" + metadata + R"(,"spec":{"replicas":4}})");
    };
    const auto nameless = scale("{}");
    CHECK(nameless.status == 400);
    CHECK(nameless.at("/message") ==
          "the name of the object (d based on URL) was undeterminable: name must be provided");
    CHECK(s.ask("PUT", apps + "/d", "{}").status == 400);
    CHECK(scale(R"({"name":"x"})").status == 400);
    CHECK(scale(R"({"name":"d","namespace":"x"})").status == 400);
    CHECK(scale(R"({"name":"d","uid":"x"})").status == 409);
    CHECK(scale(R"({"name":"d","resourceVersion":"abc"})").status == 500);
    CHECK(scale(R"({"name":"d"})").at("/spec/replicas") == "4");
    CHECK(s.ask("PATCH", apps + "/d/scale", R"({"spec":{"replicas":5}})", merge).at("/spec/replicas") == "5");
}

TEST_CASE("a JSON patch may replace a member that does not exist, but nothing within such a member", "[api_server]") {
    server_fixture s;
    s.put("a", "1");
    const auto replace = [&](const std::string& path, const std::string& value) {
        return s.ask("PATCH", maps + "/a", R"([{"op":"replace","path":")" + path + R"(","value":)" + value + "}]",
                     operations);
    };
    CHECK(replace("/data/new", R"("x")").at("/data/new") == "x");
    CHECK(replace("/binaryData/new", R"("eA==")").status == 422);
    CHECK(replace("/metadata/labels", R"({"a":"b"})").at("/metadata/labels/a") == "b");
    CHECK(replace("/metadata/finalizers/0", R"("x.io/y")").status == 422);
    CHECK(s.ask("PATCH", maps + "/a", R"([{"op":"remove","path":"/data/none"}])", operations).status == 422);
}

TEST_CASE("empty data is the same as no data", "[api_server]") {
    server_fixture s;
    const auto made = s.ask("POST", maps, R"({"metadata":{"name":"a"},"data":{}})");
    CHECK_FALSE(made.json().as_object().contains("data"));
    const auto again = s.ask("PATCH", maps + "/a", R"({"data":{}})", merge);
    CHECK(again.at("/metadata/resourceVersion") == made.at("/metadata/resourceVersion"));
    CHECK(s.ask("PUT", maps + "/a", R"({"metadata":{"name":"a"},"data":null})").at("/metadata/resourceVersion") ==
          made.at("/metadata/resourceVersion"));
}

TEST_CASE("the generation of an EndpointSlice counts changes of labels, that of a PriorityClass counts nothing",
          "[api_server]") {
    server_fixture s;
    const std::string slices = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
    const std::string classes = "/apis/scheduling.k8s.io/v1/priorityclasses";
    s.ask("POST", slices, R"({"metadata":{"name":"e"},"addressType":"IPv4","endpoints":[]})");
    CHECK(s.ask("PATCH", slices + "/e", R"({"metadata":{"labels":{"a":"b"}}})", merge).at("/metadata/generation") ==
          "2");
    CHECK(
        s.ask("PATCH", slices + "/e", R"({"metadata":{"annotations":{"a":"b"}}})", merge).at("/metadata/generation") ==
        "2");
    CHECK(s.ask("POST", classes, R"({"metadata":{"name":"p"},"value":5})").at("/metadata/generation") == "1");
    CHECK(s.ask("PATCH", classes + "/p", R"({"description":"z"})", merge).at("/metadata/generation") == "1");
}

TEST_CASE("finalizers of built-in kinds must have a domain or be well-known", "[api_server]") {
    server_fixture s;
    const auto create = [&](const std::string& list) {
        return s.ask("POST", maps + "?dryRun=All", with(R"("finalizers":)" + list));
    };
    const auto refused = create(R"(["x.io/y","mine"])");
    CHECK(refused.status == 422);
    CHECK(refused.at("/details/causes/0/field") == "metadata.finalizers[1]");
    CHECK(refused.at("/details/causes/0/message") ==
          "Invalid value: \"mine\": name is neither a standard finalizer name nor is it fully qualified");
    for (const std::string known : {"orphan", "foregroundDeletion", "kubernetes"})
        CHECK(create("[\"" + known + "\"]").status == 201);
    CHECK(create(R"(["orphan","foregroundDeletion"])").status == 422);
    s.put("a", "1");
    CHECK(s.ask("PATCH", maps + "/a", R"({"metadata":{"finalizers":["mine"]}})", merge).status == 422);
    CHECK(s.ask("POST", leases, R"({"metadata":{"name":"l","finalizers":["mine"]}})").status ==
          201); // not checked for Leases
}
