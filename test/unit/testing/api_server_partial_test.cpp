// PartialObjectMetadata: objects with nothing but their metadata, if the Accept header asks for it.
#include "config_maps.hpp"
#include "server_fixture.hpp"

#include <catch2/catch_test_macros.hpp>

using namespace server_tests;

namespace {

constexpr const char* partial = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
constexpr const char* partial_list = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";

informer::http::request get(std::string target, std::string accept) {
    informer::http::request r("GET", std::move(target));
    r.header("Accept", std::move(accept));
    return r;
}

} // namespace

TEST_CASE("a partial list has a kind of its own, and its items have only metadata", "[api_server]") {
    server_fixture s;
    s.put("a", "1", {{"l", "x"}});
    s.put("b", "1");
    const auto all = s.ask(get(maps + "?limit=1", std::string(partial_list) + ",application/json"));
    REQUIRE(all.status == 200);
    CHECK(all.at("/kind") == "PartialObjectMetadataList");
    CHECK(all.at("/apiVersion") == "meta.k8s.io/v1");
    CHECK_FALSE(all.at("/metadata/continue").empty());
    CHECK(all.at("/metadata/resourceVersion") == s.server.current_resource_version());
    const auto item = all.json().at("items").at(0).as_object();
    CHECK(item.size() == 3);
    CHECK(all.at("/items/0/kind") == "PartialObjectMetadata");
    CHECK(all.at("/items/0/apiVersion") == "meta.k8s.io/v1");
    CHECK(all.at("/items/0/metadata/name") == "a");
    CHECK(all.at("/items/0/metadata/labels/l") == "x");
}

TEST_CASE("a partial object has only its metadata", "[api_server]") {
    server_fixture s;
    s.put("a", "1");
    const auto whole = s.ask("GET", maps + "/a");
    const auto part = s.ask(get(maps + "/a", partial));
    REQUIRE(part.status == 200);
    CHECK(part.json().as_object().size() == 3);
    CHECK(part.at("/kind") == "PartialObjectMetadata");
    CHECK(part.json().at("metadata") == whole.json().at("metadata"));
}

TEST_CASE("a partial watch sends partial objects, bookmarks and whole errors", "[api_server]") {
    server_fixture s;
    s.put("a", "1");
    auto w = s.watch(
        get(maps + "?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true",
            partial));
    auto e = w.next();
    CHECK(e.type == "ADDED");
    CHECK(text_at(e.object, "/kind") == "PartialObjectMetadata");
    CHECK(e.object.as_object().size() == 3);
    CHECK(e.name() == "a");
    e = w.next();
    CHECK(e.type == "BOOKMARK");
    CHECK(text_at(e.object, "/kind") == "PartialObjectMetadata");
    s.put("a", "2");
    e = w.next();
    CHECK(e.type == "MODIFIED");
    CHECK(e.object.as_object().size() == 3);
    CHECK(e.version() == s.server.current_resource_version());
    s.server.remove("configmaps", "default", "a");
    e = w.next();
    CHECK(e.type == "DELETED");
    CHECK(e.object.as_object().size() == 3);
    CHECK(e.version() == s.server.current_resource_version());
}

TEST_CASE("the first form of an Accept header that fits is used", "[api_server]") {
    server_fixture s;
    s.put("a", "1");
    const auto kind = [&](const std::string& target, const std::string& accept) {
        const auto a = s.ask(get(target, accept));
        return a.status == 200 ? a.at("/kind") : std::to_string(a.status);
    };
    CHECK(kind(maps, "application/json") == "ConfigMapList");
    CHECK(kind(maps, "*/*") == "ConfigMapList");
    CHECK(kind(maps, "application/json;as=Table;v=v1;g=meta.k8s.io,application/json") == "ConfigMapList");
    CHECK(kind(maps, "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,"
                     "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json") ==
          "PartialObjectMetadataList");
    CHECK(kind(maps, "application/json; as=PartialObjectMetadataList; g=meta.k8s.io; v=v1") ==
          "PartialObjectMetadataList");
    // None fits.
    CHECK(kind(maps, "application/vnd.kubernetes.protobuf") == "406");
    CHECK(kind(maps, "application/json;as=Table;v=v1;g=meta.k8s.io") == "406");
    CHECK(kind(maps, "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v2") == "406");
    // A list is no object, and an object no list.
    CHECK(kind(maps, partial) == "406");
    CHECK(kind(maps + "/a", partial_list) == "406");
    CHECK(kind(maps + "?watch=true", partial_list) == "406");
}

TEST_CASE("objects nested deeply have a partial form, too", "[api_server]") {
    server_fixture s;
    json::value data = 1; // as deep as the schema of many a definition
    for (int i = 0; i < 50; ++i) data = json::array(1, data);
    s.server.create({{"apiVersion", "v1"}, {"kind", "ConfigMap"}, {"metadata", {{"name", "deep"}}}, {"data", data}});
    CHECK(s.ask(get(maps + "/deep", partial)).at("/metadata/name") == "deep");
    const auto all = s.ask(get(maps, partial_list));
    REQUIRE_FALSE(all.f);
    CHECK(all.at("/items/0/metadata/name") == "deep");
    auto w = s.watch(get(maps + "?watch=1", partial));
    CHECK(w.next().name() == "deep");
    w.close();
}

TEST_CASE("writes return partial objects, too", "[api_server]") {
    server_fixture s;
    const auto write = [&](std::string method, std::string target, std::string body, const char* accept) {
        const bool patch = method == "PATCH";
        informer::http::request r(std::move(method), std::move(target));
        r.header("Accept", accept);
        if (!body.empty()) r.body(std::move(body), patch ? "application/merge-patch+json" : "application/json");
        return s.ask(std::move(r));
    };
    const auto check = [](const answer& a, int status) {
        CHECK(a.status == status);
        CHECK(a.at("/kind") == "PartialObjectMetadata");
        CHECK(a.at("/metadata/name") == "a");
        CHECK(a.at("/data").empty());
    };
    const std::string a = R"({"metadata":{"name":"a","finalizers":["x.io/y"]},"data":{"k":"v"}})";
    check(write("POST", maps, a, partial), 201);
    check(write("PUT", maps + "/a", a, partial), 200);
    check(write("PATCH", maps + "/a", R"({"data":{"k":"2"}})", partial), 200);
    check(write("DELETE", maps + "/a", "", partial), 200);
    write("PATCH", maps + "/a", R"({"metadata":{"finalizers":null}})", partial);
    s.put("b", "1");
    const auto gone = write("DELETE", maps, "", partial_list);
    CHECK(gone.at("/kind") == "PartialObjectMetadataList");
    CHECK(gone.at("/items/0/kind") == "PartialObjectMetadata");
    CHECK(gone.at("/items/0/data").empty());
}
