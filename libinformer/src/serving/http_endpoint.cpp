#include <informer/serving/http_endpoint.hpp>

#include <informer/http/url.hpp>
#include <informer/serving/prometheus_metrics.hpp>

#include <algorithm>
#include <exception>
#include <map>
#include <optional>
#include <string_view>
#include <vector>

namespace informer::serving {

namespace {

using headers = std::vector<std::pair<std::string, std::string>>;
constexpr std::string_view plain = "text/plain; charset=utf-8";

struct answer {
    int status = 200;
    std::string content_type{plain};
    std::string body;
};

struct named_check {
    std::string name;
    health_check check;
};

class checks {
public:
    void put(std::string name, health_check check) {
        const auto same = [&](const named_check& c) { return c.name == name; };
        const auto found = std::find_if(all_.begin(), all_.end(), same);
        if (found != all_.end())
            found->check = std::move(check);
        else
            all_.push_back({std::move(name), std::move(check)});
    }

    /// `what`: "healthz" or "readyz"; `only`: one check's name, empty for all.
    answer ask(std::string_view what, std::string_view only, const http::server_request& q) const {
        std::string lines;
        bool well = true, any = only.empty();
        const auto asked = all_; // a copy: a check may add another one, or replace itself
        for (const auto& c : asked) {
            if (!only.empty() && c.name != only) continue;
            any = true;
            if (only.empty() && excluded(c.name, q)) {
                lines += "[+]" + c.name + " excluded: ok\n";
                continue;
            }
            const std::string why = run(c.check);
            well = well && why.empty();
            lines += why.empty() ? "[+]" + c.name + " ok\n" : "[-]" + c.name + " failed: " + why + "\n";
        }
        answer a;
        if (!any) {
            a.status = 404;
            a.body = "there is no check of this name\n";
            return a;
        }
        a.status = well ? 200 : 503;
        if (well && !q.has_query("verbose"))
            a.body = "ok";
        else
            a.body = lines + std::string(what) + (well ? " check passed\n" : " check failed\n");
        return a;
    }

private:
    static std::string run(const health_check& check) {
        try {
            return check();
        } catch (const std::exception& e) {
            return e.what()[0] == '\0' ? "an exception" : e.what();
        } catch (...) {
            return "an unknown exception";
        }
    }
    static bool excluded(const std::string& name, const http::server_request& q) {
        return std::any_of(q.query.begin(), q.query.end(),
                           [&](const auto& one) { return one.first == "exclude" && one.second == name; });
    }

    std::vector<named_check> all_;
};

struct page_of_yours {
    std::string content_type;
    std::function<std::string()> text;
};

} // namespace

struct http_endpoint::impl {
    impl(runtime r, bool tls) : rt(std::move(r)), encrypted(tls) {}

    runtime rt;
    bool encrypted;
    checks health, ready;
    std::shared_ptr<const prometheus_metrics> metrics;
    std::map<std::string, page_of_yours, std::less<>> pages;
    http::request_filter filter;
    std::vector<std::string> open;
    std::unique_ptr<http::server> server;

    answer find(const http::server_request& q) const;
    bool protects(const std::string& path) const;
    static asio::awaitable<void> serve(std::weak_ptr<impl> of, std::shared_ptr<http::server_request> q,
                                       std::shared_ptr<http::server_response> r);
};

answer http_endpoint::impl::find(const http::server_request& q) const {
    const std::string_view path = q.path;
    const auto below = [&](std::string_view root) {
        return path == root || (path.starts_with(root) && path[root.size()] == '/');
    };
    const auto rest = [&](std::string_view root) {
        return http::percent_decode(path.substr(std::min(root.size() + 1, path.size())));
    };
    for (const std::string_view root : {"/healthz", "/livez"})
        if (below(root)) return health.ask(root.substr(1), rest(root), q);
    if (below("/readyz")) return ready.ask("readyz", rest("/readyz"), q);
    answer a;
    if (path == "/metrics" && metrics) {
        a.content_type = std::string(prometheus_metrics::content_type());
        a.body = metrics->text();
    } else if (const auto found = pages.find(path); found != pages.end()) {
        const page_of_yours shown = found->second; // a copy: the page may replace itself
        a.content_type = shown.content_type;
        a.body = shown.text();
    } else {
        a.status = 404;
        a.body = "404 page not found\n";
    }
    return a;
}

/// A path that nothing is served at is 404 to everybody: the filter need not find out about it.
bool http_endpoint::impl::protects(const std::string& path) const {
    if (!filter || std::find(open.begin(), open.end(), path) != open.end()) return false;
    return (path == "/metrics" && metrics) || pages.contains(path);
}

asio::awaitable<void> http_endpoint::impl::serve(std::weak_ptr<impl> of, std::shared_ptr<http::server_request> q,
                                                 std::shared_ptr<http::server_response> r) {
    auto self = of.lock();
    if (!self) co_return;
    answer a;
    headers more;
    if (q->method == "GET" || q->method == "HEAD") {
        std::optional<http::refusal> refused;
        if (self->protects(q->path)) {
            const auto filter = self->filter; // a copy: it may be replaced meanwhile
            self.reset();
            auto decision = filter(q);
            refused = co_await std::move(decision);
            self = of.lock();
            if (!self) co_return;
        }
        if (refused) {
            a.status = refused->status_;
            a.body = std::move(refused->text_);
            more = std::move(refused->headers_);
        } else {
            a = self->find(*q);
        }
        more.emplace_back("Cache-Control", "no-store");
        more.emplace_back("X-Content-Type-Options", "nosniff");
    } else {
        a.status = 405;
        a.body = "only GET and HEAD are served here\n";
        more.emplace_back("Allow", "GET, HEAD");
    }
    self.reset(); // a peer that reads slowly must not keep the endpoint alive
    co_await r->send(a.status, std::move(a.content_type), std::move(a.body), std::move(more));
}

http_endpoint::http_endpoint(runtime r, endpoint_options options) : impl_(std::make_shared<impl>(r, options.use_tls_)) {
    http::server_options o;
    o.address(options.address_).port(options.port_).max_body(64 << 10).patience(options.patience_);
    o.max_connections(options.max_connections_);
    if (options.use_tls_) o.tls(std::move(options.tls_));
    const std::weak_ptr<impl> weak = impl_;
    impl_->server = std::make_unique<http::server>(
        std::move(r), std::move(o),
        [weak](std::shared_ptr<http::server_request> q, std::shared_ptr<http::server_response> s) {
            return impl::serve(weak, std::move(q), std::move(s));
        });
}

// Even if something still holds the `impl`, nothing is served any more.
http_endpoint::~http_endpoint() {
    impl_->server.reset();
}

http_endpoint& http_endpoint::healthz(std::string name, health_check check) {
    impl_->health.put(std::move(name), std::move(check));
    return *this;
}

http_endpoint& http_endpoint::readyz(std::string name, health_check check) {
    impl_->ready.put(std::move(name), std::move(check));
    return *this;
}

http_endpoint& http_endpoint::metrics(std::shared_ptr<const prometheus_metrics> m) {
    impl_->metrics = std::move(m);
    return *this;
}

http_endpoint& http_endpoint::page(std::string path, std::string content_type, std::function<std::string()> text) {
    impl_->pages.insert_or_assign(std::move(path), page_of_yours{std::move(content_type), std::move(text)});
    return *this;
}

http_endpoint& http_endpoint::filter(http::request_filter f, std::vector<std::string> open) {
    impl_->filter = std::move(f);
    impl_->open = std::move(open);
    return *this;
}

void http_endpoint::listen(failure& f) {
    if (impl_->filter && !impl_->encrypted)
        impl_->rt.log(log_level::warning, "pages ask for tokens, but without TLS: these cross the network in clear");
    impl_->server->listen(f);
}

std::uint16_t http_endpoint::port() const noexcept {
    return impl_->server->port();
}

asio::awaitable<void> http_endpoint::stop() {
    return impl_->server->stop();
}

} // namespace informer::serving
