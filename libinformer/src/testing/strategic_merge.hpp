// Strategic merge patches as far as kubectl sends them for the built-in kinds.
#pragma once

#include <boost/json/fwd.hpp>

namespace informer::testing::detail {

/// Objects merge, null deletes, `$patch` (replace, delete), `$deleteFromPrimitiveList` and `$retainKeys` are honoured,
/// `$setElementOrder` is read over. Lists that Kubernetes merges by a key (containers, volumes, env, ports, conditions, owner
/// references, …) merge by it, sets of scalars (finalizers) are joined; all others are replaced. Refuses (500) items without
/// their key and directives that are none, and (400) directives in lists of which no key is known: they would become data.
void apply_strategic_merge(boost::json::object& target, const boost::json::object& patch);

} // namespace informer::testing::detail
