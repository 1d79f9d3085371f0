// A finalizer: clean up outside of the cluster before an object goes.
#pragma once

#include <informer/controller/reconcile.hpp>
#include <informer/kubernetes/client.hpp>
#include <informer/object/object.hpp>

#include <boost/asio/awaitable.hpp>
#include <boost/json/fwd.hpp>

#include <functional>
#include <string>

namespace informer {

/// What is to be done with an object, by its finalizers and its deletion time.
enum class finalizer_step {
    add,     ///< alive, without our finalizer: add it before anything else
    apply,   ///< alive and ours: reconcile
    cleanup, ///< being deleted and ours: clean up, then remove our finalizer
    nothing, ///< being deleted, and none of ours is left to do
};
finalizer_step next_step(const object& current, std::string_view finalizer);

/// JSON patches that add or remove our entry and fail where the list is not what `current` says: two who edit it at the
/// same time never undo each other.
boost::json::value finalizer_addition(const object& current, std::string_view finalizer);
/// Null when it is not there.
boost::json::value finalizer_removal(const object& current, std::string_view finalizer);

/// Reconciles with one finalizer. The work on a living object begins only once the finalizer is stored, so whatever was made
/// is cleaned up; the finalizer is removed only after the clean-up said `done`. Where it had to be added, `apply` is given what
/// the server answered, which the cache may not have yet.
///
///     co_return co_await finalizing.reconcile(current, apply, cleanup);
///
/// *Errors*: what the server answers comes back as a result: a list that was edited meanwhile as `requeue`, everything else as
/// `error`; an object that is gone is `done`. What `apply` and `cleanup` throw goes through; without one of them it is
/// `error(errc::bad_configuration)`, and nothing is stored.
/// *Thread safety*: none; use it on the client's executor. *Cancellation*: terminal.
class finalizer {
public:
    /// The object is held until it has ended.
    using work = std::function<asio::awaitable<reconcile_result>(const object&)>;
    /// `name`: qualified, "example.com/cleanup" (the server insists).
    finalizer(kubernetes::client c, api_resource resource, std::string name);
    /// What `apply` and `cleanup` refer to must outlive the call; they themselves are kept.
    asio::awaitable<reconcile_result> reconcile(object current, work apply, work cleanup);

private:
    static asio::awaitable<reconcile_result> run(kubernetes::client c, api_resource resource, std::string name,
                                                 object current, work apply, work cleanup);
    kubernetes::client client_;
    api_resource resource_;
    std::string name_;
};

} // namespace informer
