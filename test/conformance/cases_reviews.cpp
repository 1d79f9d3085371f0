// Whose token it is, and what its user may read: reviews, and the filter that asks for them.
#include "objects.hpp"

#include <informer/kubernetes/auth_filter.hpp>

using namespace informer;
using namespace informer::conformance;
using informer::kubernetes::write_options;

namespace {

const api_resource token_reviews("authentication.k8s.io", "v1", "tokenreviews", "TokenReview", false),
    access_reviews("authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview", false),
    accounts("", "v1", "serviceaccounts", "ServiceAccount"),
    roles("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", false),
    bindings("rbac.authorization.k8s.io", "v1", "clusterrolebindings", "ClusterRoleBinding", false);

/// Makes a service account, and a token for it.
asio::awaitable<std::string> scraper(std::shared_ptr<cluster> c) {
    const json::value account = {{"apiVersion", "v1"},
                                 {"kind", "ServiceAccount"},
                                 {"metadata", {{"name", "scraper"}, {"namespace", c->name_space()}}}};
    co_await c->client().create(accounts, account);
    write_options token;
    token.subresource("token");
    const json::value wanted = {{"apiVersion", "authentication.k8s.io/v1"},
                                {"kind", "TokenRequest"},
                                {"metadata", {{"name", "scraper"}, {"namespace", c->name_space()}}},
                                {"spec", {{"expirationSeconds", 600}}}};
    const object made = co_await c->client().create(accounts, wanted, token);
    co_return made["status"]["token"].as_string().str();
}

asio::awaitable<object> review(std::shared_ptr<cluster> c, api_resource of, json::value spec, failure& f) {
    json::value body = {{"apiVersion", of.api_version()}, {"kind", of.kind}, {"spec", std::move(spec)}};
    const write_options plain;
    object o = co_await c->client().create(of, std::move(body), plain, f);
    co_return o;
}

asio::awaitable<void> knows_tokens(std::shared_ptr<cluster> c) {
    const std::string token = co_await scraper(c);
    failure f;
    json::value spec = {{"token", token}};
    object o = co_await review(c, token_reviews, spec, f);
    REQUIRE_FALSE(f);
    CHECK(o["status"]["authenticated"].bool_or(false));
    const value user = o["status"]["user"];
    CHECK(user["username"] == "system:serviceaccount:" + c->name_space() + ":scraper");
    const object account = co_await read(c, accounts, "scraper");
    CHECK(user["uid"] == account.meta().uid().str());
    const std::string groups =
        R"(["system:serviceaccounts","system:serviceaccounts:)" + c->name_space() + R"(","system:authenticated"])";
    CHECK(user["groups"].to_json() == groups);
    CHECK(user["extra"]["authentication.kubernetes.io/credential-id"].size() == 1);

    spec = {{"token", "nobody-has-this-one"}};
    o = co_await review(c, token_reviews, spec, f);
    REQUIRE_FALSE(f);
    CHECK_FALSE(o["status"]["authenticated"].bool_or(false));
    CHECK_FALSE(o["status"]["error"].string_or_empty().str().empty()); // so client-go does not keep it
    spec = {{"token", ""}};
    co_await review(c, token_reviews, spec, f);
    CHECK(f == errc::bad_request);
}

asio::awaitable<void> refuses_nobody(std::shared_ptr<cluster> c) {
    failure f;
    json::value spec = {{"nonResourceAttributes", {{"path", "/metrics"}, {"verb", "get"}}}};
    co_await review(c, access_reviews, spec, f);
    CHECK(f == errc::invalid);
    spec.as_object()["user"] = "somebody";
    object o = co_await review(c, access_reviews, spec, f);
    CHECK_FALSE(f);
    CHECK_FALSE(o["status"]["allowed"].bool_or(true));
    spec.as_object()["groups"] = json::array{"system:masters"};
    o = co_await review(c, access_reviews, spec, f);
    CHECK(o["status"]["allowed"].bool_or(false));
}

/// What a new filter, which has kept nothing, answers; 200 if it lets the request pass.
asio::awaitable<int> answer(std::shared_ptr<cluster> c, std::string token, std::string path) {
    const auto filter = kubernetes::make_auth_filter(c->runtime(), c->client());
    const auto q = std::make_shared<http::server_request>();
    q->method = "GET";
    q->path = std::move(path);
    q->headers.emplace_back("Authorization", "Bearer " + token);
    auto work = filter(q);
    const auto refused = co_await std::move(work);
    co_return refused ? refused->status_ : 200;
}

asio::awaitable<void> filters(std::shared_ptr<cluster> c) {
    const std::string token = co_await scraper(c), name = c->name_space();
    int status = co_await answer(c, "nobody-has-this-one", "/metrics");
    CHECK(status == 401);
    status = co_await answer(c, token, "/metrics");
    CHECK(status == 403);
    const json::value role = {{"metadata", {{"name", name}}},
                              {"rules", {{{"nonResourceURLs", {"/metrics", "/pages/*"}}, {"verbs", {"get"}}}}}};
    const json::value binding = {
        {"metadata", {{"name", name}}},
        {"roleRef", {{"apiGroup", "rbac.authorization.k8s.io"}, {"kind", "ClusterRole"}, {"name", name}}},
        {"subjects", {{{"kind", "ServiceAccount"}, {"namespace", name}, {"name", "scraper"}}}}};
    co_await c->client().create(roles, role);
    failure f;
    const write_options plain;
    co_await c->client().create(bindings, binding, plain, f);
    CHECK_FALSE(f);
    // The real server sees its own RBAC objects a moment after they were written.
    const std::function<asio::awaitable<bool>()> allowed = [&]() -> asio::awaitable<bool> {
        status = co_await answer(c, token, "/metrics");
        co_return status == 200;
    };
    co_await informer::testing::eventually(allowed);
    CHECK(status == 200);
    status = co_await answer(c, token, "/pages/1");
    CHECK(status == 200);
    status = co_await answer(c, token, "/metrics/1");
    CHECK(status == 403);
    const object_key key("", name);
    const kubernetes::delete_options now;
    co_await c->client().remove(bindings, key, now, f);
    CHECK_FALSE(f);
    co_await c->client().remove(roles, key, now, f);
    CHECK_FALSE(f);
}

} // namespace

TEST_CASE("a TokenReview says whose token it is", "[conformance]") {
    run_case(knows_tokens);
}
TEST_CASE("a SubjectAccessReview names somebody, and the group system:masters may do everything", "[conformance]") {
    run_case(refuses_nobody);
}
TEST_CASE("an auth filter lets those read a page whom RBAC allows it", "[conformance]") {
    run_case(filters);
}
