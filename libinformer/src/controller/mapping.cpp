#include <informer/controller/mapping.hpp>

#include <string>
#include <string_view>
#include <utility>

namespace informer::mapping {

namespace {

/// "apps" of "apps/v1", nothing of "v1".
bool of_group(std::string_view api_version, std::string_view group) {
    const auto slash = api_version.find('/');
    return (slash == std::string_view::npos ? std::string_view() : api_version.substr(0, slash)) == group;
}

} // namespace

map_function to_self() {
    return [](const object& o) { return std::vector<object_key>{o.key()}; };
}

map_function to_owner(api_resource owner, owner_kind which) {
    return [owner = std::move(owner), which](const object& o) {
        std::vector<object_key> keys;
        const object_meta meta = o.meta();
        const value references = meta.owner_references();
        if (!references.is_array()) return keys;
        for (const value reference : references) {
            if (which == owner_kind::controller && !reference["controller"].bool_or(false)) continue;
            if (reference["kind"].string_or_empty() != owner.kind) continue;
            if (!of_group(reference["apiVersion"].string_or_empty().str(), owner.group)) continue;
            keys.emplace_back(owner.namespaced ? meta.name_space().str() : std::string(),
                              reference["name"].string_or_empty().str());
        }
        return keys;
    };
}

} // namespace informer::mapping
