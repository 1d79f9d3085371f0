// A small living cluster: what its controllers, scheduler and kubelets would write, written directly.
#pragma once

#include "documents.hpp"

#include <informer/object/object_key.hpp>
#include <informer/runtime.hpp>
#include <informer/testing/api_server.hpp>

#include <boost/asio/awaitable.hpp>

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace devserver {

/// Runs in simulated time: a queue of actions, each of which writes objects and plans more actions. The same seed gives
/// the same sequence of writes at any speed. Objects of other clients are left alone.
class simulator {
public:
    using milliseconds = std::chrono::milliseconds;

    simulator(informer::testing::api_server& server, std::shared_ptr<informer::clock> clock, std::uint64_t seed);

    /// Creates nodes, namespaces, and deployments with running pods.
    void populate();
    /// When the next action is due, in simulated time since the start.
    milliseconds next() const;
    /// Runs the next action.
    void step();
    /// Runs actions until cancelled, `speed` times as fast as the clock. The simulator must outlive it.
    static boost::asio::awaitable<void> run(simulator* self, double speed);

private:
    struct node {
        std::string name, ip;
        int number = 0;
        bool ready = true;
        int next_ip = 2;
    };
    enum class phase { pending, creating, running, crashed };
    struct pod {
        std::string name, hash;
        phase at = phase::pending;
        std::size_t node = 0;
        std::string ip;
        std::int64_t restarts = 0;
        json::array conditions;
    };
    struct replica_set {
        owner self;
        workload shape; ///< as of its revision
    };
    struct deployment {
        workload shape;
        owner self;
        std::int64_t revision = 1;
        std::string hash;                        ///< of the current revision
        std::map<std::string, replica_set> sets; ///< by hash
        std::map<std::string, pod> pods;         ///< by name
        bool rolling = false;
    };
    using action = std::function<void()>;

    std::string now() const;
    std::size_t draw(std::size_t below);
    milliseconds between(int low, int high);
    void plan(milliseconds in, action a);
    /// Ignores what `write` throws: somebody else may have changed or deleted the object.
    static void tolerant(const action& write);

    void add_node(int number);
    void renew_lease(std::size_t n);
    void add_deployment(std::string ns, std::string name, std::string image, std::int64_t replicas, bool sidecar,
                        int number);
    replica_set& set_of(deployment& d, const std::string& hash);
    std::string add_pod(deployment& d, const std::string& hash);
    void remove_pod(deployment& d, const std::string& name);
    /// The pod's node has failed: another pod takes its place.
    void replace_pod(deployment& d, const std::string& name);
    void schedule(deployment& d, const std::string& name);
    void create_containers(deployment& d, const std::string& name);
    void start_pod(deployment& d, const std::string& name);
    void write_status(std::string_view resource, const deployment& d, const std::string& name,
                      boost::json::value patch);
    void write_counts(deployment& d);
    std::int64_t ready_of(const deployment& d, const std::string& hash) const;
    std::int64_t count_of(const deployment& d, const std::string& hash) const;
    void event(const json::value& about, std::string_view type, std::string_view reason, const std::string& message,
               std::string_view component);

    void something();
    void scale(deployment& d, std::int64_t replicas);
    void roll_out(deployment& d);
    void roll_on(deployment& d);
    void crash(deployment& d);
    void fail_node(std::size_t n);
    void recover_node(std::size_t n);

    informer::testing::api_server& server_;
    std::shared_ptr<informer::clock> clock_;
    std::mt19937_64 random_;
    std::multimap<milliseconds, action> agenda_;
    milliseconds time_{0};
    std::vector<node> nodes_;
    std::vector<deployment> deployments_;   ///< never grows after populate(): actions keep references
    std::deque<informer::object_key> told_; ///< our Events that still exist, the oldest first
    std::uint64_t events_ = 0;
};

} // namespace devserver
