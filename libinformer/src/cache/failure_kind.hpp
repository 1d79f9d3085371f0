// What a failure means for the next step of a reflector.
#pragma once

#include <informer/error.hpp>

namespace informer::detail {

enum class failure_kind {
    none,
    cancelled,
    gone,
    too_new,
    throttled,
    unauthorized,
    forbidden,
    missing,
    unwatchable,
    rejected,
    transport,
    other
};

inline int code_of(const failure& f) noexcept {
    return f.status() ? f.status()->code : 0;
}

inline failure_kind kind_of(const failure& f) {
    if (!f) return failure_kind::none;
    if (f == condition::cancelled) return failure_kind::cancelled;
    if (f == condition::gone) return failure_kind::gone;
    if (f == errc::resource_version_too_large) return failure_kind::too_new;
    // A client that gets no credential from its plugin is treated like one that the server does not know.
    if (f == errc::unauthorized || f == errc::exec_plugin_failed) return failure_kind::unauthorized;
    if (f == errc::forbidden) return failure_kind::forbidden;
    if (f == errc::not_found) return failure_kind::missing;
    if (f == errc::too_many_requests || (f.status() && f.status()->retry_after)) return failure_kind::throttled;
    if (code_of(f) == 405 || code_of(f) == 501) return failure_kind::unwatchable;
    constexpr int uri_too_long = 414, header_too_large = 431; // the version is what makes a request long
    if (f == errc::bad_request || f == errc::invalid || code_of(f) == uri_too_long || code_of(f) == header_too_large)
        return failure_kind::rejected;
    constexpr int proxy_wants_login = 407; // from a proxy in between, not from the server
    if (f == condition::transport || code_of(f) == proxy_wants_login) return failure_kind::transport;
    return failure_kind::other;
}

/// Asking again soon does not help.
inline bool hard(failure_kind k) noexcept {
    return k == failure_kind::unauthorized || k == failure_kind::forbidden || k == failure_kind::missing;
}

} // namespace informer::detail
