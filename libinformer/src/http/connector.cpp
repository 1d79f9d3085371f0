#include "http/connector.hpp"

#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

namespace informer::http::detail {

namespace {

/// A name look-up that can be left behind: getaddrinfo itself cannot be interrupted.
struct look_up {
    explicit look_up(const asio::any_io_executor& ex) : resolver(ex), wake(ex, asio::steady_timer::time_point::max()) {}
    tcp::resolver resolver;
    asio::steady_timer wake;
    std::vector<tcp::endpoint> found;
    error_code ec;
    bool done = false;
};

asio::awaitable<std::vector<tcp::endpoint>> resolve(asio::any_io_executor executor, endpoint to,
                                                    std::chrono::milliseconds limit, std::shared_ptr<phase_timer> timer,
                                                    failure& f) {
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
    const auto l = std::make_shared<look_up>(executor);
    l->resolver.async_resolve(to.host, std::to_string(to.port), tcp::resolver::numeric_service,
                              [l](error_code ec, tcp::resolver::results_type results) {
                                  l->ec = ec;
                                  for (const auto& r : results) l->found.push_back(r.endpoint());
                                  l->done = true;
                                  l->wake.cancel();
                              });
    timer->on_late([l] { l->wake.cancel(); });
    timer->begin(limit, errc::resolve_timeout);
    co_await l->wake.async_wait(as_result);
    timer->end();
    const auto cancellation = co_await asio::this_coro::cancellation_state;
    const std::string doing = "resolve " + to.host;
    if (cancellation.cancelled() != asio::cancellation_type::none)
        f = failure(errc::cancelled, doing);
    else if (timer->late())
        f = failure(*timer->late(), doing);
    else if (l->ec || l->found.empty())
        f = failure(errc::resolve_failed, doing + " (" + (l->ec ? l->ec.message() : "no address") + ")");
    if (f)
        l->resolver.cancel();
    else
        addresses = l->found;
    co_return addresses;
}

std::string shown(const tcp::endpoint& e) {
    const bool v6 = e.address().is_v6();
    return (v6 ? "[" : "") + e.address().to_string() + (v6 ? "]:" : ":") + std::to_string(e.port());
}

/// Tries the addresses in the resolver's order. Each gets its share of the time, so that a black hole in front does
/// not hide the others.
asio::awaitable<std::shared_ptr<tcp::socket>> connect_any(asio::any_io_executor executor,
                                                          std::vector<tcp::endpoint> addresses,
                                                          std::chrono::milliseconds limit,
                                                          std::shared_ptr<phase_timer> timer, failure& f) {
    const auto start = std::chrono::steady_clock::now();
    bool all_refused = true;
    failure worst;
    for (std::size_t i = 0; i < addresses.size(); ++i) {
        auto share = limit;
        if (limit.count() > 0) {
            const auto used =
                std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - start);
            share = (limit - used) / static_cast<long>(addresses.size() - i);
            share = std::max(share, std::chrono::milliseconds(1));
        }
        const auto socket = std::make_shared<tcp::socket>(executor);
        timer->on_late([socket] {
            error_code ignored;
            socket->close(ignored);
        });
        timer->begin(share, errc::connect_timeout);
        const tcp::endpoint address = addresses[i];
        const auto [ec] = co_await socket->async_connect(address, as_result);
        timer->end();
        const auto cancellation = co_await asio::this_coro::cancellation_state;
        const std::string doing = "connect to " + shown(address);
        if (cancellation.cancelled() != asio::cancellation_type::none) {
            f = failure(errc::cancelled, doing);
            co_return nullptr;
        }
        if (const auto late = timer->late()) {
            worst = failure(*late, doing);
            all_refused = false;
            if (*late == errc::request_timeout) break;
            continue;
        }
        if (!ec) {
            tune(*socket);
            co_return socket;
        }
        // A machine without IPv6 has no ::1: that says nothing about the server.
        const bool no_such_family = ec == boost::system::errc::address_not_available ||
                                    ec == boost::system::errc::address_family_not_supported;
        if (no_such_family && worst) continue;
        if (ec == asio::error::connection_refused) {
            if (all_refused) worst = failure(errc::connection_refused, doing);
            continue;
        }
        all_refused = false;
        if (!(worst == errc::connect_timeout)) worst = failure(errc::connect_failed, doing + " (" + ec.message() + ")");
    }
    f = worst;
    co_return nullptr;
}

} // namespace

asio::awaitable<std::shared_ptr<transport>> open(asio::any_io_executor executor, connect_plan plan,
                                                 std::shared_ptr<phase_timer> timer, failure& f) {
    auto addresses = co_await resolve(executor, plan.to, plan.limits.resolve_, timer, f);
    if (f) co_return nullptr;
    const auto socket = co_await connect_any(executor, std::move(addresses), plan.limits.connect_, timer, f);
    if (f) co_return nullptr;
    if (!plan.to.tls) co_return plain_transport(std::move(*socket));

    const std::string name = plan.certificate_name.empty() ? plan.to.host : plan.certificate_name;
    const std::shared_ptr<transport> stream = tls_client_transport(std::move(*socket), plan.tls, name);
    timer->on_late([stream] { stream->close(); });
    timer->begin(plan.limits.tls_, errc::tls_timeout);
    error_code ec;
    co_await stream->handshake(ec);
    timer->end();
    timer->on_late(nullptr);
    const auto cancellation = co_await asio::this_coro::cancellation_state;
    const std::string doing = "TLS handshake with " + plan.to.host_header();
    if (cancellation.cancelled() != asio::cancellation_type::none)
        f = failure(errc::cancelled, doing);
    else if (timer->late())
        f = failure(*timer->late(), doing);
    else if (!stream->problem().empty() && ec)
        f = failure(errc::tls_failed, doing + ": " + stream->problem());
    else if (ec)
        f = failure(errc::connection_lost, doing + " (" + ec.message() + ")");
    if (f) co_return nullptr;
    co_return stream;
}

} // namespace informer::http::detail
