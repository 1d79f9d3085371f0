#include "bench.hpp"

#include <informer/task_group.hpp>

#include <boost/json/parse.hpp>

#include <catch2/catch_test_macros.hpp>

#include <filesystem>
#include <fstream>

#include <sys/stat.h>

using namespace kubernetes_test;
using namespace std::chrono_literals;
using informer::kubernetes::delete_options;
using informer::kubernetes::object_list;
using informer::kubernetes::patch_type;
using informer::kubernetes::write_options;
namespace json = boost::json;

namespace {

object get(bench& b, const std::string& name, failure& f) {
    return b.run(b.api->get(pods(), object_key("default", name), f));
}

std::string header(const bench& b, std::string_view name) {
    return std::string(b.answers->requests.back().header(name));
}

class token_file {
public:
    explicit token_file(const std::string& text) {
        std::string name = (std::filesystem::temp_directory_path() / "informer-token-XXXXXX").string();
        path_ = std::filesystem::path(mkdtemp(name.data())) / "token";
        write(text);
    }
    ~token_file() {
        std::error_code ec;
        std::filesystem::remove_all(path_.parent_path(), ec);
    }
    token_file(const token_file&) = delete;
    token_file& operator=(const token_file&) = delete;
    void write(const std::string& text) const { std::ofstream(path_) << text; }
    void remove() const { std::filesystem::remove(path_); }
    std::string path() const { return path_.string(); }

private:
    std::filesystem::path path_;
};

} // namespace

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

TEST_CASE("client: what the server refuses is a typed error with its words") {
    struct row {
        int code;
        const char* reason;
        errc expected;
    };
    for (const auto& [code, reason, expected] :
         {row{400, "BadRequest", errc::bad_request}, row{401, "Unauthorized", errc::unauthorized},
          row{403, "Forbidden", errc::forbidden}, row{404, "NotFound", errc::not_found}, row{409, "Conflict", errc::conflict},
          row{409, "AlreadyExists", errc::already_exists}, row{410, "Expired", errc::gone}, row{422, "Invalid", errc::invalid},
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

TEST_CASE("client: errors that are no Status are shown cut at 2 KiB and printable") {
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

TEST_CASE("client: a redirection is not followed, and where it leads is said without its secrets") {
    bench b;
    const auto to = [&b](const std::string& location) {
        b.answers->next.push_back(reply(308, "<a href>Permanent Redirect</a>").type("text/html").header("Location", location));
        failure f;
        get(b, "a", f);
        CHECK(f == errc::unexpected_status);
        REQUIRE(f.status());
        return f.status()->message;
    };
    CHECK(to("/login") == "redirects to /login, which is not followed");
    CHECK(to("https://sso.test:8443/login") == "redirects to https://sso.test:8443/login, which is not followed");
    CHECK(to("https://me:s3cret@sso.test/login?token=s3cret#s3cret") == "redirects to https://sso.test/login?…, which is not followed");
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

TEST_CASE("client: delete says its options in the body, and takes a Status for an answer") {
    bench b;
    b.answers->next.emplace_back(R"({"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success"})");
    failure f;
    const object o = b.run(b.api->remove(pods(), object_key("default", "a"),
                                         delete_options().precondition_uid("u1").precondition_resource_version("5").grace_period(0s).propagation("Foreground"), f));
    REQUIRE_FALSE(f);
    CHECK(o.kind() == "Status");
    CHECK(b.answers->lines == lines{"DELETE /api/v1/namespaces/default/pods/a"});
    CHECK(json::parse(b.answers->requests.back().body) ==
          json::parse(R"({"kind":"DeleteOptions","apiVersion":"v1","gracePeriodSeconds":0,"propagationPolicy":"Foreground",
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

TEST_CASE("client: 429 and 503 with Retry-After are asked again as told") {
    bench b;
    b.answers->next.push_back(reply(429, "slow down").type("text/plain").header("Retry-After", "3"));
    b.answers->next.push_back(reply(503, "later").type("text/plain").header("Retry-After", "1"));
    b.answers->next.emplace_back(429, status(429, "TooManyRequests", "x", R"(,"details":{"retryAfterSeconds":2})"));
    b.answers->next.emplace_back(pod("a"));
    failure f;
    const object o = get(b, "a", f);
    CHECK_FALSE(f);
    CHECK(o);
    CHECK(b.answers->lines.size() == 4);
    CHECK(b.slept == std::vector<std::chrono::nanoseconds>{3s, 1s, 2s});
}

TEST_CASE("client: what is asked again is counted, and how long the server made us wait") {
    bench b;
    const auto told = std::make_shared<totals>();
    b.api.emplace(runtime(b.rt).with_metrics(told), b.config);
    b.answers->next.push_back(reply(429, "slow down").type("text/plain").header("Retry-After", "3"));
    b.answers->next.push_back(reply(503, "later").type("text/plain").header("Retry-After", "1"));
    b.answers->next.emplace_back(pod("a"));
    failure f;
    get(b, "a", f);
    CHECK_FALSE(f);
    CHECK(told->sums["rest_client_request_retries_total 429 GET"] == 1);
    CHECK(told->sums["rest_client_request_retries_total 503 GET"] == 1);
    CHECK(told->sums["rest_client_rate_limiter_duration_seconds GET"] == 4);
    b.answers->next.push_back(reply(429, "slow down").type("text/plain").header("Retry-After", "2"));
    b.answers->next.emplace_back(R"({"kind":"PodList","metadata":{"resourceVersion":"7"},"items":[]})");
    b.run(b.api->list(pods(), "", list_options(), f));
    CHECK_FALSE(f);
    CHECK(told->sums["rest_client_request_retries_total 429 GET"] == 2);
    CHECK(told->sums["rest_client_rate_limiter_duration_seconds GET"] == 6);
}

TEST_CASE("client: a client without retries gives what the server says at once; the one it was made from asks again") {
    bench b;
    auto once = b.api->without_retries();
    failure f;
    const auto refuse = [&] { b.answers->next.push_back(reply(429, "slow down").type("text/plain").header("Retry-After", "3")); };
    refuse();
    b.run(once.get(pods(), object_key("default", "a"), f));
    CHECK(f == errc::too_many_requests);
    refuse();
    b.run(once.list(pods(), "default", list_options(), f));
    CHECK(f == errc::too_many_requests);
    refuse();
    b.run(once.update(pods(), json::parse(pod("a")), write_options(), f));
    CHECK(f == errc::too_many_requests);
    CHECK(f.status()->retry_after == 3s);
    CHECK(b.answers->lines.size() == 3);
    CHECK(b.slept.empty());
    refuse();
    b.answers->next.emplace_back(pod("a"));
    CHECK(get(b, "a", f));
    CHECK(b.slept.size() == 1);
}

TEST_CASE("client: a GET is asked again after any 5xx that says when") {
    bench b;
    failure f;
    b.answers->next.push_back(reply(500, status(500, "ServerTimeout", "etcd")).header("Retry-After", "2"));
    b.answers->next.push_back(reply(504, "x").header("Retry-After", "1"));
    b.answers->next.emplace_back(pod("a"));
    CHECK(get(b, "a", f));
    CHECK_FALSE(f);
    CHECK(b.slept == std::vector<std::chrono::nanoseconds>{2s, 1s});
}

TEST_CASE("client: without Retry-After nothing is asked again, and no 4xx but 429") {
    bench b;
    failure f;
    b.answers->next.emplace_back(429, "x");
    get(b, "a", f);
    CHECK(f == errc::too_many_requests);
    b.answers->next.push_back(reply(404, "x").header("Retry-After", "1"));
    get(b, "a", f);
    b.answers->next.push_back(reply(503, "x").header("Retry-After", "Wed, 21 Oct 2026 07:28:00 GMT"));
    get(b, "a", f);
    b.answers->next.push_back(reply(503, "x").header("Retry-After", "99999999"));
    get(b, "a", f);
    CHECK(f.status()->retry_after == 99999999s);
    CHECK(b.answers->lines.size() == 4);
    CHECK(b.slept.empty());
}

TEST_CASE("client: there are ten tries at most") {
    bench b;
    for (int i = 0; i < 20; ++i) b.answers->next.push_back(reply(429, "x").header("Retry-After", "1"));
    failure f;
    get(b, "a", f);
    CHECK(f == errc::too_many_requests);
    CHECK(b.answers->lines.size() == 10);
}

TEST_CASE("client: writes are asked again where the server says when, and never blindly") {
    bench b;
    failure f;
    b.answers->next.push_back(reply(429, "x").header("Retry-After", "1"));
    b.answers->next.push_back(reply(503, "x").header("Retry-After", "1"));
    b.answers->next.emplace_back(503, "x");
    b.run(b.api->update(pods(), json::parse(pod("a")), write_options(), f));
    CHECK(f == errc::server_error);
    CHECK(b.answers->lines.size() == 3);
    b.answers->lines.clear();
    b.answers->next.push_back(reply("").streamed({"{"}, reply::cut));
    b.run(b.api->update(pods(), json::parse(pod("a")), write_options(), f));
    CHECK(f == errc::connection_lost);
    CHECK(b.answers->lines.size() == 1);
    b.answers->lines.clear();
    b.answers->next.push_back(reply(500, "x").header("Retry-After", "1")); // it may have been stored
    b.run(b.api->update(pods(), json::parse(pod("a")), write_options(), f));
    CHECK(f == errc::server_error);
    CHECK(b.answers->lines.size() == 1);
}

TEST_CASE("client: a GET is asked again once when the connection is lost") {
    bench b;
    failure f;
    b.answers->next.push_back(reply("").streamed({"{\"metadata\""}, reply::cut));
    b.answers->next.emplace_back(pod("a"));
    CHECK(get(b, "a", f));
    CHECK_FALSE(f);
    b.answers->next.push_back(reply("").streamed({"{"}, reply::cut));
    b.answers->next.push_back(reply("").streamed({"{"}, reply::cut));
    get(b, "a", f);
    CHECK(f == errc::connection_lost);
    CHECK(b.answers->lines.size() == 4);
}

TEST_CASE("client: the wait for another try ends with its cancellation") {
    bench b;
    b.answers->next.push_back(reply(429, "x").header("Retry-After", "60"));
    failure f;
    bool done = false;
    task_group group(b.io.get_executor());
    struct work {
        static asio::awaitable<void> go(client c, failure* f, bool* done) {
            const object_key key("default", "a");
            const object o = co_await c.get(pods(), key, *f);
            *done = !o;
        }
    };
    group.spawn(work::go(*b.api, &f, &done));
    const auto until = std::chrono::steady_clock::now() + 10s;
    while (b.clock->waiters() == 0 && std::chrono::steady_clock::now() < until) {
        b.io.restart();
        b.io.run_one_for(10ms);
    }
    REQUIRE(b.clock->waiters() == 1);
    group.stop();
    b.run(group.join());
    CHECK(done);
    CHECK(f == errc::cancelled);
}

TEST_CASE("client: a bearer token, basic authentication and impersonation are sent") {
    kubernetes::credentials who;
    who.token = "t0";
    who.impersonate_user = "jane";
    who.impersonate_uid = "7";
    who.impersonate_groups = {"a", "b"};
    who.impersonate_extra = {{"scopes", {"x", "y"}}, {"example.com/why%", {"z"}}, {"none", {}}};
    bench b(who);
    failure f;
    b.answers->next.emplace_back(pod("a"));
    get(b, "a", f);
    CHECK(header(b, "Authorization") == "Bearer t0");
    CHECK(header(b, "Impersonate-User") == "jane");
    CHECK(header(b, "Impersonate-Uid") == "7");
    CHECK(header(b, "Impersonate-Group") == "a");
    std::vector<std::string> scopes;
    for (const auto& [name, value] : b.answers->requests.back().headers)
        if (name == "Impersonate-Extra-scopes") scopes.push_back(value);
    CHECK(scopes == std::vector<std::string>{"x", "y"});
    CHECK(header(b, "Impersonate-Extra-example.com%2Fwhy%25") == "z");
    CHECK(header(b, "Impersonate-Extra-none").empty());

    kubernetes::credentials basic;
    basic.username = "Aladdin";
    basic.password = "open sesame";
    bench c(basic);
    c.answers->next.emplace_back(pod("a"));
    get(c, "a", f);
    CHECK(header(c, "Authorization") == "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==");
}

TEST_CASE("client: the token file is read again every minute, a bad one leaves the old token in use") {
    const token_file file("one\n");
    kubernetes::credentials who;
    who.token_file = file.path();
    bench b(who);
    failure f;
    const auto sent = [&] {
        b.answers->next.emplace_back(pod("a"));
        get(b, "a", f);
        return header(b, "Authorization");
    };
    CHECK(sent() == "Bearer one");
    file.write("two");
    b.clock->advance(59s);
    CHECK(sent() == "Bearer one");
    b.clock->advance(1s);
    CHECK(sent() == "Bearer two");
    file.write("");
    b.clock->advance(1min);
    CHECK(sent() == "Bearer two");
    file.remove();
    b.clock->advance(1min);
    CHECK(sent() == "Bearer two");
    CHECK(b.log.count("the old token stays in use") == 1);
    REQUIRE(::mkfifo(file.path().c_str(), 0600) == 0); // nobody writes to it, and nobody waits
    b.clock->advance(1min);
    CHECK(sent() == "Bearer two");
    file.remove();
    file.write("three");
    b.clock->advance(1min);
    CHECK(sent() == "Bearer three");
}

TEST_CASE("client: after a 401 the token file is looked at before the next request") {
    const token_file file("one");
    kubernetes::credentials who;
    who.token_file = file.path();
    bench b(who);
    failure f;
    b.answers->next.emplace_back(401, status(401, "Unauthorized", "Unauthorized"));
    get(b, "a", f);
    CHECK(f == errc::unauthorized);
    file.write("two");
    b.answers->next.emplace_back(pod("a"));
    get(b, "a", f);
    CHECK(header(b, "Authorization") == "Bearer two");
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

TEST_CASE("client: what it cannot start with is a configuration error, also for its verbs") {
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

TEST_CASE("client: secrets never reach failures or the log") {
    kubernetes::credentials who;
    who.token = "s3cret-token-of-some-length";
    bench b(who);
    failure f;
    std::string all;
    b.answers->next.push_back(reply(500, "you sent Authorization: Bearer s3cret-token-of-some-length").type("text/plain"));
    get(b, "a", f);
    all += f.what() + f.status()->message;
    b.answers->next.emplace_back(403, status(403, "Forbidden", "Bearer s3cret-token-of-some-length is not enough"));
    get(b, "a", f);
    all += f.what() + f.status()->message;
    kubernetes::credentials broken;
    broken.token = "s3cret\r\nX-Evil: 1";
    bench c(broken);
    get(c, "a", f);
    CHECK(f == errc::bad_configuration);
    all += f.what();
    b.run(b.api->raw("GET", "/api/v1/namespaces/x/pods/y/proxy/?key=s3cret", "", f));
    all += f.what();
    for (const auto& line : b.log.lines()) all += line.text;
    for (const auto& line : c.log.lines()) all += line.text;
    CHECK(all.find("s3cret") == std::string::npos);
    CHECK(c.answers->lines.empty());
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

TEST_CASE("client: list gives one page, its token, and what was bad in it") {
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

TEST_CASE("client: list is asked again after a lost connection, and hands nothing out twice") {
    bench b;
    const std::string whole = pod_list({pod("a"), pod("b")});
    b.answers->next.push_back(reply("").streamed({whole.substr(0, whole.size() - 5)}, reply::cut));
    b.answers->next.emplace_back(whole);
    failure f;
    const object_list page = b.run(b.api->list(pods(), "default", list_options(), f));
    CHECK_FALSE(f);
    CHECK(page.items.size() == 2);
}

TEST_CASE("client: raw requests give the body") {
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

TEST_CASE("client: what is wrong with the configuration is logged, whoever made it") {
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
