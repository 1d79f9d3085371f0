// Server-side apply on trees: finds the fields of a configuration, merges it into an object, compares two objects, and
// removes fields. Lists and maps are merged as `list_rules` says; lists of custom resources are atomic, except those of
// metadata.
#pragma once

#include "field_set.hpp"

#include <boost/json/fwd.hpp>

#include <string>

namespace informer::testing::detail {

/// The leaves of an applied configuration, without what identifies the object (apiVersion, kind, metadata.name, …).
field_set fields_of(const boost::json::object& configuration, bool custom);

/// A description of the first list that has two items of one key, in the words of the real server; empty when there is
/// none.
std::string duplicate_entry(const boost::json::object& configuration, bool custom);

/// Fields by what happened to them. A value that is new or gone is listed with all its leaves.
struct field_changes {
    field_set changed; ///< added or modified
    field_set removed;
};
field_changes compare(const boost::json::object& before, const boost::json::object& after, bool custom);

/// Merges `configuration` into `live`.
void merge_configuration(boost::json::object& live, const boost::json::object& configuration, bool custom);

/// Removes the members of `gone` from `from`, except those that are (or contain) a member of `owned`; an item of a list
/// stays only if it is a member itself. The keys of a list item stay as long as the item does; maps and lists that
/// become empty are removed.
void remove_fields(boost::json::object& from, const field_set& gone, const field_set& owned, bool custom);

} // namespace informer::testing::detail
