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

namespace {

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
    auto addresses = co_await resolve(first, plan.names, limits.resolve_, timer, f);
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
