// A TCP proxy on loopback whose connections can be cut at will: faults between a client and a server that does not know
// of the proxy.
#pragma once

#include <informer/task_group.hpp>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>

#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include <fcntl.h>

namespace informer::testing {

/// *Executor*: one, that of the runtime. *Lifetime*: `co_await stop()` before it goes.
class tcp_proxy {
    using tcp = boost::asio::ip::tcp;
    static constexpr auto token = boost::asio::as_tuple(boost::asio::use_awaitable);

    // Children of the test must not inherit sockets: a cut connection would live on in them.
    template <class Socket>
    static void keep_from_children(Socket& s) {
        ::fcntl(s.native_handle(), F_SETFD, FD_CLOEXEC);
    }

    struct link {
        link(tcp::socket c, tcp::socket s) : client(std::move(c)), server(std::move(s)) {}
        tcp::socket client, server;
        std::uint64_t to_client = 0;
        void cut(bool reset) {
            boost::system::error_code ignored;
            if (reset) client.set_option(boost::asio::socket_base::linger(true, 0), ignored);
            client.close(ignored);
            server.close(ignored);
        }
    };
    struct state {
        state(boost::asio::any_io_executor e, std::string host, std::uint16_t port)
            : executor(e), acceptor(e), group(e), target(boost::asio::ip::make_address(host), port) {}
        boost::asio::any_io_executor executor;
        tcp::acceptor acceptor;
        task_group group;
        tcp::endpoint target;
        std::list<std::weak_ptr<link>> links;
        std::uint64_t accepted = 0, cuts = 0, cut_at = UINT64_MAX;
        bool refusing = false;
    };

public:
    /// Listens on a free port of 127.0.0.1 and forwards to host:port (an address).
    tcp_proxy(boost::asio::any_io_executor executor, std::string host, std::uint16_t port)
        : state_(std::make_shared<state>(executor, std::move(host), port)) {
        const tcp::endpoint any(boost::asio::ip::make_address("127.0.0.1"), 0);
        state_->acceptor.open(any.protocol());
        keep_from_children(state_->acceptor);
        state_->acceptor.bind(any);
        state_->acceptor.listen();
        state_->group.spawn(accept(state_));
    }
    std::uint16_t port() const { return state_->acceptor.local_endpoint().port(); }
    std::uint64_t accepted() const { return state_->accepted; }
    std::uint64_t cuts() const { return state_->cuts; }
    std::size_t open() const {
        std::size_t n = 0;
        for (const auto& w : state_->links) {
            if (const auto l = w.lock(); l && l->client.is_open()) ++n;
        }
        return n;
    }
    /// Cuts every connection now.
    void cut_all(bool reset = false) {
        for (const auto& w : state_->links) {
            const auto l = w.lock();
            if (!l || !l->client.is_open()) continue;
            ++state_->cuts;
            l->cut(reset);
        }
        state_->links.clear();
    }
    /// Every connection is cut after this many bytes to the client (UINT64_MAX: never).
    void cut_after(std::uint64_t bytes) { state_->cut_at = bytes; }
    /// New connections are reset.
    void refuse(bool on) { state_->refusing = on; }
    boost::asio::awaitable<void> stop() {
        boost::system::error_code ignored;
        state_->acceptor.close(ignored);
        cut_all();
        state_->group.stop();
        co_await state_->group.join();
    }

private:
    static boost::asio::awaitable<void> accept(std::shared_ptr<state> s) {
        for (;;) {
            auto [ec, client] = co_await s->acceptor.async_accept(token);
            if (ec) co_return;
            ++s->accepted;
            keep_from_children(client);
            tcp::socket server(s->executor);
            server.open(s->target.protocol());
            keep_from_children(server);
            if (s->refusing) {
                boost::system::error_code ignored;
                client.set_option(boost::asio::socket_base::linger(true, 0), ignored);
                continue;
            }
            auto [failed] = co_await server.async_connect(s->target, token);
            if (failed) continue;
            auto l = std::make_shared<link>(std::move(client), std::move(server));
            s->links.remove_if([](const std::weak_ptr<link>& w) { return w.expired(); });
            s->links.push_back(l);
            s->group.spawn(pump(s, l, true));
            s->group.spawn(pump(s, l, false));
        }
    }
    static boost::asio::awaitable<void> pump(std::shared_ptr<state> s, std::shared_ptr<link> l, bool down) {
        auto& from = down ? l->server : l->client;
        auto& to = down ? l->client : l->server;
        std::vector<char> buffer(std::size_t(64) << 10);
        for (;;) {
            auto [ec, n] = co_await from.async_read_some(boost::asio::buffer(buffer), token);
            if (ec) break;
            if (down) {
                const auto left = s->cut_at > l->to_client ? s->cut_at - l->to_client : 0;
                if (n >= left) {
                    co_await boost::asio::async_write(to, boost::asio::buffer(buffer.data(), left), token);
                    ++s->cuts;
                    break;
                }
                l->to_client += n;
            }
            const auto written = co_await boost::asio::async_write(to, boost::asio::buffer(buffer.data(), n), token);
            if (std::get<0>(written)) break;
        }
        l->cut(false);
    }
    std::shared_ptr<state> state_;
};

} // namespace informer::testing
