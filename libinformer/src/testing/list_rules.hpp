// How lists and maps of the Kubernetes API are merged, by the name of their field. Source: patchMergeKey, listType,
// listMapKey and mapType of the types in k8s.io/api.
#pragma once

#include <boost/json/fwd.hpp>

#include <array>
#include <string_view>

namespace informer::testing::detail {

struct list_rule {
    std::string_view list;                    ///< name of the field
    std::string_view strategic;               ///< patchMergeKey; "=": a set of scalars; empty: replaced as a whole
    std::array<std::string_view, 2> map_keys; ///< of server-side apply; {"="}: a set of scalars; {}: atomic
};

/// The rule of a list; null when the list is atomic in all respects. The rules for `ports` of containers and of
/// services differ, so the items decide.
const list_rule* rule_of_list(std::string_view list, const boost::json::array& items);

/// True for maps that server-side apply takes as one value (mapType: atomic): selectors and references.
bool is_atomic_map(std::string_view field);

/// True for maps (as opposed to structs): the manager that creates one owns the map itself, too.
bool is_map(std::string_view field);

} // namespace informer::testing::detail
