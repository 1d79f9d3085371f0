// Every phase has a time-out and an error of its own.
#include "name_server.hpp"
#include "support.hpp"

#include "http/connector.hpp"

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/write.hpp>

#include <set>

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/stat.h>

using namespace http_test;

namespace {

asio::awaitable<void> stall(request_ptr, response_ptr r) {
    co_await r->wait_gone();
}

asio::awaitable<void> half_a_body(request_ptr, response_ptr r) {
    co_await r->begin(200, "text/plain");
    co_await r->write("half");
    co_await r->wait_gone();
}

asio::awaitable<void> drip(request_ptr, response_ptr r) {
    co_await r->begin(200, "text/plain");
    asio::steady_timer t(co_await asio::this_coro::executor);
    for (;;) {
        const bool ok = co_await r->write("drop");
        if (!ok) co_return;
        t.expires_after(5ms);
        const auto [ec] = co_await t.async_wait(as_result);
        if (ec) co_return;
    }
}

asio::awaitable<void> flood(request_ptr, response_ptr r) {
    co_await r->begin(200, "text/plain");
    const std::string piece(256 << 10, 'x');
    for (;;) {
        const bool ok = co_await r->write(piece);
        if (!ok) co_return;
    }
}

asio::awaitable<void> quick(request_ptr, response_ptr r) {
    co_await r->send(200, "text/plain", "ok");
}

asio::awaitable<failure> failure_of(http::client* c, http::request q) {
    failure f;
    auto r = co_await c->send(std::move(q), f);
    if (f) co_return f;
    co_await r.read_all(std::size_t(1) << 40, f);
    co_return f;
}

http::request get(http::timeouts t) {
    return http::request("GET", "/").time(t);
}

asio::awaitable<void> resolve_phase() {
    const auto ex = co_await asio::this_coro::executor;
    bench b(ex, quick);
    resolver_delay_ms = 1000;
    auto slow = b.client(http::client_options(), "slow.test");
    failure f = co_await failure_of(slow.get(), get(http::timeouts().resolve(30ms)));
    CHECK(f == errc::resolve_timeout);
    CHECK(f == condition::timed_out);
    const std::function<bool()> busy = [] { return resolver_busy > 0; };
    const bool left_alone = co_await eventually(busy); // its thread may be late
    CHECK(left_alone);                                 // it did not wait for getaddrinfo
    f = co_await failure_of(slow.get(), get(http::timeouts().request(30ms)));
    CHECK(f == errc::request_timeout);
    auto nowhere = b.client(http::client_options(), "nowhere.test");
    f = co_await failure_of(nowhere.get(), get(http::timeouts()));
    CHECK(f == errc::resolve_failed);
    CHECK(f.message().find("nowhere.test") != std::string::npos);
    auto local = b.client(http::client_options(), "localhost");
    f = co_await failure_of(local.get(), get(http::timeouts()));
    CHECK_FALSE(f);
    co_await b.server.stop();
}

/// A listener whose queue is full: the kernel leaves further connections unanswered.
class full_listener {
public:
    explicit full_listener(asio::any_io_executor ex) : acceptor_(ex) {
        acceptor_.open(tcp::v4());
        acceptor_.bind(tcp::endpoint(asio::ip::address_v4::loopback(), 0));
        acceptor_.listen(0);
        for (int i = 0; i < 4; ++i) {
            auto s = std::make_unique<tcp::socket>(ex);
            s->open(tcp::v4());
            s->native_non_blocking(true);
            const auto to = acceptor_.local_endpoint(); // Asio's own connect would wait
            static_cast<void>(::connect(s->native_handle(), to.data(), static_cast<socklen_t>(to.size())));
            waiting_.push_back(std::move(s));
        }
    }
    http::endpoint endpoint() const {
        http::endpoint e;
        e.host = "127.0.0.1";
        e.port = acceptor_.local_endpoint().port();
        return e;
    }

private:
    tcp::acceptor acceptor_;
    std::vector<std::unique_ptr<tcp::socket>> waiting_;
};

/// The sockets of this process that a program it starts would inherit.
std::set<int> inheritable_sockets() {
    std::set<int> found;
    for (int fd = 0; fd < 1024; ++fd) {
        struct stat about {};
        if (::fstat(fd, &about) == 0 && S_ISSOCK(about.st_mode) && (::fcntl(fd, F_GETFD) & FD_CLOEXEC) == 0)
            found.insert(fd);
    }
    return found;
}
std::size_t connecting() {
    std::size_t n = 0;
    for (int fd = 0; fd < 1024; ++fd) {
        tcp_info about{};
        socklen_t size = sizeof about;
        if (::getsockopt(fd, IPPROTO_TCP, TCP_INFO, &about, &size) == 0 && about.tcpi_state == TCP_SYN_SENT) ++n;
    }
    return n;
}

asio::awaitable<void> nothing_is_inherited() {
    const auto ex = co_await asio::this_coro::executor;
    full_listener full(ex);
    failure f;
    http::client c(runtime(ex), full.endpoint(), http::client_options(), f);
    const auto before = inheritable_sockets();
    const auto waiting = connecting();
    bool done = false;
    asio::cancellation_signal stop;
    asio::co_spawn(
        ex, failure_of(&c, get(http::timeouts().connect(30s))),
        asio::bind_cancellation_slot(stop.slot(), [&done](std::exception_ptr, const failure&) { done = true; }));
    const auto under_way = [&waiting] { return connecting() > waiting; };
    const bool begun = co_await testing::eventually(under_way);
    CHECK(begun);
    CHECK(inheritable_sockets() == before);
    stop.emit(asio::cancellation_type::terminal);
    const auto over = [&done] { return done; };
    const bool ended = co_await testing::eventually(over);
    CHECK(ended);
}

asio::awaitable<void> connect_phase() {
    const auto ex = co_await asio::this_coro::executor;
    full_listener full(ex);
    failure f;
    http::client c(runtime(ex), full.endpoint(), http::client_options(), f);
    f = co_await failure_of(&c, get(http::timeouts().connect(50ms)));
    CHECK(f == errc::connect_timeout);
    f = co_await failure_of(&c, get(http::timeouts().request(50ms)));
    CHECK(f == errc::request_timeout);
}

asio::awaitable<void> answer_all(std::shared_ptr<tcp::socket> s) {
    for (;;) {
        const std::string head = co_await read_head(s);
        if (head.empty()) co_return;
        static constexpr std::string_view answer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
        const auto [ec, n] = co_await asio::async_write(*s, asio::buffer(answer), as_result);
        if (ec) co_return;
    }
}

asio::awaitable<void> two_addresses() {
    const auto ex = co_await asio::this_coro::executor;
    full_listener full(ex);
    auto to = full.endpoint();
    to.host = "two.test";
    failure f;
    http::client c(runtime(ex), to, http::client_options(), f);
    f = co_await failure_of(&c, get(http::timeouts().connect(2s))); // nobody listens at the second address
    CHECK(f == errc::connect_timeout);
    CHECK(f.message().find("connect to 127.0.0.1:") != std::string::npos);
    CHECK(f.message().find("127.0.0.2") == std::string::npos); // that one had refused

    raw_peer second(ex, tcp::endpoint(asio::ip::make_address_v4("127.0.0.2"), to.port), answer_all);
    // The second address is tried after a quarter of a second, never before. If we were held up, try again.
    auto took = std::chrono::steady_clock::duration::max();
    for (int i = 1; i <= 5 && took >= 2s; ++i) {
        c.close_idle();
        const auto start = std::chrono::steady_clock::now();
        // Half of the connect limit, which would be the first address's fair share, is more than the request has.
        f = co_await failure_of(&c, get(http::timeouts().connect(60s).request(10s)));
        took = std::chrono::steady_clock::now() - start;
        CHECK_FALSE(f);
        CHECK(took >= 200ms);
        CHECK(second.accepted() == i);
    }
    CHECK(took < 2s);
    second.close();
}

asio::awaitable<void> kept_alive() {
    const auto ex = co_await asio::this_coro::executor;
    bench b(ex, stall);
    http::detail::connect_plan plan;
    plan.to = b.endpoint();
    const auto timer = std::make_shared<http::detail::phase_timer>(ex, 0ms);
    failure f;
    const auto stream = co_await http::detail::open(ex, plan, timer, f);
    REQUIRE_FALSE(f);
    const auto set = [&stream](int level, int option) {
        int n = -1;
        socklen_t size = sizeof n;
        return ::getsockopt(stream->socket().native_handle(), level, option, &n, &size) == 0 ? n : -1;
    };
    CHECK(set(SOL_SOCKET, SO_KEEPALIVE) == 1);
    // A dead peer is noticed after a minute.
    CHECK(set(IPPROTO_TCP, TCP_KEEPIDLE) + set(IPPROTO_TCP, TCP_KEEPINTVL) * set(IPPROTO_TCP, TCP_KEEPCNT) == 60);
    stream->close();
    co_await b.server.stop();
}

/// The whole request's limit passes before a phase begins.
asio::awaitable<void> late_before_it_begins(std::string host) {
    const auto ex = co_await asio::this_coro::executor;
    full_listener full(ex);
    http::detail::connect_plan plan;
    plan.to = full.endpoint();
    plan.to.host = host;
    plan.limits.connect(0ms).resolve(0ms);
    const auto timer = std::make_shared<http::detail::phase_timer>(ex, 1ms);
    const auto end = std::chrono::steady_clock::now() + 2ms;
    while (std::chrono::steady_clock::now() < end) {
    }
    failure f;
    const int done = resolver_done;
    const auto none = co_await http::detail::open(ex, plan, timer, f);
    CHECK(none == nullptr);
    CHECK(f == errc::request_timeout);
    CHECK(f.message().find(host) != std::string::npos);
    CHECK(resolver_done == done); // it did not wait for getaddrinfo
    timer->cancel();
}

asio::awaitable<void> interim_for_ever(std::shared_ptr<tcp::socket> s) {
    co_await read_head(s);
    std::string many;
    while (many.size() < 64 << 10) many += "HTTP/1.1 103 Early Hints\r\n\r\n";
    for (;;) {
        const auto [ec, n] = co_await asio::async_write(*s, asio::buffer(many), as_result);
        if (ec) co_return;
    }
}

asio::awaitable<void> no_answer_but_interim_ones() {
    const auto ex = co_await asio::this_coro::executor;
    raw_peer p(ex, interim_for_ever);
    failure f;
    http::client c(runtime(ex), p.endpoint(), http::client_options(), f);
    f = co_await failure_of(&c, get(http::timeouts()));
    CHECK(f == errc::bad_response);
    p.close();
}

asio::awaitable<void> refused() {
    const auto ex = co_await asio::this_coro::executor;
    bench b(ex, quick);
    auto c = b.client();
    auto by_name = b.client(http::client_options(), "localhost");
    b.server.stop_listening(true);
    failure f = co_await failure_of(c.get(), get(http::timeouts()));
    CHECK(f == errc::connection_refused);
    CHECK(f.message().find(std::to_string(b.server.port())) != std::string::npos);
    f = co_await failure_of(by_name.get(), get(http::timeouts()));
    CHECK(f == errc::connection_refused);
    co_await b.server.stop();
}

asio::awaitable<void> tls_phase() {
    const auto ex = co_await asio::this_coro::executor;
    bench b(ex, quick, http::server_options().tls(server_tls(loopback_pair())));
    b.server.on_accept(http::server::accept_mode::stall);
    auto c = b.tls_client(http::tls_options().ca(authority().certificate_pem()));
    failure f = co_await failure_of(c.get(), get(http::timeouts().tls(50ms)));
    CHECK(f == errc::tls_timeout);
    f = co_await failure_of(c.get(), get(http::timeouts().request(50ms)));
    CHECK(f == errc::request_timeout);
    co_await b.server.stop();
}

asio::awaitable<void> header_phase(bool tls) {
    const auto ex = co_await asio::this_coro::executor;
    http::server_options o;
    if (tls) o.tls(server_tls(loopback_pair()));
    bench b(ex, stall, o);
    auto c = b.tls_client(http::tls_options().ca(authority().certificate_pem()));
    failure f = co_await failure_of(c.get(), get(http::timeouts().header(50ms)));
    CHECK(f == errc::header_timeout);
    CHECK(f.message().find("GET http") == 0);
    f = co_await failure_of(c.get(), get(http::timeouts().request(50ms)));
    CHECK(f == errc::request_timeout);
    co_await b.server.stop();
}

asio::awaitable<void> drip_header(std::shared_ptr<tcp::socket> s) {
    co_await read_head(s);
    asio::steady_timer t(s->get_executor());
    std::string next = "HTTP/1.1 200 OK\r\n";
    for (;;) {
        const auto [ec, n] = co_await s->async_write_some(asio::buffer(next), as_result);
        if (ec) co_return;
        next = "X: y\r\n";
        t.expires_after(5ms);
        const auto [stopped] = co_await t.async_wait(as_result);
        if (stopped) co_return;
    }
}

asio::awaitable<void> dripping_header() {
    const auto ex = co_await asio::this_coro::executor;
    raw_peer p(ex, drip_header);
    failure f;
    http::client c(runtime(ex), p.endpoint(), http::client_options(), f);
    f = co_await failure_of(&c, get(http::timeouts().header(60ms)));
    CHECK(f == errc::header_timeout);
    p.close();
}

asio::awaitable<void> body_phase(bool tls) {
    const auto ex = co_await asio::this_coro::executor;
    http::server_options o;
    if (tls) o.tls(server_tls(loopback_pair()));
    bench b(ex, half_a_body, o);
    auto c = b.tls_client(http::tls_options().ca(authority().certificate_pem()));
    failure f;
    http::response r;
    char buffer[100];
    std::size_t n = 0;
    // Server and client share a thread: if it was held up before the first bytes, try again with more time.
    for (auto idle = 50ms; n == 0 && idle < 10s; idle *= 4) {
        r = co_await c->send(get(http::timeouts().body_idle(idle)), f);
        REQUIRE_FALSE(f);
        n = co_await r.read_some(asio::buffer(buffer), f);
    }
    CHECK_FALSE(f);
    CHECK(std::string_view(buffer, n) == "half");
    n = co_await r.read_some(asio::buffer(buffer), f);
    CHECK(n == 0);
    CHECK(f == errc::body_idle_timeout);
    f = failure();
    n = co_await r.read_some(asio::buffer(buffer), f);
    CHECK(n == 0);
    CHECK(f == errc::body_idle_timeout); // it stays so
    co_await b.server.stop();
}

asio::awaitable<void> whole_request(http::server_handler h, http::timeouts t, errc expected) {
    const auto ex = co_await asio::this_coro::executor;
    bench b(ex, std::move(h));
    auto c = b.client();
    const failure f = co_await failure_of(c.get(), get(t));
    CHECK(f == expected);
    co_await b.server.stop();
}

asio::awaitable<void> dripping_body() {
    const auto ex = co_await asio::this_coro::executor;
    bench b(ex, drip);
    auto c = b.client();
    failure f;
    // Server and client share a thread: if it was held up between two drops, try again with more time.
    for (auto idle = 150ms; f != errc::request_timeout && idle < 10s; idle *= 4)
        f = co_await failure_of(c.get(), get(http::timeouts().body_idle(idle).request(idle * 5 / 2)));
    CHECK(f == errc::request_timeout);
    co_await b.server.stop();
}

asio::awaitable<void> body_that_is_not_read(std::shared_ptr<tcp::socket> s) {
    asio::steady_timer t(s->get_executor(), 5s);
    co_await t.async_wait(as_result);
}

asio::awaitable<void> request_body_phase() {
    const auto ex = co_await asio::this_coro::executor;
    raw_peer p(ex, body_that_is_not_read);
    failure f;
    http::client c(runtime(ex), p.endpoint(), http::client_options(), f);
    http::request q("POST", "/");
    q.body(std::string(64 << 20, 'x'), "text/plain");
    q.time(http::timeouts().body_idle(50ms));
    f = co_await failure_of(&c, std::move(q));
    CHECK(f == errc::body_idle_timeout);
    p.close();
}

asio::awaitable<void> slow_reader() {
    const auto ex = co_await asio::this_coro::executor;
    bench b(ex, flood);
    auto c = b.client();
    failure f;
    auto r = co_await c->send(get(http::timeouts().body_idle(20ms)), f);
    REQUIRE_FALSE(f);
    char buffer[1000];
    for (int i = 0; i < 3; ++i) {
        asio::steady_timer t(ex, 50ms); // our own pause is not the peer's
        co_await t.async_wait(as_result);
        const std::size_t n = co_await r.read_some(asio::buffer(buffer), f);
        CHECK(n > 0);
        CHECK_FALSE(f);
    }
    r.close();
    co_await b.server.stop();
}

asio::awaitable<void> no_limits() {
    const auto ex = co_await asio::this_coro::executor;
    const auto for_ever = std::chrono::milliseconds::max();
    bench b(ex, quick, http::server_options().patience(for_ever));
    http::timeouts t;
    t.resolve(for_ever).connect(for_ever).tls(for_ever).header(for_ever).body_idle(for_ever).request(for_ever);
    const auto c = b.client();
    const failure f = co_await failure_of(c.get(), get(t));
    INFO(f.what());
    CHECK_FALSE(f);
    co_await b.server.stop();
}

asio::awaitable<void> soon_over() {
    const auto ex = co_await asio::this_coro::executor;
    bench b(ex, drip);
    auto c = b.client();
    failure f;
    auto r = co_await c->send(get(http::timeouts().request(1h)), f);
    REQUIRE_FALSE(f);
    r.finish_within(30ms);
    r.finish_within(1h); // the first one stays
    const std::string text = co_await r.read_all(std::size_t(1) << 30, f);
    CHECK(f == errc::request_timeout);
    co_await b.server.stop();
}

} // namespace

TEST_CASE("a limit of milliseconds::max() never passes") {
    run_test(no_limits());
}
TEST_CASE("resolving: its own time-out, which does not wait for getaddrinfo; unknown names; localhost") {
    run_test(resolve_phase());
}
TEST_CASE("connecting has a time-out of its own") {
    run_test(connect_phase());
}
TEST_CASE("a program that is started while a connection is being made inherits no socket of it") {
    run_test(nothing_is_inherited());
}
TEST_CASE("an address that never answers does not hide the next one, however little time a request has") {
    run_test(two_addresses());
}
TEST_CASE("an idle connection is probed, so that a dead peer is noticed") {
    run_test(kept_alive());
}
TEST_CASE("a request whose time is over before it resolves or connects ends at once") {
    run_test(late_before_it_begins("127.0.0.1"));
    resolver_delay_ms = 1000;
    run_test(late_before_it_begins("slow.test"));
}
TEST_CASE("a server that sends interim answers for ever is no HTTP server") {
    run_test(no_answer_but_interim_ones());
}
TEST_CASE("a port where nobody listens is connection_refused, by address and by name") {
    run_test(refused());
}
TEST_CASE("the TLS handshake has a time-out of its own") {
    run_test(tls_phase());
}
TEST_CASE("the response's header has a time-out of its own") {
    run_test(header_phase(false));
    run_test(header_phase(true));
}
TEST_CASE("a header that comes byte by byte does not escape its time-out") {
    run_test(dripping_header());
}
TEST_CASE("a body that stalls has a time-out of its own, after the bytes that came") {
    run_test(body_phase(false));
    run_test(body_phase(true));
}
TEST_CASE("the whole request has a time-out however busy the body is") {
    run_test(whole_request(drip, http::timeouts().body_idle(10s).request(80ms), errc::request_timeout));
    run_test(whole_request(flood, http::timeouts().body_idle(10s).request(80ms), errc::request_timeout));
}
TEST_CASE("a slow but living body does not time out") {
    run_test(dripping_body());
}
TEST_CASE("a request body that nobody reads times out") {
    run_test(request_body_phase());
}
TEST_CASE("a slow consumer does not count as a stall of the peer") {
    run_test(slow_reader());
}

TEST_CASE("a response may be given less time to end than its request had") {
    run_test(soon_over());
}
