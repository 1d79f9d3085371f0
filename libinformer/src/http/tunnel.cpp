#include "http/tunnel.hpp"

#include "http/host_text.hpp"
#include "http/proxy_dialogue.hpp"
#include "root/base64.hpp"

#include <boost/asio/this_coro.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <sys/socket.h>
#include <utility>

namespace informer::http::detail {

namespace {

/// host:port, the port always said.
std::string address_of(const endpoint& e) {
    return in_url(e.host) + ":" + std::to_string(e.port);
}

bool sayable(std::string_view s) {
    return !s.empty() &&
           std::none_of(s.begin(), s.end(), [](char c) { return static_cast<unsigned char>(c) <= ' ' || c == 0x7f; });
}

/// What is there, without taking it: whatever follows the proxy's words belongs to who reads the socket next.
std::size_t look(tcp::socket& s, char* to, std::size_t size, bool& none, error_code& ec) noexcept {
    ssize_t n = 0;
    do n = ::recv(s.native_handle(), to, size, MSG_PEEK | MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    none = n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
    if (n == 0) ec = asio::error::eof;
    if (n < 0 && !none) ec = error_code(errno, boost::system::system_category());
    return n < 0 ? 0 : static_cast<std::size_t>(n);
}

/// Takes `n` bytes that were looked at.
void drop(tcp::socket& s, char* to, std::size_t n) noexcept {
    while (n > 0) {
        const auto some = ::recv(s.native_handle(), to, n, MSG_DONTWAIT);
        if (some < 0 && errno == EINTR) continue;
        if (some <= 0) return;
        n -= static_cast<std::size_t>(some);
    }
}

/// What an operation came to; one that was over when we were cancelled was not interrupted by it.
asio::awaitable<void> unless_cancelled(error_code& ec) {
    const auto cancellation = co_await asio::this_coro::cancellation_state;
    if (!ec && cancellation.cancelled() != asio::cancellation_type::none) ec = asio::error::operation_aborted;
}

/// The dialogue, until it is over or the socket fails.
asio::awaitable<void> talk(std::shared_ptr<tcp::socket> s, std::shared_ptr<proxy_dialogue> with, error_code& ec) {
    std::array<char, 2048> room;
    while (!with->open() && !with->failed()) {
        const std::string words = with->take_words();
        for (std::size_t sent = 0; sent < words.size();) {
            const asio::const_buffer rest(words.data() + sent, words.size() - sent);
            const auto [failed, n] = co_await s->async_write_some(rest, as_result);
            sent += n;
            ec = failed;
            co_await unless_cancelled(ec);
            if (ec) co_return;
        }
        bool none = false;
        const std::size_t n = look(*s, room.data(), room.size(), none, ec);
        if (ec) co_return;
        if (n > 0) drop(*s, room.data(), with->hear(std::string_view(room.data(), n)));
        if (!none) continue;
        const auto [failed] = co_await s->async_wait(tcp::socket::wait_read, as_result);
        ec = failed;
        co_await unless_cancelled(ec);
        if (ec) co_return;
    }
}

} // namespace

route::route(proxy p, endpoint server, std::string_view user_agent, failure& f)
    : through(std::move(p)), to(std::move(server)), tunnels(to.tls || through.speaks == proxy::protocol::socks5) {
    static constexpr std::size_t longest_name = 255; // of a SOCKS request, and of DNS
    hop.host = through.host;
    hop.port = through.port;
    if (!sayable(through.host) || through.port == 0)
        f = failure(errc::bad_configuration, "the proxy has no host or no port");
    else if (!sayable(to.host) || to.host.size() > longest_name)
        f = failure(errc::bad_configuration, "the server's host cannot be said to the proxy " + through.url());
    if (f) return;
    if (through.authenticates() && through.speaks == proxy::protocol::http)
        authorization = "Basic " + informer::detail::base64_encode(through.user + ":" + through.password);
    connect = "CONNECT " + address_of(to) + " HTTP/1.1\r\nHost: " + address_of(to) + "\r\n";
    if (!user_agent.empty()) connect.append("User-Agent: ").append(user_agent).append("\r\n");
    if (!authorization.empty()) connect.append("Proxy-Authorization: ").append(authorization).append("\r\n");
    connect += "\r\n";
}

asio::awaitable<void> open_tunnel(std::shared_ptr<tcp::socket> socket, std::shared_ptr<const route> way,
                                  std::chrono::milliseconds limit, std::shared_ptr<phase_timer> timer, failure& f) {
    std::shared_ptr<proxy_dialogue> with;
    if (way->through.speaks == proxy::protocol::socks5)
        with = socks_dialogue(way->through, way->to);
    else
        with = http_dialogue(way->connect);
    timer->on_late([socket] {
        error_code ignored;
        socket->close(ignored);
    });
    timer->begin(limit, errc::connect_timeout);
    error_code ec;
    co_await talk(socket, with, ec);
    timer->end();
    timer->on_late(nullptr);
    const auto cancellation = co_await asio::this_coro::cancellation_state;
    const std::string doing = "connect to " + address_of(way->to), who = "the proxy " + way->through.url();
    if (cancellation.cancelled() != asio::cancellation_type::none)
        f = failure(errc::cancelled, doing + " through " + who);
    else if (const auto late = timer->late())
        f = failure(*late, doing + ": wait for " + who);
    else if (with->failed())
        f = failure(with->code(), doing + ": " + who + " " + with->why());
    else if (ec)
        f = failure(errc::connect_failed, doing + ": lost " + who + " (" + ec.message() + ")");
}

} // namespace informer::http::detail
