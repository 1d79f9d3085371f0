#include <informer/error.hpp>

#include "one_line.hpp"
#include "secrets.hpp"

#include <boost/system/errc.hpp>

#include <array>

namespace informer {

namespace {

const char* sentence(errc e) noexcept {
    switch (e) {
    case errc::cancelled: return "cancelled";
    case errc::deadline_exceeded: return "deadline exceeded";
    case errc::already_running: return "already running";
    case errc::stopped: return "stopped";
    case errc::resolve_failed: return "host name not found";
    case errc::resolve_timeout: return "timed out resolving the host name";
    case errc::connection_refused: return "connection refused";
    case errc::connect_failed: return "connecting failed";
    case errc::connect_timeout: return "timed out connecting";
    case errc::tls_failed: return "TLS handshake failed";
    case errc::tls_timeout: return "timed out in the TLS handshake";
    case errc::connection_lost: return "connection lost";
    case errc::write_failed: return "sending the request failed";
    case errc::header_timeout: return "timed out waiting for the response header";
    case errc::body_idle_timeout: return "timed out waiting for more of the response body";
    case errc::request_timeout: return "the request took too long";
    case errc::bad_response: return "bad response";
    case errc::too_large: return "too large";
    case errc::bad_request: return "bad request";
    case errc::unauthorized: return "unauthorized";
    case errc::forbidden: return "forbidden";
    case errc::not_found: return "not found";
    case errc::conflict: return "conflict";
    case errc::already_exists: return "already exists";
    case errc::gone: return "gone";
    case errc::invalid: return "invalid";
    case errc::too_many_requests: return "too many requests";
    case errc::resource_version_too_large: return "resource version too large";
    case errc::server_error: return "server error";
    case errc::unexpected_status: return "unexpected HTTP status";
    case errc::exec_plugin_failed: return "no credential";
    case errc::syntax_error: return "JSON syntax error";
    case errc::bad_utf8: return "invalid UTF-8";
    case errc::too_deep: return "nested too deeply";
    case errc::not_an_object: return "not an object of the expected type";
    case errc::no_metadata: return "no metadata.name";
    case errc::pool_full: return "document pool full";
    case errc::wrong_type: return "wrong type of value";
    case errc::no_such_value: return "no such value";
    case errc::bad_patch: return "bad patch";
    case errc::bad_selector: return "bad selector";
    case errc::bad_kubeconfig: return "bad kubeconfig";
    case errc::bad_configuration: return "bad configuration";
    case errc::unknown_resource: return "unknown resource";
    case errc::not_synced: return "cache not synced";
    case errc::not_cached: return "not cached";
    case errc::unknown_index: return "unknown index";
    case errc::duplicate_index: return "duplicate index";
    case errc::index_function_failed: return "index function failed";
    case errc::callback_failed: return "callback failed";
    case errc::new_epoch: return "the server went back in time";
    }
    return "unknown error";
}

const char* sentence(condition c) noexcept {
    switch (c) {
    case condition::retryable: return "retryable";
    case condition::gone: return "gone";
    case condition::conflict: return "conflict";
    case condition::not_found: return "not found";
    case condition::unauthorized: return "unauthorized";
    case condition::forbidden: return "forbidden";
    case condition::timed_out: return "timed out";
    case condition::transport: return "transport error";
    case condition::protocol: return "protocol error";
    case condition::cancelled: return "cancelled";
    }
    return "unknown condition";
}

bool is_timeout(errc e) noexcept {
    switch (e) {
    case errc::resolve_timeout:
    case errc::connect_timeout:
    case errc::tls_timeout:
    case errc::header_timeout:
    case errc::body_idle_timeout:
    case errc::request_timeout:
    case errc::deadline_exceeded: return true;
    default: return false;
    }
}

bool is_transport(errc e) noexcept {
    switch (e) {
    case errc::resolve_failed:
    case errc::resolve_timeout:
    case errc::connection_refused:
    case errc::connect_failed:
    case errc::connect_timeout:
    case errc::tls_failed:
    case errc::tls_timeout:
    case errc::connection_lost:
    case errc::write_failed:
    case errc::header_timeout:
    case errc::body_idle_timeout:
    case errc::request_timeout: return true;
    default: return false;
    }
}

bool is_protocol(errc e) noexcept {
    switch (e) {
    case errc::bad_response:
    case errc::too_large:
    case errc::unexpected_status:
    case errc::syntax_error:
    case errc::bad_utf8:
    case errc::too_deep:
    case errc::not_an_object:
    case errc::no_metadata: return true;
    default: return false;
    }
}

bool matches(errc e, condition c) noexcept {
    switch (c) {
    // A deadline of the caller's is no reason to retry: the same deadline has passed for the next attempt too.
    case condition::retryable:
        return is_transport(e) || e == errc::too_many_requests || e == errc::server_error ||
               e == errc::resource_version_too_large;
    case condition::gone: return e == errc::gone;
    case condition::conflict: return e == errc::conflict;
    case condition::not_found: return e == errc::not_found;
    case condition::unauthorized: return e == errc::unauthorized;
    case condition::forbidden: return e == errc::forbidden;
    case condition::timed_out: return is_timeout(e);
    case condition::transport: return is_transport(e);
    case condition::protocol: return is_protocol(e);
    case condition::cancelled: return e == errc::cancelled;
    }
    return false;
}

// The ids are random numbers, drawn once. By them two copies of the library in one process (a program's and a plugin's)
// recognize each other's errors.
class informer_category final : public boost::system::error_category {
public:
    constexpr informer_category() noexcept : error_category(0x6e8f'2b71'c09d'4a53) {}
    const char* name() const noexcept override { return "informer"; }
    std::string message(int e) const override { return sentence(static_cast<errc>(e)); }
};

class informer_condition_category final : public boost::system::error_category {
public:
    constexpr informer_condition_category() noexcept : error_category(0x3fd1'95e8'7ab2'06c7) {}
    const char* name() const noexcept override { return "informer.condition"; }
    std::string message(int c) const override { return sentence(static_cast<condition>(c)); }
    bool equivalent(const error_code& e, int c) const noexcept override {
        const auto wanted = static_cast<condition>(c);
        if (e.category() == informer::error_category()) return matches(static_cast<errc>(e.value()), wanted);
        // Asio's operation_aborted comes up where a user's coroutine is cancelled between our operations.
        return wanted == condition::cancelled && e == boost::system::errc::operation_canceled;
    }
};

} // namespace

const boost::system::error_category& error_category() noexcept {
    static const informer_category c;
    return c;
}

const boost::system::error_category& condition_category() noexcept {
    static const informer_condition_category c;
    return c;
}

error_code make_error_code(errc e) noexcept {
    return error_code(static_cast<int>(e), error_category());
}

boost::system::error_condition make_error_condition(condition c) noexcept {
    return boost::system::error_condition(static_cast<int>(c), condition_category());
}

errc errc_of(const api_status& status) noexcept {
    const std::string_view reason = status.reason;
    // The reason is more precise than the code (apimachinery, api/errors: ReasonForError first, the code if that says
    // nothing).
    if (status.code == 410 || reason == "Expired" || reason == "Gone") return errc::gone;
    if (reason == "Timeout" || status.code == 504) {
        for (const auto& c : status.causes)
            if (c.reason == "ResourceVersionTooLarge") return errc::resource_version_too_large;
        // Servers before 1.18 send no cause.
        if (status.message.find("Too large resource version") != std::string::npos)
            return errc::resource_version_too_large;
        return errc::server_error;
    }
    struct word {
        std::string_view reason;
        errc code;
    };
    static constexpr std::array<word, 15> words{{
        {"Unauthorized", errc::unauthorized},
        {"Forbidden", errc::forbidden},
        {"NotFound", errc::not_found},
        {"AlreadyExists", errc::already_exists},
        {"Conflict", errc::conflict},
        {"Invalid", errc::invalid},
        {"TooManyRequests", errc::too_many_requests},
        {"BadRequest", errc::bad_request},
        {"MethodNotAllowed", errc::bad_request},
        {"NotAcceptable", errc::bad_request},
        {"UnsupportedMediaType", errc::bad_request},
        {"InternalError", errc::server_error},
        {"ServerTimeout", errc::server_error},
        {"ServiceUnavailable", errc::server_error},
        {"StorageReadError", errc::server_error},
    }};
    for (const auto& w : words)
        if (w.reason == reason) return w.code;
    switch (status.code) {
    case 400:
    case 405:
    case 406:
    case 415: return errc::bad_request;
    case 401: return errc::unauthorized;
    case 403: return errc::forbidden;
    case 404: return errc::not_found;
    case 408: return errc::server_error;
    case 409: return errc::conflict;
    case 422: return errc::invalid;
    case 429: return errc::too_many_requests;
    default: break;
    }
    return status.code >= 500 && status.code <= 599 ? errc::server_error : errc::unexpected_status;
}

failure::failure(error_code code, std::string doing)
    : code_(code), message_(detail::without_secrets(std::move(doing))) {}

failure::failure(api_status status, std::string doing) : failure(errc_of(status), std::move(doing)) {
    status.message = detail::without_secrets(std::move(status.message));
    for (auto& cause : status.causes) cause.message = detail::without_secrets(std::move(cause.message));
    status_ = std::make_shared<const api_status>(std::move(status));
}

std::string failure::what() const {
    if (!code_.failed()) return "success";
    std::string line = detail::one_line(message_);
    if (!line.empty()) line += ": ";
    line += code_.message();
    if (status_) {
        const bool shows_code = status_->code != 0 && code_ == make_error_code(errc::unexpected_status);
        if (shows_code) line += ' ' + std::to_string(status_->code);
        if (!status_->message.empty()) {
            line += ": ";
            line += detail::one_line(status_->message);
        }
    }
    return line;
}

failure failure::within(std::string_view prefix) const {
    failure f = *this;
    f.message_ = detail::without_secrets(std::string(prefix));
    if (!message_.empty()) f.message_ += ": " + message_;
    return f;
}

error::error(informer::failure f)
    : boost::system::system_error(f.code()), failure_(std::move(f)), text_(failure_.what()) {}

void throw_on(const failure& f) {
    if (f) throw error(f);
}

} // namespace informer
