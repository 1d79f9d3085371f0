#include <informer/kubernetes/auth_filter.hpp>

#include "kubernetes/expiring_cache.hpp"
#include "kubernetes/keyed_hash.hpp"
#include "root/ascii.hpp"
#include "root/one_line.hpp"
#include "root/parking.hpp"

#include <informer/detail/async.hpp>
#include <informer/object/json.hpp>

#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace informer::kubernetes {

namespace json = boost::json;

namespace {

using namespace std::chrono_literals;
using answer = std::optional<http::refusal>;
using informer::detail::later;
using request_ptr = std::shared_ptr<const http::server_request>;

// controller-runtime's.
constexpr auto time_limit = 10s, authenticated_for = 60s, allowed_for = 300s, denied_for = 30s;
constexpr std::size_t most_kept = 1000;

/// The token in an Authorization header; empty if there is none that could be one. As in k8s.io/apiserver, what comes
/// behind it does not count, and a second space before it is an error.
std::string_view bearer_token(std::string_view header) {
    header = informer::detail::trimmed(header);
    const auto space = std::min(header.find(' '), header.size());
    if (informer::detail::lower(header.substr(0, space)) != "bearer") return {};
    const auto rest = header.substr(std::min(space + 1, header.size()));
    const auto token = rest.substr(0, rest.find(' '));
    const auto odd = [](char c) { return c < 0x21 || c > 0x7e; }; // no token, and perhaps no UTF-8
    return std::any_of(token.begin(), token.end(), odd) ? std::string_view() : token;
}

answer unauthorized(std::string_view why) {
    http::refusal r(401, "unauthorized: " + std::string(why) + "\n");
    r.header("WWW-Authenticate", "Bearer");
    return r;
}

/// What a SubjectAccessReview says about the user of a TokenReview.
json::object subject_of(const value& user) {
    json::object subject;
    const auto copy = [&](const char* from, const char* to) {
        if (const value v = user[from]; v.exists()) subject[to] = to_value(v);
    };
    copy("username", "user");
    copy("groups", "groups");
    copy("uid", "uid");
    copy("extra", "extra");
    return subject;
}

/// One of the two reviews.
struct review {
    review(const char* group, const char* plural, const char* kind) : resource(group, "v1", plural, kind, false) {}
    api_resource resource;
    bool failing = false; ///< the last one failed, and that was logged
};

class auth_filter {
public:
    using shared = std::shared_ptr<auth_filter>;
    auth_filter(runtime r, client c) : rt_(std::move(r)), client_(std::move(c)) {}

    static asio::awaitable<answer> decide(shared self, request_ptr q);

private:
    /// A question that is under way, and who else waits for its answer.
    struct question {
        std::optional<answer> found; ///< stays empty if it was cancelled
        std::vector<informer::detail::waiter_ptr> waiting;
    };
    class asking;
    class parker;
    struct reply {
        object made;
        failure f{errc::cancelled, "create a review"}; ///< unless it is carried out
    };

    static asio::awaitable<answer> ask(shared self, request_ptr q, std::string token, std::string token_key);
    static asio::awaitable<object> create(shared self, review* which, json::object spec, clock::time_point deadline,
                                          failure& f);
    static asio::awaitable<void> send(client c, api_resource r, json::value body, write_options options,
                                      std::shared_ptr<reply> into);
    answer cannot_ask(review& which, const failure& f);

    runtime rt_;
    client client_;
    detail::keyed_hash hash_;
    review token_review_{"authentication.k8s.io", "tokenreviews", "TokenReview"};
    review access_review_{"authorization.k8s.io", "subjectaccessreviews", "SubjectAccessReview"};
    detail::expiring_cache<json::object> subjects_{most_kept}; ///< by token
    detail::expiring_cache<bool> decisions_{most_kept};        ///< by the specification of the review
    std::map<std::string, std::shared_ptr<question>> under_way_;
};

/// Ends the question however its coroutine ends.
class auth_filter::asking {
public:
    asking(shared of, std::string key) : of_(std::move(of)), key_(std::move(key)) { of_->under_way_[key_] = now_; }
    asking(const asking&) = delete;
    asking& operator=(const asking&) = delete;
    ~asking() {
        of_->under_way_.erase(key_);
        informer::detail::wake_soon([this] { informer::detail::wake_all(now_->waiting); });
    }
    void found(const answer& a) { now_->found = a; }

private:
    shared of_;
    std::string key_;
    std::shared_ptr<question> now_ = std::make_shared<question>();
};

class auth_filter::parker {
public:
    explicit parker(std::shared_ptr<question> q) : question_(std::move(q)) {}
    void operator()(const informer::detail::waiter_ptr& w) const { question_->waiting.push_back(w); }

private:
    std::shared_ptr<question> question_;
};

asio::awaitable<answer> auth_filter::decide(shared self, request_ptr q) {
    const std::string token(bearer_token(q->header("Authorization")));
    if (token.empty()) co_return unauthorized("a bearer token is needed");
    const std::string token_key = self->hash_(token), key = token_key + q->method + " " + q->path;
    for (auto other = self->under_way_.find(key); other != self->under_way_.end(); other = self->under_way_.find(key)) {
        const auto asked = other->second;
        const bool asked_to_stop = co_await informer::detail::cancelled();
        if (asked_to_stop) throw error(errc::cancelled, "wait for the answer to the same question");
        const parker park(asked);
        co_await informer::detail::wait_parked(park);
        if (asked->found) co_return *asked->found;
    }
    asking mine(self, key);
    auto work = ask(self, q, token, token_key);
    answer a = co_await std::move(work);
    mine.found(a);
    co_return a;
}

asio::awaitable<answer> auth_filter::ask(shared self, request_ptr q, std::string token, std::string token_key) {
    auto& clock = self->rt_.clock();
    const auto deadline = later(clock.now(), time_limit);
    failure f;
    json::object spec;
    if (const auto* known = self->subjects_.find(token_key, clock.now())) {
        spec = *known;
    } else {
        json::object asked{{"token", token}};
        const object o = co_await create(self, &self->token_review_, std::move(asked), deadline, f);
        if (f) co_return self->cannot_ask(self->token_review_, f);
        if (!o["status"]["authenticated"].bool_or(false))
            co_return unauthorized("the API server does not know the token");
        spec = subject_of(o["status"]["user"]);
        self->subjects_.put(token_key, spec, later(clock.now(), authenticated_for));
    }
    const std::string verb = informer::detail::lower(q->method);
    const std::string user = spec.contains("user") ? json::serialize(spec["user"]) : "\"\"";
    spec["nonResourceAttributes"] = json::object{{"path", q->path}, {"verb", verb}};
    const std::string key = self->hash_(json::serialize(spec));
    const auto* known = self->decisions_.find(key, clock.now());
    bool allowed = known != nullptr && *known;
    if (known == nullptr) {
        const object o = co_await create(self, &self->access_review_, std::move(spec), deadline, f);
        if (f) co_return self->cannot_ask(self->access_review_, f);
        allowed = o["status"]["allowed"].bool_or(false) && !o["status"]["denied"].bool_or(false);
        self->decisions_.put(key, allowed, later(clock.now(), allowed ? allowed_for : denied_for));
    }
    if (allowed) co_return std::nullopt;
    co_return http::refusal(
        403, informer::detail::printable("forbidden: user " + user + " may not " + verb + " " + q->path) + "\n");
}

asio::awaitable<object> auth_filter::create(shared self, review* which, json::object spec, clock::time_point deadline,
                                            failure& f) {
    const auto& r = which->resource;
    auto& clock = self->rt_.clock();
    json::value body = json::object{{"apiVersion", r.api_version()}, {"kind", r.kind}, {"spec", std::move(spec)}};
    write_options options; // so that the client begins no wait that would end later
    options.time_limit(std::max(std::chrono::ceil<std::chrono::milliseconds>(deadline - clock.now()), 1ms));
    const auto said = std::make_shared<reply>();
    auto work = send(self->client_, r, std::move(body), std::move(options), said);
    const bool in_time = co_await informer::detail::run_until(clock, deadline, std::move(work));
    const bool late = !in_time && clock.now() >= deadline; // otherwise we were cancelled
    f = !late ? said->f : failure(errc::deadline_exceeded, "create " + r.group_resource() + ": no answer in time");
    if (f == condition::cancelled) throw error(f); // it says nothing to those who wait for the answer, too
    if (!f && std::exchange(which->failing, false)) self->rt_.log(log_level::info, r.plural + " are answered again");
    co_return said->made;
}

asio::awaitable<void> auth_filter::send(client c, api_resource r, json::value body, write_options options,
                                        std::shared_ptr<reply> into) {
    failure f;
    into->made = co_await c.create(std::move(r), std::move(body), std::move(options), f);
    into->f = f;
}

answer auth_filter::cannot_ask(review& which, const failure& f) {
    if (!std::exchange(which.failing, true)) {
        std::string line = "a request for a page of this program cannot be decided: " + f.what();
        if (f == condition::forbidden) line += "; it needs the ClusterRole system:auth-delegator";
        rt_.log(log_level::warning, line);
    }
    const bool passing = f == condition::retryable || f == errc::deadline_exceeded;
    return http::refusal(passing ? 503 : 500, "the API server cannot be asked who may read this\n");
}

} // namespace

http::request_filter make_auth_filter(runtime r, client c) {
    const auto made = std::make_shared<auth_filter>(std::move(r), std::move(c));
    return [made](request_ptr q) { return auth_filter::decide(made, std::move(q)); };
}

} // namespace informer::kubernetes
