// A real proxy on loopback: CONNECT, requests by their whole URL, SOCKS 5 with and without a login. It resolves every
// name to 127.0.0.1: if a request for any other name reaches the server, only the proxy has resolved that name.
#pragma once

#include <informer/task_group.hpp>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>

#include <cstdint>
#include <cstdlib>
#include <list>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <fcntl.h>

namespace informer::testing {

/// *Executor*: one, that of the runtime. *Lifetime*: `co_await stop()` before it goes.
class http_proxy {
    using tcp = boost::asio::ip::tcp;
    static constexpr auto token = boost::asio::as_tuple(boost::asio::use_awaitable);

    struct link {
        explicit link(tcp::socket c) : client(std::move(c)), server(client.get_executor()) {}
        tcp::socket client, server;
        std::string in; ///< bytes from the client that are not forwarded yet
        void cut() {
            boost::system::error_code ignored;
            client.close(ignored);
            server.close(ignored);
        }
    };
    struct state {
        explicit state(boost::asio::any_io_executor e) : acceptor(e), group(e) {}
        tcp::acceptor acceptor;
        task_group group;
        std::uint16_t port = 0;
        std::list<std::weak_ptr<link>> links;
        std::vector<std::string> asked;
        std::string login, socks_login;
        std::size_t accepted = 0;
    };

public:
    explicit http_proxy(boost::asio::any_io_executor executor) : state_(std::make_shared<state>(executor)) { start(); }

    std::uint16_t port() const { return state_->port; }
    /// Each tunnel and request: "CONNECT api.test:6443", "GET http://api.test:80/x", "SOCKS api.test:6443".
    const std::vector<std::string>& asked() const { return state_->asked; }
    std::size_t accepted() const { return state_->accepted; }
    std::size_t open() const {
        std::size_t n = 0;
        for (const auto& w : state_->links)
            if (const auto l = w.lock(); l && l->client.is_open()) ++n;
        return n;
    }
    /// Refuses clients with any other login. `header` is for HTTP ("Basic …"), user and password are for SOCKS.
    void demand(std::string header, std::string user, std::string password) {
        state_->login = std::move(header);
        state_->socks_login = std::string(1, char(user.size())) + user + char(password.size()) + password;
    }
    /// Cuts all connections and stops listening; `start` listens on the same port again.
    void crash() {
        boost::system::error_code ignored;
        state_->acceptor.close(ignored);
        cut_all();
    }
    void start() {
        const tcp::endpoint at(boost::asio::ip::make_address("127.0.0.1"), state_->port);
        state_->acceptor.open(at.protocol());
        ::fcntl(state_->acceptor.native_handle(), F_SETFD, FD_CLOEXEC);
        state_->acceptor.set_option(tcp::acceptor::reuse_address(true));
        state_->acceptor.bind(at);
        state_->acceptor.listen();
        state_->port = state_->acceptor.local_endpoint().port();
        state_->group.spawn(accept(state_));
    }
    void cut_all() {
        for (const auto& w : state_->links)
            if (const auto l = w.lock()) l->cut();
        state_->links.clear();
    }
    boost::asio::awaitable<void> stop() {
        crash();
        state_->group.stop();
        co_await state_->group.join();
    }

private:
    static boost::asio::awaitable<void> accept(std::shared_ptr<state> s) {
        for (;;) {
            auto [ec, client] = co_await s->acceptor.async_accept(token);
            if (ec) co_return;
            ++s->accepted;
            ::fcntl(client.native_handle(), F_SETFD, FD_CLOEXEC);
            const auto l = std::make_shared<link>(std::move(client));
            s->links.remove_if([](const std::weak_ptr<link>& w) { return w.expired(); });
            s->links.push_back(l);
            s->group.spawn(serve(s, l));
        }
    }
    static boost::asio::awaitable<bool> say(std::shared_ptr<link> l, std::string text) {
        const auto [ec, n] = co_await boost::asio::async_write(l->client, boost::asio::buffer(text), token);
        co_return !ec;
    }
    /// `n` bytes from the client; "" if it has left.
    static boost::asio::awaitable<std::string> take(std::shared_ptr<link> l, std::size_t n) {
        while (l->in.size() < n) {
            char piece[4096];
            const auto [ec, some] = co_await l->client.async_read_some(boost::asio::buffer(piece), token);
            if (ec) co_return std::string();
            l->in.append(piece, some);
        }
        const std::string out = l->in.substr(0, n);
        l->in.erase(0, n);
        co_return out;
    }
    static boost::asio::awaitable<std::string> take_head(std::shared_ptr<link> l) {
        std::size_t end = 0;
        while ((end = l->in.find("\r\n\r\n")) == std::string::npos) {
            char piece[4096];
            const auto [ec, some] = co_await l->client.async_read_some(boost::asio::buffer(piece), token);
            if (ec) co_return std::string();
            l->in.append(piece, some);
        }
        const std::string out = l->in.substr(0, end + 4);
        l->in.erase(0, end + 4);
        co_return out;
    }
    static boost::asio::awaitable<bool> connect(std::shared_ptr<link> l, std::string port) {
        boost::system::error_code ec;
        l->server.open(tcp::v4(), ec);
        ::fcntl(l->server.native_handle(), F_SETFD, FD_CLOEXEC);
        const tcp::endpoint to(boost::asio::ip::make_address("127.0.0.1"),
                               static_cast<std::uint16_t>(std::atoi(port.c_str())));
        const auto [failed] = co_await l->server.async_connect(to, token);
        co_return !failed;
    }
    static boost::asio::awaitable<void> pump(std::shared_ptr<link> l, bool down) {
        auto& from = down ? l->server : l->client;
        auto& to = down ? l->client : l->server;
        std::vector<char> buffer(std::size_t(64) << 10);
        for (;;) {
            const auto [ec, n] = co_await from.async_read_some(boost::asio::buffer(buffer), token);
            if (ec) break;
            const auto [broken, written] =
                co_await boost::asio::async_write(to, boost::asio::buffer(buffer.data(), n), token);
            if (broken) break;
        }
        l->cut();
    }
    static boost::asio::awaitable<void> tunnel(std::shared_ptr<state> s, std::shared_ptr<link> l) {
        s->group.spawn(pump(l, true));
        co_await boost::asio::async_write(l->server, boost::asio::buffer(l->in), token);
        co_await pump(l, false);
    }
    static std::string field(const std::string& head, std::string_view name) {
        const auto at = head.find("\r\n" + std::string(name) + ": ");
        if (at == std::string::npos) return {};
        const auto from = at + name.size() + 4;
        return head.substr(from, head.find("\r\n", from) - from);
    }
    static boost::asio::awaitable<void> serve(std::shared_ptr<state> s, std::shared_ptr<link> l) {
        const std::string first = co_await take(l, 1);
        l->in.insert(0, first);
        if (first.empty())
            l->cut();
        else if (first[0] == 5)
            co_await serve_socks(s, l);
        else
            co_await serve_http(s, l);
        l->cut();
    }
    static boost::asio::awaitable<void> serve_http(std::shared_ptr<state> s, std::shared_ptr<link> l) {
        for (;;) {
            std::string head = co_await take_head(l);
            if (head.empty()) co_return;
            const auto space = head.find(' '), end = head.find(' ', space + 1);
            const std::string method = head.substr(0, space), target = head.substr(space + 1, end - space - 1);
            s->asked.push_back(method + " " + target);
            const std::string login = field(head, "Proxy-Authorization");
            if (login != s->login) { // says the login aloud, as a trap: no message may repeat it
                co_await say(l, "HTTP/1.1 407 " + login +
                                    "\r\nProxy-Authenticate: Basic realm=\"x\"\r\nContent-Length: 0\r\n\r\n");
                co_return;
            }
            const auto port_of = [](const std::string& host) { return host.substr(host.rfind(':') + 1); };
            if (method == "CONNECT") {
                const bool there = co_await connect(l, port_of(target));
                std::string answer = "HTTP/1.1 502 Bad Gateway\r\n\r\n";
                if (there) answer = "HTTP/1.1 200 Connection established\r\n\r\n";
                co_await say(l, answer);
                if (there) co_await tunnel(s, l);
                co_return;
            }
            // "GET http://host:port/path": the server sees the path.
            const auto path = target.find('/', 7);
            if (!l->server.is_open()) {
                const bool there = co_await connect(l, port_of(target.substr(7, path - 7)));
                if (!there) {
                    co_await say(l, "HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n");
                    co_return;
                }
                s->group.spawn(pump(l, true));
            }
            head.replace(space + 1, target.size(), target.substr(path));
            if (!login.empty()) {
                const auto at = head.find("\r\nProxy-Authorization: ");
                head.erase(at, head.find("\r\n", at + 2) - at);
            }
            const std::string length = field(head, "Content-Length");
            const std::size_t size = length.empty() ? 0 : std::strtoul(length.c_str(), nullptr, 10);
            const std::string body = co_await take(l, size);
            head += body;
            const auto [ec, n] = co_await boost::asio::async_write(l->server, boost::asio::buffer(head), token);
            if (ec) co_return;
        }
    }
    static boost::asio::awaitable<void> serve_socks(std::shared_ptr<state> s, std::shared_ptr<link> l) {
        const std::string greeting = co_await take(l, 2);
        if (greeting.empty()) co_return;
        const std::string methods = co_await take(l, static_cast<unsigned char>(greeting[1]));
        const char wanted = s->socks_login.empty() ? 0 : 2;
        if (methods.find(wanted) == std::string::npos) {
            co_await say(l, "\x05\xff");
            co_return;
        }
        std::string answer{5, wanted};
        bool ok = co_await say(l, answer);
        if (ok && wanted == 2) {
            std::string said = co_await take(l, 2);
            if (said.empty()) co_return;
            const std::string user = co_await take(l, static_cast<unsigned char>(said[1]) + std::size_t(1));
            if (user.empty()) co_return;
            const std::string password = co_await take(l, static_cast<unsigned char>(user.back()));
            ok = said.substr(1) + user + password == s->socks_login;
            answer = {1, char(ok ? 0 : 1)};
            co_await say(l, answer);
        }
        if (!ok) co_return;
        const std::string request = co_await take(l, 4);
        if (request.empty()) co_return;
        std::string host;
        if (request[3] == 3) {
            const std::string size = co_await take(l, 1);
            host = co_await take(l, static_cast<unsigned char>(size[0]));
        } else if (request[3] == 1) {
            const std::string b = co_await take(l, 4);
            boost::asio::ip::address_v4::bytes_type bytes{};
            for (std::size_t i = 0; i < b.size(); ++i) bytes[i] = static_cast<unsigned char>(b[i]);
            host = boost::asio::ip::address_v4(bytes).to_string();
        } else {
            const std::string b = co_await take(l, 16);
            boost::asio::ip::address_v6::bytes_type bytes{};
            for (std::size_t i = 0; i < b.size(); ++i) bytes[i] = static_cast<unsigned char>(b[i]);
            host = "[" + boost::asio::ip::address_v6(bytes).to_string() + "]";
        }
        const std::string p = co_await take(l, 2);
        if (p.empty()) co_return;
        const std::string port =
            std::to_string(static_cast<unsigned char>(p[0]) * 256 + static_cast<unsigned char>(p[1]));
        s->asked.push_back("SOCKS " + host + ":" + port);
        const bool there = co_await connect(l, port);
        answer = {5, char(there ? 0 : 5), 0, 1, 127, 0, 0, 1, 0, 80};
        co_await say(l, answer);
        if (there) co_await tunnel(s, l);
    }

    std::shared_ptr<state> state_;
};

} // namespace informer::testing
