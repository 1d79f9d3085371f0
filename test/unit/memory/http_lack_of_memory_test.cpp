// The client and the server when the system refuses memory: the program goes on, and what failed once works the next
// time.
#include "refusal.hpp"

#include "http/pool.hpp"
#include "unit/http/name_server.hpp"

#include <informer/http/client.hpp>
#include <informer/http/server/server.hpp>
#include <informer/kubernetes/client.hpp>
#include <informer/source/list_watch.hpp>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/write.hpp>

#include <catch2/catch_test_macros.hpp>

#include <array>
#include <chrono>
#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <fcntl.h>

using namespace informer;
using informer::testing::for_every_request;
using informer::testing::lack;
using informer::testing::refusal;
using namespace std::chrono_literals;
using tcp = asio::ip::tcp;

namespace {

/// Runs handlers until `done`; false if that takes too long.
bool run_until(asio::io_context& io, const std::function<bool()>& done) {
    const auto end = std::chrono::steady_clock::now() + 10s;
    while (!done() && std::chrono::steady_clock::now() < end) {
        io.restart();
        io.run_one_for(10ms);
    }
    return done();
}

std::unique_ptr<http::detail::connection> connection_of(const http::detail::pool& p, asio::io_context& io) {
    auto c = std::make_unique<http::detail::connection>();
    c->stream = http::detail::plain_transport(tcp::socket(io));
    c->generation = p.generation();
    return c;
}

/// A request to a server that answered it with `answer` and closed the connection.
class answered {
public:
    answered(asio::io_context& io, std::string_view answer)
        : acceptor_(io, tcp::endpoint(asio::ip::address_v4::loopback(), 0)) {
        failure f;
        http::endpoint to;
        to.host = "127.0.0.1";
        to.port = acceptor_.local_endpoint().port();
        client_ = std::make_unique<http::client>(runtime(io.get_executor()), to, http::client_options(), f);
        asio::co_spawn(io, ask(this), asio::detached);
        tcp::socket peer(io);
        bool came = false;
        acceptor_.async_accept(peer, [&](error_code) { came = true; });
        REQUIRE(run_until(io, [&] { return came; }));
        std::string head;
        bool headers_read = false;
        asio::async_read_until(peer, asio::dynamic_buffer(head), "\r\n\r\n",
                               [&](error_code, std::size_t) { headers_read = true; });
        REQUIRE(run_until(io, [&] { return headers_read; }));
        asio::write(peer, asio::buffer(answer));
        peer.close();
        REQUIRE(run_until(io, [&] { return response.has_value(); }));
    }
    std::optional<http::response> response;

private:
    static asio::awaitable<void> ask(answered* self) {
        failure f;
        auto r = co_await self->client_->send(http::request("GET", "/a/path/that/has/some/length"), f);
        if (!f) self->response.emplace(std::move(r));
    }

    tcp::acceptor acceptor_;
    std::unique_ptr<http::client> client_;
};

struct outcome {
    failure f;
    bool refused = false, over = false;
    bool throwing = false; ///< the caller's coroutine still throws at a co_await once it is cancelled
};

asio::awaitable<void> read(http::response* r, outcome* o) {
    std::array<char, 64> some;
    try {
        for (;;) {
            const asio::mutable_buffer room = asio::buffer(some);
            const std::size_t n = co_await r->read_some(room, o->f);
            if (n == 0) break;
        }
    } catch (const std::bad_alloc&) {
        o->refused = true;
    }
    o->throwing = co_await asio::this_coro::throw_if_cancelled();
    o->over = true;
}

asio::awaitable<void> send(http::client* c, outcome* o) {
    try {
        co_await c->send(http::request("GET", "/"), o->f);
    } catch (const std::bad_alloc&) {
        o->refused = true;
    }
    o->throwing = co_await asio::this_coro::throw_if_cancelled();
    o->over = true;
}

asio::awaitable<void> greet(std::shared_ptr<http::server_request>, std::shared_ptr<http::server_response> r) {
    co_await r->send(200, "text/plain", "good morning to you, whoever you are");
}

/// Of this process.
int open_descriptors() {
    int n = 0;
    for (int fd = 0; fd < 1024; ++fd) n += ::fcntl(fd, F_GETFD) >= 0 ? 1 : 0;
    return n;
}

/// What a peer of the server sees. Once constructed, it needs none of the memory that may be refused.
class peer {
public:
    peer(asio::io_context& io, std::uint16_t port) : socket_(io) {
        socket_.connect(tcp::endpoint(asio::ip::address_v4::loopback(), port), refused_);
        if (refused_) return;
        static constexpr std::string_view request = "GET / HTTP/1.1\r\nHost: somebody.example\r\n\r\n";
        asio::write(socket_, asio::buffer(request), refused_);
        socket_.non_blocking(true);
    }
    /// True once the beginning of the answer is there.
    bool answered() {
        std::array<char, 12> begin{};
        error_code ec;
        const std::size_t n = socket_.receive(asio::buffer(begin), tcp::socket::message_peek, ec);
        return std::string_view(begin.data(), n) == "HTTP/1.1 200";
    }
    bool refused() const { return refused_.failed(); }

private:
    tcp::socket socket_;
    error_code refused_;
};

} // namespace

TEST_CASE("without memory a connection is not kept, and the next one is", "[memory]") {
    asio::io_context io(1);
    http::detail::pool p(8, 90s);
    auto c = connection_of(p, io);
    {
        const lack l{refusal()};
        p.give(std::move(c));
    }
    CHECK(p.figures.idle == 0);
    p.give(connection_of(p, io));
    CHECK(p.figures.idle == 1);
}

TEST_CASE("giving up a response takes no memory", "[memory]") {
    asio::io_context io(1);
    answered a(io, "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nbegun");
    {
        const lack l{refusal()};
        a.response->close();
    }
    outcome o;
    asio::co_spawn(io, read(&*a.response, &o), asio::detached);
    REQUIRE(run_until(io, [&] { return o.over; }));
    CHECK(o.f == errc::cancelled);
}

TEST_CASE("reading a body that breaks off fails wherever it lacks memory", "[memory]") {
    for_every_request([](const refusal& r) {
        asio::io_context io(1);
        answered a(io, "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nbegun");
        outcome o;
        asio::co_spawn(io, read(&*a.response, &o), asio::detached);
        {
            const lack l(r);
            run_until(io, [&] { return o.over; });
            a.response.reset();
        }
        REQUIRE(o.over);
        CHECK((o.refused || o.f == errc::connection_lost));
        CHECK(o.throwing);
        run_until(io, [&] { return io.stopped(); });
    });
}

TEST_CASE("wherever a request lacks memory, it fails or throws, and leaves its caller's cancellation as it was",
          "[memory]") {
    const int before = open_descriptors();
    for_every_request([](const refusal& r) {
        asio::io_context io(1);
        http::endpoint nobody;
        nobody.host = "127.0.0.1";
        nobody.port = 1;
        failure f;
        http::client c(runtime(io.get_executor()), nobody, http::client_options(), f);
        outcome o;
        asio::co_spawn(io, send(&c, &o), asio::detached);
        try {
            const lack l(r);
            run_until(io, [&] { return o.over; });
        } catch (const std::bad_alloc&) { // an asynchronous operation lacked memory as it began
            return;
        }
        REQUIRE(o.over);
        CHECK((o.refused || o.f == errc::connection_refused || o.f == errc::connect_failed));
        CHECK(o.throwing);
        run_until(io, [&] { return io.stopped(); });
    });
    CHECK(open_descriptors() == before);
}

TEST_CASE("a look-up that lacks memory fails for all that wait for it, and the next request looks up anew",
          "[memory]") {
    http_test::held_look_ups names;
    asio::io_context io(1);
    http::endpoint nobody;
    nobody.host = "held.test";
    nobody.port = 1;
    failure f;
    http::client c(runtime(io.get_executor()), nobody, http::client_options(), f);
    std::array<outcome, 3> all;
    for (outcome& o : all) asio::co_spawn(io, send(&c, &o), asio::detached);
    REQUIRE(run_until(io, [&] { return names.begun() == 1; }));
    io.poll(); // now all of them wait, and the look-up asks for memory next, for what it found
    refusal r;
    r.once = true;
    bool over = false;
    {
        const lack l(r);
        names.let_go();
        over = run_until(io, [&] { return all[0].over && all[1].over && all[2].over; });
    }
    REQUIRE(over);
    for (const outcome& o : all) {
        CHECK(o.f == errc::resolve_failed);
        CHECK(o.f.message().find("bad_alloc") != std::string::npos);
    }
    CHECK(names.begun() == 1);
    outcome again;
    asio::co_spawn(io, send(&c, &again), asio::detached);
    REQUIRE(run_until(io, [&] { return again.over; }));
    CHECK(again.f == errc::connection_refused);
    CHECK(names.begun() == 2);
    run_until(io, [&] { return io.stopped(); });
}

TEST_CASE("without memory the server loses the request and no more: it goes on accepting and keeps no dead connection",
          "[memory]") {
    for_every_request([](const refusal& r) {
        asio::io_context io(1);
        runtime rt(io.get_executor());
        http::server s(rt, http::server_options().patience(5s), greet);
        failure f;
        s.listen(f);
        REQUIRE_FALSE(f);
        {
            peer before(io, s.port()); // makes the io_context allocate what it needs only once
            REQUIRE(run_until(io, [&] { return before.answered(); }));
        }
        REQUIRE(run_until(io, [&] { return s.connections() == 0; }));
        {
            peer first(io, s.port());
            REQUIRE_FALSE(first.refused());
            {
                const lack l(r);
                for (int i = 0; i < 30; ++i) { // what comes by loopback has arrived already
                    io.restart();
                    io.poll();
                }
            }
            CHECK(s.listening());
            peer second(io, s.port());
            REQUIRE_FALSE(second.refused());
            CHECK(run_until(io, [&] { return second.answered(); }));
        }
        CHECK(run_until(io, [&] { return s.connections() == 0; }));
        bool stopped = false;
        asio::co_spawn(io, s.stop(), [&](std::exception_ptr e) { stopped = e == nullptr; });
        CHECK(run_until(io, [&] { return stopped; }));
    });
}

TEST_CASE("a server without memory to begin accepting does not listen, and says so; it can be told to listen again",
          "[memory]") {
    for_every_request([](const refusal& r) {
        asio::io_context io(1);
        runtime rt(io.get_executor());
        http::server s(rt, http::server_options().address("127.0.0.1"), greet);
        failure f;
        {
            const lack l(r);
            try {
                s.listen(f);
            } catch (const std::bad_alloc&) { // NOLINT(bugprone-empty-catch) is one way to say it
            }
            for (int i = 0; i < 10; ++i) {
                io.restart();
                io.poll();
            }
        }
        if (!s.listening()) {
            if (s.port() != 0) CHECK(peer(io, s.port()).refused());
            s.listen(f);
            CHECK_FALSE(f);
        }
        peer p(io, s.port());
        REQUIRE_FALSE(p.refused());
        CHECK(run_until(io, [&] { return p.answered(); }));
    });
}

TEST_CASE("without memory a list_watch forgets what it has learnt about its server, and learns it again", "[memory]") {
    asio::io_context io(1);
    failure f;
    kubernetes::client_config config;
    config.server = "http://127.0.0.1:1";
    const kubernetes::client c(runtime(io.get_executor()), config, f);
    REQUIRE_FALSE(f);
    api_resource pods;
    pods.version = "v1";
    pods.kind = "Pod";
    pods.plural = "pods";
    const auto source = c.make_list_watch(pods, "");
    {
        const lack l{refusal()};
        source->learnt(watch_list_support::no);
    }
    CHECK(source->watch_list() == watch_list_support::unknown);
    source->learnt(watch_list_support::no);
    CHECK(source->watch_list() == watch_list_support::no);
}
