// What a server serves, and finding a resource by any of its names.
#pragma once

#include <informer/error.hpp>
#include <informer/object/api_resource.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace informer::kubernetes {

/// The resources of a server, in order of preference (core first, then the server's order of groups, preferred version
/// first). Sub-resources are left out.
class discovery {
public:
    discovery() = default;
    std::vector<api_resource> resources;
    /// Groups that could not be read, with the reason; the rest is complete.
    std::vector<std::string> problems;

    /// Finds by plural, singular, kind or short name (any case), optionally qualified: "po", "deploy.apps",
    /// "foos.samplecontroller.k8s.io", "deployments.v1.apps". `f`: errc::unknown_resource with the nearest names.
    api_resource find(std::string_view name, failure& f) const;
    /// Exactly this one; nullptr when absent.
    const api_resource* find(std::string_view group, std::string_view version, std::string_view plural) const;
    /// Finds by apiVersion and kind, as they stand in an object.
    const api_resource* find_kind(std::string_view api_version, std::string_view kind) const;
};

/// Parses the answers of discovery. Plain: APIVersions/APIGroupList/APIResourceList; aggregated: APIGroupDiscoveryList.
namespace discovery_format {
std::vector<std::string> api_versions(std::string_view json, failure& f); ///< of /api
struct group {
    std::string name;
    std::vector<std::string> versions; ///< preferred first
};
std::vector<group> api_groups(std::string_view json, failure& f);           ///< of /apis
std::vector<api_resource> api_resources(std::string_view json, failure& f); ///< of /api/v1, /apis/G/V
std::vector<api_resource> aggregated(std::string_view json, failure& f, std::vector<std::string>* problems = nullptr);
} // namespace discovery_format

} // namespace informer::kubernetes
