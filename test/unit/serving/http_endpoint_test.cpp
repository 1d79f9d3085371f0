// /metrics, /healthz, /readyz over a socket.
#include "support/run.hpp"
#include "support/temporary_folder.hpp"

#include <informer/detail/async.hpp>
#include <informer/http/client.hpp>
#include <informer/serving/http_endpoint.hpp>
#include <informer/serving/prometheus_metrics.hpp>
#include <informer/testing/certificates.hpp>
#include <informer/testing/manual_clock.hpp>

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/write.hpp>
#include <catch2/catch_test_macros.hpp>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace asio = boost::asio;
using namespace informer;
using informer::testing::run_test;
using serving::endpoint_options;

namespace {

struct page {
    int status = 0;
    std::string content_type, text;
};

class visitor {
public:
    visitor(runtime r, std::uint16_t port, std::string host = "127.0.0.1") {
        http::endpoint e;
        e.host = std::move(host);
        e.port = port;
        failure f;
        client_ = std::make_shared<http::client>(std::move(r), e, http::client_options(), f);
        REQUIRE_FALSE(f);
    }
    asio::awaitable<page> get(std::string path) { return ask(client_, "GET", std::move(path)); }
    asio::awaitable<page> post(std::string path) { return ask(client_, "POST", std::move(path)); }

private:
    static asio::awaitable<page> ask(std::shared_ptr<http::client> c, std::string method, std::string path) {
        http::request q(std::move(method), std::move(path));
        failure f;
        auto answer = co_await c->send(std::move(q), f);
        REQUIRE_FALSE(f);
        page p;
        p.status = answer.status();
        p.content_type = std::string(answer.header("Content-Type"));
        p.text = co_await answer.read_all(1 << 20, f);
        REQUIRE_FALSE(f);
        co_return p;
    }
    std::shared_ptr<http::client> client_;
};

bool has(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

endpoint_options local() {
    return endpoint_options().address("127.0.0.1").port(0);
}

asio::awaitable<void> health() {
    const auto ex = co_await asio::this_coro::executor;
    const runtime rt(ex);
    serving::http_endpoint e(rt, local());
    std::string synced = "the cache of pods is not synced yet";
    e.healthz("alive", [] { return std::string(); });
    e.readyz("cache", [&] { return synced; }).readyz("alive", [] { return std::string(); });
    failure f;
    e.listen(f);
    REQUIRE_FALSE(f);
    visitor v(rt, e.port());

    page p = co_await v.get("/healthz");
    CHECK((p.status == 200 && p.text == "ok"));
    p = co_await v.get("/livez");
    CHECK((p.status == 200 && p.text == "ok"));
    p = co_await v.get("/readyz");
    CHECK(p.status == 503);
    CHECK(has(p.text, "[-]cache failed: the cache of pods is not synced yet\n"));
    CHECK(has(p.text, "[+]alive ok\n"));
    CHECK(has(p.text, "readyz check failed\n"));
    p = co_await v.get("/readyz/alive");
    CHECK(p.status == 200);
    p = co_await v.get("/readyz/cache");
    CHECK(p.status == 503);
    p = co_await v.get("/readyz/none");
    CHECK(p.status == 404);
    e.readyz("a name of more words", [] { return std::string("that is not well"); });
    p = co_await v.get("/readyz/a%20name%20of%20more%20words");
    CHECK((p.status == 503 && has(p.text, "that is not well")));
    e.readyz("a name of more words", [] { return std::string(); });
    p = co_await v.get("/readyz?exclude=cache");
    CHECK(p.status == 200);
    synced.clear();
    p = co_await v.get("/readyz");
    CHECK((p.status == 200 && p.text == "ok"));
    p = co_await v.get("/readyz?verbose");
    CHECK(p.status == 200);
    CHECK(has(p.text, "[+]cache ok\n"));
    CHECK(has(p.text, "readyz check passed\n"));

    e.readyz("cache", []() -> std::string { throw std::runtime_error("broken check"); });
    p = co_await v.get("/readyz");
    CHECK(p.status == 503);
    CHECK(has(p.text, "broken check"));
    co_await e.stop();
}

asio::awaitable<void> changing_itself() {
    const auto ex = co_await asio::this_coro::executor;
    const runtime rt(ex);
    serving::http_endpoint e(rt, local());
    const std::string mine(100, 'x'); // captured values must exist to the end of the call
    e.readyz("first", [&e, mine] {
        for (const char* name : {"first", "2", "3", "4", "5"}) e.readyz(name, [] { return std::string("no"); });
        return mine.size() == 100 ? std::string() : mine;
    });
    e.page("/mine", "text/plain", [&e, mine] {
        e.page("/mine", "text/html", [] { return std::string("another"); });
        return mine;
    });
    failure f;
    e.listen(f);
    REQUIRE_FALSE(f);
    visitor v(rt, e.port());
    page p = co_await v.get("/readyz");
    CHECK(p.status == 200);
    p = co_await v.get("/readyz");
    CHECK(p.status == 503);
    CHECK(has(p.text, "[-]first failed: no\n"));
    CHECK(has(p.text, "[-]5 failed: no\n"));
    p = co_await v.get("/mine");
    CHECK((p.content_type == "text/plain" && p.text == mine));
    p = co_await v.get("/mine");
    CHECK((p.content_type == "text/html" && p.text == "another"));
    co_await e.stop();
}

bool has_ipv6(const asio::any_io_executor& ex) {
    boost::system::error_code ec;
    asio::ip::tcp::acceptor probe(ex);
    probe.open(asio::ip::tcp::v6(), ec);
    if (!ec) probe.bind({asio::ip::address_v6::loopback(), 0}, ec);
    return !ec;
}

asio::awaitable<void> all_addresses() {
    const auto ex = co_await asio::this_coro::executor;
    const runtime rt(ex);
    serving::http_endpoint e(rt, endpoint_options().port(0));
    failure f;
    e.listen(f);
    REQUIRE_FALSE(f);
    std::vector<std::string> hosts = {"127.0.0.1"};
    if (has_ipv6(ex)) hosts.push_back("::1");
    for (const std::string& host : hosts) {
        visitor v(rt, e.port(), host);
        const page p = co_await v.get("/healthz");
        CHECK(p.status == 200);
    }
    co_await e.stop();
}

asio::awaitable<void> pages() {
    const auto ex = co_await asio::this_coro::executor;
    const auto m = std::make_shared<serving::prometheus_metrics>();
    m->add("informer_relists_total", 3, {{"resource", "pods"}});
    const runtime rt(ex);
    serving::http_endpoint e(rt, local());
    e.page("/statusz", "application/json", [] { return std::string("{}"); });
    failure f;
    e.listen(f);
    REQUIRE_FALSE(f);
    visitor v(rt, e.port());
    page p = co_await v.get("/metrics");
    CHECK(p.status == 404); // none given
    e.metrics(m);
    p = co_await v.get("/metrics");
    CHECK(p.status == 200);
    CHECK(p.content_type == "text/plain; version=0.0.4; charset=utf-8");
    CHECK(has(p.text, "informer_relists_total{resource=\"pods\"} 3\n"));
    p = co_await v.get("/statusz");
    CHECK((p.status == 200 && p.text == "{}" && p.content_type == "application/json"));
    p = co_await v.get("/readyz");
    CHECK(p.status == 200); // no check, nothing wrong
    p = co_await v.get("/readyzz");
    CHECK(p.status == 404);
    p = co_await v.post("/metrics");
    CHECK(p.status == 405);
    co_await e.stop();
}

asio::awaitable<void> taken() {
    const auto ex = co_await asio::this_coro::executor;
    const runtime rt(ex);
    serving::http_endpoint first(rt, local());
    failure f;
    first.listen(f);
    REQUIRE_FALSE(f);
    serving::http_endpoint second(rt, local().port(first.port()));
    second.listen(f);
    CHECK(f == errc::bad_configuration);
    CHECK(has(f.what(), std::to_string(first.port())));
    co_await first.stop();
}

/// What a scraper that trusts this authority gets.
asio::awaitable<std::string> scrape(runtime rt, std::uint16_t port, std::string ca) {
    http::endpoint e;
    e.tls = true;
    e.host = "127.0.0.1";
    e.port = port;
    failure f;
    http::client c(rt, e, http::client_options().tls(http::tls_options().ca(std::move(ca))), f);
    REQUIRE_FALSE(f);
    http::request q("GET", "/healthz");
    auto answer = co_await c.send(std::move(q), f);
    std::string text;
    if (!f) text = co_await answer.read_all(1000, f);
    co_return f == errc::tls_failed ? "refused" : text;
}

asio::awaitable<void> rotated() {
    const auto ex = co_await asio::this_coro::executor;
    const auto clock = std::make_shared<informer::testing::manual_clock>();
    runtime rt(ex);
    rt.with_clock(clock);
    const informer::testing::certificate_authority old, fresh;
    const informer::testing::temporary_folder dir;
    const auto write_pair = [&dir](const informer::testing::certificate_authority& ca) {
        const auto pair = ca.server({"127.0.0.1"});
        http::server_tls t;
        t.files_.certificate = dir.write("tls.crt", pair.certificate_pem);
        t.files_.key = dir.write("tls.key", pair.key_pem);
        return t;
    };
    serving::http_endpoint e(rt, local().tls(write_pair(old)));
    failure f;
    e.listen(f);
    REQUIRE_FALSE(f);
    std::string text = co_await scrape(rt, e.port(), old.certificate_pem());
    CHECK(text == "ok");
    write_pair(fresh);
    clock->advance(std::chrono::seconds(10));
    text = co_await scrape(rt, e.port(), fresh.certificate_pem());
    CHECK(text == "ok");
    text = co_await scrape(rt, e.port(), old.certificate_pem());
    CHECK(text == "refused");
    co_await e.stop();
}

asio::awaitable<void> destroyed_while_read() {
    const auto ex = co_await asio::this_coro::executor;
    const runtime rt(ex);
    auto e = std::make_unique<serving::http_endpoint>(rt, local());
    int pages_made = 0, checks_made = 0;
    e->page("/large", "text/plain", [&] {
        ++pages_made;
        return std::string(std::size_t(64) << 20, 'x'); // more than sockets buffer
    });
    e->healthz("dead", [&] {
        ++checks_made;
        return std::string();
    });
    failure f;
    e->listen(f);
    REQUIRE_FALSE(f);
    const asio::ip::tcp::endpoint at(asio::ip::make_address("127.0.0.1"), e->port());
    asio::ip::tcp::socket scraper(ex), probe(ex);
    scraper.connect(at);
    const std::string request = "GET /large HTTP/1.1\r\nHost: h\r\n\r\n";
    asio::write(scraper, asio::buffer(request));
    const std::function<bool()> made = [&] { return pages_made == 1; };
    const bool asked = co_await informer::testing::eventually(made);
    REQUIRE(asked);
    co_await informer::testing::settle(); // its answer is under way, and nobody reads it

    e.reset();
    boost::system::error_code ec;
    probe.connect(at, ec);
    CHECK(ec == asio::error::connection_refused);
    if (!ec) { // as a prober would ask for checks that are gone
        const std::string question = "GET /healthz HTTP/1.1\r\nHost: h\r\n\r\n";
        asio::write(probe, asio::buffer(question));
    }
    serving::http_endpoint next(rt, local().port(at.port()));
    next.listen(f);
    CHECK_FALSE(f);
    co_await informer::testing::settle();
    CHECK(checks_made == 0);
    co_await next.stop();
}

asio::awaitable<void> filter_throws() {
    const runtime rt(co_await asio::this_coro::executor);
    serving::http_endpoint e(rt, local());
    e.page("/mine", "text/plain", [] { return std::string("mine"); });
    e.filter([](std::shared_ptr<const http::server_request>) -> asio::awaitable<std::optional<http::refusal>> {
        throw std::runtime_error("broken filter");
        co_return std::nullopt;
    });
    failure f;
    e.listen(f);
    REQUIRE_FALSE(f);
    visitor v(rt, e.port());
    const page p = co_await v.get("/mine");
    CHECK(p.status == 500);
    co_await e.stop();
}

/// Never mind that it is cancelled.
asio::awaitable<std::optional<http::refusal>> stubborn(std::shared_ptr<detail::async_event> until, bool* asked) {
    co_await asio::this_coro::throw_if_cancelled(false);
    *asked = true;
    co_await until->wait();
    co_return std::nullopt;
}

asio::awaitable<void> destroyed_while_filtered() {
    const auto ex = co_await asio::this_coro::executor;
    auto e = std::make_unique<serving::http_endpoint>(runtime(ex), local());
    bool asked = false, shown = false;
    const auto until = std::make_shared<detail::async_event>(ex);
    e->page("/mine", "text/plain", [&] {
        shown = true;
        return std::string("mine");
    });
    auto held = std::make_shared<int>();
    const std::weak_ptr<int> kept = held;
    e->filter(
        [&, held = std::move(held)](std::shared_ptr<const http::server_request>) { return stubborn(until, &asked); });
    failure f;
    e->listen(f);
    REQUIRE_FALSE(f);
    asio::ip::tcp::socket reader(ex);
    reader.connect({asio::ip::make_address("127.0.0.1"), e->port()});
    const std::string request = "GET /mine HTTP/1.1\r\nHost: h\r\n\r\n";
    asio::write(reader, asio::buffer(request));
    const std::function<bool()> begun = [&] { return asked; };
    const bool came = co_await informer::testing::eventually(begun);
    REQUIRE(came);
    e.reset();
    CHECK_FALSE(kept.expired()); // the filter is at work
    until->notify();
    co_await informer::testing::settle();
    CHECK_FALSE(shown);
    CHECK(kept.expired());
}

} // namespace

TEST_CASE("a request whose filter throws is not served") {
    run_test(filter_throws());
}
TEST_CASE("an endpoint that is destroyed while a filter decides shows nothing any more") {
    run_test(destroyed_while_filtered());
}
TEST_CASE("an endpoint that is destroyed is closed, even while a client reads slowly") {
    run_test(destroyed_while_read());
}
TEST_CASE("http endpoint: by default it is reached over IPv4 and IPv6") {
    run_test(all_addresses());
}

TEST_CASE("/healthz and /readyz are 200 while their checks pass, else 503 with the reason") {
    run_test(health());
}
TEST_CASE("checks and pages may change the endpoint that calls them") {
    run_test(changing_itself());
}
TEST_CASE("/metrics and the program's own pages are served; everything else is 404, every other method 405") {
    run_test(pages());
}
TEST_CASE("a port that is taken is an error that names it") {
    run_test(taken());
}
TEST_CASE("http endpoint: a certificate and key that were replaced on disk are for the next connection") {
    run_test(rotated());
}
