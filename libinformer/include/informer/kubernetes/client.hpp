// The Kubernetes client: objects by verb, discovery, and the list_watch that informers read from.
#pragma once

#include <informer/kubernetes/config.hpp>
#include <informer/kubernetes/discovery.hpp>
#include <informer/kubernetes/list_pager.hpp>
#include <informer/kubernetes/options.hpp>
#include <informer/object/api_resource.hpp>
#include <informer/object/document_pool.hpp>
#include <informer/object/object.hpp>
#include <informer/runtime.hpp>
#include <informer/source/list_watch.hpp>

#include <boost/asio/awaitable.hpp>
#include <boost/json/fwd.hpp>

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace informer::kubernetes {

/// A client of one cluster. Cheap to copy: copies share connections, which must not outlive the execution context.
///
/// *Thread safety*, *Executor*: verbs may be called and awaited on any executor. They run on the runtime's executor and
/// resume on the awaiter's, whose execution context must live until then. Use everything else on the runtime's
/// executor. *Cancellation*: terminal; it closes the request's socket.
///
/// *Errors*: each verb throws `error`; the overload with `failure&` does not. The failure's message names the verb and
/// the object ("get pods ns/name"); `status()` is the server's. Secrets never appear in messages.
///
/// *Retries*: 429 and 503 with Retry-After (in seconds, up to two minutes) are retried after that time, since the
/// server says that nothing was done. A GET is also retried on any other 5xx with Retry-After, and once on a lost
/// connection. Writes are never retried in those cases, because they may have been carried out. There are at most ten
/// retries, and no wait begins that would end after the verb's time limit; the server's refusal is then the failure.
/// An attempt that is under way when the time is up fails with errc::deadline_exceeded. (A list is a stream and has no
/// such limit. A caller that cannot wait as long as a server may ask for, ten times two minutes, cancels the list or
/// uses a client `without_retries()`.)
///
/// *Connections*: each request under way has one to itself (HTTP/1.1), and there is no limit to their number. Hundreds
/// of requests at once are better bounded, by `parallelize` for example.
///
/// *Objects*: whole objects are `boost::json::value`s with their name (and namespace) in metadata. A subresource takes
/// and returns objects of its own kind (Scale, Eviction, TokenRequest, …), named like the object that it belongs to.
class client {
public:
    client(runtime r, client_config config, failure& f);
    /// Throws `error(errc::bad_configuration)`.
    client(runtime r, client_config config);
    ~client();
    client(const client&);
    client& operator=(const client&);

    const client_config& config() const noexcept;
    /// Whether answers keep metadata.managedFields (default: skipped while parsing). Applies to all copies of this
    /// client.
    void keep_managed_fields(bool on) noexcept;
    /// The same client, but its verbs (except discovery) make one attempt: even a refusal with Retry-After is reported
    /// as the failure at once. For callers with a retry rhythm of their own, which a wait in the client would break.
    [[nodiscard]] client without_retries() const;

    asio::awaitable<object> get(api_resource resource, object_key key);
    asio::awaitable<object> get(api_resource resource, object_key key, failure& f);
    asio::awaitable<object> get(api_resource resource, object_key key, get_options options);
    asio::awaitable<object> get(api_resource resource, object_key key, get_options options, failure& f);
    /// Lists one namespace, or all of them (""). Returns one page, or everything when `limit` is 0 and the server sends
    /// it in one piece; `list_pager` goes through pages. With a shard (`list_options::shard`) the result holds nothing
    /// outside it, whether the server filters or not.
    asio::awaitable<object_list> list(api_resource resource, std::string name_space = {},
                                      list_options options = list_options());
    asio::awaitable<object_list> list(api_resource resource, std::string name_space, list_options options, failure& f);
    /// Returns what the server stored. A subresource is that of the object that `o` names; an eviction is answered with
    /// a Status of success.
    asio::awaitable<object> create(api_resource resource, boost::json::value o,
                                   write_options options = write_options());
    asio::awaitable<object> create(api_resource resource, boost::json::value o, write_options options, failure& f);
    /// Replaces the whole object, so never pass an object that a cache holds only in part. A resourceVersion in `o`
    /// makes the update conditional (errc::conflict).
    asio::awaitable<object> update(api_resource resource, boost::json::value o,
                                   write_options options = write_options());
    asio::awaitable<object> update(api_resource resource, boost::json::value o, write_options options, failure& f);
    asio::awaitable<object> patch(api_resource resource, object_key key, patch_type type, boost::json::value body,
                                  write_options options = write_options());
    asio::awaitable<object> patch(api_resource resource, object_key key, patch_type type, boost::json::value body,
                                  write_options options, failure& f);
    /// Server-side apply: `o` holds the fields that options.field_manager wants to own, and names the object;
    /// apiVersion and kind are added where missing. Fields that the manager applied before and that are not in `o` are
    /// given up; they are removed if nobody else owns them. Creates the object if it does not exist. *Errors*:
    /// errc::conflict where another manager owns a field with another value: see `field_conflicts`, or `force()`.
    asio::awaitable<object> apply(api_resource resource, boost::json::value o, write_options options);
    asio::awaitable<object> apply(api_resource resource, boost::json::value o, write_options options, failure& f);
    /// Returns the deleted object, or the server's Status as an object.
    asio::awaitable<object> remove(api_resource resource, object_key key, delete_options options = delete_options());
    asio::awaitable<object> remove(api_resource resource, object_key key, delete_options options, failure& f);

    /// Deletes everything in a namespace that the selectors of `which` select; "" means the objects of a cluster-scoped
    /// resource. Namespaced resources cannot be deleted in all namespaces at once, nor cluster-scoped ones in a
    /// namespace (errc::bad_request). A shard is refused, too (bad_request), because a server that does not know shards
    /// would delete all. Not one transaction: a failure may come in the middle.
    asio::awaitable<void> remove_collection(api_resource resource, std::string name_space, list_options which,
                                            delete_options options);
    asio::awaitable<void> remove_collection(api_resource resource, std::string name_space, list_options which,
                                            delete_options options, failure& f);

    /// Sends any request to the API and returns the body of the answer. For /version, /readyz and the like. A request
    /// body is sent as JSON; that of a PATCH as a merge patch, or as a JSON patch if it is a list (use `patch` for the
    /// other types).
    asio::awaitable<std::string> raw(std::string method, std::string path_and_query, std::string body = {});
    asio::awaitable<std::string> raw(std::string method, std::string path_and_query, std::string body, failure& f);

    /// Aggregated discovery (Kubernetes 1.27 and later), or plain discovery if the server has no aggregated form; in
    /// the plain form, what one group refuses is one of `problems`. *Errors*: those of any verb;
    /// errc::deadline_exceeded after the configuration's `time_limit` for all of it.
    asio::awaitable<discovery> discover();
    asio::awaitable<discovery> discover(failure& f);
    /// `discover()` and `find(name)`, reading no more than needed: only its group for a name with a group, only the
    /// core group for a plural of the core group, and everything for any other name (also for the core group's short
    /// names, which may be plurals elsewhere). Answers are kept. They are requested again, once, when a name is not
    /// found and, for a name without a group, while a group cannot be read.
    asio::awaitable<api_resource> find_resource(std::string name);
    asio::awaitable<api_resource> find_resource(std::string name, failure& f);

    /// What an informer reads from; "" means all namespaces.
    std::shared_ptr<list_watch> make_list_watch(api_resource resource, std::string name_space = {}) const;
    /// The same for every resource: `informer_factory factory(runtime, client.list_watches());`. It shares the
    /// connections of this client, as a copy does.
    list_watch_factory list_watches() const;

    struct impl;

private:
    friend class list_pager;
    std::shared_ptr<impl> impl_;
    bool retry_ = true;
};

} // namespace informer::kubernetes
