// TLS on a socket: how much a read takes, and how a connection ends.
#include "http/tls_stream.hpp"

#include "support.hpp"

#include <boost/asio/post.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/error.hpp>

#include <openssl/ssl.h>

#include <sys/ioctl.h>

using namespace http_test;
using http::detail::tls_stream;

namespace {

/// Two ends of one connection.
struct ends {
    explicit ends(asio::any_io_executor ex)
        : for_client(asio::ssl::context::tls_client), for_server(asio::ssl::context::tls_server) {
        for_server.use_certificate_chain(asio::buffer(loopback_pair().certificate_pem));
        for_server.use_private_key(asio::buffer(loopback_pair().key_pem), asio::ssl::context::pem);
        tcp::acceptor a(ex, tcp::endpoint(asio::ip::address_v4::loopback(), 0));
        tcp::socket one(ex);
        one.connect(a.local_endpoint());
        tcp::socket other = a.accept();
        client = std::make_unique<tls_stream>(std::move(one), for_client.native_handle());
        server = std::make_unique<tls_stream>(std::move(other), for_server.native_handle());
    }
    asio::ssl::context for_client, for_server;
    std::unique_ptr<tls_stream> client, server;
};
using ends_ptr = std::shared_ptr<ends>;

asio::awaitable<void> greet(ends_ptr e) {
    error_code ec;
    co_await e->server->handshake(tls_stream::role::server, ec);
    CHECK_FALSE(ec);
}

/// The handshake is done, and the client has read what the server sends unasked after it.
asio::awaitable<ends_ptr> connected() {
    const auto ex = co_await asio::this_coro::executor;
    const auto e = std::make_shared<ends>(ex);
    task_group group(ex);
    group.spawn(greet(e));
    error_code ec;
    co_await e->client->handshake(tls_stream::role::client, ec);
    CHECK_FALSE(ec);
    co_await group.join();
    const asio::const_buffer hello("hello", 5);
    co_await e->server->write_some(hello, ec);
    char piece[100];
    const std::size_t n = co_await e->client->read_some(asio::mutable_buffer(piece, sizeof piece), ec);
    CHECK(std::string_view(piece, n) == "hello");
    co_return e;
}

asio::awaitable<void> send(tls_stream* s, std::string bytes) {
    error_code ec;
    for (std::size_t sent = 0; sent < bytes.size() && !ec;) {
        const asio::const_buffer rest(bytes.data() + sent, bytes.size() - sent);
        const std::size_t n = co_await s->write_some(rest, ec);
        sent += n;
    }
    CHECK_FALSE(ec);
}

/// Waits until this end's kernel has at least `least` bytes.
asio::awaitable<void> arrived(tls_stream* s, int least) {
    const std::function<bool()> there = [s, least] {
        int n = 0;
        return ::ioctl(s->socket().native_handle(), FIONREAD, &n) == 0 && n >= least;
    };
    const bool seen = co_await eventually(there);
    CHECK(seen);
}

std::string text(std::size_t n) {
    std::string s(n, 'a');
    for (std::size_t i = 0; i < n; ++i) s[i] = static_cast<char>('a' + i * 7 % 26);
    return s;
}

asio::awaitable<void> several_records() {
    const auto e = co_await connected();
    for (int i = 0; i < 3; ++i) co_await send(e->server.get(), std::string(1000, static_cast<char>('a' + i)));
    co_await arrived(e->client.get(), 3000);
    std::string in(10000, ' ');
    error_code ec;
    const std::size_t n = co_await e->client->read_some(asio::buffer(in), ec);
    CHECK_FALSE(ec);
    CHECK(in.substr(0, n) == std::string(1000, 'a') + std::string(1000, 'b') + std::string(1000, 'c'));
    CHECK_FALSE(e->client->pending());
}

asio::awaitable<void> tiny_records() {
    const auto ex = co_await asio::this_coro::executor;
    const auto e = co_await connected();
    const std::string all = text(300);
    for (const char c : all) co_await send(e->server.get(), std::string(1, c));
    co_await arrived(e->client.get(), 300 * 22); // header, type and tag of each
    std::string in, piece(10'000, ' ');
    error_code ec;
    while (in.size() < all.size() && !ec) {
        const auto others = std::make_shared<bool>(false);
        asio::post(ex, [others] { *others = true; });
        const std::size_t n = co_await e->client->read_some(asio::buffer(piece), ec);
        CHECK(n <= 128);
        CHECK(*others);
        in.append(piece, 0, n);
    }
    CHECK_FALSE(ec);
    CHECK(in == all);
}

asio::awaitable<void> small_room() {
    const auto e = co_await connected();
    const std::string all = text(5000);
    co_await send(e->server.get(), all);
    co_await arrived(e->client.get(), 5000);
    std::string in, piece(1999, ' ');
    error_code ec;
    for (int i = 0; i < 3; ++i) {
        const std::size_t n = co_await e->client->read_some(asio::buffer(piece), ec);
        in.append(piece, 0, n);
        CHECK(e->client->pending() == (i < 2));
    }
    CHECK(in == all);
}

asio::awaitable<void> others_have_their_turn() {
    const auto ex = co_await asio::this_coro::executor;
    const auto e = co_await connected();
    co_await send(e->server.get(), text(3000));
    co_await arrived(e->client.get(), 3000);
    co_await informer::testing::settle(); // no event that the reactor has seen is still queued before other work
    std::string piece(100, ' ');
    error_code ec;
    for (int i = 0; i < 3; ++i) {
        const auto flag = std::make_shared<bool>(false);
        asio::post(ex, [flag] { *flag = true; });
        if (i == 2)
            co_await e->client->write_some(asio::buffer(piece), ec);
        else
            co_await e->client->read_some(asio::buffer(piece), ec);
        CHECK(*flag);
    }
}

asio::awaitable<void> echo(ends_ptr e, std::size_t bytes) {
    std::string piece(70'000, ' ');
    error_code ec;
    while (bytes > 0 && !ec) {
        const std::size_t n = co_await e->server->read_some(asio::buffer(piece), ec);
        bytes -= n;
        co_await send(e->server.get(), piece.substr(0, n));
    }
    CHECK_FALSE(ec);
}

asio::awaitable<void> there_and_back(bool new_keys) {
    const auto ex = co_await asio::this_coro::executor;
    const auto e = co_await connected();
    const std::string all = text(8'000'000); // more than the kernel holds
    task_group group(ex);
    group.spawn(echo(e, all.size()));
    group.spawn(send(e->client.get(), all));
    std::string in, piece(100'000, ' ');
    error_code ec;
    for (int reads = 0; in.size() < all.size() && !ec; ++reads) {
        if (new_keys && reads == 3) CHECK(SSL_key_update(e->server->handle(), SSL_KEY_UPDATE_REQUESTED) == 1);
        const std::size_t n = co_await e->client->read_some(asio::buffer(piece), ec);
        in.append(piece, 0, n);
    }
    CHECK_FALSE(ec);
    CHECK((in == all));
    co_await group.join();
}

asio::awaitable<void> cut(bool politely) {
    const auto e = co_await connected();
    co_await send(e->server.get(), "the end");
    if (politely) SSL_shutdown(e->server->handle());
    error_code ec;
    e->server->socket().shutdown(tcp::socket::shutdown_send, ec);
    const int least = politely ? 40 : 20; // bytes that TLS makes of it
    co_await arrived(e->client.get(), least);
    std::string piece(100, ' ');
    std::size_t n = co_await e->client->read_some(asio::buffer(piece), ec);
    CHECK_FALSE(ec); // what came before is not lost
    CHECK(piece.substr(0, n) == "the end");
    error_code end = asio::ssl::error::stream_truncated;
    if (politely) end = asio::error::eof;
    for (int i = 0; i < 2; ++i) {
        n = co_await e->client->read_some(asio::buffer(piece), ec);
        CHECK(n == 0);
        CHECK(ec == end);
    }
}

/// The beginning of a record of 256 bytes.
const std::string half_a_record = std::string("\x17\x03\x03\x01\x00", 5) + std::string(100, 'x');

asio::awaitable<void> cut_amid_a_record() {
    const auto e = co_await connected();
    error_code ec;
    e->server->socket().write_some(asio::buffer(half_a_record));
    e->server->socket().shutdown(tcp::socket::shutdown_send, ec);
    std::string piece(1000, ' ');
    const std::size_t n = co_await e->client->read_some(asio::buffer(piece), ec);
    CHECK(n == 0);
    CHECK(ec == asio::ssl::error::stream_truncated);
    CHECK(e->client->pending());
}

/// An HTTP server that sends `answer`, then `rest` outside of TLS, and is gone without a goodbye.
struct leaves_unannounced {
    std::string answer, rest;
    asio::awaitable<void> operator()(std::shared_ptr<tcp::socket> s) const { return play(s, answer, rest); }
    static asio::awaitable<void> play(std::shared_ptr<tcp::socket> s, std::string answer, std::string rest) {
        asio::ssl::context c(asio::ssl::context::tls_server);
        c.use_certificate_chain(asio::buffer(loopback_pair().certificate_pem));
        c.use_private_key(asio::buffer(loopback_pair().key_pem), asio::ssl::context::pem);
        tls_stream t(std::move(*s), c.native_handle());
        error_code ec;
        co_await t.handshake(tls_stream::role::server, ec);
        CHECK_FALSE(ec);
        std::string request(10'000, ' ');
        co_await t.read_some(asio::buffer(request), ec);
        co_await send(&t, std::move(answer));
        t.socket().write_some(asio::buffer(rest), ec);
        t.socket().shutdown(tcp::socket::shutdown_send, ec);
    }
};

asio::awaitable<void> get(leaves_unannounced script, std::shared_ptr<std::string> body, std::shared_ptr<failure> f) {
    const auto ex = co_await asio::this_coro::executor;
    raw_peer p(ex, std::move(script));
    auto to = p.endpoint();
    to.tls = true;
    http::client_options o;
    o.tls(http::tls_options().ca(authority().certificate_pem()));
    http::client c(runtime(ex), to, std::move(o), *f);
    http::request q("GET", "/");
    auto r = co_await c.send(std::move(q), *f);
    CHECK_FALSE(*f);
    *body = co_await r.read_all(1000, *f);
    CHECK(c.figures().idle == 0);
    p.close();
}

/// The body that a client gets, with "(lost)" at its end if it is not complete.
std::string body_of(std::string answer, std::string rest = {}) {
    const auto body = std::make_shared<std::string>();
    const auto f = std::make_shared<failure>();
    leaves_unannounced script;
    script.answer = std::move(answer);
    script.rest = std::move(rest);
    run_test(get(std::move(script), body, f));
    UNSCOPED_INFO(f->what());
    CHECK((!*f || *f == errc::connection_lost));
    return *body + (*f ? "(lost)" : "");
}

/// An HTTP server that says goodbye along with its answer, and leaves the connection open.
asio::awaitable<void> answer_and_goodbye(std::shared_ptr<tcp::socket> s) {
    asio::ssl::context c(asio::ssl::context::tls_server);
    c.use_certificate_chain(asio::buffer(loopback_pair().certificate_pem));
    c.use_private_key(asio::buffer(loopback_pair().key_pem), asio::ssl::context::pem);
    tls_stream t(std::move(*s), c.native_handle());
    error_code ec;
    co_await t.handshake(tls_stream::role::server, ec);
    std::string request(10'000, ' ');
    co_await t.read_some(asio::buffer(request), ec);
    const std::string_view answer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    CHECK(SSL_write(t.handle(), answer.data(), static_cast<int>(answer.size())) > 0);
    SSL_shutdown(t.handle());
    co_await t.read_some(asio::buffer(request), ec); // until the client leaves
}

asio::awaitable<void> not_used_after_a_goodbye() {
    const auto ex = co_await asio::this_coro::executor;
    raw_peer p(ex, answer_and_goodbye);
    auto to = p.endpoint();
    to.tls = true;
    failure f;
    http::client c(runtime(ex), to, http::client_options().tls(http::tls_options().ca(authority().certificate_pem())),
                   f);
    for (int i = 0; i < 2; ++i) {
        http::request q("POST", "/"); // which is never sent twice
        auto r = co_await c.send(std::move(q), f);
        CHECK(f.what() == "success");
        const std::string body = co_await r.read_all(100, f);
        CHECK(body == "ok");
    }
    CHECK(p.accepted() == 2);
    p.close();
}

asio::awaitable<void> write_to_nobody() {
    const auto e = co_await connected();
    const asio::socket_base::linger at_once(true, 0);
    e->server->socket().set_option(at_once);
    e->server->socket().close();
    error_code ec;
    std::string piece(100, ' ');
    co_await e->client->read_some(asio::buffer(piece), ec);
    CHECK(ec == asio::error::connection_reset);
    co_await e->client->write_some(asio::buffer(piece), ec);
    CHECK(ec);
}

asio::awaitable<void> read_one(ends_ptr e, std::shared_ptr<error_code> how) {
    co_await asio::this_coro::throw_if_cancelled(false);
    char byte = 0;
    co_await e->client->read_some(asio::mutable_buffer(&byte, 1), *how);
}

asio::awaitable<void> given_up(bool by_closing) {
    const auto ex = co_await asio::this_coro::executor;
    const auto e = co_await connected();
    const auto how = std::make_shared<error_code>();
    cancellable reading(ex, read_one(e, how));
    co_await asio::post(asio::use_awaitable);
    if (by_closing)
        e->client->socket().close();
    else
        reading.cancel();
    co_await reading.join();
    CHECK(*how == asio::error::operation_aborted);
}

} // namespace

TEST_CASE("a read over TLS takes all records that are there") {
    run_test(several_records());
}

TEST_CASE("a read over TLS takes no more than fits, and the rest is pending") {
    run_test(small_room());
}

TEST_CASE("a TLS peer that is always ahead does not keep other work from the executor") {
    run_test(others_have_their_turn());
}

TEST_CASE("a TLS peer whose records hold one byte each does not keep other work from the executor") {
    run_test(tiny_records());
}

TEST_CASE("much goes over TLS in both directions at once") {
    run_test(there_and_back(false));
}

TEST_CASE("new keys in the middle of a TLS stream change nothing") {
    run_test(there_and_back(true));
}

TEST_CASE("bytes before the end of a TLS stream are read first, and a cut is distinguished from a goodbye") {
    run_test(cut(true));
    run_test(cut(false));
}

TEST_CASE("a TLS stream that is cut amid a record has something pending") {
    run_test(cut_amid_a_record());
}

TEST_CASE(
    "a body that ends with its connection may do so over TLS without a goodbye, but not in the middle of a record") {
    CHECK(body_of("HTTP/1.1 200 OK\r\n\r\nall of it") == "all of it");
    CHECK(body_of("HTTP/1.0 200 OK\r\n\r\n").empty());
    CHECK(body_of("HTTP/1.1 200 OK\r\n\r\nhalf of", half_a_record) == "half of(lost)");
}

TEST_CASE("a body that has an end of its own is not complete before it, however a TLS connection ends") {
    CHECK(body_of("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf") == "half(lost)");
    CHECK(body_of("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n") == "half(lost)");
    CHECK(body_of("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n0\r\n") == "half(lost)");
}

TEST_CASE("a connection whose goodbye came with the last answer is not used again") {
    run_test(not_used_after_a_goodbye());
}
TEST_CASE("a write to a TLS peer that left is an error and no signal") {
    run_test(write_to_nobody());
}

TEST_CASE("a read over TLS that waits ends when it is cancelled or the socket closed") {
    run_test(given_up(false));
    run_test(given_up(true));
}
