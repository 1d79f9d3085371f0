// Who may read /metrics: the API server is asked, over sockets, and time is turned by hand.
#include "support/log_capture.hpp"
#include "support/run.hpp"

#include <informer/http/client.hpp>
#include <informer/kubernetes/auth_filter.hpp>
#include <informer/serving/http_endpoint.hpp>
#include <informer/serving/prometheus_metrics.hpp>
#include <informer/task_group.hpp>
#include <informer/testing/api_server.hpp>
#include <informer/testing/manual_clock.hpp>

#include <boost/asio/this_coro.hpp>
#include <boost/json.hpp>
#include <catch2/catch_test_macros.hpp>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace asio = boost::asio;
namespace json = boost::json;
using namespace informer;
using namespace std::chrono_literals;
using informer::testing::run_test;
using informer::testing::settle;

namespace {

struct page {
    int status = 0;
    std::string text, challenge;
};

bool has(const std::string& text, std::string_view part) {
    return text.find(part) != std::string::npos;
}

testing::api_server_options with_tokens(std::string rights) {
    testing::api_server_options o;
    o.token("the-program", "program", std::move(rights)).token("of-alice", "alice", "none");
    o.token("of-bob", "bob", "none").token("of-root", "root");
    return o;
}

/// An API server, a program with pages, and somebody who reads them.
class scene {
public:
    explicit scene(asio::any_io_executor ex, std::string rights = "admin")
        : clock(std::make_shared<testing::manual_clock>()), rt(make_runtime(ex, clock, log)),
          server(rt, with_tokens(std::move(rights))) {
        server.start();
        client.emplace(rt, server.config());
        filter = kubernetes::make_auth_filter(rt, *client);
        endpoint = make_endpoint();
        allow("alice", "/metrics");
    }

    std::unique_ptr<serving::http_endpoint> make_endpoint() {
        auto e = std::make_unique<serving::http_endpoint>(
            rt, serving::endpoint_options().address("127.0.0.1").port(0).patience(0ms));
        const auto metrics = std::make_shared<serving::prometheus_metrics>();
        metrics->add("made_total", 1, {});
        e->metrics(metrics).filter(filter, {"/open"});
        e->page("/mine", "text/plain", [] { return std::string("mine"); });
        e->page("/open", "text/plain", [] { return std::string("open"); });
        failure f;
        e->listen(f);
        REQUIRE_FALSE(f);
        return e;
    }

    /// By a ClusterRole and its binding, both named after the user.
    void allow(const std::string& user, const std::string& url) {
        server.create({{"apiVersion", "rbac.authorization.k8s.io/v1"},
                       {"kind", "ClusterRole"},
                       {"metadata", {{"name", user}}},
                       {"rules", {{{"nonResourceURLs", {url}}, {"verbs", {"get"}}}}}});
        server.create({{"apiVersion", "rbac.authorization.k8s.io/v1"},
                       {"kind", "ClusterRoleBinding"},
                       {"metadata", {{"name", user}}},
                       {"roleRef", {{"kind", "ClusterRole"}, {"name", user}}},
                       {"subjects", {{{"kind", "User"}, {"name", user}}}}});
    }
    void forbid(const std::string& user) { server.remove("clusterrolebindings.rbac.authorization.k8s.io", "", user); }

    asio::awaitable<page> get(std::string path, std::string token) {
        return ask(this, "GET", std::move(path), token.empty() ? token : "Bearer " + token, endpoint->port());
    }
    asio::awaitable<page> ask(std::string method, std::string path, std::string authorization) {
        return ask(this, std::move(method), std::move(path), std::move(authorization), endpoint->port());
    }
    /// The page, later; 0 while it is not there.
    std::shared_ptr<page> begin(task_group& group, std::uint16_t port, std::string token) {
        auto p = std::make_shared<page>();
        group.spawn(into(p, ask(this, "GET", "/metrics", "Bearer " + token, port)));
        return p;
    }

    /// How often the server was asked for this ("tokenreviews").
    std::size_t asked(std::string_view resource) const {
        std::size_t n = 0;
        for (const auto& r : server.requests()) n += r.resource == resource;
        return n;
    }
    /// The specification of the last review of this kind.
    json::value last(std::string_view resource) const {
        json::value found;
        for (const auto& r : server.requests())
            if (r.resource == resource) found = json::parse(r.body).at("spec");
        return found;
    }
    asio::awaitable<void> until_asked(std::string resource, std::size_t times) {
        const std::function<bool()> there = [this, resource, times] { return asked(resource) >= times; };
        const bool came = co_await testing::eventually(there);
        REQUIRE(came);
    }
    asio::awaitable<void> end() {
        co_await endpoint->stop();
        co_await server.stop();
    }

    testing::log_capture log;
    std::shared_ptr<testing::manual_clock> clock;
    runtime rt;
    testing::api_server server;
    std::optional<kubernetes::client> client;
    http::request_filter filter;
    std::unique_ptr<serving::http_endpoint> endpoint;

private:
    static runtime make_runtime(asio::any_io_executor ex, std::shared_ptr<testing::manual_clock> clock,
                                const testing::log_capture& log) {
        runtime r(std::move(ex));
        r.with_clock(std::move(clock)).with_logger(log.logger());
        return r;
    }
    static asio::awaitable<page> ask(scene* s, std::string method, std::string path, std::string authorization,
                                     std::uint16_t port) {
        http::endpoint to;
        to.host = "127.0.0.1";
        to.port = port;
        failure f;
        http::client reader(s->rt, to, http::client_options(), f);
        http::request q(std::move(method), std::move(path));
        if (!authorization.empty()) q.header("Authorization", std::move(authorization));
        page p;
        auto answer = co_await reader.send(std::move(q), f);
        if (f) co_return p;
        p.status = answer.status();
        p.challenge = std::string(answer.header("WWW-Authenticate"));
        p.text = co_await answer.read_all(1 << 20, f);
        co_return p;
    }
    static asio::awaitable<void> into(std::shared_ptr<page> p, asio::awaitable<page> from) {
        *p = co_await std::move(from);
    }
};

asio::awaitable<void> decides() {
    scene s(co_await asio::this_coro::executor);
    page p = co_await s.get("/metrics", "");
    CHECK(p.status == 401);
    CHECK(p.challenge == "Bearer");
    CHECK(s.asked("tokenreviews") == 0);
    p = co_await s.get("/metrics", "of-a-stranger");
    CHECK(p.status == 401);
    CHECK_FALSE(has(p.text, "of-a-stranger"));
    CHECK(s.asked("subjectaccessreviews") == 0);
    p = co_await s.get("/metrics", "of-bob");
    CHECK(p.status == 403);
    CHECK(p.text == "forbidden: user \"bob\" may not get /metrics\n");
    p = co_await s.get("/metrics", "of-alice");
    CHECK(p.status == 200);
    CHECK(has(p.text, "made_total 1\n"));
    p = co_await s.get("/mine", "of-alice"); // a permission is for one path …
    CHECK(p.status == 403);
    p = co_await s.ask("HEAD", "/metrics", "Bearer of-alice"); // … and one verb
    CHECK(p.status == 403);
    p = co_await s.get("/mine", "of-root");
    CHECK((p.status == 200 && p.text == "mine"));
    co_await s.end();
}

asio::awaitable<void> stays_open() {
    scene s(co_await asio::this_coro::executor);
    for (const std::string path : {"/healthz", "/livez", "/readyz", "/open"}) {
        const page p = co_await s.get(path, "");
        CHECK(p.status == 200);
    }
    page p = co_await s.get("/none", "of-a-stranger");
    CHECK(p.status == 404);
    p = co_await s.ask("POST", "/metrics", "Bearer of-root");
    CHECK(p.status == 405);
    CHECK(s.server.requests().empty());
    co_await s.end();
}

asio::awaitable<void> reads_header() {
    scene s(co_await asio::this_coro::executor);
    for (const std::string good :
         {"Bearer of-alice", "bearer of-alice", "BEARER of-alice ", "Bearer of-alice and more"}) {
        INFO(good);
        const page p = co_await s.ask("GET", "/metrics", good);
        CHECK(p.status == 200);
    }
    s.server.forget_requests();
    for (const std::string bad : {"Bearer", "Bearer ", "Bearer  of-alice", "Basic of-alice", "of-alice",
                                  "Bearer of-al\xc3\xad", "Bearer\tof-alice"}) {
        INFO(bad);
        const page p = co_await s.ask("GET", "/metrics", bad);
        CHECK(p.status == 401);
    }
    CHECK(s.server.requests().empty());
    co_await s.end();
}

asio::awaitable<void> tells_all() {
    scene s(co_await asio::this_coro::executor);
    s.server.create({{"apiVersion", "v1"},
                     {"kind", "ServiceAccount"},
                     {"metadata", {{"name", "scraper"}, {"namespace", "default"}}}});
    const api_resource accounts("", "v1", "serviceaccounts", "ServiceAccount");
    kubernetes::write_options token;
    token.subresource("token");
    const json::value wanted = {{"metadata", {{"name", "scraper"}, {"namespace", "default"}}}};
    const object made = co_await s.client->create(accounts, wanted, token);
    const page p = co_await s.get("/metrics", made["status"]["token"].as_string().str());
    CHECK(p.status == 403);
    const json::value spec = s.last("subjectaccessreviews");
    CHECK(spec.at("user") == "system:serviceaccount:default:scraper");
    CHECK(spec.at("uid") == s.server.get("serviceaccounts", "default", "scraper").at("metadata").at("uid"));
    CHECK(spec.at("groups") ==
          json::array{"system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated"});
    CHECK(spec.at("extra").at("authentication.kubernetes.io/credential-id") == json::array{"JTI=0"});
    CHECK(spec.at("nonResourceAttributes") == json::object{{"path", "/metrics"}, {"verb", "get"}});
    co_await s.end();
}

asio::awaitable<void> keeps_answers() {
    scene s(co_await asio::this_coro::executor);
    const auto status_is = [&s](std::string token, int wanted, std::size_t tokens, std::size_t decisions) {
        return [](scene* in, std::string t, int w, std::size_t n, std::size_t d) -> asio::awaitable<void> {
            const page p = co_await in->get("/metrics", t);
            CHECK(p.status == w);
            CHECK(in->asked("tokenreviews") == n);
            CHECK(in->asked("subjectaccessreviews") == d);
        }(&s, std::move(token), wanted, tokens, decisions);
    };
    co_await status_is("of-alice", 200, 1, 1);
    co_await status_is("of-bob", 403, 2, 2);
    s.forbid("alice");
    s.allow("bob", "/metrics");
    s.clock->advance(30s - 1ms);
    co_await status_is("of-bob", 403, 2, 2);
    s.clock->advance(1ms); // a denial has ended
    co_await status_is("of-bob", 200, 2, 3);
    s.clock->advance(30s - 1ms);
    co_await status_is("of-alice", 200, 2, 3);
    s.clock->advance(1ms); // the tokens have ended
    co_await status_is("of-alice", 200, 3, 3);
    s.clock->advance(240s - 1ms);
    co_await status_is("of-alice", 200, 4, 3);
    s.clock->advance(1ms); // a permission has ended
    co_await status_is("of-alice", 403, 4, 4);
    co_await s.end();
}

asio::awaitable<void> asks_again() {
    scene s(co_await asio::this_coro::executor);
    for (int i = 1; i <= 3; ++i) {
        const page p = co_await s.get("/metrics", "of-a-stranger");
        CHECK(p.status == 401);
        CHECK(s.asked("tokenreviews") == static_cast<std::size_t>(i));
    }
    co_await s.end();
}

asio::awaitable<void> rotates() {
    scene s(co_await asio::this_coro::executor);
    s.server.create({{"apiVersion", "v1"},
                     {"kind", "ServiceAccount"},
                     {"metadata", {{"name", "scraper"}, {"namespace", "default"}}}});
    s.allow("system:serviceaccount:default:scraper", "/metrics");
    const api_resource accounts("", "v1", "serviceaccounts", "ServiceAccount");
    kubernetes::write_options token;
    token.subresource("token");
    const json::value wanted = {{"metadata", {{"name", "scraper"}, {"namespace", "default"}}},
                                {"spec", {{"expirationSeconds", 600}}}};
    const object first = co_await s.client->create(accounts, wanted, token);
    page p = co_await s.get("/metrics", first["status"]["token"].as_string().str());
    CHECK(p.status == 200);
    s.clock->advance(10min);
    const object second = co_await s.client->create(accounts, wanted, token);
    p = co_await s.get("/metrics", second["status"]["token"].as_string().str());
    CHECK(p.status == 200);
    p = co_await s.get("/metrics", first["status"]["token"].as_string().str());
    CHECK(p.status == 401);
    s.server.remove("serviceaccounts", "default", "scraper");
    p = co_await s.get("/metrics", second["status"]["token"].as_string().str());
    CHECK(p.status == 200); // for a minute
    s.clock->advance(1min);
    p = co_await s.get("/metrics", second["status"]["token"].as_string().str());
    CHECK(p.status == 401);
    co_await s.end();
}

asio::awaitable<void> never_open() {
    scene s(co_await asio::this_coro::executor);
    page p = co_await s.get("/metrics", "of-alice");
    CHECK(p.status == 200);
    s.server.stop_listening();
    p = co_await s.get("/metrics", "of-root"); // unknown, and nobody can be asked
    CHECK(p.status == 503);
    CHECK(p.text == "the API server cannot be asked who may read this\n");
    p = co_await s.get("/metrics", "of-root");
    CHECK(p.status == 503);
    CHECK(s.log.count("a request for a page of this program cannot be decided") == 1);
    p = co_await s.get("/metrics", "of-alice"); // known
    CHECK(p.status == 200);
    p = co_await s.get("/mine", "of-alice"); // a known user, for whom nobody can be asked
    CHECK(p.status == 503);
    s.clock->advance(1min);
    p = co_await s.get("/metrics", "of-alice");
    CHECK(p.status == 503);
    s.server.start_listening();
    p = co_await s.get("/metrics", "of-alice");
    CHECK(p.status == 200);
    CHECK(s.log.count("tokenreviews are answered again") == 1);
    for (const auto& line : s.log.lines()) CHECK_FALSE(has(line.text, "of-"));
    co_await s.end();
}

asio::awaitable<void> lacks_rights() {
    scene s(co_await asio::this_coro::executor, "none"); // of the program
    for (int i = 0; i < 2; ++i) {
        const page p = co_await s.get("/metrics", "of-alice");
        CHECK(p.status == 500);
        CHECK(p.text == "the API server cannot be asked who may read this\n");
    }
    CHECK(s.log.count("it needs the ClusterRole system:auth-delegator") == 1);
    co_await s.end();
}

asio::awaitable<void> odd_answers() {
    scene s(co_await asio::this_coro::executor);
    const auto answers = [&s](const char* resource, std::string body) {
        testing::fault odd(testing::fault::kind::garbage_body);
        odd.on([resource](const testing::request_info& r) { return r.resource == resource; })
            .with_text(std::move(body));
        s.server.inject(odd);
    };
    for (const std::string body : {"{}", R"({"status":{"authenticated":"true","user":{"username":"root"}}})"}) {
        answers("tokenreviews", body);
        const page p = co_await s.get("/metrics", "of-alice");
        CHECK(p.status == 401);
    }
    answers("tokenreviews", "{");
    page p = co_await s.get("/metrics", "of-alice");
    CHECK(p.status == 500);
    for (const std::string body : {"{}", R"({"status":{"allowed":true,"denied":true}})"}) {
        answers("subjectaccessreviews", body);
        p = co_await s.get("/metrics", "of-alice");
        CHECK(p.status == 403);
        s.clock->advance(30s);
    }
    p = co_await s.get("/metrics", "of-alice");
    CHECK(p.status == 200);
    CHECK(s.server.pending_faults() == 0);
    co_await s.end();
}

testing::fault stalled(const char* resource) {
    testing::fault f(testing::fault::kind::stall_after);
    return f.on([resource](const testing::request_info& r) { return r.resource == resource; });
}

asio::awaitable<void> has_a_limit() {
    const auto ex = co_await asio::this_coro::executor;
    scene s(ex);
    task_group readers(ex);
    testing::fault late(testing::fault::kind::delay);
    late.on([](const testing::request_info& r) { return r.resource == "tokenreviews"; }).for_(6s);
    s.server.inject(late);
    s.server.inject(stalled("subjectaccessreviews"));
    const auto p = s.begin(readers, s.endpoint->port(), "of-alice");
    co_await s.until_asked("tokenreviews", 1);
    s.clock->advance(6s);
    co_await s.until_asked("subjectaccessreviews", 1);
    s.clock->advance(4s - 1ms);
    co_await settle();
    CHECK(p->status == 0);
    s.clock->advance(1ms); // ten seconds for both
    co_await readers.join();
    CHECK(p->status == 503);
    CHECK(s.log.contains("create subjectaccessreviews.authorization.k8s.io: no answer in time")); // by this clock
    co_await s.end();
}

asio::awaitable<void> asks_once(std::string token, int status) {
    const auto ex = co_await asio::this_coro::executor;
    scene s(ex);
    task_group readers(ex);
    testing::fault late(testing::fault::kind::delay);
    s.server.inject(late.for_(1s));
    std::vector<std::shared_ptr<page>> pages;
    for (int i = 0; i < 5; ++i) pages.push_back(s.begin(readers, s.endpoint->port(), token));
    co_await s.until_asked("tokenreviews", 1);
    co_await settle(200);
    s.clock->advance(1s);
    co_await readers.join();
    for (const auto& p : pages) CHECK(p->status == status);
    CHECK(s.asked("tokenreviews") == 1);
    CHECK(s.asked("subjectaccessreviews") == (status == 401 ? 0 : 1));
    co_await s.end();
}

asio::awaitable<void> asks_for_itself() {
    const auto ex = co_await asio::this_coro::executor;
    scene s(ex);
    const auto other = s.make_endpoint();
    task_group readers(ex);
    s.server.inject(stalled("tokenreviews"));
    const auto first = s.begin(readers, other->port(), "of-alice");
    co_await s.until_asked("tokenreviews", 1);
    const auto second = s.begin(readers, s.endpoint->port(), "of-alice");
    co_await settle(200);
    CHECK(s.asked("tokenreviews") == 1);
    co_await other->stop();
    co_await readers.join();
    CHECK(first->status == 0);
    CHECK(second->status == 200);
    CHECK(s.asked("tokenreviews") == 2);
    co_await s.end();
}

asio::awaitable<void> stops() {
    const auto ex = co_await asio::this_coro::executor;
    scene s(ex);
    task_group readers(ex);
    s.server.inject(stalled("tokenreviews"));
    std::vector<std::shared_ptr<page>> pages; // one of them asks, the other ones wait for its answer
    for (int i = 0; i < 3; ++i) pages.push_back(s.begin(readers, s.endpoint->port(), "of-alice"));
    co_await s.until_asked("tokenreviews", 1);
    co_await settle(200);
    co_await s.endpoint->stop();
    co_await readers.join();
    for (const auto& p : pages) CHECK(p->status == 0);
    CHECK(s.log.lines().size() == 1); // no TLS
    co_await s.server.stop();
    CHECK(s.clock->waiters() == 0);
}

asio::awaitable<void> warns() {
    scene s(co_await asio::this_coro::executor);
    CHECK(s.log.count("without TLS") == 1);
    s.endpoint->filter({});
    const page p = co_await s.get("/metrics", "");
    CHECK(p.status == 200);
    s.filter = {};
    const auto unprotected = s.make_endpoint();
    CHECK(s.log.count("without TLS") == 1);
    co_await unprotected->stop();
    co_await s.end();
}

} // namespace

TEST_CASE("auth filter: 401 without a token or with a wrong one, 403 without the right, else the page") {
    run_test(decides());
}
TEST_CASE("auth filter: health pages, open ones and what is not there need no token, and nobody is asked") {
    run_test(stays_open());
}
TEST_CASE("auth filter: a bearer token is read as a kube-apiserver reads it") {
    run_test(reads_header());
}
TEST_CASE("auth filter: the SubjectAccessReview tells user, groups, uid, extra, path and verb") {
    run_test(tells_all());
}
TEST_CASE("auth filter: a token is good for a minute, a permission for five, a denial for thirty seconds") {
    run_test(keeps_answers());
}
TEST_CASE("auth filter: a token that is not authenticated is asked about each time") {
    run_test(asks_again());
}
TEST_CASE("auth filter: a rotated token is another one; the old one, and one that was revoked, end within a minute") {
    run_test(rotates());
}
TEST_CASE("auth filter: while the API server is away nothing opens; what was known stays good until it ends") {
    run_test(never_open());
}
TEST_CASE("auth filter: a program without system:auth-delegator answers 500 and logs once what it lacks") {
    run_test(lacks_rights());
}
TEST_CASE("auth filter: an answer that says nothing clear opens nothing") {
    run_test(odd_answers());
}
TEST_CASE("auth filter: both reviews have ten seconds together") {
    run_test(has_a_limit());
}
TEST_CASE("auth filter: equal questions at the same time are asked once") {
    run_test(asks_once("of-alice", 200));
    run_test(asks_once("of-a-stranger", 401)); // whose answer is not kept
}
TEST_CASE("auth filter: whoever waits for a question that is cancelled asks for itself") {
    run_test(asks_for_itself());
}
TEST_CASE("auth filter: stop() while a question is under way ends it and leaves nothing behind") {
    run_test(stops());
}
TEST_CASE("an endpoint with a filter but without TLS warns of it") {
    run_test(warns());
}
