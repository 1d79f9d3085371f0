// metadata.managedFields: who owns which field. One entry for each manager, operation and subresource.
#pragma once

#include "refusal.hpp"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include <string>

namespace informer::testing::detail {

struct field_manager {
    std::string name;        ///< "kubectl", from fieldManager or User-Agent
    std::string operation;   ///< "Update" or "Apply"
    std::string subresource; ///< "status", "scale" or empty
    std::string api_version; ///< "apps/v1"
    std::string time;        ///< RFC 3339
};

/// The entries that an update goes on from when its object comes with `given` ones: these, if they can be read, else
/// `had`. One empty entry drops all of them, and so does an empty list, which a custom resource cannot express (the
/// real server takes it for an absent one).
boost::json::array managed_by_request(const boost::json::array& had, const boost::json::array& given, bool custom);

/// The entries after an update that turned `before` (null on creation) into `after`; both are whole objects. `who` now
/// owns the fields that the update changed, whoever owned them before. An object without entries gets none until it is
/// applied.
boost::json::array managed_after_update(const boost::json::array& entries, const field_manager& who,
                                        const boost::json::object* before, const boost::json::object& after,
                                        bool custom);

/// The result of an apply.
struct applied {
    boost::json::object object; ///< merged, without the fields that `who` applied before and nobody owns now
    boost::json::array entries;
};

/// Applies `configuration` to `live` (empty if the object does not exist). Without `force`, throws a refusal (409) that
/// lists the conflicts.
applied apply_configuration(const boost::json::array& entries, const field_manager& who,
                            const boost::json::object& live, const boost::json::object& configuration, bool force,
                            bool custom);

/// True when both have the same entries, apart from times and order.
bool same_managers(const boost::json::array& a, const boost::json::array& b);

} // namespace informer::testing::detail
