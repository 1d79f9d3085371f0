#include "managed_fields.hpp"

#include "json_tools.hpp"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>

namespace informer::testing::detail {

namespace json = boost::json;

namespace {

// Below it everything is one field: nobody reads on, and objects may be a thousand levels deep.
constexpr int deepest = 20;

json::value fields_of(const json::value& v, int depth);

// Lists of objects with a name or a type are maps in all but notation; others are atomic.
std::string item_key(const json::value& item) {
    if (!item.is_object()) return {};
    for (const std::string_view key : {"name", "type", "uid", "ip"}) {
        const auto* k = item.get_object().if_contains(key);
        if (k == nullptr || !k->is_string()) continue;
        json::object o;
        o[key] = *k;
        return "k:" + json::serialize(o);
    }
    return {};
}

json::object fields_of(const json::object& o, int depth) {
    json::object out;
    if (depth > deepest) return out;
    for (const auto& [key, v] : o) out["f:" + std::string(key)] = fields_of(v, depth + 1);
    return out;
}

json::value fields_of(const json::value& v, int depth) {
    if (v.is_object()) return fields_of(v.get_object(), depth);
    json::object out;
    if (!v.is_array() || depth > deepest) return out;
    for (const auto& item : v.get_array()) {
        const auto key = item_key(item);
        if (key.empty()) return json::object();
        auto inside = fields_of(item, depth + 1);
        inside.get_object()["."] = json::object();
        out[key] = std::move(inside);
    }
    return out;
}

void merge(json::object& into, json::object from) {
    for (auto& [key, v] : from) {
        auto& place = into[key];
        if (!place.is_object()) place.emplace_object();
        if (v.is_object()) merge(place.get_object(), std::move(v.get_object()));
    }
}

// Members of `after` that differ from `before`, objects followed inside.
json::object changed(const json::object* before, const json::object& after, int depth) {
    json::object out;
    for (const auto& [key, v] : after) {
        const json::value* old = before == nullptr ? nullptr : before->if_contains(key);
        if (old != nullptr && *old == v) continue;
        if (v.is_object() && depth < deepest) {
            out["f:" + std::string(key)] =
                changed(old == nullptr ? nullptr : old->if_object(), v.get_object(), depth + 1);
        } else {
            out["f:" + std::string(key)] = fields_of(v, depth + 1);
        }
    }
    return out;
}

json::object without_identity(const json::object& o) {
    json::object out;
    for (const auto& [key, v] : o) {
        if (key == "kind" || key == "apiVersion") continue;
        if (key != "metadata" || !v.is_object()) {
            out[key] = v;
            continue;
        }
        json::object metadata;
        for (const auto& [k, m] : v.get_object()) {
            if (k == "labels" || k == "annotations" || k == "ownerReferences" || k == "finalizers" ||
                k == "generateName") {
                metadata[k] = m;
            }
        }
        if (!metadata.empty()) out[key] = std::move(metadata);
    }
    return out;
}

} // namespace

json::array managed_after(const json::array& entries, const field_manager& who, const json::object* before,
                          const json::object& after) {
    json::object set;
    if (before == nullptr) {
        set = fields_of(without_identity(after), 0);
    } else {
        const auto old = without_identity(*before);
        set = changed(&old, without_identity(after), 0);
    }
    json::array out = entries;
    for (auto& e : out) {
        if (!e.is_object()) continue;
        auto& entry = e.get_object();
        if (string_at(entry, {"manager"}) != who.name || string_at(entry, {"operation"}) != who.operation ||
            string_at(entry, {"subresource"}) != who.subresource) {
            continue;
        }
        entry["time"] = who.time;
        entry["apiVersion"] = who.api_version;
        merge(object_at(entry, "fieldsV1"), std::move(set));
        return out;
    }
    if (out.size() >= 10) out.erase(out.begin()); // the real one joins the oldest
    json::object entry;
    entry["manager"] = who.name;
    entry["operation"] = who.operation;
    entry["apiVersion"] = who.api_version;
    entry["time"] = who.time;
    entry["fieldsType"] = "FieldsV1";
    entry["fieldsV1"] = std::move(set);
    if (!who.subresource.empty()) entry["subresource"] = who.subresource;
    out.emplace_back(std::move(entry));
    return out;
}

} // namespace informer::testing::detail
