// Strategic merge patches, as far as kubectl uses them for the built-in kinds.
#pragma once

#include <boost/json/fwd.hpp>

namespace informer::testing::detail {

/// Objects are merged, and null deletes a member. `$patch` (replace, delete), `$deleteFromPrimitiveList` and
/// `$retainKeys` are applied, `$setElementOrder` is ignored. Lists that Kubernetes merges by a key (containers,
/// volumes, env, ports, conditions, owner references, …) are merged by it, sets of scalars (finalizers) are joined,
/// all other lists are replaced. Refuses (500) items without their key and unknown directives, and (400) directives in
/// lists whose key is not known: they would become data.
void apply_strategic_merge(boost::json::object& target, const boost::json::object& patch);

} // namespace informer::testing::detail
