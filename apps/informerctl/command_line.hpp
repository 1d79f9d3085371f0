// What the user asked for.
#pragma once

#include <informer/source/shard_selector.hpp>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace informerctl {

enum class command { get, watch, sync, resources, types };

/// Where the etcd is whose keys take the place of resources, and how to read them. The names are those of etcdctl.
struct etcd_line {
    bool asked = false; ///< by --etcd or --endpoints
    std::vector<std::string> endpoints;
    std::string user, password;                   ///< as they are to be sent
    std::string password_file, cacert, cert, key; ///< files
    bool namespaced = false;
    std::string wrap = "others"; ///< none, others, all
};

struct command_line {
    informerctl::command command = informerctl::command::get;
    // where
    std::string kubeconfig, context, cluster, server, token;
    std::string user; ///< of the kubeconfig; with etcd NAME[:PASSWORD]
    bool insecure = false;
    etcd_line etcd;
    // what
    std::string resource; ///< with etcd the prefix of the keys
    std::vector<std::string> names;
    std::string name_space;
    bool all_namespaces = false;
    std::string labels, fields;
    std::string shard;             ///< as it was given
    informer::shard_selector part; ///< `shard`, parsed
    bool watch_list = true;
    // how
    std::string output;   ///< "", name, wide, json, yaml, jsonpath=…
    std::string jsonpath; ///< the template of jsonpath=
    bool no_headers = false;
    bool diff = false;
    bool json = false; ///< sync --json
    std::string cpp_namespace;
    std::vector<std::pair<std::string, std::string>> indexes;
    std::uint64_t updates = 0;
    bool keep_managed_fields = false;
    unsigned verbosity = 0;
};

/// Returns -1 if the command is to run. On wrong usage or --help it prints the text and returns the exit code (2 or 0).
int parse_command_line(int argc, char** argv, command_line& into);

} // namespace informerctl
