#include <informer/kubernetes/config.hpp>

#include "http/host_text.hpp"
#include "kubernetes/exec_credential.hpp"
#include "kubernetes/kubeconfig.hpp"
#include "kubernetes/proxy_rules.hpp"
#include "kubernetes/server_rules.hpp"
#include "root/ascii.hpp"
#include "root/base64.hpp"
#include "root/file.hpp"
#include "root/one_line.hpp"
#include "root/secret_file.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <optional>

namespace informer::kubernetes {

using informer::detail::read_file;
using informer::detail::trimmed;

namespace {

using detail::in_quotes;
using detail::kubeconfig;
using detail::located_text;
using detail::place;
using detail::shown;

std::string variable(const char* name) {
    const char* v = std::getenv(name); // NOLINT(concurrency-mt-unsafe) read at start-up, as kubectl does
    return v ? v : "";
}

/// Resolves a relative path against the folder of the file that names it. The result is absolute, so that it stays
/// valid if the process changes its folder later, as a daemon does.
std::string beside(const located_text& path) {
    const std::filesystem::path p(path.text);
    if (p.is_absolute()) return p.string();
    const std::filesystem::path there = std::filesystem::path(path.at.file).parent_path() / p;
    std::error_code gone; // set if the current folder is gone: the path then stays relative
    const auto whole = std::filesystem::absolute(there, gone);
    return (gone ? there : whole).lexically_normal().string();
}

/// Returns the inline data, or else the file's content, whose path goes into `from`. Either must be PEM.
std::string pem(const located_text& data, const located_text& file, std::string_view key, std::string& from,
                failure& f) {
    if (f || (!data.given() && !file.given())) return {};
    const place& at = data.given() ? data.at : file.at;
    std::string text, name(key);
    if (data.given()) {
        name += "-data";
        auto decoded = informer::detail::base64_decode(data.text);
        if (!decoded) {
            f = at.refuse(name + " is not base64");
            return {};
        }
        text = std::move(*decoded);
    } else {
        const std::string path = beside(file);
        std::string why;
        auto content = read_file(path, why);
        if (!content) {
            f = at.refuse(name + ": cannot read " + shown(path) + ": " + why);
            return {};
        }
        name += ": " + shown(path);
        text = std::move(*content);
        from = path;
    }
    if (text.find("-----BEGIN ") == std::string::npos) {
        f = at.refuse(name + " holds no PEM");
        return {};
    }
    return text;
}

/// Makes the configuration of one context out of the merged files. Whether credentials may be sent is not decided here,
/// because that also depends on a proxy from the environment.
class resolver {
public:
    resolver(const kubeconfig& k, const kubeconfig_options& options, std::string origin)
        : files_(k), options_(options), origin_(std::move(origin)) {
        config_.origin = origin_;
    }

    client_config resolve(failure& f) {
        f = failure();
        const auto context = choose_context(f);
        if (!f && context && has_cluster(*context)) add_cluster(*context, f);
        if (!f) settle_server(context, f);
        if (!f && context && (context->user.given() || files_.users.contains(""))) add_user(*context, f);
        if (context && context->name_space.given()) config_.name_space = context->name_space.text;
        for (const auto& empty : files_.empty_files) config_.warnings.push_back(empty + " is empty");
        config_.warnings.insert(config_.warnings.end(), files_.unread.begin(), files_.unread.end());
        return f ? client_config() : std::move(config_);
    }

private:
    failure refuse(std::string_view what) const { return place{origin_, 0}.refuse(what); }

    using maybe_context = std::optional<detail::context_entry>;

    /// The context with the cluster and the user that were asked for instead of its own; none if the server alone was.
    maybe_context choose_context(failure& f) {
        maybe_context chosen = named_context(f);
        if (f || !chosen) return chosen;
        const auto replace = [&](located_text& part, const std::string& by, const auto& all, const std::string& kind) {
            if (by.empty()) return;
            if (!f && !all.contains(by)) f = refuse("there is no " + kind + " " + in_quotes(by) + known(all, kind));
            part = located_text{by, place{"--" + kind, 0}};
        };
        replace(chosen->cluster, options_.cluster_, files_.clusters, "cluster");
        replace(chosen->user, options_.user_, files_.users, "user");
        return chosen;
    }

    maybe_context named_context(failure& f) {
        const std::string& name = options_.context_.empty() ? files_.current_context.text : options_.context_;
        if (name.empty() && !files_.contexts.contains("")) {
            // As in client-go: an empty context, of which something is replaced.
            if (!options_.cluster_.empty() || !options_.user_.empty()) return detail::context_entry();
            if (!options_.server_.empty()) return std::nullopt;
            if (files_.contexts.empty() && !files_.empty_files.empty()) {
                f = place{files_.empty_files.front(), 0}.refuse("the file is empty");
                return std::nullopt;
            }
            f = refuse("no current-context is set, and no context was asked for" + known(files_.contexts, "context"));
            return std::nullopt;
        }
        config_.context = name;
        const auto found = files_.contexts.find(name);
        if (found != files_.contexts.end()) return found->second;
        if (options_.context_.empty())
            f = files_.current_context.at.refuse("current-context is " + in_quotes(name) + ", which is not there" +
                                                 known(files_.contexts, "context"));
        else
            f = refuse("there is no context " + in_quotes(name) + known(files_.contexts, "context"));
        return std::nullopt;
    }

    /// Where else it may be, if something is missing.
    std::string elsewhere() const {
        std::string text;
        for (const auto& unread : files_.unread) text += "; " + unread;
        return text;
    }

    template <class Entries>
    std::string known(const Entries& all, const std::string& kind) const {
        constexpr std::size_t most = 8;
        std::string text;
        std::size_t n = 0;
        for (const auto& [name, entry] : all)
            if (++n <= most) text += (n == 1 ? " (there are: " : ", ") + shown(name);
        if (n == 0) return " (there are no " + kind + "s)" + elsewhere();
        return text + (n > most ? ", …)" : ")") + elsewhere();
    }

    /// As in client-go, a context that names no cluster means the cluster without a name, if there is one.
    bool has_cluster(const detail::context_entry& context) const {
        return context.cluster.given() || files_.clusters.contains("");
    }

    void add_cluster(const detail::context_entry& context, failure& f) {
        const auto found = files_.clusters.find(context.cluster.text);
        if (found == files_.clusters.end()) {
            f = context.cluster.at.refuse("context " + in_quotes(config_.context) + " names cluster " +
                                          in_quotes(context.cluster.text) + ", which is not there" + elsewhere());
            return;
        }
        const auto& c = found->second;
        server_ = c.server;
        if (!c.server.given()) server_.at = c.at;
        if (c.proxy_url.given()) {
            failure bad;
            config_.proxy = http::proxy::parse(c.proxy_url.text, bad);
            // If a quote was left open, the text may hold anything, secrets included.
            const bool is_safe = shown(c.proxy_url.text) == c.proxy_url.text;
            if (bad) {
                f = c.proxy_url.at.refuse("proxy-url: " + (is_safe ? bad.message() : "not a URL"));
                return;
            }
        }
        if (c.insecure && (c.ca_file.given() || c.ca_data.given()) && !options_.insecure_) {
            f = c.at.refuse("cluster " + in_quotes(context.cluster.text) +
                            ": certificate-authority and insecure-skip-tls-verify exclude each other");
            return;
        }
        config_.tls.server_name_ = c.tls_server_name.text;
        config_.tls.insecure_ = c.insecure;
        exec_config_ = c.exec_config.text;
        if (!options_.insecure_)
            config_.tls.ca_pem_ = pem(c.ca_data, c.ca_file, "certificate-authority", config_.tls_files.ca, f);
    }

    void settle_server(const maybe_context& context, failure& f) {
        if (!options_.server_.empty()) {
            server_ = located_text{options_.server_, place{"--server", 0}};
            config_.tls.server_name_.clear(); // it belongs to the kubeconfig's server
        }
        if (options_.insecure_) config_.tls.insecure_ = true;
        if (!server_.given()) {
            const bool no_cluster = context && !has_cluster(*context);
            if (no_cluster && context->at.file.empty()) { // there is no context, either
                f = refuse("no current-context is set, and no cluster was asked for" +
                           known(files_.clusters, "cluster"));
                return;
            }
            const std::string where = no_cluster ? "context " + in_quotes(config_.context) + " names no cluster"
                                                 : "the cluster has no server";
            f = (no_cluster ? context->at : server_.at).refuse(where);
            return;
        }
        const bool tls = !config_.tls.ca_pem_.empty() || config_.tls.insecure_ || user_has_certificate(context);
        server_.text = detail::with_scheme(std::move(server_.text), tls);
        failure bad;
        endpoint_ = http::endpoint::parse(server_.text, bad);
        if (bad) {
            const bool is_safe = shown(server_.text) == server_.text;
            f = server_.at.refuse("server: " + (is_safe ? bad.message() : in_quotes(server_.text) + ": not a URL"));
            return;
        }
        config_.server = server_.text;
        if (endpoint_.tls && config_.tls.insecure_) config_.warnings.push_back(detail::not_verified(endpoint_));
    }

    bool user_has_certificate(const maybe_context& context) const {
        if (!context) return false;
        const auto found = files_.users.find(context->user.text);
        return found != files_.users.end() &&
               (found->second.certificate_data.given() || found->second.certificate_file.given());
    }

    void add_user(const detail::context_entry& context, failure& f) {
        const auto found = files_.users.find(context.user.text);
        if (found == files_.users.end()) {
            f = context.user.at.refuse("context " + in_quotes(config_.context) + " names user " +
                                       in_quotes(context.user.text) + ", which is not there" + elsewhere());
            return;
        }
        const auto& u = found->second;
        const std::string who = "user " + in_quotes(context.user.text);
        if (u.unsupported.given()) {
            f = u.unsupported.at.refuse(who + " needs " + u.unsupported.text + ", which is not supported yet");
            return;
        }
        auto& c = config_.credentials;
        c.token = u.token.text;
        if (u.token_file.given()) add_token_file(u.token_file, f);
        if (f) return;
        if (u.username.given() && (!c.token.empty() || !c.token_file.empty())) {
            f = u.username.at.refuse(who + " has a token and a user name: which one is meant?");
            return;
        }
        c.username = u.username.text;
        c.password = u.password.text;
        c.impersonate_user = u.impersonate.text;
        c.impersonate_uid = u.impersonate_uid.text;
        c.impersonate_groups = u.impersonate_groups;
        c.impersonate_extra = u.impersonate_extra;
        check_headers(u, who, f);
        if (f) return;
        if (c.impersonate_user.empty()) {
            const char* const more = !c.impersonate_uid.empty()      ? "as-uid"
                                     : !c.impersonate_groups.empty() ? "as-groups"
                                     : !c.impersonate_extra.empty()  ? "as-user-extra"
                                                                     : nullptr;
            if (more) {
                f = u.at.refuse(who + " has " + more + ", but no as");
                return;
            }
        }
        const bool certificate = u.certificate_data.given() || u.certificate_file.given();
        const bool key = u.key_data.given() || u.key_file.given();
        if (certificate != key) {
            f = u.at.refuse(who + (certificate ? " has a client-certificate, but no client-key"
                                               : " has a client-key, but no client-certificate"));
            return;
        }
        auto& files = config_.tls_files;
        config_.tls.certificate_pem_ =
            pem(u.certificate_data, u.certificate_file, "client-certificate", files.certificate, f);
        config_.tls.key_pem_ = pem(u.key_data, u.key_file, "client-key", files.key, f);
        if (u.exec && !f) add_plugin(*u.exec, who, f);
    }

    /// Checks texts that are sent in a header of each request: with a bad one, all requests would fail.
    static void check_headers(const detail::user_entry& u, const std::string& who, failure& f) {
        const auto check = [&](std::string_view key, const std::string& text, const place& at) {
            if (!f && informer::detail::has_controls(text))
                f = at.refuse(who + ": " + std::string(key) +
                              " has a line break or another character that no header can carry");
        };
        check("token", u.token.text, u.token.at);
        check("as", u.impersonate.text, u.impersonate.at);
        check("as-uid", u.impersonate_uid.text, u.impersonate_uid.at);
        for (const std::string& group : u.impersonate_groups) check("as-groups", group, u.at);
        for (const auto& [key, values] : u.impersonate_extra)
            for (const std::string& value : values) check("as-user-extra", value, u.at);
    }

    void add_plugin(const detail::exec_entry& x, const std::string& who, failure& f) {
        const auto refuse = [&](const located_text& what, std::string_view why) {
            f = (what.given() ? what.at : x.at).refuse(who + ": exec: " + std::string(why));
        };
        exec_plugin p;
        p.command = x.command.text;
        if (p.command.find('/') != std::string::npos) {
            p.command = beside(x.command);
            if (p.command.find('/') == std::string::npos) p.command.insert(0, "./"); // in this folder, not on $PATH
        }
        p.arguments = x.args;
        p.environment = x.env;
        p.api_version = x.api_version.text;
        p.install_hint = x.install_hint.text;
        p.provide_cluster_info = x.provide_cluster_info;
        if (p.provide_cluster_info) p.cluster_config = exec_config_;
        if (!x.api_version.given()) return refuse(x.api_version, "the apiVersion is missing");
        if (const std::string fault = detail::fault_of(p); !fault.empty()) return refuse(x.api_version, fault);
        const std::string& mode = x.interactive_mode.text;
        if (mode.empty() && p.api_version == detail::exec_v1)
            return refuse(x.interactive_mode, "the interactiveMode is missing");
        if (mode == "Always")
            return refuse(x.interactive_mode, "interactiveMode Always: the plugin wants a terminal, and there is none");
        if (!mode.empty() && mode != "Never" && mode != "IfAvailable")
            return refuse(x.interactive_mode,
                          "interactiveMode " + in_quotes(mode) + " is none of Never, IfAvailable and Always");
        config_.credentials.exec = std::move(p);
        if (!detail::asks_plugin(config_))
            config_.warnings.push_back(who +
                                       " has a token, a user name or a client certificate: its exec plugin is not run");
    }

    void add_token_file(const located_text& file, failure& f) {
        auto& c = config_.credentials;
        c.token_file = beside(file);
        std::string why;
        const auto text = read_file(c.token_file, why);
        if (text)
            why = trimmed(*text).empty() ? "the file is empty" : informer::detail::unfit_for_a_header(trimmed(*text));
        if (text && why.empty()) {
            c.token = trimmed(*text);
        } else if (c.token.empty()) {
            f = file.at.refuse("tokenFile: cannot read " + shown(c.token_file) + ": " + why);
        } else {
            config_.warnings.push_back("tokenFile: cannot read " + shown(c.token_file) + ": " + why);
        }
        if (informer::detail::is_read_once(c.token_file)) c.token_file.clear(); // a pipe is read once, here
    }

    const kubeconfig& files_;
    const kubeconfig_options& options_;
    std::string origin_;
    client_config config_;
    located_text server_;
    std::string exec_config_; ///< of the cluster
    http::endpoint endpoint_;
};

struct sources {
    std::vector<std::string> files; ///< that exist
    std::vector<std::string> warnings;
    std::string none; ///< if there is no file: where we looked
};

sources find_files(const kubeconfig_options& options) {
    sources s;
    if (!options.path_.empty()) {
        s.files.push_back(options.path_); // a missing file is an error, reported when it is read
        return s;
    }
    const std::string list = options.use_environment_ ? options.environment_ : variable("KUBECONFIG");
    const std::string home = options.use_environment_ ? options.home_ : variable("HOME");
    const auto exists = [](const std::string& path) {
        std::error_code ec;
        return std::filesystem::exists(path, ec) || ec; // a path that cannot be examined counts as existing
    };
    if (!list.empty()) {
        std::vector<std::string> seen;
        for (std::size_t at = 0; at <= list.size();) {
            const auto end = std::min(list.find(':', at), list.size());
            const std::string path = list.substr(at, end - at);
            at = end + 1;
            if (path.empty() || std::find(seen.begin(), seen.end(), path) != seen.end()) continue;
            seen.push_back(path);
            if (exists(path))
                s.files.push_back(path);
            else
                s.warnings.push_back("KUBECONFIG: " + path + " does not exist");
        }
        s.none = "no file of $KUBECONFIG exists: " + list;
        return s;
    }
    if (home.empty()) {
        s.none = "neither $KUBECONFIG nor $HOME is set";
        return s;
    }
    const std::string usual = home + "/.kube/config";
    if (exists(usual)) s.files.push_back(usual);
    s.none = "no kubeconfig: $KUBECONFIG is not set and " + usual + " does not exist";
    return s;
}

/// Takes the proxy from the environment if the configuration names none.
void add_proxy_of_environment(client_config& c, const kubeconfig_options& options, failure& f) {
    if (f || c.proxy) return;
    failure bad; // a bad address is reported by whoever uses it
    const auto to = http::endpoint::parse(c.server, bad);
    if (bad) return;
    const auto of_test = [&options](const char* name) {
        const auto found = options.variables_.find(name);
        return found == options.variables_.end() ? std::string() : found->second;
    };
    const bool test = options.use_environment_ || !options.variables_.empty();
    const auto of_process = [](const char* name) { return variable(name); };
    c.proxy = test ? detail::proxy_of_environment(to, of_test, f) : detail::proxy_of_environment(to, of_process, f);
    if (f) c = client_config();
}

/// The merge of all files.
kubeconfig read_files(const sources& from, failure& f) {
    f = failure();
    kubeconfig all;
    for (const auto& file : from.files) {
        std::string why;
        const auto text = read_file(file, why);
        if (!text) {
            f = place{file, 0}.refuse(why);
            return {};
        }
        kubeconfig one = detail::read_kubeconfig(*text, file, f);
        if (f) return {};
        all.merge(std::move(one));
    }
    return all;
}

client_config load(const kubeconfig_options& options, const sources& from, const kubeconfig& all, failure& f) {
    if (from.files.empty() && options.server_.empty()) {
        f = failure(errc::bad_kubeconfig, from.none);
        return {};
    }
    std::string origin;
    for (const auto& file : from.files) origin += (origin.empty() ? "" : ":") + file;
    if (origin.empty()) origin = "--server";
    resolver r(all, options, origin);
    client_config c = r.resolve(f);
    add_proxy_of_environment(c, options, f);
    if (!f) c = detail::settled(std::move(c));
    if (!f) c.warnings.insert(c.warnings.begin(), from.warnings.begin(), from.warnings.end());
    return c;
}

client_config in_cluster(const kubeconfig_options& options, const std::string& root, failure& f) {
    f = failure();
    const auto refuse = [&f](const std::string& what) {
        f = failure(errc::bad_configuration, "in-cluster configuration: " + what);
        return client_config();
    };
    const std::string host = variable("KUBERNETES_SERVICE_HOST");
    const std::string port = variable("KUBERNETES_SERVICE_PORT");
    if (host.empty() || port.empty())
        return refuse("KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set: this is no pod");

    client_config c;
    c.origin = "in-cluster";
    c.server = "https://" + http::detail::in_url(host) + ":" + port;
    failure bad;
    http::endpoint::parse(c.server, bad);
    if (bad) return refuse(bad.message());
    std::string why;
    c.credentials.token_file = root + "/token";
    const auto token = read_file(c.credentials.token_file, why);
    if (!token) return refuse("cannot read " + c.credentials.token_file + ": " + why);
    c.credentials.token = trimmed(*token);
    if (c.credentials.token.empty()) return refuse(c.credentials.token_file + " is empty");
    if (const auto unfit = informer::detail::unfit_for_a_header(c.credentials.token); !unfit.empty())
        return refuse(c.credentials.token_file + ": " + unfit);
    c.tls.insecure_ = options.insecure_;
    if (!options.insecure_) { // otherwise no CA is needed
        c.tls_files.ca = root + "/ca.crt";
        if (const auto ca = read_file(c.tls_files.ca, why); ca && !trimmed(*ca).empty())
            c.tls.ca_pem_ = *ca;
        else
            c.warnings.push_back("cannot read " + c.tls_files.ca + " (" + (ca ? "the file is empty" : why) +
                                 "): the system's certificate authorities are used");
    }
    // The same order as in client-go.
    if (const std::string space = variable("POD_NAMESPACE"); !space.empty())
        c.name_space = space;
    else if (const auto file = read_file(root + "/namespace", why); file && !trimmed(*file).empty())
        c.name_space = trimmed(*file);
    add_proxy_of_environment(c, options, f);
    return c;
}

} // namespace

client_config load_kubeconfig(const kubeconfig_options& options, failure& f) {
    const sources from = find_files(options);
    const kubeconfig all = read_files(from, f);
    return f ? client_config() : load(options, from, all, f);
}

client_config parse_kubeconfig(std::string_view yaml, const std::string& file, const kubeconfig_options& options,
                               failure& f) {
    const kubeconfig k = detail::read_kubeconfig(yaml, file, f);
    if (f) return {};
    resolver r(k, options, file);
    client_config c = r.resolve(f);
    return f ? client_config() : detail::settled(std::move(c));
}

client_config in_cluster_config(failure& f, std::string root) {
    return in_cluster(kubeconfig_options(), root, f);
}

client_config default_config(const kubeconfig_options& options) {
    failure f;
    auto config = default_config(options, f);
    throw_on(f);
    return config;
}

client_config default_config(const kubeconfig_options& options, failure& f, std::string root) {
    const sources from = find_files(options);
    const kubeconfig all = read_files(from, f);
    if (f) return {};
    const bool in_pod = !variable("KUBERNETES_SERVICE_HOST").empty();
    const bool asked = !options.path_.empty() || !options.server_.empty() || !options.context_.empty() ||
                       !options.cluster_.empty() || !options.user_.empty();
    if (!in_pod || asked || !all.says_nothing()) return load(options, from, all, f);
    client_config c = in_cluster(options, root, f);
    // Users who meant a file must be told that the pod's own account is used instead.
    std::vector<std::string> about_files = from.warnings;
    for (const std::string& empty : all.empty_files)
        if (empty != "/dev/null") about_files.push_back(empty + " is empty"); // /dev/null is empty on purpose
    about_files.insert(about_files.end(), all.unread.begin(), all.unread.end());
    if (!f) c.warnings.insert(c.warnings.begin(), about_files.begin(), about_files.end());
    return c;
}

} // namespace informer::kubernetes
