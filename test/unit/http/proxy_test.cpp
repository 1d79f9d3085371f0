// Requests through a proxy that works: CONNECT, whole URLs and SOCKS 5.
#include "support.hpp"

#include "support/http_proxy.hpp"

using namespace http_test;
using informer::testing::http_proxy;

namespace {

const char* const basic = "Basic bWU6czNjcmV0"; // me:s3cret

struct seen {
    std::vector<std::string> lines; ///< "GET /path host"
    bool proxy_header = false;
};

asio::awaitable<void> note(std::shared_ptr<seen> s, request_ptr q, response_ptr r) {
    s->lines.push_back(q->method + " " + q->target + " " + std::string(q->header("Host")));
    s->proxy_header = s->proxy_header || !q->header("Proxy-Authorization").empty();
    co_await r->send(200, "text/plain", std::to_string(q->connection) + " " + q->body);
}

http::server_handler noting(std::shared_ptr<seen> s) {
    return [s](request_ptr q, response_ptr r) { return note(s, std::move(q), std::move(r)); };
}

http::proxy by(const http_proxy& p, const std::string& scheme, const std::string& login = "") {
    failure f;
    const auto made = http::proxy::parse(scheme + "://" + login + "127.0.0.1:" + std::to_string(p.port()), f);
    REQUIRE_FALSE(f);
    return made;
}

http::client_options options(http::proxy p) {
    return http::client_options().proxy(std::move(p)).tls(http::tls_options().ca(authority().certificate_pem()));
}

asio::awaitable<std::string> text_of(http::client* c, http::request q, failure& f) {
    auto r = co_await c->send(std::move(q), f);
    if (f) co_return std::string();
    auto text = co_await r.read_all(1000, f);
    co_return std::to_string(r.status()) + " " + text;
}

http::request get(std::string target = "/") {
    return http::request("GET", std::move(target));
}

http::server_options over(bool tls) {
    http::server_options o;
    if (tls) o.tls(server_tls(loopback_pair()));
    return o;
}

/// A proxy and a server, and what each of them received.
struct scene {
    scene(asio::any_io_executor ex, bool tls)
        : proxy(ex), b(ex, noting(server), over(tls)), port(std::to_string(b.server.port())) {}
    std::shared_ptr<seen> server = std::make_shared<seen>();
    http_proxy proxy;
    bench b;
    std::string port;
    asio::awaitable<void> stop() {
        co_await b.server.stop();
        co_await proxy.stop();
    }
};

asio::awaitable<void> https_by_connect() {
    const auto ex = co_await asio::this_coro::executor;
    scene s(ex, true);
    auto c = s.b.client(options(by(s.proxy, "http")), "api.test"); // a name that only the proxy knows
    failure f;
    for (int i = 0; i < 3; ++i) {
        const std::string text = co_await text_of(c.get(), get("/a?b=c"), f);
        CHECK_FALSE(f);
        CHECK(text == "200 1 ");
    }
    CHECK(s.proxy.asked() == std::vector<std::string>{"CONNECT api.test:" + s.port});
    CHECK(s.server->lines == std::vector<std::string>(3, "GET /a?b=c api.test:" + s.port));
    CHECK(c->figures().connections_opened == 1);

    // The server behind the proxy must still prove its name.
    auto wrong = s.b.client(options(by(s.proxy, "http")), "other.test");
    co_await text_of(wrong.get(), get(), f);
    CHECK(f == errc::tls_failed);
    CHECK(f.message().find("certificate is not valid for other.test") != std::string::npos);
    auto stranger = s.b.client(http::client_options().proxy(by(s.proxy, "http")), "api.test");
    co_await text_of(stranger.get(), get(), f);
    CHECK(f == errc::tls_failed);
    co_await s.stop();
}

asio::awaitable<void> http_by_whole_urls() {
    const auto ex = co_await asio::this_coro::executor;
    scene s(ex, false);
    failure f;
    auto to = s.b.endpoint("api.test");
    to.prefix = "/prefix";
    s.proxy.demand(basic, "", "");
    http::client c(s.b.rt, to, options(by(s.proxy, "http", "me:s3cret@")), f);
    REQUIRE_FALSE(f);
    std::string text = co_await text_of(&c, get("/x"), f);
    CHECK(text == "200 1 ");
    http::request q("POST", "/y");
    q.body("body", "text/plain");
    text = co_await text_of(&c, std::move(q), f);
    CHECK(text == "200 1 body");
    const std::string url = "http://api.test:" + s.port + "/prefix";
    CHECK(s.proxy.asked() == std::vector<std::string>{"GET " + url + "/x", "POST " + url + "/y"});
    CHECK(s.server->lines ==
          std::vector<std::string>{"GET /prefix/x api.test:" + s.port, "POST /prefix/y api.test:" + s.port});
    CHECK_FALSE(s.server->proxy_header);
    CHECK(c.figures().connections_opened == 1);
    // A 407 is the proxy's own answer, as to CONNECT; any other status that the proxy makes up is a status like the
    // server's.
    http::client stranger(s.b.rt, to, options(by(s.proxy, "http", "me:s3kret@")), f);
    for (int i = 0; i < 2; ++i) {
        co_await text_of(&stranger, get(), f);
        CHECK(f == errc::connect_failed);
        CHECK(f.message() == "GET " + url + "/: the proxy http://127.0.0.1:" + std::to_string(s.proxy.port()) +
                                 " answered 407 Proxy Authentication Required");
    }
    co_await s.b.server.stop();
    http::client late(s.b.rt, to, options(by(s.proxy, "http", "me:s3cret@")), f);
    text = co_await text_of(&late, get(), f);
    CHECK_FALSE(f);
    CHECK(text == "502 ");
    co_await s.proxy.stop();
}

asio::awaitable<void> by_socks(bool tls) {
    const auto ex = co_await asio::this_coro::executor;
    scene s(ex, tls);
    failure f;
    const std::vector<std::string> schemes{"socks5", "socks5h"}, hosts{"api.test", "127.0.0.1"};
    for (const auto& scheme : schemes)
        for (const auto& host : hosts) {
            auto c = s.b.client(options(by(s.proxy, scheme)), host);
            for (int i = 0; i < 2; ++i) {
                co_await text_of(c.get(), get("/a"), f);
                CHECK_FALSE(f);
            }
            CHECK(c->figures().connections_opened == 1);
            CHECK(s.proxy.asked().back() == "SOCKS " + host + ":" + s.port);
            CHECK(s.server->lines.back() == "GET /a " + host + ":" + s.port);
        }
    CHECK(s.proxy.asked().size() == 4);
    auto v6 = s.b.client(options(by(s.proxy, "socks5")).tls(http::tls_options().insecure()), "fd00::1");
    co_await text_of(v6.get(), get("/a"), f);
    CHECK_FALSE(f);
    CHECK(s.proxy.asked().back() == "SOCKS [fd00::1]:" + s.port);
    co_await s.stop();
}

asio::awaitable<void> logged_in() {
    const auto ex = co_await asio::this_coro::executor;
    scene s(ex, true);
    s.proxy.demand(basic, "me", "s3cret");
    failure f;
    const std::vector<std::string> schemes{"http", "socks5"}, wrong{"me:s3kret@", ""};
    for (const auto& scheme : schemes) {
        auto c = s.b.client(options(by(s.proxy, scheme, "me:s3cret@")), "api.test");
        co_await text_of(c.get(), get(), f);
        CHECK_FALSE(f);
        for (const auto& login : wrong) {
            auto stranger = s.b.client(options(by(s.proxy, scheme, login)), "api.test");
            co_await text_of(stranger.get(), get(), f);
            CHECK(f == errc::connect_failed);
            CHECK(f == condition::retryable);
            const std::string why = scheme == "http" ? " answered 407 Proxy Authentication Required"
                                    : login.empty()  ? " wants to know who we are"
                                                     : " refused the user name or the password";
            const std::string url = scheme + "://127.0.0.1:" + std::to_string(s.proxy.port());
            CHECK(f.message() ==
                  "connect to api.test:" + s.port + ": the proxy " + url + why); // without an echo of what we sent
        }
    }
    CHECK_FALSE(s.server->proxy_header);
    co_await s.stop();
}

asio::awaitable<void> kept_alive(std::string scheme, bool tls) {
    const auto ex = co_await asio::this_coro::executor;
    scene s(ex, tls);
    auto c = s.b.client(options(by(s.proxy, scheme)), "api.test");
    failure f;
    co_await text_of(c.get(), get(), f);
    CHECK_FALSE(f);
    CHECK(c->figures().idle == 1);
    s.proxy.cut_all();
    co_await text_of(c.get(), get(), f);
    CHECK_FALSE(f);
    CHECK(c->figures().connections_opened == 2);
    s.proxy.crash();
    co_await text_of(c.get(), get(), f);
    CHECK(f == errc::connection_refused);
    const std::string url = "http://127.0.0.1:" + std::to_string(s.proxy.port());
    if (scheme == "http")
        CHECK(f.message() == "the proxy " + url + ": connect to 127.0.0.1:" + std::to_string(s.proxy.port()));
    s.proxy.start();
    co_await text_of(c.get(), get(), f);
    CHECK_FALSE(f);
    CHECK(c->figures().connections_opened == 3);
    co_await s.stop();
}

asio::awaitable<void> server_is_away() {
    const auto ex = co_await asio::this_coro::executor;
    scene s(ex, true);
    co_await s.b.server.stop(); // nobody listens on that port any more
    failure f;
    auto c = s.b.client(options(by(s.proxy, "http")), "api.test");
    co_await text_of(c.get(), get(), f);
    CHECK(f == errc::connect_failed);
    CHECK(f.message().ends_with(" answered 502 Bad Gateway"));
    c = s.b.client(options(by(s.proxy, "socks5")), "api.test");
    co_await text_of(c.get(), get(), f);
    CHECK(f == errc::connection_refused);
    CHECK(f.message().ends_with(" answered 5 (connection refused)"));
    co_await s.proxy.stop();
}

asio::awaitable<void> proxy_has_no_address() {
    const auto ex = co_await asio::this_coro::executor;
    failure f;
    http::endpoint to;
    to.host = "127.0.0.1";
    to.port = 1;
    const auto p = http::proxy::parse("http://me:s3cret@nowhere.test:3128", f);
    http::client c(runtime(ex), to, http::client_options().proxy(p), f);
    co_await text_of(&c, get(), f);
    CHECK(f == errc::resolve_failed);
    CHECK(f.message().starts_with("the proxy http://nowhere.test:3128: resolve nowhere.test"));
}

} // namespace

TEST_CASE("an https server is reached by CONNECT, and TLS verifies the server by its own name") {
    run_test(https_by_connect());
}
TEST_CASE("requests to a plain server carry its whole URL, over one connection to the proxy") {
    run_test(http_by_whole_urls());
}
TEST_CASE("a SOCKS proxy makes a tunnel to https and http servers, and resolves the server's name") {
    run_test(by_socks(true));
    run_test(by_socks(false));
}
TEST_CASE("the login goes to the proxy and not to the server, and a refusal names the proxy") {
    run_test(logged_in());
}
TEST_CASE("connections through a proxy are used again, and replaced after the proxy cut them") {
    run_test(kept_alive("http", true));
    run_test(kept_alive("http", false));
    run_test(kept_alive("socks5", true));
}
TEST_CASE("a server that is away behind a proxy is distinguished from a proxy that is away") {
    run_test(server_is_away());
}
TEST_CASE("a proxy's own name is resolved by the client, and an error says that it is the proxy's") {
    run_test(proxy_has_no_address());
}
