// The contents of kubeconfig files, before a configuration is made of them.
#pragma once

#include <informer/error.hpp>

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace informer::kubernetes::detail {

/// Where something stands.
struct place {
    std::string file;
    int line = 0;

    /// "file:line: what" as errc::bad_kubeconfig.
    failure refuse(std::string_view what) const;
};

/// A name, path or address from a file, for messages. If a quote was left open, the text goes on over the next members,
/// which may be secrets: it is cut at the first ": " (and at 256 bytes).
std::string shown(std::string_view text);
std::string in_quotes(std::string_view text);

struct located_text {
    std::string text; ///< empty: not given
    place at;

    bool given() const noexcept { return !text.empty(); }
};

struct cluster_entry {
    place at;
    located_text server, ca_file, ca_data, tls_server_name, proxy_url;
    located_text exec_config; ///< the extension client.authentication.k8s.io/exec, as JSON
    bool insecure = false;
};

struct exec_entry {
    place at;
    located_text api_version, command, install_hint, interactive_mode;
    std::vector<std::string> args;
    std::vector<std::pair<std::string, std::string>> env;
    bool provide_cluster_info = false;
};

struct user_entry {
    place at;
    located_text token, token_file, username, password, certificate_file, certificate_data, key_file, key_data,
        impersonate, impersonate_uid;
    std::vector<std::string> impersonate_groups;
    std::map<std::string, std::vector<std::string>> impersonate_extra;
    std::optional<exec_entry> exec;
    /// A way to authenticate that is not supported: "the auth-provider \"gcp\"".
    located_text unsupported;
};

struct context_entry {
    place at;
    located_text cluster, user, name_space;
};

/// One file or the merge of several.
struct kubeconfig {
    std::map<std::string, cluster_entry, std::less<>> clusters;
    std::map<std::string, user_entry, std::less<>> users;
    std::map<std::string, context_entry, std::less<>> contexts;
    located_text current_context;
    std::vector<std::string> empty_files;
    std::vector<std::string> unread; ///< files with more YAML documents than the first, as sentences

    /// There is no file, an empty one (/dev/null), or one from which everything was deleted.
    bool says_nothing() const noexcept {
        return clusters.empty() && users.empty() && contexts.empty() && !current_context.given();
    }
    /// Adds the entries that only `later` has: the first file wins, entry by entry.
    void merge(kubeconfig later);
};

/// Reads the YAML (or JSON) of one file. Aliases are followed, never copied; nesting is limited by the parser. Merge
/// keys (<<) count (merge_keys.hpp).
kubeconfig read_kubeconfig(std::string_view yaml, const std::string& file, failure& f);

} // namespace informer::kubernetes::detail
