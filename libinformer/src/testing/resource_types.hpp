// The resources of the embedded server: the built-in kinds, and those that CustomResourceDefinitions add.
#pragma once

#include "object_store.hpp"

#include <informer/object/api_resource.hpp>

#include <boost/json/fwd.hpp>

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

namespace informer::testing::detail {

/// One resource in one version of its group.
struct resource_type {
    api_resource api;
    std::string list_kind;
    bool status = false;          ///< has /status: a write to the main resource ignores status, one to /status all else
    bool scale = false;           ///< has /scale
    bool generation = false;      ///< metadata.generation counts changes of the specification
    bool custom = false;          ///< made by a CustomResourceDefinition
    bool returns_deleted = false; ///< DELETE answers with the object instead of a Status
    bool path_names = false;      ///< a name may be any path segment (RBAC)
    bool label_names = false;     ///< names are DNS labels: no dots
    bool wants_version = false;   ///< PUT needs a resource version
    bool put_creates = false;     ///< PUT creates an object that does not exist
    bool free_finalizers = false; ///< finalizers need no domain
    bool served = true;           ///< false for some versions of a definition, perhaps for all
    /// The paths of the values in /scale: numbers of replicas, and a selector (a string, or labels).
    std::vector<std::string> scale_wanted{"spec", "replicas"}, scale_present{"status", "replicas"};
    std::vector<std::string> scale_selector{"spec", "selector", "matchLabels"};
    std::shared_ptr<table> rows; ///< shared by the versions of one resource

    std::string api_version() const { return api.api_version(); }
    bool is_definition() const { return api.group == "apiextensions.k8s.io"; }
    /// The name of the definition of a custom resource.
    std::string definition_name() const { return api.plural + "." + api.group; }
    bool is_secret() const { return api.group.empty() && api.plural == "secrets"; }
    bool is_service_account() const { return api.group.empty() && api.plural == "serviceaccounts"; }
    bool is_namespace() const { return api.group.empty() && api.plural == "namespaces"; }
    /// The text with kind and apiVersion that goes before `stored_object::text`.
    std::string head() const;
};
using type_ptr = std::shared_ptr<const resource_type>;

/// Served types by group, version and plural, in the order of discovery. Groups keep the order of their addition.
class type_registry {
public:
    /// A registry with the built-in kinds.
    static type_registry built_in();

    type_ptr find(std::string_view group, std::string_view version, std::string_view plural) const;
    /// "pods", "deployments.apps": the first served version; null if there is none.
    type_ptr find(std::string_view group_resource) const;
    type_ptr find_kind(std::string_view group, std::string_view version, std::string_view kind) const;
    /// True when the version of a group has built-in kinds.
    bool has_built_in(std::string_view group, std::string_view version) const;
    const std::vector<type_ptr>& all() const noexcept { return types_; }
    /// One type for each resource, served or not.
    const std::vector<type_ptr>& resources() const noexcept { return resources_; }
    /// Names of the groups without the core group, and the versions of a group, preferred first.
    std::vector<std::string> groups() const;
    std::vector<std::string> versions(std::string_view group) const;

    void add(type_ptr t);
    /// Removes all versions of a resource.
    void remove(std::string_view group, std::string_view plural);

private:
    std::vector<type_ptr> types_; ///< served
    std::vector<type_ptr> resources_;
};

/// The types that a CustomResourceDefinition (the whole object) defines, one per version, all on the table `rows`
/// (a new table when null). Refuses definitions that cannot be served.
std::vector<type_ptr> types_of_definition(const boost::json::object& definition, std::shared_ptr<table> rows);
/// Refuses (422) a change that would make a definition define something else.
void check_definition_change(const boost::json::object& before, const boost::json::object& after);

} // namespace informer::testing::detail
