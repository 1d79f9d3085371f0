#include "simulator.hpp"

#include <informer/object/rfc3339.hpp>

#include <boost/json/object.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

namespace devserver {

namespace {

constexpr int node_count = 5;

std::string suffix_of(std::mt19937_64& random, int length) {
    static constexpr std::string_view letters = "bcdfghjklmnpqrstvwxz2456789";
    std::string out;
    for (int i = 0; i < length; ++i) out += letters[random() % letters.size()];
    return out;
}

owner owner_of(const json::value& o) {
    const auto& object = o.as_object();
    const auto& metadata = object.at("metadata").as_object();
    owner out;
    out.api_version = std::string_view(object.at("apiVersion").as_string());
    out.kind = std::string_view(object.at("kind").as_string());
    out.name = std::string_view(metadata.at("name").as_string());
    out.uid = std::string_view(metadata.at("uid").as_string());
    return out;
}

json::value patch_of(std::string_view part, json::object members) {
    json::object o;
    o[part] = std::move(members);
    return o;
}

} // namespace

simulator::simulator(informer::testing::api_server& server, std::shared_ptr<informer::clock> clock, std::uint64_t seed)
    : server_(server), clock_(std::move(clock)), random_(seed) {}

std::string simulator::now() const {
    return informer::rfc3339(clock_->wall());
}

std::size_t simulator::draw(std::size_t below) {
    return static_cast<std::size_t>(random_() % below); // a distribution would differ between standard libraries
}

simulator::milliseconds simulator::between(int low, int high) {
    return milliseconds(low + static_cast<int>(draw(static_cast<std::size_t>(high - low))));
}

void simulator::plan(milliseconds in, action a) {
    agenda_.emplace(time_ + in, std::move(a));
}

void simulator::tolerant(const action& write) {
    try {
        write();
    } catch (const std::exception&) { // NOLINT(bugprone-empty-catch) refused, or not what we knew any more
    }
}

// ---- the stage

void simulator::populate() {
    for (int i = 1; i <= node_count; ++i) add_node(i);
    deployments_.reserve(8);
    add_deployment("shop", "frontend", "registry.example.org/shop/frontend", 4, true, 1);
    add_deployment("shop", "cart", "registry.example.org/shop/cart", 2, false, 2);
    add_deployment("shop", "checkout", "registry.example.org/shop/checkout", 3, true, 3);
    add_deployment("payments", "gateway", "registry.example.org/payments/gateway", 3, true, 4);
    add_deployment("payments", "ledger", "registry.example.org/payments/ledger", 2, false, 5);
    add_deployment("observability", "otel-collector", "otel/opentelemetry-collector", 2, false, 6);
    // The pods run already when the first client looks.
    const auto settled = milliseconds(10'000);
    while (!agenda_.empty() && next() < settled) step();
    time_ = settled;

    // The first half minute follows a script, for demonstrations; afterwards things happen at random.
    plan(milliseconds(1500), [this] { scale(deployments_[0], 6); });
    plan(milliseconds(4500), [this] { roll_out(deployments_[1]); });
    plan(milliseconds(8000), [this] { crash(deployments_[3]); });
    plan(milliseconds(10'000), [this] { fail_node(1); });
    plan(milliseconds(13'000), [this] { scale(deployments_[0], 3); });
    plan(milliseconds(16'000), [this] { recover_node(1); });
    plan(milliseconds(18'000), [this] { something(); });
}

void simulator::add_node(int number) {
    node n;
    n.number = number;
    n.name = fmt::format("worker-{}", number);
    n.ip = fmt::format("172.18.0.{}", number + 10);
    tolerant([&] {
        server_.create(node_document(n.name, number, now()));
        server_.create(lease_document(n.name, informer::rfc3339(clock_->wall(), 6)));
    });
    nodes_.push_back(std::move(n));
    const auto index = nodes_.size() - 1;
    plan(between(1000, 10'000), [this, index] { renew_lease(index); });
}

void simulator::renew_lease(std::size_t n) {
    if (nodes_[n].ready) {
        json::object spec;
        spec["renewTime"] = informer::rfc3339(clock_->wall(), 6);
        tolerant([&] {
            server_.merge_patch("leases.coordination.k8s.io", "kube-node-lease", nodes_[n].name,
                                patch_of("spec", std::move(spec)));
        });
    }
    plan(milliseconds(10'000), [this, n] { renew_lease(n); });
}

void simulator::add_deployment(std::string ns, std::string name, std::string image, std::int64_t replicas, bool sidecar,
                               int number) {
    if (server_.get("namespaces", "", ns).is_null()) server_.create(namespace_document(ns));
    deployment d;
    d.shape.name_space = std::move(ns);
    d.shape.name = std::move(name);
    d.shape.image = std::move(image);
    d.shape.version = fmt::format("v1.{}.0", draw(9));
    d.shape.port = 8000 + number;
    d.shape.replicas = replicas;
    d.shape.sidecar = sidecar;
    d.hash = suffix_of(random_, 9);
    server_.create(config_document(d.shape));
    server_.create(service_document(d.shape, number));
    d.self = owner_of(server_.create(deployment_document(d.shape, now())));
    deployments_.push_back(std::move(d));
    auto& placed = deployments_.back();
    for (std::int64_t i = 0; i < replicas; ++i) add_pod(placed, placed.hash);
    write_counts(placed);
}

simulator::replica_set& simulator::set_of(deployment& d, const std::string& hash) {
    auto& set = d.sets[hash];
    if (!set.self.name.empty()) return set;
    set.shape = d.shape;
    tolerant([&] { set.self = owner_of(server_.create(replica_set_document(d.shape, hash, d.revision, d.self))); });
    if (set.self.name.empty()) set.self.name = d.shape.name + "-" + hash;
    return set;
}

void simulator::event(const json::value& about, std::string_view type, std::string_view reason,
                      const std::string& message, std::string_view component) {
    if (about.is_null()) return;
    const std::string name(std::string_view(about.as_object().at("metadata").as_object().at("name").as_string()));
    const auto unique = fmt::format("{}.{:016x}", name, 0x18f0000000000000U + ++events_);
    tolerant([&] {
        const auto made = server_.create(event_document(about, unique, type, reason, message, component, now()));
        const auto& ns = made.as_object().at("metadata").as_object().at("namespace").as_string();
        told_.emplace_back(std::string(ns), unique);
    });
    // The real server forgets events after an hour; 200 of ours will do here.
    if (told_.size() <= 200) return;
    const auto oldest = std::move(told_.front());
    told_.pop_front();
    tolerant([&] { server_.remove("events", oldest.name_space, oldest.name); });
}

// ---- the life of a pod

std::string simulator::add_pod(deployment& d, const std::string& hash) {
    auto& set = set_of(d, hash);
    pod p;
    p.hash = hash;
    p.name = fmt::format("{}-{}-{}", d.shape.name, hash, suffix_of(random_, 5));
    const auto name = p.name;
    d.pods[name] = std::move(p);
    tolerant([&] { server_.create(pod_document(set.shape, hash, name, set.self, now())); });
    plan(between(120, 300), [this, &d, name] { schedule(d, name); });
    return name;
}

void simulator::schedule(deployment& d, const std::string& name) {
    const auto it = d.pods.find(name);
    if (it == d.pods.end()) return;
    std::vector<std::size_t> ready;
    for (std::size_t n = 0; n < nodes_.size(); ++n) {
        if (nodes_[n].ready) ready.push_back(n);
    }
    if (ready.empty()) {
        plan(milliseconds(1000), [this, &d, name] { schedule(d, name); });
        return;
    }
    it->second.node = ready[draw(ready.size())];
    const auto& on = nodes_[it->second.node];
    tolerant([&] {
        const auto o =
            server_.merge_patch("pods", d.shape.name_space, name, pod_scheduled(on.name, it->second.conditions, now()));
        event(o, "Normal", "Scheduled",
              fmt::format("Successfully assigned {}/{} to {}", d.shape.name_space, name, on.name), "default-scheduler");
    });
    plan(between(150, 300), [this, &d, name] { create_containers(d, name); });
}

void simulator::create_containers(deployment& d, const std::string& name) {
    const auto it = d.pods.find(name);
    if (it == d.pods.end()) return;
    if (!nodes_[it->second.node].ready) {
        replace_pod(d, name);
        return;
    }
    it->second.at = phase::creating;
    const auto& set = set_of(d, it->second.hash);
    tolerant([&] {
        server_.merge_patch("pods", d.shape.name_space, name,
                            pod_creating(set.shape, nodes_[it->second.node].ip, it->second.conditions, now()));
    });
    plan(between(500, 1400), [this, &d, name] { start_pod(d, name); });
}

void simulator::start_pod(deployment& d, const std::string& name) {
    const auto it = d.pods.find(name);
    if (it == d.pods.end()) return;
    auto& p = it->second;
    auto& on = nodes_[p.node];
    if (!on.ready) return;
    if (p.ip.empty()) {
        p.ip = fmt::format("10.244.{}.{}", on.number, on.next_ip);
        on.next_ip = on.next_ip >= 254 ? 2 : on.next_ip + 1;
    }
    p.at = phase::running;
    const auto& set = set_of(d, p.hash);
    tolerant([&] {
        const auto o = server_.merge_patch("pods", d.shape.name_space, name,
                                           pod_running(set.shape, on.ip, p.ip, p.restarts, p.conditions, now()));
        event(o, "Normal", "Started", fmt::format("Started container {}", d.shape.name), "kubelet");
    });
    write_counts(d);
    if (d.rolling) roll_on(d);
}

void simulator::remove_pod(deployment& d, const std::string& name) {
    d.pods.erase(name);
    tolerant([&] { server_.remove("pods", d.shape.name_space, name); });
}

void simulator::replace_pod(deployment& d, const std::string& name) {
    const auto it = d.pods.find(name);
    if (it == d.pods.end()) return;
    const auto hash = it->second.hash;
    remove_pod(d, name);
    // Without its new pod a roll-out would never go on.
    if (count_of(d, {}) < d.shape.replicas || (d.rolling && hash == d.hash)) add_pod(d, d.rolling ? hash : d.hash);
    write_counts(d);
}

std::int64_t simulator::count_of(const deployment& d, const std::string& hash) const {
    return std::count_if(d.pods.begin(), d.pods.end(),
                         [&](const auto& p) { return hash.empty() || p.second.hash == hash; });
}

std::int64_t simulator::ready_of(const deployment& d, const std::string& hash) const {
    return std::count_if(d.pods.begin(), d.pods.end(), [&](const auto& p) {
        return (hash.empty() || p.second.hash == hash) && p.second.at == phase::running;
    });
}

// Also writes the generation of the specification that the status belongs to. Unchanged numbers cause no write: the
// server ignores a patch that changes nothing.
void simulator::write_status(std::string_view resource, const deployment& d, const std::string& name,
                             json::value patch) {
    tolerant([&] {
        const auto o = server_.merge_patch(resource, d.shape.name_space, name, patch);
        json::object status;
        status["observedGeneration"] = o.at_pointer("/metadata/generation");
        server_.merge_patch(resource, d.shape.name_space, name, patch_of("status", std::move(status)));
    });
}

// Writes the numbers that the controllers of Deployments and ReplicaSets would count.
void simulator::write_counts(deployment& d) {
    for (auto& [hash, set] : d.sets) {
        json::object spec, status;
        spec["replicas"] = count_of(d, hash);
        status["replicas"] = count_of(d, hash);
        status["fullyLabeledReplicas"] = count_of(d, hash);
        status["readyReplicas"] = ready_of(d, hash);
        status["availableReplicas"] = ready_of(d, hash);
        json::object patch;
        patch["spec"] = std::move(spec);
        patch["status"] = std::move(status);
        write_status("replicasets.apps", d, set.self.name, std::move(patch));
    }
    json::object status;
    status["replicas"] = count_of(d, {});
    status["updatedReplicas"] = count_of(d, d.hash);
    status["readyReplicas"] = ready_of(d, {});
    status["availableReplicas"] = ready_of(d, {});
    status["unavailableReplicas"] = count_of(d, {}) - ready_of(d, {});
    write_status("deployments.apps", d, d.shape.name, patch_of("status", std::move(status)));
}

// ---- what happens

void simulator::something() {
    auto& d = deployments_[draw(deployments_.size())];
    const auto failed = std::count_if(nodes_.begin(), nodes_.end(), [](const node& n) { return !n.ready; });
    switch (draw(10)) {
    case 0:
    case 1:
    case 2:
    case 3: scale(d, static_cast<std::int64_t>(1 + draw(7))); break;
    case 4:
    case 5:
    case 6: crash(d); break;
    case 7:
    case 8: roll_out(d); break;
    default:
        if (failed == 0) {
            const auto n = draw(nodes_.size());
            fail_node(n);
            plan(between(6000, 15'000), [this, n] { recover_node(n); });
        }
    }
    plan(between(300, 2500), [this] { something(); });
}

void simulator::scale(deployment& d, std::int64_t replicas) {
    const auto before = d.shape.replicas;
    if (d.rolling || replicas == before) return; // one thing at a time
    d.shape.replicas = replicas;
    json::object spec;
    spec["replicas"] = replicas;
    tolerant([&] {
        const auto o = server_.merge_patch("deployments.apps", d.shape.name_space, d.shape.name,
                                           patch_of("spec", std::move(spec)));
        event(o, "Normal", "ScalingReplicaSet",
              fmt::format("Scaled {} replica set {}-{} from {} to {}", replicas > before ? "up" : "down", d.shape.name,
                          d.hash, before, replicas),
              "deployment-controller");
    });
    while (count_of(d, {}) < replicas) add_pod(d, d.hash);
    while (count_of(d, {}) > replicas) {
        auto victim = d.pods.begin();
        std::advance(victim, static_cast<std::ptrdiff_t>(draw(d.pods.size())));
        remove_pod(d, std::string(victim->first));
    }
    write_counts(d);
}

void simulator::roll_out(deployment& d) {
    if (d.rolling) return;
    d.rolling = true;
    ++d.revision;
    d.shape.version = fmt::format("v1.{}.{}", d.revision, draw(9));
    d.hash = suffix_of(random_, 9);
    tolerant([&] {
        auto o = server_.get("deployments.apps", d.shape.name_space, d.shape.name);
        if (o.is_null()) return;
        auto& root = o.as_object();
        auto& container =
            root["spec"].as_object()["template"].as_object()["spec"].as_object()["containers"].as_array().at(0);
        container.as_object()["image"] = d.shape.full_image();
        root["metadata"].as_object()["annotations"].as_object()["deployment.kubernetes.io/revision"] =
            std::to_string(d.revision);
        server_.update(std::move(o));
    });
    add_pod(d, d.hash);
    write_counts(d);
}

// One new pod is ready: an old one may go, and the next new one may come.
void simulator::roll_on(deployment& d) {
    if (ready_of(d, d.hash) < count_of(d, d.hash)) return;
    const auto old =
        std::find_if(d.pods.begin(), d.pods.end(), [&d](const auto& p) { return p.second.hash != d.hash; });
    if (old != d.pods.end()) remove_pod(d, std::string(old->first));
    if (count_of(d, d.hash) < d.shape.replicas) {
        add_pod(d, d.hash);
    } else if (count_of(d, {}) > d.shape.replicas) {
        plan(milliseconds(300), [this, &d] {
            if (d.rolling) roll_on(d);
        });
    } else {
        d.rolling = false;
        while (d.sets.size() > 3) { // revisionHistoryLimit, so to speak
            const auto empty = std::find_if(d.sets.begin(), d.sets.end(), [&](const auto& s) {
                return s.first != d.hash && count_of(d, s.first) == 0;
            });
            if (empty == d.sets.end()) break;
            tolerant([&] { server_.remove("replicasets.apps", d.shape.name_space, empty->second.self.name); });
            d.sets.erase(empty);
        }
    }
    write_counts(d);
}

void simulator::crash(deployment& d) {
    std::vector<std::string> running;
    for (const auto& [name, p] : d.pods) {
        if (p.at == phase::running) running.push_back(name);
    }
    if (running.empty()) return;
    const auto name = running[draw(running.size())];
    auto& p = d.pods[name];
    p.at = phase::crashed;
    ++p.restarts;
    const auto& set = set_of(d, p.hash);
    tolerant([&] {
        const auto o =
            server_.merge_patch("pods", d.shape.name_space, name,
                                pod_crashed(set.shape, nodes_[p.node].ip, p.ip, p.restarts, p.conditions, now()));
        event(o, "Warning", "BackOff", fmt::format("Back-off restarting failed container {}", d.shape.name), "kubelet");
    });
    write_counts(d);
    plan(between(700, 1800), [this, &d, name] { start_pod(d, name); });
}

void simulator::fail_node(std::size_t n) {
    auto& failed = nodes_[n];
    if (!failed.ready) return;
    failed.ready = false;
    tolerant([&] {
        const auto o = server_.merge_patch("nodes", "", failed.name, node_condition_patch(false, failed.number, now()));
        event(o, "Warning", "NodeNotReady", fmt::format("Node {} status is now: NodeNotReady", failed.name),
              "node-controller");
    });
    for (auto& d : deployments_) {
        std::vector<std::string> lost;
        for (const auto& [name, p] : d.pods) {
            if (p.node == n && p.at != phase::pending) lost.push_back(name);
        }
        for (const auto& name : lost) {
            auto& p = d.pods[name];
            p.at = phase::crashed;
            tolerant([&] { server_.merge_patch("pods", d.shape.name_space, name, pod_lost(p.conditions, now())); });
            plan(between(500, 1500), [this, &d, name] { replace_pod(d, name); });
        }
        if (!lost.empty()) write_counts(d);
    }
}

void simulator::recover_node(std::size_t n) {
    auto& back = nodes_[n];
    if (back.ready) return;
    back.ready = true;
    tolerant([&] {
        const auto o = server_.merge_patch("nodes", "", back.name, node_condition_patch(true, back.number, now()));
        event(o, "Normal", "NodeReady", fmt::format("Node {} status is now: NodeReady", back.name), "node-controller");
    });
}

// ---- time

simulator::milliseconds simulator::next() const {
    return agenda_.empty() ? milliseconds::max() : agenda_.begin()->first;
}

void simulator::step() {
    if (agenda_.empty()) return;
    auto first = agenda_.extract(agenda_.begin());
    time_ = std::max(time_, first.key());
    first.mapped()();
}

boost::asio::awaitable<void> simulator::run(simulator* self, double speed) {
    const auto start = self->clock_->now();
    const auto begin = self->time_;
    while (self->next() != milliseconds::max()) {
        const std::chrono::duration<double, std::milli> ahead(static_cast<double>((self->next() - begin).count()) /
                                                              speed);
        const auto when = start + std::chrono::duration_cast<informer::clock::duration>(ahead);
        const bool slept = co_await self->clock_->sleep_until(when);
        if (!slept) co_return;
        self->step();
    }
}

} // namespace devserver
