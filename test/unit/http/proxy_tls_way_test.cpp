// The way through a TLS proxy, from one handshake to the other: time-outs, cancellation, large bodies, reuse, and how
// it ends.
#include "tls_proxy.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>

using namespace http_test;

namespace {

/// A proxy that stalls: it is silent in our handshake, after CONNECT, or after it has opened the tunnel.
struct stalled {
    stalled(asio::any_io_executor ex, int stage)
        : behind(ex, stage == 2 ? raw_peer::script(opens) : raw_peer::script(read_to_end)),
          front(ex, proxy_pair(), behind.endpoint().port), port(stage == 0 ? behind.endpoint().port : front.port()) {}
    static asio::awaitable<void> opens(std::shared_ptr<tcp::socket> s) {
        co_await read_head(s);
        co_await write_all(s, "HTTP/1.1 200 OK\r\n\r\n");
        co_await read_to_end(s);
    }
    raw_peer behind;
    tls_front front;
    std::uint16_t port;
};

/// The failure of a request with so little time that it ends while `doing`. On a busy machine the steps before may take
/// all of it: then the request gets more.
asio::awaitable<failure> out_of_time(http::client* c, std::function<http::timeouts(std::chrono::milliseconds)> with,
                                     std::string doing) {
    failure f;
    for (auto limit = 100ms; limit < 10s && f.message() != doing; limit *= 3) {
        const http::timeouts limits = with(limit);
        f = co_await failure_of(c, limits);
    }
    CHECK(f.message() == doing);
    co_return f;
}

asio::awaitable<void> in_time() {
    const auto ex = co_await asio::this_coro::executor;
    using milliseconds = std::chrono::milliseconds;
    const std::function<http::timeouts(milliseconds)> all = [](milliseconds m) { return http::timeouts().request(m); };
    for (int stage = 0; stage < 3; ++stage) {
        stalled s(ex, stage);
        const auto by = proxy_at(s.port);
        failure f;
        http::client c(runtime(ex), server(true), options(by), f);
        const std::string who = "the proxy " + by.url();
        const texts stages{who + ": TLS handshake", "connect to api.test:6443: wait for " + who,
                           "TLS handshake with api.test:6443"};
        const std::string doing = stages[static_cast<std::size_t>(stage)];
        const std::function<http::timeouts(milliseconds)> its_own = [stage](milliseconds m) {
            return stage == 1 ? http::timeouts().connect(m) : http::timeouts().tls(m);
        };
        f = co_await out_of_time(&c, its_own, doing);
        CHECK(f == (stage == 1 ? errc::connect_timeout : errc::tls_timeout));
        f = co_await out_of_time(&c, all, doing);
        CHECK(f == errc::request_timeout);
        s.behind.close();
        co_await s.front.stop();
    }
}

struct outcome {
    failure f;
    bool done = false;
};

asio::awaitable<void> fetch(http::client* c, std::shared_ptr<outcome> out) {
    co_await asio::this_coro::throw_if_cancelled(false);
    out->f = co_await failure_of(c);
    out->done = true;
}

asio::awaitable<void> cancelled_at(int stage) {
    const auto ex = co_await asio::this_coro::executor;
    stalled s(ex, stage);
    failure f;
    http::client c(runtime(ex), server(true), options(proxy_at(s.port)), f);
    const auto out = std::make_shared<outcome>();
    cancellable work(ex, fetch(&c, out));
    const std::function<bool()> there = [&] {
        const auto end = s.front.heard().find("\r\n\r\n");
        if (stage == 0) return s.behind.accepted() == 1;
        return end != std::string::npos && (stage == 1 || end + 4 < s.front.heard().size());
    };
    const bool ok = co_await eventually(there);
    CHECK(ok);
    work.cancel();
    const auto start = std::chrono::steady_clock::now();
    co_await work.join();
    CHECK(std::chrono::steady_clock::now() - start < 8s); // every limit is longer
    CHECK(out->f == errc::cancelled);
    s.behind.close();
    co_await s.front.stop();
}

asio::awaitable<void> cancelled_after_each_turn() {
    const auto ex = co_await asio::this_coro::executor;
    bool over = false;
    // Each time a new proxy, which no client has left before.
    for (int turns = 0; !over; turns += 1 + turns / 20) {
        scene s(ex, true);
        auto c = s.b.client(options(proxy_at(s.front.port())), "api.test");
        const auto out = std::make_shared<outcome>();
        cancellable work(ex, fetch(c.get(), out));
        co_await informer::testing::settle(turns);
        // After far more turns than the way takes, the request must come to its end, however fast the turns are.
        const auto done = [&out] { return out->done; };
        bool there = true;
        if (turns > 20'000) there = co_await eventually(done);
        CHECK(there);
        over = out->done;
        work.cancel();
        co_await work.join();
        CHECK((turns < 2 || out->done)); // with fewer turns it is dropped before it begins
        if (over)
            CHECK_FALSE(out->f);
        else if (out->done)
            CHECK(out->f == errc::cancelled);
        co_await s.stop();
    }
}

asio::awaitable<void> forgotten(http::client* c) {
    co_await failure_of(c);
}

asio::awaitable<void> much(bool tls) {
    const auto ex = co_await asio::this_coro::executor;
    scene s(ex, tls);
    auto c = s.b.client(options(proxy_at(s.front.port())), "api.test");
    std::string all(20'000'000, ' ');
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<char>('a' + i * 7 % 26);
    for (int i = 0; i < 2; ++i) {
        failure f;
        http::request q("POST", "/");
        q.body(all, "text/plain");
        const std::string text = co_await text_of(c.get(), std::move(q), f);
        CHECK(f.what() == "success");
        CHECK((text == "200 " + all));
    }
    CHECK(c->figures().connections_opened == 1);
    co_await s.stop();
}

asio::awaitable<void> half_and_wait(std::string head, std::shared_ptr<tcp::socket> s) {
    co_await read_head(s);
    co_await write_all(s, "HTTP/1.1 200 OK\r\n" + head + "\r\nhalf");
    co_await read_to_end(s);
}

/// The proxy ends the connection when half of a body has come. Returns the body; `f`: how it ended.
asio::awaitable<std::string> ended(std::string head, std::function<void(tls_front&)> how, bool tls, failure& f) {
    const auto ex = co_await asio::this_coro::executor;
    raw_peer origin(ex, [head](std::shared_ptr<tcp::socket> s) { return half_and_wait(head, std::move(s)); });
    // An https server has a TLS of its own, behind the proxy.
    tls_front server(ex, loopback_pair(), origin.endpoint().port);
    http_proxy proxy(ex);
    tls_front front(ex, proxy_pair(), proxy.port());
    http::endpoint to;
    to.tls = tls;
    to.host = "api.test";
    to.port = tls ? server.port() : origin.endpoint().port;
    http::client c(runtime(ex), to, options(proxy_at(front.port())), f);
    http::request q = get();
    auto r = co_await c.send(std::move(q), f);
    std::string body(100, ' ');
    std::size_t n = 0;
    if (!f) n = co_await r.read_some(asio::buffer(body), f);
    CHECK(f.what() == "success");
    body.resize(n);
    how(front);
    const std::string rest = co_await r.read_all(1000, f);
    CHECK(c.figures().idle == 0);
    origin.close();
    co_await front.stop();
    co_await proxy.stop();
    co_await server.stop();
    co_return body + rest;
}

asio::awaitable<void> how_it_ends() {
    const std::vector<std::function<void(tls_front&)>> ways{
        [](tls_front& t) { t.say_goodbye(); }, [](tls_front& t) { t.cut_all(); }, [](tls_front& t) { t.garble(); }};
    const texts heads{"Content-Length: 10\r\n", ""};
    for (std::size_t way = 0; way < ways.size(); ++way)
        for (const auto& head : heads)
            for (const bool tls : both) {
                INFO("way " << way << " of a body with '" << head << "' and TLS " << tls);
                failure f;
                const std::string body = co_await ended(head, ways[way], tls, f);
                CHECK(body == "half");
                // A body that ends with the connection is complete then, unless TLS was broken.
                const bool complete = head.empty() && way < 2;
                CHECK((complete ? !f : f == errc::connection_lost));
            }
}

asio::awaitable<void> hears_and_waits(std::shared_ptr<bool> heard, std::shared_ptr<tcp::socket> s) {
    co_await read_head(s);
    *heard = true;
    co_await read_to_end(s);
}

/// The server may have carried out the request: the error is neither a failed handshake nor a failure to connect.
asio::awaitable<void> broken_before_the_answer(bool by_proxy) {
    const auto ex = co_await asio::this_coro::executor;
    const auto heard = std::make_shared<bool>(false);
    raw_peer origin(ex, [heard](std::shared_ptr<tcp::socket> s) { return hears_and_waits(heard, std::move(s)); });
    http_proxy proxy(ex);
    tls_front front(ex, by_proxy ? proxy_pair() : loopback_pair(), by_proxy ? proxy.port() : origin.endpoint().port);
    http::endpoint to;
    to.tls = !by_proxy;
    to.host = "localhost";
    to.port = by_proxy ? origin.endpoint().port : front.port();
    failure f;
    http::client c(runtime(ex), to, options(by_proxy ? proxy_at(front.port()) : http::proxy()), f);
    const auto out = std::make_shared<outcome>();
    cancellable work(ex, fetch(&c, out));
    const std::function<bool()> there = [heard] { return *heard; };
    const bool ok = co_await eventually(there);
    CHECK(ok);
    front.garble();
    co_await work.join();
    INFO(out->f.what());
    CHECK(out->f == errc::connection_lost);
    origin.close();
    co_await front.stop();
    co_await proxy.stop();
}

asio::awaitable<void> kept_alive(bool tls) {
    const auto ex = co_await asio::this_coro::executor;
    scene s(ex, tls);
    auto c = s.b.client(options(proxy_at(s.front.port())), "api.test");
    const std::vector<std::function<void()>> ways{[] {}, [&] { s.front.cut_all(); }, [&] { s.front.say_goodbye(); },
                                                  [&] { s.proxy.cut_all(); }};
    std::uint64_t opened = 1;
    for (std::size_t way = 0; way < ways.size(); ++way) {
        for (int i = 0; i < 2; ++i) {
            const failure f = co_await failure_of(c.get());
            CHECK(f.what() == "success");
        }
        CHECK(c->figures().connections_opened == opened);
        CHECK(c->figures().idle == 1);
        ways[way]();
        co_await informer::testing::settle();
        if (way > 0) ++opened;
    }
    co_await failure_of(c.get());
    CHECK(c->figures().connections_opened == opened);
    // New certificates of ours are used for new connections, by the same proxy.
    failure f;
    c->set_tls(http::tls_options().ca(authority().certificate_pem()), f);
    f = co_await failure_of(c.get());
    CHECK_FALSE(f);
    CHECK(c->figures().connections_opened == opened + 1);
    co_await s.stop();
}

} // namespace

TEST_CASE("both handshakes and the CONNECT between them have their time-outs") {
    run_test(in_time());
}
TEST_CASE("cancelling at each stage of the way through a TLS proxy closes the connection at once") {
    for (int stage = 0; stage < 3; ++stage) run_test(cancelled_at(stage));
}
TEST_CASE("cancelling after any number of turns on the way through a TLS proxy") {
    run_test(cancelled_after_each_turn());
}
TEST_CASE("an io_context may be destroyed anywhere on the way through a TLS proxy") {
    bool more = true;
    for (int k = 0; more; k += 1 + k / 20) {
        REQUIRE(k < 100'000);
        asio::io_context context(1);
        scene s(context.get_executor(), true);
        auto c = s.b.client(options(proxy_at(s.front.port())), "api.test");
        asio::co_spawn(context, forgotten(c.get()), asio::detached);
        for (int i = 0; i < k && more; ++i) more = context.run_one_for(20ms) > 0;
    }
}
TEST_CASE("large bodies go through a TLS proxy in both directions, over one connection") {
    run_test(much(true));
    run_test(much(false));
}
TEST_CASE(
    "a TLS proxy that ends a connection, politely or not, is never taken for the end of a body that has its own") {
    run_test(how_it_ends());
}
TEST_CASE("TLS that breaks before the first byte of an answer is a lost connection, with a server or with a proxy") {
    run_test(broken_before_the_answer(false));
    run_test(broken_before_the_answer(true));
}
TEST_CASE("connections through a TLS proxy are used again, and replaced after the proxy ended them") {
    run_test(kept_alive(true));
    run_test(kept_alive(false));
}
