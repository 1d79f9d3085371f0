#include "discovery_documents.hpp"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>

namespace informer::testing::detail {

namespace json = boost::json;

namespace {

json::array strings(const std::vector<std::string>& from) {
    json::array out;
    for (const auto& s : from) out.emplace_back(s);
    return out;
}

struct subresource {
    const char* name;
    const char* kind; ///< null: the resource's own
    std::vector<std::string> verbs;
};

std::vector<subresource> subresources_of(const resource_type& t) {
    std::vector<subresource> out;
    if (t.is_namespace()) out.push_back({"finalize", nullptr, {"update"}});
    if (t.scale) out.push_back({"scale", "Scale", {"get", "patch", "update"}});
    if (t.status) out.push_back({"status", nullptr, {"get", "patch", "update"}});
    return out;
}

json::object group_version(std::string_view group, std::string_view version) {
    json::object o;
    o["groupVersion"] = group.empty() ? std::string(version) : std::string(group) + "/" + std::string(version);
    o["version"] = version;
    return o;
}

json::object group_of(const type_registry& types, const std::string& group) {
    json::object o;
    json::array versions;
    for (const auto& v : types.versions(group)) versions.emplace_back(group_version(group, v));
    o["name"] = group;
    o["preferredVersion"] = versions.at(0);
    o["versions"] = std::move(versions);
    return o;
}

json::object resource_of(const resource_type& t) {
    json::object o;
    o["name"] = t.api.plural;
    o["singularName"] = t.api.singular;
    o["namespaced"] = t.api.namespaced;
    o["kind"] = t.api.kind;
    o["verbs"] = strings(t.api.verbs);
    if (!t.api.short_names.empty()) o["shortNames"] = strings(t.api.short_names);
    if (!t.api.categories.empty()) o["categories"] = strings(t.api.categories);
    return o;
}

json::object kind_of(std::string_view group, std::string_view version, std::string_view kind) {
    json::object o;
    o["group"] = group;
    o["version"] = version;
    o["kind"] = kind;
    return o;
}

json::object aggregated_resource(const resource_type& t) {
    json::object o;
    o["resource"] = t.api.plural;
    o["responseKind"] = kind_of(t.api.group, t.api.version, t.api.kind);
    o["scope"] = t.api.namespaced ? "Namespaced" : "Cluster";
    o["singularResource"] = t.api.singular;
    o["verbs"] = strings(t.api.verbs);
    if (!t.api.short_names.empty()) o["shortNames"] = strings(t.api.short_names);
    if (!t.api.categories.empty()) o["categories"] = strings(t.api.categories);
    json::array list;
    for (const auto& s : subresources_of(t)) {
        json::object sub;
        sub["subresource"] = s.name;
        sub["responseKind"] =
            s.kind == nullptr ? kind_of(t.api.group, t.api.version, t.api.kind) : kind_of("autoscaling", "v1", s.kind);
        sub["verbs"] = strings(s.verbs);
        list.emplace_back(std::move(sub));
    }
    if (!list.empty()) o["subresources"] = std::move(list);
    return o;
}

} // namespace

bool accepts_aggregated(std::string_view accept) {
    // Media types are separated by commas; the aggregated one must have all three parameters.
    while (!accept.empty()) {
        const auto end = accept.find(',');
        const auto type = accept.substr(0, end);
        if (type.find("g=apidiscovery.k8s.io") != std::string_view::npos &&
            type.find("v=v2") != std::string_view::npos && type.find("v=v2beta") == std::string_view::npos &&
            type.find("as=APIGroupDiscoveryList") != std::string_view::npos) {
            return true;
        }
        if (end == std::string_view::npos) break;
        accept.remove_prefix(end + 1);
    }
    return false;
}

std::string api_versions_text(std::string_view server_address) {
    json::object range;
    range["clientCIDR"] = "0.0.0.0/0";
    range["serverAddress"] = server_address;
    json::array ranges;
    ranges.emplace_back(std::move(range));
    json::array versions;
    versions.emplace_back("v1");
    json::object o;
    o["kind"] = "APIVersions";
    o["versions"] = std::move(versions);
    o["serverAddressByClientCIDRs"] = std::move(ranges);
    return json::serialize(o);
}

std::string api_group_list_text(const type_registry& types) {
    json::array groups;
    for (const auto& g : types.groups()) groups.emplace_back(group_of(types, g));
    json::object o;
    o["kind"] = "APIGroupList";
    o["apiVersion"] = "v1";
    o["groups"] = std::move(groups);
    return json::serialize(o);
}

std::optional<std::string> api_group_text(const type_registry& types, std::string_view group) {
    const std::string name(group);
    if (types.versions(name).empty()) return std::nullopt;
    json::object o;
    o["kind"] = "APIGroup";
    o["apiVersion"] = "v1";
    for (auto& [key, v] : group_of(types, name)) o[key] = std::move(v);
    return json::serialize(o);
}

std::optional<std::string> api_resource_list_text(const type_registry& types, std::string_view group,
                                                  std::string_view version) {
    json::array resources;
    for (const auto& t : types.all()) {
        if (t->api.group != group || t->api.version != version) continue;
        resources.emplace_back(resource_of(*t));
        for (const auto& s : subresources_of(*t)) {
            json::object o;
            o["name"] = t->api.plural + "/" + s.name;
            o["singularName"] = "";
            o["namespaced"] = t->api.namespaced;
            if (s.kind != nullptr) {
                o["group"] = "autoscaling";
                o["version"] = "v1";
            }
            o["kind"] = s.kind == nullptr ? t->api.kind : std::string(s.kind);
            o["verbs"] = strings(s.verbs);
            resources.emplace_back(std::move(o));
        }
    }
    if (resources.empty()) return std::nullopt;
    json::object o;
    o["kind"] = "APIResourceList";
    o["apiVersion"] = "v1";
    o["groupVersion"] = group_version(group, version).at("groupVersion");
    o["resources"] = std::move(resources);
    return json::serialize(o);
}

std::string aggregated_text(const type_registry& types, bool core) {
    json::array items;
    const auto groups = core ? std::vector<std::string>(1) : types.groups();
    for (const auto& group : groups) {
        json::array versions;
        for (const auto& version : types.versions(group)) {
            json::array resources;
            for (const auto& t : types.all()) {
                if (t->api.group == group && t->api.version == version) resources.emplace_back(aggregated_resource(*t));
            }
            json::object v;
            v["version"] = version;
            v["resources"] = std::move(resources);
            v["freshness"] = "Current";
            versions.emplace_back(std::move(v));
        }
        json::object metadata;
        if (!group.empty()) metadata["name"] = group;
        json::object item;
        item["metadata"] = std::move(metadata);
        item["versions"] = std::move(versions);
        items.emplace_back(std::move(item));
    }
    json::object o;
    o["kind"] = "APIGroupDiscoveryList";
    o["apiVersion"] = "apidiscovery.k8s.io/v2";
    o["metadata"] = json::object();
    o["items"] = std::move(items);
    return json::serialize(o);
}

std::string version_text() {
    json::object o;
    o["major"] = "1";
    o["minor"] = "36";
    o["gitVersion"] = "v1.36.0-libinformer";
    o["gitCommit"] = "";
    o["gitTreeState"] = "clean";
    o["buildDate"] = "1970-01-01T00:00:00Z";
    o["goVersion"] = "none";
    o["compiler"] = "gcc";
    o["platform"] = "linux/amd64";
    return json::serialize(o);
}

} // namespace informer::testing::detail
