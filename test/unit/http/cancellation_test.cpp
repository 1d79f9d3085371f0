// Cancelling and destroying at every phase: at once, as errc::cancelled, and with nothing left behind.
#include "support.hpp"

#include <boost/asio/detached.hpp>

using namespace http_test;

namespace {

asio::awaitable<void> stall(request_ptr, response_ptr r) {
    co_await r->wait_gone();
}

asio::awaitable<void> half(request_ptr, response_ptr r) {
    co_await r->begin(200, "text/plain");
    co_await r->write("half");
    co_await r->wait_gone();
}

/// The outcome of a cancelled request.
struct result {
    failure f;
    bool done = false, reading = false;
    std::size_t read = 0;
};

asio::awaitable<void> fetch(http::client* c, http::request q, std::shared_ptr<result> out) {
    co_await asio::this_coro::throw_if_cancelled(false);
    auto r = co_await c->send(std::move(q), out->f);
    if (!out->f) {
        char buffer[100];
        out->reading = true;
        for (;;) {
            const std::size_t n = co_await r.read_some(asio::buffer(buffer), out->f);
            out->read += n;
            if (n == 0) break;
        }
    }
    out->done = true;
}

/// Runs a request, waits until `reached`, cancels, and expects the end at once.
asio::awaitable<void> cancel_when(http::client* c, http::request q, std::function<bool(const result&)> reached) {
    const auto ex = co_await asio::this_coro::executor;
    const auto out = std::make_shared<result>();
    cancellable work(ex, fetch(c, std::move(q), out));
    const std::function<bool()> there = [&] { return reached(*out); };
    const bool ok = co_await eventually(there);
    CHECK(ok);
    const auto start = std::chrono::steady_clock::now();
    work.cancel();
    co_await work.join();
    CHECK(std::chrono::steady_clock::now() - start < 8s); // every limit is longer
    CHECK(out->done);
    CHECK(out->f == errc::cancelled);
    CHECK(c->figures().idle == 0);
}

asio::awaitable<void> phases(bool tls) {
    const auto ex = co_await asio::this_coro::executor;
    http::server_options o;
    if (tls) o.tls(server_tls(loopback_pair()));
    bench waiting(ex, stall, o), streaming(ex, half, o);
    const auto options = http::client_options().tls(http::tls_options().ca(authority().certificate_pem()));
    auto c = waiting.client(options);
    const std::function<bool(const result&)> sent = [&](const result&) { return c->figures().bytes_sent > 0; };
    co_await cancel_when(c.get(), http::request("GET", "/"), sent);
    const std::function<bool()> noticed = [&] { return waiting.server.connections() == 0; };
    bool ok = co_await eventually(noticed);
    CHECK(ok); // the socket was closed at once

    auto s = streaming.client(options);
    const std::function<bool(const result&)> in_body = [](const result& r) { return r.read == 4; };
    co_await cancel_when(s.get(), http::request("GET", "/"), in_body);
    const std::function<bool()> body_noticed = [&] { return streaming.server.connections() == 0; };
    ok = co_await eventually(body_noticed);
    CHECK(ok);
    co_await waiting.server.stop();
    co_await streaming.server.stop();
}

asio::awaitable<void> in_the_handshake() {
    const auto ex = co_await asio::this_coro::executor;
    bench b(ex, stall, http::server_options().tls(server_tls(loopback_pair())));
    b.server.on_accept(http::server::accept_mode::stall);
    auto c = b.client();
    const std::function<bool(const result&)> connected = [&](const result&) { return b.server.connections() == 1; };
    co_await cancel_when(c.get(), http::request("GET", "/"), connected);
    co_await b.server.stop();
}

asio::awaitable<void> never_reads(std::shared_ptr<tcp::socket> s) {
    asio::steady_timer t(s->get_executor(), 1h);
    co_await t.async_wait(as_result);
}

asio::awaitable<void> while_writing() {
    const auto ex = co_await asio::this_coro::executor;
    raw_peer p(ex, never_reads);
    failure f;
    http::client c(runtime(ex), p.endpoint(), http::client_options(), f);
    http::request q("POST", "/");
    q.body(std::string(64 << 20, 'x'), "text/plain");
    const std::function<bool(const result&)> writing = [&](const result&) { return c.figures().bytes_sent > 0; };
    co_await cancel_when(&c, std::move(q), writing);
    p.close();
}

asio::awaitable<void> before_it_began() {
    const auto ex = co_await asio::this_coro::executor;
    bench b(ex, stall);
    auto c = b.client();
    // Cancelled after k turns of the executor, for every k that can matter: each suspension point is hit.
    bool begun = false;
    for (int turns = 0; turns < 30; ++turns) {
        const auto out = std::make_shared<result>();
        cancellable work(ex, fetch(c.get(), http::request("GET", "/"), out));
        co_await informer::testing::settle(turns);
        work.cancel();
        co_await work.join();
        begun = begun || out->done; // with fewer turns it is dropped before it begins
        CHECK(out->done == begun);
        if (out->done) CHECK(out->f == errc::cancelled);
    }
    CHECK(begun);
    const std::function<bool()> none = [&] { return b.server.connections() == 0; };
    const bool ok = co_await eventually(none);
    CHECK(ok);
    co_await b.server.stop();
}

asio::awaitable<void> closed_by_another() {
    const auto ex = co_await asio::this_coro::executor;
    bench b(ex, half);
    auto c = b.client();
    failure f;
    http::request q("GET", "/");
    auto r = co_await c->send(std::move(q), f);
    REQUIRE_FALSE(f);
    char buffer[10];
    co_await r.read_some(asio::buffer(buffer), f);
    asio::steady_timer t(ex, 10ms);
    t.async_wait([&r](error_code) { r.close(); });
    co_await r.read_some(asio::buffer(buffer), f); // would wait for ever
    CHECK(f == errc::cancelled);
    co_await b.server.stop();
}

asio::awaitable<void> forgotten(http::client* c) {
    failure f;
    http::request q("GET", "/");
    auto r = co_await c->send(std::move(q), f);
    char buffer[10];
    for (;;) {
        const std::size_t n = co_await r.read_some(asio::buffer(buffer), f);
        if (n == 0) break;
    }
}

} // namespace

TEST_CASE("cancelling while waiting for the header and while reading the body closes the socket at once") {
    run_test(phases(false));
    run_test(phases(true));
}
TEST_CASE("cancelling in the TLS handshake") {
    run_test(in_the_handshake());
}
TEST_CASE("cancelling while the request is being written") {
    run_test(while_writing());
}
TEST_CASE("cancelling at every suspension point") {
    run_test(before_it_began());
}
TEST_CASE("closing a response ends the read that waits for it") {
    run_test(closed_by_another());
}

TEST_CASE("an io_context may be destroyed after any number of handlers") {
    for (const bool tls : {false, true}) {
        bool more = true; // whether there were k handlers to run
        for (int k = 0; more; ++k) {
            REQUIRE(k < 1000);
            asio::io_context context(1);
            http::server_options o;
            if (tls) o.tls(server_tls(loopback_pair()));
            bench b(context.get_executor(), half, o);
            auto c = b.client(http::client_options().tls(http::tls_options().insecure()));
            asio::co_spawn(context, forgotten(c.get()), asio::detached);
            for (int i = 0; i < k && more; ++i) more = context.run_one_for(20ms) > 0;
        }
    }
}
