// Keep-alive: connections are used again, stale ones are noticed, and only a GET is ever sent twice.
#include "support.hpp"

#include "http/pool.hpp"

using namespace http_test;

namespace {

asio::awaitable<void> number(request_ptr q, response_ptr r) {
    co_await r->send(200, "text/plain", std::to_string(q->connection));
}

asio::awaitable<std::string> text_of(http::client* c, http::request q, failure& f) {
    auto r = co_await c->send(std::move(q), f);
    if (f) co_return std::string();
    auto text = co_await r.read_all(1000, f);
    co_return text;
}

http::request get() {
    return http::request("GET", "/");
}
http::request post() {
    return http::request("POST", "/").body("x", "text/plain");
}

asio::awaitable<void> reuse(bool tls) {
    const auto ex = co_await asio::this_coro::executor;
    http::server_options o;
    if (tls) o.tls(server_tls(loopback_pair()));
    bench b(ex, number, o);
    auto c = b.tls_client(http::tls_options().ca(authority().certificate_pem()));
    failure f;
    for (int i = 0; i < 5; ++i) {
        http::request q = get();
        if (i == 2) q = post();
        const std::string text = co_await text_of(c.get(), std::move(q), f);
        CHECK_FALSE(f);
        CHECK(text == "1");
    }
    CHECK(c->figures().connections_opened == 1);
    CHECK(c->figures().requests == 5);
    CHECK(c->figures().idle == 1);
    CHECK(c->figures().bytes_sent > 0);
    CHECK(c->figures().bytes_received > 0);
    c->close_idle();
    CHECK(c->figures().idle == 0);
    const std::function<bool()> closed = [&] { return b.server.connections() == 0; };
    const bool seen1 = co_await eventually(closed);
    CHECK(seen1);
    const std::string text = co_await text_of(c.get(), get(), f);
    CHECK(text == "2");
    co_await b.server.stop();
}

asio::awaitable<void> limits() {
    const auto ex = co_await asio::this_coro::executor;
    bench b(ex, number);
    auto c = b.client(http::client_options().max_idle(2));
    failure f;
    std::vector<http::response> open;
    for (int i = 0; i < 4; ++i) {
        open.push_back(co_await c->send(get(), f));
        REQUIRE_FALSE(f);
    }
    for (auto& r : open) co_await r.read_all(100, f);
    CHECK(c->figures().idle == 2);
    const std::function<bool()> two_left = [&] { return b.server.connections() == 2; };
    const bool seen2 = co_await eventually(two_left);
    CHECK(seen2);
    auto brief = b.client(http::client_options().idle_for(0s));
    co_await text_of(brief.get(), get(), f);
    co_await text_of(brief.get(), get(), f);
    CHECK(brief->figures().connections_opened == 2);
    auto for_ever = b.client(http::client_options().idle_for(std::chrono::seconds::max()));
    co_await text_of(for_ever.get(), get(), f);
    co_await text_of(for_ever.get(), get(), f);
    CHECK(for_ever->figures().connections_opened == 1);
    auto never = b.client(http::client_options().max_idle(0));
    co_await text_of(never.get(), get(), f);
    CHECK(never->figures().idle == 0);
    co_await b.server.stop();
}

asio::awaitable<void> stale(bool tls, bool reset) {
    const auto ex = co_await asio::this_coro::executor;
    http::server_options o;
    if (tls) o.tls(server_tls(loopback_pair()));
    bench b(ex, number, o);
    auto c = b.tls_client(http::tls_options().ca(authority().certificate_pem()));
    failure f;
    co_await text_of(c.get(), get(), f);
    CHECK(c->figures().idle == 1);
    b.server.stop_listening(reset);
    if (!reset) co_await b.server.stop();
    bench again(ex, number, o);
    if (reset) b.server.listen(f);
    REQUIRE_FALSE(f);
    if (reset) {
        // Even a POST goes through: the closed connection is noticed before anything is sent.
        const std::string text = co_await text_of(c.get(), post(), f);
        CHECK_FALSE(f);
        CHECK(text == "2");
        CHECK(c->figures().requests == 2);
    } else {
        co_await text_of(c.get(), post(), f);
        CHECK(f == errc::connection_refused);
    }
    co_await again.server.stop();
    co_await b.server.stop();
}

/// Answers the first request of each connection and closes when the second one comes: what a server does whose idle
/// time-out ends while a request is on its way.
asio::awaitable<void> answer_once(std::shared_ptr<tcp::socket> s) {
    co_await read_head(s);
    co_await write_all(s, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    co_await read_head(s);
}

asio::awaitable<void> answer_half(std::shared_ptr<tcp::socket> s) {
    co_await read_head(s);
    co_await write_all(s, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    co_await read_head(s);
    co_await write_all(s, "HTTP/1.1 200 OK\r\n");
}

asio::awaitable<void> race(raw_peer::script script, http::request second, int connections, bool works) {
    const auto ex = co_await asio::this_coro::executor;
    raw_peer p(ex, std::move(script));
    failure f;
    http::client c(runtime(ex), p.endpoint(), http::client_options(), f);
    std::string text = co_await text_of(&c, get(), f);
    CHECK(text == "ok");
    CHECK(c.figures().idle == 1);
    text = co_await text_of(&c, std::move(second), f);
    if (works) {
        CHECK_FALSE(f);
        CHECK(text == "ok");
    } else {
        CHECK(f == errc::connection_lost);
    }
    CHECK(p.accepted() == connections);
    p.close();
}

/// Like answer_once; meanwhile the client gets other TLS material.
asio::awaitable<void> answer_once_and_renew(std::shared_ptr<tcp::socket> s, std::shared_ptr<http::client> c) {
    co_await read_head(s);
    co_await write_all(s, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    co_await read_head(s);
    failure f;
    c->set_tls(http::tls_options(), f);
    CHECK_FALSE(f);
}

asio::awaitable<void> renewed_in_a_race() {
    const auto ex = co_await asio::this_coro::executor;
    const auto c = std::make_shared<std::shared_ptr<http::client>>();
    raw_peer p(ex, [c](std::shared_ptr<tcp::socket> s) { return answer_once_and_renew(std::move(s), *c); });
    failure f;
    *c = std::make_shared<http::client>(runtime(ex), p.endpoint(), http::client_options(), f);
    co_await text_of(c->get(), get(), f);
    CHECK((*c)->figures().idle == 1);
    const std::string text = co_await text_of(c->get(), get(), f);
    CHECK_FALSE(f);
    CHECK(text == "ok");
    CHECK(p.accepted() == 2);
    CHECK((*c)->figures().idle == 0); // the second attempt, too, used the material the request began with
    p.close();
}

/// Refuses the second request before it has read it, and closes, like a proxy with a limit for bodies.
asio::awaitable<void> refuse_second(std::shared_ptr<tcp::socket> s) {
    co_await read_head(s);
    co_await write_all(s, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    co_await read_head(s);
    co_await write_all(s, "HTTP/1.1 413 Payload Too Large\r\nConnection: close\r\nContent-Length: 3\r\n\r\nbig");
}

asio::awaitable<void> refused_on_a_used_connection() {
    const auto ex = co_await asio::this_coro::executor;
    raw_peer p(ex, refuse_second);
    failure f;
    http::client c(runtime(ex), p.endpoint(), http::client_options(), f);
    co_await text_of(&c, get(), f);
    REQUIRE(c.figures().idle == 1);
    http::request q("PUT", "/");
    q.body(std::string(30'000'000, 'x'), "text/plain");
    auto r = co_await c.send(std::move(q), f);
    CHECK_FALSE(f);
    CHECK(r.status() == 413);
    CHECK(p.accepted() == 1);
    p.close();
}

/// A request on a connection numbered up to `up_to` gets no answer.
struct silent_from {
    std::shared_ptr<std::uint64_t> up_to = std::make_shared<std::uint64_t>(0);
    asio::awaitable<void> operator()(request_ptr q, response_ptr r) const {
        return answer(up_to, std::move(q), std::move(r));
    }
    static asio::awaitable<void> answer(std::shared_ptr<std::uint64_t> up_to, request_ptr q, response_ptr r) {
        if (q->connection <= *up_to)
            co_await r->wait_gone();
        else
            co_await number(std::move(q), std::move(r));
    }
};

enum class left_by { time_out, cancellation };

asio::awaitable<void> send_to_nobody(http::client* c) {
    failure f;
    co_await c->send(http::request("PUT", "/"), f);
    CHECK(f == errc::cancelled);
}

asio::awaitable<void> dropped_flows(left_by how) {
    const auto ex = co_await asio::this_coro::executor;
    silent_from script;
    bench b(ex, script);
    auto c = b.client();
    failure f;
    std::vector<http::response> open;
    for (int i = 0; i < 3; ++i) {
        open.push_back(co_await c->send(get(), f));
        REQUIRE_FALSE(f);
    }
    for (auto& r : open) co_await r.read_all(100, f);
    REQUIRE(c->figures().idle == 3);
    *script.up_to = 3;
    if (how == left_by::time_out) {
        http::request lost("PUT", "/");
        lost.time(http::timeouts().request(20ms));
        co_await text_of(c.get(), std::move(lost), f);
        CHECK(f == errc::request_timeout);
    } else {
        cancellable lost(ex, send_to_nobody(c.get()));
        const std::function<bool()> sent = [&] { return c->figures().requests == 4; };
        co_await eventually(sent);
        lost.cancel();
        co_await lost.join();
    }
    http::request next = get();
    next.time(http::timeouts().request(5s));
    const std::string text = co_await text_of(c.get(), std::move(next), f);
    CHECK_FALSE(f);
    CHECK(text == "4");
    co_await b.server.stop();
}

asio::awaitable<void> lose_at_once(std::shared_ptr<tcp::socket> s) {
    co_await read_head(s);
}

asio::awaitable<void> fresh_loss() {
    const auto ex = co_await asio::this_coro::executor;
    raw_peer p(ex, lose_at_once);
    failure f;
    http::client c(runtime(ex), p.endpoint(), http::client_options(), f);
    co_await text_of(&c, get(), f);
    CHECK(f == errc::connection_lost);
    CHECK(p.accepted() == 1);
    p.close();
}

asio::awaitable<void> chatty(std::shared_ptr<tcp::socket> s) {
    co_await read_head(s);
    co_await write_all(
        s, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil");
    co_await read_to_end(s);
}

asio::awaitable<void> unasked_answer() {
    const auto ex = co_await asio::this_coro::executor;
    raw_peer p(ex, chatty);
    failure f;
    http::client c(runtime(ex), p.endpoint(), http::client_options(), f);
    const std::string text = co_await text_of(&c, get(), f);
    CHECK(text == "ok");
    CHECK(c.figures().idle == 0);
    p.close();
}

asio::awaitable<void> closing_answer(std::shared_ptr<tcp::socket> s) {
    co_await read_head(s);
    co_await write_all(s, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok");
    co_await read_to_end(s);
}

asio::awaitable<void> told_to_close() {
    const auto ex = co_await asio::this_coro::executor;
    raw_peer p(ex, closing_answer);
    failure f;
    http::client c(runtime(ex), p.endpoint(), http::client_options(), f);
    co_await text_of(&c, get(), f);
    CHECK_FALSE(f);
    CHECK(c.figures().idle == 0);
    p.close();
}

asio::awaitable<void> stream_for_ever(request_ptr, response_ptr r) {
    co_await r->begin(200, "text/plain");
    co_await r->write("first");
    co_await r->wait_gone();
}

asio::awaitable<void> lifetimes() {
    const auto ex = co_await asio::this_coro::executor;
    bench b(ex, stream_for_ever);
    auto c = b.client();
    failure f;
    char buffer[100];
    {
        auto given_up = co_await c->send(get(), f);
        REQUIRE_FALSE(f);
        CHECK(b.server.connections() == 1);
    }
    const std::function<bool()> closed = [&] { return b.server.connections() == 0; };
    const bool seen3 = co_await eventually(closed); // the handler noticed
    CHECK(seen3);
    CHECK(c->figures().idle == 0);

    auto outlives = co_await c->send(get(), f);
    REQUIRE_FALSE(f);
    c.reset();
    auto moved = std::move(outlives);
    const std::size_t n = co_await moved.read_some(asio::buffer(buffer), f);
    CHECK(n == 5);
    CHECK(moved.status() == 200);
    moved.close();
    co_await moved.read_some(asio::buffer(buffer), f);
    CHECK(f == errc::cancelled);
    const bool seen4 = co_await eventually(closed);
    CHECK(seen4);
    http::response none;
    CHECK(none.status() == 0);
    co_await none.read_some(asio::buffer(buffer), f);
    CHECK(f);
    co_await none.read_all(10, f);
    CHECK(f);
    co_await b.server.stop();
}

} // namespace

TEST_CASE("connections are kept alive and used again") {
    run_test(reuse(false));
    run_test(reuse(true));
}
TEST_CASE("idle connections are limited in number and in time") {
    run_test(limits());
}
TEST_CASE("an idle connection that the peer closed is noticed before it is used") {
    run_test(stale(false, true));
    run_test(stale(true, true));
    run_test(stale(false, false));
}
TEST_CASE("a GET that meets a closing connection is sent again once, on a new one") {
    run_test(race(answer_once, get(), 2, true));
}
TEST_CASE("a connection for a GET that is sent again is not kept if the TLS material has changed meanwhile") {
    run_test(renewed_in_a_race());
}
TEST_CASE("a POST that meets a closing connection is not sent again") {
    run_test(race(answer_once, post(), 1, false));
    run_test(race(answer_once, http::request("DELETE", "/"), 1, false));
}
TEST_CASE("a GET whose answer had begun is not sent again") {
    run_test(race(answer_half, get(), 1, false));
}
TEST_CASE("a connection that was used before and stays silent makes the client drop the idle ones") {
    run_test(dropped_flows(left_by::time_out));
    run_test(dropped_flows(left_by::cancellation));
}
TEST_CASE("an upload that is refused before its end gets the refusal, also on a connection that was used before") {
    run_test(refused_on_a_used_connection());
}
TEST_CASE("a GET on a new connection is not sent again") {
    run_test(fresh_loss());
}
TEST_CASE("bytes that were not requested make a connection unfit for reuse") {
    run_test(unasked_answer());
}
TEST_CASE("Connection: close is honoured") {
    run_test(told_to_close());
}
TEST_CASE("a response that is given up closes its connection; a response may outlive its client") {
    run_test(lifetimes());
}

TEST_CASE("a connection is not kept if its client is gone, its TLS material was replaced, or bytes are pending") {
    using http::detail::connection;
    http::detail::pool p(2, std::chrono::hours(1));
    const auto kept = [&p](std::uint64_t generation, bool pending = false) {
        auto c = std::make_unique<connection>();
        c->generation = generation;
        if (pending) {
            c->in.prepare();
            c->in.commit(1);
        }
        const auto before = p.figures.idle;
        p.give(std::move(c));
        return p.figures.idle > before;
    };
    const std::uint64_t first = p.generation();
    CHECK(kept(first));
    CHECK_FALSE(kept(first, true));
    p.renew();
    CHECK(p.figures.idle == 0);
    CHECK_FALSE(kept(first));
    CHECK(kept(p.generation()));
    p.close();
    CHECK(p.figures.idle == 0);
    CHECK_FALSE(kept(p.generation()));
}
