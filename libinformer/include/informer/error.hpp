// libinformer: errors. Every failure of the library is an `error_code` of the library's own category, a sentence that
// says what was being done, and, if the API server answered, its `Status`.
//
// Throwing functions throw `informer::error`; their twins take a `failure&` and do not throw. They use a `failure`
// because a bare `error_code` would lose the server's text.
#pragma once

#include <boost/system/error_code.hpp>
#include <boost/system/system_error.hpp>

#include <chrono>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace informer {

using error_code = boost::system::error_code;

/// What went wrong. The names are stable. To test for a class of errors, compare with `condition`.
enum class errc {
    // control
    cancelled = 1,     ///< the caller cancelled, or the object was stopped
    deadline_exceeded, ///< a deadline given by the caller passed
    already_running,   ///< `run()` was called twice
    stopped,           ///< the object was stopped and cannot be used any more
    // transport, one for each phase of a request
    resolve_failed, ///< the host name has no address
    resolve_timeout,
    connection_refused, ///< nothing listens there
    connect_failed,     ///< any other failure to connect, such as a proxy that refuses
    connect_timeout,
    tls_failed, ///< handshake or certificate check; the sentence says which check
    tls_timeout,
    connection_lost, ///< the peer closed or reset the connection before the message was complete
    write_failed,
    header_timeout,    ///< no response header in time
    body_idle_timeout, ///< the body stalled
    request_timeout,   ///< the whole request took too long
    // protocol
    bad_response, ///< not HTTP, or not what the API promises
    too_large,    ///< an object or message over the configured limit
    // the server refused; `status()` is its answer (null if the library refused a name that no path can hold)
    bad_request,                ///< 400, 405, 406, 415
    unauthorized,               ///< 401
    forbidden,                  ///< 403
    not_found,                  ///< 404
    conflict,                   ///< 409 (Conflict)
    already_exists,             ///< 409 (AlreadyExists)
    gone,                       ///< 410 (Gone, Expired), by HTTP status or by ERROR event
    invalid,                    ///< 422
    too_many_requests,          ///< 429
    resource_version_too_large, ///< 504 with cause ResourceVersionTooLarge
    server_error,               ///< any other 5xx
    unexpected_status,          ///< any other HTTP status
    // credentials
    exec_plugin_failed, ///< the exec plugin gave no credential; the sentence says why
    // documents
    syntax_error, ///< not JSON
    bad_utf8,
    too_deep,      ///< nesting beyond the limit (1,000)
    not_an_object, ///< an item that is not a JSON object, or an object of the wrong type
    no_metadata,   ///< an item without metadata.name
    pool_full,     ///< the limit is 4 GiB per pool generation
    wrong_type,    ///< a value is not of the type asked for
    no_such_value, ///< a path that does not exist
    bad_patch,
    // user input
    bad_selector,
    bad_kubeconfig,
    bad_configuration,
    unknown_resource,
    // cache
    not_synced, ///< the cache is not filled yet
    not_cached, ///< no informer for this; a read never starts one
    unknown_index,
    duplicate_index,
    index_function_failed,
    callback_failed, ///< a user's function, such as a reconciler, threw no `error` and no `system_error`
    new_epoch,       ///< the server went back in time; resource versions of the old epoch will never come
};

/// Classes of errors, for `if (f == condition::retryable)`, where f is a `failure`, an `error` or an `error_code`.
enum class condition {
    /// trying the same again may help: transport, time-outs of a request (not a deadline that you gave), 429, 5xx
    retryable = 1,
    gone,
    conflict,
    not_found,
    unauthorized,
    forbidden,
    timed_out,
    transport,
    protocol,
    cancelled,
};

} // namespace informer

// Before any use of the enums with error_code.
namespace boost::system {
template <>
struct is_error_code_enum<informer::errc> : std::true_type {};
template <>
struct is_error_condition_enum<informer::condition> : std::true_type {};
} // namespace boost::system

namespace informer {

const boost::system::error_category& error_category() noexcept;
const boost::system::error_category& condition_category() noexcept;
error_code make_error_code(errc e) noexcept;
boost::system::error_condition make_error_condition(condition c) noexcept;

/// The `Status` object of the Kubernetes API (meta/v1), as far as clients act on it.
class api_status {
public:
    struct cause {
        std::string reason, message, field;
    };
    int code = 0;        ///< HTTP status, or `code` of an ERROR event
    std::string reason;  ///< "NotFound", "Expired", …; empty when the answer was no Status
    std::string message; ///< the server's sentence; non-JSON bodies are cut at 2 KiB
    std::string details_name, details_group, details_kind;
    std::optional<std::chrono::seconds> retry_after; ///< header Retry-After or details.retryAfterSeconds
    std::vector<cause> causes;
    std::string continue_token; ///< fresh inconsistent token for an expired `continue` (ListMeta), if sent

    api_status() = default;
};

/// The `errc` that a status stands for (by HTTP code and reason; "ResourceVersionTooLarge" causes included).
errc errc_of(const api_status& status) noexcept;

/// An error with its context. Cheap to copy. Never holds secrets.
class failure {
public:
    failure() = default;
    /// Masks bearer tokens, Authorization and Cookie headers, passwords in URLs, private keys, and the values of names
    /// that can only be secrets ("password=…", "client_secret": "…"). It masks them in the server's text, too.
    failure(error_code code, std::string doing);
    failure(errc code, std::string doing) : failure(make_error_code(code), std::move(doing)) {}
    failure(api_status status, std::string doing);

    /// True when something failed.
    explicit operator bool() const noexcept { return code_.failed(); }
    const error_code& code() const noexcept { return code_; }
    /// What the library was doing, in its own words only ("list pods: connect 127.0.0.1:6443").
    const std::string& message() const noexcept { return message_; }
    /// The server's answer, if there was one.
    const api_status* status() const noexcept { return status_.get(); }
    /// One line for people: what the library was doing, the code's text, the server's message.
    std::string what() const;
    /// The same failure with `prefix: ` in front of `message()`.
    [[nodiscard]] failure within(std::string_view prefix) const;

    friend std::ostream& operator<<(std::ostream& o, const failure& f) { return o << f.what(); }
    friend bool operator==(const failure& f, condition c) noexcept { return f.code_ == make_error_condition(c); }
    friend bool operator==(const failure& f, errc e) noexcept { return f.code_ == make_error_code(e); }

private:
    error_code code_;
    std::string message_;
    std::shared_ptr<const api_status> status_;
};

/// What throwing functions throw. `what()` is `failure::what()`.
class error : public boost::system::system_error {
public:
    explicit error(informer::failure f);
    error(errc code, std::string doing) : error(informer::failure(code, std::move(doing))) {}
    const informer::failure& failure() const noexcept { return failure_; }
    const api_status* status() const noexcept { return failure_.status(); }
    const char* what() const noexcept override { return text_.c_str(); }

    friend bool operator==(const error& e, condition c) noexcept { return e.failure_ == c; }
    friend bool operator==(const error& e, errc c) noexcept { return e.failure_ == c; }

private:
    informer::failure failure_;
    std::string text_;
};

/// Throws `error` if something failed.
void throw_on(const failure& f);

} // namespace informer
