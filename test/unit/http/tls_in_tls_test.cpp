// TLS that another TLS carries: what goes through both, and how each of them ends.
#include "http/tls_stream.hpp"

#include "support.hpp"

#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/error.hpp>

#include <openssl/ssl.h>

using namespace http_test;
using http::detail::tls_stream;

namespace {

struct end {
    std::unique_ptr<tls_stream> below, above;
};

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
        client.below = std::make_unique<tls_stream>(std::move(one), for_client.native_handle());
        server.below = std::make_unique<tls_stream>(std::move(other), for_server.native_handle());
        client.above = std::make_unique<tls_stream>(*client.below, for_client.native_handle());
        server.above = std::make_unique<tls_stream>(*server.below, for_server.native_handle());
    }
    asio::ssl::context for_client, for_server;
    end client, server;
};
using ends_ptr = std::shared_ptr<ends>;

asio::awaitable<void> greet(ends_ptr e) {
    error_code ec;
    co_await e->server.below->handshake(tls_stream::role::server, ec);
    CHECK_FALSE(ec);
    co_await e->server.above->handshake(tls_stream::role::server, ec);
    CHECK_FALSE(ec);
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

/// Both handshakes are done, and the client has read what the server sends unasked after them.
asio::awaitable<ends_ptr> connected() {
    const auto ex = co_await asio::this_coro::executor;
    const auto e = std::make_shared<ends>(ex);
    task_group group(ex);
    group.spawn(greet(e));
    error_code ec;
    co_await e->client.below->handshake(tls_stream::role::client, ec);
    CHECK_FALSE(ec);
    co_await e->client.above->handshake(tls_stream::role::client, ec);
    CHECK_FALSE(ec);
    co_await group.join();
    co_await send(e->server.above.get(), "hello");
    char piece[100];
    const std::size_t n = co_await e->client.above->read_some(asio::mutable_buffer(piece, sizeof piece), ec);
    CHECK(std::string_view(piece, n) == "hello");
    CHECK_FALSE(e->client.above->pending());
    co_return e;
}

asio::awaitable<void> echo(ends_ptr e, std::size_t bytes) {
    std::string piece(70'000, ' ');
    error_code ec;
    while (bytes > 0 && !ec) {
        const std::size_t n = co_await e->server.above->read_some(asio::buffer(piece), ec);
        bytes -= n;
        co_await send(e->server.above.get(), piece.substr(0, n));
    }
    CHECK_FALSE(ec);
}

enum class renewed { nothing, above, below };

asio::awaitable<void> there_and_back(renewed keys) {
    const auto ex = co_await asio::this_coro::executor;
    const auto e = co_await connected();
    std::string all(8'000'000, ' '); // more than the kernel holds
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<char>('a' + i * 7 % 26);
    task_group group(ex);
    group.spawn(echo(e, all.size()));
    group.spawn(send(e->client.above.get(), all));
    std::string in, piece(100'000, ' ');
    error_code ec;
    for (int reads = 0; in.size() < all.size() && !ec; ++reads) {
        SSL* const whose = keys == renewed::above ? e->server.above->handle() : e->server.below->handle();
        if (reads == 3 && keys != renewed::nothing) CHECK(SSL_key_update(whose, SSL_KEY_UPDATE_REQUESTED) == 1);
        const std::size_t n = co_await e->client.above->read_some(asio::buffer(piece), ec);
        in.append(piece, 0, n);
    }
    CHECK_FALSE(ec);
    CHECK((in == all));
    co_await group.join();
}

asio::awaitable<void> looked_at() {
    const auto e = co_await connected();
    co_await send(e->server.above.get(), "one");
    std::string seen(100, ' ');
    error_code ec;
    for (int i = 0; i < 2; ++i) {
        const std::size_t n = co_await e->client.above->look(asio::buffer(seen), ec);
        CHECK_FALSE(ec);
        CHECK(seen.substr(0, n) == "one");
        CHECK(e->client.above->pending());
    }
    const std::size_t n = co_await e->client.above->read_some(asio::buffer(seen, 2), ec);
    CHECK(seen.substr(0, n) == "on");
    co_await send(e->server.above.get(), " more");
    std::string rest;
    while (rest.size() < 6) {
        const std::size_t m = co_await e->client.above->read_some(asio::buffer(seen), ec);
        REQUIRE_FALSE(ec);
        rest.append(seen, 0, m);
    }
    CHECK(rest == "e more");
    SSL_shutdown(e->server.above->handle());
    co_await e->client.above->look(asio::buffer(seen), ec);
    CHECK(ec == asio::error::eof);
}

using way = std::function<void(tls_stream& below, tls_stream& above)>;

/// What a read reports after the last bytes, twice, and whether a part of a record is left.
asio::awaitable<void> ended(way how, error_code expected, bool pending) {
    const auto e = co_await connected();
    co_await send(e->server.above.get(), "the end");
    how(*e->server.below, *e->server.above);
    error_code ec;
    e->server.below->socket().shutdown(tcp::socket::shutdown_send, ec);
    std::string piece(100, ' '), got;
    for (int i = 0; i < 10 && !ec; ++i) {
        const std::size_t n = co_await e->client.above->read_some(asio::buffer(piece), ec);
        got.append(piece, 0, n);
    }
    CHECK(got == "the end");
    INFO(ec.message());
    CHECK(ec == expected);
    CHECK(e->client.above->pending() == pending);
    co_await e->client.above->read_some(asio::buffer(piece), ec);
    CHECK(ec);
}

/// The beginning of a record of 256 bytes.
const std::string half_a_record = std::string("\x17\x03\x03\x01\x00", 5) + std::string(100, 'x');
const std::string no_record = std::string("\x17\x03\x03\x00\x20", 5) + std::string(32, 'x');

void write_below(tls_stream& below, const std::string& bytes) {
    CHECK(SSL_write(below.handle(), bytes.data(), static_cast<int>(bytes.size())) > 0);
}

asio::awaitable<void> read_one(ends_ptr e, std::shared_ptr<error_code> how) {
    co_await asio::this_coro::throw_if_cancelled(false);
    char byte = 0;
    co_await e->client.above->read_some(asio::mutable_buffer(&byte, 1), *how);
}

asio::awaitable<void> given_up(bool by_closing) {
    const auto ex = co_await asio::this_coro::executor;
    const auto e = co_await connected();
    const auto how = std::make_shared<error_code>();
    cancellable reading(ex, read_one(e, how));
    co_await asio::post(asio::use_awaitable);
    if (by_closing)
        e->client.above->socket().close();
    else
        reading.cancel();
    co_await reading.join();
    CHECK(*how == asio::error::operation_aborted);
}

asio::awaitable<void> write_to_nobody() {
    const auto e = co_await connected();
    const asio::socket_base::linger at_once(true, 0);
    e->server.below->socket().set_option(at_once);
    e->server.below->socket().close();
    error_code ec;
    std::string piece(100, ' ');
    co_await e->client.above->read_some(asio::buffer(piece), ec);
    CHECK(ec == asio::error::connection_reset);
    co_await e->client.above->write_some(asio::buffer(piece), ec);
    CHECK(ec);
}

} // namespace

TEST_CASE("much goes over TLS within TLS in both directions at once") {
    run_test(there_and_back(renewed::nothing));
}
TEST_CASE("new keys of either TLS in the middle of the other's stream change nothing") {
    run_test(there_and_back(renewed::above));
    run_test(there_and_back(renewed::below));
}
TEST_CASE("bytes that were looked at in TLS within TLS are read afterwards") {
    run_test(looked_at());
}
TEST_CASE("only the goodbye of the inner TLS is an end, whatever the outer one says") {
    const error_code truncated = asio::ssl::error::stream_truncated;
    run_test(ended([](tls_stream&, tls_stream& above) { SSL_shutdown(above.handle()); }, asio::error::eof, false));
    run_test(ended([](tls_stream& below, tls_stream&) { SSL_shutdown(below.handle()); }, truncated, false));
    run_test(ended([](tls_stream&, tls_stream&) {}, truncated, false));
}
TEST_CASE("TLS within TLS that is cut amid a record of either has something pending") {
    const error_code truncated = asio::ssl::error::stream_truncated;
    run_test(
        ended([](tls_stream& b, tls_stream&) { b.socket().write_some(asio::buffer(half_a_record)); }, truncated, true));
    run_test(ended([](tls_stream& b, tls_stream&) { write_below(b, half_a_record); }, truncated, true));
    const way politely = [](tls_stream& b, tls_stream&) {
        write_below(b, half_a_record);
        SSL_shutdown(b.handle());
    };
    run_test(ended(politely, truncated, true));
}
TEST_CASE("an error of the outer TLS does not count as an answer of the inner peer") {
    error_code ec = asio::error::connection_aborted;
    run_test(ended([](tls_stream& b, tls_stream&) { b.socket().write_some(asio::buffer(no_record)); }, ec, false));
    CHECK_FALSE(http::detail::is_tls_error(ec));
}
TEST_CASE("a write to a peer that left is an error and no signal, through two layers of TLS, too") {
    run_test(write_to_nobody());
}
TEST_CASE("a read over TLS within TLS that waits ends when it is cancelled or the socket closed") {
    run_test(given_up(false));
    run_test(given_up(true));
}
