#include "fault_plan.hpp"

namespace informer::testing {

fault& fault::on(std::function<bool(const request_info&)> f) {
    if (!when) {
        when = std::move(f);
        return *this;
    }
    when = [before = std::move(when), f = std::move(f)](const request_info& r) { return before(r) && f(r); };
    return *this;
}

fault& fault::verb(std::string v) {
    return on([v = std::move(v)](const request_info& r) { return r.verb == v; });
}

namespace detail {

misfortune fault_plan::take(const request_info& request) {
    misfortune m;
    const auto planned = faults_; // a condition may clear the faults or inject another one
    for (const auto& one : planned) {
        fault& f = *one;
        const bool for_watches = f.what == fault::kind::error_event || f.what == fault::kind::end_watch;
        if ((for_watches && request.verb != "watch") || (f.when && !f.when(request)) || !has(one)) continue;
        if (f.skip > 0) {
            --f.skip;
            continue;
        }
        const bool delay = f.what == fault::kind::delay;
        if (delay) {
            m.delay += f.duration;
        } else {
            m.what = f;
        }
        if (--f.times == 0) std::erase(faults_, one);
        if (!delay) break;
    }
    return m;
}

std::string_view reason_of(int code) {
    switch (code) {
    case 400: return "BadRequest";
    case 401: return "Unauthorized";
    case 403: return "Forbidden";
    case 404: return "NotFound";
    case 405: return "MethodNotAllowed";
    case 406: return "NotAcceptable";
    case 409: return "Conflict";
    case 410: return "Expired";
    case 413: return "RequestEntityTooLarge";
    case 415: return "UnsupportedMediaType";
    case 422: return "Invalid";
    case 429: return "TooManyRequests";
    case 500: return "InternalError";
    case 503: return "ServiceUnavailable";
    case 504: return "Timeout";
    default: return "";
    }
}

} // namespace detail
} // namespace informer::testing
