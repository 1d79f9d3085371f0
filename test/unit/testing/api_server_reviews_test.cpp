// Whose token it is, and what its user may do.
#include "server_fixture.hpp"

#include <catch2/catch_test_macros.hpp>

using namespace server_tests;

namespace {

const std::string tokens = "/apis/authentication.k8s.io/v1/tokenreviews",
                  sar = "/apis/authorization.k8s.io/v1/subjectaccessreviews",
                  accounts = "/api/v1/namespaces/default/serviceaccounts";

answer review(server_fixture& s, const std::string& token) {
    return s.ask("POST", tokens, R"({"spec":{"token":")" + token + R"("}})");
}

std::string allowed(server_fixture& s, const std::string& who, const std::string& path) {
    const auto a = s.ask("POST", sar,
                         "{\"spec\":{" + who + R"(,"nonResourceAttributes":{"path":")" + path + R"(","verb":"get"}}})");
    CHECK(a.status == 201);
    return a.at("/status/allowed");
}

void bind(server_fixture& s, const std::string& name, const std::string& url, const std::string& verb,
          const std::string& subject) {
    s.server.create(
        json::parse(R"({"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole","metadata":{"name":")" + name +
                    R"("},"rules":[{"nonResourceURLs":[")" + url + R"("],"verbs":[")" + verb + R"("]}]})"));
    s.server.create(json::parse(
        R"({"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRoleBinding","metadata":{"name":")" + name +
        R"("},"roleRef":{"kind":"ClusterRole","name":")" + name + R"("},"subjects":[)" + subject + "]}"));
}

} // namespace

TEST_CASE("a TokenReview knows the tokens of the options", "[api_server]") {
    server_fixture s(api_server_options().token("t1", "root").token("t2", "nobody", "none"));
    s.reconnect();
    const auto as = [&](const std::string& token) {
        informer::http::request r("POST", tokens);
        r.header("Authorization", "Bearer t1").header("Content-Type", "application/json");
        r.body_ = R"({"spec":{"token":")" + token + R"("}})";
        return s.ask(std::move(r));
    };
    CHECK(as("t1").status == 201);
    CHECK(as("t1").at("/status/authenticated") == "true");
    CHECK(as("t1").at("/status/user/groups") == R"(["system:masters","system:authenticated"])");
    CHECK(as("t2").at("/status/user/username") == "nobody");
    CHECK(as("t2").at("/status/user/groups") == R"(["system:authenticated"])");
    CHECK(as("t3").at("/status/authenticated").empty());
    CHECK(as("t3").at("/status/error") == "invalid bearer token");
    CHECK(as("").status == 400);
}

TEST_CASE("a token of a TokenRequest is good until its time is over, or its service account is deleted",
          "[api_server]") {
    server_fixture s(api_server_options(), true);
    s.ask("POST", accounts, R"({"metadata":{"name":"a"}})");
    const auto make = [&](const std::string& seconds) {
        const auto a = s.ask("POST", accounts + "/a/token", R"({"spec":{"expirationSeconds":)" + seconds + "}}");
        CHECK(a.status == 201);
        return a.at("/status/token");
    };
    const auto shorter = make("600"), longer = make("1200");
    const auto known = review(s, shorter);
    CHECK(known.at("/status/user/username") == "system:serviceaccount:default:a");
    CHECK(known.at("/status/user/uid") == s.ask("GET", accounts + "/a").at("/metadata/uid"));
    s.advance(std::chrono::minutes(10));
    CHECK(review(s, shorter).at("/status/authenticated").empty());
    CHECK(review(s, longer).at("/status/authenticated") == "true");
    s.ask("DELETE", accounts + "/a");
    CHECK(review(s, longer).at("/status/authenticated").empty());
    s.ask("POST", accounts, R"({"metadata":{"name":"a"}})"); // another one of this name
    CHECK(review(s, longer).at("/status/authenticated").empty());
    CHECK(s.ask("POST", accounts + "/none/token", "{}").status == 404);
    for (const std::string none : {"599", "-1", "4294967297", "9223372036854775807"}) {
        const auto a = s.ask("POST", accounts + "/a/token", R"({"spec":{"expirationSeconds":)" + none + "}}");
        CHECK(a.status == 422);
        CHECK(a.at("/details/causes/0/field") == "spec.expirationSeconds");
    }
}

TEST_CASE("a SubjectAccessReview goes by the ClusterRoles that are bound to the user", "[api_server]") {
    server_fixture s;
    const std::string alice = R"("user":"alice","groups":["readers"])",
                      mask = R"("user":"x","groups":["system:masters"])";
    CHECK(allowed(s, alice, "/metrics") == "false");
    CHECK(allowed(s, mask, "/metrics") == "true");
    bind(s, "user", "/metrics", "get", R"({"kind":"User","name":"alice"})");
    bind(s, "group", "/pages/*", "*", R"({"kind":"Group","name":"readers"})");
    bind(s, "account", "*", "get", R"({"kind":"ServiceAccount","namespace":"n","name":"a"})");
    bind(s, "writer", "/written", "post", R"({"kind":"User","name":"alice"})");
    CHECK(allowed(s, alice, "/metrics") == "true");
    CHECK(allowed(s, alice, "/metrics/more") == "false");
    CHECK(allowed(s, alice, "/pages/1") == "true");
    CHECK(allowed(s, alice, "/written") == "false");
    CHECK(allowed(s, R"("user":"bob")", "/metrics") == "false");
    CHECK(allowed(s, R"("user":"system:serviceaccount:n:a")", "/anything") == "true");
    CHECK(allowed(s, R"("user":"system:serviceaccount:n:b")", "/anything") == "false");
    s.ask("DELETE", "/apis/rbac.authorization.k8s.io/v1/clusterroles/user");
    CHECK(allowed(s, alice, "/metrics") == "false");
}

TEST_CASE("reviews are made by POST, and name somebody", "[api_server]") {
    server_fixture s;
    CHECK(s.ask("GET", tokens).status == 405);
    CHECK(s.ask("PUT", sar + "/a", "{}").status == 405);
    const auto nobody = s.ask("POST", sar, R"({"spec":{"nonResourceAttributes":{"path":"/","verb":"get"}}})");
    CHECK(nobody.status == 422);
    CHECK(nobody.at("/details/causes/0/field") == "spec.user");
    CHECK(s.ask("POST", sar, R"({"spec":{"user":"a","resourceAttributes":{"verb":"get"}}})").status == 400);
}
