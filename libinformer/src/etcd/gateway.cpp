#include "etcd/gateway.hpp"

#include "etcd/wire.hpp"
#include "http/privacy.hpp"
#include "root/one_line.hpp"

#include <boost/json/serialize.hpp>
#include <boost/json/string.hpp>
#include <boost/json/value.hpp>

#include <algorithm>
#include <utility>

namespace informer::etcd::detail {

namespace {

constexpr std::size_t largest_refusal = std::size_t(64) << 10;
constexpr std::size_t longest_token = std::size_t(16) << 10;          // servers and proxies refuse longer headers
constexpr std::chrono::seconds short_time = std::chrono::seconds(30); // for small answers; large ones may take longer

// gRPC's status codes.
enum grpc : std::int64_t {
    invalid_argument = 3,
    deadline_exceeded = 4,
    permission_denied = 7,
    resource_exhausted = 8,
    failed_precondition = 9,
    out_of_range = 11,
    unavailable = 14,
    unauthenticated = 16,
};

/// Removes no blanks, which may belong to a password.
std::string_view without_line_ends(std::string_view s) {
    return s.substr(0, s.find_last_not_of("\r\n") + 1);
}

bool says(std::string_view text, std::string_view part) {
    return text.find(part) != std::string_view::npos;
}

} // namespace

failure refused(int http_status, std::int64_t code, std::string_view text, std::string doing) {
    api_status s;
    s.message = informer::detail::printable(text);
    s.code = http_status;
    if (says(text, "has been compacted")) {
        s.code = 410;
        s.reason = "Expired";
    } else if (says(text, "is a future revision")) {
        s.code = 504;
        s.causes.push_back({"ResourceVersionTooLarge", s.message, ""});
    } else if (code == unauthenticated || says(text, "invalid auth token") || says(text, "user name is empty") ||
               says(text, "authentication failed") || says(text, "revision of auth store is old")) {
        s.code = 401; // etcd calls some of them "invalid argument"
    } else if (code == permission_denied || says(text, "permission denied")) {
        s.code = 403;
    } else if (code == resource_exhausted) {
        s.code = 429;
    } else if (code == unavailable || says(text, "no leader")) {
        s.code = 503;
    } else if (code == deadline_exceeded) {
        s.code = 504;
    } else if (http_status == 404 && code == 0) {
        s.message += " (no v3 gateway: etcd before 3.4, or --enable-grpc-gateway=false)";
    } else if (http_status == 0) {
        s.code = code == invalid_argument || code == failed_precondition ? 400 : 500;
    }
    if (s.message.empty()) s.message = "HTTP " + std::to_string(s.code);
    return failure(std::move(s), std::move(doing));
}

bool is_members_fault(const failure& f) {
    if (f == errc::cancelled || f == errc::request_timeout) return false;
    return f == condition::transport || f == condition::timed_out ||
           (f.status() && (f.status()->code == 502 || f.status()->code == 503));
}

bool is_tokens_fault(const failure& f) {
    return f == errc::unauthorized && f.status() != nullptr && !says(f.status()->message, "authentication failed");
}

bool too_large_an_answer(const failure& f) {
    return f == errc::too_many_requests && f.status() != nullptr && says(f.status()->message, "larger than max");
}

gateway::gateway(runtime r, config c, failure& f)
    : rt(std::move(r)), config_(std::move(c)),
      tls_(http::detail::tls_source::read(config_.tls_, config_.tls_files_, f), config_.tls_files_, rt),
      password_file_(config_.password_file_, "etcd: ", "password", without_line_ends) {
    if (f) {
        f = f.within("etcd");
        return;
    }
    if (config_.user_.empty() && !config_.password_file_.empty())
        f = failure(errc::bad_configuration, "etcd: a password file, and no user");
    std::string why;
    if (!f && !password_file_.empty()) {
        if (auto password = password_file_.read_first(why))
            config_.password_ = std::move(*password);
        else if (config_.password_.empty())
            f = failure(errc::bad_configuration, why);
    }
    if (config_.endpoints_.empty()) f = failure(errc::bad_configuration, "etcd: no endpoint is given");
    http::client_options options;
    options.tls(tls_.in_use()).time(config_.time_).proxy(config_.proxy_);
    passed_over_.resize(config_.endpoints_.size());
    for (const std::string& url : config_.endpoints_) {
        if (f) return;
        const http::endpoint to = http::endpoint::parse(url, f);
        const std::string why_not = f || config_.user_.empty() ? "" : http::detail::why_not_private(to, config_.proxy_);
        if (!why_not.empty())
            f = failure(errc::bad_configuration, "etcd: " + why_not + ": a password is not sent there");
        if (!f) members_.push_back(std::make_unique<http::client>(rt, to, options, f));
    }
}

void gateway::fails(std::size_t member) noexcept {
    if (member == current_) current_ = (current_ + 1) % members_.size();
}

void gateway::note_passed_over(std::size_t member, const failure& f) {
    const auto level = passed_over_[member] ? log_level::debug : log_level::info;
    passed_over_[member] = true;
    if (rt.logs(level)) rt.log(level, f.what() + "; asking " + members_[current_]->to().url());
}

void gateway::note_answer(std::size_t member) {
    if (!passed_over_[member]) return;
    passed_over_[member] = false;
    rt.log(log_level::info, "etcd: " + members_[member]->to().url() + " answers again");
}

asio::awaitable<http::response> gateway::send(std::shared_ptr<gateway> self, std::shared_ptr<const call> c,
                                              failure& f) {
    f = failure();
    http::request request("POST", c->path);
    request.body(c->body, "application/json");
    if (c->needs_leader) request.header("Grpc-Metadata-hasleader", "true");
    if (!self->token_.empty()) request.header("Authorization", self->token_);
    auto time = c->time;
    if (c->deadline) {
        const auto left = std::chrono::ceil<std::chrono::milliseconds>(*c->deadline - std::chrono::steady_clock::now());
        time.request(std::max(left, std::chrono::milliseconds(1)));
    }
    request.time(time);
    self->tls_.look(self->members_);
    http::client& member = *self->members_[self->current_];
    const std::string where = member.to().url();
    http::response answer = co_await member.send(std::move(request), f);
    const int status = answer.status();
    if (f == errc::tls_failed) self->tls_.refused();
    if (!f && status != 200) {
        answer.finish_within(short_time);
        failure cut; // half an explanation is better than none
        const std::string body = co_await answer.read_all(largest_refusal, cut);
        const refusal said = read_refusal(body);
        f = cut == errc::cancelled ? cut : refused(status, said.code, said.code != 0 ? said.text : body, where);
    }
    if (self->rt.logs(log_level::debug))
        self->rt.log(log_level::debug, "POST " + where + c->path + ": " + (f ? f.what() : std::to_string(status)));
    if (f) f = f.within(c->doing);
    co_return answer;
}

asio::awaitable<void> gateway::authenticate(std::shared_ptr<gateway> self, std::shared_ptr<const call> c, failure& f) {
    if (!self->password_file_.empty())
        if (auto password = self->password_file_.read_again(self->rt)) self->config_.password_ = std::move(*password);
    const auto text = [](const std::string& s) { return boost::json::serialize(boost::json::string(s)); };
    const std::string body =
        "{\"name\":" + text(self->config_.user_) + ",\"password\":" + text(self->config_.password_) + "}";
    const auto login = std::make_shared<call>("/v3/auth/authenticate", body, c->doing + ": authenticate");
    login->time = self->config_.time_;
    login->time.request(short_time);
    http::response answer = co_await send(self, login, f);
    if (f) {
        // Some configure the user before they turn authentication on.
        if (!f.status() || !says(f.status()->message, "authentication is not enabled")) co_return;
        f = failure();
        self->authentication_off_ = true;
        co_return;
    }
    const std::string said = co_await answer.read_all(largest_refusal, f);
    if (f) {
        f = f.within(login->doing);
        co_return;
    }
    auto token = read_text_member(said, "token");
    if (!token || token->empty()) {
        f = failure(errc::bad_response, login->doing + ": the answer has no token");
        co_return;
    }
    if (token->size() > longest_token || informer::detail::has_controls(*token)) {
        f = failure(errc::bad_response, login->doing + ": the answer has a token that no header can carry");
        co_return;
    }
    self->token_ = std::move(*token);
}

asio::awaitable<gateway::opened> gateway::open(std::shared_ptr<gateway> self, call what, failure& f) {
    const auto c = std::make_shared<const call>(std::move(what));
    std::size_t left = self->members_.size();
    bool renewed = false, again = false;
    for (;;) {
        f = failure();
        const std::size_t asked = self->current_;
        const bool known = self->config_.user_.empty() || self->authentication_off_ || !self->token_.empty();
        if (!known) co_await authenticate(self, c, f);
        opened o;
        o.member = asked;
        if (!f) o.answer = co_await send(self, c, f);
        if (!f || (f.status() && !is_members_fault(f))) self->note_answer(asked);
        if (!f) co_return o;
        if (!self->config_.user_.empty() && !renewed && is_tokens_fault(f)) {
            renewed = true;
            self->token_.clear();
            self->authentication_off_ = false; // it may have been turned on
            continue;
        }
        if (!is_members_fault(f)) co_return opened();
        // The peer may have closed an idle connection, which is no reason to leave this member.
        if ((f == errc::connection_lost || f == errc::write_failed) && !std::exchange(again, true)) continue;
        self->fails(asked);
        if (--left == 0) co_return opened(); // the caller reports it
        again = false;
        self->note_passed_over(asked, f);
    }
}

} // namespace informer::etcd::detail
