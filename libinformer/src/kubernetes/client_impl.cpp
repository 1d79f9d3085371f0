#include "kubernetes/client_impl.hpp"

#include "kubernetes/status.hpp"

#include <informer/detail/async.hpp>

#include <algorithm>
#include <array>

#ifndef INFORMER_VERSION
#define INFORMER_VERSION "0.1.0"
#endif

namespace informer::kubernetes {

namespace detail {

namespace {

/// client-go's Config.Timeout has no default; a server that stalls must not hold a caller for ever.
constexpr std::chrono::seconds unary_time = std::chrono::seconds(60);
constexpr std::size_t most_warnings = 1000;

std::string user_agent(const client_config& c) {
    if (!c.user_agent.empty()) return c.user_agent;
#if defined(__x86_64__)
    return "libinformer/" INFORMER_VERSION " (linux/amd64)";
#elif defined(__aarch64__)
    return "libinformer/" INFORMER_VERSION " (linux/arm64)";
#else
    return "libinformer/" INFORMER_VERSION " (linux)";
#endif
}

/// The text of a Warning header with code 299 (RFC 7234, section 5.5); empty for others.
std::string warning_text(std::string_view header) {
    if (!header.starts_with("299 ")) return {};
    const auto open = header.find('"');
    if (open == std::string_view::npos) return {};
    std::string text;
    for (std::size_t i = open + 1; i < header.size() && header[i] != '"'; ++i) {
        if (header[i] == '\\' && i + 1 < header.size()) ++i;
        text += header[i];
    }
    return printable(text);
}

failure refuse(std::string_view doing, std::string_view what) {
    return failure(errc::bad_request, std::string(doing).append(": ").append(what));
}

bool segment(std::string_view s) {
    return s != "." && s != ".." && s.find_first_of("/%") == std::string_view::npos;
}

} // namespace

std::optional<std::chrono::seconds> retries::after(const failure& f) {
    if (attempts_++ >= most_attempts) return std::nullopt;
    if (const auto* s = f.status()) {
        const bool allowed = s->code == 429 || (get_ && s->code == 503);
        if (!allowed || !s->retry_after || *s->retry_after > longest_wait) return std::nullopt;
        return s->retry_after;
    }
    // Written requests may have been carried out before the connection went.
    if (!get_ || f != errc::connection_lost || std::exchange(lost_, true)) return std::nullopt;
    return std::chrono::seconds(1); // client-go's
}

failure check_path(const api_resource& r, std::string_view name_space, std::string_view doing) {
    if (r.plural.empty() || r.version.empty()) return refuse(doing, "the resource has no name or version");
    if (!segment(name_space)) return refuse(doing, "a namespace must not be '.' or '..' or hold '/' or '%'");
    return {};
}

failure check_path(const api_resource& r, const object_key& key, std::string_view doing) {
    if (auto bad = check_path(r, key.name_space, doing)) return bad;
    if (key.name.empty()) return refuse(doing, "the object's name is missing");
    if (r.namespaced && key.name_space.empty()) return refuse(doing, "the object's namespace is missing");
    if (!segment(key.name)) return refuse(doing, "an object's name must not be '.' or '..' or hold '/' or '%'");
    return {};
}

std::string sentence(std::string_view verb, const api_resource& r, const object_key& key) {
    std::string s(verb);
    s.append(" ").append(r.group_resource());
    if (!key.name.empty()) s.append(" ").append(key.str());
    else if (!key.name_space.empty()) s.append(" in ").append(key.name_space);
    return s;
}

std::string describe(const api_resource& r, std::string_view name_space) {
    std::string s = r.group_resource();
    if (!name_space.empty()) s.append(" in ").append(name_space);
    return s;
}

} // namespace detail

client::impl::impl(runtime r, client_config c, failure& f)
    : rt(std::move(r)), config(std::move(c)), token(config.credentials, rt, f) {
    if (f) return;
    const auto to = http::endpoint::parse(config.server, f);
    if (f) {
        f = f.within("server");
        return;
    }
    if (config.time.request_.count() == 0) config.time.request(detail::unary_time);
    http::client_options options;
    options.tls(config.tls).time(config.time).user_agent(detail::user_agent(config)).accept_gzip(config.gzip);
    http = std::make_unique<http::client>(rt, to, options, f);
}

void client::impl::note_warnings(const http::response& r) {
    for (const auto& header : r.headers("Warning")) {
        std::string text = detail::warning_text(header);
        if (text.empty() || warned.size() >= detail::most_warnings || warned.contains(text)) continue;
        rt.log(log_level::warning, "the server warns: " + text);
        warned.insert(std::move(text));
    }
}

asio::awaitable<http::response> client::impl::open(std::shared_ptr<impl> self, http::request r, std::string doing,
                                                   failure& f) {
    if (const std::string& who = self->token.header(); !who.empty()) r.header("Authorization", who);
    const auto& c = self->config.credentials;
    if (!c.impersonate_user.empty()) r.header("Impersonate-User", c.impersonate_user);
    for (const auto& group : c.impersonate_groups) r.header("Impersonate-Group", group);
    const bool debug = self->rt.logs(log_level::debug);
    std::string line;
    if (debug) line = r.method_ + " " + r.target_.substr(0, 1024);

    http::response answer = co_await self->http->send(std::move(r), f);
    if (f) {
        if (debug) self->rt.log(log_level::debug, line + ": " + f.what());
        f = f.within(doing);
        co_return answer;
    }
    self->note_warnings(answer);
    const int status = answer.status();
    if (debug) self->rt.log(log_level::debug, line + ": " + std::to_string(status));
    if (status >= 200 && status < 300) co_return answer;
    if (status == 401) self->token.refused();
    const std::string retry_after(answer.header("Retry-After"));
    failure cut; // half an explanation is better than none
    const std::string body = co_await answer.read_all(detail::largest_error_body, cut);
    f = cut == errc::cancelled ? cut.within(doing) : detail::refused(status, body, retry_after, std::move(doing));
    co_return http::response();
}

asio::awaitable<bool> client::impl::wait(std::shared_ptr<impl> self, std::chrono::seconds d, std::string doing, failure& f) {
    if (self->rt.logs(log_level::debug))
        self->rt.log(log_level::debug, f.what() + "; again in " + std::to_string(d.count()) + " s");
    auto& clock = self->rt.clock();
    const bool slept = co_await clock.sleep_for(d);
    if (!slept) f = failure(errc::cancelled, doing + ": wait to ask again");
    co_return slept;
}

asio::awaitable<std::string> client::impl::perform_once(std::shared_ptr<impl> self, std::shared_ptr<const detail::call> c,
                                                        failure& f) {
    http::request r(c->method, c->target);
    r.header("Accept", c->accept);
    if (!c->content_type.empty()) r.body(c->body, c->content_type);
    http::response answer = co_await open(self, std::move(r), c->doing, f);
    if (f) co_return std::string();
    std::string body = co_await answer.read_all(c->largest, f);
    if (f) f = f.within(c->doing);
    co_return body;
}

asio::awaitable<std::string> client::impl::perform(std::shared_ptr<impl> self, detail::call c, failure& f) {
    detail::retries again(c.method == "GET");
    const auto shared = std::make_shared<const detail::call>(std::move(c));
    for (;;) {
        f = failure();
        std::string body = co_await perform_once(self, shared, f);
        if (!f) co_return body;
        const auto pause = again.after(f);
        if (!pause) co_return std::string();
        const bool slept = co_await wait(self, *pause, shared->doing, f);
        if (!slept) co_return std::string();
    }
}

} // namespace informer::kubernetes
