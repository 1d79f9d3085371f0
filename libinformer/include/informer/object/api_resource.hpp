// Which resource: group, version, plural, and what discovery knows about it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace informer {

/// One resource of the API. Identity is (group, version, plural).
class api_resource {
public:
    api_resource() = default;
    /// group is empty for the core group.
    api_resource(std::string group_, std::string version_, std::string plural_, std::string kind_ = {},
                 bool namespaced_ = true);

    std::string group, version, plural;
    std::string kind; ///< "Pod"; needed to restore `kind` of list items
    std::string singular;
    std::vector<std::string> short_names, categories, verbs;
    bool namespaced = true;

    /// "v1" or "apps/v1".
    std::string api_version() const;
    /// "pods" or "deployments.apps".
    std::string group_resource() const;
    /// "/api/v1/namespaces/NS/pods" or "/apis/apps/v1/deployments"; name appended when given. All parts are
    /// percent-encoded.
    std::string path(std::string_view name_space = {}, std::string_view name = {},
                     std::string_view subresource = {}) const;
    bool has_verb(std::string_view verb) const;
    friend bool operator==(const api_resource& a, const api_resource& b) {
        return a.group == b.group && a.version == b.version && a.plural == b.plural;
    }
};

} // namespace informer
