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

/// A program that provides credentials, such as EKS, GKE and AKS have (kubeconfig: users[].user.exec;
/// client.authentication.k8s.io). It is run for the first request. It is run again for the next request after its
/// credential came near its end (`expirationTimestamp`; a minute before, or a fifth of its life if that is less) or was
/// refused (401), but not within ten seconds of the previous run. All requests of a client share one run. No request
/// waits for a run while the credential is still good, and none of them holds the executor. The plugin is not run if a
/// token, a user name or a client certificate is given as well, as with client-go, nor for a server to which
/// credentials are not sent.
///
/// The plugin runs without a shell, without a terminal and with nothing on its stdin. Its environment is that of the
/// process, plus `environment` and $KUBERNETES_EXEC_INFO. It writes an ExecCredential (JSON of at most 1 MiB or YAML of
/// at most 64 KiB, with a token, a client certificate and its key, or both) to stdout. The run ends when the process
/// ends, even if another process still holds its stdout open. A run is killed, with its whole process group, if it
/// takes longer than `time_limit`, writes too much, loses the last caller that waited for it, or outlives its client.
/// (A caller whose time limit is over mostly asks again: its run goes on for ten seconds, so that the next request
/// finds it where it was. Lists and watches wait for 25 s at a time.) No thread and no SIGCHLD handler is used, and no
/// other child process is waited for. For that the system must have pidfd_open (Linux 5.4). In a program that ignores
/// SIGCHLD, or waits for every child itself, the exit status is lost: then only what the plugin wrote to stdout counts.
///
/// What the plugin writes to stderr goes to `on_stderr` if that is set, else to the runtime's logger at
/// `log_level::info`. Each line is passed on while the plugin runs, as soon as the line is complete, so that a login by
/// device code ("open https://… and enter …") is seen in time. Such a login needs a `time_limit` in which somebody can
/// complete it. At most 50 lines of a run are logged, 512 bytes of each, printable, and without what looks like a
/// secret: the values of `environment` (from 6 bytes on), the values of names that speak of passwords, tokens, secrets,
/// keys or cookies, and long words without a break that mix letters and digits.
///
/// *Errors*: the request that needs the credential fails with errc::exec_plugin_failed and the last words of the
/// plugin's stderr, masked like its lines. While the previous credential is still good, it is used instead and the
/// failure is logged.
class exec_plugin {
public:
    exec_plugin() {}
    std::string command; ///< empty: no plugin. With a '/' it is a path, else it is looked up on $PATH
    std::vector<std::string> arguments;
    std::vector<std::pair<std::string, std::string>> environment; ///< name and value; never printed
    std::string api_version = "client.authentication.k8s.io/v1";  ///< or …/v1beta1
    std::string install_hint;                                     ///< shown when the command is not found
    bool provide_cluster_info = false;                            ///< passes it server, CA, proxy and proxy login
    std::string cluster_config;                                   ///< JSON for it, passed with those
    /// Real time. Informers give a request half a minute at first, and two minutes later on, to produce something.
    std::chrono::milliseconds time_limit = std::chrono::seconds(25);
    /// For a program with a user in front of it, as `log_level::info` is for one without. Receives every line as the
    /// plugin wrote it: nothing is masked (an address to log in at has words that look like secrets), and bytes that a
    /// terminal may obey are kept. A line of more than 4 KiB is cut there. Called on the client's executor; exceptions
    /// that it throws are dropped.
    std::function<void(std::string_view)> on_stderr;
};

/// Whom the client authenticates as. Never printed, and sent only over TLS, or to loopback without a proxy (a proxy's
/// loopback is its own). A client of any other server drops them and warns about it.
class credentials {
public:
    credentials() {}
    std::string token;              ///< bearer token
    std::string token_file;         ///< re-read every minute; takes precedence over `token` once it could be read
    std::string username, password; ///< basic
    exec_plugin exec;               ///< used if none of these and no client certificate is given
    std::string impersonate_user, impersonate_uid;
    std::vector<std::string> impersonate_groups;
    std::map<std::string, std::vector<std::string>>
        impersonate_extra; ///< "scopes"; the server reads names in lower case
};

/// The files that parts of `client_config::tls` were read from.
using tls_files = http::tls_files;

/// A warning from the server: something worked but will not for ever ("policy/v1beta1 PodDisruptionBudget is deprecated
/// in v1.21+"), or was odd (an unknown field).
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
    /// URL. Without a scheme it is https if there is a CA, a client certificate or `insecure`, else http.
    std::string server;
    http::tls_options tls; ///< CA, client certificate, server name, insecure
    kubernetes::tls_files tls_files;
    http::proxy proxy; ///< through which the server is reached; none: directly
    kubernetes::credentials credentials;
    std::string name_space = "default";
    std::string context;               ///< name of the context, for messages
    std::string origin;                ///< where it came from: file name(s), "in-cluster", "--server"
    std::vector<std::string> warnings; ///< missing files, insecure, what is not read; the client logs them
    /// As documented there, except: a `request` of 0 means a minute. Lists have no `request` limit, since they may take
    /// as long as data arrives. Watches have no `body_idle`, 30 s for the header (`watch_options::late_header`: all
    /// their time), and end 15 s after their time-out at the latest: before that, the server decides when they end.
    http::timeouts time;
    /// Time limit of a verb with all its attempts and the waits between them, unless its options set one; 0: none. Each
    /// attempt is bounded by `time`, too. (Lists and watches are streams: each page may take as long as data arrives.)
    std::chrono::milliseconds time_limit = std::chrono::minutes(2);
    /// Receives every warning of every answer, on the client's executor; exceptions that it throws are logged. If it is
    /// not set, each text is logged once (code 299, at most 1,000 texts for one client).
    std::function<void(const server_warning&)> on_warning;
    std::string user_agent;
    /// Asks for compressed answers. kube-apiserver then sends lists over 128 KiB compressed with gzip, and from 1.37 on
    /// also watch-lists, for as long as they live (50 KB of memory each), but never other watches. Default: off,
    /// because near the server decompressing costs more than the transfer saves.
    bool gzip = false;
    /// Maximum size of one object in bytes. A larger one in a list or watch is skipped and quarantined as `too_large`,
    /// with its key if that stands at its beginning; its last good version stays. As the answer to another verb it is
    /// an error.
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
    /// --cluster: this cluster of the kubeconfig instead of the context's
    kubeconfig_options& cluster(std::string c) { cluster_ = std::move(c); return *this; }
    /// --user: this user of the kubeconfig instead of the context's
    kubeconfig_options& user(std::string u) { user_ = std::move(u); return *this; }
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
    /// For tests: instead of the process's HTTPS_PROXY, NO_PROXY and so on, which are ignored if this or `environment`
    /// is set.
    kubeconfig_options& variable(std::string name, std::string value) {
        variables_[std::move(name)] = std::move(value);
        return *this;
    }
    std::string path_, context_, cluster_, user_, server_, environment_, home_;
    std::map<std::string, std::string, std::less<>> variables_;
    bool insecure_ = false, use_environment_ = false;
};

/// Loads like kubectl: from --kubeconfig, else from the list in $KUBECONFIG (for each entry the first file wins;
/// missing files are skipped), else from ~/.kube/config. Relative paths in a file are relative to its folder; inline
/// data takes precedence over a file. With `server` alone and no file at all, that server is used without credentials.
/// With `cluster` or `user` there need be no current context: who gives no `user` then has no credentials. YAML's merge
/// keys (<<) are followed; a map's own members win. Of several YAML documents in a file only the first is read, as in
/// kubectl, which a warning says. Nothing is run here: an exec plugin (one that does not insist on a
/// terminal by interactiveMode Always) is run by the first request.
///
/// *Proxies*: `proxy-url` of the cluster (http, https, socks5; also with `server`), else the environment, by the rules
/// of client-go (Go's http.ProxyFromEnvironment): HTTPS_PROXY or https_proxy for https servers, HTTP_PROXY or
/// http_proxy for http servers. No proxy is used for servers that NO_PROXY or no_proxy names ("example.com" and all
/// below it, ".example.com", "*.example.com", "10.0.0.1", "10.0.0.0/8", each name or address with ":port" if wanted,
/// "*"), and never for localhost and loopback addresses. HTTP_PROXY is refused in a CGI environment. Differences from
/// Go: the environment is read once, here and not in the client. A proxy that cannot be used (nonsense, `ftp://`) is an
/// error at once, where Go connects directly or fails at each request. An https proxy is verified against the system's
/// roots, not against the cluster's `certificate-authority`, and always (http/proxy.hpp). Non-ASCII names must be
/// written in NO_PROXY as in the server's URL. *Errors*: errc::bad_kubeconfig, naming file and line;
/// errc::bad_configuration for the environment's proxy, naming the variable. Auth-provider plugins are refused by name.
client_config load_kubeconfig(const kubeconfig_options& options, failure& f);
/// Parses text (for tests): `file` is for messages and relative paths. The environment is not read, for proxies
/// neither.
client_config parse_kubeconfig(std::string_view yaml, const std::string& file, const kubeconfig_options& options,
                               failure& f);
/// The service account of a pod: $KUBERNETES_SERVICE_HOST/PORT, and the token, CA and namespace under `root`; the
/// namespace in $POD_NAMESPACE takes precedence. The environment's proxies apply here, too, as with client-go.
/// *Errors*: errc::bad_configuration if this is not a pod, or has no token.
client_config in_cluster_config(failure& f, std::string root = "/var/run/secrets/kubernetes.io/serviceaccount");
/// The kubeconfig. The in-cluster configuration instead if there is no kubeconfig or nothing in it
/// ($KUBECONFIG=/dev/null), no file, server, context, cluster or user is asked for, and it is possible. (kubectl also
/// goes in-cluster if there are contexts and none is current; here that is an error.) `root` is that of
/// `in_cluster_config`.
client_config default_config(const kubeconfig_options& options, failure& f,
                             std::string root = "/var/run/secrets/kubernetes.io/serviceaccount");
/// The same; throws `error`.
client_config default_config(const kubeconfig_options& options = kubeconfig_options());

} // namespace informer::kubernetes
