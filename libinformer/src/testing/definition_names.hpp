// Which names a CustomResourceDefinition gets: those that no other definition of its group has.
#pragma once

#include <boost/json/object.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace informer::testing::detail {

/// Writes into the status of a definition which of the names in its spec are accepted, and whether it is established
/// (once established, it stays so). `others` are the other definitions of its group, `now` is the time of a change.
void settle_names(boost::json::object& definition, const std::vector<boost::json::object>& others,
                  const std::string& now);

/// Sets a condition in the status of a definition; lastTransitionTime stays if the status of the condition does.
void set_condition(boost::json::object& definition, std::string_view type, bool holds, std::string_view reason,
                   std::string_view message, const std::string& now);

/// True when the objects of the definition are served.
bool is_established(const boost::json::object& definition);
/// True when all names in the spec of the definition are accepted.
bool has_its_names(const boost::json::object& definition);

} // namespace informer::testing::detail
