#include <informer/http/client.hpp>

#include "http/exchange.hpp"
#include "root/quietly.hpp"

#include <boost/asio/post.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/string.hpp>

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <utility>

namespace informer::http {

namespace {

bool token_character(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos;
}

bool token(std::string_view s) {
    return !s.empty() && std::all_of(s.begin(), s.end(), token_character);
}

/// A header's value may hold anything but what ends it: a bearer token with a line break must not become two headers.
bool field_value(std::string_view s) {
    return std::none_of(s.begin(), s.end(),
                        [](char c) { return (static_cast<unsigned char>(c) < ' ' && c != '\t') || c == 0x7f; });
}

bool target(std::string_view s) {
    return !s.empty() && s.front() == '/' &&
           std::none_of(s.begin(), s.end(), [](char c) { return static_cast<unsigned char>(c) <= ' ' || c == 0x7f; });
}

/// The target without its query: that of a list is long and says nothing.
std::string_view path_of(std::string_view s) {
    return s.substr(0, std::min(s.find('?'), std::size_t(256)));
}

/// Metrics of a request, under client-go's names. Made only if there is a metrics sink.
class request_figures {
public:
    request_figures(const runtime& r, const endpoint& to, const request& q)
        : rt_(r), host_(to.host_header()), method_(q.method_), begun_(r.clock().now()) {
        rt_.metrics()->observe("rest_client_request_size_bytes", static_cast<double>(q.body_.size()),
                               {{"verb", method_}, {"host", host_}});
    }
    /// `status` 0: no answer.
    void answered(int status) const {
        const std::chrono::duration<double> took = rt_.clock().now() - begun_;
        const std::string code = status == 0 ? "<error>" : std::to_string(status);
        rt_.metrics()->add("rest_client_requests_total", 1, {{"code", code}, {"method", method_}, {"host", host_}});
        rt_.metrics()->observe("rest_client_request_duration_seconds", took.count(),
                               {{"verb", method_}, {"host", host_}});
    }

private:
    runtime rt_; ///< the client may be gone before its answer comes
    std::string host_, method_;
    informer::clock::time_point begun_;
};

} // namespace

struct client::impl {
    impl(runtime r, endpoint e, client_options o) : rt(std::move(r)), to(std::move(e)), options(std::move(o)) {}

    runtime rt;
    endpoint to;
    client_options options;
    std::shared_ptr<detail::tls_context> tls;
    std::shared_ptr<const detail::route> way; ///< through the proxy
    failure no_way;                           ///< why `way` cannot be used, if there is a proxy
    std::shared_ptr<detail::name_desk> names = std::make_shared<detail::name_desk>();
    std::shared_ptr<detail::pool> connections = std::make_shared<detail::pool>(options.max_idle_, options.idle_for_);

    detail::prepared_request prepare(request r, failure& f) const;
    static asio::awaitable<response> send(std::shared_ptr<impl> self, request r, failure& f);
};

detail::prepared_request client::impl::prepare(request r, failure& f) const {
    f = failure();
    detail::prepared_request p;
    p.get = r.method_ == "GET";
    p.no_response_body = r.method_ == "HEAD";
    p.plan.to = to;
    p.plan.way = way;
    p.plan.names = names;
    p.plan.tls = tls;
    p.plan.generation = connections->generation();
    p.plan.certificate_name = options.tls_.server_name_;
    p.plan.limits = r.timeouts_.value_or(options.timeouts_);
    if (no_way) {
        f = no_way;
        return p;
    }
    if (to.tls && !tls) {
        f = failure(errc::bad_configuration, "the client has no usable TLS material");
        return p;
    }
    if (!token(r.method_) || !target(r.target_)) {
        f = failure(errc::bad_configuration, "a method or target that HTTP cannot carry");
        return p;
    }
    p.doing = r.method_ + " " + to.url() + std::string(path_of(r.target_));

    std::string& head = p.head;
    head.reserve(512);
    const bool whole_url = way && !way->tunnels;
    head.append(r.method_).append(" ");
    if (whole_url) head.append("http://").append(to.host_header());
    head.append(to.prefix).append(r.target_).append(" HTTP/1.1\r\n");
    const auto add = [&head](std::string_view name, std::string_view value) {
        head.append(name).append(": ").append(value).append("\r\n");
    };
    const auto given = [&r](std::string_view name) {
        return std::any_of(r.headers_.begin(), r.headers_.end(),
                           [&](const auto& h) { return boost::beast::iequals(h.first, name); });
    };
    if (!given("Host")) add("Host", to.host_header());
    if (!given("User-Agent") && field_value(options.user_agent_)) add("User-Agent", options.user_agent_);
    if (options.accept_gzip_ && !given("Accept-Encoding")) add("Accept-Encoding", "gzip");
    if (whole_url && !way->authorization.empty() && !given("Proxy-Authorization"))
        add("Proxy-Authorization", way->authorization);
    for (const auto& [name, value] : r.headers_) {
        if (!token(name) || !field_value(value)) {
            // The message leaves out the value: it may be a secret.
            f = failure(errc::bad_configuration, p.doing + ": header " + (token(name) ? name : std::string("name")) +
                                                     " has a character that HTTP cannot carry");
            return p;
        }
        if (boost::beast::iequals(name, "Content-Length") || boost::beast::iequals(name, "Transfer-Encoding"))
            continue; // this function decides on these
        add(name, value);
    }
    if (!r.body_.empty() || r.method_ == "POST" || r.method_ == "PUT" || r.method_ == "PATCH")
        add("Content-Length", std::to_string(r.body_.size()));
    head += "\r\n";
    if (r.body_.size() <= detail::one_packet)
        head += r.body_;
    else
        p.body = std::move(r.body_);
    return p;
}

asio::awaitable<response> client::impl::send(std::shared_ptr<impl> self, request r, failure& f) {
    std::optional<request_figures> figures;
    if (self->rt.metrics() != nullptr) figures.emplace(self->rt, self->to, r);
    auto prepared = self->prepare(std::move(r), f);
    if (f) co_return response();
    const auto spoken_to = self->way && !self->way->tunnels ? self->way : nullptr; // a proxy that reads the request
    const std::string doing = spoken_to ? prepared.doing : std::string();
    const auto x = std::make_shared<detail::exchange>(self->rt.executor(), self->connections, std::move(prepared));
    self.reset(); // a client destroyed during the wait closes its idle connections then, not later
    co_await detail::exchange::start(x, f);
    response answer(x);
    // A 407 comes from the proxy, not from the server. (With a tunnel it would have been the answer to CONNECT.) The
    // proxy's text is left out: it may repeat what we sent.
    if (!f && spoken_to && answer.status() == 407)
        f = failure(errc::connect_failed,
                    doing + ": the proxy " + spoken_to->through.url() + " answered 407 Proxy Authentication Required");
    if (figures) figures->answered(f ? 0 : answer.status());
    if (f) co_return response();
    co_return answer;
}

client::client(runtime r, endpoint to, client_options options, failure& f)
    : impl_(std::make_shared<impl>(std::move(r), std::move(to), std::move(options))) {
    f = failure();
    if (impl_->to.tls) impl_->tls = detail::make_client_context(impl_->options.tls_, f);
    if (!impl_->options.proxy_) return;
    const std::string& agent = impl_->options.user_agent_;
    impl_->way = std::make_shared<detail::route>(impl_->options.proxy_, impl_->to, field_value(agent) ? agent : "",
                                                 impl_->no_way);
    if (!f) f = impl_->no_way;
}

client::~client() {
    impl_->connections->close();
}

const endpoint& client::to() const noexcept {
    return impl_->to;
}

asio::awaitable<response> client::send(request r, failure& f) {
    return impl::send(impl_, std::move(r), f);
}

void client::set_tls(tls_options t, failure& f) {
    f = failure();
    std::shared_ptr<detail::tls_context> fresh;
    if (impl_->to.tls) {
        fresh = detail::make_client_context(t, f);
        if (f) return; // the old material stays in use
    }
    impl_->tls = std::move(fresh);
    impl_->options.tls_ = std::move(t);
    impl_->connections->renew();
}

void client::close_idle() noexcept {
    impl_->connections->close_idle();
}

client::counters client::figures() const noexcept {
    return impl_->connections->figures;
}

response::response() noexcept = default;
response::response(std::shared_ptr<detail::exchange> x) noexcept : exchange_(std::move(x)) {}
response::response(response&&) noexcept = default;

response& response::operator=(response&& other) noexcept {
    if (this != &other) {
        close();
        exchange_ = std::move(other.exchange_);
    }
    return *this;
}

response::~response() {
    close();
}

void response::close() noexcept {
    if (exchange_) exchange_->close();
}

void response::finish_within(std::chrono::milliseconds rest) {
    if (exchange_) exchange_->finish_within(rest);
}

int response::status() const noexcept {
    return exchange_ ? exchange_->message().status() : 0;
}

std::string_view response::header(std::string_view name) const noexcept {
    return exchange_ ? exchange_->message().field(name) : std::string_view();
}

std::vector<std::string> response::headers(std::string_view name) const {
    return exchange_ ? exchange_->message().fields(name) : std::vector<std::string>();
}

namespace {

asio::awaitable<std::size_t> read_nothing(failure& f) {
    f = failure(errc::stopped, "read a response that is none");
    co_return 0;
}

asio::awaitable<std::string> read_rest(std::shared_ptr<detail::exchange> x, std::size_t limit, failure& f) {
    constexpr std::size_t piece = std::size_t(1) << 20; // no string grows beyond it
    std::vector<std::string> pieces(1);
    std::size_t left = limit;
    body_parts parts;
    if (!x) f = failure(errc::stopped, "read a response that is none");
    while (x) {
        const std::size_t n = co_await detail::exchange::receive(x, parts, f);
        if (n == 0) break;
        const bool fits = n <= left;
        for (std::string_view part : parts) {
            part = part.substr(0, left);
            left -= part.size();
            if (pieces.back().size() + part.size() > piece) pieces.emplace_back();
            pieces.back() += part;
        }
        if (fits) continue;
        x->close();
        f = failure(errc::too_large, "read a response of more than " + std::to_string(limit) + " bytes");
        break;
    }
    // Copying 64 MiB at once would hold the executor for long.
    std::string text = std::move(pieces.front());
    text.reserve(limit - left);
    const auto executor = co_await asio::this_coro::executor;
    for (std::size_t i = 1; i < pieces.size(); ++i) {
        co_await asio::post(executor, asio::use_awaitable);
        text += std::exchange(pieces[i], std::string());
    }
    co_return text;
}

} // namespace

asio::awaitable<std::size_t> response::read_some(asio::mutable_buffer buffer, failure& f) {
    if (!exchange_) return read_nothing(f);
    return detail::exchange::read_some(exchange_, buffer, f);
}

asio::awaitable<std::size_t> response::receive(body_parts& parts, failure& f) {
    if (!exchange_) return read_nothing(f);
    return detail::exchange::receive(exchange_, parts, f);
}

asio::awaitable<std::string> response::read_all(std::size_t limit, failure& f) {
    return informer::detail::quietly(read_rest(exchange_, limit, f));
}

} // namespace informer::http
