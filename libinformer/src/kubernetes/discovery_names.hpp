// The names by which people ask for resources.
#pragma once

#include <informer/object/api_resource.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace informer::kubernetes::detail {

/// One way to read "deployments.v1.apps"; all in lower case.
struct asked_name {
    std::string resource, version, group;
    bool has_group = false; ///< with an empty group: the core group
};

/// All readings, the likeliest first: NAME, NAME.GROUP, NAME.VERSION.GROUP, NAME.VERSION (core), "NAME." (core).
std::vector<asked_name> readings(std::string_view name);
/// The most preferred resource that fits; groups may be abbreviated to a prefix, as with kubectl. Null when there is
/// none.
const api_resource* match(const std::vector<api_resource>& all, const std::vector<asked_name>& asked);
/// Whether no resource that was not read yet can be preferred to the one found: the name has its group in full, or is a
/// plural in the core group, which comes first. A short name in the core group may be a plural elsewhere, which fits
/// better.
bool is_certain(const api_resource& found, const std::vector<asked_name>& asked);
/// At most three names that may have been meant, nearest first.
std::vector<std::string> nearest(const std::vector<api_resource>& all, std::string_view name);

} // namespace informer::kubernetes::detail
