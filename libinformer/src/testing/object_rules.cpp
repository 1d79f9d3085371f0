#include "object_rules.hpp"

#include "json_tools.hpp"
#include "object/label_syntax.hpp"
#include "refusal.hpp"
#include "root/ascii.hpp"
#include "root/base64.hpp"
#include "root/utf8.hpp"

#include <informer/object/rfc3339.hpp>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>

#include <algorithm>

namespace informer::testing::detail {

using informer::detail::lower;

namespace json = boost::json;

namespace {

void expect(bool ok, std::string_view field, std::string_view what) {
    if (!ok)
        throw bad_request("the object cannot be read: metadata." + std::string(field) + " must be " +
                          std::string(what));
}

void expect_string_map(const json::object& metadata, std::string_view field) {
    const auto* v = metadata.if_contains(field);
    if (v == nullptr || v->is_null()) return;
    expect(v->is_object(), field, "a map of strings");
    for (const auto& [key, text] : v->get_object()) expect(text.is_string(), field, "a map of strings");
}

constexpr const char* name_rule = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start "
                                  "and end with an alphanumeric character";

[[noreturn]] void invalid_field(const resource_type& type, std::string_view name, std::string field,
                                std::string message) {
    throw invalid(type, name, one_cause("FieldValueInvalid", std::move(field), std::move(message)));
}

const json::object& metadata_of(const json::object& o) {
    static const json::object none;
    const auto* m = find_at(o, {"metadata"});
    return m != nullptr && m->is_object() ? m->get_object() : none;
}

void check_labels(const resource_type& type, std::string_view name, const json::object& metadata) {
    const auto* labels = metadata.if_contains("labels");
    if (labels == nullptr || !labels->is_object()) return;
    for (const auto& [key, v] : labels->get_object()) {
        const std::string_view value = v.get_string();
        std::string why;
        if (!informer::detail::is_label_key(key)) {
            why = "\"" + std::string(key) + "\": " + name_rule;
        } else if (value.size() > 63) {
            why = "\"" + std::string(value) + "\": must be no more than 63 characters";
        } else if (!informer::detail::is_label_value(value)) {
            why = "\"" + std::string(value) +
                  "\": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', "
                  "and must start and end with an alphanumeric character";
        }
        if (!why.empty()) invalid_field(type, name, "metadata.labels", "Invalid value: " + why);
    }
}

void check_annotations(const resource_type& type, std::string_view name, const json::object& metadata) {
    const auto* annotations = metadata.if_contains("annotations");
    if (annotations == nullptr || !annotations->is_object()) return;
    constexpr std::size_t most = 256 << 10;
    std::size_t size = 0;
    for (const auto& [key, v] : annotations->get_object()) {
        if (!informer::detail::is_label_key(lower(key))) { // annotation keys may have upper case
            invalid_field(type, name, "metadata.annotations",
                          "Invalid value: \"" + std::string(key) + "\": " + name_rule);
        }
        size += key.size() + v.get_string().size();
    }
    if (size <= most) return;
    throw invalid(type, name,
                  one_cause("FieldValueTooLong", "metadata.annotations",
                            "Too long: may not be more than " + std::to_string(most) + " bytes"));
}

void check_finalizers(const resource_type& type, std::string_view name, const json::object& metadata) {
    const auto* all = metadata.if_contains("finalizers");
    if (all == nullptr || !all->is_array()) return;
    bool orphans = false, foreground = false;
    std::size_t at = 0;
    for (const auto& f : all->get_array()) {
        const std::string_view text = f.get_string();
        const std::string quoted = "Invalid value: \"" + std::string(text) + "\": ";
        if (!informer::detail::is_label_key(text)) invalid_field(type, name, "metadata.finalizers", quoted + name_rule);
        orphans = orphans || text == "orphan";
        foreground = foreground || text == "foregroundDeletion";
        const bool known = text == "orphan" || text == "foregroundDeletion" || text == "kubernetes";
        if (!type.free_finalizers && !known && text.find('/') == std::string_view::npos) {
            invalid_field(type, name, "metadata.finalizers[" + std::to_string(at) + "]",
                          quoted + "name is neither a standard finalizer name nor is it fully qualified");
        }
        ++at;
    }
    if (!orphans || !foreground) return;
    invalid_field(type, name, "metadata.finalizers",
                  "Invalid value: " + json::serialize(*all) +
                      ": finalizer orphan and foregroundDeletion cannot be both set");
}

} // namespace

void check_metadata_types(const json::object& object) {
    const auto* m = object.if_contains("metadata");
    if (m == nullptr || m->is_null()) return;
    if (!m->is_object()) throw bad_request("the object cannot be read: metadata must be an object");
    const auto& metadata = m->get_object();
    for (const std::string_view field : {"name", "generateName", "namespace", "uid", "resourceVersion"}) {
        const auto* v = metadata.if_contains(field);
        expect(v == nullptr || v->is_null() || v->is_string(), field, "a string");
    }
    expect_string_map(metadata, "labels");
    expect_string_map(metadata, "annotations");
    if (const auto* v = metadata.if_contains("finalizers"); v != nullptr && !v->is_null()) {
        expect(v->is_array(), "finalizers", "an array of strings");
        for (const auto& e : v->get_array()) expect(e.is_string(), "finalizers", "an array of strings");
    }
    for (const std::string_view field : {"ownerReferences", "managedFields"}) {
        const auto* v = metadata.if_contains(field);
        if (v == nullptr || v->is_null()) continue;
        expect(v->is_array(), field, "an array of objects");
        for (const auto& e : v->get_array()) expect(e.is_object(), field, "an array of objects");
    }
}

void check_name(const resource_type& type, std::string_view name) {
    bool ok = false;
    std::string_view rule;
    if (type.path_names) {
        ok = name != "." && name != ".." && name.find_first_of("/%") == std::string_view::npos;
        rule = "may not be '.' or '..' or contain '/' or '%'";
    } else if (type.label_names) {
        ok = informer::detail::is_dns_label(name);
        rule = "must be a lowercase RFC 1123 label: letters, digits and '-', beginning and ending with a letter or "
               "digit, at most 63 characters";
    } else {
        ok = informer::detail::is_dns_subdomain(name);
        rule = "must be a lowercase RFC 1123 subdomain: letters, digits, '-' and '.', beginning and ending with a "
               "letter or digit, at most 253 characters";
    }
    if (ok) return;
    invalid_field(type, name, "metadata.name", "Invalid value: \"" + std::string(name) + "\": " + std::string(rule));
}

void check_metadata_values(const resource_type& type, std::string_view name, const json::object& object) {
    const auto& metadata = metadata_of(object);
    check_labels(type, name, metadata);
    check_annotations(type, name, metadata);
    check_finalizers(type, name, metadata);
    const auto* all = metadata.if_contains("ownerReferences");
    if (all == nullptr || !all->is_array()) return;
    bool controlled = false;
    for (const auto& one : all->get_array()) {
        const auto& owner = one.get_object();
        for (const std::string_view field : {"apiVersion", "kind", "name", "uid"}) {
            if (!string_at(owner, {field}).empty()) continue;
            invalid_field(type, name, "metadata.ownerReferences." + std::string(field),
                          "Invalid value: \"\": must not be empty");
        }
        const auto* controls = owner.if_contains("controller");
        if (controls == nullptr || !controls->is_bool() || !controls->get_bool()) continue;
        if (controlled) {
            invalid_field(type, name, "metadata.ownerReferences",
                          "Invalid value: Only one reference can have Controller set to true");
        }
        controlled = true;
    }
}

void take_string_data(json::object& secret) {
    const auto* given = secret.if_contains("stringData");
    if (given == nullptr) return;
    const auto strings = given->is_object() ? given->get_object() : json::object();
    secret.erase("stringData");
    if (strings.empty()) return;
    auto& data = object_at(secret, "data");
    for (const auto& [key, v] : strings) {
        if (!v.is_string()) {
            throw bad_request("Secret in version \"v1\" cannot be handled as a Secret: stringData." + std::string(key) +
                              " is no string");
        }
        data[key] = informer::detail::base64_encode(std::string_view(v.get_string()));
    }
}

void check_lease_times(const resource_type& type, const json::object& object) {
    if (type.api.group != "coordination.k8s.io" || type.api.plural != "leases") return;
    const auto* spec = object.if_contains("spec");
    if (spec == nullptr || !spec->is_object()) return;
    for (const std::string_view field : {"acquireTime", "renewTime"}) {
        const auto* v = spec->get_object().if_contains(field);
        if (v == nullptr || v->is_null()) continue;
        const std::string_view text = v->is_string() ? std::string_view(v->get_string()) : std::string_view();
        const auto point = text.find('.');
        const auto zone = text.find_first_not_of("0123456789", point + 1);
        if (point != text.npos && zone == point + 7 && parse_rfc3339(text)) continue;
        throw bad_request("Lease in version \"v1\" cannot be handled as a Lease: spec." + std::string(field) +
                          " is no time with microseconds");
    }
}

void drop_empty_data(const resource_type& type, json::object& object) {
    if (!type.is_secret() && !(type.api.group.empty() && type.api.plural == "configmaps")) return;
    for (const std::string_view key : {"data", "binaryData"}) {
        const auto* v = object.if_contains(key);
        const bool empty = v != nullptr && (v->is_null() || (v->is_object() && v->get_object().empty()));
        if (empty) object.stable_erase(key);
    }
}

void tidy_metadata(json::object& object) {
    static constexpr std::string_view order[] = {"name",
                                                 "generateName",
                                                 "namespace",
                                                 "uid",
                                                 "resourceVersion",
                                                 "generation",
                                                 "creationTimestamp",
                                                 "deletionTimestamp",
                                                 "deletionGracePeriodSeconds",
                                                 "labels",
                                                 "annotations",
                                                 "ownerReferences",
                                                 "finalizers",
                                                 "managedFields"};
    auto& metadata = object_at(object, "metadata");
    json::object tidy;
    for (const auto key : order) {
        const auto it = metadata.find(key);
        if (it == metadata.end()) continue;
        const auto& v = it->value();
        const bool empty = v.is_null() || (v.is_array() && v.get_array().empty()) ||
                           (v.is_object() && v.get_object().empty()) || (v.is_string() && v.get_string().empty());
        if (!empty) tidy[key] = std::move(it->value());
    }
    metadata = std::move(tidy);
}

void add_finalizer(json::object& object, std::string_view finalizer) {
    auto& all = object_at(object, "metadata")["finalizers"];
    if (!all.is_array()) all.emplace_array();
    all.get_array().emplace_back(finalizer);
}

void remove_finalizer(json::object& object, std::string_view finalizer) {
    json::array rest;
    auto& metadata = object_at(object, "metadata");
    if (const auto* all = metadata.if_contains("finalizers"); all != nullptr && all->is_array()) {
        for (const auto& f : all->get_array()) {
            if (f != json::value(finalizer)) rest.push_back(f);
        }
    }
    metadata["finalizers"] = std::move(rest);
}

std::vector<std::string> selectable_values(const table& of, const json::object& object) {
    std::vector<std::string> values;
    for (const auto& f : of.selectable) {
        const auto* v = find_at(object, f.path);
        auto text = v == nullptr ? std::string() : scalar_text(*v);
        values.push_back(text.empty() ? f.absent : std::move(text));
    }
    return values;
}

stored render(const resource_type& type, json::object& object, std::uint64_t version) {
    auto& metadata = object_at(object, "metadata");
    metadata["resourceVersion"] = std::to_string(version);
    tidy_metadata(object);
    auto o = std::make_shared<stored_object>();
    o->version = version;
    o->name = string_at(object, {"metadata", "name"});
    o->name_space = string_at(object, {"metadata", "namespace"});
    o->uid = string_at(object, {"metadata", "uid"});
    const auto& tidied = metadata_of(object);
    o->terminating = tidied.contains("deletionTimestamp");
    o->has_finalizers = tidied.contains("finalizers");
    if (const auto* labels = tidied.if_contains("labels"); labels != nullptr && labels->is_object()) {
        for (const auto& [k, v] : labels->get_object()) o->labels.emplace_back(std::string(k), scalar_text(v));
    }
    o->fields = selectable_values(*type.rows, object);
    std::string& text = o->text;
    text = "\"metadata\":";
    text += json::serialize(tidied);
    for (const auto& [key, v] : object) {
        if (key == "metadata" || key == "kind" || key == "apiVersion") continue;
        text += ',';
        text += json::serialize(json::string_view(key));
        text += ':';
        append_json(text, v);
    }
    text += '}';
    if (informer::detail::utf8_end(text) != text.size()) { // it could not be read back
        throw bad_request("the object provided cannot be stored: it is no UTF-8");
    }
    text.shrink_to_fit();
    // In tidied metadata only plain strings come before resourceVersion, so the first hit is the right one.
    static constexpr std::string_view member = "\"resourceVersion\":\"";
    o->version_at = text.find(member) + member.size();
    return o;
}

stored render_dry(const resource_type& type, json::object& object) {
    auto o = std::make_shared<stored_object>(*render(type, object, 0));
    constexpr std::string_view member = ",\"resourceVersion\":\"0\""; // never the first member: that is the name
    o->text.erase(o->text.find(member), member.size());
    return o;
}

json::object tree(const resource_type& type, const stored_object& o) {
    return parse_body(type.head() + o.text);
}

bool same_but_bookkeeping(const json::object& a, const json::object& b) {
    const auto rest = [](const json::object& o) {
        auto m = metadata_of(o);
        m.erase("managedFields");
        m.erase("resourceVersion");
        return m;
    };
    const auto without_metadata = [](const json::object& x, const json::object& y) {
        for (const auto& [key, v] : x) {
            if (key == "metadata" || key == "kind" || key == "apiVersion") continue;
            const auto* other = y.if_contains(key);
            if (other == nullptr || *other != v) return false;
        }
        return true;
    };
    return without_metadata(a, b) && without_metadata(b, a) && rest(a) == rest(b);
}

bool specification_differs(const resource_type& type, const json::object& a, const json::object& b) {
    const auto one_way = [&type](const json::object& x, const json::object& y) {
        for (const auto& [key, v] : x) {
            if (key == "metadata" || key == "kind" || key == "apiVersion" || (type.status && key == "status")) continue;
            const auto* other = y.if_contains(key);
            if (other == nullptr || *other != v) return true;
        }
        return false;
    };
    // The generation of a PriorityClass stays at 1.
    if (type.api.group == "scheduling.k8s.io" && type.api.plural == "priorityclasses") return false;
    if (one_way(a, b) || one_way(b, a)) return true;
    const auto member_differs = [&](std::string_view key) {
        const auto* x = find_at(a, {"metadata", key});
        const auto* y = find_at(b, {"metadata", key});
        return (x == nullptr ? json::value() : *x) != (y == nullptr ? json::value() : *y);
    };
    if (type.api.group == "apps" && type.api.plural == "deployments") return member_differs("annotations");
    if (type.api.group == "discovery.k8s.io" && type.api.plural == "endpointslices") return member_differs("labels");
    return false;
}

} // namespace informer::testing::detail
