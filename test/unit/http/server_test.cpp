// The server: framing, faults, noticing that the peer left, stopping.
#include "raw_peer.hpp"

#include "support/log_capture.hpp"

#include <stdexcept>

using namespace http_test;

namespace {

asio::awaitable<void> requests() {
    const auto ex = co_await asio::this_coro::executor;
    bench b(ex, echo, http::server_options().max_body(1000));
    wire w(ex, b.server.port());
    co_await write_all(w.socket(), "GET /a%20b?x=1%2B1&y=a+b&&z&=e HTTP/1.1\r\nHost: h\r\n\r\n");
    std::string all = co_await expect(w.socket(), "]");
    CHECK(has(all, "GET /a%20b x=1+1 y=a b z= =e []"));
    co_await write_all(
        w.socket(), "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n");
    all = co_await expect(w.socket(), "[abcde]");
    const std::string empty = "POST /e HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n";
    w.socket()->set_option(tcp::no_delay(true));
    for (const char c : empty) { // byte by byte
        co_await write_all(w.socket(), std::string(1, c));
        for (int turns = 0; turns < 10; ++turns) co_await asio::post(ex, asio::use_awaitable);
    }
    all = co_await expect(w.socket(), "POST /e []");
    co_await write_all(w.socket(), "GET http://h:80/a?x=1 HTTP/1.1\r\nHost: h\r\n\r\n");
    all = co_await expect(w.socket(), "GET /a x=1 []");
    co_await write_all(w.socket(), "GET http://h?x=1 HTTP/1.1\r\nHost: h\r\n\r\n");
    all = co_await expect(w.socket(), "GET / x=1 []");
    // Two at once are answered in turn.
    co_await write_all(w.socket(), "GET /1 HTTP/1.1\r\nHost: h\r\n\r\nGET /2 HTTP/1.1\r\nHost: h\r\n\r\n");
    all = co_await expect(w.socket(), "GET /2 []");
    CHECK(has(all, "GET /1 []"));
    CHECK(b.server.connections() == 1);
    // A client that waits for the go-ahead gets it before it sends its body.
    co_await write_all(w.socket(), "PUT / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n");
    all = co_await expect(w.socket(), "100 Continue\r\n\r\n");
    co_await write_all(w.socket(), "body");
    all = co_await expect(w.socket(), "PUT / [body]");
    co_await write_all(w.socket(), "HEAD /x HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
    bool reset = false;
    all = co_await drain(w.socket(), reset);
    CHECK(has(all, "Content-Length: 10\r\n"));
    CHECK(has(all, "Connection: close\r\n"));
    CHECK(all.substr(all.size() - 4) == "\r\n\r\n");
    wire old(ex, b.server.port());
    co_await write_all(old.socket(), "GET /old HTTP/1.0\r\n\r\n");
    all = co_await drain(old.socket(), reset);
    CHECK(has(all, "GET /old []"));
    co_await b.server.stop();
}

asio::awaitable<void> refusals() {
    const auto ex = co_await asio::this_coro::executor;
    bench b(ex, echo, http::server_options().max_body(1000));
    std::vector<std::pair<std::string, std::string>> cases;
    cases.emplace_back("nonsense\r\n\r\n", " 400 ");
    cases.emplace_back("GET / HTTP/1.1\r\nA: " + std::string(100'000, 'x'), " 431 ");
    cases.emplace_back("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nT: " + std::string(70'000, 'x') +
                           "\r\n\r\n",
                       " 431 ");
    cases.emplace_back("POST / HTTP/1.1\r\nContent-Length: 1001\r\n\r\n" + std::string(1001, 'x'), " 413 ");
    cases.emplace_back("POST / HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 99999999999\r\n\r\n", " 413 ");
    cases.emplace_back("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nffff\r\n" + std::string(70'000, 'x'),
                       " 413 ");
    cases.emplace_back("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1;" + std::string(300'000, 'x'), " 400 ");
    for (const auto& [bytes, status] : cases) {
        INFO(bytes.substr(0, 50));
        wire w(ex, b.server.port());
        co_await write_all(w.socket(), bytes);
        const std::string all = co_await expect(w.socket(), "\r\n\r\n");
        CHECK(has(all, status));
        CHECK_FALSE(has(all, "100 Continue"));
        w.socket()->close();
    }
    const std::function<bool()> none = [&] { return b.server.connections() == 0; };
    const bool ok = co_await eventually(none);
    CHECK(ok);
    co_await b.server.stop();
}

// --- faults ----------------------------------------------------------------------------------------------------------

asio::awaitable<void> cutting(request_ptr q, response_ptr r) {
    const auto n = std::stoul(std::string(q->query_value("n")));
    r->cut_after(n, q->has_query("reset"));
    if (q->path == "/send") {
        co_await r->send(200, "text/plain", "0123456789");
        co_return;
    }
    co_await r->begin(200, "text/plain");
    co_await r->write("012");
    co_await r->write("3456789");
    co_await r->end();
}

/// Checks which bytes of the body a client of ours gets, and the failure.
asio::awaitable<void> cut_at(http::client* c, std::string target, std::size_t n) {
    failure f;
    http::request q("GET", target + std::to_string(n));
    auto r = co_await c->send(std::move(q), f);
    std::string body;
    if (!f) body = co_await r.read_all(100, f);
    INFO(target << n << ": " << f.what());
    if (n > 10) {
        CHECK_FALSE(f);
        CHECK(body == "0123456789");
        co_return;
    }
    CHECK(body == std::string("0123456789").substr(0, n));
    // All ten bytes of a sized answer make it complete; a chunked one lacks its end.
    if (n == 10 && target.substr(0, 5) == "/send")
        CHECK_FALSE(f);
    else
        CHECK(f == errc::connection_lost);
}

asio::awaitable<void> cuts() {
    const auto ex = co_await asio::this_coro::executor;
    bench b(ex, cutting);
    auto c = b.client();
    std::vector<std::string> targets{"/send?n=", "/stream?n=", "/send?reset&n=", "/stream?reset&n="};
    for (const auto& target : targets)
        for (std::size_t n = 0; n <= 12; ++n) co_await cut_at(c.get(), target, n);
    co_await b.server.stop();
}

asio::awaitable<void> rough(request_ptr q, response_ptr r) {
    if (q->path == "/reset") r->reset();
    if (q->path == "/close") r->close();
    if (q->path == "/raw") co_await r->write_raw("garbage\r\n\r\n");
    if (q->path == "/unfinished") {
        co_await r->begin(200, "text/plain");
        co_await r->write("x");
    }
    if (q->path == "/throw") throw std::runtime_error("oops");
    if (q->path == "/twice") {
        co_await r->send(200, "text/plain", "one");
        const bool again = co_await r->send(200, "text/plain", "two");
        CHECK_FALSE(again);
    }
}

asio::awaitable<std::string> raw_answer(asio::any_io_executor ex, std::uint16_t port, std::string path,
                                        bool& reset) { // lint: law2 an out-parameter
    wire w(ex, port);
    co_await write_all(w.socket(), "GET " + path + " HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
    const std::string all = co_await drain(w.socket(), reset);
    co_return all;
}

asio::awaitable<void> rough_play() {
    const auto ex = co_await asio::this_coro::executor;
    bench b(ex, rough);
    bool reset = false;
    std::string all = co_await raw_answer(ex, b.server.port(), "/reset", reset);
    CHECK(reset);
    CHECK(all.empty());
    all = co_await raw_answer(ex, b.server.port(), "/close", reset);
    CHECK_FALSE(reset);
    CHECK(all.empty());
    all = co_await raw_answer(ex, b.server.port(), "/raw", reset);
    CHECK_FALSE(reset);
    CHECK(all == "garbage\r\n\r\n");
    all = co_await raw_answer(ex, b.server.port(), "/unfinished", reset);
    CHECK(has(all, "1\r\nx\r\n"));
    CHECK_FALSE(has(all, "0\r\n\r\n"));
    all = co_await raw_answer(ex, b.server.port(), "/throw", reset);
    CHECK(has(all, " 500 "));
    all = co_await raw_answer(ex, b.server.port(), "/nothing", reset);
    CHECK(has(all, " 500 "));
    all = co_await raw_answer(ex, b.server.port(), "/twice", reset);
    CHECK(has(all, "one"));
    CHECK_FALSE(has(all, "two"));
    co_await b.server.stop();
}

asio::awaitable<void> accept_modes() {
    const auto ex = co_await asio::this_coro::executor;
    bench b(ex, echo);
    auto c = b.client();
    failure f;
    http::request q("GET", "/");
    b.server.on_accept(http::server::accept_mode::reset);
    co_await c->send(q, f);
    CHECK((f == errc::connect_failed || f == errc::connection_lost || f == errc::write_failed)); // whichever is first
    b.server.on_accept(http::server::accept_mode::stall);
    q.time(http::timeouts().header(30ms));
    co_await c->send(q, f);
    CHECK(f == errc::header_timeout);
    b.server.on_accept(http::server::accept_mode::serve);
    q.time(http::timeouts());
    co_await c->send(q, f);
    CHECK_FALSE(f);
    co_await b.server.stop();
}

// --- noticing that the peer left -------------------------------------------------------------------------------------

struct watch_state {
    int begun = 0, left = 0, called = 0;
    bool was_gone = true;
};

asio::awaitable<void> watch(request_ptr, response_ptr r, std::shared_ptr<watch_state> s) {
    s->was_gone = r->gone();
    r->on_gone([s] { ++s->called; });
    co_await r->begin(200, "text/plain");
    co_await r->write("event\n");
    ++s->begun;
    co_await r->wait_gone();
    ++s->left;
    CHECK(r->gone());
    const bool ok = co_await r->write("more");
    CHECK_FALSE(ok);
}

asio::awaitable<void> leaving(bool tls) {
    const auto ex = co_await asio::this_coro::executor;
    const auto s = std::make_shared<watch_state>();
    http::server_options o;
    if (tls) o.tls(server_tls(loopback_pair()));
    bench b(
        ex, [s](request_ptr q, response_ptr r) { return watch(q, r, s); }, o);
    auto c = b.client(http::client_options().tls(http::tls_options().insecure()));
    failure f;
    char buffer[100];
    http::request q("GET", "/");
    auto r = co_await c->send(q, f);
    REQUIRE_FALSE(f);
    co_await r.read_some(asio::buffer(buffer), f);
    const std::function<bool()> begun = [&] { return s->begun == 1; };
    bool ok = co_await eventually(begun);
    CHECK(ok);
    CHECK_FALSE(s->was_gone);
    CHECK(s->called == 0);
    r.close();
    const std::function<bool()> left = [&] { return s->left == 1; };
    ok = co_await eventually(left);
    CHECK(ok); // while the handler waited and nothing was written
    CHECK(s->called == 1);

    auto second = co_await c->send(q, f);
    REQUIRE_FALSE(f);
    co_await second.read_some(asio::buffer(buffer), f);
    b.server.stop_listening(true); // dropping connections tells handlers, too
    const std::function<bool()> left_again = [&] { return s->left == 2; };
    ok = co_await eventually(left_again);
    CHECK(ok);
    co_await second.read_some(asio::buffer(buffer), f);
    CHECK(f == errc::connection_lost);
    co_await b.server.stop();
}

asio::awaitable<void> wait_with(request_ptr, response_ptr r, std::shared_ptr<watch_state> s) {
    const auto broken = [] { throw std::runtime_error("no way"); };
    r->on_gone(nullptr);
    r->on_gone(broken);
    r->on_gone([s] { ++s->called; });
    ++s->begun;
    co_await r->wait_gone();
    r->on_gone(broken);
    r->on_gone(nullptr);
    ++s->left;
}

asio::awaitable<void> broken_callbacks() {
    const auto ex = co_await asio::this_coro::executor;
    const auto s = std::make_shared<watch_state>();
    informer::testing::log_capture log;
    runtime rt(ex);
    rt.with_logger(log.logger());
    http::server server(rt, http::server_options(), [s](request_ptr q, response_ptr r) { return wait_with(q, r, s); });
    failure f;
    server.listen(f);
    wire w(ex, server.port());
    co_await write_all(w.socket(), "GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    const std::function<bool()> begun = [&] { return s->begun == 1; };
    const bool ok = co_await eventually(begun);
    REQUIRE(ok);
    co_await server.stop();
    CHECK(s->called == 1);
    CHECK(s->left == 1);
    CHECK(log.count("no way") == 2);
}

asio::awaitable<void> stopping(bool tls) {
    const auto ex = co_await asio::this_coro::executor;
    const auto s = std::make_shared<watch_state>();
    http::server_options o;
    if (tls) o.tls(server_tls(loopback_pair()));
    bench b(
        ex, [s](request_ptr q, response_ptr r) { return watch(q, r, s); }, o);
    auto c = b.client(http::client_options().tls(http::tls_options().insecure()));
    failure f;
    http::request q("GET", "/");
    std::vector<http::response> open;
    for (int i = 0; i < 3; ++i) open.push_back(co_await c->send(q, f));
    wire silent(ex, b.server.port()); // a connection that never says anything
    const std::function<bool()> all_in = [&] { return b.server.connections() == 4 && s->begun == 3; };
    const bool ok = co_await eventually(all_in);
    CHECK(ok);
    {
        const auto not_awaited = b.server.stop(); // as by a caller that is cancelled before it awaits
    }
    CHECK_FALSE(b.server.listening());
    co_await b.server.stop();
    CHECK(s->called == 3);
    CHECK(b.server.connections() == 0);
    CHECK_FALSE(b.server.listening());
    co_await b.server.stop(); // again: nothing
    b.server.listen(f);
    CHECK(f == errc::stopped);
}

asio::awaitable<void> restart() {
    const auto ex = co_await asio::this_coro::executor;
    bench b(ex, echo);
    auto c = b.client();
    failure f;
    http::request q("GET", "/");
    const auto port = b.server.port();
    for (int i = 0; i < 3; ++i) {
        b.server.stop_listening(i == 1);
        CHECK_FALSE(b.server.listening());
        co_await c->send(http::request("GET", "/").header("Connection", "close"), f);
        if (i == 0) CHECK(f == errc::connection_refused);
        b.server.listen(f);
        REQUIRE_FALSE(f);
        CHECK(b.server.port() == port);
        auto r = co_await c->send(q, f);
        CHECK_FALSE(f);
        co_await r.read_all(100, f);
    }
    http::server taken(runtime(ex), http::server_options().port(port), echo);
    taken.listen(f);
    CHECK(f == errc::bad_configuration);
    CHECK(f.message().find(std::to_string(port)) != std::string::npos);
    co_await b.server.stop();
}

asio::awaitable<void> large_request(bool tls) {
    const auto ex = co_await asio::this_coro::executor;
    http::server_options o;
    if (tls) o.tls(server_tls(loopback_pair()));
    bench b(ex, echo, o);
    auto c = b.client(http::client_options().tls(http::tls_options().insecure()));
    failure f;
    std::string body(5'000'000, 'x');
    body[4'999'999] = 'y';
    http::request q("POST", "/");
    q.body(body, "text/plain");
    auto r = co_await c->send(std::move(q), f);
    REQUIRE_FALSE(f);
    const std::string text = co_await r.read_all(10'000'000, f);
    CHECK(text == "POST / [" + body + "]");
    co_await b.server.stop();
}

asio::awaitable<void> refused_upload() {
    const auto ex = co_await asio::this_coro::executor;
    bench b(ex, echo, http::server_options().max_body(1000));
    auto c = b.client();
    failure f;
    http::request q("POST", "/");
    q.body(std::string(30'000'000, 'x'), "text/plain");
    auto r = co_await c->send(std::move(q), f);
    CHECK_FALSE(f);
    CHECK(r.status() == 413);
    co_await b.server.stop();
}

asio::awaitable<void> injection() {
    const auto ex = co_await asio::this_coro::executor;
    bench b(ex, echo);
    auto c = b.client();
    failure f;
    std::vector<http::request> bad{http::request("GET", "/a b"),
                                   http::request("GET", "/\r\nX: y"),
                                   http::request("G T", "/"),
                                   http::request("GET", "no-slash"),
                                   http::request("GET", "/").header("Authorization", "Bearer s3cret\r\nX: y"),
                                   http::request("GET", "/").header("X y", "z")};
    for (auto& q : bad) {
        co_await c->send(std::move(q), f);
        CHECK(f == errc::bad_configuration);
        CHECK_FALSE(has(f.what(), "s3cret"));
    }
    CHECK(c->figures().connections_opened == 0);
    co_await b.server.stop();
}

} // namespace

TEST_CASE("requests: queries, chunked bodies, pipelining, 100-continue, HEAD, Connection: close, HTTP/1.0") {
    run_test(requests());
}
TEST_CASE("requests that break a rule or a limit are refused, and the refusal arrives") {
    run_test(refusals());
}
TEST_CASE("cut_after cuts at exactly that byte of the body, with FIN or RST") {
    run_test(cuts());
}
TEST_CASE("reset, close, raw bytes, an exception, no answer, half an answer, two answers") {
    run_test(rough_play());
}
TEST_CASE("new connections can be reset or left waiting") {
    run_test(accept_modes());
}
TEST_CASE("a handler learns that its peer left while it waits") {
    run_test(leaving(false));
    run_test(leaving(true));
}
TEST_CASE("a function that a handler gives to on_gone may throw, or be null") {
    run_test(broken_callbacks());
}
TEST_CASE("stop ends every connection and every handler") {
    run_test(stopping(false));
    run_test(stopping(true));
}
TEST_CASE("the server stops listening and listens again on its port") {
    run_test(restart());
}
TEST_CASE("large request bodies arrive") {
    run_test(large_request(false));
    run_test(large_request(true));
}
TEST_CASE("an upload that is refused before its end sees the refusal") {
    run_test(refused_upload());
}
TEST_CASE("values that would break the framing of a request are refused, and secrets are not shown") {
    run_test(injection());
}
