// sample-controller as a program, beside a devserver; curl plays kubectl and the Deployment controller.
#include "apps/programs.hpp"

#include <informer/testing/certificates.hpp>

#include <algorithm>
#include <chrono>
#include <functional>

using namespace programs;
namespace json = boost::json;

namespace {

constexpr const char* foos_path = "/apis/samplecontroller.k8s.io/v1alpha1/namespaces/default/foos";
constexpr const char* deployments_path = "/apis/apps/v1/namespaces/default/deployments";
constexpr const char* lease_path = "/apis/coordination.k8s.io/v1/namespaces/default/leases/sample-controller";

/// Checks again until the condition holds, for a minute at most. Each check runs curl, so no pause is needed.
bool until(const std::function<bool()>& holds) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!holds())
        if (std::chrono::steady_clock::now() >= end) return false;
    return true;
}

struct cluster : server {
    explicit cluster(bool with_crd = true) {
        if (with_crd) install_crd();
    }
    void install_crd(const std::string& subresources = R"({"status":{}})") const {
        curl("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
             R"({"apiVersion":"apiextensions.k8s.io/v1",
            "kind":"CustomResourceDefinition","metadata":{"name":"foos.samplecontroller.k8s.io","annotations":
            {"api-approved.kubernetes.io":"unapproved, a test"}},"spec":{"group":"samplecontroller.k8s.io",
            "scope":"Namespaced","names":{"kind":"Foo","listKind":"FooList","plural":"foos","singular":"foo"},"versions":[{"name":"v1alpha1",
            "served":true,"storage":true,"subresources":)" +
                 subresources + R"(,"schema":{"openAPIV3Schema":{"type":"object",
            "x-kubernetes-preserve-unknown-fields":true}}}]}})");
    }
    json::value read(const std::string& path) const { return json::parse(curl("GET", path)); }
    void make_foo(const std::string& name, const std::string& deployment, int replicas) const {
        curl("POST", foos_path,
             R"({"apiVersion":"samplecontroller.k8s.io/v1alpha1","kind":"Foo","metadata":{"name":")" + name +
                 R"("},"spec":{"deploymentName":")" + deployment + R"(","replicas":)" + std::to_string(replicas) +
                 "}}");
    }
    void patch(const std::string& path, const std::string& body) const {
        curl("PATCH", path, body, "application/merge-patch+json");
    }
    json::value deployment(const std::string& name) const { return read(std::string(deployments_path) + "/" + name); }
    bool has(const std::string& name) const { return deployment(name).at("kind") == "Deployment"; }
    std::int64_t number(const json::value& of, const std::string& pointer) const {
        boost::system::error_code ec;
        const auto* v = of.find_pointer(pointer, ec);
        return v != nullptr && v->is_int64() ? v->as_int64() : -1;
    }
    bool has_event(const std::string& reason, const std::string& note) const {
        const auto all = read("/apis/events.k8s.io/v1/namespaces/default/events");
        return std::any_of(all.at("items").as_array().begin(), all.at("items").as_array().end(),
                           [&](const json::value& e) {
                               return e.at("reason") == json::string(reason) &&
                                      std::string_view(e.at("note").as_string()).find(note) != std::string_view::npos;
                           });
    }
    std::string holder() const {
        const auto lease = read(lease_path);
        boost::system::error_code ec;
        const auto* v = lease.find_pointer("/spec/holderIdentity", ec);
        return v != nullptr && v->is_string() ? std::string(v->as_string()) : std::string();
    }
};

/// A running sample-controller.
class replica {
public:
    explicit replica(const cluster& c, std::vector<std::string> options = {}) {
        std::vector<std::string> command{bin("sample-controller"), "--kubeconfig", c.kubeconfig(), "--http-port", "0",
                                         "--http-address",         "127.0.0.1"};
        command.insert(command.end(), options.begin(), options.end());
        process_ = std::make_unique<process>(command);
        const std::string mark = "/readyz on port ";
        REQUIRE(process_->error_holds(mark));
        const auto& log = process_->err();
        const bool tls = std::find(options.begin(), options.end(), "--tls-cert-file") != options.end();
        url_ = (tls ? "https://127.0.0.1:" : "http://127.0.0.1:") +
               std::to_string(std::stoi(log.substr(log.find(mark) + mark.size())));
    }
    process& child() { return *process_; }
    /// Status code and body.
    std::pair<int, std::string> get(const std::string& path, const std::string& token = {}) const {
        process p({"curl", "-sk", "--max-time", "20", "-w", "\n%{http_code}", "-H",
                   token.empty() ? "Accept: */*" : "Authorization: Bearer " + token, url_ + path});
        if (p.wait() != 0) return {0, ""};
        const auto nl = p.out().rfind('\n');
        return {std::stoi(p.out().substr(nl + 1)), p.out().substr(0, nl)};
    }
    bool ready() const { return get("/readyz").first == 200; }

private:
    std::unique_ptr<process> process_;
    std::string url_;
};

std::vector<std::string> electing(const std::string& identity) {
    return {"--leader-elect", "--identity", identity, "--lease-duration", "3", "--renew-deadline", "2",
            "--retry-period", "0.3"};
}

} // namespace

TEST_CASE("sample-controller: a Deployment for every Foo, in step with it, and its availability in the Foo's status",
          "[sample-controller]") {
    const cluster c;
    replica r(c);
    REQUIRE(until([&] { return r.ready(); }));
    c.make_foo("one", "one-deployment", 3);
    REQUIRE(until([&] { return c.has("one-deployment"); }));
    auto d = c.deployment("one-deployment");
    CHECK(c.number(d, "/spec/replicas") == 3);
    const auto& owner = d.at_pointer("/metadata/ownerReferences/0");
    CHECK(owner.at("kind") == "Foo");
    CHECK(owner.at("name") == "one");
    CHECK(owner.at("controller") == true);
    CHECK(owner.at("uid") == c.read(std::string(foos_path) + "/one").at_pointer("/metadata/uid"));
    REQUIRE(until([&] { return c.has_event("Synced", "synced successfully"); }));
    // Somebody scales the Deployment: it is set back. Somebody scales the Foo: the Deployment follows.
    c.patch(std::string(deployments_path) + "/one-deployment", R"({"spec":{"replicas":7}})");
    CHECK(until([&] { return c.number(c.deployment("one-deployment"), "/spec/replicas") == 3; }));
    c.patch(std::string(foos_path) + "/one", R"({"spec":{"replicas":5}})");
    CHECK(until([&] { return c.number(c.deployment("one-deployment"), "/spec/replicas") == 5; }));
    // The Foo shows how many replicas are available.
    c.patch(std::string(deployments_path) + "/one-deployment/status", R"({"status":{"availableReplicas":4}})");
    CHECK(until([&] { return c.number(c.read(std::string(foos_path) + "/one"), "/status/availableReplicas") == 4; }));
    // A deleted Deployment is created again; when the Foo names another one, the old one is deleted.
    c.curl("DELETE", std::string(deployments_path) + "/one-deployment");
    CHECK(until([&] { return c.has("one-deployment"); }));
    c.patch(std::string(foos_path) + "/one", R"({"spec":{"deploymentName":"renamed"}})");
    CHECK(until([&] { return c.has("renamed") && !c.has("one-deployment"); }));

    const std::string metrics = r.get("/metrics").second;
    for (const char* name :
         {"controller_runtime_reconcile_total{controller=\"foos\",result=\"success\"}", "workqueue_adds_total{",
          "workqueue_depth{", "rest_client_requests_total{",
          "informer_objects{resource=\"foos.samplecontroller.k8s.io\"} 1", "process_resident_memory_bytes"}) {
        INFO(name);
        CHECK(metrics.find(name) != std::string::npos);
    }
    r.child().signal(SIGTERM);
    CHECK(r.child().wait() == 0);
}

TEST_CASE("sample-controller: an invalid Foo is reported until it is changed", "[sample-controller]") {
    const cluster c;
    replica r(c);
    REQUIRE(until([&] { return r.ready(); }));
    c.make_foo("one", "", 1);
    CHECK(until([&] { return c.has_event("ErrInvalidFoo", "/spec/deploymentName: must not be empty"); }));
    c.patch(std::string(foos_path) + "/one", R"({"spec":{"deploymentName":"one-deployment","replicas":"many"}})");
    CHECK(until([&] { return c.has_event("ErrInvalidFoo", "/spec/replicas: expected a whole number"); }));
    CHECK_FALSE(c.has("one-deployment"));
    c.patch(std::string(foos_path) + "/one", R"({"spec":{"replicas":2}})");
    CHECK(until([&] { return c.has("one-deployment"); }));
    r.child().signal(SIGTERM);
    CHECK(r.child().wait() == 0);
}

TEST_CASE("sample-controller: a Deployment that is not of the Foo is left alone and reported", "[sample-controller]") {
    const cluster c;
    c.curl("POST", deployments_path,
           R"({"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"taken"},"spec":{"replicas":1,
        "selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"x","image":"y"}]}}}})");
    replica r(c);
    REQUIRE(until([&] { return r.ready(); }));
    c.make_foo("late", "taken", 4);
    CHECK(until([&] { return c.has_event("ErrResourceExists", "already exists and is not managed by Foo"); }));
    CHECK(c.number(c.deployment("taken"), "/spec/replicas") == 1);
    c.curl("DELETE", std::string(deployments_path) + "/taken");
    CHECK(until([&] { return c.number(c.deployment("taken"), "/spec/replicas") == 4; })); // tried again
}

TEST_CASE("sample-controller: without the CRD it stays up, alive and not ready, and says why", "[sample-controller]") {
    const cluster c(false);
    replica r(c);
    CHECK(until([&] {
        return r.get("/readyz").second.find("foos.samplecontroller.k8s.io is not in sync: parked") != std::string::npos;
    }));
    CHECK(r.get("/readyz").first == 503);
    CHECK(r.get("/healthz").first == 200);
    CHECK(r.child().running());
    r.child().signal(SIGTERM);
    CHECK(r.child().wait() == 0);
}

TEST_CASE("sample-controller: a definition without the status subresource is reported", "[sample-controller]") {
    const cluster c(false);
    c.install_crd("{}");
    replica r(c);
    c.make_foo("a", "nginx", 1);
    CHECK(r.child().error_holds("has its definition the status subresource?"));
    CHECK(c.has("nginx"));
}

TEST_CASE("sample-controller: one replica leads, the standby is ready; the leader is killed, stopped, or loses",
          "[sample-controller]") {
    const cluster c;
    auto a = std::make_unique<replica>(c, electing("a"));
    REQUIRE(until([&] { return c.holder() == "a"; }));
    replica b(c, electing("b"));
    CHECK(until([&] { return b.ready(); }));
    CHECK(b.get("/healthz").first == 200);
    c.make_foo("one", "one", 1);
    REQUIRE(until([&] { return c.has("one"); }));
    // The leader is killed: the standby takes over when the Lease has expired.
    a->child().signal(SIGKILL);
    a->child().wait();
    REQUIRE(until([&] { return c.holder() == "b"; }));
    c.make_foo("two", "two", 1);
    CHECK(until([&] { return c.has("two"); }));
    CHECK(b.get("/metrics").second.find("leader_election_master_status{name=\"sample-controller\"} 1") !=
          std::string::npos);
    // A clean stop gives the Lease up.
    b.child().signal(SIGTERM);
    CHECK(b.child().wait() == 0);
    CHECK(c.holder().empty());
    // Somebody takes the Lease away from the leader: exit code 1, and one line that says so.
    replica d(c, electing("d"));
    REQUIRE(until([&] { return c.holder() == "d"; }));
    c.patch(
        lease_path,
        R"({"spec":{"holderIdentity":"usurper","leaseDurationSeconds":3600,"renewTime":"2100-01-01T00:00:00.000000Z"}})");
    CHECK(d.child().wait() == 1);
    CHECK(d.child().err().find("sample-controller: the lease is lost\n") != std::string::npos);
}

TEST_CASE("sample-controller: a leader that is stopped while the API server and a reconcile hang ends well",
          "[sample-controller]") {
    cluster c(false);
    c.install_crd("{}"); // so that the reconcile is tried again and again
    replica a(c, {"--leader-elect", "--identity", "a", "--lease-duration", "8", "--renew-deadline", "6",
                  "--retry-period", "1"});
    c.make_foo("one", "one", 1);
    REQUIRE(a.child().error_holds("has its definition the status subresource?"));
    c.child().signal(SIGSTOP);
    REQUIRE(until([&] {
        return a.get("/metrics").second.find("controller_runtime_active_workers{controller=\"foos\"} 1") !=
               std::string::npos;
    }));
    a.child().signal(SIGTERM);
    CHECK(a.child().wait() == 0);
    CHECK(a.child().err().find("lost: the Lease could not be renewed in time") != std::string::npos);
}

TEST_CASE("sample-controller: with --metrics-auth /metrics is for whom RBAC allows it", "[sample-controller]") {
    const cluster c;
    const std::string rbac = "/apis/rbac.authorization.k8s.io/v1/",
                      accounts = "/api/v1/namespaces/default/serviceaccounts";
    c.curl("POST", accounts, R"({"metadata":{"name":"prometheus"}})");
    c.curl("POST", rbac + "clusterroles",
           R"({"metadata":{"name":"reader"},"rules":[{"nonResourceURLs":["/metrics"],"verbs":["get"]}]})");
    c.curl("POST", rbac + "clusterrolebindings",
           R"({"metadata":{"name":"reader"},"roleRef":{"kind":"ClusterRole","name":"reader"},
               "subjects":[{"kind":"ServiceAccount","namespace":"default","name":"prometheus"}]})");
    const auto request = json::parse(c.curl("POST", accounts + "/prometheus/token", "{}"));
    const std::string token(request.at_pointer("/status/token").as_string());
    const auto pair = informer::testing::certificate_authority().server({"127.0.0.1"});
    replica r(c, {"--metrics-auth", "--tls-cert-file", c.folder().write("tls.crt", pair.certificate_pem),
                  "--tls-private-key-file", c.folder().write("tls.key", pair.key_pem)});
    CHECK(r.get("/metrics").first == 401);
    CHECK(r.get("/metrics", token).first == 200);
    CHECK(until([&] { return r.ready(); }));
    r.child().signal(SIGTERM);
    CHECK(r.child().wait() == 0);
}

TEST_CASE("sample-controller: exit code 2 for bad usage, 1 for other errors, each with one line",
          "[sample-controller]") {
    const auto ends = [](std::vector<std::string> arguments) {
        arguments.insert(arguments.begin(), bin("sample-controller"));
        process p(arguments);
        const int code = p.wait();
        CHECK(std::count(p.err().begin(), p.err().end(), '\n') <= 1);
        return std::make_pair(code, p.err());
    };
    CHECK(ends({"--nonsense"}).first == 2);
    CHECK(ends({"--workers", "0"}).first == 2);
    CHECK(ends({"--leader-elect", "--lease-duration", "1e12"}).first == 2); // more than a clock can count
    CHECK(ends({"--tls-cert-file", "tls.crt"}).first == 2);
    CHECK(ends({"--help"}).first == 0);
    CHECK(ends({"--kubeconfig", "/nonexistent"}).first == 1);
    const cluster c;
    CHECK(ends({"--kubeconfig", c.kubeconfig(), "--user", "nobody"}).second.find("no user \"nobody\"") !=
          std::string::npos);
    CHECK(ends({"--kubeconfig", c.kubeconfig(), "--cluster", "none"}).second.find("no cluster \"none\"") !=
          std::string::npos);
    const auto bad = ends({"--kubeconfig", c.kubeconfig(), "--leader-elect", "--lease-duration", "1"});
    CHECK(bad.first == 1);
    CHECK(bad.second.find("lease") != std::string::npos);
    const auto port = c.url.substr(c.url.rfind(':') + 1);
    CHECK(ends({"--kubeconfig", c.kubeconfig(), "--http-port", port}).second.find(port) != std::string::npos);
    const auto no_pair = ends({"--kubeconfig", c.kubeconfig(), "--http-port", "0", "--tls-cert-file", "/none/tls.crt",
                               "--tls-private-key-file", "/none/tls.key"});
    CHECK(no_pair.first == 1);
    CHECK(no_pair.second.find("/none/tls.crt: no such file") != std::string::npos);
}
