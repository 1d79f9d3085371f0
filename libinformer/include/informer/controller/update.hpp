// Writing what was computed from a state that may be old.
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

/// Runs `attempt` until it ends otherwise than with a conflict, at most as often as told. The attempt must read the object anew.
/// *Errors*: those of the last attempt come through; bad_configuration where there is none. *Cancellation*: terminal, between
/// attempts and within.
asio::awaitable<void> retry_on_conflict(runtime rt, std::function<asio::awaitable<void>()> attempt,
                                        conflict_retry how = conflict_retry());

/// Changes an object in place; returns false where nothing is to be written. May be called several times.
using object_change = std::function<bool(boost::json::value& o)>;

/// Reads, changes, and replaces under the version that was read; again where somebody else was faster. Answers with what is stored.
///
/// `options`: with a subresource ("status", "scale") that part alone is written; `change` is given the object, or the scale.
/// *Errors*: as `client::get` and `client::update`, and bad_configuration where there is no `change`; the twin without
/// failure& throws `error`. What `change` throws goes through both. *Cancellation*: terminal.
asio::awaitable<object> update_with_retry(runtime rt, kubernetes::client c, api_resource resource, object_key key,
                                          object_change change, kubernetes::write_options options, failure& f);
asio::awaitable<object> update_with_retry(runtime rt, kubernetes::client c, api_resource resource, object_key key,
                                          object_change change,
                                          kubernetes::write_options options = kubernetes::write_options());

/// Brings `status` from what `current` has to `wanted`, by a merge patch of what differs and of nothing else, on the
/// status subresource. No request where nothing differs: then `current` is the answer. Members that `wanted` lacks are removed.
/// Others who write other parts of the status are not disturbed. Lists are replaced as a whole. `current` must have its whole status: from
/// a cache of parts (a projection, metadata only) members that it does not show stay. *Errors*: as `client::patch`, and bad_configuration,
/// and no request, where `wanted` is no JSON object: that would take the whole status away.
///
/// `current` may be old: a cache has what was written a moment later. Who compares with it then, and wants what it still says, sends
/// nothing, and the server keeps what was written before. The event that follows leads to another reconcile, which puts it right,
/// unless a predicate drops it: `generation_changed` does, with all events of the status. There give the `cache` that `current`
/// was read from.
asio::awaitable<object> patch_status(kubernetes::client c, api_resource resource, object current,
                                     boost::json::value wanted, kubernetes::write_options options, failure& f);
asio::awaitable<object> patch_status(kubernetes::client c, api_resource resource, object current,
                                     boost::json::value wanted,
                                     kubernetes::write_options options = kubernetes::write_options());

/// How long a write is waited for in the cache.
inline constexpr std::chrono::seconds read_back_limit{5};

/// The same, and reads its write: comes back when `cache` has what is stored (`shared_informer::wait_until`), so the next reconcile
/// of the key, which does not begin before this one has ended, does not see what was before. It costs what the watch takes,
/// milliseconds. For a controller's own resource the cache is what its source reads: `factory.get(resource)`, with the namespace
/// and the options of the source if it has any. Without them that is another informer, of the whole cluster, which is started for
/// this call alone.
///
///     co_await patch_status(client, databases, database, std::move(status), factory.get(databases), options, f);
///     co_return f ? reconcile_result::error(f) : reconcile_result::done();
///
/// *Errors*: besides those above deadline_exceeded where the cache has it not within `read_back_limit` (its watch is away), and what
/// else `wait_until` says; the status is written then. As the result of a reconcile such an error brings the key back, to wait again; only
/// where what is wanted turns back before the watch returns is it compared with what was before. Bad_configuration, and no request, where
/// `cache` is none of `resource`, or has not synced yet.
asio::awaitable<object> patch_status(kubernetes::client c, api_resource resource, object current,
                                     boost::json::value wanted, informer_handle cache,
                                     kubernetes::write_options options, failure& f);
asio::awaitable<object> patch_status(kubernetes::client c, api_resource resource, object current,
                                     boost::json::value wanted, informer_handle cache,
                                     kubernetes::write_options options = kubernetes::write_options());

} // namespace informer
