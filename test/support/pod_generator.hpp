// Realistic pods as an API server sends them: about 10.7 KB of JSON, a third of it managedFields, 20 replicas per
// Deployment that share everything but their names, uids, addresses, container ids and times.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

namespace informer::testing {

struct pod_options {
    explicit pod_options(unsigned pod_index = 0) : index(pod_index) {}
    unsigned index = 0;     ///< which pod: decides its name, uid, addresses and times
    unsigned replicas = 20; ///< pods per Deployment
    unsigned namespaces = 50;
    unsigned nodes = 500;
    /// number of structures: Deployments of different structures differ in their members, not only in values
    unsigned structures = 1;
    std::uint64_t resource_version = 0; ///< 0: from the index
    /// a status update: another value gives another restart count, other condition times and another version
    unsigned revision = 0;
    bool managed_fields = true;
    /// with apiVersion and kind, as in watch events and single answers; list items lack them
    bool type = false;
};

namespace pod_detail {

inline std::uint64_t mix(std::uint64_t x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
    return x ^ (x >> 31);
}
inline std::string hex(std::uint64_t seed, unsigned digits) {
    std::string s;
    char buffer[17];
    for (unsigned i = 0; s.size() < digits; ++i) {
        std::snprintf(buffer, sizeof buffer, "%016llx", static_cast<unsigned long long>(mix(seed * 31 + i + 1)));
        s += buffer;
    }
    s.resize(digits);
    return s;
}
inline std::string uuid(std::uint64_t seed) {
    std::string s = hex(seed, 32);
    for (const std::size_t at : {8u, 13u, 18u, 23u}) s.insert(at, 1, '-');
    return s;
}
inline std::string time(std::uint64_t seconds) { // within June 2024
    const auto n = [](std::uint64_t v) { return static_cast<unsigned>(v); };
    char buffer[32];
    std::snprintf(buffer, sizeof buffer, "2024-06-%02uT%02u:%02u:%02uZ", n(seconds / 86400 % 28) + 1,
                  n(seconds / 3600 % 24), n(seconds / 60 % 60), n(seconds % 60));
    return buffer;
}
inline std::string number(std::uint64_t v) {
    return std::to_string(v);
}

/// The optional parts of a Deployment's pods.
struct form {
    unsigned environment = 0, labels = 0, volumes = 0; ///< additional ones
    bool sidecar = true, affinity = true, readiness = true, selector = true;
};
/// Structure 0 is the default, which all pods have if there is only one structure.
inline form form_of(unsigned structure) {
    form f;
    if (structure == 0) return f;
    const auto bits = static_cast<unsigned>(mix(structure + 4242));
    f.environment = bits % 13;
    f.labels = (bits >> 8) % 5;
    f.volumes = (bits >> 16) % 4;
    f.sidecar = (bits >> 24) % 2 != 0;
    f.affinity = (bits >> 25) % 2 != 0;
    f.readiness = (bits >> 26) % 4 != 0;
    f.selector = (bits >> 28) % 2 != 0;
    return f;
}

inline std::string container_fields(std::string_view name) {
    return "\"k:{\\\"name\\\":\\\"" + std::string(name) +
           "\\\"}\":{\".\":{},\"f:env\":{\".\":{},\"k:{\\\"name\\\":\\\"POD_NAME\\\"}\":{\".\":{},\"f:name\":{},\"f:"
           "valueFrom\":{\".\":{},"
           "\"f:fieldRef\":{}}},\"k:{\\\"name\\\":\\\"LOG_LEVEL\\\"}\":{\".\":{},\"f:name\":{},\"f:value\":{}},"
           "\"k:{\\\"name\\\":\\\"DATABASE_URL\\\"}\":{\".\":{},\"f:name\":{},\"f:value\":{}}},\"f:image\":{},\"f:"
           "imagePullPolicy\":{},"
           "\"f:livenessProbe\":{\".\":{},\"f:failureThreshold\":{},\"f:httpGet\":{\".\":{},\"f:path\":{},\"f:port\":{}"
           ",\"f:scheme\":{}},"
           "\"f:initialDelaySeconds\":{},\"f:periodSeconds\":{},\"f:successThreshold\":{},\"f:timeoutSeconds\":{}},\"f:"
           "name\":{},"
           "\"f:ports\":{\".\":{},\"k:{\\\"containerPort\\\":8080,\\\"protocol\\\":\\\"TCP\\\"}\":{\".\":{},\"f:"
           "containerPort\":{},"
           "\"f:name\":{},\"f:protocol\":{}}},\"f:resources\":{\".\":{},\"f:limits\":{\".\":{},\"f:cpu\":{},\"f:"
           "memory\":{}},"
           "\"f:requests\":{\".\":{},\"f:cpu\":{},\"f:memory\":{}}},\"f:terminationMessagePath\":{},\"f:"
           "terminationMessagePolicy\":{},"
           "\"f:volumeMounts\":{\".\":{},\"k:{\\\"mountPath\\\":\\\"/etc/"
           "config\\\"}\":{\".\":{},\"f:mountPath\":{},\"f:name\":{},"
           "\"f:readOnly\":{}}}}";
}

inline std::string managed_fields(const form& f, std::string_view app, std::string_view created,
                                  std::string_view started, std::string_view address) {
    std::string s =
        "[{\"manager\":\"kube-controller-manager\",\"operation\":\"Update\",\"apiVersion\":\"v1\",\"time\":\"";
    s += created;
    s += "\",\"fieldsType\":\"FieldsV1\",\"fieldsV1\":{\"f:metadata\":{\"f:annotations\":{\".\":{},\"f:checksum/"
         "config\":{},"
         "\"f:prometheus.io/port\":{},\"f:prometheus.io/scrape\":{}},\"f:generateName\":{},\"f:labels\":{\".\":{},"
         "\"f:app.kubernetes.io/instance\":{},\"f:app.kubernetes.io/name\":{},\"f:app.kubernetes.io/version\":{},"
         "\"f:pod-template-hash\":{}},\"f:ownerReferences\":{\".\":{},\"k:{\\\"uid\\\":\\\"";
    s += app;
    s += "\\\"}\":{}}},\"f:spec\":{\"f:affinity\":{\".\":{},\"f:podAntiAffinity\":{\".\":{},"
         "\"f:preferredDuringSchedulingIgnoredDuringExecution\":{}}},\"f:containers\":{" +
         container_fields("app") + (f.sidecar ? "," + container_fields("sidecar") : std::string()) +
         "},\"f:dnsPolicy\":{},\"f:enableServiceLinks\":{},\"f:restartPolicy\":{},\"f:schedulerName\":{},\"f:"
         "securityContext\":{\".\":{},"
         "\"f:runAsNonRoot\":{},\"f:runAsUser\":{}},\"f:serviceAccount\":{},\"f:serviceAccountName\":{},"
         "\"f:terminationGracePeriodSeconds\":{},\"f:tolerations\":{},\"f:volumes\":{\".\":{},\"k:{\\\"name\\\":"
         "\\\"config\\\"}\":{\".\":{},"
         "\"f:configMap\":{\".\":{},\"f:defaultMode\":{},\"f:name\":{}},\"f:name\":{}}}}}},"
         "{\"manager\":\"kubelet\",\"operation\":\"Update\",\"apiVersion\":\"v1\",\"time\":\"";
    s += started;
    s += "\",\"fieldsType\":\"FieldsV1\",\"fieldsV1\":{\"f:status\":{\"f:conditions\":{";
    const char* separator = "";
    for (const char* type : {"ContainersReady", "Initialized", "PodReadyToStartContainers", "Ready"}) {
        s += separator;
        s += "\"k:{\\\"type\\\":\\\"" + std::string(type) +
             "\\\"}\":{\".\":{},\"f:lastProbeTime\":{},\"f:lastTransitionTime\":{},\"f:status\":{},\"f:type\":{}}";
        separator = ",";
    }
    s += "},\"f:containerStatuses\":{},\"f:hostIP\":{},\"f:hostIPs\":{},\"f:phase\":{},\"f:podIP\":{},\"f:podIPs\":{\"."
         "\":{},"
         "\"k:{\\\"ip\\\":\\\"";
    s += address;
    s += "\\\"}\":{\".\":{},\"f:ip\":{}}},\"f:startTime\":{}}},\"subresource\":\"status\"}]";
    return s;
}

inline std::string container(const form& f, std::string_view name, const std::string& app, unsigned kind,
                             const std::string& token_volume) {
    std::string environment, mounts;
    for (unsigned i = 0; i < f.environment; ++i)
        environment += ",{\"name\":\"OPTION_" + number(i) + "\",\"value\":\"" + app + "-" + number(i) + "\"}";
    for (unsigned i = 0; i < f.volumes; ++i)
        mounts += "{\"name\":\"data-" + number(i) + "\",\"mountPath\":\"/data/" + number(i) + "\"},";
    const std::string readiness = "\"readinessProbe\":{\"httpGet\":{\"path\":\"/"
                                  "ready\",\"port\":8080,\"scheme\":\"HTTP\"},\"timeoutSeconds\":1,\"periodSeconds\":5,"
                                  "\"successThreshold\":1,\"failureThreshold\":3},";
    return "{\"name\":\"" + std::string(name) + "\",\"image\":\"registry.example.com/team-" + number(kind % 17) + "/" +
           app + "/" + std::string(name) + ":v1." + number(kind % 30) + "." + number(kind % 7) +
           "\",\"args\":[\"--config=/etc/config/settings.yaml\",\"--listen=:8080\",\"--shutdown-timeout=25s\"],"
           "\"ports\":[{\"name\":\"http\",\"containerPort\":8080,\"protocol\":\"TCP\"},{\"name\":\"metrics\","
           "\"containerPort\":9090,"
           "\"protocol\":\"TCP\"}],\"env\":[{\"name\":\"POD_NAME\",\"valueFrom\":{\"fieldRef\":{\"apiVersion\":\"v1\","
           "\"fieldPath\":\"metadata.name\"}}},{\"name\":\"POD_NAMESPACE\",\"valueFrom\":{\"fieldRef\":{\"apiVersion\":"
           "\"v1\","
           "\"fieldPath\":\"metadata.namespace\"}}},{\"name\":\"LOG_LEVEL\",\"value\":\"info\"},{\"name\":\"DATABASE_"
           "URL\","
           "\"value\":\"postgres://" +
           app + "-db." + app + ".svc.cluster.local:5432/" + app +
           "?sslmode=verify-full\"},{\"name\":\"FEATURE_FLAGS\",\"value\":\"new-checkout,async-billing,fast-search\"}" +
           environment + "],\"resources\":{\"limits\":{\"cpu\":\"" + number(kind % 4 + 1) + "\",\"memory\":\"" +
           number((kind % 8 + 1) * 256) +
           "Mi\"},\"requests\":{\"cpu\":\"250m\",\"memory\":\"256Mi\"}},\"volumeMounts\":[" + mounts +
           "{\"name\":\"config\",\"readOnly\":true,"
           "\"mountPath\":\"/etc/config\"},{\"name\":\"" +
           token_volume +
           "\",\"readOnly\":true,\"mountPath\":\"/var/run/secrets/kubernetes.io/"
           "serviceaccount\"}],\"livenessProbe\":{\"httpGet\":"
           "{\"path\":\"/healthz\",\"port\":8080,\"scheme\":\"HTTP\"},\"initialDelaySeconds\":10,\"timeoutSeconds\":1,"
           "\"periodSeconds\":10,\"successThreshold\":1,\"failureThreshold\":3}," +
           (f.readiness ? readiness : std::string()) +
           "\"terminationMessagePath\":\"/dev/termination-log\",\"terminationMessagePolicy\":\"File\","
           "\"imagePullPolicy\":\"IfNotPresent\",\"securityContext\":{\"capabilities\":{\"drop\":[\"ALL\"]},"
           "\"runAsNonRoot\":true,"
           "\"readOnlyRootFilesystem\":true,\"allowPrivilegeEscalation\":false}}";
}

inline std::string affinity_of(const std::string& app) {
    return "\"affinity\":{\"podAntiAffinity\":{\"preferredDuringSchedulingIgnoredDuringExecution\":[{\"weight\":100,"
           "\"podAffinityTerm\":"
           "{\"labelSelector\":{\"matchLabels\":{\"app.kubernetes.io/name\":\"" +
           app + "\"}},\"topologyKey\":\"kubernetes.io/hostname\"}}]}},";
}

} // namespace pod_detail

/// One pod as JSON text; the same options give the same text.
inline std::string make_pod_json(const pod_options& o) {
    using namespace pod_detail;
    const unsigned kind = o.index / (o.replicas ? o.replicas : 1); // which Deployment
    const form f = form_of(o.structures ? kind % o.structures : 0);
    const std::string app = "service-" + number(kind),
                      space = "team-" + number(kind % (o.namespaces ? o.namespaces : 1));
    const std::string hash = hex(kind + 77, 10);
    std::string version = "1.";
    version += number(kind % 30) + "." + number(kind % 7);
    const std::string name = app + "-" + hash + "-" + hex(o.index + 1000, 5);
    const std::string node = "node-" + number(mix(o.index) % (o.nodes ? o.nodes : 1)) + ".pool-a.example.internal";
    const std::string address =
        "10." + number(o.index / 65536 % 256) + "." + number(o.index / 256 % 256) + "." + number(o.index % 256);
    const std::uint64_t host = mix(o.index) % (o.nodes ? o.nodes : 1);
    const std::string host_address = "192.168." + number(host / 256) + "." + number(host % 256);
    const std::uint64_t born = mix(o.index) % 2'000'000;
    // the admission plug-in gives it a new name for each pod
    const std::string token_volume = "kube-api-access-" + hex(o.index + 5000, 5);
    const std::string created = time(born), started = time(born + 7 + o.revision);
    const std::uint64_t rv =
        o.resource_version ? o.resource_version : 1'000'000 + std::uint64_t{o.index} * 37 + o.revision * 100'003ULL;

    std::string labels, volumes;
    for (unsigned i = 0; i < f.labels; ++i) labels += ",\"team.example.com/label-" + number(i) + "\":\"" + app + "\"";
    for (unsigned i = 0; i < f.volumes; ++i) volumes += ",{\"name\":\"data-" + number(i) + "\",\"emptyDir\":{}}";

    std::string s = "{";
    if (o.type) s += "\"kind\":\"Pod\",\"apiVersion\":\"v1\",";
    s += "\"metadata\":{\"name\":\"" + name + "\",\"generateName\":\"" + app + "-" + hash + "-\",\"namespace\":\"" +
         space + "\",\"uid\":\"" + uuid(o.index + 1) + "\",\"resourceVersion\":\"" + number(rv) +
         "\",\"creationTimestamp\":\"" + created + "\",\"labels\":{\"app.kubernetes.io/instance\":\"" + app +
         "\",\"app.kubernetes.io/name\":\"" + app + "\",\"app.kubernetes.io/version\":\"" + version +
         "\",\"pod-template-hash\":\"" + hash + "\"" + labels + "},\"annotations\":{\"checksum/config\":\"" +
         hex(kind + 5, 64) +
         "\",\"prometheus.io/port\":\"9090\",\"prometheus.io/"
         "scrape\":\"true\"},\"ownerReferences\":[{\"apiVersion\":\"apps/v1\","
         "\"kind\":\"ReplicaSet\",\"name\":\"" +
         app + "-" + hash + "\",\"uid\":\"" + uuid(kind + 1'000'000'000ULL) +
         "\",\"controller\":true,\"blockOwnerDeletion\":true}]";
    if (o.managed_fields)
        s += ",\"managedFields\":" + managed_fields(f, uuid(kind + 1'000'000'000ULL), created, started, address);
    s += "},\"spec\":{\"volumes\":[{\"name\":\"config\",\"configMap\":{\"name\":\"" + app +
         "-config\",\"defaultMode\":420}},"
         "{\"name\":\"" +
         token_volume +
         "\",\"projected\":{\"sources\":[{\"serviceAccountToken\":{\"expirationSeconds\":3607,\"path\":\"token\"}},{"
         "\"configMap\":"
         "{\"name\":\"kube-root-ca.crt\",\"items\":[{\"key\":\"ca.crt\",\"path\":\"ca.crt\"}]}},{\"downwardAPI\":{"
         "\"items\":[{"
         "\"path\":\"namespace\",\"fieldRef\":{\"apiVersion\":\"v1\",\"fieldPath\":\"metadata.namespace\"}}]}}],"
         "\"defaultMode\":420}}" +
         volumes +
         "],"
         "\"containers\":[" +
         container(f, "app", app, kind, token_volume) +
         (f.sidecar ? "," + container(f, "sidecar", app, kind, token_volume) : std::string()) +
         "],\"restartPolicy\":\"Always\",\"terminationGracePeriodSeconds\":30,\"dnsPolicy\":\"ClusterFirst\"," +
         (f.selector ? std::string("\"nodeSelector\":{\"kubernetes.io/os\":\"linux\"},") : std::string()) +
         "\"serviceAccountName\":\"" + app + "\",\"serviceAccount\":\"" + app + "\",\"nodeName\":\"" + node +
         "\",\"securityContext\":{\"runAsUser\":1000,\"runAsNonRoot\":true,\"fsGroup\":2000}," +
         (f.affinity ? affinity_of(app) : std::string()) +
         "\"schedulerName\":\"default-scheduler\",\"tolerations\":[{\"key\":\"node.kubernetes.io/"
         "not-ready\",\"operator\":\"Exists\","
         "\"effect\":\"NoExecute\",\"tolerationSeconds\":300},{\"key\":\"node.kubernetes.io/"
         "unreachable\",\"operator\":\"Exists\","
         "\"effect\":\"NoExecute\",\"tolerationSeconds\":300}],\"priority\":0,\"enableServiceLinks\":true,"
         "\"preemptionPolicy\":\"PreemptLowerPriority\"},\"status\":{\"phase\":\"Running\",\"conditions\":[";
    const char* separator = "";
    unsigned step = 0;
    for (const char* type : {"PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"}) {
        s += separator;
        s += "{\"type\":\"" + std::string(type) +
             "\",\"status\":\"True\",\"lastProbeTime\":null,\"lastTransitionTime\":\"" +
             time(born + step + (o.revision && step < 3 ? o.revision : 0)) + "\"}";
        ++step;
        separator = ",";
    }
    s += "],\"hostIP\":\"" + host_address + "\",\"hostIPs\":[{\"ip\":\"" + host_address + "\"}],\"podIP\":\"" +
         address + "\",\"podIPs\":[{\"ip\":\"" + address + "\"}],\"startTime\":\"" + created +
         "\",\"containerStatuses\":[";
    separator = "";
    for (const char* which : {"app", "sidecar"}) {
        if (!f.sidecar && which[0] == 's') break;
        const unsigned salt = static_cast<unsigned char>(which[0]);
        s += separator;
        s += "{\"name\":\"" + std::string(which) + "\",\"state\":{\"running\":{\"startedAt\":\"" + started +
             "\"}},\"lastState\":{},\"ready\":true,\"restartCount\":" + number(o.revision) +
             ",\"image\":\"registry.example.com/team-" + number(kind % 17) + "/" + app + "/" + which + ":v" + version +
             "\",\"imageID\":\"registry.example.com/team-" + number(kind % 17) + "/" + app + "/" + which +
             "@sha256:" + hex(kind * 3 + salt, 64) + "\",\"containerID\":\"containerd://" +
             hex(std::uint64_t{o.index} * 131 + salt + o.revision * 7'919ULL, 64) + "\",\"started\":true}";
        separator = ",";
    }
    s += "],\"qosClass\":\"Burstable\"}}";
    return s;
}

/// A pod in the given revision, with default options otherwise.
inline std::string pod(unsigned index, unsigned revision = 0, bool type = false) {
    pod_options o(index);
    o.revision = revision;
    o.type = type;
    return make_pod_json(o);
}

} // namespace informer::testing
