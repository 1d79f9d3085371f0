// A TLS proxy, a server behind it, and clients of that server.
#pragma once

#include "support.hpp"

#include "support/http_proxy.hpp"
#include "support/tls_front.hpp"

#include <array>

namespace http_test {

using informer::testing::certificate_authority;
using informer::testing::http_proxy;
using informer::testing::key_pair;
using informer::testing::tls_front;

using texts = std::vector<std::string>;
inline constexpr std::array both{true, false};

/// The CA that signed the proxies' certificates; the server's CA is another one.
inline const certificate_authority& proxies() {
    static const certificate_authority ca("corporate CA");
    return ca;
}

inline const key_pair& proxy_pair() {
    static const auto pair = proxies().server({"localhost"});
    return pair;
}

inline http::proxy proxy_at(std::uint16_t port, const std::string& login = "", bool trusted = true) {
    failure f;
    auto p = http::proxy::parse("https://" + login + "localhost:" + std::to_string(port), f);
    REQUIRE_FALSE(f);
    if (trusted) p.ca_pem = proxies().certificate_pem();
    return p;
}

inline http::client_options options(http::proxy p) {
    return http::client_options().proxy(std::move(p)).tls(http::tls_options().ca(authority().certificate_pem()));
}

inline http::endpoint server(bool tls) {
    http::endpoint e;
    e.tls = tls;
    e.host = "api.test";
    e.port = 6443;
    return e;
}

struct seen {
    texts lines; ///< "GET /path host client"
    bool proxy_header = false;
};

inline asio::awaitable<void> note(std::shared_ptr<seen> s, request_ptr q, response_ptr r) {
    s->lines.push_back(q->method + " " + q->target + " " + std::string(q->header("Host")) + " " +
                       q->client_common_name);
    s->proxy_header = s->proxy_header || !q->header("Proxy-Authorization").empty();
    std::string text = "ok";
    if (!q->body.empty()) text = q->body;
    co_await r->send(200, "text/plain", std::move(text));
}

inline http::server_options over(bool tls) {
    http::server_options o;
    auto t = server_tls(loopback_pair());
    t.client_ca_pem_ = authority().certificate_pem();
    if (tls) o.tls(std::move(t));
    o.max_body(std::size_t(64) << 20);
    return o;
}

/// A server, a proxy, and TLS in front of that.
struct scene {
    scene(asio::any_io_executor ex, bool tls, const key_pair& pair = proxy_pair())
        : proxy(ex),
          b(
              ex, [s = came](request_ptr q, response_ptr r) { return note(s, std::move(q), std::move(r)); }, over(tls)),
          front(ex, pair, proxy.port()), port(std::to_string(b.server.port())) {}
    std::shared_ptr<seen> came = std::make_shared<seen>();
    http_proxy proxy;
    bench b;
    tls_front front;
    std::string port;
    std::string url() const { return "https://localhost:" + std::to_string(front.port()); }
    asio::awaitable<void> stop() {
        co_await b.server.stop();
        co_await front.stop();
        co_await proxy.stop();
    }
};

inline asio::awaitable<std::string> text_of(http::client* c, http::request q, failure& f) {
    auto r = co_await c->send(std::move(q), f);
    if (f) co_return std::string();
    auto text = co_await r.read_all(std::size_t(64) << 20, f);
    co_return std::to_string(r.status()) + " " + text;
}

inline http::request get(std::string target = "/") {
    return http::request("GET", std::move(target));
}

inline asio::awaitable<failure> failure_of(http::client* c, http::timeouts t = http::timeouts()) {
    failure f;
    http::request q = get();
    q.time(t);
    co_await text_of(c, std::move(q), f);
    co_return f;
}

} // namespace http_test
