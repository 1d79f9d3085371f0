// What the server requires of metadata, and how a state is rendered for the store.
#pragma once

#include "object_store.hpp"
#include "resource_types.hpp"

#include <boost/json/fwd.hpp>

#include <cstdint>
#include <string>
#include <string_view>

namespace informer::testing::detail {

/// The values of an object's selectable fields, in the table's order.
std::vector<std::string> selectable_values(const table& of, const boost::json::object& object);

/// Refuses (400) metadata whose parts have wrong types.
void check_metadata_types(const boost::json::object& object);
/// Refuses (422) names the resource does not allow.
void check_name(const resource_type& type, std::string_view name);
/// Refuses (422) labels, annotations and finalizers that break the rules for names, values and sizes, owner references
/// without apiVersion, kind, name or uid, and a second controller. The types must have been checked before.
void check_metadata_values(const resource_type& type, std::string_view name, const boost::json::object& object);
/// Moves `stringData` of a Secret to `data`, where it overrides other values. Refuses (400) values that are no strings.
void take_string_data(boost::json::object& secret);
/// Refuses (400) times of a Lease that are neither null nor RFC 3339 with microseconds.
void check_lease_times(const resource_type& type, const boost::json::object& object);
/// Removes empty `data` and `binaryData` of a ConfigMap or Secret: they are not stored.
void drop_empty_data(const resource_type& type, boost::json::object& object);
/// Puts the members of metadata into the order of the real server and drops empty ones.
void tidy_metadata(boost::json::object& object);
/// The finalizer that holds a definition until its objects are gone.
inline constexpr std::string_view definition_cleanup = "customresourcecleanup.apiextensions.k8s.io";
void add_finalizer(boost::json::object& object, std::string_view finalizer);
void remove_finalizer(boost::json::object& object, std::string_view finalizer);
/// Renders `object`, whose metadata has been tidied, as its state number `version`.
stored render(const resource_type& type, boost::json::object& object, std::uint64_t version);
/// The result of a dry-run creation: it has no resource version.
stored render_dry(const resource_type& type, boost::json::object& object);
/// The tree of a stored state, with kind and apiVersion of `type`.
boost::json::object tree(const resource_type& type, const stored_object& o);
/// True when both are equal apart from metadata.managedFields and metadata.resourceVersion.
bool same_but_bookkeeping(const boost::json::object& a, const boost::json::object& b);
/// True when metadata.generation counts the difference: something other than metadata and (where it is a subresource)
/// status differs. For a Deployment the annotations count, too, for an EndpointSlice the labels; for a PriorityClass
/// nothing counts.
bool specification_differs(const resource_type& type, const boost::json::object& a, const boost::json::object& b);

} // namespace informer::testing::detail
