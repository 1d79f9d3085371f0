// Requests and responses between our client and our server: what is promised when nothing goes wrong.
#include "support.hpp"

#include <algorithm>

using namespace http_test;

namespace {

asio::awaitable<void> echo(request_ptr q, response_ptr r) {
    std::string text = q->method + " " + q->target + " [" + q->body + "]";
    std::vector<std::pair<std::string, std::string>> headers;
    headers.emplace_back("Warning", "299 - \"one\"");
    headers.emplace_back("Warning", "299 - \"two\"");
    co_await r->send(200, "text/plain", std::move(text), std::move(headers));
}

asio::awaitable<void> whole_answer() {
    const auto ex = co_await asio::this_coro::executor;
    bench b(ex, echo);
    auto c = b.client();
    failure f;
    http::request q("POST", "/api/v1/pods?limit=5");
    q.body("hello", "application/json");
    auto r = co_await c->send(q, f);
    REQUIRE_FALSE(f);
    CHECK(r.status() == 200);
    CHECK(r.header("content-type") == "text/plain");
    CHECK(r.header("nothing").empty());
    CHECK(r.headers("WARNING").size() == 2);
    const std::string text = co_await r.read_all(1000, f);
    CHECK_FALSE(f);
    CHECK(text == "POST /api/v1/pods?limit=5 [hello]");
    co_await b.server.stop();
}

class recorder final : public metrics_sink {
public:
    void add(std::string_view counter, double, labels of) override { note(counter, of); }
    void set(std::string_view gauge, double, labels of) override { note(gauge, of); }
    void observe(std::string_view histogram, double, labels of) override { note(histogram, of); }
    std::vector<std::string> lines;

private:
    void note(std::string_view name, labels of) {
        std::string line(name);
        for (const auto& [key, value] : of) line += " " + std::string(key) + "=" + std::string(value);
        lines.push_back(line);
    }
};

asio::awaitable<void> told_figures() {
    const auto ex = co_await asio::this_coro::executor;
    bench b(ex,
            [](request_ptr, response_ptr r) -> asio::awaitable<void> { co_await r->send(404, "text/plain", "no"); });
    const auto told = std::make_shared<recorder>();
    runtime rt(ex);
    rt.with_metrics(told);
    failure f;
    http::client c(rt, b.endpoint(), http::client_options(), f);
    REQUIRE_FALSE(f);
    http::request q("GET", "/x");
    (void)co_await c.send(std::move(q), f);
    REQUIRE_FALSE(f);
    const std::string host = "127.0.0.1:" + std::to_string(b.server.port());
    std::vector<std::string> wanted{"rest_client_request_size_bytes verb=GET host=" + host,
                                    "rest_client_requests_total code=404 method=GET host=" + host,
                                    "rest_client_request_duration_seconds verb=GET host=" + host};
    CHECK(told->lines == wanted);
    told->lines.clear();
    co_await b.server.stop();
    http::request again("DELETE", "/x");
    (void)co_await c.send(std::move(again), f);
    CHECK(f);
    CHECK(told->lines.size() == 3);
    CHECK(std::count(told->lines.begin(), told->lines.end(),
                     "rest_client_requests_total code=<error> method=DELETE host=" + host) == 1);
}

} // namespace

TEST_CASE("a request is answered, with its status, headers and body") {
    run_test(whole_answer());
}
TEST_CASE("the metrics sink gets every request, by code, method and host, as with client-go") {
    run_test(told_figures());
}
