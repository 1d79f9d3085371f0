#include <informer/controller/mapping.hpp>

#include "object/group_version.hpp"

#include <informer/error.hpp>

#include <string>
#include <utility>

namespace informer::mapping {

map_function to_self() {
    return [](const object& o) { return std::vector<object_key>{o.key()}; };
}

map_function to_owner(api_resource owner, owner_kind which) {
    if (owner.kind.empty())
        throw error(errc::bad_configuration, "map to owners that are " + owner.group_resource() +
                                                 ", whose kind is not said: references name it");
    return [owner = std::move(owner), which](const object& o) {
        std::vector<object_key> keys;
        const object_meta meta = o.meta();
        const value references = meta.owner_references();
        if (!references.is_array()) return keys;
        for (const value reference : references) {
            if (which == owner_kind::controller && !reference["controller"].bool_or(false)) continue;
            if (reference["kind"].string_or_empty() != owner.kind) continue;
            const text api_version = reference["apiVersion"].string_or_empty();
            if (detail::group_version(api_version.view()).group != owner.group) continue;
            keys.emplace_back(owner.namespaced ? meta.name_space().str() : std::string(),
                              reference["name"].string_or_empty().str());
        }
        return keys;
    };
}

} // namespace informer::mapping
