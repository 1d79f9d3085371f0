// What the copies of a client share, and the one way to the server that all verbs take.
#pragma once

#include <informer/http/client.hpp>
#include <informer/kubernetes/client.hpp>

#include "http/tls_source.hpp"
#include "kubernetes/exec_source.hpp"
#include "kubernetes/token_source.hpp"
#include "root/quietly.hpp"

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>

namespace informer::kubernetes {

namespace detail {

/// A request whose answer fits into memory.
class call {
public:
    call(std::string method_, std::string target_, std::string doing_)
        : method(std::move(method_)), target(std::move(target_)), doing(std::move(doing_)) {}

    std::string method, target;
    std::string doing; ///< "get pods ns/name", for failures
    std::string accept = "application/json";
    std::string body, content_type;
    std::size_t largest = std::size_t(64) << 20; ///< of the answer
    bool body_wanted = true;                     ///< false: a body that breaks off is no failure
    bool secret_query = false;                   ///< the query must not be logged
    bool retry = true;                           ///< asks again where that is allowed
    std::chrono::milliseconds time_limit{0};     ///< 0: the client's
};

/// How often and when to ask again.
class retries {
public:
    using time_point = clock::time_point;
    /// `allowed`: false for one attempt only. `deadline`: no wait ends after it; nullopt: none.
    retries(std::string method, bool allowed, std::optional<time_point> deadline)
        : method_(std::move(method)), left_(allowed ? most_retries : 0), deadline_(deadline) {}
    const std::string& method() const noexcept { return method_; }
    /// How long to wait before the next attempt; nullopt when `f` is final.
    std::optional<std::chrono::seconds> after(const failure& f, time_point now);

    static constexpr int most_retries = 10; ///< client-go's
    /// If the server asks for a longer wait, the caller decides.
    static constexpr std::chrono::seconds longest_wait = std::chrono::minutes(2);

private:
    std::optional<std::chrono::seconds> pause_after(const failure& f);

    std::string method_;
    int left_;
    std::optional<time_point> deadline_;
    bool lost_ = false;
};

} // namespace detail

struct client::impl {
    impl(runtime r, client_config c, failure& f);

    runtime rt;
    client_config config;
    bool keep_managed_fields = false;
    detail::token_source token;
    http::detail::tls_source tls;
    std::unique_ptr<detail::exec_source> exec; ///< null: no plugin is asked
    std::unique_ptr<http::client> http;        ///< null: `unusable` says why
    failure unusable;
    std::set<std::string, std::less<>> warned; ///< texts of the server's warnings that were logged
    class known_resources {
    public:
        discovery all;
        bool complete = false; ///< nothing was left out or went wrong
    };
    std::optional<known_resources> known;
    struct known_support {
        watch_list_support what;
        clock::time_point since;
    };
    /// By group: an aggregated API server behind the same address may be an older one.
    std::map<std::string, known_support, std::less<>> watch_lists;

    /// Adds the credentials, sends once, and waits for the header. An answer that is not 2xx is a failure with the
    /// server's words. `shown`: the target as it may be logged.
    static asio::awaitable<http::response> open(std::shared_ptr<impl> self, http::request r, std::string doing,
                                                failure& f, std::string shown = {});
    /// Returns the body of the answer; asks again where that is allowed.
    static asio::awaitable<std::string> perform(std::shared_ptr<impl> self, detail::call c, failure& f);
    /// After the failure `f` of an attempt: waits until the next one. False if there is none: `f` is final, or now says
    /// that the wait was cancelled.
    static asio::awaitable<bool> ask_again(std::shared_ptr<impl> self, detail::retries& so_far, std::string doing,
                                           failure& f);

    static asio::awaitable<discovery> discover(std::shared_ptr<impl> self, failure& f);
    static asio::awaitable<api_resource> find_resource(std::shared_ptr<impl> self, std::string name, failure& f);

    /// The deadline of a call that begins now; nullopt: none. A limit of 0 stands for the client's.
    std::optional<clock::time_point> deadline_of(std::chrono::milliseconds limit) const;

private:
    void configure(failure& f);
    void remember(discovery found, bool complete);
    void note_warnings(const http::response& r, const std::string& doing);
    void log_warning(const server_warning& w);
    void count_retry(std::string_view method, const failure& f, std::chrono::seconds pause) const;
    static asio::awaitable<std::string> perform_once(std::shared_ptr<impl> self, std::shared_ptr<const detail::call> c,
                                                     std::optional<clock::time_point> deadline, failure& f);
};

namespace detail {

/// Cancellation comes back as a failure and not as an exception.
using informer::detail::quietly;

/// An empty namespace means "in none". errc::bad_request for what a path cannot hold: such a request would reach
/// another resource than the one that was meant.
failure check_path(const api_resource& r, std::string_view name_space, std::string_view doing);
failure check_path(const api_resource& r, const object_key& key, std::string_view subresource, std::string_view doing);
/// errc::bad_request if the resource is namespaced and there is no namespace.
failure check_in_namespace(const api_resource& r, std::string_view name_space, std::string_view doing);
/// "get pods ns/name", "update pods/status ns/name".
std::string sentence(std::string_view verb, const api_resource& r, const object_key& key,
                     std::string_view subresource = {});
/// "pods", "deployments.apps in ns1".
std::string describe(const api_resource& r, std::string_view name_space);

} // namespace detail

} // namespace informer::kubernetes
