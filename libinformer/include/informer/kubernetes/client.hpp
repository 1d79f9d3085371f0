// The Kubernetes client: objects by verb, discovery, and the list_watch that informers read from.
#pragma once

#include <informer/kubernetes/config.hpp>
#include <informer/kubernetes/discovery.hpp>
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

enum class patch_type { merge, json, strategic_merge, apply };

/// Options of writes.
class write_options {
public:
    write_options() {}
    write_options& dry_run(bool on = true) { dry_run_ = on; return *this; }
    write_options& field_manager(std::string m) { field_manager_ = std::move(m); return *this; }
    write_options& force(bool on = true) { force_ = on; return *this; } ///< apply patches only
    write_options& subresource(std::string s) { subresource_ = std::move(s); return *this; } ///< "status", "scale"
    bool dry_run_ = false, force_ = false;
    std::string field_manager_, subresource_;
};

class delete_options {
public:
    delete_options() {}
    delete_options& precondition_uid(std::string uid) { uid_ = std::move(uid); return *this; }
    delete_options& precondition_resource_version(std::string v) { resource_version_ = std::move(v); return *this; }
    delete_options& grace_period(std::chrono::seconds s) { grace_seconds_ = s.count(); return *this; }
    /// "Background", "Foreground", "Orphan".
    delete_options& propagation(std::string p) { propagation_ = std::move(p); return *this; }
    std::string uid_, resource_version_, propagation_;
    long long grace_seconds_ = -1;
};

/// What lists and watches ask for.
enum class object_parts {
    whole,
    /// PartialObjectMetadata: names, labels, annotations, owners; neither the wire nor the cache sees spec and status. The objects
    /// are of that kind (meta.k8s.io/v1). A server that does not know it sends whole objects: with
    /// `decode_options().project(projection::keep({"/metadata"}))` the cache is as small then, too.
    metadata,
};

/// One page of a list.
struct object_list {
    std::vector<object> items;
    resource_version version;
    std::string continue_token;
    std::vector<bad_object> bad; ///< items that could not be used
};

/// A client of one cluster. Cheap to copy: copies share connections.
///
/// *Thread safety*: none; use it on the runtime's executor. *Cancellation*: terminal, closes the request's socket.
/// *Errors*: each verb throws `error`; its twin with `failure&` does not. The failure's sentence names verb and object
/// ("get pods ns/name"), `status()` is the server's. Retries: 429 and 503 with Retry-After as told (GETs; writes on 429
/// only), GETs also once on a lost connection; writes never blindly. Secrets never reach messages.
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

    asio::awaitable<object> get(api_resource resource, object_key key);
    asio::awaitable<object> get(api_resource resource, object_key key, failure& f);
    /// One page, or everything when `limit` is 0 and the server sends it in one piece.
    asio::awaitable<object_list> list(api_resource resource, std::string name_space, list_options options);
    asio::awaitable<object_list> list(api_resource resource, std::string name_space, list_options options, failure& f);
    /// `o` is a whole object; the namespace is `o`'s. Answers with what the server stored.
    asio::awaitable<object> create(api_resource resource, boost::json::value o, write_options options);
    asio::awaitable<object> create(api_resource resource, boost::json::value o, write_options options, failure& f);
    /// Replaces; a resourceVersion in `o` makes it conditional (errc::conflict).
    asio::awaitable<object> update(api_resource resource, boost::json::value o, write_options options);
    asio::awaitable<object> update(api_resource resource, boost::json::value o, write_options options, failure& f);
    asio::awaitable<object> patch(api_resource resource, object_key key, patch_type type, boost::json::value body,
                                  write_options options);
    asio::awaitable<object> patch(api_resource resource, object_key key, patch_type type, boost::json::value body,
                                  write_options options, failure& f);
    /// Answers with the deleted object or the server's Status as an object.
    asio::awaitable<object> remove(api_resource resource, object_key key, delete_options options);
    asio::awaitable<object> remove(api_resource resource, object_key key, delete_options options, failure& f);

    /// Any request to the API; the answer's body. For /version, /readyz and the like.
    asio::awaitable<std::string> raw(std::string method, std::string path_and_query, std::string body, failure& f);

    /// Aggregated discovery, plain where the server has no aggregated form.
    asio::awaitable<discovery> discover();
    asio::awaitable<discovery> discover(failure& f);
    /// `discover()` and `find(name)`, reading no more than needed; answers are kept, and asked for anew once when a name
    /// is not found.
    asio::awaitable<api_resource> find_resource(std::string name);
    asio::awaitable<api_resource> find_resource(std::string name, failure& f);

    /// What an informer reads from; "" is all namespaces.
    std::shared_ptr<list_watch> make_list_watch(api_resource resource, std::string name_space = {},
                                                object_parts parts = object_parts::whole) const;

    struct impl;

private:
    std::shared_ptr<impl> impl_;
};

} // namespace informer::kubernetes
