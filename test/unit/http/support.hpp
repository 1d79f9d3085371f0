// A server and a client on one io_context, for the tests of this room.
#pragma once

#include "support/run.hpp"

#include <informer/detail/async.hpp>
#include <informer/http/client.hpp>
#include <informer/http/server/server.hpp>
#include <informer/task_group.hpp>
#include <informer/testing/certificates.hpp>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <catch2/catch_test_macros.hpp>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace http_test {

namespace asio = boost::asio;
using namespace informer;
using namespace std::chrono_literals;
using request_ptr = std::shared_ptr<http::server_request>;
using response_ptr = std::shared_ptr<http::server_response>;
using informer::testing::eventually;
using informer::testing::run_test;
using tcp = asio::ip::tcp;
inline constexpr auto as_result = asio::as_tuple(asio::use_awaitable);

/// Certificates are slow to make under a sanitizer: one authority for all tests.
inline const informer::testing::certificate_authority& authority() {
    static const informer::testing::certificate_authority ca;
    return ca;
}

inline const informer::testing::key_pair& loopback_pair() {
    static const auto pair = authority().server({"localhost", "127.0.0.1", "api.test"});
    return pair;
}

inline http::server_tls server_tls(const informer::testing::key_pair& p) {
    http::server_tls t;
    t.certificate_pem_ = p.certificate_pem;
    t.key_pem_ = p.key_pem;
    return t;
}

/// Everything a test needs; made inside its coroutine.
class bench {
public:
    bench(asio::any_io_executor ex, http::server_handler h, http::server_options o = http::server_options())
        : rt(ex), tls_(o.use_tls_), server(rt, std::move(o), std::move(h)) {
        failure f;
        server.listen(f);
        REQUIRE_FALSE(f);
    }

    http::endpoint endpoint(std::string host = "127.0.0.1") const {
        http::endpoint e;
        e.tls = tls_;
        e.host = std::move(host);
        e.port = server.port();
        return e;
    }
    std::unique_ptr<http::client> client(http::client_options o = http::client_options(),
                                         std::string host = "127.0.0.1") {
        failure f;
        auto c = std::make_unique<http::client>(rt, endpoint(std::move(host)), std::move(o), f);
        INFO(f.what());
        REQUIRE_FALSE(f);
        return c;
    }
    std::unique_ptr<http::client> tls_client(http::tls_options t, std::string host = "127.0.0.1") {
        return client(http::client_options().tls(std::move(t)), std::move(host));
    }

    runtime rt;

private:
    bool tls_;

public:
    http::server server;
};

/// A TCP peer that follows a script and knows no HTTP: for what no well-behaved server does.
class raw_peer {
public:
    using script = std::function<asio::awaitable<void>(std::shared_ptr<tcp::socket>)>;

    raw_peer(asio::any_io_executor ex, script s)
        : raw_peer(ex, tcp::endpoint(asio::ip::address_v4::loopback(), 0), std::move(s)) {}
    raw_peer(asio::any_io_executor ex, tcp::endpoint at, script s)
        : acceptor_(std::make_shared<tcp::acceptor>(ex, at)), group_(ex) {
        group_.spawn(serve(acceptor_, std::make_shared<script>(std::move(s)), accepted_));
    }
    ~raw_peer() { close(); }
    void close() {
        error_code ignored;
        acceptor_->close(ignored);
        group_.stop();
    }
    http::endpoint endpoint() const {
        http::endpoint e;
        e.host = "127.0.0.1";
        e.port = acceptor_->local_endpoint().port();
        return e;
    }
    int accepted() const { return *accepted_; }

private:
    static asio::awaitable<void> serve(std::shared_ptr<tcp::acceptor> a, std::shared_ptr<script> s,
                                       std::shared_ptr<int> accepted) {
        co_await asio::this_coro::throw_if_cancelled(false);
        for (;;) {
            auto [ec, socket] = co_await a->async_accept(as_result);
            if (ec) co_return;
            ++*accepted;
            const auto shared = std::make_shared<tcp::socket>(std::move(socket));
            auto work = (*s)(shared);
            co_await std::move(work);
        }
    }
    std::shared_ptr<tcp::acceptor> acceptor_;
    task_group group_;
    std::shared_ptr<int> accepted_ = std::make_shared<int>(0);
};

/// Reads until a blank line has come (a request's header).
inline asio::awaitable<std::string> read_head(std::shared_ptr<tcp::socket> s) {
    std::string all;
    char piece[4096];
    while (all.find("\r\n\r\n") == std::string::npos) {
        const auto [ec, n] = co_await s->async_read_some(asio::buffer(piece), as_result);
        if (ec) break;
        all.append(piece, n);
    }
    co_return all;
}

/// False if the peer is gone. (A second write after a failed one would wait for ever: Asio's reactor sees no new
/// edge.)
inline asio::awaitable<bool> write_all(std::shared_ptr<tcp::socket> s, std::string bytes) {
    std::size_t sent = 0;
    while (sent < bytes.size()) {
        const asio::const_buffer rest(bytes.data() + sent, bytes.size() - sent);
        const auto [ec, n] = co_await s->async_write_some(rest, as_result);
        if (ec) co_return false;
        sent += n;
    }
    co_return true;
}

/// Waits until the peer closed.
inline asio::awaitable<void> read_to_end(std::shared_ptr<tcp::socket> s) {
    char piece[4096];
    for (;;) {
        const auto [ec, n] = co_await s->async_read_some(asio::buffer(piece), as_result);
        if (ec) co_return;
    }
}

/// Starts `work` and can cancel it.
class cancellable {
public:
    cancellable(asio::any_io_executor ex, asio::awaitable<void> work) : group_(ex) { group_.spawn(std::move(work)); }
    void cancel() { group_.stop(); }
    asio::awaitable<void> join() { return group_.join(); }

private:
    task_group group_;
};

} // namespace http_test
