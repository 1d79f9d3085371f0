// TLS in front of a server without TLS, like stunnel: it makes a test proxy an https:// proxy. It uses Asio's TLS, so
// that the library's own TLS code does not talk to itself.
#pragma once

#include <informer/task_group.hpp>
#include <informer/testing/certificates.hpp>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>

#include <openssl/ssl.h>

#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fcntl.h>

namespace informer::testing {

/// *Executor*: one, that of the runtime. *Lifetime*: `co_await stop()` before it goes.
class tls_front {
    using tcp = boost::asio::ip::tcp;
    static constexpr auto token = boost::asio::as_tuple(boost::asio::use_awaitable);

    struct link {
        link(tcp::socket c, boost::asio::ssl::context& with)
            : client(std::move(c), with), server(client.get_executor()) {}
        boost::asio::ssl::stream<tcp::socket> client;
        tcp::socket server;
        void cut() {
            boost::system::error_code ignored;
            client.next_layer().close(ignored);
            server.close(ignored);
        }
    };
    struct state {
        state(boost::asio::any_io_executor e, std::uint16_t to)
            : acceptor(e, tcp::endpoint(boost::asio::ip::address_v4::loopback(), 0)), group(e), target(to) {}
        tcp::acceptor acceptor;
        task_group group;
        std::uint16_t target, port = 0;
        boost::asio::ssl::context context{boost::asio::ssl::context::tls_server};
        std::list<std::weak_ptr<link>> links;
        std::string sni, protocols, heard;
        std::size_t accepted = 0, shaken = 0, certificates = 0;
    };

public:
    /// Forwards the bytes that arrive over TLS to a port of 127.0.0.1.
    tls_front(boost::asio::any_io_executor executor, const key_pair& pair, std::uint16_t to)
        : state_(std::make_shared<state>(executor, to)) {
        auto& c = state_->context;
        state_->port = state_->acceptor.local_endpoint().port();
        ::fcntl(state_->acceptor.native_handle(), F_SETFD, FD_CLOEXEC);
        c.use_certificate_chain(boost::asio::buffer(pair.certificate_pem));
        c.use_private_key(boost::asio::buffer(pair.key_pem), boost::asio::ssl::context::pem);
        SSL_CTX_set_alpn_select_cb(c.native_handle(), note_hello, state_.get());
        state_->group.spawn(accept(state_));
    }
    std::uint16_t port() const { return state_->port; }
    std::size_t accepted() const { return state_->accepted; }
    std::size_t shaken() const { return state_->shaken; }              ///< finished handshakes
    std::size_t certificates() const { return state_->certificates; }  ///< that clients presented
    const std::string& sni() const { return state_->sni; }             ///< of the last client
    const std::string& protocols() const { return state_->protocols; } ///< its ALPN list, in wire format
    const std::string& heard() const { return state_->heard; }         ///< the first bytes over TLS, of all clients

    /// Asks clients for a certificate and accepts any; with `insist`, refuses clients without one.
    void ask_for_certificate(bool insist) {
        namespace ssl = boost::asio::ssl;
        const auto mode = insist ? ssl::verify_peer | ssl::verify_fail_if_no_peer_cert : ssl::verify_peer;
        state_->context.set_verify_mode(mode);
        state_->context.set_verify_callback([s = state_.get()](bool, ssl::verify_context&) {
            ++s->certificates;
            return true;
        });
    }
    void speak_at_most(int version) { SSL_CTX_set_max_proto_version(state_->context.native_handle(), version); }
    void cut_all() {
        for (const auto& w : std::exchange(state_->links, {}))
            if (const auto l = w.lock()) l->cut();
    }
    /// Ends TLS properly on each connection (close_notify).
    void say_goodbye() {
        for (const auto& w : state_->links)
            if (const auto l = w.lock()) state_->group.spawn(goodbye(l));
    }
    /// Sends bytes that are not valid TLS into each connection.
    void garble() {
        const std::string record = std::string("\x17\x03\x03\x00\x20", 5) + std::string(32, 'x');
        for (const auto& w : state_->links)
            if (const auto l = w.lock()) boost::asio::write(l->client.next_layer(), boost::asio::buffer(record));
    }
    boost::asio::awaitable<void> stop() {
        boost::system::error_code ignored;
        state_->acceptor.close(ignored);
        cut_all();
        state_->group.stop();
        co_await state_->group.join();
    }

private:
    static int note_hello(SSL* of, const unsigned char** out, unsigned char* size, const unsigned char* in, unsigned n,
                          void* to) {
        auto& s = *static_cast<state*>(to);
        s.protocols.assign(reinterpret_cast<const char*>(in), n);
        const char* name = SSL_get_servername(of, TLSEXT_NAMETYPE_host_name);
        s.sni = name ? name : "";
        *out = in + 1; // selects the first protocol
        *size = in[0];
        return SSL_TLSEXT_ERR_OK;
    }
    static boost::asio::awaitable<void> accept(std::shared_ptr<state> s) {
        for (;;) {
            auto [ec, client] = co_await s->acceptor.async_accept(token);
            if (ec) co_return;
            ++s->accepted;
            ::fcntl(client.native_handle(), F_SETFD, FD_CLOEXEC);
            client.set_option(tcp::no_delay(true));
            const auto l = std::make_shared<link>(std::move(client), s->context);
            s->links.remove_if([](const std::weak_ptr<link>& w) { return w.expired(); });
            s->links.push_back(l);
            s->group.spawn(serve(s, l));
        }
    }
    static boost::asio::awaitable<void> serve(std::shared_ptr<state> s, std::shared_ptr<link> l) {
        const auto [refused] = co_await l->client.async_handshake(boost::asio::ssl::stream_base::server, token);
        if (!refused) {
            ++s->shaken;
            boost::system::error_code ignored;
            l->server.open(tcp::v4(), ignored);
            ::fcntl(l->server.native_handle(), F_SETFD, FD_CLOEXEC);
            const tcp::endpoint to(boost::asio::ip::address_v4::loopback(), s->target);
            const auto [ec] = co_await l->server.async_connect(to, token);
            if (!ec) {
                l->server.set_option(tcp::no_delay(true));
                s->group.spawn(pump(s, l, true));
                co_await pump(s, l, false);
            }
        }
        l->cut();
    }
    static boost::asio::awaitable<void> pump(std::shared_ptr<state> s, std::shared_ptr<link> l, bool down) {
        std::vector<char> buffer(std::size_t(64) << 10);
        std::size_t n = 0;
        for (;;) {
            boost::system::error_code failed;
            if (down) {
                const auto [ec, some] = co_await l->server.async_read_some(boost::asio::buffer(buffer), token);
                failed = ec;
                n = some;
            } else {
                const auto [ec, some] = co_await l->client.async_read_some(boost::asio::buffer(buffer), token);
                failed = ec;
                n = some;
                if (s->heard.size() < buffer.size()) s->heard.append(buffer.data(), n);
            }
            if (failed) break;
            const boost::asio::const_buffer all(buffer.data(), n);
            if (down) {
                const auto [ec, some] = co_await boost::asio::async_write(l->client, all, token);
                failed = ec;
            } else {
                const auto [ec, some] = co_await boost::asio::async_write(l->server, all, token);
                failed = ec;
            }
            if (failed) break;
        }
        l->cut();
    }
    static boost::asio::awaitable<void> goodbye(std::shared_ptr<link> l) {
        co_await l->client.async_shutdown(token); // until the other side leaves, too
        l->cut();
    }

    std::shared_ptr<state> state_;
};

} // namespace informer::testing
