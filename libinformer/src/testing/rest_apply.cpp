// Server-side apply.
#include "rest_api.hpp"

#include "field_merge.hpp"
#include "json_tools.hpp"
#include "managed_fields.hpp"
#include "object_rules.hpp"
#include "refusal.hpp"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

namespace informer::testing::detail {

namespace json = boost::json;

namespace {

json::array managed_fields_of(const json::object& o) {
    const auto* entries = find_at(o, {"metadata", "managedFields"});
    return entries != nullptr && entries->is_array() ? entries->get_array() : json::array();
}

/// One member of a configuration, with the metadata that identifies the object: a subresource takes nothing else.
json::object part_of(const json::object& whole, std::string_view member, const json::value* v) {
    json::object o, metadata;
    for (const std::string_view key : {"name", "namespace", "uid", "resourceVersion"}) {
        if (const auto* id = find_at(whole, {"metadata", key})) metadata[key] = *id;
    }
    o["metadata"] = std::move(metadata);
    if (v != nullptr) o[member] = *v;
    return o;
}

json::object configuration_of(json::object whole, const resource_type& type, const std::string& subresource) {
    if (subresource == "status") return part_of(whole, "status", whole.if_contains("status"));
    if (subresource == "scale") { // the replicas of the Scale, as a field of the scaled object
        auto part = part_of(whole, "spec", nullptr);
        if (const auto* replicas = find_at(whole, {"spec", "replicas"})) set_at(part, type.scale_wanted, *replicas);
        return part;
    }
    if (type.status) whole.erase("status");
    return whole;
}

} // namespace

stored rest_api::apply(const target& t, std::string_view body, const write_by& by, bool& created) {
    json::object configuration = parse_body(body);
    const bool scale = t.subresource == "scale";
    if (string_at(configuration, {"apiVersion"}).empty() || string_at(configuration, {"kind"}).empty()) {
        throw bad_request("the object provided is unrecognized: kind or apiVersion is missing");
    }
    if (!scale) check_body_identity(t, configuration);
    if (const auto name = string_at(configuration, {"metadata", "name"}); !name.empty() && name != t.name) {
        throw bad_request("the name of the object (" + name + ") does not match the name on the URL (" + t.name + ")");
    }
    if (const auto* managed = find_at(configuration, {"metadata", "managedFields"});
        managed != nullptr && !managed->is_null()) {
        throw bad_request("metadata.managedFields must be nil"); // even if empty
    }
    configuration = configuration_of(std::move(configuration), *t.type, t.subresource);

    const auto old = t.type->rows->find(t.key());
    if (!old && !t.subresource.empty()) throw not_found(*t.type, t.name);
    const auto version = string_at(configuration, {"metadata", "resourceVersion"});
    if (!version.empty()) parse_version(version);
    const auto uid = string_at(configuration, {"metadata", "uid"});
    if (!old && !uid.empty()) { // the client means that very object, not a new one
        throw conflict(*t.type, t.name,
                       "uid mismatch: the provided object specified uid " + uid + ", and no existing object was found");
    }
    if (const auto twice = duplicate_entry(configuration, t.type->custom); !twice.empty()) {
        throw refused(500, "",
                      "failed to create typed patch object (" + string_at(configuration, {"metadata", "namespace"}) +
                          "/" + t.name + "; " + t.type->api.group + "/" + t.type->api.version +
                          ", Kind=" + t.type->api.kind + "): " + twice);
    }
    json::object live;
    if (old) live = tree(*t.type, *old);
    auto entries = managed_fields_of(live);
    if (old && entries.empty()) { // what nobody manages must not be overwritten unasked
        auto unknown = manager(t, by, "Update");
        unknown.name = "before-first-apply";
        const auto part = configuration_of(live, *t.type, t.subresource);
        entries = managed_after_update({}, unknown, nullptr, part, t.type->custom);
    }
    auto result = apply_configuration(entries, manager(t, by, "Apply"), live, configuration, by.force, t.type->custom);
    write_by as_applied = by;
    as_applied.patch = true;
    as_applied.managed = std::make_shared<const json::array>(std::move(result.entries));
    auto& metadata = object_at(result.object, "metadata");
    created = !old;
    if (created) {
        metadata.erase("resourceVersion"); // ignored on creation
        metadata["name"] = t.name;
        return create(t, std::move(result.object), as_applied);
    }
    if (version.empty()) metadata["resourceVersion"] = std::to_string(old->version);
    target where = t;
    if (scale) where.subresource.clear();
    return update(where, std::move(result.object), as_applied);
}

} // namespace informer::testing::detail
