// Lists and watches that ask for metadata only.
#include "bench.hpp"

#include "kubernetes/partial_metadata.hpp"

#include <catch2/catch_test_macros.hpp>

using namespace kubernetes_test;

namespace {

std::string partial(const std::string& name, const std::string& version) {
    return R"({"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":")" + name +
           R"(","namespace":"default","resourceVersion":")" + version + R"("}})";
}

std::shared_ptr<document_pool> metadata_pool() {
    return document_pool::make(decode_options().type("v1", "Pod").project(projection::keep({"/metadata"})));
}

} // namespace

TEST_CASE("metadata only: a list asks for partial objects and gives them the kind of their resource") {
    bench b;
    b.answers->next.emplace_back(
        R"({"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","metadata":{"resourceVersion":"9"},"items":[)" +
        partial("a", "1") + "," + partial("b", "2") + "]}");
    recorder sink;
    failure f;
    const auto r = b.run(b.api->make_list_watch(pods())->list(list_options().metadata_only(), sink, f));
    CHECK_FALSE(f);
    CHECK(b.answers->requests.back().header("Accept") ==
          "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json");
    CHECK(r.resource_version.str() == "9");
    CHECK(sink.lines == lines{"opened", "item default/a 1", "item default/b 2"});
    const object o = sink.objects.at(object_key("default", "a"));
    CHECK(o.kind() == "Pod");
    CHECK(o.api_version() == "v1");
}

TEST_CASE("metadata only: a watch asks for partial objects and gives them the kind of their resource") {
    bench b;
    b.answers->next.push_back(reply().streamed(
        {R"({"type":"ADDED","object":)" + partial("a", "1") + "}\n",
         R"({"type":"MODIFIED","object":)" + partial("a", "2") + "}\n",
         R"({"type":"BOOKMARK","object":{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"resourceVersion":"3","creationTimestamp":null}}})",
         R"({"type":"DELETED","object":)" + partial("a", "4") + "}\n"}));
    recorder sink;
    failure f;
    b.run(b.api->make_list_watch(pods())->watch(watch_options().metadata_only(), sink, f));
    CHECK_FALSE(f);
    CHECK(b.answers->requests.back().header("Accept") ==
          "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json");
    CHECK(sink.lines ==
          lines{"opened", "added default/a 1", "modified default/a 2", "bookmark 3", "deleted default/a 4"});
    CHECK(sink.objects.at(object_key("default", "a")).kind() == "Pod");
}

TEST_CASE("metadata only: if the server sends whole objects, only their metadata is kept") {
    bench b;
    b.answers->next.emplace_back(
        pod_list({R"({"metadata":{"name":"a","resourceVersion":"1","labels":{"l":"x"}},"spec":{"nodeName":"n"}})"}));
    recorder sink(metadata_pool());
    failure f;
    b.run(b.api->make_list_watch(pods())->list(list_options().metadata_only(), sink, f));
    CHECK_FALSE(f);
    CHECK(sink.objects.at(object_key("", "a")).to_json() ==
          R"({"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","resourceVersion":"1","labels":{"l":"x"}}})");
}

TEST_CASE("metadata only: the client's own list drops everything else") {
    bench b;
    b.answers->next.emplace_back(pod_list({R"({"metadata":{"name":"a","resourceVersion":"1"},"spec":{}})"}));
    const auto page = b.run(b.api->list(pods(), "", list_options().metadata_only()));
    REQUIRE(page.items.size() == 1);
    CHECK_FALSE(page.items[0]["spec"].exists());
}

TEST_CASE("metadata only: without the option partial objects are neither requested nor changed") {
    bench b;
    b.answers->next.emplace_back(pod_list({partial("a", "1")}));
    recorder sink;
    failure f;
    b.run(b.api->make_list_watch(pods())->list(list_options(), sink, f));
    CHECK(b.answers->requests.back().header("Accept") == "application/json");
    CHECK(sink.objects.at(object_key("default", "a")).kind() == "PartialObjectMetadata");
}

TEST_CASE("metadata only: the partial type is removed however it is written, and nothing else is") {
    using kubernetes::detail::without_partial_type;
    std::string scratch;
    CHECK(without_partial_type(
              R"({"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":"a"}})", scratch) ==
          R"({"metadata":{"name":"a"}})");
    CHECK(
        without_partial_type(
            R"( { "apiVersion" : "meta.k8s.io/v1" , "metadata" : { "name" : "a" } , "kind" : "PartialObjectMetadata" } )",
            scratch) == R"({"metadata":{"name":"a"}})");
    for (const std::string_view same :
         {R"({"kind":"Pod","apiVersion":"v1","metadata":{"name":"a"}})",
          R"({"metadata":{"name":"PartialObjectMetadata"}})",
          R"({"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1beta1","metadata":{}})",
          R"({"kind":"Pod","apiVersion":"v1","metadata":{"name":"a","annotations":{"kind":"PartialObjectMetadata"}}})",
          R"({"kind":"PartialObjectMetadata",)", R"(["PartialObjectMetadata"])", ""})
        CHECK(without_partial_type(same, scratch) == same);
}
