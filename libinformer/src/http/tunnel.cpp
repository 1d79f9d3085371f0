#include "http/tunnel.hpp"

#include "http/host_text.hpp"
#include "http/proxy_dialogue.hpp"
#include "root/base64.hpp"

#include <boost/asio/this_coro.hpp>

#include <algorithm>
#include <array>
#include <utility>

namespace informer::http::detail {

namespace {

/// host:port, always with the port.
std::string address_of(const endpoint& e) {
    return in_url(e.host) + ":" + std::to_string(e.port);
}

bool sayable(std::string_view s) {
    return !s.empty() &&
           std::none_of(s.begin(), s.end(), [](char c) { return static_cast<unsigned char>(c) <= ' ' || c == 0x7f; });
}

/// Adds a cancellation to the result of an operation: one that had finished when the cancellation came was not
/// interrupted by it.
asio::awaitable<void> unless_cancelled(error_code& ec) {
    const auto cancellation = co_await asio::this_coro::cancellation_state;
    if (!ec && cancellation.cancelled() != asio::cancellation_type::none) ec = asio::error::operation_aborted;
}

/// Runs the dialogue until it is over or the connection fails. What follows the proxy's answer stays in the stream for
/// the next reader.
asio::awaitable<void> talk(std::shared_ptr<transport> s, std::shared_ptr<proxy_dialogue> with, error_code& ec) {
    std::array<char, 2048> room;
    while (!with->open() && !with->failed()) {
        const std::string words = with->take_words();
        for (std::size_t sent = 0; sent < words.size();) {
            const asio::const_buffer rest(words.data() + sent, words.size() - sent);
            const std::size_t n = co_await s->write_some(rest, ec);
            sent += n;
            co_await unless_cancelled(ec);
            if (ec) co_return;
        }
        const std::size_t n = co_await s->look(asio::buffer(room), ec);
        co_await unless_cancelled(ec);
        if (ec) co_return;
        for (std::size_t theirs = with->hear(std::string_view(room.data(), n)); theirs > 0;) {
            const asio::mutable_buffer said(room.data(), theirs);
            const std::size_t taken = co_await s->read_some(said, ec);
            theirs -= taken;
            co_await unless_cancelled(ec);
            if (ec) co_return;
        }
    }
}

} // namespace

route::route(proxy p, endpoint server, std::string_view user_agent, failure& f)
    : through(std::move(p)), to(std::move(server)), tunnels(to.tls || through.speaks == proxy::protocol::socks5) {
    static constexpr std::size_t longest_name = 255; // in a SOCKS request, and in DNS
    hop.host = through.host;
    hop.port = through.port;
    hop.tls = through.speaks == proxy::protocol::https;
    if (!sayable(through.host) || through.port == 0)
        f = failure(errc::bad_configuration, "the proxy has no host or no port");
    else if (!sayable(to.host) || to.host.size() > longest_name)
        f = failure(errc::bad_configuration, "the server's host cannot be said to the proxy " + through.url());
    if (f) return;
    // Uses no TLS setting of the cluster: neither its CA, which is not the proxy's, nor `insecure`, nor our
    // certificate.
    if (hop.tls) tls = make_client_context(tls_options().ca(through.ca_pem), f);
    if (f) f = f.within("the proxy " + through.url());
    if (f) return;
    if (through.authenticates() && through.speaks != proxy::protocol::socks5)
        authorization = "Basic " + informer::detail::base64_encode(through.user + ":" + through.password);
    connect = "CONNECT " + address_of(to) + " HTTP/1.1\r\nHost: " + address_of(to) + "\r\n";
    if (!user_agent.empty()) connect.append("User-Agent: ").append(user_agent).append("\r\n");
    if (!authorization.empty()) connect.append("Proxy-Authorization: ").append(authorization).append("\r\n");
    connect += "\r\n";
}

asio::awaitable<void> open_tunnel(std::shared_ptr<transport> stream, std::shared_ptr<const route> way,
                                  std::chrono::milliseconds limit, std::shared_ptr<phase_timer> timer, failure& f) {
    std::shared_ptr<proxy_dialogue> with;
    if (way->through.speaks == proxy::protocol::socks5)
        with = socks_dialogue(way->through, way->to);
    else
        with = http_dialogue(way->connect);
    timer->on_late([stream] { stream->close(); });
    timer->begin(limit, errc::connect_timeout);
    error_code ec;
    co_await talk(stream, with, ec);
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
