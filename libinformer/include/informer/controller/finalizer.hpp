// A finalizer: clean up outside of the cluster before an object is removed.
#pragma once

#include <informer/controller/reconcile.hpp>
#include <informer/kubernetes/client.hpp>
#include <informer/object/object.hpp>

#include <boost/asio/awaitable.hpp>
#include <boost/json/fwd.hpp>

#include <functional>
#include <string>

namespace informer {

/// What to do with an object, given its finalizers and its deletion timestamp.
enum class finalizer_step {
    add,     ///< not being deleted, without our finalizer: add it before anything else
    apply,   ///< not being deleted, with our finalizer: reconcile
    cleanup, ///< being deleted, with our finalizer: clean up, then remove it
    nothing, ///< being deleted, without our finalizer: nothing is left to do
};
finalizer_step next_step(const object& current, std::string_view finalizer);

/// JSON patches that add or remove our entry. They fail if the list is not what `current` says, so two clients that
/// edit it at the same time never undo each other's change.
boost::json::value finalizer_addition(const object& current, std::string_view finalizer);
/// Null if the finalizer is not there.
boost::json::value finalizer_removal(const object& current, std::string_view finalizer);

/// Reconciles with one finalizer. Work on a living object begins only once the finalizer is stored, so whatever was
/// made is cleaned up. The finalizer is removed only after `cleanup` returned `done`. If the finalizer had to be added,
/// `apply` gets the object from the server's answer, which the cache may not have yet.
///
///     co_return co_await finalizing.reconcile(current, apply, cleanup);
///
/// *Errors*: failures of requests come back as a result: `requeue` if somebody edited the list meanwhile, `done` if the
/// object is gone, `error` for everything else. Exceptions of `apply` and `cleanup` propagate. If one of them is
/// missing, `error(errc::bad_configuration)` is thrown and nothing is stored.
/// *Thread safety*: none; use it on the client's executor. *Cancellation*: terminal.
class finalizer {
public:
    /// The object lives until the work has ended.
    using work = std::function<asio::awaitable<reconcile_result>(const object&)>;
    /// `name`: a qualified name such as "example.com/cleanup" (the server insists).
    finalizer(kubernetes::client c, api_resource resource, std::string name);
    /// Keeps `apply` and `cleanup` themselves; what they refer to must outlive the call.
    asio::awaitable<reconcile_result> reconcile(object current, work apply, work cleanup);

private:
    static asio::awaitable<reconcile_result> run(kubernetes::client c, api_resource resource, std::string name,
                                                 object current, work apply, work cleanup);
    kubernetes::client client_;
    api_resource resource_;
    std::string name_;
};

} // namespace informer
