#include "kubernetes/client_impl.hpp"

#include "kubernetes/json_tools.hpp"
#include "kubernetes/kubeconfig.hpp"
#include "kubernetes/server_rules.hpp"
#include "kubernetes/status.hpp"
#include "kubernetes/warning.hpp"

#include <informer/detail/async.hpp>
#include <informer/version.hpp>

#include <algorithm>
#include <array>

namespace informer::kubernetes {

namespace detail {

namespace {

/// client-go's Config.Timeout has no default; a server that stalls must not hold a caller for ever.
constexpr std::chrono::seconds unary_time = std::chrono::seconds(60);
constexpr std::size_t most_warnings = 1000;
/// client-go's (its transport's MaxIdleConnsPerHost). With HTTP/1.1 each request in flight has a connection of its own;
/// if fewer were kept, each burst of reconciles would need new handshakes.
constexpr std::size_t most_idle = 25;

std::string user_agent(const client_config& c) {
    if (!c.user_agent.empty()) return c.user_agent;
#if defined(__x86_64__)
    return "libinformer/" INFORMER_VERSION_STRING " (linux/amd64)";
#elif defined(__aarch64__)
    return "libinformer/" INFORMER_VERSION_STRING " (linux/arm64)";
#else
    return "libinformer/" INFORMER_VERSION_STRING " (linux)";
#endif
}

failure refuse(std::string_view doing, std::string_view what) {
    return failure(errc::bad_request, std::string(doing).append(": ").append(what));
}

bool segment(std::string_view s) {
    return s != "." && s != ".." && s.find_first_of("/%") == std::string_view::npos;
}

} // namespace

std::optional<std::chrono::seconds> retries::pause_after(const failure& f) {
    if (left_-- <= 0) return std::nullopt;
    const bool reads = method_ == "GET";
    if (const auto* s = f.status()) {
        // 500 and 504 may come after something was done (etcd did not answer in time): repeating a request that only
        // reads does no harm.
        const bool allowed = s->code == 429 || s->code == 503 || (reads && s->code >= 500);
        if (!allowed || !s->retry_after || *s->retry_after > longest_wait) return std::nullopt;
        return s->retry_after;
    }
    // A write may have been carried out before the connection was lost.
    if (!reads || f != errc::connection_lost || std::exchange(lost_, true)) return std::nullopt;
    return std::chrono::seconds(1); // client-go's
}

std::optional<std::chrono::seconds> retries::after(const failure& f, time_point now) {
    const auto pause = pause_after(f);
    if (pause && deadline_ && now + *pause >= *deadline_) return std::nullopt;
    return pause;
}

failure check_path(const api_resource& r, std::string_view name_space, std::string_view doing) {
    if (r.plural.empty() || r.version.empty()) return refuse(doing, "the resource has no name or version");
    if (!segment(name_space)) return refuse(doing, "a namespace must not be '.' or '..' or hold '/' or '%'");
    return {};
}

failure check_in_namespace(const api_resource& r, std::string_view name_space, std::string_view doing) {
    if (!r.namespaced || !name_space.empty()) return {};
    return refuse(doing, "the namespace is missing (the api_resource says that " + r.plural + " are namespaced)");
}

failure check_path(const api_resource& r, const object_key& key, std::string_view subresource, std::string_view doing) {
    if (auto bad = check_path(r, key.name_space, doing)) return bad;
    if (key.name.empty()) return refuse(doing, "the object's name is missing");
    if (auto bad = check_in_namespace(r, key.name_space, doing)) return bad;
    if (!segment(key.name)) return refuse(doing, "an object's name must not be '.' or '..' or hold '/' or '%'");
    if (!segment(subresource)) return refuse(doing, "a subresource must not be '.' or '..' or hold '/' or '%'");
    return {};
}

std::string sentence(std::string_view verb, const api_resource& r, const object_key& key,
                     std::string_view subresource) {
    std::string s(verb);
    s.append(" ").append(r.group_resource());
    if (!subresource.empty()) s.append("/").append(subresource);
    if (!key.name.empty())
        s.append(" ").append(key.str());
    else if (!key.name_space.empty())
        s.append(" in ").append(key.name_space);
    return s;
}

std::string describe(const api_resource& r, std::string_view name_space) {
    std::string s = r.group_resource();
    if (!name_space.empty()) s.append(" in ").append(name_space);
    return s;
}

} // namespace detail

client::impl::impl(runtime r, client_config c, failure& f)
    : rt(std::move(r)), config(detail::settled(std::move(c))), token(config.credentials, rt, f),
      tls(config.tls, config.tls_files, rt) {
    if (!f) configure(f);
    unusable = f;
}

void client::impl::configure(failure& f) {
    const auto to = http::endpoint::parse(config.server, f);
    if (f) {
        f = f.within("server");
        return;
    }
    if (detail::asks_plugin(config)) {
        if (const std::string fault = detail::fault_of(config.credentials.exec); !fault.empty()) {
            f = failure(errc::bad_configuration,
                        "exec plugin " + detail::in_quotes(config.credentials.exec.command) + ": " + fault);
            return;
        }
        exec = std::make_unique<detail::exec_source>(config.credentials.exec, rt);
    }
    auto warnings = config.warnings;
    const auto unverified = detail::not_verified(to);
    if (to.tls && config.tls.insecure_ && std::find(warnings.begin(), warnings.end(), unverified) == warnings.end())
        warnings.push_back(unverified); // the configuration is not from a kubeconfig, which would have warned of it
    for (const auto& w : warnings) rt.log(log_level::warning, w);
    if (config.time.request_.count() == 0) config.time.request(detail::unary_time);
    http::client_options options;
    options.tls(tls.in_use()).time(config.time).user_agent(detail::user_agent(config)).accept_gzip(config.gzip);
    options.max_idle(detail::most_idle).proxy(config.proxy);
    if (config.proxy) rt.log(log_level::debug, to.url() + " is reached by way of the proxy " + config.proxy.url());
    auto made = std::make_unique<http::client>(rt, to, options, f);
    if (!f) http = std::move(made);
}

std::optional<clock::time_point> client::impl::deadline_of(std::chrono::milliseconds limit) const {
    if (limit.count() <= 0) limit = config.time_limit;
    if (limit.count() <= 0) return std::nullopt;
    return informer::detail::later(rt.clock().now(), limit);
}

void client::impl::log_warning(const server_warning& w) {
    if (w.code != 299 || warned.size() >= detail::most_warnings || !warned.insert(w.text).second) return;
    rt.log(log_level::warning, "the server warns: " + w.text);
    if (warned.size() == detail::most_warnings)
        rt.log(log_level::warning, "no more of the server's warnings are logged");
}

void client::impl::note_warnings(const http::response& r, const std::string& doing) {
    for (const auto& line : r.headers("Warning")) {
        for (auto& w : detail::parse_warnings(line)) {
            w.doing = doing;
            if (!config.on_warning) {
                log_warning(w);
                continue;
            }
            try {
                config.on_warning(w);
            } catch (...) {
                rt.log(log_level::error,
                       "the handler of the server's warnings threw: " + informer::detail::what_is_wrong());
            }
        }
    }
}

asio::awaitable<http::response> client::impl::open(std::shared_ptr<impl> self, http::request r, std::string doing,
                                                   failure& f, std::string shown) {
    if (!self->http) {
        f = self->unusable.within(doing);
        co_return http::response();
    }
    // Lists and watches have no deadline of their own, and an informer cancels one that yields nothing within half a
    // minute: the wait for the plugin ends before that.
    if (self->exec && !self->exec->ready()) {
        const auto deadline = informer::detail::later(self->rt.clock().now(), detail::exec_source::longest_wait);
        co_await detail::exec_source::look(self, deadline, doing, f);
        if (f) co_return http::response();
    }
    const std::uint64_t generation = self->exec ? self->exec->generation() : 0;
    if (const std::string& who = self->exec ? self->exec->header() : self->token.header(); !who.empty())
        r.header("Authorization", who);
    const auto& c = self->config.credentials;
    if (!c.impersonate_user.empty()) r.header("Impersonate-User", c.impersonate_user);
    if (!c.impersonate_uid.empty()) r.header("Impersonate-Uid", c.impersonate_uid);
    for (const auto& group : c.impersonate_groups) r.header("Impersonate-Group", group);
    for (const auto& [key, values] : c.impersonate_extra)
        for (const auto& v : values) r.header("Impersonate-Extra-" + http::percent_encode(key), v);
    const bool debug = self->rt.logs(log_level::debug);
    std::string line;
    if (debug) line = r.method_ + " " + (shown.empty() ? r.target_ : shown).substr(0, 1024);

    self->tls.look({&self->http, 1});
    http::response answer = co_await self->http->send(std::move(r), f);
    if (f) {
        if (f == errc::tls_failed) {
            self->tls.refused();
            if (self->exec) self->exec->certificate_refused(generation);
        }
        if (debug) self->rt.log(log_level::debug, line + ": " + f.what());
        f = f.within(doing);
        co_return answer;
    }
    self->note_warnings(answer, doing);
    const int status = answer.status();
    if (debug) self->rt.log(log_level::debug, line + ": " + std::to_string(status));
    if (status >= 200 && status < 300) co_return answer;
    if (status == 401) {
        self->token.refused();
        self->tls.refused();
        if (self->exec) self->exec->refused(generation);
    }
    const std::string retry_after(answer.header("Retry-After")), location(answer.header("Location"));
    // The text of a refusal must come within `body_idle`, however long a list or a watch may take.
    if (const auto pause = self->config.time.body_idle_; pause.count() > 0) answer.finish_within(pause);
    failure cut; // half an explanation is better than none
    const std::string body = co_await answer.read_all(detail::large_text, cut);
    f = cut == errc::cancelled ? cut.within(doing)
                               : detail::refused(status, body, retry_after, location, std::move(doing));
    co_return http::response();
}

void client::impl::count_retry(std::string_view method, const failure& f, std::chrono::seconds pause) const {
    if (rt.metrics() == nullptr) return;
    const std::string code = f.status() ? std::to_string(f.status()->code) : "<error>", host = http->to().host_header();
    rt.metrics()->add("rest_client_request_retries_total", 1, {{"code", code}, {"verb", method}, {"host", host}});
    if (!f.status()) return; // the pause is ours, not the server's
    rt.metrics()->observe("rest_client_rate_limiter_duration_seconds", static_cast<double>(pause.count()),
                          {{"verb", method}, {"host", host}});
}

// lint: law2 the caller keeps it
asio::awaitable<bool> client::impl::ask_again(std::shared_ptr<impl> self, detail::retries& so_far, std::string doing,
                                              failure& f) {
    const auto pause = so_far.after(f, self->rt.clock().now());
    if (!pause) co_return false;
    self->count_retry(so_far.method(), f, *pause);
    if (self->rt.logs(log_level::debug))
        self->rt.log(log_level::debug, f.what() + "; again in " + std::to_string(pause->count()) + " s");
    const bool slept = co_await self->rt.clock().sleep_for(*pause);
    if (!slept) f = failure(errc::cancelled, doing + ": wait to ask again");
    co_return slept;
}

asio::awaitable<std::string> client::impl::perform_once(std::shared_ptr<impl> self,
                                                        std::shared_ptr<const detail::call> c,
                                                        std::optional<clock::time_point> deadline, failure& f) {
    if (self->exec && !self->exec->ready()) { // before the time of the attempt begins
        co_await detail::exec_source::look(self, deadline, c->doing, f);
        if (f) co_return std::string();
    }
    http::request r(c->method, c->target);
    r.header("Accept", c->accept);
    if (!c->content_type.empty()) r.body(c->body, c->content_type);
    auto time = self->config.time;
    bool last = false; // the verb's time ends before the attempt's own
    if (deadline) {
        const auto left = std::chrono::ceil<std::chrono::milliseconds>(*deadline - self->rt.clock().now());
        last = left < time.request_;
        if (last) time.request(std::max(left, std::chrono::milliseconds(1)));
        r.time(time);
    }
    std::string shown;
    if (c->secret_query) shown = c->target.substr(0, c->target.find('?'));
    http::response answer = co_await open(self, std::move(r), c->doing, f, std::move(shown));
    std::string body;
    if (!f) {
        body = co_await answer.read_all(c->largest, f);
        if (f) f = f.within(c->doing);
    }
    if (f == errc::request_timeout && last) f = failure(errc::deadline_exceeded, c->doing + ": the time limit passed");
    if (f && !c->body_wanted && answer.status() != 0 && f != errc::cancelled) f = failure(); // it was carried out
    co_return body;
}

asio::awaitable<std::string> client::impl::perform(std::shared_ptr<impl> self, detail::call c, failure& f) {
    const auto deadline = self->deadline_of(c.time_limit);
    detail::retries so_far(c.method, c.retry, deadline);
    const auto shared = std::make_shared<const detail::call>(std::move(c));
    for (;;) {
        f = failure();
        std::string body = co_await perform_once(self, shared, deadline, f);
        if (!f) co_return body;
        const bool again = co_await ask_again(self, so_far, shared->doing, f);
        if (!again) co_return std::string();
    }
}

} // namespace informer::kubernetes
