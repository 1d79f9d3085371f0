// From an object that changed to the keys that are to be reconciled.
#pragma once

#include <informer/object/api_resource.hpp>
#include <informer/object/object.hpp>

#include <functional>
#include <vector>

namespace informer {

/// For an update it is called with the old and with the new object, and the keys of both are asked for: an object that goes
/// from one owner to another concerns both.
///
/// It may read caches, by an index above all: `lister(bindings).by_index("by-secret", o.name())`. Where one is not filled yet, or the
/// index still being built (`error(errc::not_synced)`, which it lets pass), the event waits and is mapped again a little later: its source,
/// and in the end the informer with all who share it, wait behind it; a line in the log and `controller::not_ready()` say so. So read what
/// will be filled. Any *other* exception is counted, and logged once, and costs the keys of the state that it was called with: nobody
/// is reconciled for its sake until the object changes again, or a resync repeats it.
using map_function = std::function<std::vector<object_key>(const object&)>;

enum class owner_kind {
    controller, ///< the one owner reference with `controller: true`
    any,        ///< every owner reference
};

namespace mapping {

/// The object's own key.
map_function to_self();
/// Its owners of this resource: same group and kind, any version. Owners that are namespaced live in its namespace. Throws
/// `error(errc::bad_configuration)` where the resource does not say its kind.
map_function to_owner(api_resource owner, owner_kind which = owner_kind::controller);

} // namespace mapping
} // namespace informer
