#include "bench.hpp"

#include <boost/json/parse.hpp>

#include <catch2/catch_test_macros.hpp>

using namespace kubernetes_test;
using namespace std::chrono_literals;
using informer::kubernetes::delete_options;
using informer::kubernetes::object_list;
using informer::kubernetes::patch_type;
using informer::kubernetes::write_options;
namespace json = boost::json;

TEST_CASE("client: get reads an object and restores its type") {
    bench b;
    b.answers->next.emplace_back(pod("a", "7"));
    failure f;
    const object o = get(b, "a", f);
    REQUIRE_FALSE(f);
    CHECK(o.kind() == "Pod");
    CHECK(o.api_version() == "v1");
    CHECK(o.key() == object_key("default", "a"));
    CHECK(b.answers->lines == lines{"GET /api/v1/namespaces/default/pods/a"});
    CHECK(header(b, "Accept") == "application/json");
    CHECK(header(b, "User-Agent").starts_with("libinformer/"));
    CHECK(header(b, "User-Agent").find("(linux") != std::string::npos);
}

TEST_CASE("client: a refusal by the server is a typed error with the server's words") {
    struct row {
        int code;
        const char* reason;
        errc expected;
    };
    for (const auto& [code, reason, expected] :
         {row{400, "BadRequest", errc::bad_request}, row{401, "Unauthorized", errc::unauthorized},
          row{403, "Forbidden", errc::forbidden}, row{404, "NotFound", errc::not_found},
          row{409, "Conflict", errc::conflict}, row{409, "AlreadyExists", errc::already_exists},
          row{410, "Expired", errc::gone}, row{422, "Invalid", errc::invalid},
          row{429, "TooManyRequests", errc::too_many_requests}, row{500, "InternalError", errc::server_error}}) {
        bench b;
        b.answers->next.emplace_back(code, status(code, reason, "because"));
        failure f;
        const object o = get(b, "a", f);
        INFO(code << " " << f.what());
        CHECK_FALSE(o);
        CHECK(f == expected);
        CHECK(f.message() == "get pods default/a");
        REQUIRE(f.status());
        CHECK(f.status()->code == code);
        CHECK(f.status()->reason == reason);
        CHECK(f.status()->message == "because");
        CHECK(f.what().find("because") != std::string::npos);
    }
}

TEST_CASE("client: the throwing twin throws the same error") {
    bench b;
    b.answers->next.emplace_back(404, status(404, "NotFound", "pods \\\"a\\\" not found"));
    try {
        b.run(b.api->get(pods(), object_key("default", "a")));
        FAIL("nothing was thrown");
    } catch (const error& e) {
        CHECK(e.failure() == errc::not_found);
        CHECK(std::string(e.what()) == "get pods default/a: not found: pods \"a\" not found");
    }
}

TEST_CASE("client: an error body that is no Status is shown cut at 2 KiB and printable") {
    bench b;
    b.answers->next.push_back(reply(502, "<html>\x01\xff" + std::string(5000, 'x')).type("text/html"));
    failure f;
    get(b, "a", f);
    CHECK(f == errc::server_error);
    REQUIRE(f.status());
    CHECK(f.status()->message.starts_with("<html> ?xxx"));
    CHECK(f.status()->message.size() <= 2048 + 3);
    b.answers->next.emplace_back(503, "");
    get(b, "a", f);
    CHECK(f.status()->message == "HTTP 503");
}

TEST_CASE("client: a redirection is not followed, and its target is reported without secrets") {
    bench b;
    const auto to = [&b](const std::string& location) {
        b.answers->next.push_back(
            reply(308, "<a href>Permanent Redirect</a>").type("text/html").header("Location", location));
        failure f;
        get(b, "a", f);
        CHECK(f == errc::unexpected_status);
        REQUIRE(f.status());
        return f.status()->message;
    };
    CHECK(to("/login") == "redirects to /login, which is not followed");
    CHECK(to("https://sso.test:8443/login") == "redirects to https://sso.test:8443/login, which is not followed");
    CHECK(to("https://me:s3cret@sso.test/login?token=s3cret#s3cret") ==
          "redirects to https://sso.test/login?…, which is not followed");
    CHECK(to("//me:s3cret@sso.test") == "redirects to //sso.test, which is not followed");
    CHECK(to("https://sso.test/a@b\xff") == "redirects to https://sso.test/a@b?, which is not followed");
    CHECK(to("/" + std::string(5000, 'x')).size() < 400);
    CHECK(to("") == "<a href>Permanent Redirect</a>");
}

TEST_CASE("client: an endless error body is not read to its end") {
    bench b;
    b.answers->next.push_back(reply(500, "").streamed({std::string(3 << 20, 'x')}));
    b.answers->next.front().status = 500;
    failure f;
    get(b, "a", f);
    CHECK(f == errc::server_error);
    CHECK(f.status()->message.size() <= 2048 + 3);
}

TEST_CASE("client: names that no path can hold are refused before anything is sent") {
    bench b;
    const auto refused = [&b](const api_resource& r, const object_key& key) {
        failure f;
        b.run(b.api->get(r, key, f));
        INFO(f.what());
        CHECK(f == errc::bad_request);
        b.run(b.api->remove(r, key, delete_options(), f));
        CHECK(f == errc::bad_request);
        b.run(b.api->patch(r, key, patch_type::merge, json::object(), write_options(), f));
        CHECK(f == errc::bad_request);
    };
    refused(pods(), object_key("default", ""));
    refused(pods(), object_key("", "a"));
    refused(pods(), object_key("default", "a/b"));
    refused(pods(), object_key("default", ".."));
    refused(pods(), object_key("default", "a%2fb"));
    refused(pods(), object_key("a/b", "c"));
    refused(api_resource(), object_key("default", "a"));
    failure f;
    b.run(b.api->create(pods(), json::parse(R"({"metadata":{"name":"a"}})"), write_options(), f));
    CHECK(f == errc::bad_request);
    b.run(b.api->update(pods(), json::parse(R"({"metadata":{"namespace":"a"}})"), write_options(), f));
    CHECK(f == errc::bad_request);
    b.run(b.api->update(pods(), json::parse("[1]"), write_options(), f));
    CHECK(f == errc::bad_request);
    CHECK(b.answers->lines.empty());
}

TEST_CASE("client: a missing namespace is blamed on what may be wrong, the resource") {
    bench b;
    const std::string why = ": the namespace is missing (the api_resource says that nodes are namespaced)";
    const api_resource nodes("", "v1", "nodes", "Node"); // without `false` at the end
    failure f;
    b.run(b.api->get(nodes, object_key("", "n1"), f));
    CHECK(f.message() == "get nodes n1" + why);
    b.run(b.api->create(nodes, json::parse(R"({"metadata":{"name":"n1"}})"), write_options(), f));
    CHECK(f.message() == "create nodes n1" + why);
    b.run(b.api->remove_collection(nodes, "", list_options(), delete_options(), f));
    CHECK(f.message() == "delete all nodes" + why);
    CHECK(f == errc::bad_request);
    CHECK(b.answers->lines.empty());
}

TEST_CASE("client: writes go to the right place in the right form") {
    bench b;
    failure f;
    const auto answer = [&b] { b.answers->next.emplace_back(pod("a")); };
    const json::value o = json::parse(pod("a"));
    answer();
    b.run(b.api->create(pods(), o, write_options().dry_run().field_manager("me & co"), f));
    CHECK_FALSE(f);
    CHECK(b.answers->lines.back() == "POST /api/v1/namespaces/default/pods?dryRun=All&fieldManager=me%20%26%20co");
    CHECK(header(b, "Content-Type") == "application/json");
    CHECK(json::parse(b.answers->requests.back().body) == o);
    answer();
    b.run(b.api->update(pods(), o, write_options().subresource("status"), f));
    CHECK(b.answers->lines.back() == "PUT /api/v1/namespaces/default/pods/a/status");

    const object_key key("default", "a");
    const json::value body = json::parse(R"({"x":1})");
    for (const auto& [type, text] : std::vector<std::pair<patch_type, std::string>>{
             {patch_type::merge, "application/merge-patch+json"},
             {patch_type::json, "application/json-patch+json"},
             {patch_type::strategic_merge, "application/strategic-merge-patch+json"}}) {
        answer();
        b.run(b.api->patch(pods(), key, type, body, write_options(), f));
        CHECK_FALSE(f);
        CHECK(b.answers->lines.back() == "PATCH /api/v1/namespaces/default/pods/a");
        CHECK(header(b, "Content-Type") == text);
        CHECK(b.answers->requests.back().body == R"({"x":1})");
    }
    answer();
    b.run(b.api->patch(pods(), key, patch_type::apply, body, write_options().force(), f));
    CHECK(b.answers->lines.back() == "PATCH /api/v1/namespaces/default/pods/a?fieldManager=libinformer&force=true");
    CHECK(header(b, "Content-Type") == "application/apply-patch+yaml");

    answer();
    b.run(b.api->create(nodes(), json::parse(R"({"metadata":{"name":"n"}})"), write_options(), f));
    CHECK(b.answers->lines.back() == "POST /api/v1/nodes");
}

TEST_CASE("client: delete sends its options in the body, and accepts a Status as the answer") {
    bench b;
    b.answers->next.emplace_back(R"({"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success"})");
    failure f;
    const object o = b.run(b.api->remove(
        pods(), object_key("default", "a"),
        delete_options().precondition_uid("u1").precondition_resource_version("5").grace_period(0s).propagation(
            "Foreground"),
        f));
    REQUIRE_FALSE(f);
    CHECK(o.kind() == "Status");
    CHECK(b.answers->lines == lines{"DELETE /api/v1/namespaces/default/pods/a"});
    CHECK(json::parse(b.answers->requests.back().body) ==
          json::parse(
              R"({"kind":"DeleteOptions","apiVersion":"v1","gracePeriodSeconds":0,"propagationPolicy":"Foreground",
                          "preconditions":{"uid":"u1","resourceVersion":"5"}})"));
}

TEST_CASE("client: answers that are no objects are errors") {
    bench b;
    failure f;
    b.answers->next.emplace_back("<html>");
    get(b, "a", f);
    CHECK(f == errc::syntax_error);
    CHECK(f.message().starts_with("get pods default/a: decode"));
    b.answers->next.emplace_back("[]");
    get(b, "a", f);
    CHECK(f == errc::not_an_object);
    b.answers->next.emplace_back(status(500, "InternalError", "inside 200"));
    get(b, "a", f);
    CHECK(f == errc::server_error);
}

asio::awaitable<void> still_refuses(client c) {
    failure f;
    co_await c.get(pods(), object_key("default", "a"), f);
    CHECK(f == errc::bad_configuration);
    co_await c.discover(f);
    CHECK(f == errc::bad_configuration);
    failure ended;
    recorder sink;
    co_await c.make_list_watch(pods())->list(list_options(), sink, ended);
    CHECK(ended == errc::bad_configuration);
}

TEST_CASE("client: an unusable configuration is a configuration error, also of each verb") {
    asio::io_context io;
    const runtime rt(io.get_executor());
    client_config c;
    failure f;
    client none(rt, c, f);
    CHECK(f == errc::bad_configuration);
    c.server = "http://127.0.0.1:1";
    c.credentials.token_file = "/none";
    client no_token(rt, c, f);
    CHECK(f == errc::bad_configuration);
    CHECK(f.message() == "token file /none: no such file");
    CHECK_THROWS_AS(client(rt, c), error);
    testing::run_test(io, still_refuses(no_token));
    testing::run_test(io, still_refuses(none));
    c = client_config();
    c.server = "https://127.0.0.1:1";
    c.tls.ca_pem_ = "-----BEGIN CERTIFICATE-----\ns3cret\n-----END CERTIFICATE-----\n";
    client bad_ca(rt, c, f);
    CHECK(f == errc::bad_configuration);
    CHECK(f.what().find("s3cret") == std::string::npos);
}

TEST_CASE("client: the server's warnings are logged once each") {
    bench b;
    failure f;
    for (int i = 0; i < 2; ++i) {
        b.answers->next.push_back(reply(pod("a"))
                                      .header("Warning", R"(299 - "v1beta1 \"X\" is deprecated")")
                                      .header("Warning", R"(299 - "another")")
                                      .header("Warning", R"(199 - "not ours")"));
        get(b, "a", f);
    }
    CHECK(b.log.count(log_level::warning) == 2);
    CHECK(b.log.count("the server warns: v1beta1 \"X\" is deprecated") == 1);
    CHECK(b.log.count("the server warns: another") == 1);
}

TEST_CASE("client: list returns one page, its continue token and its bad items") {
    bench b;
    b.answers->next.emplace_back(pod_list({pod("a"), R"({"metadata":{}})", pod("b")},
                                          R"({"resourceVersion":"9","continue":"tok/en","remainingItemCount":4})"));
    failure f;
    const object_list page = b.run(b.api->list(pods(), "", list_options().limit(3), f));
    REQUIRE_FALSE(f);
    CHECK(page.items.size() == 2);
    CHECK(page.items[1].kind() == "Pod");
    CHECK(page.version.str() == "9");
    CHECK(page.continue_token == "tok/en");
    REQUIRE(page.bad.size() == 1);
    CHECK(page.bad[0].why == errc::no_metadata);
    CHECK(b.answers->lines == lines{"GET /api/v1/pods?limit=3"});
}

TEST_CASE("client: a list is repeated after a lost connection, and returns nothing twice") {
    bench b;
    const std::string whole = pod_list({pod("a"), pod("b")});
    b.answers->next.push_back(reply("").streamed({whole.substr(0, whole.size() - 5)}, reply::cut));
    b.answers->next.emplace_back(whole);
    failure f;
    const object_list page = b.run(b.api->list(pods(), "default", list_options(), f));
    CHECK_FALSE(f);
    CHECK(page.items.size() == 2);
}

TEST_CASE("client: raw requests return the body") {
    bench b;
    b.answers->next.push_back(reply("ok").type("text/plain"));
    failure f;
    CHECK(b.run(b.api->raw("GET", "/readyz?verbose", "", f)) == "ok");
    CHECK(b.answers->lines == lines{"GET /readyz?verbose"});
    CHECK(b.run(b.api->raw("GET", "/nope", "", f)).empty());
    CHECK(f == errc::not_found);
    CHECK(f.message() == "GET /nope");
    b.run(b.api->raw("GET", "no slash", "", f));
    CHECK(f);
}

TEST_CASE("client: the body of a raw request has a content type that servers accept") {
    bench b;
    failure f;
    const auto type_of = [&](const char* method, const std::string& body) {
        b.answers->next.emplace_back("{}");
        b.run(b.api->raw(method, "/api/v1/nodes/n", body, f));
        CHECK_FALSE(f);
        CHECK(b.answers->requests.back().body == body);
        return std::string(b.answers->requests.back().header("Content-Type"));
    };
    CHECK(type_of("PATCH", R"({"spec":{"taints":[]}})") == "application/merge-patch+json");
    CHECK(type_of("PATCH", R"([{"op":"remove","path":"/spec/taints"}])") == "application/json-patch+json");
    CHECK(type_of("PATCH", "\n\t [ ]") == "application/json-patch+json");
    CHECK(type_of("PATCH", " ") == "application/merge-patch+json");
    CHECK(type_of("PUT", "[]") == "application/json");
    CHECK(type_of("POST", "{}") == "application/json");
    CHECK(type_of("GET", "").empty());
}

TEST_CASE("client: warnings about the configuration are logged, wherever it comes from") {
    asio::io_context io(1);
    testing::log_capture log;
    runtime rt(io.get_executor());
    rt.with_logger(log.logger(), log_level::debug);
    client_config c;
    c.server = "https://127.0.0.1:1";
    c.warnings = {"something is odd"};
    c.tls.insecure();
    client one(rt, c);
    CHECK(log.count("something is odd") == 1);
    CHECK(log.count("https://127.0.0.1:1: the server's certificate is not verified") == 1);
    c.warnings = {"https://127.0.0.1:1: the server's certificate is not verified"};
    client two(rt, c);
    CHECK(log.count("https://127.0.0.1:1: the server's certificate is not verified") == 2);
}
