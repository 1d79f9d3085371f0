// Maps an object that changed to the keys to reconcile.
#pragma once

#include <informer/object/api_resource.hpp>
#include <informer/object/object.hpp>

#include <functional>
#include <string>
#include <vector>

namespace informer {

/// For an update it is called with the old and with the new object, and the keys of both are asked for: an object that
/// moves from one owner to another concerns both.
///
/// It may read caches, typically by an index: `lister(bindings).by_index("by-secret", o.name())`. If a cache is not
/// filled yet, or the index is still being built (`error(errc::not_synced)`, which the mapping lets through), the event
/// waits and is mapped again a little later. Meanwhile its source waits behind it, and in the end the informer with
/// everybody who shares it; a line in the log and `controller::not_ready()` say so. So read only what will be filled.
/// Any *other* exception is counted, logged once, and costs the keys of the state that the mapping was called with:
/// they are not reconciled for it until the object changes again or a resync repeats it.
using map_function = std::function<std::vector<object_key>(const object&)>;

/// A key that names the cluster of its object, of which a plain one says nothing.
struct cluster_key {
    std::string cluster; ///< empty: the key names none
    object_key key;      ///< in that cluster
    /// Takes apart what `mapping::of_cluster` made.
    static cluster_key parse(const object_key& k);
};

enum class owner_kind {
    controller, ///< the one owner reference with `controller: true`
    any,        ///< every owner reference
};

namespace mapping {

/// The object's own key.
map_function to_self();
/// The object's owners of this resource: same group and kind, any version. Namespaced owners are in the object's
/// namespace. Throws `error(errc::bad_configuration)` if the resource has no kind.
map_function to_owner(api_resource owner, owner_kind which = owner_kind::controller);
/// For a controller of several clusters (`controller::watch` with a factory of each): the keys of `map`, but each with
/// the name of the cluster and ":" in front of its namespace ("east:default/web"). No namespace of Kubernetes contains
/// a ":". The reconciler gets the cluster back by `cluster_key::parse(request.key)`. Throws
/// `error(errc::bad_configuration)` if the name is empty or contains a "/".
map_function of_cluster(std::string cluster, map_function map = to_self());

} // namespace mapping
} // namespace informer
