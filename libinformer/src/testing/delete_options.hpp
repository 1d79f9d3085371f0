// What a DELETE asks for beside the object.
#pragma once

#include "rest_api.hpp"

#include <boost/json/fwd.hpp>

#include <string_view>

namespace informer::testing::detail {

/// DeleteOptions: those of the body, which speaks alone, else those of the query (kubectl uses the one, curl the other).
/// Refuses what the real server refuses: 400 for what cannot be read, 422 for policies that are none. `dryRun` is an array
/// where it is there at all.
boost::json::object delete_options_of(std::string_view body, const parameters& query);

} // namespace informer::testing::detail
