// TLS proxies: how they are verified, and what they are told.
#include "tls_proxy.hpp"

#include "support/temporary_folder.hpp"

#include <cstdlib>

using namespace http_test;

namespace {

asio::awaitable<void> within(int version) {
    const auto ex = co_await asio::this_coro::executor;
    scene s(ex, true);
    s.front.speak_at_most(version);
    s.proxy.demand("Basic bWU6czNjcmV0", "", "");
    auto c =
        s.b.client(options(proxy_at(s.front.port(), "me:s3cret@")), "api.test"); // a name that only the proxy knows
    failure f;
    for (int i = 0; i < 3; ++i) {
        const std::string text = co_await text_of(c.get(), get("/a?b=c"), f);
        CHECK(f.what() == "success");
        CHECK(text == "200 ok");
    }
    CHECK(s.proxy.asked() == texts{"CONNECT api.test:" + s.port});
    CHECK(s.came->lines == texts(3, "GET /a?b=c api.test:" + s.port + " "));
    CHECK_FALSE(s.came->proxy_header);
    CHECK(c->figures().connections_opened == 1);
    CHECK(s.front.sni() == "localhost");
    CHECK(s.front.protocols() == "\x08http/1.1");
    const std::string& heard = s.front.heard();
    CHECK(heard.starts_with("CONNECT api.test:" + s.port + " HTTP/1.1\r\n"));
    CHECK(heard.find("\r\n\r\n\x16\x03") != std::string::npos); // and then TLS with the server
    CHECK(heard.find("/a?b=c") == std::string::npos);

    // The server behind the proxy must still prove its name; the proxy's CA does not vouch for it.
    const texts hosts{"other.test", "api.test"};
    for (const auto& host : hosts) {
        auto o = options(proxy_at(s.front.port(), "me:s3cret@"));
        if (host == "api.test") o.tls(http::tls_options().ca(proxies().certificate_pem()));
        auto wrong = s.b.client(std::move(o), host);
        f = co_await failure_of(wrong.get());
        CHECK(f == errc::tls_failed);
        CHECK(f.message().starts_with("TLS handshake with " + host + ":" + s.port + ": "));
    }
    co_await s.stop();
}

asio::awaitable<void> whole_urls() {
    const auto ex = co_await asio::this_coro::executor;
    scene s(ex, false);
    s.proxy.demand("Basic bWU6czNjcmV0", "", "");
    auto c = s.b.client(options(proxy_at(s.front.port(), "me:s3cret@")), "api.test");
    failure f;
    std::string text = co_await text_of(c.get(), get("/x"), f);
    CHECK(f.what() == "success");
    http::request q("POST", "/y");
    q.body(std::string(100'000, 'b'), "text/plain");
    text = co_await text_of(c.get(), std::move(q), f);
    CHECK(text.size() == 100'004);
    const std::string url = "http://api.test:" + s.port;
    CHECK(s.proxy.asked() == texts{"GET " + url + "/x", "POST " + url + "/y"});
    CHECK_FALSE(s.came->proxy_header);
    CHECK(c->figures().connections_opened == 1);
    CHECK(s.front.heard().starts_with("GET " + url + "/x HTTP/1.1\r\n"));
    CHECK(s.front.heard().find("\r\nProxy-Authorization: Basic bWU6czNjcmV0\r\n") != std::string::npos);
    // A 407 is the proxy's answer, and the error names the proxy.
    auto stranger = s.b.client(options(proxy_at(s.front.port(), "me:s3kret@")), "api.test");
    f = co_await failure_of(stranger.get());
    CHECK(f == errc::connect_failed);
    CHECK(f.message() == "GET " + url + "/: the proxy " + s.url() + " answered 407 Proxy Authentication Required");
    co_await s.stop();
}

asio::awaitable<void> refusals() {
    const auto ex = co_await asio::this_coro::executor;
    const auto old = proxies().server({"localhost"}, 1h, -3h), other = proxies().server({"other.test", "10.0.0.1"});
    struct bad {
        const key_pair* pair;
        bool trusted;
        std::string why;
    };
    const std::vector<bad> all{{&old, true, "certificate has expired"},
                               {&other, true, "certificate is not valid for localhost, only for other.test, 10.0.0.1"},
                               {&proxy_pair(), false, "unable to get local issuer certificate"}};
    for (const auto& a : all)
        for (const bool tls : both) {
            scene s(ex, tls, *a.pair);
            // How the server's certificate is verified, if at all, does not matter for the proxy's.
            auto o = options(proxy_at(s.front.port(), "me:s3cret@", a.trusted));
            o.tls(http::tls_options().ca(proxies().certificate_pem()).insecure().server_name("api.test"));
            auto c = s.b.client(std::move(o), "api.test");
            const failure f = co_await failure_of(c.get());
            CHECK(f == errc::connect_failed);
            CHECK(f == condition::retryable);
            CHECK(f.message() == "the proxy " + s.url() + ": TLS handshake: " + a.why);
            CHECK(s.front.heard().empty());
            CHECK(s.proxy.accepted() == 0);
            co_await s.stop();
        }
}

asio::awaitable<void> not_the_name_of_the_server() {
    const auto ex = co_await asio::this_coro::executor;
    scene s(ex, true);
    auto o = options(proxy_at(s.front.port()));
    o.tls_.server_name("localhost"); // kubeconfig: tls-server-name
    auto c = s.b.client(std::move(o), "api.test");
    failure f = co_await failure_of(c.get());
    CHECK_FALSE(f);
    CHECK(s.front.sni() == "localhost");
    // A proxy that is named by its address is verified by its address.
    auto by_address = proxy_at(s.front.port());
    by_address.host = "127.0.0.1";
    c = s.b.client(options(by_address), "api.test");
    f = co_await failure_of(c.get());
    CHECK(f.message() == "the proxy " + by_address.url() +
                             ": TLS handshake: certificate is not valid for 127.0.0.1, only for localhost");
    CHECK(s.front.sni().empty());
    co_await s.stop();
}

asio::awaitable<void> nobodys_certificate() {
    const auto ex = co_await asio::this_coro::executor;
    for (const bool tls : both) {
        scene s(ex, tls);
        s.front.ask_for_certificate(false);
        const auto me = authority().client("me", {});
        auto o = options(proxy_at(s.front.port()));
        o.tls_.certificate(me.certificate_pem, me.key_pem);
        auto c = s.b.client(std::move(o), "api.test");
        failure f = co_await failure_of(c.get());
        CHECK(f.what() == "success");
        CHECK(s.front.shaken() == 1);
        CHECK(s.front.certificates() == 0);
        CHECK(s.came->lines == texts{"GET / api.test:" + s.port + (tls ? " me" : " ")});

        s.front.ask_for_certificate(true);
        c->close_idle();
        f = co_await failure_of(c.get());
        CHECK(f == errc::connect_failed); // not tls_failed, after which the client looks for a new certificate
        INFO(f.message());
        CHECK(f.message().find("the proxy " + s.url() + " (") != std::string::npos);
        CHECK(f.message().find("certificate required") != std::string::npos);
        s.front.speak_at_most(TLS1_2_VERSION);
        f = co_await failure_of(c.get());
        CHECK(f == errc::connect_failed);
        CHECK(f.message().starts_with("the proxy " + s.url() + ": TLS handshake: "));
        co_await s.stop();
    }
}

asio::awaitable<void> say(std::shared_ptr<std::string> heard, std::string answer, std::shared_ptr<tcp::socket> s) {
    char piece[4096];
    const auto [ec, n] = co_await s->async_read_some(asio::buffer(piece), as_result);
    if (ec) co_return;
    heard->append(piece, n);
    co_await write_all(s, answer);
}

asio::awaitable<void> no_tls_there() {
    const auto ex = co_await asio::this_coro::executor;
    const auto heard = std::make_shared<std::string>();
    const std::vector<std::pair<std::string, std::string>> answers{
        {"HTTP/1.1 400 Bad Request\r\n\r\n", ": no TLS is spoken there"}, {"", " (stream truncated)"}};
    for (const auto& [answer, why] : answers) {
        raw_peer p(ex, [heard, a = answer](std::shared_ptr<tcp::socket> s) { return say(heard, a, std::move(s)); });
        const auto by = proxy_at(p.endpoint().port, "me:s3cret@");
        failure f;
        http::client c(runtime(ex), server(false), options(by), f);
        f = co_await failure_of(&c);
        CHECK(f == errc::connect_failed);
        CHECK(f.message() == "the proxy " + by.url() + ": TLS handshake" + why);
    }
    CHECK(heard->starts_with("\x16\x03"));
    CHECK(heard->find("Proxy-Authorization") == std::string::npos);
}

asio::awaitable<void> says_more(std::shared_ptr<tcp::socket> s) {
    co_await read_head(s);
    co_await write_all(s, std::string("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n\x15\x03\x03\x00\x02\x02\x28", 45));
    co_await read_to_end(s);
}

asio::awaitable<void> bytes_behind() {
    const auto ex = co_await asio::this_coro::executor;
    raw_peer p(ex, says_more);
    tls_front front(ex, proxy_pair(), p.endpoint().port);
    failure f;
    http::client c(runtime(ex), server(true), options(proxy_at(front.port())), f);
    f = co_await failure_of(&c);
    CHECK(f == errc::tls_failed); // the server's alert was read
    CHECK(f.message().find("handshake failure") != std::string::npos);
    p.close();
    co_await front.stop();
}

/// Opens the tunnel and sends, in the server's place, an empty hello.
asio::awaitable<void> says_nonsense(std::shared_ptr<tcp::socket> s) {
    co_await read_head(s);
    co_await write_all(s, std::string("HTTP/1.1 200 OK\r\n\r\n\x16\x03\x03\x00\x04\x02\x00\x00\x00", 28));
    co_await read_to_end(s);
}

/// If our side finds a fault, OpenSSL tells the peer by an alert, which goes through the other TLS before we look at
/// the reason.
asio::awaitable<void> our_own_verdict() {
    const auto ex = co_await asio::this_coro::executor;
    raw_peer p(ex, says_nonsense);
    tls_front front(ex, proxy_pair(), p.endpoint().port);
    failure f;
    http::client c(runtime(ex), server(true), options(proxy_at(front.port())), f);
    f = co_await failure_of(&c);
    CHECK(f == errc::tls_failed);
    INFO(f.message());
    CHECK(f.message().find("length mismatch") != std::string::npos);
    p.close();
    co_await front.stop();
}

asio::awaitable<void> refused_tunnel() {
    const auto ex = co_await asio::this_coro::executor;
    scene s(ex, true);
    s.proxy.demand("Basic other", "", "");
    auto c = s.b.client(options(proxy_at(s.front.port(), "me:s3cret@")), "api.test");
    failure f = co_await failure_of(c.get());
    CHECK(f == errc::connect_failed);
    CHECK(f.message() ==
          "connect to api.test:" + s.port + ": the proxy " + s.url() + " answered 407 Proxy Authentication Required");
    s.proxy.demand("Basic bWU6czNjcmV0", "", "");
    co_await s.b.server.stop(); // nobody listens on that port any more
    f = co_await failure_of(c.get());
    CHECK(f == errc::connect_failed);
    CHECK(f.message().ends_with(" answered 502 Bad Gateway"));
    co_await s.front.stop();
    f = co_await failure_of(c.get());
    CHECK(f == errc::connection_refused);
    CHECK(f.message().starts_with("the proxy " + s.url() + ": connect to "));
    co_await s.proxy.stop();
}

asio::awaitable<void> by_the_systems_roots() {
    const auto ex = co_await asio::this_coro::executor;
    const informer::testing::temporary_folder dir;
    scene s(ex, true);
    // The variable belongs to the process; a client reads the roots when it is made.
    ::setenv("SSL_CERT_FILE", dir.write("roots.pem", proxies().certificate_pem()).c_str(), 1);
    auto knows = s.b.client(options(proxy_at(s.front.port(), "", false)), "api.test");
    ::setenv("SSL_CERT_FILE", dir.write("others.pem", authority().certificate_pem()).c_str(), 1);
    auto knows_not = s.b.client(options(proxy_at(s.front.port(), "", false)), "api.test");
    ::unsetenv("SSL_CERT_FILE");
    failure f = co_await failure_of(knows.get());
    CHECK(f.what() == "success");
    f = co_await failure_of(knows_not.get());
    CHECK(f.message().ends_with("unable to get local issuer certificate"));
    co_await s.stop();
}

} // namespace

TEST_CASE("an https proxy is reached over TLS, and an https server over TLS within that") {
    run_test(within(TLS1_3_VERSION));
    run_test(within(TLS1_2_VERSION));
}
TEST_CASE("requests to a plain server carry its whole URL, over one TLS connection to the proxy") {
    run_test(whole_urls());
}
TEST_CASE("a proxy's certificate is verified whatever holds for the server's, and nothing is sent before that") {
    run_test(refusals());
}
TEST_CASE("a proxy is verified by the name in its URL, not by that of the server") {
    run_test(not_the_name_of_the_server());
}
TEST_CASE("a proxy is verified by the system's roots, which SSL_CERT_FILE replaces") {
    run_test(by_the_systems_roots());
}
TEST_CASE("roots for a proxy that cannot be used are refused when the client is made") {
    asio::io_context io;
    failure f;
    auto p = proxy_at(1);
    p.ca_pem = "nonsense";
    http::client c(runtime(io.get_executor()), server(true), options(p), f);
    CHECK(f == errc::bad_configuration);
    CHECK(f.message().starts_with("the proxy https://localhost:1: CA certificate cannot be used"));
}
TEST_CASE("a proxy gets no client certificate, and an error names a proxy that wants one") {
    run_test(nobodys_certificate());
}
TEST_CASE("an https proxy that speaks no TLS gets no login, and the error names it") {
    run_test(no_tls_there());
}
TEST_CASE("bytes that follow a TLS proxy's answer are the server's") {
    run_test(bytes_behind());
}
TEST_CASE("a fault in a server's TLS is reported behind a TLS proxy, too") {
    run_test(our_own_verdict());
}
TEST_CASE("a refusal by a TLS proxy is reported like that of any other proxy") {
    run_test(refused_tunnel());
}
