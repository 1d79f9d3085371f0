#include "preload.hpp"

#include "documents.hpp"

#include <informer/object/rfc3339.hpp>

#include <boost/json/object.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <random>

namespace devserver {

void preload_pods(informer::testing::api_server& server, std::size_t count, std::uint64_t seed,
                  const std::function<void(std::size_t)>& created) {
    constexpr std::size_t namespaces = 10, pods_per_workload = 50, nodes = 200;
    std::mt19937_64 random(seed);
    const auto now = informer::rfc3339(std::chrono::system_clock::now());
    for (std::size_t i = 0; i < std::min(namespaces, count); ++i) {
        server.create(namespace_document(fmt::format("load-{}", i)));
    }
    for (std::size_t i = 0; i < count; ++i) {
        const auto of = i / pods_per_workload;
        workload w;
        w.name_space = fmt::format("load-{}", of % namespaces);
        w.name = fmt::format("service-{}", of);
        w.image = fmt::format("registry.example.org/team-{}/service-{}", of % 7, of);
        w.version = fmt::format("v{}.{}.{}", 1 + of % 3, of % 10, of % 4);
        w.sidecar = of % 2 == 0;
        owner by;
        by.api_version = "apps/v1";
        by.kind = "ReplicaSet";
        const auto hash = fmt::format("{:09x}", (of * 2654435761U) & 0xfffffffffU);
        by.name = fmt::format("{}-{}", w.name, hash);
        by.uid = fmt::format("{:08x}-0000-4000-8000-{:012x}", of, of);
        const auto name = fmt::format("{}-{:05}", by.name, random() % 100'000);
        const auto node = random() % nodes;
        auto pod = pod_document(w, hash, fmt::format("{}-{}", name, i % pods_per_workload), by, now);
        const auto host = fmt::format("10.0.{}.{}", node / 250, node % 250 + 1);
        const auto ip = fmt::format("10.{}.{}.{}", 100 + i / 62'500 % 100, i / 250 % 250, i % 250 + 1);
        json::array conditions;
        pod_scheduled(fmt::format("load-node-{}", node), conditions, now);
        pod_creating(w, host, conditions, now);
        auto running = pod_running(w, host, ip, 0, conditions, now);
        auto& o = pod.as_object();
        o["status"] = std::move(running.as_object()["status"]);
        o["status"].as_object()["qosClass"] = "Burstable";
        o["status"].as_object()["startTime"] = now;
        o["spec"].as_object()["nodeName"] = fmt::format("load-node-{}", node);
        server.create(std::move(pod));
        created(i + 1);
    }
}

} // namespace devserver
