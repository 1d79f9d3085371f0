// Objects of other kinds than pods, as an API server sends them.
//
//   configmaps  1 KB to 1 MB, sizes spread evenly by their logarithm; long multi-line texts that no other object has;
//               an update makes one of them longer or shorter, in its middle
//   secrets     4 to 8 KB, nearly all base64, nothing shared
//   events      about 1.3 KB: core/v1 Events, with messages of their own
//   crs         about 6.5 KB: custom resources, trees of depth 17 with many small arrays, a part of them shared
//   leases      about 0.9 KB: node leases, meant to be renewed every second
#pragma once

#include "support/pod_generator.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace informer::testing {

struct object_kind {
    std::string_view name, group, version, resource, kind;
};

inline constexpr object_kind object_kinds[] = {
    {"pods", "", "v1", "pods", "Pod"},
    {"configmaps", "", "v1", "configmaps", "ConfigMap"},
    {"secrets", "", "v1", "secrets", "Secret"},
    {"events", "", "v1", "events", "Event"},
    {"crs", "bench.example.com", "v1", "widgets", "Widget"},
    {"leases", "coordination.k8s.io", "v1", "leases", "Lease"},
};

inline const object_kind* find_object_kind(std::string_view name) {
    for (const object_kind& k : object_kinds)
        if (k.name == name) return &k;
    return nullptr;
}

struct object_options {
    explicit object_options(std::string_view kind_name, unsigned object_index = 0)
        : kind(kind_name), index(object_index) {}
    std::string_view kind;
    unsigned index = 0;
    unsigned replicas = 20;  ///< pods per Deployment; for crs, objects per group that shares parts
    unsigned structures = 1; ///< for pods: see pod_options
    std::uint64_t resource_version = 0;
    unsigned revision = 0; ///< another value is another version, as an update would make it
    bool managed_fields = true;
    bool type = false; ///< apiVersion and kind
};

namespace object_detail {

using namespace pod_detail;

/// Digits that a replay of an update overwrites: see recorded_corpus.
inline std::string revision_mark(const object_options& o) {
    return "bench-revision-" + hex(o.index * 131ULL + o.revision * 7'919ULL, 8);
}

inline std::string metadata(const object_options& o, const std::string& name, const std::string& space,
                            std::string_view more, std::string_view manager, std::string_view fields) {
    const std::string born = time(mix(o.index) % 2'000'000);
    std::string s = "\"metadata\":{\"name\":\"" + name + "\",\"namespace\":\"" + space + "\",\"uid\":\"" +
                    uuid(o.index + 1) + "\",\"resourceVersion\":\"" +
                    number(o.resource_version ? o.resource_version : o.index + 1) + "\",\"creationTimestamp\":\"" +
                    born + "\"";
    s += more;
    if (o.managed_fields) {
        s += ",\"managedFields\":[{\"manager\":\"";
        s.append(manager).append("\",\"operation\":\"Update\",\"apiVersion\":\"v1\",\"time\":\"").append(born);
        s.append("\",\"fieldsType\":\"FieldsV1\",\"fieldsV1\":{").append(fields).append("}}]");
    }
    return s + "}";
}

/// Words in an order that differs from object to object.
inline std::string prose(std::uint64_t seed, std::size_t bytes) {
    static constexpr std::string_view words[] = {"server",  "listen", "timeout", "upstream", "match", "level",
                                                 "info",    "route",  "policy",  "enabled",  "true",  "cluster",
                                                 "backend", "port",   "retry",   "limit"};
    std::string s;
    s.reserve(bytes + 24);
    for (std::uint64_t i = 0; s.size() < bytes; ++i) {
        const std::uint64_t r = mix(seed * 1'000'003ULL + i);
        s.append(words[r % 16]).append(r / 16 % 4 == 0 ? ":" : "").append(" ").append(number(r / 64 % 10'000));
        s.append(r / 1024 % 6 == 0 ? "\\n  " : " ");
    }
    s.resize(bytes);
    while (!s.empty() && s.back() == '\\') s.back() = 'x'; // the cut may be in the middle of an escape
    return s;
}

inline std::string base64ish(std::uint64_t seed, std::size_t bytes) {
    static constexpr std::string_view digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    std::string s(bytes / 4 * 4, '=');
    for (std::size_t i = 0; i + 1 < s.size(); ++i) {
        if (i % 10 == 0) seed = mix(seed + i + 1);
        // The group before the padding has 16 bits, so its last digit has only four significant bits. The others must
        // be zero: Go writes them so, and Rust reads nothing else.
        s[i] = digits[seed >> (i % 10 * 6) & (i + 2 == s.size() ? 60 : 63)];
    }
    return s;
}

inline std::string config_map(const object_options& o) {
    const double u = static_cast<double>(mix(o.index + 17) % 10'000) / 10'000;
    const auto bytes = static_cast<std::size_t>(1024 * std::exp2(10 * u));
    const std::string app = "service-" + number(o.index);
    // An edited line: its length differs in each of three successive revisions.
    const std::string line =
        "\\n  edited: " + prose(o.index * 1'000'033ULL + o.revision, 20 + 30 * (o.revision % 3)) + "\\n  ";
    return metadata(o, app + "-config", "team-" + number(o.index % 50),
                    ",\"labels\":{\"app.kubernetes.io/name\":\"" + app +
                        "\"},\"annotations\":{\"example.com/origin\":\"git\"}",
                    "helm", "\"f:data\":{\".\":{},\"f:revision\":{},\"f:settings.yaml\":{},\"f:values\":{}}") +
           ",\"data\":{\"revision\":\"" + revision_mark(o) + "\",\"settings.yaml\":\"" +
           prose(o.index * 4ULL, bytes * 3 / 8) + line + prose(o.index * 4ULL + 1, bytes * 3 / 8) + "\",\"values\":\"" +
           prose(o.index * 4ULL + 2, bytes / 4) + "\"}";
}

inline std::string secret(const object_options& o) {
    const std::string app = "service-" + number(o.index);
    const std::size_t bytes = 1'000 + mix(o.index + 5) % 2'000;
    return metadata(o, app + "-tls", "team-" + number(o.index % 50),
                    ",\"annotations\":{\"cert-manager.io/common-name\":\"" + app +
                        ".example.com\",\"example.com/revision\":\"" + revision_mark(o) + "\"}",
                    "cert-manager",
                    "\"f:data\":{\".\":{},\"f:ca.crt\":{},\"f:tls.crt\":{},\"f:tls.key\":{}},\"f:type\":{}") +
           ",\"data\":{\"ca.crt\":\"" + base64ish(7, 800) + "\",\"tls.crt\":\"" +
           base64ish(o.index * 2ULL + 100, bytes) + "\",\"tls.key\":\"" + base64ish(o.index * 2ULL + 101, bytes) +
           "\"},\"type\":\"kubernetes.io/tls\"";
}

inline std::string core_event(const object_options& o) {
    static constexpr std::string_view reasons[] = {"Scheduled", "Pulled", "Created", "Started", "Unhealthy", "BackOff"};
    const unsigned kind = o.index / 20;
    const std::string space = "team-" + number(kind % 50),
                      pod = "service-" + number(kind) + "-" + hex(kind + 77, 10) + "-" + hex(o.index, 5);
    const std::string node = "node-" + number(mix(o.index) % 500) + ".pool-a.example.internal";
    const std::string first = time(mix(o.index) % 2'000'000), last = time(mix(o.index) % 2'000'000 + 60 + o.revision);
    return metadata(
               o, pod + "." + hex(o.index + 9, 16), space,
               ",\"annotations\":{\"example.com/revision\":\"" + revision_mark(o) + "\"}", "kubelet",
               "\"f:count\":{},\"f:firstTimestamp\":{},\"f:involvedObject\":{},\"f:lastTimestamp\":{},\"f:message\":{},"
               "\"f:reason\":{},\"f:reportingComponent\":{},\"f:reportingInstance\":{},\"f:source\":{\"f:component\":{}"
               ","
               "\"f:host\":{}},\"f:type\":{}") +
           ",\"involvedObject\":{\"kind\":\"Pod\",\"namespace\":\"" + space + "\",\"name\":\"" + pod + "\",\"uid\":\"" +
           uuid(o.index + 9'000'000ULL) + "\",\"apiVersion\":\"v1\",\"resourceVersion\":\"" +
           number(1'000'000 + o.index * 3ULL) + "\",\"fieldPath\":\"spec.containers{app}\"},\"reason\":\"" +
           std::string(reasons[o.index % 6]) +
           "\",\"message\":\"Successfully pulled image \\\"registry.example.com/team-" + number(kind % 17) +
           "/service-" + number(kind) + ":v1\\\" in " + number(mix(o.index + 3) % 900) + "ms (" +
           number(mix(o.index + 4) % 9000) +
           "ms including waiting)\",\"source\":{\"component\":\"kubelet\",\"host\":\"" + node +
           "\"},\"firstTimestamp\":\"" + first + "\",\"lastTimestamp\":\"" + last +
           "\",\"count\":" + number(1 + o.revision) +
           ",\"type\":\"Normal\",\"eventTime\":null,\"reportingComponent\":\"kubelet\",\"reportingInstance\":\"" +
           node + "\"";
}

/// A tree: `depth` levels of objects, and below them arrays of three small leaves. Half of the branches do not depend
/// on the object.
inline std::string tree(std::uint64_t own, std::uint64_t shared, unsigned depth) {
    if (depth == 0)
        return "[{\"weight\":" + number(mix(shared) % 100) + ",\"match\":{\"prefix\":\"/api/v" +
               number(mix(own) % 1000) + "\"}},{\"weight\":" + number(mix(shared + 1) % 100) + ",\"ratio\":0." +
               number(mix(shared + 2) % 100 + 1) + "},{\"headers\":[\"x-request-id\",\"x-" + hex(shared, 6) +
               "\"],\"enabled\":true,\"note\":null}]";
    std::string s = "{\"name\":\"level-" + number(depth) + "\",\"rules\":" + tree(shared, shared, 0);
    if (depth % 4 == 0) s += ",\"alternative\":" + tree(shared + depth, shared + depth, depth / 2);
    return s + ",\"next\":" + tree(own + depth, shared + depth, depth - 1) + "}";
}

inline std::string custom_resource(const object_options& o) {
    const unsigned family = o.index / (o.replicas ? o.replicas : 1);
    const std::string born = time(mix(o.index) % 2'000'000 + o.revision);
    return metadata(o, "widget-" + number(family) + "-" + hex(o.index, 6), "team-" + number(family % 50),
                    ",\"generation\":3,\"labels\":{\"example.com/family\":\"" + number(family) +
                        "\"},\"annotations\":{\"example.com/revision\":\"" + revision_mark(o) +
                        "\"},\"finalizers\":[\"example.com/cleanup\"]",
                    "widget-controller",
                    "\"f:spec\":{\".\":{},\"f:root\":{\".\":{},\"f:name\":{},\"f:next\":{},\"f:rules\":{}}},\"f:"
                    "status\":{\".\":{},"
                    "\"f:conditions\":{},\"f:observedGeneration\":{}}") +
           ",\"spec\":{\"root\":" + tree(o.index * 31ULL + 1, family * 17ULL + 5'000'000'000ULL, 12) +
           "},\"status\":{\"observedGeneration\":3,\"conditions\":[{\"type\":\"Ready\",\"status\":\"True\",\"reason\":"
           "\"Reconciled\","
           "\"message\":\"\",\"lastTransitionTime\":\"" +
           born + "\"}]}";
}

inline std::string lease(const object_options& o) {
    const std::string node = "node-" + number(o.index) + ".pool-a.example.internal";
    std::string renewed = time(mix(o.index) % 2'000'000 + o.revision);
    renewed.insert(renewed.size() - 1, ".518273"); // a MicroTime
    return metadata(o, node, "kube-node-lease",
                    ",\"annotations\":{\"example.com/"
                    "pool\":\"pool-a\"},\"ownerReferences\":[{\"apiVersion\":\"v1\",\"kind\":\"Node\","
                    "\"name\":\"" +
                        node + "\",\"uid\":\"" + uuid(o.index + 3'000'000ULL) + "\"}]",
                    "kubelet",
                    "\"f:metadata\":{\"f:ownerReferences\":{\".\":{},\"k:{\\\"uid\\\":\\\"u\\\"}\":{}}},\"f:spec\":{"
                    "\"f:holderIdentity\":{},\"f:leaseDurationSeconds\":{},\"f:renewTime\":{}}") +
           ",\"spec\":{\"holderIdentity\":\"" + node + "\",\"leaseDurationSeconds\":40,\"renewTime\":\"" + renewed +
           "\"}";
}

} // namespace object_detail

/// One object as JSON text; the same options give the same text.
inline std::string make_object_json(const object_options& o) {
    using namespace object_detail;
    if (o.kind == "pods") {
        pod_options p(o.index);
        p.replicas = o.replicas;
        p.structures = o.structures;
        p.resource_version = o.resource_version;
        p.revision = o.revision;
        p.managed_fields = o.managed_fields;
        p.type = o.type;
        return make_pod_json(p);
    }
    std::string s = "{";
    if (o.type) {
        const object_kind& k = *find_object_kind(o.kind);
        s.append("\"kind\":\"").append(k.kind).append("\",\"apiVersion\":\"").append(k.group);
        s.append(k.group.empty() ? "" : "/").append(k.version).append("\",");
    }
    if (o.kind == "configmaps") s += config_map(o);
    if (o.kind == "secrets") s += secret(o);
    if (o.kind == "events") s += core_event(o);
    if (o.kind == "crs") s += custom_resource(o);
    if (o.kind == "leases") s += lease(o);
    return s + "}";
}

} // namespace informer::testing
