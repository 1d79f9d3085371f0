#include <informer/controller/mapping.hpp>

#include "object/group_version.hpp"

#include <informer/error.hpp>

#include <string>
#include <utility>

namespace informer {

cluster_key cluster_key::parse(const object_key& k) {
    const auto colon = k.name_space.rfind(':'); // the name of a cluster may contain others
    if (colon == std::string::npos) return {std::string(), k};
    return {k.name_space.substr(0, colon), object_key(k.name_space.substr(colon + 1), k.name)};
}

namespace mapping {

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
        for (const value reference : meta.owner_references()) {
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

map_function of_cluster(std::string cluster, map_function map) {
    if (cluster.empty() || cluster.find('/') != std::string::npos)
        throw error(errc::bad_configuration, "keys of the cluster '" + cluster + "': a name without '/' is needed");
    if (!map) throw error(errc::bad_configuration, "keys of the cluster " + cluster + ": there is no mapping");
    return [before = std::move(cluster) + ':', map = std::move(map)](const object& o) {
        std::vector<object_key> keys = map(o);
        for (object_key& k : keys) k.name_space.insert(0, before);
        return keys;
    };
}

} // namespace mapping
} // namespace informer
