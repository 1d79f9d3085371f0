#include "http/connector.hpp"

#include "root/descriptor.hpp"

#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include <netinet/in.h>
#include <sys/socket.h>

namespace informer::http::detail {

/// A name look-up, shared by all connections that wait for it. Each of them can stop waiting: getaddrinfo itself cannot
/// be interrupted.
///
/// It is shared because Asio has one thread for all look-ups of a context: if each takes five seconds, forty of them,
/// one after another, outlast the time-out of everything that waits. For the same reason no other look-up begins while
/// this one runs, however long it takes.
struct look_up {
    explicit look_up(const asio::any_io_executor& ex) : resolver(ex) {}
    void end(const error_code& how, tcp::resolver::results_type results) noexcept {
        ec = how;
        found = std::move(results);
        done = true;
        for (const auto& w : waiting) w->cancel();
    }

    tcp::resolver resolver;
    std::vector<std::shared_ptr<asio::steady_timer>> waiting;
    tcp::resolver::results_type found;
    error_code ec;
    bool done = false;
};

namespace {

/// Handler that ends a look-up, also if it is destroyed uncalled: Asio may lack the memory for what was found.
class ends_look_up {
public:
    explicit ends_look_up(std::shared_ptr<look_up> l) noexcept : of_(std::move(l)) {}
    ends_look_up(ends_look_up&&) noexcept = default;
    ends_look_up& operator=(ends_look_up&&) = delete;
    ~ends_look_up() {
        if (of_) of_->end(asio::error::operation_aborted, {});
    }
    void operator()(const error_code& ec, tcp::resolver::results_type results) noexcept {
        std::exchange(of_, nullptr)->end(ec, std::move(results));
    }

private:
    std::shared_ptr<look_up> of_;
};

std::shared_ptr<look_up> look_up_of(name_desk& names, const asio::any_io_executor& executor, const endpoint& to) {
    if (auto l = names.under_way.lock(); l && !l->done) return l;
    const auto l = std::make_shared<look_up>(executor);
    try {
        l->resolver.async_resolve(to.host, std::to_string(to.port), tcp::resolver::numeric_service, ends_look_up(l));
    } catch (const boost::system::system_error& e) {
        l->ec = e.code(); // no thread could be made; the destroyed handler has ended it
    }
    names.under_way = l;
    return l;
}

asio::awaitable<std::vector<tcp::endpoint>> resolve(asio::any_io_executor executor, endpoint to,
                                                    std::shared_ptr<name_desk> names, std::chrono::milliseconds limit,
                                                    std::shared_ptr<phase_timer> timer, failure& f) {
    std::vector<tcp::endpoint> addresses;
    error_code not_literal;
    const auto literal = asio::ip::make_address(to.host, not_literal);
    if (!not_literal) {
        addresses.emplace_back(literal, to.port);
        co_return addresses;
    }
    if (to.host == "localhost") { // RFC 6761, 6.3: needs no look-up; a bare chroot has no /etc/hosts
        addresses.emplace_back(asio::ip::address_v4::loopback(), to.port);
        addresses.emplace_back(asio::ip::address_v6::loopback(), to.port);
        co_return addresses;
    }
    const auto wake = std::make_shared<asio::steady_timer>(executor, asio::steady_timer::time_point::max());
    timer->on_late([wake] { wake->cancel(); });
    timer->begin(limit, errc::resolve_timeout);
    const std::string doing = "resolve " + to.host;
    std::shared_ptr<look_up> l;
    bool cancelled = false, none = true;
    while (!timer->late() && !cancelled && none) {
        l = look_up_of(*names, executor, to);
        if (!l->done) {
            l->waiting.push_back(wake);
            co_await wake->async_wait(as_result);
            std::erase(l->waiting, wake);
        }
        // If nobody waits for it any more it need not begin, unless it runs already: it would hold up the context and
        // the look-ups behind it.
        if (!l->done && l->waiting.empty()) l->resolver.cancel();
        const auto cancellation = co_await asio::this_coro::cancellation_state;
        cancelled = cancellation.cancelled() != asio::cancellation_type::none;
        none = l->ec == asio::error::operation_aborted; // it was given up before it began, as nobody waited for it
    }
    timer->end();
    if (cancelled) {
        f = failure(errc::cancelled, doing);
    } else if (timer->late()) {
        f = failure(*timer->late(), doing); // the next attempt may find it still under way
    } else if (l->ec || l->found.empty()) {
        f = failure(errc::resolve_failed, doing + " (" + (l->ec ? l->ec.message() : "no address") + ")");
    } else {
        for (const auto& r : l->found) addresses.push_back(r.endpoint());
    }
    co_return addresses;
}

/// What a failed attempt says about the server; a greater value says more.
enum class verdict {
    nothing, ///< this machine has no way there, for instance no IPv6
    refused,
    failed,
};

verdict verdict_of(const error_code& ec) noexcept {
    namespace be = boost::system::errc;
    if (ec == asio::error::connection_refused) return verdict::refused;
    const bool no_way =
        ec == be::address_not_available || ec == be::address_family_not_supported || ec == be::network_unreachable;
    return no_way ? verdict::nothing : verdict::failed;
}

/// Parallel attempts to connect. Handlers only note what happened and wake the coroutine that leads.
struct attempts {
    attempts(const asio::any_io_executor& ex, std::size_t most) : news(ex) {
        sockets.reserve(most);
        ended.reserve(most); // handlers must not throw
    }
    void close() {
        for (const auto& s : sockets) {
            error_code ignored;
            if (s) s->close(ignored);
        }
    }
    std::vector<std::shared_ptr<tcp::socket>> sockets; ///< one for each address tried so far; null once that failed
    std::vector<std::pair<std::size_t, error_code>> ended;
    asio::steady_timer news;
};

/// Opens the socket close-on-exec from its first moment: half a minute may pass until a server answers, and any program
/// started in that time would inherit it. If this fails, Asio opens the socket and reports the error.
void open_closed_on_exec(tcp::socket& socket, const tcp::endpoint& address) {
    informer::detail::descriptor ours(::socket(address.protocol().family(), SOCK_STREAM | SOCK_CLOEXEC, IPPROTO_TCP));
    if (!ours) return;
    error_code ec;
    socket.assign(address.protocol(), ours.get(), ec); // throws if there is no memory to watch it
    if (!ec) ours.release();
}

void begin_next(const std::shared_ptr<attempts>& all, const tcp::endpoint& address) {
    const auto socket = std::make_shared<tcp::socket>(all->news.get_executor());
    const std::size_t i = all->sockets.size();
    all->sockets.push_back(socket);
    open_closed_on_exec(*socket, address);
    socket->async_connect(address, [all, socket, i](error_code ec) {
        all->ended.emplace_back(i, ec);
        all->news.cancel();
    });
}

/// Closes the attempts that still run when the coroutine that leads ends, also if by an exception.
class closed_at_end {
public:
    explicit closed_at_end(std::shared_ptr<attempts> a) : a_(std::move(a)) {}
    closed_at_end(const closed_at_end&) = delete;
    closed_at_end& operator=(const closed_at_end&) = delete;
    ~closed_at_end() { a_->close(); }

private:
    std::shared_ptr<attempts> a_;
};

/// How long an attempt runs before the next address is tried too: the "connection attempt delay" that RFC 8305, 5
/// recommends.
constexpr std::chrono::milliseconds head_start(250);

/// Names the addresses that are still being tried, or else the first one.
std::string connecting_to(const std::vector<tcp::endpoint>& addresses, const attempts& all) {
    std::string out;
    for (std::size_t i = 0; i < all.sockets.size(); ++i)
        if (all.sockets[i]) out += (out.empty() ? "" : ", ") + shown(addresses[i]);
    return "connect to " + (out.empty() ? shown(addresses.front()) : out);
}

/// Tries the addresses in the resolver's order, each once the one before it failed or had its head start; the first
/// that answers wins. So an address that never answers costs a quarter of a second, whatever the limits are.
asio::awaitable<std::shared_ptr<tcp::socket>> connect_any(asio::any_io_executor executor,
                                                          std::vector<tcp::endpoint> addresses,
                                                          std::chrono::milliseconds limit,
                                                          std::shared_ptr<phase_timer> timer, failure& f) {
    const auto all = std::make_shared<attempts>(executor, addresses.size());
    const closed_at_end closing(all);
    timer->on_late([all] { all->news.cancel(); });
    timer->begin(limit, errc::connect_timeout);
    verdict worst = verdict::nothing;
    std::size_t failed = 0;
    while (!timer->late() && failed < addresses.size()) {
        if (all->sockets.size() < addresses.size()) begin_next(all, addresses[all->sockets.size()]);
        if (all->sockets.size() < addresses.size())
            all->news.expires_after(head_start);
        else
            all->news.expires_at(asio::steady_timer::time_point::max());
        co_await all->news.async_wait(as_result);
        const auto cancellation = co_await asio::this_coro::cancellation_state;
        if (cancellation.cancelled() != asio::cancellation_type::none) {
            timer->end();
            f = failure(errc::cancelled, connecting_to(addresses, *all));
            co_return nullptr;
        }
        for (const auto& [i, ec] : all->ended) {
            const auto socket = std::move(all->sockets[i]);
            if (!ec) {
                timer->end();
                f = failure();
                tune(*socket);
                co_return socket;
            }
            ++failed;
            const verdict v = verdict_of(ec);
            if (f && v <= worst) continue;
            worst = v;
            const std::string doing = "connect to " + shown(addresses[i]);
            f = v == verdict::refused ? failure(errc::connection_refused, doing)
                                      : failure(errc::connect_failed, doing + " (" + ec.message() + ")");
        }
        all->ended.clear();
    }
    timer->end();
    if (const auto late = timer->late()) f = failure(*late, connecting_to(addresses, *all));
    co_return nullptr;
}

asio::awaitable<void> shake_hands(std::shared_ptr<transport> stream, std::string doing, std::chrono::milliseconds limit,
                                  std::shared_ptr<phase_timer> timer, failure& f) {
    timer->on_late([stream] { stream->close(); });
    timer->begin(limit, errc::tls_timeout);
    error_code ec;
    co_await stream->handshake(ec);
    timer->end();
    timer->on_late(nullptr);
    const auto cancellation = co_await asio::this_coro::cancellation_state;
    if (cancellation.cancelled() != asio::cancellation_type::none)
        f = failure(errc::cancelled, doing);
    else if (timer->late())
        f = failure(*timer->late(), doing);
    else if (!stream->problem().empty() && ec)
        f = failure(errc::tls_failed, doing + ": " + stream->problem());
    else if (ec)
        f = failure(errc::connection_lost, doing + " (" + ec.message() + ")");
}

/// Turns a connection to a proxy into one to the server.
asio::awaitable<std::shared_ptr<transport>> pass(std::shared_ptr<transport> stream, std::shared_ptr<const route> way,
                                                 timeouts limits, std::shared_ptr<phase_timer> timer, failure& f) {
    if (way->hop.tls) {
        stream = tls_client_transport(stream, way->tls, way->hop.host);
        co_await shake_hands(stream, "TLS handshake", limits.tls_, timer, f);
        // This error is not the server's: it has not refused our certificate, and there is no reason to look for a new
        // CA of the cluster.
        if (f == errc::tls_failed || f == errc::connection_lost) f = failure(errc::connect_failed, f.message());
        if (f) f = f.within("the proxy " + way->through.url());
    }
    if (!f && way->tunnels) co_await open_tunnel(stream, way, limits.connect_, timer, f);
    co_return stream;
}

} // namespace

asio::awaitable<std::shared_ptr<transport>> open(asio::any_io_executor executor, connect_plan plan,
                                                 std::shared_ptr<phase_timer> timer, failure& f) {
    const auto& limits = plan.limits;
    const endpoint first = plan.way ? plan.way->hop : plan.to;
    std::shared_ptr<tcp::socket> socket;
    auto addresses = co_await resolve(executor, first, plan.names, limits.resolve_, timer, f);
    if (!f) socket = co_await connect_any(executor, std::move(addresses), limits.connect_, timer, f);
    if (f && plan.way) f = f.within("the proxy " + plan.way->through.url());
    if (f) co_return nullptr;
    std::shared_ptr<transport> stream = plain_transport(std::move(*socket));
    if (plan.way) stream = co_await pass(stream, plan.way, limits, timer, f);
    if (!f && plan.to.tls) {
        const std::string& name = plan.certificate_name.empty() ? plan.to.host : plan.certificate_name;
        stream = tls_client_transport(stream, plan.tls, name);
        co_await shake_hands(stream, "TLS handshake with " + plan.to.host_header(), limits.tls_, timer, f);
    }
    if (f) co_return nullptr;
    co_return stream;
}

} // namespace informer::http::detail
