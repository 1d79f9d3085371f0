#include "resource_types.hpp"

#include "definition_names.hpp"
#include "json_tools.hpp"
#include "refusal.hpp"
#include "root/ascii.hpp"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>

#include <algorithm>
#include <cctype>
#include <cstdlib>

namespace informer::testing::detail {

using informer::detail::lower;

namespace json = boost::json;

namespace {

enum trait : unsigned {
    none = 0,
    with_status = 1,
    with_scale = 2,
    with_generation = 4,
    cluster = 8,
    in_all = 16,
    gives_deleted = 32,
    path_named = 64,
    label_named = 128,
    wants_version = 256,
    put_creates = 512,
    free_finalizers = 1024,
    rbac = path_named | put_creates,
    workload = with_status | with_generation | in_all,
};

struct built_in_row {
    const char *group, *version, *plural, *kind, *short_names; ///< short names separated by spaces
    unsigned traits;
    /// Selectable fields separated by spaces: "label", "label:path" if the path differs from the label, "label=zero" if
    /// Go's zero value is not the empty string.
    const char* fields;
};

const char* const event_fields = "involvedObject.kind involvedObject.namespace involvedObject.name involvedObject.uid "
                                 "involvedObject.apiVersion involvedObject.resourceVersion involvedObject.fieldPath "
                                 "reason reportingComponent source:source.component type";
const char* const new_event_fields = "regarding.kind regarding.namespace regarding.name regarding.uid "
                                     "regarding.apiVersion regarding.resourceVersion regarding.fieldPath "
                                     "reason reportingController type";
const char* const pod_fields = "spec.nodeName spec.restartPolicy spec.schedulerName spec.serviceAccountName "
                               "spec.hostNetwork=false status.phase status.podIP status.nominatedNodeName";

const built_in_row rows[] = {
    {"", "v1", "configmaps", "ConfigMap", "cm", none, ""},
    {"", "v1", "endpoints", "Endpoints", "ep", put_creates, ""},
    {"", "v1", "events", "Event", "ev", put_creates | free_finalizers, event_fields},
    {"", "v1", "limitranges", "LimitRange", "limits", put_creates, ""},
    {"", "v1", "namespaces", "Namespace", "ns", with_status | cluster | gives_deleted | label_named, "status.phase"},
    {"", "v1", "nodes", "Node", "no", with_status | cluster, "spec.unschedulable=false"},
    {"", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", "pvc", with_status | gives_deleted, ""},
    {"", "v1", "persistentvolumes", "PersistentVolume", "pv", with_status | cluster | gives_deleted, ""},
    {"", "v1", "pods", "Pod", "po", with_status | with_generation | in_all | gives_deleted, pod_fields},
    {"", "v1", "podtemplates", "PodTemplate", "", with_generation | gives_deleted, ""},
    {"", "v1", "replicationcontrollers", "ReplicationController", "rc", workload | with_scale, "status.replicas=0"},
    {"", "v1", "resourcequotas", "ResourceQuota", "quota", with_status | gives_deleted, ""},
    {"", "v1", "secrets", "Secret", "", none, "type"},
    {"", "v1", "serviceaccounts", "ServiceAccount", "sa", gives_deleted, ""},
    {"", "v1", "services", "Service", "svc", with_status | in_all | gives_deleted | label_named | put_creates,
     "spec.clusterIP spec.type"},
    {"apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", "crd crds",
     with_status | with_generation | cluster | wants_version | free_finalizers, ""},
    {"apps", "v1", "controllerrevisions", "ControllerRevision", "", none, ""},
    {"apps", "v1", "daemonsets", "DaemonSet", "ds", workload, ""},
    {"apps", "v1", "deployments", "Deployment", "deploy", workload | with_scale, ""},
    {"apps", "v1", "replicasets", "ReplicaSet", "rs", workload | with_scale, "status.replicas=0"},
    {"apps", "v1", "statefulsets", "StatefulSet", "sts", workload | with_scale, ""},
    {"events.k8s.io", "v1", "events", "Event", "ev", put_creates, new_event_fields},
    {"autoscaling", "v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler", "hpa", with_status | in_all, ""},
    {"batch", "v1", "cronjobs", "CronJob", "cj", workload, ""},
    {"batch", "v1", "jobs", "Job", "", workload, "status.successful:status.succeeded=0"},
    {"networking.k8s.io", "v1", "ingresses", "Ingress", "ing", with_status | with_generation, ""},
    {"networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy", "netpol", with_generation, ""},
    {"policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", "pdb",
     with_status | with_generation | wants_version | free_finalizers, ""},
    {"rbac.authorization.k8s.io", "v1", "clusterrolebindings", "ClusterRoleBinding", "", cluster | rbac, ""},
    {"rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", "", cluster | rbac, ""},
    {"rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding", "", rbac, ""},
    {"rbac.authorization.k8s.io", "v1", "roles", "Role", "", rbac, ""},
    {"storage.k8s.io", "v1", "storageclasses", "StorageClass", "sc", cluster, ""},
    {"scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", "pc", cluster | with_generation, ""},
    {"coordination.k8s.io", "v1", "leases", "Lease", "", wants_version | put_creates | free_finalizers, ""},
    {"discovery.k8s.io", "v1", "endpointslices", "EndpointSlice", "", with_generation, ""},
};

std::vector<std::string> split(std::string_view s, char separator) {
    std::vector<std::string> out;
    while (!s.empty()) {
        const auto at = s.find(separator);
        if (at != 0) out.emplace_back(s.substr(0, at));
        if (at == std::string_view::npos) break;
        s.remove_prefix(at + 1);
    }
    return out;
}

std::vector<std::string> all_verbs() {
    return {"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"};
}

selectable_field field_at(std::string label) {
    selectable_field f;
    f.path = split(label, '.');
    f.label = std::move(label);
    return f;
}

selectable_field field_of_row(std::string_view text) {
    const auto zero = text.find('=');
    const auto label_and_path = text.substr(0, zero);
    const auto colon = label_and_path.find(':');
    auto f = field_at(std::string(label_and_path.substr(0, colon)));
    if (colon != std::string_view::npos) f.path = split(label_and_path.substr(colon + 1), '.');
    if (zero != std::string_view::npos) f.absent = text.substr(zero + 1);
    return f;
}

type_ptr make_built_in(const built_in_row& row) {
    const auto has = [&row](unsigned t) { return (row.traits & t) != 0; };
    auto t = std::make_shared<resource_type>();
    t->api = api_resource(row.group, row.version, row.plural, row.kind, !has(cluster));
    t->api.singular = lower(row.kind);
    t->api.short_names = split(row.short_names, ' ');
    if (has(in_all)) t->api.categories.emplace_back("all");
    t->api.verbs = all_verbs();
    if (t->is_namespace()) std::erase(t->api.verbs, "deletecollection");
    t->list_kind = std::string(row.kind) + "List";
    t->status = has(with_status);
    t->scale = has(with_scale);
    t->generation = has(with_generation);
    t->returns_deleted = has(gives_deleted);
    t->path_names = has(path_named);
    t->label_names = has(label_named);
    t->wants_version = has(wants_version);
    t->put_creates = has(put_creates);
    t->free_finalizers = has(free_finalizers);
    if (t->api.plural == "replicationcontrollers") t->scale_selector = {"spec", "selector"};
    t->rows = std::make_shared<table>();
    for (const auto& text : split(row.fields, ' ')) t->rows->selectable.push_back(field_of_row(text));
    return t;
}

/// Kubernetes' order of version names: GA before beta before alpha, newer before older, other names last.
std::tuple<int, long, long, std::string> version_rank(std::string_view v) {
    std::string s(v);
    if (s.size() < 2 || s[0] != 'v' || std::isdigit(static_cast<unsigned char>(s[1])) == 0) return {3, 0, 0, s};
    char* rest = nullptr;
    const long major = std::strtol(s.c_str() + 1, &rest, 10);
    const std::string_view tail(rest);
    if (tail.empty()) return {0, -major, 0, {}};
    if (tail.starts_with("beta")) return {1, -major, -std::strtol(rest + 4, nullptr, 10), {}};
    if (tail.starts_with("alpha")) return {2, -major, -std::strtol(rest + 5, nullptr, 10), {}};
    return {3, 0, 0, s};
}

} // namespace

std::string resource_type::head() const {
    return R"({"kind":")" + api.kind + R"(","apiVersion":")" + api_version() + R"(",)";
}

type_registry type_registry::built_in() {
    type_registry r;
    for (const auto& row : rows) r.add(make_built_in(row));
    return r;
}

type_ptr type_registry::find(std::string_view group, std::string_view version, std::string_view plural) const {
    for (const auto& t : types_) {
        if (t->api.plural == plural && t->api.group == group && t->api.version == version) return t;
    }
    return nullptr;
}

type_ptr type_registry::find(std::string_view group_resource) const {
    const auto dot = group_resource.find('.');
    const auto plural = group_resource.substr(0, dot);
    const auto group = dot == std::string_view::npos ? std::string_view() : group_resource.substr(dot + 1);
    type_ptr best;
    for (const auto& t : types_) {
        if (t->api.plural != plural || t->api.group != group) continue;
        if (!best || version_rank(t->api.version) < version_rank(best->api.version)) best = t;
    }
    return best;
}

type_ptr type_registry::find_kind(std::string_view group, std::string_view version, std::string_view kind) const {
    for (const auto& t : types_) {
        if (t->api.kind == kind && t->api.group == group && t->api.version == version) return t;
    }
    return nullptr;
}

bool type_registry::has_built_in(std::string_view group, std::string_view version) const {
    return std::any_of(types_.begin(), types_.end(), [&](const type_ptr& t) {
        return !t->custom && t->api.group == group && t->api.version == version;
    });
}

std::vector<std::string> type_registry::groups() const {
    std::vector<std::string> out;
    for (const auto& t : types_) {
        if (!t->api.group.empty() && std::find(out.begin(), out.end(), t->api.group) == out.end()) {
            out.push_back(t->api.group);
        }
    }
    return out;
}

std::vector<std::string> type_registry::versions(std::string_view group) const {
    std::vector<std::string> out;
    for (const auto& t : types_) {
        if (t->api.group == group && std::find(out.begin(), out.end(), t->api.version) == out.end()) {
            out.push_back(t->api.version);
        }
    }
    std::sort(out.begin(), out.end(),
              [](const std::string& a, const std::string& b) { return version_rank(a) < version_rank(b); });
    return out;
}

void type_registry::add(type_ptr t) {
    const auto same = [&t](const type_ptr& other) { return other->rows == t->rows; };
    if (std::none_of(resources_.begin(), resources_.end(), same)) resources_.push_back(t);
    if (t->served) types_.push_back(std::move(t));
}

void type_registry::remove(std::string_view group, std::string_view plural) {
    const auto of_it = [&](const type_ptr& t) { return t->api.group == group && t->api.plural == plural; };
    std::erase_if(types_, of_it);
    std::erase_if(resources_, of_it);
}

namespace {

[[noreturn]] void bad_definition(const json::object& definition, std::string field, std::string message) {
    throw invalid("apiextensions.k8s.io", "CustomResourceDefinition", string_at(definition, {"metadata", "name"}),
                  one_cause("FieldValueInvalid", std::move(field), std::move(message)));
}

/// A definition in one of Kubernetes' own groups needs an annotation with the URL of its approval, or with a reason
/// that begins with "unapproved".
void check_approval(const json::object& definition, std::string_view group) {
    const auto within = [group](std::string_view domain) {
        return group == domain || (group.ends_with(domain) && group[group.size() - domain.size() - 1] == '.');
    };
    if (!within("k8s.io") && !within("kubernetes.io")) return;
    const std::string field = "metadata.annotations[api-approved.kubernetes.io]";
    const auto word = string_at(definition, {"metadata", "annotations", "api-approved.kubernetes.io"});
    if (word.empty()) {
        bad_definition(definition, field,
                       "Required value: protected groups must have approval annotation \"api-approved.kubernetes.io\", "
                       "see https://github.com/kubernetes/enhancements/pull/1111");
    }
    if (!word.starts_with("unapproved") && word.find("://") == std::string::npos) {
        bad_definition(definition, field,
                       "Invalid value: protected groups must have approval annotation "
                       "\"api-approved.kubernetes.io\" with either a URL or a reason starting with "
                       "\"unapproved\"");
    }
}

std::vector<std::string> strings_of(const json::value* v) {
    std::vector<std::string> out;
    if (v == nullptr || !v->is_array()) return out;
    for (const auto& e : v->get_array()) {
        if (e.is_string()) out.emplace_back(std::string_view(e.get_string()));
    }
    return out;
}

/// The accepted names of a definition; before there are any, the names in its spec.
const json::object& names_of(const json::object& definition) {
    static const json::object none;
    const auto* names = find_at(definition, {"status", "acceptedNames"});
    if (names == nullptr || !names->is_object()) names = find_at(definition, {"spec", "names"});
    return names != nullptr && names->is_object() ? names->get_object() : none;
}

bool is_storage(const json::value& version) {
    const auto* v = find_at(version.get_object(), {"storage"});
    return v != nullptr && v->is_bool() && v->get_bool();
}

void check_versions(const json::object& definition, const json::array& versions) {
    std::vector<std::string> names;
    for (const auto& v : versions) {
        if (!v.is_object()) bad_definition(definition, "spec.versions", "Invalid value: must be objects");
        names.push_back(string_at(v.get_object(), {"name"}));
        if (names.back().empty())
            bad_definition(definition, "spec.versions[" + std::to_string(names.size() - 1) + "].name",
                           "Required value");
    }
    std::sort(names.begin(), names.end());
    if (std::adjacent_find(names.begin(), names.end()) != names.end()) {
        bad_definition(definition, "spec.versions", "Invalid value: must contain unique version names");
    }
    if (std::count_if(versions.begin(), versions.end(), is_storage) != 1) {
        bad_definition(definition, "spec.versions",
                       "Invalid value: must have exactly one version marked as storage version");
    }
}

void read_scale(const json::object& definition, const json::object& scale, resource_type& t) {
    const auto path = [&scale](std::string_view name) { return split(string_at(scale, {name}), '.'); };
    t.scale = true;
    t.scale_wanted = path("specReplicasPath");
    t.scale_present = path("statusReplicasPath");
    t.scale_selector = path("labelSelectorPath");
    if (!t.scale_wanted.empty() && !t.scale_present.empty()) return;
    bad_definition(definition, "spec.versions.subresources.scale",
                   "Required value: specReplicasPath and statusReplicasPath");
}

/// Fields are only appended, because stored objects keep their values in this order.
void add_selectable(const json::array& fields, std::vector<selectable_field>& to) {
    for (const auto& f : fields) {
        if (!f.is_object()) continue;
        auto path = string_at(f.get_object(), {"jsonPath"});
        if (path.starts_with('.')) path.erase(0, 1);
        const auto same = [&path](const selectable_field& k) { return k.label == path; };
        if (std::none_of(to.begin(), to.end(), same)) to.push_back(field_at(std::move(path)));
    }
}

} // namespace

void check_definition_change(const json::object& before, const json::object& after) {
    const auto keep = [&](std::string field, std::initializer_list<std::string_view> path) {
        const auto now = string_at(after, path);
        if (now == string_at(before, path)) return;
        bad_definition(after, std::move(field),
                       "Invalid value: " + json::serialize(json::value(now)) + ": field is immutable");
    };
    keep("spec.group", {"spec", "group"});
    keep("spec.names.plural", {"spec", "names", "plural"});
    if (!is_established(before)) return; // no client has seen its resource yet
    keep("spec.scope", {"spec", "scope"});
    keep("spec.names.kind", {"spec", "names", "kind"});
}

std::vector<type_ptr> types_of_definition(const json::object& definition, std::shared_ptr<table> rows_) {
    const auto group = string_at(definition, {"spec", "group"});
    const auto plural = string_at(definition, {"spec", "names", "plural"});
    const auto kind = string_at(definition, {"spec", "names", "kind"});
    const auto scope = string_at(definition, {"spec", "scope"});
    if (group.empty()) bad_definition(definition, "spec.group", "Required value");
    if (plural.empty()) bad_definition(definition, "spec.names.plural", "Required value");
    if (kind.empty()) bad_definition(definition, "spec.names.kind", "Required value");
    if (scope != "Namespaced" && scope != "Cluster") {
        bad_definition(definition, "spec.scope", "Unsupported value: supported values: \"Cluster\", \"Namespaced\"");
    }
    if (string_at(definition, {"metadata", "name"}) != plural + "." + group) {
        bad_definition(definition, "metadata.name", "Invalid value: must be spec.names.plural+\".\"+spec.group");
    }
    check_approval(definition, group);
    const auto* versions = find_at(definition, {"spec", "versions"});
    if (versions == nullptr || !versions->is_array() || versions->get_array().empty()) {
        bad_definition(definition, "spec.versions", "Required value");
    }
    check_versions(definition, versions->get_array());
    if (!rows_) rows_ = std::make_shared<table>();
    const auto& names = names_of(definition);
    std::vector<type_ptr> out;
    for (const auto& v : versions->get_array()) {
        const auto& version = v.get_object();
        const auto* served = find_at(version, {"served"});
        auto t = std::make_shared<resource_type>();
        t->api = api_resource(group, string_at(version, {"name"}), plural, kind, scope == "Namespaced");
        t->api.singular = string_at(names, {"singular"});
        if (t->api.singular.empty()) t->api.singular = lower(kind);
        t->api.short_names = strings_of(find_at(names, {"shortNames"}));
        t->api.categories = strings_of(find_at(names, {"categories"}));
        t->api.verbs = all_verbs();
        t->list_kind = string_at(names, {"listKind"});
        if (t->list_kind.empty()) t->list_kind = kind + "List";
        t->status = find_at(version, {"subresources", "status"}) != nullptr;
        if (const auto* scale = find_at(version, {"subresources", "scale"}); scale != nullptr && scale->is_object()) {
            read_scale(definition, scale->get_object(), *t);
        }
        t->generation = true;
        t->custom = true;
        t->free_finalizers = true;
        t->wants_version = true;
        t->rows = rows_;
        if (const auto* fields = find_at(version, {"selectableFields"}); fields != nullptr && fields->is_array()) {
            add_selectable(fields->get_array(), rows_->selectable);
        }
        t->served = served != nullptr && served->is_bool() && served->get_bool();
        out.push_back(std::move(t));
    }
    return out;
}

} // namespace informer::testing::detail
