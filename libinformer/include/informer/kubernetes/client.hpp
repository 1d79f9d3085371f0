// The Kubernetes client: objects by verb, discovery, and the list_watch that informers read from.
#pragma once

#include <informer/kubernetes/config.hpp>
#include <informer/kubernetes/discovery.hpp>
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

/// One page of a list.
struct object_list {
    std::vector<object> items;
    resource_version version;
    std::string continue_token;
    std::vector<bad_object> bad; ///< items that could not be used
};

/// A client of one cluster. Cheap to copy: copies share connections, which must not outlive the execution context.
///
/// *Thread safety*, *Executor*: verbs may be called and awaited on any executor; they run on the runtime's, and resume on the
/// awaiter's, whose context must be there until then. All else on the runtime's. *Cancellation*: terminal, closes the request's
/// socket.
///
/// *Errors*: each verb throws `error`; its twin with `failure&` does not. The failure's sentence names verb and object
/// ("get pods ns/name"), `status()` is the server's. Secrets never reach messages.
///
/// *Retries*: 429, and 503, with Retry-After (in seconds, up to two minutes) are asked again as told, since the server says that
/// nothing was done; GETs also with any other 5xx that has it, and once on a lost connection, writes never: they may have been
/// carried out. At most ten attempts, and no wait begins that would end after the verb's time limit: then the server's refusal is
/// the failure. An attempt that is under way when the time is up is errc::deadline_exceeded. (A list is a stream and has no such
/// limit: who cannot wait as long as a server may ask for, ten times two minutes, cancels it or lists by a client
/// `without_retries()`.)
///
/// *Objects*: whole ones are `boost::json::value`s with their name (and namespace) in metadata. A subresource takes and answers with
/// objects of its own kind (Scale, Eviction, TokenRequest, …), named like the object that it belongs to.
class client {
public:
    client(runtime r, client_config config, failure& f);
    /// Throws `error(errc::bad_configuration)`.
    client(runtime r, client_config config);
    ~client();
    client(const client&);
    client& operator=(const client&);

    const client_config& config() const noexcept;
    /// Whether answers keep metadata.managedFields (default: skipped while parsing). For all copies of this client.
    void keep_managed_fields(bool on) noexcept;
    /// The same client, whose verbs (discovery apart) ask once: also a refusal with Retry-After is the failure at once. For who
    /// has a rhythm of his own, which a wait in here would break.
    [[nodiscard]] client without_retries() const;

    asio::awaitable<object> get(api_resource resource, object_key key);
    asio::awaitable<object> get(api_resource resource, object_key key, failure& f);
    asio::awaitable<object> get(api_resource resource, object_key key, get_options options);
    asio::awaitable<object> get(api_resource resource, object_key key, get_options options, failure& f);
    /// Of a namespace, or of all (""). One page, or everything when `limit` is 0 and the server sends it in one piece. Of a part by
    /// hashes (`list_options::shard`) it holds nothing else, whether the server chooses or not.
    asio::awaitable<object_list> list(api_resource resource, std::string name_space = {},
                                      list_options options = list_options());
    asio::awaitable<object_list> list(api_resource resource, std::string name_space, list_options options, failure& f);
    /// Answers with what the server stored. With a subresource: below the object that `o` names; an eviction is answered
    /// with a Status of success.
    asio::awaitable<object> create(api_resource resource, boost::json::value o,
                                   write_options options = write_options());
    asio::awaitable<object> create(api_resource resource, boost::json::value o, write_options options, failure& f);
    /// Replaces all, so never with an object that a cache has in part; a resourceVersion in `o` makes it conditional (errc::conflict).
    asio::awaitable<object> update(api_resource resource, boost::json::value o,
                                   write_options options = write_options());
    asio::awaitable<object> update(api_resource resource, boost::json::value o, write_options options, failure& f);
    asio::awaitable<object> patch(api_resource resource, object_key key, patch_type type, boost::json::value body,
                                  write_options options = write_options());
    asio::awaitable<object> patch(api_resource resource, object_key key, patch_type type, boost::json::value body,
                                  write_options options, failure& f);
    /// Server-side apply: `o` holds the fields that options.field_manager wants to own, and names the object; apiVersion
    /// and kind are added where missing. Fields that it applied before and that are not in `o` are given up, and gone if
    /// nobody else owns them. Creates the object if there is none. *Errors*: errc::conflict where another manager owns a
    /// field with another value: see `field_conflicts`, or `force()`.
    asio::awaitable<object> apply(api_resource resource, boost::json::value o, write_options options);
    asio::awaitable<object> apply(api_resource resource, boost::json::value o, write_options options, failure& f);
    /// Answers with the deleted object or the server's Status as an object.
    asio::awaitable<object> remove(api_resource resource, object_key key, delete_options options = delete_options());
    asio::awaitable<object> remove(api_resource resource, object_key key, delete_options options, failure& f);

    /// Deletes everything in a namespace ("" is what is in none; namespaced resources cannot be deleted in all at once, nor those of
    /// the cluster in one: errc::bad_request) that the selectors of `which` choose, but no part by hashes (bad_request, too: a server
    /// that does not know it would delete all). Not one transaction: a failure may come in the middle.
    asio::awaitable<void> remove_collection(api_resource resource, std::string name_space, list_options which,
                                            delete_options options);
    asio::awaitable<void> remove_collection(api_resource resource, std::string name_space, list_options which,
                                            delete_options options, failure& f);

    /// Any request to the API; the answer's body. For /version, /readyz and the like. A body is sent as JSON; that of a PATCH as a merge
    /// patch, or where it is a list as a JSON patch (for the other types there is `patch`).
    asio::awaitable<std::string> raw(std::string method, std::string path_and_query, std::string body = {});
    asio::awaitable<std::string> raw(std::string method, std::string path_and_query, std::string body, failure& f);

    /// Aggregated discovery (Kubernetes 1.27 and later), plain where the server has no aggregated form: then what one group
    /// refuses is one of `problems`. *Errors*: those of any verb; errc::deadline_exceeded after the configuration's
    /// `time_limit` for all of it.
    asio::awaitable<discovery> discover();
    asio::awaitable<discovery> discover(failure& f);
    /// `discover()` and `find(name)`, reading no more than needed: for a name with a group that one, for a plural of the core group
    /// no other, for any other name (also its short names, which may be plurals elsewhere) all. Answers are kept, and asked for
    /// anew once when a name is not found, and for a name without a group while a group cannot be read.
    asio::awaitable<api_resource> find_resource(std::string name);
    asio::awaitable<api_resource> find_resource(std::string name, failure& f);

    /// What an informer reads from; "" is all namespaces.
    std::shared_ptr<list_watch> make_list_watch(api_resource resource, std::string name_space = {}) const;

    struct impl;

private:
    std::shared_ptr<impl> impl_;
    bool retry_ = true;
};

} // namespace informer::kubernetes
