#include "options.hpp"

#include "common/parse.hpp"

#include <informer/version.hpp>

namespace sample_controller {

bool parse(int argc, char** argv, options& o, int& code) {
    CLI::App app("Keeps a Deployment for every Foo (samplecontroller.k8s.io/v1alpha1).", "sample-controller");
    const CLI::Validator seconds = common::between(0.001, 1e9); // what a clock can count
    app.set_version_flag("--version", "sample-controller " INFORMER_VERSION_STRING);
    app.add_option("--kubeconfig", o.kubeconfig,
                   "kubeconfig; default: $KUBECONFIG, ~/.kube/config, the pod's service account");
    app.add_option("--context", o.context, "context of the kubeconfig");
    app.add_option("--cluster", o.cluster, "cluster of the kubeconfig, instead of the context's");
    app.add_option("--user", o.user, "user of the kubeconfig, instead of the context's");
    app.add_option("--server,--master", o.server, "URL of the API server, instead of the kubeconfig's");
    app.add_option("-n,--namespace", o.name_space, "watch this namespace alone; default: all");
    app.add_option("--workers", o.workers, "Foos that are reconciled at the same time")
        ->check(CLI::Range(std::size_t(1), std::size_t(1000)))
        ->capture_default_str();
    app.add_flag("--leader-elect", o.leader_elect, "work only while holding a Lease; several replicas may then run");
    app.add_option("--lease-namespace", o.lease_namespace, "namespace of the Lease")->capture_default_str();
    app.add_option("--lease-name", o.lease_name, "name of the Lease")->capture_default_str();
    app.add_option("--identity", o.identity, "who we are in the Lease; default: host name and a random number");
    app.add_option("--lease-duration", o.lease_duration, "seconds that others wait before they take the Lease")
        ->check(seconds)
        ->capture_default_str();
    app.add_option("--renew-deadline", o.renew_deadline, "seconds without renewal after which we stop leading")
        ->check(seconds)
        ->capture_default_str();
    app.add_option("--retry-period", o.retry_period, "seconds between renewals")->check(seconds)->capture_default_str();
    app.add_option("--http-port", o.http_port,
                   "serve /metrics, /healthz and /readyz on this port; 0: any (it is logged); default: not");
    app.add_option("--http-address", o.http_address, "address for --http-port (default: all)");
    app.add_flag("--metrics-auth", o.metrics_auth,
                 "show /metrics to whom the API server allows it; we need the ClusterRole system:auth-delegator");
    auto* cert = app.add_option("--tls-cert-file", o.tls_cert_file,
                                "serve HTTPS with this certificate (PEM); it may be rotated");
    auto* key = app.add_option("--tls-private-key-file", o.tls_private_key_file, "the key of the certificate (PEM)");
    cert->needs(key);
    key->needs(cert);
    app.add_flag("-v,--verbose", o.verbosity, "log more (-vv: each request)");
    return common::parse(app, argc, argv, code);
}

} // namespace sample_controller
