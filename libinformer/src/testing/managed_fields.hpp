// metadata.managedFields, as far as a client can tell them from the real ones by their looks: one entry for each
// manager, operation and subresource, with the fields that its writes set. Nobody owns anything: there is no apply.
#pragma once

#include <boost/json/fwd.hpp>

#include <string>
#include <string_view>

namespace informer::testing::detail {

struct field_manager {
    std::string name;        ///< "kubectl", from fieldManager or User-Agent
    std::string operation;   ///< "Update"
    std::string subresource; ///< "status" or empty
    std::string api_version; ///< "apps/v1"
    std::string time;        ///< RFC 3339
};

/// The entries after a write that turned `before` (null on creation) into `after`; both are whole objects.
boost::json::array managed_after(const boost::json::array& entries, const field_manager& who,
                                 const boost::json::object* before, const boost::json::object& after);

} // namespace informer::testing::detail
