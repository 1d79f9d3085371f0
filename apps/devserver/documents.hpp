// The objects of a believable cluster, as JSON.
#pragma once

#include <boost/json/array.hpp>
#include <boost/json/value.hpp>

#include <cstdint>
#include <string>
#include <string_view>

namespace devserver {

namespace json = boost::json;

struct workload {
    std::string name_space, name, image, version;
    std::int64_t port = 8080, replicas = 1;
    bool sidecar = false;

    std::string full_image() const { return image + ":" + version; }
};

struct owner {
    std::string api_version, kind, name, uid;
};

json::value namespace_document(std::string_view name);
json::value node_document(std::string_view name, int number, const std::string& now);
json::value node_condition_patch(bool ready, int number, const std::string& now);
json::value lease_document(std::string_view node, const std::string& now);
json::value deployment_document(const workload& w, const std::string& now);
json::value replica_set_document(const workload& w, std::string_view hash, std::int64_t revision, const owner& by);
json::value service_document(const workload& w, int number);
json::value config_document(const workload& w);
/// A pending pod on no node.
json::value pod_document(const workload& w, std::string_view hash, std::string_view name, const owner& by,
                         const std::string& now);

// Patches for the stages of a pod's life. `conditions` are those of the pod; each stage updates them.
json::value pod_scheduled(std::string_view node, json::array& conditions, const std::string& now);
json::value pod_creating(const workload& w, std::string_view host_ip, json::array& conditions, const std::string& now);
json::value pod_running(const workload& w, std::string_view host_ip, std::string_view pod_ip, std::int64_t restarts,
                        json::array& conditions, const std::string& now);
json::value pod_crashed(const workload& w, std::string_view host_ip, std::string_view pod_ip, std::int64_t restarts,
                        json::array& conditions, const std::string& now);
json::value pod_lost(json::array& conditions, const std::string& now);

json::value event_document(const json::value& about, std::string_view name, std::string_view type,
                           std::string_view reason, std::string_view message, std::string_view component,
                           const std::string& now);

} // namespace devserver
