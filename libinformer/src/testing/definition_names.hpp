// Which names a CustomResourceDefinition may have: within a group nobody's else.
#pragma once

#include <boost/json/object.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace informer::testing::detail {

/// Says in the status of a definition which of the names that it asks for it has got, and whether it is established: once
/// it is, it stays so. `others` are the definitions of its group, `now` is the time of a change.
void settle_names(boost::json::object& definition, const std::vector<boost::json::object>& others,
                  const std::string& now);

/// In the status of a definition, where one that says what is said already keeps its time.
void set_condition(boost::json::object& definition, std::string_view type, bool holds, std::string_view reason,
                   std::string_view message, const std::string& now);

/// True when its objects are served.
bool is_established(const boost::json::object& definition);
/// True when it has all the names that it asks for.
bool has_its_names(const boost::json::object& definition);

} // namespace informer::testing::detail
