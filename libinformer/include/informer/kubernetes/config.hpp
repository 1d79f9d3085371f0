// How to reach a cluster: kubeconfig files and in-cluster configuration.
#pragma once

#include <informer/error.hpp>
#include <informer/http/client.hpp>
#include <informer/http/proxy.hpp>
#include <informer/http/tls_files.hpp>
#include <informer/object/framer.hpp>

#include <chrono>
#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace informer::kubernetes {

/// A program that tells who we are, as EKS, GKE and AKS have one (kubeconfig: users[].user.exec; client.authentication.k8s.io). It
/// is run for the first request, and again for the next one after its credential came near its end (`expirationTimestamp`; a
/// minute, or a fifth of its life where that is less) or was refused (401), but not within ten seconds of the run before. All
/// requests of a client wait for one run, but none for one before that end; none of them holds the executor. Not run where a token,
/// a user name or a client certificate is given as well, as with client-go, nor for a server to which credentials are not sent.
///
/// There is no shell, nothing on its stdin, and no terminal. It gets the environment of the process, with `environment`, and
/// $KUBERNETES_EXEC_INFO, and writes an ExecCredential (JSON, with a token, a client certificate and its key, or both) to stdout, 1
/// MiB at most. When the process has ended so has the run, whoever still holds its stdout. One that takes longer than `time_limit`,
/// writes too much, lost the last who waited for it or outlives its client is killed, with its whole process group. (Whose time
/// limit is over asks again, mostly: for ten seconds it runs on, for him to find it where it was. Lists and watches wait for 25 s
/// at a time.) No thread and no handler of SIGCHLD is used and nobody else's child is waited for, but for that the system must have
/// pidfd_open (Linux 5.4).
///
/// What it says on stderr goes to `on_stderr`, where that is given, else to the runtime's logger at `log_level::info`, while it runs,
/// each line when it is complete: a login by device code ("open https://… and enter …") is seen in time, and wants a `time_limit` in
/// which somebody can do it. Of a run at most 50 lines are logged, 512 bytes of each, printable, and without what looks like a secret:
/// the values of `environment`, those of names that speak of passwords, tokens, secrets, keys or cookies, and long words without a
/// break that mix letters and digits.
///
/// *Errors*: the request that needs it fails with errc::exec_plugin_failed and the last words of its stderr, masked like its lines;
/// while the credential before it is still good that one is used, and the failure logged.
class exec_plugin {
public:
    exec_plugin() {}
    std::string command; ///< empty: none. With a '/' it is a path, else it is looked for on $PATH
    std::vector<std::string> arguments;
    std::vector<std::pair<std::string, std::string>> environment; ///< name and value; never printed
    std::string api_version = "client.authentication.k8s.io/v1";  ///< or …/v1beta1
    std::string install_hint;                                     ///< told where the command is not there
    bool provide_cluster_info = false;                            ///< tells it of server, CA, proxy and login there
    std::string cluster_config;                                   ///< JSON for it, told with those
    /// Real time. Informers give a request half a minute at first, and two minutes later on, to come to something.
    std::chrono::milliseconds time_limit = std::chrono::seconds(25);
    /// For a program with somebody in front of it, as `log_level::info` is for one without: each line as it was said, all of them,
    /// nothing masked (an address to log in at has words that look like secrets) and with whatever bytes a terminal may obey. A line
    /// of more than 4 KiB is cut there. On the client's executor; what it throws is dropped.
    std::function<void(std::string_view)> on_stderr;
};

/// Who we are. Never printed, and sent over TLS or to loopback only (not by way of a proxy, whose loopback is its own): a client of
/// any other server drops them and warns of it.
class credentials {
public:
    credentials() {}
    std::string token;              ///< bearer token
    std::string token_file;         ///< re-read every minute; wins over `token` once it could be read
    std::string username, password; ///< basic
    exec_plugin exec;               ///< where none of these is given, nor a client certificate
    std::string impersonate_user, impersonate_uid;
    std::vector<std::string> impersonate_groups;
    std::map<std::string, std::vector<std::string>>
        impersonate_extra; ///< "scopes"; the server reads names in lower case
};

/// The files that parts of `client_config::tls` were read from.
using tls_files = http::tls_files;

/// One of the server's warnings: something worked, and will not for ever ("policy/v1beta1 PodDisruptionBudget is
/// deprecated in v1.21+"), or was odd (an unknown field).
struct server_warning {
    int code = 0;      ///< 299 for everything that Kubernetes says
    std::string agent; ///< mostly "-"
    std::string text;  ///< printable, cut at 2 KiB
    std::string doing; ///< what was asked: "create deployments.apps default/web"
};

/// One cluster, one user, one default namespace.
class client_config {
public:
    client_config() {}
    /// URL; without a scheme: https where there is a CA, a client certificate or `insecure`, else http
    std::string server;
    http::tls_options tls; ///< CA, client certificate, server name, insecure
    kubernetes::tls_files tls_files;
    http::proxy proxy; ///< by way of whom the server is reached; none: directly
    kubernetes::credentials credentials;
    std::string name_space = "default";
    std::string context;               ///< name of the context, for messages
    std::string origin;                ///< where it came from: file name(s), "in-cluster", "--server"
    std::vector<std::string> warnings; ///< missing files, insecure; the client logs them
    /// As there, but: `request` 0 means a minute; lists have no `request`, since they move as long as they are; watches
    /// have neither that nor `body_idle`, and 30 s for the header: the server tells them when to end.
    http::timeouts time;
    /// For a verb with all its attempts and the waits between them, where its options say nothing; 0: none. An attempt is
    /// bounded by `time`, too. (Lists and watches are streams: each page may take as long as it moves.)
    std::chrono::milliseconds time_limit = std::chrono::minutes(2);
    /// Told every warning of every answer, on the client's executor; what it throws is logged. Without one each text is
    /// logged once (code 299, at most 1,000 texts for one client).
    std::function<void(const server_warning&)> on_warning;
    std::string user_agent;
    /// Asks for compressed answers: kube-apiserver then sends lists over 128 KiB gzip'd, and from 1.37 on watch-lists, for as long as they
    /// live (50 KB of memory each); other watches never. Default off: near the server inflating costs more than the transfer saves.
    bool gzip = false;
    /// Bytes of one object. A larger one in a list or watch is skipped and quarantined as `too_large`, with its key where
    /// that stands at its beginning; its last good version stays. As the answer to another verb it is an error.
    std::size_t max_object = default_max_object;
};

/// What to load; empty members mean kubectl's defaults.
class kubeconfig_options {
public:
    kubeconfig_options() {}
    /// --kubeconfig: this file alone; missing is an error
    // clang-format off
    kubeconfig_options& path(std::string p) { path_ = std::move(p); return *this; }
    kubeconfig_options& context(std::string c) { context_ = std::move(c); return *this; } ///< --context
    kubeconfig_options& server(std::string s) { server_ = std::move(s); return *this; }   ///< --server
    kubeconfig_options& insecure(bool on) { insecure_ = on; return *this; }
    // clang-format on
    /// For tests: instead of getenv("KUBECONFIG") and $HOME.
    kubeconfig_options& environment(std::string kubeconfig_variable, std::string home) {
        environment_ = std::move(kubeconfig_variable);
        home_ = std::move(home);
        use_environment_ = true;
        return *this;
    }
    /// For tests: instead of the process's HTTPS_PROXY, NO_PROXY and so on. With this or `environment` those are not looked at.
    kubeconfig_options& variable(std::string name, std::string value) {
        variables_[std::move(name)] = std::move(value);
        return *this;
    }
    std::string path_, context_, server_, environment_, home_;
    std::map<std::string, std::string, std::less<>> variables_;
    bool insecure_ = false, use_environment_ = false;
};

/// Loads like kubectl: --kubeconfig, else the list in $KUBECONFIG (first file wins per entry; missing files are
/// skipped), else ~/.kube/config; relative paths in a file are relative to its folder; data beats file.
/// With `server` alone and no file at all, that server is used without credentials.
/// Nothing is run here: an exec plugin (one that does not insist on a terminal: interactiveMode Always) is by the first request.
///
/// *Proxies*: `proxy-url` of the cluster (http, https, socks5; also with `server`), else the environment, by the rules of client-go
/// (Go's http.ProxyFromEnvironment): HTTPS_PROXY or https_proxy for https servers, HTTP_PROXY or http_proxy for http servers, but
/// for those that NO_PROXY or no_proxy names ("example.com" and all below it, ".example.com", "*.example.com", "10.0.0.1",
/// "10.0.0.0/8", each name or address with ":port" if wanted, "*") and for localhost and loopback addresses, always; HTTP_PROXY is
/// refused in a CGI environment. What differs: it is read once, here and not in the client; a proxy that cannot be used (nonsense,
/// `ftp://`) is an error at once, where Go goes directly or fails at each request; an https proxy is verified by the system's
/// roots, not by the cluster's `certificate-authority`, and always (http/proxy.hpp); names beyond ASCII must stand in NO_PROXY as
/// the server's is written. *Errors*: errc::bad_kubeconfig, naming file and line; errc::bad_configuration for the environment's
/// proxy, naming the variable. Auth-provider plugins are refused by name.
client_config load_kubeconfig(const kubeconfig_options& options, failure& f);
/// From text (tests): `file` is for messages and relative paths. The environment is not looked at, for proxies neither.
client_config parse_kubeconfig(std::string_view yaml, const std::string& file, const kubeconfig_options& options,
                               failure& f);
/// Service account of a pod: $KUBERNETES_SERVICE_HOST/PORT and the token, CA and namespace under `root`; the namespace of
/// $POD_NAMESPACE before that. Proxies of the environment count here, too, as with client-go. *Errors*: errc::bad_configuration where
/// this is no pod, or has no token.
client_config in_cluster_config(failure& f, std::string root = "/var/run/secrets/kubernetes.io/serviceaccount");
/// kubeconfig; in-cluster when there is none, or nothing in it ($KUBECONFIG=/dev/null), no file, server or context is asked for,
/// and it is possible. (kubectl goes in-cluster also where contexts are there and none is current: that is an error here.) `root`
/// as of `in_cluster_config`.
client_config default_config(const kubeconfig_options& options, failure& f,
                             std::string root = "/var/run/secrets/kubernetes.io/serviceaccount");
/// The same; throws `error`.
client_config default_config(const kubeconfig_options& options = kubeconfig_options());

} // namespace informer::kubernetes
