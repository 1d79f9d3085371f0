// Strategic merge patches, as far as kubectl uses them for the built-in kinds.
#pragma once

#include <boost/json/fwd.hpp>

namespace informer::testing::detail {

/// Objects are merged, and null deletes a member. `$patch` (replace, delete), `$deleteFromPrimitiveList`, `$retainKeys`
/// and `$setElementOrder` are applied. Lists that Kubernetes merges by a key (containers, volumes, env, ports,
/// conditions, owner references, …) are merged by it, sets of scalars (finalizers) are joined, both in the real
/// server's order; all other lists are replaced. Refuses (500) items without their key, unknown directives and orders
/// that lack an item, and (400) directives and orders for lists whose key is not known: they would become data, or a
/// part of a list its whole.
void apply_strategic_merge(boost::json::object& target, const boost::json::object& patch);

} // namespace informer::testing::detail
