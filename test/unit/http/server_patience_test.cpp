// The server and peers that do not mean well: its patience, and its limit of connections.
#include "raw_peer.hpp"

#include <functional>

using namespace http_test;

namespace {

asio::awaitable<void> impatience(bool talks_first) {
    const auto ex = co_await asio::this_coro::executor;
    bench b(ex, echo, http::server_options().patience(50ms));
    wire w(ex, b.server.port());
    if (talks_first) {
        co_await write_all(w.socket(), "GET /1 HTTP/1.1\r\nHost: h\r\n\r\n");
        const std::string all = co_await expect(w.socket(), "GET /1 []");
    }
    co_await write_all(w.socket(), "GET /half HTT"); // and not a byte more
    bool reset = false;
    const std::string rest = co_await drain(w.socket(), reset);
    CHECK(rest.empty());
    CHECK(reset);
    CHECK(b.server.connections() == 0);
    co_await b.server.stop();
}

asio::awaitable<void> impatience_with_a_body() {
    const auto ex = co_await asio::this_coro::executor;
    bench b(ex, echo, http::server_options().patience(50ms));
    wire w(ex, b.server.port());
    co_await write_all(w.socket(), "PUT / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n");
    const std::string all = co_await expect(w.socket(), "100 Continue\r\n\r\n"); // and then not a byte
    const std::function<bool()> none = [&] { return b.server.connections() == 0; };
    const bool gone = co_await eventually(none);
    CHECK(gone);
    co_await b.server.stop();
}

asio::awaitable<void> unread_answers() {
    const auto ex = co_await asio::this_coro::executor;
    bool finished = false, sent = true;
    bench b(
        ex,
        [&](request_ptr, response_ptr r) -> asio::awaitable<void> { // lint: law2 the test outlives its server
            sent = co_await r->send(200, "text/plain", std::string(64 << 20, 'x'));
            finished = true;
        },
        http::server_options().patience(50ms));
    wire w(ex, b.server.port());
    co_await write_all(w.socket(), "GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    const std::function<bool()> over = [&] { return finished; };
    const bool ok = co_await eventually(over);
    CHECK(ok);
    CHECK_FALSE(sent);
    co_await b.server.stop();
}

asio::awaitable<void> crowd() {
    const auto ex = co_await asio::this_coro::executor;
    unsigned asked = 0;
    bench b(
        ex,
        [&](request_ptr q, response_ptr r) -> asio::awaitable<void> { // lint: law2 the test outlives its server
            ++asked;
            if (q->path == "/busy")
                co_await r->wait_gone();
            else
                co_await echo(q, r);
        },
        http::server_options().max_connections(2));
    wire first(ex, b.server.port()), second(ex, b.server.port());
    co_await write_all(first.socket(), "GET /busy HTTP/1.1\r\nHost: h\r\n\r\n");
    co_await write_all(second.socket(), "GET /busy HTTP/1.1\r\nHost: h\r\n\r\n");
    const std::function<bool()> both = [&] { return asked == 2; };
    bool ok = co_await eventually(both);
    CHECK(ok);
    wire third(ex, b.server.port());
    bool reset = false;
    const std::string nothing = co_await drain(third.socket(), reset);
    CHECK(nothing.empty());
    CHECK(b.server.connections() == 2);
    first.socket()->close();
    const std::function<bool()> one = [&] { return b.server.connections() == 1; };
    ok = co_await eventually(one);
    CHECK(ok);
    wire fourth(ex, b.server.port());
    co_await write_all(fourth.socket(), "GET /4 HTTP/1.1\r\nHost: h\r\n\r\n");
    const std::string all = co_await expect(fourth.socket(), "GET /4 []");
    co_await b.server.stop();
}

/// One connection has been answered, another one sent half a request before that, and then a third one comes.
asio::awaitable<void> half_askers() {
    const auto ex = co_await asio::this_coro::executor;
    bench b(ex, echo, http::server_options().max_connections(2));
    wire half(ex, b.server.port());
    co_await write_all(half.socket(), "GET /half HTTP/1.1\r\nHo");
    const std::function<bool()> one = [&] { return b.server.connections() == 1; };
    bool ok = co_await eventually(one);
    CHECK(ok);
    wire answered(ex, b.server.port());
    co_await write_all(answered.socket(), "GET /1 HTTP/1.1\r\nHost: h\r\n\r\n");
    std::string all = co_await expect(answered.socket(), "GET /1 []");
    wire third(ex, b.server.port());
    co_await write_all(third.socket(), "GET /2 HTTP/1.1\r\nHost: h\r\n\r\n");
    all = co_await expect(third.socket(), "GET /2 []");
    bool reset = false;
    const std::string nothing = co_await drain(half.socket(), reset);
    CHECK(nothing.empty());
    CHECK(reset);
    co_await write_all(answered.socket(), "GET /3 HTTP/1.1\r\nHost: h\r\n\r\n");
    all = co_await expect(answered.socket(), "GET /3 []");
    CHECK(b.server.connections() == 2);
    co_await b.server.stop();
}

} // namespace

TEST_CASE("a peer that makes the server wait for its request longer than the patience is disconnected") {
    run_test(impatience(false));
    run_test(impatience(true));
    run_test(impatience_with_a_body());
}
TEST_CASE("a peer that does not read the answer is disconnected when the server's patience ends") {
    run_test(unread_answers());
}
TEST_CASE("connections beyond the limit are reset while all others are busy, and there is room again when one ends") {
    run_test(crowd());
}
TEST_CASE("a connection beyond the limit takes the place of the one that has kept the server waiting the longest") {
    run_test(half_askers());
}
