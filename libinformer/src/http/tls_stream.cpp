#include "http/tls_stream.hpp"

#include "root/descriptor.hpp"

#include <boost/asio/error.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl/error.hpp>
#include <boost/asio/this_coro.hpp>

#include <openssl/bio.h>
#include <openssl/err.h>

#include <cerrno>
#include <new>
#include <sys/socket.h>
#include <utility>

namespace informer::http::detail {

namespace {

long control(BIO*, int what, long, void*) {
    return what == BIO_CTRL_FLUSH ? 1 : 0;
}

template <class Calls>
const BIO_METHOD* method_of(const char* name) {
    static BIO_METHOD* const m = [name] {
        BIO_METHOD* made = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, name);
        if (!made) throw std::bad_alloc();
        BIO_meth_set_read(made, Calls::read);
        BIO_meth_set_write(made, Calls::write);
        BIO_meth_set_ctrl(made, control);
        return made;
    }();
    return m;
}

} // namespace

/// The socket as OpenSSL sees it. OpenSSL's own BIO would write without MSG_NOSIGNAL, and a peer that left would end
/// the process.
struct tls_stream::on_socket {
    static int read(BIO* b, char* to, int size) {
        auto& s = *static_cast<tls_stream*>(BIO_get_data(b));
        BIO_clear_retry_flags(b);
        if (size <= 0) return 0;
        if (s.drained_) { // another recv() would mostly find nothing; wait() notices what came meanwhile
            BIO_set_retry_read(b);
            return -1;
        }
        const auto n = informer::detail::uninterrupted(
            [&] { return ::recv(s.socket_->native_handle(), to, static_cast<std::size_t>(size), MSG_DONTWAIT); });
        if (n > 0) {
            s.drained_ = n < size;
            return static_cast<int>(n);
        }
        if (n == 0) {
            s.trouble_ = asio::ssl::error::stream_truncated;
            return 0;
        }
        if (would_block()) {
            s.drained_ = true;
            BIO_set_retry_read(b);
        } else {
            s.trouble_ = error_code(errno, boost::system::system_category());
        }
        return -1;
    }

    static int write(BIO* b, const char* from, int size) {
        auto& s = *static_cast<tls_stream*>(BIO_get_data(b));
        BIO_clear_retry_flags(b);
        if (size <= 0) return 0;
        constexpr int flags = MSG_DONTWAIT | MSG_NOSIGNAL;
        const auto n = informer::detail::uninterrupted(
            [&] { return ::send(s.socket_->native_handle(), from, static_cast<std::size_t>(size), flags); });
        if (n >= 0) return static_cast<int>(n);
        if (would_block())
            BIO_set_retry_write(b);
        else
            s.trouble_ = error_code(errno, boost::system::system_category());
        return -1;
    }

    static bool would_block() noexcept { return errno == EAGAIN || errno == EWOULDBLOCK; }
};

/// The carrier as OpenSSL sees it: this stream waits for whatever the carrier waits for.
struct tls_stream::on_carrier {
    static int read(BIO* b, char* to, int size) {
        return call(b, size,
                    [&](SSL* s, std::size_t& n) { return SSL_read_ex(s, to, static_cast<std::size_t>(size), &n); });
    }
    static int write(BIO* b, const char* from, int size) {
        return call(b, size,
                    [&](SSL* s, std::size_t& n) { return SSL_write_ex(s, from, static_cast<std::size_t>(size), &n); });
    }
    template <class Call>
    static int call(BIO* b, int size, Call what) {
        auto& s = *static_cast<tls_stream*>(BIO_get_data(b));
        BIO_clear_retry_flags(b);
        if (size <= 0) return 0;
        std::size_t n = 0;
        error_code ec;
        // Both streams share OpenSSL's queue of errors. An error that is in it now is the reason why our stream is
        // sending an alert. It is asked for afterwards, so it is put back.
        const unsigned long ours = ERR_peek_error();
        ERR_clear_error();
        const need then = s.carrier_->after(what(s.carrier_->handle(), n), ec);
        ERR_clear_error();
        if (ours != 0) ERR_raise(ERR_GET_LIB(ours), ERR_GET_REASON(ours));
        if (then == need::to_read) BIO_set_retry_read(b);
        if (then == need::to_write) BIO_set_retry_write(b);
        // The carrier's peer may end its TLS in an orderly way, or send an alert. Neither is a statement of our own
        // peer.
        if (ec == asio::error::eof)
            ec = asio::ssl::error::stream_truncated;
        else if (is_tls_error(ec))
            ec = asio::error::connection_aborted;
        s.trouble_ = ec;
        return n > 0 ? static_cast<int>(n) : -1;
    }
};

tls_stream::tls_stream(tcp::socket s, SSL_CTX* context) : socket_(std::move(s)) {
    begin(context, method_of<on_socket>("socket"));
}

tls_stream::tls_stream(tls_stream& carrier, SSL_CTX* context) : carrier_(&carrier) {
    begin(context, method_of<on_carrier>("TLS"));
}

void tls_stream::begin(SSL_CTX* context, const BIO_METHOD* below) {
    ssl_.reset(SSL_new(context));
    BIO* const b = ssl_ ? BIO_new(below) : nullptr;
    if (!b) throw std::bad_alloc();
    BIO_set_data(b, this);
    BIO_set_init(b, 1);
    SSL_set_bio(ssl_.get(), b, b); // `ssl_` owns it from now on
    // Without the last one, each idle connection holds a record's 17 KB.
    SSL_set_mode(ssl_.get(),
                 SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_RELEASE_BUFFERS);
    SSL_set_read_ahead(ssl_.get(), 1); // reads a record at once, not its first five bytes and then the rest
}

/// What the result of OpenSSL's last call means.
tls_stream::need tls_stream::after(int result, error_code& ec) noexcept {
    ec = {};
    if (result > 0) return need::nothing;
    switch (SSL_get_error(ssl_.get(), result)) {
    case SSL_ERROR_WANT_READ: return need::to_read;
    case SSL_ERROR_WANT_WRITE: return need::to_write;
    case SSL_ERROR_ZERO_RETURN: ec = asio::error::eof; break;
    case SSL_ERROR_SSL: ec = error_code(static_cast<int>(ERR_get_error()), asio::error::get_ssl_category()); break;
    case SSL_ERROR_SYSCALL:
        ec = trouble_;
        if (!ec) ec = asio::ssl::error::unspecified_system_error;
        break;
    default: ec = asio::ssl::error::unexpected_result;
    }
    return need::nothing;
}

asio::awaitable<void> tls_stream::wait(need n, error_code& ec) {
    const auto what = n == need::to_read ? tcp::socket::wait_read : tcp::socket::wait_write;
    const auto [e] = co_await socket().async_wait(what, as_result);
    ec = e;
    if (n == need::to_read) bottom().drained_ = false;
    const auto cancellation = co_await asio::this_coro::cancellation_state;
    if (!ec && cancellation.cancelled() != asio::cancellation_type::none) ec = asio::error::operation_aborted;
}

asio::awaitable<void> tls_stream::handshake(role r, error_code& ec) {
    SSL* const s = ssl_.get();
    if (r == role::client)
        SSL_set_connect_state(s);
    else
        SSL_set_accept_state(s);
    for (;;) {
        ERR_clear_error();
        const need n = after(SSL_do_handshake(s), ec);
        if (n == need::nothing) co_return;
        co_await wait(n, ec);
        if (ec) co_return;
    }
}

/// Reads what is there, as much as fits, but from a limited number of records: each may hold only one byte. An error
/// that follows bytes is kept for the next read.
tls_stream::need tls_stream::read_now(asio::mutable_buffer to, std::size_t& n, error_code& ec) noexcept {
    ec = read_late_;
    need then = need::nothing;
    constexpr int most_records = 128; // of 16 KiB mostly: 2 MiB
    for (int i = 0; i < most_records && !ec && then == need::nothing && n < to.size(); ++i) {
        ERR_clear_error();
        std::size_t some = 0;
        const int result = SSL_read_ex(ssl_.get(), static_cast<char*>(to.data()) + n, to.size() - n, &some);
        then = after(result, ec);
        n += some;
    }
    if (n == 0) return then;
    read_late_ = std::exchange(ec, {});
    return need::nothing;
}

asio::awaitable<std::size_t> tls_stream::read_some(asio::mutable_buffer to, error_code& ec) {
    std::size_t n = 0;
    bool waited = false;
    for (need then = need::nothing; (then = read_now(to, n, ec)) != need::nothing; waited = true) {
        co_await wait(then, ec);
        if (ec) co_return 0;
    }
    // A peer that always sends faster than we read must not occupy the executor.
    if (!waited) co_await asio::post(asio::use_awaitable);
    co_return n;
}

asio::awaitable<std::size_t> tls_stream::write_some(asio::const_buffer from, error_code& ec) {
    std::size_t n = 0;
    bool waited = false;
    for (;;) {
        ERR_clear_error();
        const need then = after(SSL_write_ex(ssl_.get(), from.data(), from.size(), &n), ec);
        if (then == need::nothing) break;
        co_await wait(then, ec);
        waited = true;
        if (ec) co_return 0;
    }
    if (!waited) co_await asio::post(asio::use_awaitable);
    co_return n;
}

asio::awaitable<std::size_t> tls_stream::look(asio::mutable_buffer to, error_code& ec) {
    std::size_t n = 0;
    for (ec = read_late_; !ec;) {
        ERR_clear_error();
        const need then = after(SSL_peek_ex(ssl_.get(), to.data(), to.size(), &n), ec);
        if (then == need::nothing) break;
        co_await wait(then, ec);
    }
    co_return n;
}

bool tls_stream::pending() const noexcept {
    return SSL_has_pending(ssl_.get()) == 1 || (carrier_ && carrier_->pending());
}

} // namespace informer::http::detail
