// How to reach a cluster: kubeconfig files and in-cluster configuration.
#pragma once

#include <informer/error.hpp>
#include <informer/http/client.hpp>
#include <informer/object/framer.hpp>

#include <chrono>
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace informer::kubernetes {

/// Who we are. Never printed, and sent over TLS or to loopback only: a client of any other server drops them and warns of it.
class credentials {
public:
    credentials() {}
    std::string token;       ///< bearer token
    std::string token_file;  ///< re-read every minute; wins over `token` once it could be read
    std::string username, password; ///< basic
    std::string impersonate_user;
    std::vector<std::string> impersonate_groups;
};

/// The files that parts of `client_config::tls` were read from; empty: it did not come from a file. They are read again every
/// minute, and after a certificate was refused: what rotates them need not tell us.
class tls_files {
public:
    tls_files() {}
    std::string ca, certificate, key;
};

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
    std::string server;               ///< URL; without a scheme: https where there is a CA, a client certificate or `insecure`, else http
    http::tls_options tls;            ///< CA, client certificate, server name, insecure
    kubernetes::tls_files tls_files;
    kubernetes::credentials credentials;
    std::string name_space = "default";
    std::string context;              ///< name of the context, for messages
    std::string origin;               ///< where it came from: file name(s), "in-cluster", "--server"
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
    /// Asks for compressed answers: kube-apiserver then sends lists over 128 KiB gzip'd (watches never). Default off: near
    /// the server inflating costs more than the transfer saves.
    bool gzip = false;
    /// Bytes of one object. A larger one in a list or watch is skipped and quarantined as `too_large`, with its key where
    /// that stands at its beginning; its last good version stays. As the answer to another verb it is an error.
    std::size_t max_object = default_max_object;
};

/// What to load; empty members mean kubectl's defaults.
class kubeconfig_options {
public:
    kubeconfig_options() {}
    kubeconfig_options& path(std::string p) { path_ = std::move(p); return *this; }       ///< --kubeconfig: this file alone; missing is an error
    kubeconfig_options& context(std::string c) { context_ = std::move(c); return *this; } ///< --context
    kubeconfig_options& server(std::string s) { server_ = std::move(s); return *this; }   ///< --server
    kubeconfig_options& insecure(bool on) { insecure_ = on; return *this; }
    /// For tests: instead of getenv("KUBECONFIG") and $HOME.
    kubeconfig_options& environment(std::string kubeconfig_variable, std::string home) {
        environment_ = std::move(kubeconfig_variable);
        home_ = std::move(home);
        use_environment_ = true;
        return *this;
    }
    std::string path_, context_, server_, environment_, home_;
    bool insecure_ = false, use_environment_ = false;
};

/// Loads like kubectl: --kubeconfig, else the list in $KUBECONFIG (first file wins per entry; missing files are
/// skipped), else ~/.kube/config; relative paths in a file are relative to its folder; data beats file.
/// With `server` alone and no file at all, that server is used without credentials.
/// *Errors*: errc::bad_kubeconfig, naming file and line. Exec and auth-provider plugins are refused by name.
client_config load_kubeconfig(const kubeconfig_options& options, failure& f);
/// From text (tests): `file` is for messages and relative paths.
client_config parse_kubeconfig(std::string_view yaml, const std::string& file, const kubeconfig_options& options, failure& f);
/// Service account of a pod: $KUBERNETES_SERVICE_HOST/PORT and the token, CA and namespace under `root`; the namespace of
/// $POD_NAMESPACE before that.
client_config in_cluster_config(failure& f, std::string root = "/var/run/secrets/kubernetes.io/serviceaccount");
/// kubeconfig; in-cluster when there is none, no server or context is asked for, and it is possible.
client_config default_config(const kubeconfig_options& options, failure& f);
/// The same; throws `error`.
client_config default_config(const kubeconfig_options& options = kubeconfig_options());

} // namespace informer::kubernetes
