// Proxies that refuse, stall, break off, talk nonsense or never end: an error in time, and nothing left behind.
#include "support.hpp"

#include "http/proxy_dialogue.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>

using namespace http_test;
using namespace std::string_literals;
using http::detail::http_dialogue;
using http::detail::proxy_dialogue;
using http::detail::socks_dialogue;

namespace {

const std::string opened = "HTTP/1.1 200 Connection established\r\nVia: x\r\n\r\n";
const std::string greeted = "\x05\x00"s, logged_in = "\x05\x02\x01\x00"s;
const std::string connected = "\x05\x00\x00\x01\x7f\x00\x00\x01\x00\x50"s;
const std::string connected_v6 = "\x05\x00\x00\x04"s + std::string(18, '\0');
const std::string connected_name = "\x05\x00\x00\x03\x04home\x00\x50"s;

http::proxy proxy_at(const http::endpoint& at, const std::string& scheme, const std::string& login = "") {
    failure f;
    const auto p = http::proxy::parse(scheme + "://" + login + at.host_header(), f);
    REQUIRE_FALSE(f);
    return p;
}

http::endpoint server(bool tls) {
    http::endpoint e;
    e.tls = tls;
    e.host = "api.test";
    e.port = 6443;
    return e;
}

asio::awaitable<failure> failure_of(http::client* c, http::timeouts t) {
    failure f;
    http::request q("GET", "/");
    q.time(t);
    auto r = co_await c->send(std::move(q), f);
    if (!f) co_await r.read_all(1000, f);
    co_return f;
}

asio::awaitable<void> say_all(std::shared_ptr<tcp::socket> s, std::vector<std::string> answers) {
    char piece[4096];
    for (const auto& a : answers) {
        const auto [ec, n] = co_await s->async_read_some(asio::buffer(piece), as_result);
        if (ec) co_return;
        const bool ok = co_await write_all(s, a);
        if (!ok) co_return;
    }
}

/// Sends each of these answers after something was read, and closes.
raw_peer::script says(std::vector<std::string> answers) {
    return [answers](std::shared_ptr<tcp::socket> s) { return say_all(s, answers); };
}

/// How a request by way of such a proxy fails.
asio::awaitable<failure> met(std::vector<std::string> answers, std::string scheme, std::string login = "") {
    const auto ex = co_await asio::this_coro::executor;
    raw_peer p(ex, says(std::move(answers)));
    failure f;
    http::client c(runtime(ex), server(scheme == "http"),
                   http::client_options().proxy(proxy_at(p.endpoint(), scheme, login)), f);
    const auto start = std::chrono::steady_clock::now();
    f = co_await failure_of(&c, http::timeouts());
    CHECK(std::chrono::steady_clock::now() - start < 20s); // the limit is longer
    CHECK(f);
    CHECK(f.what().find("s3cret") == std::string::npos);
    co_return f;
}

using texts = std::vector<std::string>;

struct refusal {
    std::string scheme, login;
    texts answers;
    std::string why;
    errc code = errc::connect_failed;
};

const std::vector<refusal>& all_refusals() {
    static const std::vector<refusal> all = {
        {"http", "", {"HTTP/1.1 403 s3cret\r\n\r\n"}, " answered 403 Forbidden"},
        {"http", "", {"HTTP/1.0 503\r\n\r\nbody"}, " answered 503 Service Unavailable"},
        {"http", "", {"HTTP/1.1 302 Found\r\nLocation: http://login\r\n\r\n"}, " answered 302 Found"},
        {"http", "", {"HTTP/1.1 777 x\r\n\r\n"}, " answered 777"},
        {"http", "", {"HTTP/1.1 101 Switching Protocols\r\n\r\n"}, " answered 101 Switching Protocols"},
        {"http",
         "",
         {"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 407 x\r\n\r\n"},
         " answered 407 Proxy Authentication Required"},
        {"http", "", {"SSH-2.0-OpenSSH_9.2\r\n"}, " does not answer in HTTP"},
        {"http", "", {"\r\n\r\n"}, " does not answer in HTTP"},
        {"http", "", {"\x15\x03\x01"}, " does not answer in HTTP"},
        {"http", "", {"HTTP/2 200\r\n\r\n"}, " does not answer in HTTP"},
        {"http", "", {"HTTP/1.1 20\r\n\r\n"}, " does not answer in HTTP"},
        {"http", "", {"HTTP/1.1 2000\r\n\r\n"}, " does not answer in HTTP"},
        {"http", "", {"HTTP/1.1 099 x\r\n\r\n"}, " does not answer in HTTP"},
        {"http", "", {"HTTP/1.1x200 x\r\n\r\n"}, " does not answer in HTTP"},
        {"http",
         "",
         {"HTTP/1.1 200 OK\r\nX: " + std::string(20000, 'x')},
         " answered with a header of more than 16 KiB"},
        {"http", "", {std::string(20000, 'H')}, " does not answer in HTTP"},
        {"http", "", {"HTTP/1.1 200 " + std::string(20000, 'x')}, " answered with a header of more than 16 KiB"},
        {"socks5", "", {"HTTP/1.1 400 Bad Request\r\n\r\n"}, " does not answer in SOCKS 5"},
        {"socks5", "", {"\x04\x00"s}, " does not answer in SOCKS 5"},
        {"socks5", "", {"\x05\xff"}, " wants to know who we are"},
        {"socks5", "", {"\x05\x02"}, " chose a way to log in that was not offered"},
        {"socks5", "", {"\x05\x01"}, " chose a way to log in that was not offered"},
        {"socks5", "me:s3cret@", {"\x05\xff"}, " takes no user name and password"},
        {"socks5", "me:s3cret@", {"\x05\x03"}, " chose a way to log in that was not offered"},
        {"socks5", "me:s3cret@", {"\x05\x02", "\x01\x01"}, " refused the user name or the password"},
        {"socks5", "me:s3cret@", {"\x05\x02", "\x05\x00"s}, " does not answer in SOCKS 5"},
        {"socks5", "", {greeted, "\x04\x00"s}, " does not answer in SOCKS 5"},
        {"socks5", "", {greeted, "\x05\x02"}, " answered 2 (connection not allowed by ruleset)"},
        {"socks5", "", {greeted, "\x05\x05"}, " answered 5 (connection refused)", errc::connection_refused},
        {"socks5", "", {greeted, "\x05\x2a"}, " answered 42"},
        {"socks5", "", {greeted, "\x05\x00\x00\x09\x00"s}, " does not answer in SOCKS 5"},
    };
    return all;
}

asio::awaitable<void> refusals() {
    for (const auto& o : all_refusals()) {
        const failure f = co_await met(o.answers, o.scheme, o.login);
        INFO(o.answers.back().substr(0, 40));
        CHECK(f == o.code);
        INFO(f.message());
        CHECK(f.message().ends_with(o.why));
        CHECK(f.message().starts_with("connect to api.test:6443: the proxy " + o.scheme + "://127.0.0.1:"));
    }
}

asio::awaitable<void> cut_everywhere() {
    for (std::size_t k = 0; k <= opened.size(); ++k) {
        const texts some(1, opened.substr(0, k));
        const failure f = co_await met(some, "http");
        INFO(k << ": " << f.what());
        CHECK(f ==
              (k < opened.size() ? errc::connect_failed : errc::connection_lost)); // the latter in the TLS handshake
        if (k < opened.size()) CHECK(f.message().find(": lost the proxy http://127.0.0.1:") != std::string::npos);
    }
    const texts replies{connected, connected_v6, connected_name};
    for (const auto& reply : replies) {
        const texts answers{"\x05\x02", "\x01\x00"s, reply};
        for (std::size_t last = 0; last < answers.size(); ++last) {
            std::vector<std::string> some(answers.begin(), answers.begin() + static_cast<std::ptrdiff_t>(last) + 1);
            for (std::size_t k = 0; k <= answers[last].size(); ++k) {
                some.back() = answers[last].substr(0, k);
                const bool whole = last + 1 == answers.size() && k == answers[last].size();
                const failure f = co_await met(some, "socks5", "me:s3cret@");
                INFO(last << " " << k << ": " << f.what());
                CHECK(f == (whole ? errc::connection_lost : errc::connect_failed));
            }
        }
    }
}

/// Bytes behind the proxy's answer, in one packet with it.
asio::awaitable<void> bytes_behind() {
    const auto ex = co_await asio::this_coro::executor;
    texts answers(1, opened + "<html>welcome</html>");
    failure f = co_await met(answers, "http");
    CHECK(f == errc::tls_failed);
    CHECK(f.message().find("no TLS is spoken there") != std::string::npos);
    answers.front() =
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n\x15\x03\x03\x00\x02\x02\x28"s;
    f = co_await met(answers, "http");
    CHECK(f == errc::tls_failed); // the alert was read: a length in a 2xx answer to CONNECT is ignored
    CHECK(f.message().find("handshake failure") != std::string::npos);

    // A server that speaks first is understood: its answer arrives before the request is sent.
    answers = {greeted, connected + "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", ""};
    raw_peer p(ex, says(answers));
    http::client c(runtime(ex), server(false), http::client_options().proxy(proxy_at(p.endpoint(), "socks5")), f);
    http::request q("GET", "/");
    auto r = co_await c.send(std::move(q), f);
    REQUIRE_FALSE(f);
    const std::string text = co_await r.read_all(10, f);
    CHECK(text == "ok");
}

/// Sends each byte of the proxy's answers in a packet of its own, and then acts as the server.
asio::awaitable<void> byte_by_byte(std::shared_ptr<tcp::socket> s) {
    s->set_option(tcp::no_delay(true)); // else each byte waits for the one before it to be acknowledged
    char piece[4096];
    const texts answers{"\x05\x02", "\x01\x00"s, connected_name};
    for (const auto& answer : answers) {
        const auto [ec, n] = co_await s->async_read_some(asio::buffer(piece), as_result);
        if (ec) co_return;
        for (const char c : answer) {
            const bool ok = co_await write_all(s, std::string(1, c));
            if (!ok) co_return;
            co_await informer::testing::settle(3); // the client has its turn
        }
    }
    const std::string head = co_await read_head(s);
    if (head.empty()) co_return; // cancelled
    CHECK(head.starts_with("GET / HTTP/1.1\r\nHost: api.test:6443\r\n"));
    CHECK(head.find("Proxy-") == std::string::npos);
    co_await write_all(s, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
}

asio::awaitable<void> in_pieces() {
    const auto ex = co_await asio::this_coro::executor;
    raw_peer p(ex, byte_by_byte);
    failure f;
    http::client c(runtime(ex), server(false),
                   http::client_options().proxy(proxy_at(p.endpoint(), "socks5", "me:s3cret@")), f);
    f = co_await failure_of(&c, http::timeouts());
    CHECK_FALSE(f);
}

asio::awaitable<void> drip(std::shared_ptr<tcp::socket> s) {
    const std::string begin = "HTTP/1.1 200 OK\r\nX: ";
    bool ok = co_await write_all(s, begin);
    asio::steady_timer t(s->get_executor());
    while (ok) {
        t.expires_after(5ms);
        co_await t.async_wait(as_result);
        ok = co_await write_all(s, "x");
    }
}

asio::awaitable<void> flood(std::shared_ptr<tcp::socket> s) {
    const std::string piece = "HTTP/1.1 100 Continue\r\n\r\n";
    bool ok = true;
    while (ok) ok = co_await write_all(s, piece);
}

asio::awaitable<void> in_time() {
    const auto ex = co_await asio::this_coro::executor;
    const texts schemes{"http", "socks5"};
    for (const auto& scheme : schemes) {
        raw_peer silent(ex, read_to_end);
        failure f;
        http::client c(runtime(ex), server(true), http::client_options().proxy(proxy_at(silent.endpoint(), scheme)), f);
        f = co_await failure_of(&c, http::timeouts().connect(50ms));
        CHECK(f == errc::connect_timeout);
        CHECK(f == condition::timed_out);
        CHECK(f.message() ==
              "connect to api.test:6443: wait for the proxy " + scheme + "://" + silent.endpoint().host_header());
        f = co_await failure_of(&c, http::timeouts().request(50ms));
        CHECK(f == errc::request_timeout);
    }
    raw_peer dripping(ex, drip), flooding(ex, flood);
    failure f;
    http::client slow(runtime(ex), server(true), http::client_options().proxy(proxy_at(dripping.endpoint(), "http")),
                      f);
    f = co_await failure_of(&slow, http::timeouts().connect(50ms));
    CHECK(f == errc::connect_timeout);
    http::client fast(runtime(ex), server(true), http::client_options().proxy(proxy_at(flooding.endpoint(), "http")),
                      f);
    f = co_await failure_of(&fast, http::timeouts());
    CHECK(f == errc::connect_failed);
    CHECK(f.message().ends_with(" answered with a header of more than 16 KiB"));
}

struct outcome {
    failure f;
    bool done = false;
};

asio::awaitable<void> fetch(http::client* c, std::shared_ptr<outcome> out) {
    co_await asio::this_coro::throw_if_cancelled(false);
    out->f = co_await failure_of(c, http::timeouts());
    out->done = true;
}

/// Sends these answers and then waits until the client leaves.
struct waiting_peer {
    std::vector<std::string> answers;
    std::size_t said = 0;
    bool left = false;

    static asio::awaitable<void> play(std::shared_ptr<waiting_peer> p, std::shared_ptr<tcp::socket> s) {
        char piece[4096];
        for (const auto& a : p->answers) {
            const auto [ec, n] = co_await s->async_read_some(asio::buffer(piece), as_result);
            if (ec) co_return;
            co_await write_all(s, a);
            ++p->said;
        }
        co_await read_to_end(s);
        p->left = true;
    }
};

asio::awaitable<void> cancelled_after(std::vector<std::string> answers, std::string scheme) {
    const auto ex = co_await asio::this_coro::executor;
    const auto p = std::make_shared<waiting_peer>();
    p->answers = std::move(answers);
    raw_peer peer(ex, [p](std::shared_ptr<tcp::socket> s) { return waiting_peer::play(p, s); });
    failure f;
    http::client c(runtime(ex), server(true),
                   http::client_options().proxy(proxy_at(peer.endpoint(), scheme, "me:s3cret@")), f);
    const auto out = std::make_shared<outcome>();
    cancellable work(ex, fetch(&c, out));
    const std::function<bool()> there = [&] { return peer.accepted() == 1 && p->said == p->answers.size(); };
    bool ok = co_await eventually(there);
    CHECK(ok);
    work.cancel();
    const auto start = std::chrono::steady_clock::now();
    co_await work.join();
    CHECK(std::chrono::steady_clock::now() - start < 8s); // every limit is longer
    CHECK(out->done);
    CHECK(out->f == errc::cancelled);
    const std::function<bool()> gone = [&] { return p->left; };
    ok = co_await eventually(gone); // the socket was closed at once
    CHECK(ok);
}

asio::awaitable<void> cancelled_at_each_step() {
    texts said;
    co_await cancelled_after(said, "http");
    said = {"HTTP/1.1 200 O"};
    co_await cancelled_after(said, "http");
    said = {opened};
    co_await cancelled_after(said, "http");
    said = {"\x05"};
    co_await cancelled_after(said, "socks5");
    said = {"\x05\x02"};
    co_await cancelled_after(said, "socks5");
    said.push_back("\x01\x00"s);
    co_await cancelled_after(said, "socks5");
    said.push_back(connected.substr(0, 7));
    co_await cancelled_after(said, "socks5");
    said.back() = connected;
    co_await cancelled_after(said, "socks5");
}

asio::awaitable<void> cancelled_after_each_turn() {
    const auto ex = co_await asio::this_coro::executor;
    bool over = false;
    // Each time a new proxy, which no client has left before.
    for (int turns = 0; !over; ++turns) {
        REQUIRE(turns < 5000);
        raw_peer peer(ex, byte_by_byte);
        failure f;
        http::client c(runtime(ex), server(false),
                       http::client_options().proxy(proxy_at(peer.endpoint(), "socks5", "me:s3cret@")), f);
        const auto out = std::make_shared<outcome>();
        cancellable work(ex, fetch(&c, out));
        co_await informer::testing::settle(turns);
        over = out->done;
        work.cancel();
        co_await work.join();
        CHECK((turns < 2 || out->done)); // with fewer turns it is dropped before it begins
        if (over)
            CHECK_FALSE(out->f);
        else if (out->done)
            CHECK(out->f == errc::cancelled);
    }
}

asio::awaitable<void> forgotten(http::client* c) {
    co_await failure_of(c, http::timeouts());
}

/// What a dialogue sends when it gets the peer's bytes cut in two at `cut`; `used`: how many bytes it took.
std::string heard_in_two(std::shared_ptr<proxy_dialogue> d, const std::string& bytes, std::size_t cut,
                         std::size_t& used) {
    std::string said = d->take_words();
    used = 0;
    for (const std::size_t end : {cut, bytes.size()})
        while (used < end && !d->open() && !d->failed()) {
            const auto n = d->hear(std::string_view(bytes).substr(used, end - used));
            REQUIRE(n > 0);
            used += n;
            said += "|" + d->take_words();
        }
    return said;
}

} // namespace

TEST_CASE("a refusal or a wrong answer of a proxy is an error that says so") {
    run_test(refusals());
}
TEST_CASE("a proxy that breaks off at any byte of its answers is an error") {
    run_test(cut_everywhere());
}
TEST_CASE("bytes that follow the proxy's answer are the server's") {
    run_test(bytes_behind());
}
TEST_CASE("a proxy may answer byte by byte") {
    run_test(in_pieces());
}
TEST_CASE("a proxy that is silent, slow or endless is given up in its time") {
    run_test(in_time());
}
TEST_CASE("cancelling at each step of the way through a proxy closes the connection at once") {
    run_test(cancelled_at_each_step());
}
TEST_CASE("cancelling after any number of turns on the way through a proxy") {
    run_test(cancelled_after_each_turn());
}
TEST_CASE("an io_context may be destroyed anywhere on the way through a proxy") {
    bool more = true;
    for (int k = 0; more; ++k) {
        REQUIRE(k < 2000);
        asio::io_context context(1);
        raw_peer peer(context.get_executor(), byte_by_byte);
        failure f;
        http::client c(runtime(context.get_executor()), server(false),
                       http::client_options().proxy(proxy_at(peer.endpoint(), "socks5", "me:s3cret@")), f);
        asio::co_spawn(context, forgotten(&c), asio::detached);
        for (int i = 0; i < k && more; ++i) more = context.run_one_for(20ms) > 0;
    }
}

TEST_CASE("a dialogue with a proxy is the same wherever the proxy's bytes are cut, and takes none of the server's") {
    http::proxy socks;
    socks.speaks = http::proxy::protocol::socks5;
    socks.user = "me";
    socks.password = "pw";
    const std::string to_name = "\x05\x01\x00\x03\x08"s + "api.test" + "\x19\x2b";
    for (const auto& reply : {connected, connected_v6, connected_name}) {
        const std::string bytes = logged_in + reply;
        for (std::size_t cut = 0; cut <= bytes.size(); ++cut) {
            std::size_t used = 0;
            const std::shared_ptr<proxy_dialogue> d = socks_dialogue(socks, server(true));
            std::string said = heard_in_two(d, bytes + "server", cut, used);
            CHECK(d->open());
            CHECK(used == bytes.size());
            std::erase(said, '|');
            CHECK(said == "\x05\x02\x00\x02"s + "\x01\x02me\x02pw" + to_name);
        }
    }
    const std::string interim = "HTTP/1.1 100 Continue\r\nX: y\r\n\r\n";
    for (const std::string& bytes : {opened, interim + opened, "HTTP/1.0 200\n\n"s, "HTTP/1.1 204 \r\nA:\r\n\n"s})
        for (std::size_t cut = 0; cut <= bytes.size(); ++cut) {
            std::size_t used = 0;
            const std::shared_ptr<proxy_dialogue> d = http_dialogue("CONNECT x");
            heard_in_two(d, bytes + "server", cut, used);
            INFO(bytes << d->why());
            CHECK(d->open());
            CHECK(used == bytes.size());
        }
}
