#include "list_rules.hpp"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include <algorithm>

namespace informer::testing::detail {

namespace json = boost::json;

namespace {

constexpr list_rule rules[] = {
    {"containers", "name", {"name"}},
    {"initContainers", "name", {"name"}},
    {"ephemeralContainers", "name", {"name"}},
    {"volumes", "name", {"name"}},
    {"env", "name", {"name"}},
    {"imagePullSecrets", "name", {"name"}},
    {"volumeMounts", "mountPath", {"mountPath"}},
    {"volumeDevices", "devicePath", {"devicePath"}},
    {"hostAliases", "ip", {"ip"}},
    {"conditions", "type", {"type"}},
    {"ownerReferences", "uid", {"uid"}},
    {"taints", "", {}},
    {"addresses", "type", {"type"}},
    {"topologySpreadConstraints", "topologyKey", {"topologyKey", "whenUnsatisfiable"}},
    {"resourceClaims", "name", {"name"}},
    {"schedulingGates", "name", {"name"}},
    {"secrets", "name", {"name"}},
    {"finalizers", "=", {"="}},
    {"podIPs", "ip", {"ip"}},
};
constexpr list_rule container_ports = {"ports", "containerPort", {"containerPort", "protocol"}};
constexpr list_rule service_ports = {"ports", "port", {"port", "protocol"}};

template <std::size_t N>
bool one_of(std::string_view field, const std::string_view (&names)[N]) {
    return std::find(std::begin(names), std::end(names), field) != std::end(names);
}

} // namespace

const list_rule* rule_of_list(std::string_view list, const json::array& items) {
    for (const auto& r : rules) {
        if (r.list == list) return &r;
    }
    if (list != "ports") return nullptr;
    const auto of_container = [](const json::value& v) {
        return v.is_object() && v.get_object().contains("containerPort");
    };
    return std::any_of(items.begin(), items.end(), of_container) ? &container_ports : &service_ports;
}

bool is_atomic_map(std::string_view field) {
    static constexpr std::string_view names[] = {
        "selector",        "nodeSelector",   "labelSelector", "namespaceSelector", "podSelector",      "objectSelector",
        "configMapKeyRef", "secretKeyRef",   "fieldRef",      "resourceFieldRef",  "targetRef",        "involvedObject",
        "claimRef",        "scaleTargetRef", "secretRef",     "configMapRef",      "nodeSelectorTerms"};
    return one_of(field, names);
}

bool is_map(std::string_view field) {
    static constexpr std::string_view names[] = {"labels",     "annotations", "data",     "binaryData",
                                                 "stringData", "limits",      "requests", "matchLabels"};
    return one_of(field, names);
}

} // namespace informer::testing::detail
