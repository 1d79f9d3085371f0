// Writing what was computed from a state that may be old.
#pragma once

#include <informer/error.hpp>
#include <informer/kubernetes/client.hpp>
#include <informer/object/object.hpp>
#include <informer/runtime.hpp>

#include <boost/asio/awaitable.hpp>
#include <boost/json/fwd.hpp>

#include <chrono>
#include <functional>
#include <string>

namespace informer {

/// How often and how soon a conflicting write is tried again. Constants: client-go, util/retry, DefaultRetry.
class conflict_retry {
public:
    conflict_retry() {}
    conflict_retry& attempts(unsigned n) {
        attempts_ = n;
        return *this;
    }
    conflict_retry& delay(std::chrono::nanoseconds d) {
        delay_ = d;
        return *this;
    }
    unsigned attempts_ = 5;
    std::chrono::nanoseconds delay_ = std::chrono::milliseconds(10); ///< drawn from [d, 1.1 d)
};

/// Runs `attempt` until it ends otherwise than with a conflict, at most as often as told. The attempt must read the object anew.
/// *Errors*: those of the last attempt come through; bad_configuration where there is none. *Cancellation*: terminal, between attempts and within.
asio::awaitable<void> retry_on_conflict(runtime rt, std::function<asio::awaitable<void>()> attempt,
                                        conflict_retry how = conflict_retry());

/// Changes an object in place; returns false where nothing is to be written. May be called several times.
using object_change = std::function<bool(boost::json::value& o)>;

/// Reads, changes, and replaces under the version that was read; again where somebody else was faster. Answers with what is stored.
///
/// `options`: with a subresource ("status", "scale") that part alone is written; `change` is given the object, or the scale.
/// *Errors*: as `client::get` and `client::update`, and bad_configuration where there is no `change`; the twin without
/// failure& throws `error`. *Cancellation*: terminal.
asio::awaitable<object> update_with_retry(runtime rt, kubernetes::client c, api_resource resource, object_key key,
                                          object_change change, kubernetes::write_options options, failure& f);
asio::awaitable<object> update_with_retry(runtime rt, kubernetes::client c, api_resource resource, object_key key,
                                          object_change change,
                                          kubernetes::write_options options = kubernetes::write_options());

/// Brings `status` from what `current` has to `wanted`, by a merge patch of what differs and of nothing else, on the
/// status subresource. No request where nothing differs: then `current` is the answer. Members that `wanted` lacks are removed.
/// Others who write other parts of the status are not disturbed. Lists are replaced as a whole.
asio::awaitable<object> patch_status(kubernetes::client c, api_resource resource, object current,
                                     boost::json::value wanted, kubernetes::write_options options, failure& f);
asio::awaitable<object> patch_status(kubernetes::client c, api_resource resource, object current,
                                     boost::json::value wanted,
                                     kubernetes::write_options options = kubernetes::write_options());

} // namespace informer
