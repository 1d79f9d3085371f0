// Server-side apply on trees: which fields a configuration holds, merging it into an object, what differs between two
// objects, and taking fields out again. Lists and maps are merged as `list_rules` says; lists of custom resources are
// atomic, but for those of metadata.
#pragma once

#include "field_set.hpp"

#include <boost/json/fwd.hpp>

#include <string>

namespace informer::testing::detail {

/// The leaves of an applied configuration, without what identifies the object (apiVersion, kind, metadata.name, …).
field_set fields_of(const boost::json::object& configuration, bool custom);

/// What is wrong with the first list that has two items of one key, as the real server says it; empty: there is none.
std::string duplicate_entry(const boost::json::object& configuration, bool custom);

/// Fields by what happened to them. What is new or gone is listed with all its leaves.
struct field_changes {
    field_set changed; ///< added or modified
    field_set removed;
};
field_changes compare(const boost::json::object& before, const boost::json::object& after, bool custom);

/// Merges `configuration` into `live`.
void merge_configuration(boost::json::object& live, const boost::json::object& configuration, bool custom);

/// Takes the members of `gone` out of `from`, except what is (or holds) a member of `owned`. Keys of list items stay as
/// long as their item does; maps and lists that become empty go.
void remove_fields(boost::json::object& from, const field_set& gone, const field_set& owned, bool custom);

} // namespace informer::testing::detail
