// The only unit of the server that compiles Beast's parser.
#include "http/server_session.hpp"

#include "http/beast_put.hpp"
#include "http/response_reader.hpp"
#include "http/server_exchange.hpp"

#include <informer/http/url.hpp>

#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/beast/core/string.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/fields.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>

#include <algorithm>
#include <chrono>
#include <exception>
#include <optional>
#include <utility>

namespace informer::http::detail {

namespace bh = boost::beast::http;

namespace {

using request_parser = bh::request_parser<bh::string_body>;

constexpr std::uint32_t header_limit = 64 << 10;
constexpr std::size_t unparsed_limit = 64 << 10;
static_assert(unparsed_limit + header_limit <= server_connection::read_ahead, "each would wait for the other");
constexpr std::chrono::seconds farewell{1};

std::string form_decode(std::string_view s) {
    std::string text(s);
    std::replace(text.begin(), text.end(), '+', ' ');
    return percent_decode(text);
}

/// The target without the scheme and the authority that a proxy's client writes before it: every server must accept
/// them (RFC 9112, 3.2.2).
std::string_view origin_form(std::string_view target) {
    const auto authority = target.find("://");
    if (target.starts_with('/') || authority == std::string_view::npos) return target;
    return target.substr(std::min(target.find_first_of("/?", authority + 3), target.size()));
}

void split_target(server_request& r) {
    const std::string_view target = origin_form(r.target);
    const auto mark = target.find('?');
    r.path = target.empty() || mark == 0 ? "/" : std::string(target.substr(0, mark));
    if (mark == std::string_view::npos) return;
    std::string_view rest = target.substr(mark + 1);
    while (!rest.empty()) {
        const auto end = std::min(rest.find('&'), rest.size());
        const std::string_view pair = rest.substr(0, end);
        rest.remove_prefix(std::min(end + 1, rest.size()));
        if (pair.empty()) continue;
        const auto equals = std::min(pair.find('='), pair.size());
        const auto value = pair.substr(std::min(equals + 1, pair.size()));
        r.query.emplace_back(form_decode(pair.substr(0, equals)), form_decode(value));
    }
}

std::shared_ptr<server_request> take(request_parser& p) {
    auto r = std::make_shared<server_request>();
    auto& m = p.get();
    r->method = std::string(m.method_string());
    r->target = std::string(m.target());
    split_target(*r);
    for (const auto& field : m) r->headers.emplace_back(std::string(field.name_string()), std::string(field.value()));
    r->body = std::move(m.body());
    return r;
}

/// Answers a request that cannot be read. What the peer still sends is read and dropped for a while: closing at once
/// would cause a reset that destroys our answer on its way.
asio::awaitable<void> refuse(std::shared_ptr<server_connection> c, int status, std::string text) {
    server_exchange::wishes w;
    w.keep_alive = false;
    const auto x = std::make_shared<server_exchange>(c, w);
    std::vector<std::pair<std::string, std::string>> none;
    const bool sent = co_await server_exchange::send(x, status, "text/plain", std::move(text), std::move(none));
    if (!sent) co_return;
    c->stream().finish_sending();
    asio::steady_timer limit(c->executor(), farewell);
    limit.async_wait([weak = std::weak_ptr(c)](error_code ec) {
        const auto alive = weak.lock();
        if (!ec && alive) alive->close(server_connection::ending::fin);
    });
    for (;;) {
        c->consume(c->in.size());
        const bool more = co_await c->more_than(0);
        if (!more) break;
    }
}

/// Reads a whole request into `p`. False when there is none (then the connection is to be closed).
asio::awaitable<bool> read_request(std::shared_ptr<server_connection> c, std::shared_ptr<request_parser> p) {
    bool expected = false, body_begun = false;
    while (!p->is_done()) {
        error_code ec;
        const bool held_back = expected && !body_begun && p->chunked() && is_unfinished_end(c->in.view());
        if (!c->in.empty() && !held_back) {
            const std::size_t used = put(*p, c->in.view(), ec);
            c->consume(used);
            body_begun = body_begun || (expected && used > 0);
        } else {
            ec = bh::error::need_more;
        }
        if (p->is_header_done() && !expected && !ec) {
            expected = true;
            p->eager(true); // until now the parser stopped after the header
            const bool waits = boost::beast::iequals(p->get()[bh::field::expect], "100-continue");
            if (waits && !p->is_done() && c->in.empty()) {
                static constexpr std::string_view go_on = "HTTP/1.1 100 Continue\r\n\r\n";
                const bool ok = co_await c->write(go_on);
                if (!ok) co_return false;
                c->expect_request(); // write() ended the peer's turn, but the body is still to come
            }
            continue;
        }
        if (ec == bh::error::need_more && c->in.size() < unparsed_limit + header_limit) {
            const bool more = co_await c->more_than(c->in.size());
            if (!more) co_return false;
        } else if (ec == bh::error::body_limit) {
            co_await refuse(c, 413, "request body too large\n");
            co_return false;
        } else if (ec == bh::error::header_limit) {
            co_await refuse(c, 431, "request header too large\n");
            co_return false;
        } else if (ec) {
            co_await refuse(c, 400, "not an HTTP request: " + ec.message() + "\n");
            co_return false;
        }
    }
    co_return true;
}

} // namespace

asio::awaitable<void> serve(std::shared_ptr<server_connection> c, std::shared_ptr<const server_handler> handler,
                            std::size_t max_body, std::string peer, runtime rt) {
    const peer_identity who = c->stream().peer();
    for (;;) {
        const auto parser = std::make_shared<request_parser>();
        parser->header_limit(header_limit);
        parser->body_limit(max_body);
        c->expect_request();
        const bool got = co_await read_request(c, parser);
        c->peer_delivered();
        if (!got) break;
        server_exchange::wishes w;
        w.head = parser->get().method() == bh::verb::head;
        w.http10 = parser->get().version() < 11;
        w.keep_alive = parser->keep_alive();
        const auto request = take(*parser);
        request->peer = peer;
        request->client_common_name = who.common_name;
        request->client_organizations = who.organizations;
        request->connection = c->number();
        const auto x = std::make_shared<server_exchange>(c, w);
        const auto response = std::make_shared<server_response>(x);

        std::string thrown;
        // A handler is told to stop in Asio's usual way, by an exception.
        co_await asio::this_coro::throw_if_cancelled(true);
        try {
            auto work = (*handler)(request, response);
            co_await std::move(work);
        } catch (...) {
            thrown = informer::detail::what_is_wrong();
        }
        co_await asio::this_coro::throw_if_cancelled(false);
        const auto cancellation = co_await asio::this_coro::cancellation_state;
        if (cancellation.cancelled() != asio::cancellation_type::none) break;
        if (!thrown.empty() && rt.logs(log_level::error))
            rt.log(log_level::error, "http server: " + request->method + " " + request->path + ": " + thrown);
        // After an exception it is not known how much of the answer was sent.
        const bool unsure = !thrown.empty() && x->progress() != server_exchange::state::nothing;
        if (x->progress() == server_exchange::state::nothing && !c->closed()) {
            std::vector<std::pair<std::string, std::string>> none;
            co_await server_exchange::send(x, 500, "text/plain", "the handler gave no answer\n", std::move(none));
        }
        x->retire();
        c->forget_request();
        if (unsure || !x->reusable()) // also after a stream without its end, which the peer must notice
            break;
    }
}

} // namespace informer::http::detail
