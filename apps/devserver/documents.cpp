#include "documents.hpp"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>

#include <fmt/format.h>

#include <initializer_list>
#include <utility>

namespace devserver {

namespace {

/// Puts values in the place of `@name@` marks in a JSON text. The values are plain text without quotes or backslashes.
json::value filled(std::string text, std::initializer_list<std::pair<std::string_view, std::string>> values) {
    for (const auto& [name, value] : values) {
        const auto mark = fmt::format("@{}@", name);
        for (auto at = text.find(mark); at != std::string::npos; at = text.find(mark, at + value.size())) {
            text.replace(at, mark.size(), value);
        }
    }
    return json::parse(text);
}

// Identifiers that look like digests, the same for the same text.
std::string digest(std::string_view of) {
    std::string out;
    std::uint64_t h = 1469598103934665603U; // FNV-1a
    for (int part = 0; part < 4; ++part) {
        for (const char c : of) h = (h ^ static_cast<unsigned char>(c)) * 1099511628211U;
        out += fmt::format("{:016x}", h);
    }
    return out;
}

/// `pod`: a text that no other pod has; empty before the container has started.
json::value container_status(std::string_view pod, std::string_view name, const std::string& image, json::value state,
                             json::value last_state, bool ready, std::int64_t restarts) {
    const bool has_started = !pod.empty();
    json::object o;
    o["name"] = name;
    o["state"] = std::move(state);
    o["lastState"] = std::move(last_state);
    o["ready"] = ready;
    o["started"] = has_started;
    o["restartCount"] = restarts;
    o["image"] = image;
    o["imageID"] = "";
    if (has_started) {
        o["imageID"] = fmt::format("{}@sha256:{}", image, digest(image));
        o["containerID"] = "containerd://" + digest(fmt::format("{}/{}/{}", pod, name, restarts));
    }
    return o;
}

// A condition keeps its time while its status stays. Not informer::set_condition, which always writes a reason: a pod's
// condition has that member only if there is a reason.
void set_pod_condition(json::array& conditions, std::string_view type, bool on, const std::string& now,
                       std::string_view reason = {}) {
    json::object* place = nullptr;
    for (auto& c : conditions) {
        if (c.as_object()["type"] == json::value(type)) place = &c.as_object();
    }
    if (place == nullptr) {
        conditions.push_back(json::object());
        place = &conditions.back().as_object();
        (*place)["type"] = type;
        (*place)["status"] = nullptr;
    }
    const json::value status = on ? "True" : "False";
    if (std::exchange((*place)["status"], status) != status) (*place)["lastTransitionTime"] = now;
    place->erase("reason");
    if (!reason.empty()) (*place)["reason"] = reason;
}

void set_ready(json::array& conditions, bool ready, const std::string& now) {
    const auto why = ready ? std::string_view() : std::string_view("ContainersNotReady");
    set_pod_condition(conditions, "Ready", ready, now, why);
    set_pod_condition(conditions, "ContainersReady", ready, now);
}

json::object state_of(std::string_view kind, json::object inside) {
    json::object o;
    o[kind] = std::move(inside);
    return o;
}

json::object started_at(const std::string& now) {
    json::object o;
    o["startedAt"] = now;
    return o;
}

json::object reason_of(std::string_view reason) {
    json::object o;
    o["reason"] = reason;
    return o;
}

json::value status_patch(json::object status) {
    json::object patch;
    patch["status"] = std::move(status);
    return patch;
}

const char* const pod_text = R"({
"apiVersion":"v1","kind":"Pod",
"metadata":{"name":"@pod@","generateName":"@app@-@hash@-","namespace":"@ns@",
 "labels":{"app.kubernetes.io/name":"@app@","app.kubernetes.io/part-of":"@ns@","app.kubernetes.io/version":"@version@",
  "app":"@app@","pod-template-hash":"@hash@"},
 "annotations":{"prometheus.io/scrape":"true","prometheus.io/port":"@port@","prometheus.io/path":"/metrics",
  "checksum/config":"@checksum@","kubectl.kubernetes.io/restartedAt":"@now@",
  "cluster-autoscaler.kubernetes.io/safe-to-evict":"true"},
 "ownerReferences":[{"apiVersion":"@ownerversion@","kind":"@ownerkind@","name":"@owner@","uid":"@owneruid@","controller":true,
  "blockOwnerDeletion":true}]},
"spec":{
 "volumes":[
  {"name":"config","configMap":{"name":"@app@-config","defaultMode":420}},
  {"name":"cache","emptyDir":{"sizeLimit":"256Mi"}},
  {"name":"tls","secret":{"secretName":"@app@-tls","defaultMode":420,"optional":true}},
  {"name":"kube-api-access","projected":{"sources":[
   {"serviceAccountToken":{"expirationSeconds":3607,"path":"token"}},
   {"configMap":{"name":"kube-root-ca.crt","items":[{"key":"ca.crt","path":"ca.crt"}]}},
   {"downwardAPI":{"items":[{"path":"namespace","fieldRef":{"apiVersion":"v1","fieldPath":"metadata.namespace"}}]}}],
   "defaultMode":420}}],
 "containers":[
  {"name":"@app@","image":"@image@","args":["--listen=0.0.0.0:@port@","--config=/etc/@app@/config.yaml","--log-format=json"],
   "ports":[{"name":"http","containerPort":@port@,"protocol":"TCP"},{"name":"metrics","containerPort":9090,"protocol":"TCP"}],
   "env":[
    {"name":"POD_NAME","valueFrom":{"fieldRef":{"apiVersion":"v1","fieldPath":"metadata.name"}}},
    {"name":"POD_NAMESPACE","valueFrom":{"fieldRef":{"apiVersion":"v1","fieldPath":"metadata.namespace"}}},
    {"name":"NODE_NAME","valueFrom":{"fieldRef":{"apiVersion":"v1","fieldPath":"spec.nodeName"}}},
    {"name":"LOG_LEVEL","value":"info"},
    {"name":"DATABASE_URL","valueFrom":{"secretKeyRef":{"name":"@app@-credentials","key":"url"}}},
    {"name":"OTEL_SERVICE_NAME","value":"@app@"},
    {"name":"OTEL_EXPORTER_OTLP_ENDPOINT","value":"http://otel-collector.observability:4317"}],
   "resources":{"limits":{"cpu":"500m","memory":"512Mi"},"requests":{"cpu":"100m","memory":"128Mi"}},
   "volumeMounts":[
    {"name":"config","readOnly":true,"mountPath":"/etc/@app@"},
    {"name":"cache","mountPath":"/var/cache/@app@"},
    {"name":"tls","readOnly":true,"mountPath":"/etc/tls"},
    {"name":"kube-api-access","readOnly":true,"mountPath":"/var/run/secrets/kubernetes.io/serviceaccount"}],
   "livenessProbe":{"httpGet":{"path":"/healthz","port":"http","scheme":"HTTP"},"initialDelaySeconds":10,"timeoutSeconds":1,
    "periodSeconds":10,"successThreshold":1,"failureThreshold":3},
   "readinessProbe":{"httpGet":{"path":"/readyz","port":"http","scheme":"HTTP"},"timeoutSeconds":1,"periodSeconds":5,
    "successThreshold":1,"failureThreshold":3},
   "terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File","imagePullPolicy":"IfNotPresent",
   "securityContext":{"capabilities":{"drop":["ALL"]},"runAsNonRoot":true,"readOnlyRootFilesystem":true,
    "allowPrivilegeEscalation":false}}],
 "restartPolicy":"Always","terminationGracePeriodSeconds":30,"dnsPolicy":"ClusterFirst",
 "serviceAccountName":"@app@","serviceAccount":"@app@",
 "securityContext":{"runAsUser":65532,"fsGroup":65532,"seccompProfile":{"type":"RuntimeDefault"}},
 "affinity":{"podAntiAffinity":{"preferredDuringSchedulingIgnoredDuringExecution":[{"weight":100,"podAffinityTerm":{
  "labelSelector":{"matchLabels":{"app":"@app@"}},"topologyKey":"kubernetes.io/hostname"}}]}},
 "schedulerName":"default-scheduler",
 "tolerations":[
  {"key":"node.kubernetes.io/not-ready","operator":"Exists","effect":"NoExecute","tolerationSeconds":300},
  {"key":"node.kubernetes.io/unreachable","operator":"Exists","effect":"NoExecute","tolerationSeconds":300}],
 "priority":0,"enableServiceLinks":true,"preemptionPolicy":"PreemptLowerPriority"},
"status":{"phase":"Pending","qosClass":"Burstable"}})";

const char* const sidecar_text = R"({
 "name":"proxy","image":"envoyproxy/envoy:v1.31.2","args":["-c","/etc/envoy/envoy.yaml","--log-level","warning"],
 "ports":[{"name":"proxy","containerPort":15001,"protocol":"TCP"}],
 "resources":{"limits":{"cpu":"200m","memory":"128Mi"},"requests":{"cpu":"20m","memory":"64Mi"}},
 "volumeMounts":[{"name":"kube-api-access","readOnly":true,"mountPath":"/var/run/secrets/kubernetes.io/serviceaccount"}],
 "terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File","imagePullPolicy":"IfNotPresent"})";

const std::string sidecar_image = "envoyproxy/envoy:v1.31.2";

} // namespace

json::value namespace_document(std::string_view name) {
    return filled(R"({"apiVersion":"v1","kind":"Namespace","metadata":{"name":"@name@","labels":{"team":"@name@"}}})",
                  {{"name", std::string(name)}});
}

json::value node_document(std::string_view name, int number, const std::string& now) {
    auto node = filled(R"({"apiVersion":"v1","kind":"Node",
"metadata":{"name":"@name@","labels":{"kubernetes.io/hostname":"@name@","kubernetes.io/os":"linux","kubernetes.io/arch":"amd64",
 "node.kubernetes.io/instance-type":"m5.xlarge","topology.kubernetes.io/region":"eu-central-1",
 "topology.kubernetes.io/zone":"eu-central-1@zone@"},
 "annotations":{"node.alpha.kubernetes.io/ttl":"0","volumes.kubernetes.io/controller-managed-attach-detach":"true"}},
"spec":{"podCIDR":"10.244.@number@.0/24","podCIDRs":["10.244.@number@.0/24"],"providerID":"sim:///eu-central-1/@name@"},
"status":{"capacity":{"cpu":"4","memory":"16Gi","ephemeral-storage":"100Gi","pods":"110"},
 "allocatable":{"cpu":"3920m","memory":"15Gi","ephemeral-storage":"92Gi","pods":"110"},
 "addresses":[{"type":"InternalIP","address":"172.18.0.@ip@"},{"type":"Hostname","address":"@name@"}],
 "daemonEndpoints":{"kubeletEndpoint":{"Port":10250}},
 "nodeInfo":{"kubeletVersion":"v1.36.0","containerRuntimeVersion":"containerd://2.1.4","kernelVersion":"6.12.38",
  "osImage":"Debian GNU/Linux 12","operatingSystem":"linux","architecture":"amd64","bootID":"","machineID":"",
  "systemUUID":"","kubeProxyVersion":""}}})",
                       {{"name", std::string(name)},
                        {"number", std::to_string(number)},
                        {"ip", std::to_string(number + 10)},
                        {"zone", std::string(1, static_cast<char>('a' + number % 3))}});
    auto patch = node_condition_patch(true, number, now);
    node.as_object()["status"].as_object()["conditions"] = patch.as_object()["status"].as_object()["conditions"];
    return node;
}

json::value node_condition_patch(bool ready, int number, const std::string& now) {
    json::array conditions;
    for (const std::string_view pressure : {"MemoryPressure", "DiskPressure", "PIDPressure"}) {
        json::object c;
        c["type"] = pressure;
        c["status"] = ready ? "False" : "Unknown";
        c["lastHeartbeatTime"] = now;
        c["lastTransitionTime"] = now;
        c["reason"] = ready ? "KubeletHasSufficientResources" : "NodeStatusUnknown";
        conditions.push_back(std::move(c));
    }
    json::object c;
    c["type"] = "Ready";
    c["status"] = ready ? "True" : "Unknown";
    c["lastHeartbeatTime"] = now;
    c["lastTransitionTime"] = now;
    c["reason"] = ready ? "KubeletReady" : "NodeStatusUnknown";
    c["message"] =
        ready ? fmt::format("kubelet {} is posting ready status", number) : "Kubelet stopped posting node status.";
    conditions.push_back(std::move(c));
    json::object status;
    status["conditions"] = std::move(conditions);
    auto patch = status_patch(std::move(status));
    json::object spec;
    if (ready) {
        spec["taints"] = nullptr;
    } else {
        json::object taint;
        taint["key"] = "node.kubernetes.io/unreachable";
        taint["effect"] = "NoExecute";
        taint["timeAdded"] = now;
        json::array taints;
        taints.push_back(std::move(taint));
        spec["taints"] = std::move(taints);
    }
    patch.as_object()["spec"] = std::move(spec);
    return patch;
}

json::value lease_document(std::string_view node, const std::string& now) {
    return filled(R"({"apiVersion":"coordination.k8s.io/v1","kind":"Lease",
"metadata":{"name":"@node@","namespace":"kube-node-lease"},
"spec":{"holderIdentity":"@node@","leaseDurationSeconds":40,"renewTime":"@now@"}})",
                  {{"node", std::string(node)}, {"now", now}});
}

json::value deployment_document(const workload& w, const std::string& now) {
    return filled(R"({"apiVersion":"apps/v1","kind":"Deployment",
"metadata":{"name":"@app@","namespace":"@ns@","labels":{"app":"@app@","app.kubernetes.io/part-of":"@ns@"},
 "annotations":{"deployment.kubernetes.io/revision":"1"}},
"spec":{"replicas":@replicas@,"selector":{"matchLabels":{"app":"@app@"}},
 "template":{"metadata":{"labels":{"app":"@app@"},"annotations":{"kubectl.kubernetes.io/restartedAt":"@now@"}},
  "spec":{"containers":[{"name":"@app@","image":"@image@","ports":[{"name":"http","containerPort":@port@,"protocol":"TCP"}],
   "resources":{"limits":{"cpu":"500m","memory":"512Mi"},"requests":{"cpu":"100m","memory":"128Mi"}}}],
   "restartPolicy":"Always","serviceAccountName":"@app@"}},
 "strategy":{"type":"RollingUpdate","rollingUpdate":{"maxUnavailable":"25%","maxSurge":"25%"}},
 "revisionHistoryLimit":10,"progressDeadlineSeconds":600},
"status":{"observedGeneration":1}})",
                  {{"app", w.name},
                   {"ns", w.name_space},
                   {"image", w.full_image()},
                   {"port", std::to_string(w.port)},
                   {"replicas", std::to_string(w.replicas)},
                   {"now", now}});
}

json::value replica_set_document(const workload& w, std::string_view hash, std::int64_t revision, const owner& by) {
    return filled(R"({"apiVersion":"apps/v1","kind":"ReplicaSet",
"metadata":{"name":"@app@-@hash@","namespace":"@ns@","labels":{"app":"@app@","pod-template-hash":"@hash@"},
 "annotations":{"deployment.kubernetes.io/revision":"@revision@","deployment.kubernetes.io/desired-replicas":"@replicas@"},
 "ownerReferences":[{"apiVersion":"apps/v1","kind":"Deployment","name":"@owner@","uid":"@uid@","controller":true,
  "blockOwnerDeletion":true}]},
"spec":{"replicas":0,"selector":{"matchLabels":{"app":"@app@","pod-template-hash":"@hash@"}},
 "template":{"metadata":{"labels":{"app":"@app@","pod-template-hash":"@hash@"}},
  "spec":{"containers":[{"name":"@app@","image":"@image@","ports":[{"name":"http","containerPort":@port@,"protocol":"TCP"}]}],
   "restartPolicy":"Always","serviceAccountName":"@app@"}}},
"status":{"replicas":0,"observedGeneration":1}})",
                  {{"app", w.name},
                   {"ns", w.name_space},
                   {"hash", std::string(hash)},
                   {"revision", std::to_string(revision)},
                   {"replicas", std::to_string(w.replicas)},
                   {"owner", by.name},
                   {"uid", by.uid},
                   {"image", w.full_image()},
                   {"port", std::to_string(w.port)}});
}

json::value service_document(const workload& w, int number) {
    return filled(R"({"apiVersion":"v1","kind":"Service",
"metadata":{"name":"@app@","namespace":"@ns@","labels":{"app":"@app@"}},
"spec":{"type":"ClusterIP","clusterIP":"10.96.0.@ip@","clusterIPs":["10.96.0.@ip@"],"selector":{"app":"@app@"},
 "ports":[{"name":"http","protocol":"TCP","port":80,"targetPort":"http"}],"sessionAffinity":"None",
 "ipFamilies":["IPv4"],"ipFamilyPolicy":"SingleStack"}})",
                  {{"app", w.name}, {"ns", w.name_space}, {"ip", std::to_string(20 + number)}});
}

json::value config_document(const workload& w) {
    return filled(R"({"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"@app@-config","namespace":"@ns@",
"labels":{"app":"@app@"}},"data":{"config.yaml":"listen: 0.0.0.0:@port@, log: info"}})",
                  {{"app", w.name}, {"ns", w.name_space}, {"port", std::to_string(w.port)}});
}

json::value pod_document(const workload& w, std::string_view hash, std::string_view name, const owner& by,
                         const std::string& now) {
    auto pod = filled(pod_text, {{"pod", std::string(name)},
                                 {"app", w.name},
                                 {"ns", w.name_space},
                                 {"hash", std::string(hash)},
                                 {"version", w.version},
                                 {"image", w.full_image()},
                                 {"port", std::to_string(w.port)},
                                 {"checksum", digest(w.name + w.version)},
                                 {"ownerversion", by.api_version},
                                 {"ownerkind", by.kind},
                                 {"owner", by.name},
                                 {"owneruid", by.uid},
                                 {"now", now}});
    if (w.sidecar) pod.as_object()["spec"].as_object()["containers"].as_array().push_back(json::parse(sidecar_text));
    return pod;
}

json::value pod_scheduled(std::string_view node, json::array& conditions, const std::string& now) {
    json::object spec;
    spec["nodeName"] = node;
    set_pod_condition(conditions, "PodScheduled", true, now);
    json::object status;
    status["conditions"] = conditions;
    auto patch = status_patch(std::move(status));
    patch.as_object()["spec"] = std::move(spec);
    return patch;
}

json::value pod_creating(const workload& w, std::string_view host_ip, json::array& conditions, const std::string& now) {
    set_pod_condition(conditions, "PodReadyToStartContainers", true, now);
    set_pod_condition(conditions, "Initialized", true, now);
    set_ready(conditions, false, now);
    json::array containers;
    containers.push_back(container_status(
        {}, w.name, w.full_image(), state_of("waiting", reason_of("ContainerCreating")), json::object(), false, 0));
    if (w.sidecar) {
        containers.push_back(container_status(
            {}, "proxy", sidecar_image, state_of("waiting", reason_of("ContainerCreating")), json::object(), false, 0));
    }
    json::object status;
    status["conditions"] = conditions;
    status["hostIP"] = host_ip;
    status["startTime"] = now;
    status["containerStatuses"] = std::move(containers);
    return status_patch(std::move(status));
}

json::value pod_running(const workload& w, std::string_view host_ip, std::string_view pod_ip, std::int64_t restarts,
                        json::array& conditions, const std::string& now) {
    set_ready(conditions, true, now);
    json::object last;
    if (restarts > 0) {
        json::object terminated = reason_of("Error");
        terminated["exitCode"] = 137;
        terminated["finishedAt"] = now;
        last = state_of("terminated", std::move(terminated));
    }
    json::array containers;
    containers.push_back(container_status(pod_ip, w.name, w.full_image(), state_of("running", started_at(now)),
                                          std::move(last), true, restarts));
    if (w.sidecar) {
        containers.push_back(container_status(pod_ip, "proxy", sidecar_image, state_of("running", started_at(now)),
                                              json::object(), true, 0));
    }
    json::object ip;
    ip["ip"] = pod_ip;
    json::array ips;
    ips.push_back(std::move(ip));
    json::object status;
    status["phase"] = "Running";
    status["conditions"] = conditions;
    status["hostIP"] = host_ip;
    status["podIP"] = pod_ip;
    status["podIPs"] = std::move(ips);
    status["containerStatuses"] = std::move(containers);
    return status_patch(std::move(status));
}

json::value pod_crashed(const workload& w, std::string_view host_ip, std::string_view pod_ip, std::int64_t restarts,
                        json::array& conditions, const std::string& now) {
    auto running = conditions; // a copy: the times that pod_running() sets do not count
    auto patch = pod_running(w, host_ip, pod_ip, restarts, running, now);
    set_ready(conditions, false, now);
    auto& status = patch.as_object()["status"].as_object();
    status["conditions"] = conditions;
    auto& main = status["containerStatuses"].as_array()[0].as_object();
    main["ready"] = false;
    main["started"] = false;
    main["state"] = state_of("waiting", reason_of("CrashLoopBackOff"));
    return patch;
}

json::value pod_lost(json::array& conditions, const std::string& now) {
    set_ready(conditions, false, now);
    json::object status;
    status["phase"] = "Failed";
    status["reason"] = "NodeLost";
    status["message"] = "Node which was running the pod is unresponsive";
    status["conditions"] = conditions;
    return status_patch(std::move(status));
}

json::value event_document(const json::value& about, std::string_view name, std::string_view type,
                           std::string_view reason, std::string_view message, std::string_view component,
                           const std::string& now) {
    const auto& o = about.as_object();
    const auto& m = o.at("metadata").as_object();
    json::object involved;
    involved["kind"] = o.at("kind");
    involved["apiVersion"] = o.at("apiVersion");
    involved["name"] = m.at("name");
    if (const auto* ns = m.if_contains("namespace")) involved["namespace"] = *ns;
    involved["uid"] = m.at("uid");
    involved["resourceVersion"] = m.at("resourceVersion");
    json::object metadata;
    metadata["name"] = name;
    const auto* ns = m.if_contains("namespace");
    metadata["namespace"] = ns != nullptr ? *ns : json::value("default");
    json::object source;
    source["component"] = component;
    json::object event;
    event["apiVersion"] = "v1";
    event["kind"] = "Event";
    event["metadata"] = std::move(metadata);
    event["involvedObject"] = std::move(involved);
    event["reason"] = reason;
    event["message"] = message;
    event["source"] = std::move(source);
    event["firstTimestamp"] = now;
    event["lastTimestamp"] = now;
    event["count"] = 1;
    event["type"] = type;
    event["reportingComponent"] = component;
    event["reportingInstance"] = "";
    return event;
}

} // namespace devserver
