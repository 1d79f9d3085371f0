#include <informer/http/server/server.hpp>

#include "http/server_connection.hpp"
#include "http/server_exchange.hpp"
#include "http/server_session.hpp"
#include "http/tls_source.hpp"
#include "http/transport.hpp"

#include <informer/detail/async.hpp>
#include <informer/task_group.hpp>

#include <boost/asio/ip/v6_only.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/beast/core/string.hpp>

#include <algorithm>
#include <chrono>
#include <exception>
#include <optional>
#include <set>
#include <utility>

#include <fcntl.h>

namespace informer::http {

std::string_view server_request::header(std::string_view name) const noexcept {
    for (const auto& [n, value] : headers)
        if (boost::beast::iequals(n, name)) return value;
    return {};
}

std::string_view server_request::query_value(std::string_view name) const noexcept {
    for (const auto& [n, value] : query)
        if (n == name) return value;
    return {};
}

bool server_request::has_query(std::string_view name) const noexcept {
    return std::any_of(query.begin(), query.end(), [&](const auto& q) { return q.first == name; });
}

server_response::server_response(std::shared_ptr<detail::server_exchange> x) noexcept : exchange_(std::move(x)) {}

asio::awaitable<bool> server_response::send(int status, std::string content_type, std::string body,
                                            std::vector<std::pair<std::string, std::string>> headers) {
    return detail::server_exchange::send(exchange_, status, std::move(content_type), std::move(body),
                                         std::move(headers));
}

asio::awaitable<bool> server_response::send(int status, std::string content_type, std::string body) {
    return detail::server_exchange::send(exchange_, status, std::move(content_type), std::move(body), {});
}

asio::awaitable<bool> server_response::begin(int status, std::string content_type) {
    return detail::server_exchange::begin(exchange_, status, std::move(content_type));
}

asio::awaitable<bool> server_response::write(std::string bytes) {
    return detail::server_exchange::write(exchange_, std::move(bytes));
}

asio::awaitable<bool> server_response::end() {
    return detail::server_exchange::end(exchange_);
}

asio::awaitable<bool> server_response::write_raw(std::string bytes) {
    return detail::server_exchange::write_raw(exchange_, std::move(bytes));
}

void server_response::cut_after(std::uint64_t n, bool reset) {
    if (!exchange_->retired()) exchange_->connection->cut_after(n, reset);
}

void server_response::reset() noexcept {
    if (!exchange_->retired()) exchange_->connection->close(detail::server_connection::ending::reset);
}

void server_response::close() noexcept {
    if (!exchange_->retired()) exchange_->connection->close(detail::server_connection::ending::fin);
}

bool server_response::gone() const noexcept {
    return exchange_->retired() || exchange_->connection->gone();
}

asio::awaitable<void> server_response::wait_gone() {
    return detail::server_connection::wait_gone(exchange_->connection);
}

void server_response::on_gone(std::function<void()> f) {
    if (!exchange_->retired())
        exchange_->connection->on_gone(std::move(f));
    else if (f)
        exchange_->connection->call_back(f);
}

struct server::impl : std::enable_shared_from_this<server::impl> {
    impl(runtime r, server_options o, server_handler h)
        : rt(std::move(r)), options(std::move(o)), handler(std::make_shared<const server_handler>(std::move(h))),
          group(rt.executor()) {
        group.on_error([log = rt](std::exception_ptr e) noexcept { tell(log, e); });
    }

    runtime rt;
    server_options options;
    std::shared_ptr<const server_handler> handler;
    task_group group;
    std::shared_ptr<asio::ip::tcp::acceptor> acceptor;
    std::shared_ptr<detail::tls_context> tls; ///< of the next connection
    std::optional<detail::tls_source> tls_material;
    std::set<std::shared_ptr<detail::server_connection>> open;
    std::uint64_t last_number = 0;
    std::uint16_t port = 0;
    accept_mode mode = accept_mode::serve;
    bool stopped = false;

    /// A connection's place in `open`. It is given up when the coroutine that serves the connection ends, or when that
    /// coroutine could not begin for lack of memory.
    class place {
    public:
        place(std::shared_ptr<impl> s, std::shared_ptr<detail::server_connection> c)
            : of(std::move(s)), connection(std::move(c)) {
            of->open.insert(connection);
        }
        place(place&& o) noexcept = default;
        place& operator=(place&&) = delete;
        ~place() {
            if (of) of->open.erase(connection);
        }

        std::shared_ptr<impl> of;
        std::shared_ptr<detail::server_connection> connection;
    };

    /// The listening port. It is closed when the coroutine that accepts peers ends, or when that coroutine could not
    /// begin for lack of memory: it is better to refuse peers then than to let them wait in vain.
    class open_port {
    public:
        open_port(std::shared_ptr<impl> s, std::shared_ptr<asio::ip::tcp::acceptor> a) noexcept
            : of(std::move(s)), at(std::move(a)) {}
        open_port(open_port&&) noexcept = default;
        open_port& operator=(open_port&&) = delete;
        ~open_port() {
            if (of && of->acceptor == at) of->close_listener();
        }

        std::shared_ptr<impl> of;
        std::shared_ptr<asio::ip::tcp::acceptor> at;
    };

    static void tell(const runtime& to, const std::exception_ptr& e) noexcept;
    void listen(failure& f);
    void begin_tls(failure& f);
    void use(const tls_options& material, failure& f);
    bool make_room();
    void take(asio::ip::tcp::socket s);
    void close_listener() noexcept;
    void drop(detail::server_connection::ending how) noexcept;
    void shut_down() noexcept;
    static asio::awaitable<void> accept_all(open_port given);
    static asio::awaitable<void> attend(place at, std::string peer);
    static asio::awaitable<void> stop(std::shared_ptr<impl> self);
};

namespace {

void open_at(const asio::ip::tcp::endpoint& at, bool both_families, asio::ip::tcp::acceptor& a, error_code& ec) {
    error_code ignored;
    a.close(ignored);
    a.open(at.protocol(), ec);
    if (!ec) ::fcntl(a.native_handle(), F_SETFD, FD_CLOEXEC); // a child must not keep our port taken
    if (!ec && both_families) a.set_option(asio::ip::v6_only(false), ec);
    if (!ec) a.set_option(asio::socket_base::reuse_address(true), ec);
    if (!ec) a.bind(at, ec);
    if (!ec) a.listen(asio::socket_base::max_listen_connections, ec);
    // A peer may have left before it is accepted: then accept() must return an error, not block.
    if (!ec) a.non_blocking(true, ec);
    if (!ec) a.set_option(asio::socket_base::enable_connection_aborted(true), ec);
}

} // namespace

void server::impl::listen(failure& f) {
    f = failure();
    const std::uint16_t wanted = port != 0 ? port : options.port_;
    const bool everywhere = options.address_.empty();
    const std::string doing =
        "listen on " + (everywhere ? "all addresses, port " : options.address_ + ":") + std::to_string(wanted);
    if (stopped) {
        f = failure(errc::stopped, doing);
        return;
    }
    if (acceptor) return;
    if (options.use_tls_ && !tls_material) {
        begin_tls(f);
        if (f) return;
    }
    error_code ec;
    asio::ip::address address = asio::ip::address_v6::any();
    if (!everywhere) address = asio::ip::make_address(options.address_, ec);
    const auto fresh = std::make_shared<asio::ip::tcp::acceptor>(rt.executor());
    if (!ec) open_at({address, wanted}, everywhere, *fresh, ec);
    // A machine without IPv6 listens on IPv4 alone.
    const bool no_v6 =
        ec == boost::system::errc::address_family_not_supported || ec == boost::system::errc::address_not_available;
    if (everywhere && no_v6) open_at({asio::ip::address_v4::any(), wanted}, false, *fresh, ec);
    if (ec) {
        f = failure(errc::bad_configuration, doing + " (" + ec.message() + ")");
        return;
    }
    port = fresh->local_endpoint(ec).port();
    acceptor = fresh;
    group.spawn(accept_all(open_port(shared_from_this(), fresh)));
}

void server::impl::begin_tls(failure& f) {
    // Nobody tells a server that its certificate was refused, so it looks more often than a client.
    constexpr std::chrono::seconds between_looks(10);
    const server_tls& given = options.tls_;
    tls_options material;
    material.ca(given.client_ca_pem_).certificate(given.certificate_pem_, given.key_pem_);
    material = detail::tls_source::read(std::move(material), given.files_, f);
    material.from_ = given.files_;
    if (!f) use(material, f);
    if (!f) tls_material.emplace(std::move(material), given.files_, rt, between_looks);
}

void server::impl::use(const tls_options& material, failure& f) {
    auto context = detail::make_server_context(material, f);
    if (!f) tls = std::move(context);
}

/// Logs an exception of a connection, or of accepting one: no memory, most likely.
void server::impl::tell(const runtime& to, const std::exception_ptr& e) noexcept {
    try {
        std::rethrow_exception(e);
    } catch (...) {
        try {
            to.log(log_level::error, "http server: a connection was given up: " + informer::detail::what_is_wrong());
        } catch (...) { // NOLINT(bugprone-empty-catch) not even for words
        }
    }
}

asio::awaitable<void> server::impl::accept_all(open_port given) {
    co_await asio::this_coro::throw_if_cancelled(false);
    const open_port here(std::move(given));
    const auto& self = here.of;
    const auto& a = here.at;
    asio::steady_timer pause(self->rt.executor());
    while (a->is_open()) {
        bool lacking = false;
        try {
            // Asio's own async_accept would let a bad_alloc leave io_context::run().
            co_await a->async_wait(asio::ip::tcp::acceptor::wait_read, detail::as_result);
            if (self->stopped || !a->is_open()) break;
            error_code ec;
            auto socket = a->accept(self->rt.executor(), ec);
            const bool left = ec == asio::error::would_block || ec == asio::error::connection_aborted ||
                              ec == boost::system::errc::protocol_error;
            lacking = ec && !left;
            if (!ec) self->take(std::move(socket));
        } catch (...) {
            tell(self->rt, std::current_exception());
            lacking = true;
        }
        if (!lacking) continue;
        // Most likely file descriptors or memory ran out: some will be free soon.
        pause.expires_after(std::chrono::milliseconds(50));
        co_await pause.async_wait(detail::as_result);
    }
}

/// For one more connection. Peers that send half a request, or none, must not keep out those that send one. The peer
/// that has been waited for the longest is the least likely to send its request.
bool server::impl::make_room() {
    if (options.max_connections_ == 0 || open.size() < options.max_connections_) return true;
    std::size_t n = 0; // open connections; `open` also has closed ones that are not served to their end yet
    detail::server_connection* idlest = nullptr;
    for (const auto& c : open) {
        if (c->closed()) continue;
        ++n;
        const auto since = c->expects_request_since();
        if (since && (!idlest || *since < *idlest->expects_request_since())) idlest = c.get();
    }
    if (n < options.max_connections_) return true;
    if (!idlest) return false;
    idlest->close(detail::server_connection::ending::reset);
    return true;
}

void server::impl::take(asio::ip::tcp::socket s) {
    error_code ec;
    const auto peer = s.remote_endpoint(ec);
    detail::tune(s);
    std::shared_ptr<detail::transport> stream;
    if (tls_material) tls_material->look([this](const tls_options& fresh, failure& f) { use(fresh, f); });
    if (tls)
        stream = detail::tls_server_transport(std::move(s), tls);
    else
        stream = detail::plain_transport(std::move(s));
    if (mode == accept_mode::reset || !make_room()) {
        stream->reset();
        return;
    }
    auto c = std::make_shared<detail::server_connection>(rt, std::move(stream), ++last_number, options.patience_);
    if (mode == accept_mode::stall) {
        open.insert(std::move(c));
        return;
    }
    place at(shared_from_this(), std::move(c));
    group.spawn(attend(std::move(at), ec ? std::string() : detail::shown(peer)));
}

asio::awaitable<void> server::impl::attend(place at, std::string peer) {
    co_await asio::this_coro::throw_if_cancelled(false);
    const place served(std::move(at));
    const auto& self = served.of;
    const auto& c = served.connection;
    std::exception_ptr failed;
    try {
        error_code ec;
        c->expect_request();
        co_await c->stream().handshake(ec);
        c->peer_delivered();
        if (!ec && !c->closed()) {
            self->group.spawn(detail::server_connection::pump(c));
            const std::size_t max_body = self->options.max_body_;
            co_await detail::serve(c, self->handler, max_body, std::move(peer), self->rt);
        }
    } catch (...) {
        failed = std::current_exception();
    }
    c->close(detail::server_connection::ending::fin);
    if (failed) std::rethrow_exception(failed);
}

void server::impl::close_listener() noexcept {
    if (!acceptor) return;
    error_code ignored;
    acceptor->close(ignored);
    acceptor.reset();
}

void server::impl::drop(detail::server_connection::ending how) noexcept {
    const auto all = std::exchange(open, {}); // close() calls handlers back
    for (const auto& c : all) c->close(how);
}

void server::impl::shut_down() noexcept {
    stopped = true;
    close_listener();
    drop(detail::server_connection::ending::fin);
    group.stop();
}

asio::awaitable<void> server::impl::stop(std::shared_ptr<impl> self) {
    co_await self->group.join();
}

server::server(runtime r, server_options options, server_handler handler)
    : impl_(std::make_shared<impl>(std::move(r), std::move(options), std::move(handler))) {}

server::~server() {
    impl_->shut_down();
}

void server::listen(failure& f) {
    impl_->listen(f);
}

std::uint16_t server::port() const noexcept {
    return impl_->port;
}

void server::stop_listening(bool drop_connections) {
    impl_->close_listener();
    if (drop_connections) impl_->drop(detail::server_connection::ending::reset);
}

bool server::listening() const noexcept {
    return impl_->acceptor != nullptr;
}

std::size_t server::connections() const noexcept {
    return impl_->open.size();
}

void server::on_accept(accept_mode m) {
    impl_->mode = m;
}

asio::awaitable<void> server::stop() {
    impl_->shut_down(); // here, because a cancelled caller never begins to wait
    return impl::stop(impl_);
}

} // namespace informer::http
