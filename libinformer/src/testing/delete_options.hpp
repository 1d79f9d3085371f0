// The options of a DELETE.
#pragma once

#include "rest_api.hpp"

#include <boost/json/fwd.hpp>

#include <string_view>

namespace informer::testing::detail {

/// DeleteOptions from the body; only if there is no body, from the query (kubectl sends a body, curl users write a
/// query). Refuses what the real server refuses: 400 for options that cannot be read, 422 for an unknown
/// propagationPolicy or one beside orphanDependents. `dryRun`, if present, is an array.
boost::json::object delete_options_of(std::string_view body, const parameters& query);

} // namespace informer::testing::detail
