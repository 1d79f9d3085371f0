// What a DELETE may ask for, and what is not deleted.
#include "config_maps.hpp"
#include "server_fixture.hpp"

#include <catch2/catch_test_macros.hpp>

using namespace server_tests;

TEST_CASE("invalid options of a delete are refused, and nothing is deleted", "[api_server]") {
    server_fixture s;
    s.put("a", "1");
    const auto in_body = [&](const std::string& body) { return s.ask("DELETE", maps + "/a", body).status; };
    const auto in_query = [&](const std::string& query) { return s.ask("DELETE", maps + "/a?" + query).status; };
    CHECK(in_body(R"({"propagationPolicy":"Nope"})") == 422);
    CHECK(in_body(R"({"propagationPolicy":"Background","orphanDependents":true})") == 422);
    CHECK(in_query("propagationPolicy=Nope") == 422);
    CHECK(in_query("propagationPolicy=") == 422);
    CHECK(in_query("propagationPolicy=Orphan&orphanDependents=true") == 422);
    for (const std::string odd : {R"({"gracePeriodSeconds":"abc"})", R"({"gracePeriodSeconds":1.5})",
                                  R"({"propagationPolicy":5})", R"({"preconditions":5})", R"({"orphanDependents":"x"})",
                                  R"({"dryRun":"All"})", R"({"kind":"ConfigMap","apiVersion":"v1"})", "[]", "{", " "}) {
        INFO(odd);
        CHECK(in_body(odd) == 400);
    }
    CHECK(in_query("gracePeriodSeconds=abc") == 400);
    CHECK(in_query("gracePeriodSeconds=") == 400);
    const auto nope = s.ask("DELETE", maps + "/none?propagationPolicy=Nope"); // before the object is looked up
    CHECK(nope.status == 422);
    CHECK(nope.at("/details/kind") == "DeleteOptions");
    CHECK(nope.at("/details/causes/0/reason") == "FieldValueNotSupported");
    CHECK(nope.at("/details/causes/0/field") == "propagationPolicy");
    CHECK(s.ask("DELETE", maps + "?propagationPolicy=Nope").status == 422);
    CHECK(s.ask("GET", maps + "/a").status == 200);
    for (const std::string good :
         {R"({"propagationPolicy":"Foreground","dryRun":["All"]})", R"({"orphanDependents":true,"dryRun":["All"]})",
          R"({"kind":"DeleteOptions","apiVersion":"v1","gracePeriodSeconds":-1,"dryRun":["All"]})"}) {
        CHECK(in_body(good) == 200);
    }
    CHECK(in_query("gracePeriodSeconds=5&propagationPolicy=Background&dryRun=All") == 200);
    CHECK(in_body("null") == 200);
    CHECK(s.ask("GET", maps + "/a").status == 404);
}

TEST_CASE("bodies must be JSON, and declared as JSON", "[api_server]") {
    server_fixture s;
    s.put("a", "1");
    const std::string b = R"({"metadata":{"name":"b"}})";
    for (const std::string type : {"text/plain", "application/foo+json", "application/merge-patch+json"}) {
        INFO(type);
        CHECK(s.ask("POST", maps, b, type).status == 415);
        CHECK(s.ask("PUT", maps + "/a", R"({"metadata":{"name":"a"}})", type).status == 415);
        CHECK(s.ask("DELETE", maps + "/a", "{}", type).status == 415);
        CHECK(s.ask("DELETE", maps + "?labelSelector=l", "{}", type).status == 415);
    }
    CHECK(s.ask("POST", maps, b, "Application/JSON; charset=utf-8").status == 201);
    CHECK(s.ask("DELETE", maps + "/a", "", "text/plain").status == 200); // there is no body
}

TEST_CASE("the namespaces of the cluster itself cannot be deleted", "[api_server][namespace]") {
    server_fixture s;
    for (const std::string name : {"default", "kube-system", "kube-public"}) {
        for (const std::string query : {"", "?dryRun=All"}) {
            const auto a = s.ask("DELETE", "/api/v1/namespaces/" + name + query);
            CHECK(a.status == 403);
            CHECK(a.at("/message") == "namespaces \"" + name + "\" is forbidden: this namespace may not be deleted");
        }
    }
    CHECK(s.ask("DELETE", "/api/v1/namespaces/default", R"({"preconditions":{"uid":"x"}})").status == 409);
    CHECK(s.ask("DELETE", "/api/v1/namespaces/kube-node-lease").status == 200);
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

TEST_CASE("a DELETE of a subresource is refused, and does not delete the object", "[api_server]") {
    server_fixture s;
    s.ask("POST", "/api/v1/namespaces/default/services", R"({"metadata":{"name":"a"}})");
    CHECK(s.ask("DELETE", "/api/v1/namespaces/default/services/a/status").status == 405);
    CHECK(s.ask("GET", "/api/v1/namespaces/default/services/a").status == 200);
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
