// The discovery documents of the server: plain, and aggregated (apidiscovery.k8s.io/v2).
#pragma once

#include "resource_types.hpp"

#include <optional>
#include <string>
#include <string_view>

namespace informer::testing::detail {

inline constexpr std::string_view aggregated_type =
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
/// True when an Accept header asks for the aggregated form.
bool accepts_aggregated(std::string_view accept);

std::string api_versions_text(std::string_view server_address);                                ///< /api
std::string api_group_list_text(const type_registry& types);                                   ///< /apis
std::optional<std::string> api_group_text(const type_registry& types, std::string_view group); ///< /apis/G
/// /api/v1 and /apis/G/V.
std::optional<std::string> api_resource_list_text(const type_registry& types, std::string_view group,
                                                  std::string_view version);
/// /api (`core`) or /apis, aggregated.
std::string aggregated_text(const type_registry& types, bool core);
std::string version_text();

} // namespace informer::testing::detail
