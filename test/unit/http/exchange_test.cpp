// Requests and responses between our client and our server: what is promised when nothing goes wrong.
#include "support.hpp"

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

} // namespace

TEST_CASE("a request is answered, with its status, headers and body") {
    run_test(whole_answer());
}
