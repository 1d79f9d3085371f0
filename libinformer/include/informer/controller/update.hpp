// Writes of values that were computed from a state that may be stale.
#pragma once

#include <informer/cache/informer_factory.hpp>
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

/// Runs `attempt` until it ends with anything but a conflict, at most `how.attempts_` times. Each attempt must read the
/// object anew. *Errors*: those of the last attempt; bad_configuration if there is no `attempt`. *Cancellation*:
/// terminal, between attempts and within.
asio::awaitable<void> retry_on_conflict(runtime rt, std::function<asio::awaitable<void>()> attempt,
                                        conflict_retry how = conflict_retry());

/// Changes an object in place, or makes it anew; returns false if nothing is to be written. May be called several
/// times.
using object_change = std::function<bool(boost::json::value& o)>;

/// Reads the object, changes it, and replaces it under the version that was read; starts again if somebody else was
/// faster. Returns what is stored.
///
/// `options`: with a subresource ("status", "scale"), that part alone is written; `change` gets the object, or the
/// Scale. *Errors*: as `client::get` and `client::update`; bad_configuration, and no write, if there is no `change` or
/// it makes an object of another name. The overload without failure& throws `error`. Exceptions of `change` propagate
/// from both. *Cancellation*: terminal.
asio::awaitable<object> update_with_retry(runtime rt, kubernetes::client c, api_resource resource, object_key key,
                                          object_change change, kubernetes::write_options options, failure& f);
asio::awaitable<object> update_with_retry(runtime rt, kubernetes::client c, api_resource resource, object_key key,
                                          object_change change,
                                          kubernetes::write_options options = kubernetes::write_options());

/// Changes the status from what `current` has to `wanted`, with a merge patch of the status subresource that contains
/// only the differences. If nothing differs, no request is made and `current` is returned. Members that `wanted` lacks
/// are removed. Writers of other parts of the status are not disturbed. Lists are replaced as a whole. `current` must
/// have its whole status: if it comes from a cache of parts (a projection, metadata only), members that it does not
/// show stay. *Errors*: as `client::patch`; bad_configuration, and no request, if `wanted` is not a JSON object, which
/// would remove the whole status.
///
/// `current` may be stale: a write reaches the cache a moment later. A caller that compares with it before that, and
/// wants what it still says, sends nothing, and the server keeps the earlier write. The event that follows leads to
/// another reconcile, which puts it right, unless a predicate drops that event: `generation_changed` drops all events
/// of the status. In that case pass the `cache` that `current` was read from.
asio::awaitable<object> patch_status(kubernetes::client c, api_resource resource, object current,
                                     boost::json::value wanted, kubernetes::write_options options, failure& f);
asio::awaitable<object> patch_status(kubernetes::client c, api_resource resource, object current,
                                     boost::json::value wanted,
                                     kubernetes::write_options options = kubernetes::write_options());

/// How long a write is awaited in the cache.
inline constexpr std::chrono::seconds read_back_limit{5};

/// The same, and reads its write: it returns when `cache` has what is stored (`shared_informer::wait_until`). So the
/// next reconcile of the key, which does not begin before this one has ended, does not see the old state. The wait
/// costs what the watch takes, milliseconds. For a controller's own resource, pass the cache that its source reads:
/// `factory.get(resource)`, with the namespace and the options of the source if it has any. Without them that is
/// another informer, of the whole cluster, which is started for this call alone.
///
///     co_await patch_status(client, databases, database, std::move(status), factory.get(databases), options, f);
///     co_return f ? reconcile_result::error(f) : reconcile_result::done();
///
/// *Errors*: those above; deadline_exceeded if the write does not reach the cache within `read_back_limit` (its watch
/// is away), and the other errors of `wait_until`: the status is written then. As the result of a reconcile such an
/// error brings the key back, to wait again; only if the wanted status turns back before the watch returns is it
/// compared with the old state. bad_configuration, and no request, if `cache` is not one of `resource` or has not
/// synced yet.
asio::awaitable<object> patch_status(kubernetes::client c, api_resource resource, object current,
                                     boost::json::value wanted, informer_handle cache,
                                     kubernetes::write_options options, failure& f);
asio::awaitable<object> patch_status(kubernetes::client c, api_resource resource, object current,
                                     boost::json::value wanted, informer_handle cache,
                                     kubernetes::write_options options = kubernetes::write_options());

} // namespace informer
