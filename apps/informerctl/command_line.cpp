#include "command_line.hpp"

#include "identifiers.hpp"

#include "common/parse.hpp"
#include "json_path.hpp"

#include <informer/object/selector.hpp>
#include <informer/version.hpp>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string_view>
#include <system_error>

namespace informerctl {
namespace {

/// These options are accepted before and after the command, as by kubectl.
void add_connection(CLI::App& to, command_line& into) {
    to.add_option("--kubeconfig", into.kubeconfig, "Path of a kubeconfig file (default: $KUBECONFIG, ~/.kube/config)");
    to.add_option("--context", into.context, "Context of the kubeconfig");
    to.add_option("--cluster", into.cluster, "Cluster of the kubeconfig, instead of the context's");
    to.add_option(
        "--user", into.user,
        "User of the kubeconfig, instead of the context's; with etcd NAME[:PASSWORD] (default: $ETCDCTL_USER)");
    to.add_option("-s,--server", into.server, "URL of the API server");
    to.add_option("--token", into.token, "Bearer token");
    to.add_flag("--insecure-skip-tls-verify", into.insecure, "Do not verify the server's certificate");
    to.add_option("-n,--namespace", into.name_space, "Namespace (default: the context's; with etcd all)");
    to.add_flag("-v", into.verbosity, "Log to stderr; -vv logs each request");
}

/// The etcd credentials that the command line gives; those that are missing come from the environment.
struct etcd_words {
    std::string password, password_file;
};

void add_etcd(CLI::App& to, etcd_line& into, etcd_words& words) {
    const auto option = [&](const char* name, auto& value, const char* what) {
        return to.add_option(name, value, what)->group("Keys of etcd");
    };
    const auto flag = [&](const char* name, bool& value, const char* what) {
        to.add_flag(name, value, what)->group("Keys of etcd");
    };
    flag("--etcd", into.asked, "RESOURCE is the prefix of keys in etcd, as /services/ (\"\": all keys)");
    option("--endpoints", into.endpoints,
           "URLs of its members, with commas; implies --etcd (default: $ETCDCTL_ENDPOINTS, http://127.0.0.1:2379)")
        ->delimiter(',')
        ->allow_extra_args(false);
    option("--password", words.password, "Others see what stands here: better $ETCDCTL_PASSWORD or --password-file");
    option("--password-file", words.password_file, "File that holds it");
    option("--cacert", into.cacert, "File of the CA to trust (default: $ETCDCTL_CACERT)");
    option("--cert", into.cert, "File of the client certificate (default: $ETCDCTL_CERT)");
    option("--key", into.key, "File of its key (default: $ETCDCTL_KEY)");
    flag("--namespaced", into.namespaced, "Behind the prefix stands NAMESPACE/NAME; -n and -A imply it");
    option(
        "--wrap", into.wrap,
        "Which values are put into .value: none (what is no JSON object is skipped), others (than JSON objects), all")
        ->capture_default_str()
        ->check(CLI::IsMember({"none", "others", "all"}));
}

void add_scope(CLI::App& to, command_line& into) {
    to.add_flag("-A,--all-namespaces", into.all_namespaces, "All namespaces");
    to.add_option("-l,--selector", into.labels, "Label selector");
    to.add_option("--field-selector", into.fields, "Field selector");
    to.add_option("--shard", into.shard, "I/N: the I-th (from 0) of N parts, by the hash of the uid");
    to.add_flag("--show-managed-fields", into.keep_managed_fields, "Keep metadata.managedFields");
}

bool read_part(const std::string& text, informer::shard_selector& into) {
    std::uint64_t index = 0, count = 0;
    const char* const end = text.data() + text.size();
    const auto first = std::from_chars(text.data(), end, index);
    if (first.ec != std::errc() || first.ptr == end || *first.ptr != '/') return false;
    const auto second = std::from_chars(first.ptr + 1, end, count);
    if (second.ec != std::errc() || second.ptr != end || index >= count) return false;
    into = informer::shard_selector::part(index, count);
    return true;
}

/// A message about the first given option that does not apply: one of Kubernetes with etcd, or the reverse; "" if there
/// is none.
std::string out_of_place(const CLI::App& command, bool etcd) {
    for (const auto* o : command.get_options()) {
        const auto is = [&](std::initializer_list<const char*> names) {
            return std::any_of(names.begin(), names.end(), [&](const char* n) { return o->check_name(n); });
        };
        if (o->count() == 0) continue;
        if (etcd && is({"--kubeconfig", "--context", "--cluster", "--server", "--token"}))
            return o->get_name() + " is of Kubernetes, and the keys are etcd's";
        if (!etcd && o->get_group() == "Keys of etcd")
            return o->get_name() + " is of etcd: --etcd or --endpoints go with it";
    }
    return {};
}

std::string environment(const char* name) {
    const char* value = std::getenv(name); // NOLINT(concurrency-mt-unsafe) no thread is there yet
    return value ? value : "";
}

/// What etcdctl takes for true and false: strconv.ParseBool of Go.
std::optional<bool> go_bool(std::string_view text) {
    for (const std::string_view yes : {"1", "t", "T", "TRUE", "true", "True"})
        if (text == yes) return true;
    for (const std::string_view no : {"0", "f", "F", "FALSE", "false", "False"})
        if (text == no) return false;
    return std::nullopt;
}

/// Takes what the command line leaves open about etcd from the environment. Returns "", or what is wrong.
std::string complete(command_line& c, const etcd_words& words) {
    etcd_line& e = c.etcd;
    const auto unless_given = [](std::string& value, const char* variable) {
        if (value.empty()) value = environment(variable);
    };
    if (e.endpoints.empty()) e.endpoints = CLI::detail::split(environment("ETCDCTL_ENDPOINTS"), ',');
    std::erase(e.endpoints, std::string());
    if (e.endpoints.empty()) e.endpoints.emplace_back("127.0.0.1:2379");
    unless_given(e.cacert, "ETCDCTL_CACERT");
    unless_given(e.cert, "ETCDCTL_CERT");
    unless_given(e.key, "ETCDCTL_KEY");
    if (e.cert.empty() != e.key.empty()) return "--cert and --key go together";
    if (const auto said = environment("ETCDCTL_INSECURE_SKIP_TLS_VERIFY"); !c.insecure && !said.empty()) {
        const auto skip = go_bool(said);
        if (!skip) return "$ETCDCTL_INSECURE_SKIP_TLS_VERIFY: " + said + " is neither true nor false";
        c.insecure = *skip;
    }
    e.user = c.user;
    e.password = words.password;
    unless_given(e.user, "ETCDCTL_USER");
    if (!words.password_file.empty()) {
        if (!words.password.empty()) return "--password and --password-file exclude each other";
        std::error_code ec;
        if (std::filesystem::is_regular_file(words.password_file, ec)) e.password_file = words.password_file; // no pipe
        std::ifstream file(words.password_file, std::ios::binary);
        e.password.assign(std::istreambuf_iterator<char>(file), {});
        while (!e.password.empty() && (e.password.back() == '\n' || e.password.back() == '\r')) e.password.pop_back();
        if (e.password.empty()) return "--password-file " + words.password_file + ": no password can be read there";
    }
    unless_given(e.password, "ETCDCTL_PASSWORD");
    // As in etcdctl: if a password is given separately, all of --user is the name.
    if (const auto colon = e.user.find(':'); e.password.empty() && colon != std::string::npos) {
        e.password = e.user.substr(colon + 1);
        e.user.resize(colon);
    }
    if (!e.user.empty() && e.password.empty())
        return "--user " + e.user + ": no password ($ETCDCTL_PASSWORD, --password-file)";
    if (e.user.empty() && !(words.password + words.password_file).empty()) return "a password, but no --user";
    e.namespaced = e.namespaced || !c.name_space.empty() || c.all_namespaces;
    for (const auto& name : c.names)
        if (e.namespaced && c.name_space.empty() &&
            (name.find('/') == std::string::npos || name.front() == '/' || name.back() == '/'))
            return name + ": expected NAMESPACE/NAME, or -n";
    return {};
}

CLI::App* add_command(CLI::App& app, const char* name, const char* what, command_line& into, command c) {
    auto* sub = app.add_subcommand(name, what);
    sub->callback([&into, c] { into.command = c; });
    add_connection(*sub, into);
    return sub;
}

/// Turns "-n=NAME" into "-nNAME", as kubectl reads it. If nothing follows the '=', as in --namespace=$NS without $NS,
/// the next word would be taken as the value; `why` reports that.
std::vector<std::string> words_of(int argc, char** argv, std::string& why) {
    std::vector<std::string> words(argv + std::min(argc, 1), argv + argc);
    for (auto& w : words) {
        if (w == "--") break;
        const bool is_short = w.size() > 2 && w[0] == '-' && w[2] == '=' && std::strchr("nosl", w[1]) != nullptr;
        const bool is_long = w.rfind("--", 0) == 0;
        if ((is_short || is_long) && w.find('=') == w.size() - 1)
            why = w + " has no value";
        else if (is_short)
            w.erase(2, 1);
    }
    return words;
}

int usage(const std::string& why) {
    std::fprintf(stderr, "informerctl: %s (see informerctl --help)\n", why.c_str());
    return 2;
}

// Returns "" if the combination is fine, else what is wrong with it.
std::string judge(command_line& c) {
    const auto one_of = [&](std::initializer_list<const char*> allowed) {
        for (const char* a : allowed)
            if (c.output == a) return true;
        return false;
    };
    if (c.output == "jsonpath") return "-o jsonpath: expected jsonpath=TEMPLATE";
    if (c.output.rfind("jsonpath=", 0) == 0) {
        c.jsonpath = c.output.substr(9);
        c.output = "jsonpath";
        std::string why;
        if (!json_path::parse(c.jsonpath, why)) return "-o jsonpath: " + why;
    }
    switch (c.command) {
    case command::get:
        if (!one_of({"", "name", "wide", "json", "yaml", "jsonpath"}))
            return "-o " + c.output + ": expected name, wide, json, yaml or jsonpath=TEMPLATE";
        break;
    case command::watch:
        if (!one_of({"", "name", "wide", "json", "yaml", "jsonpath"}))
            return "-o " + c.output + ": expected name, wide, json, yaml or jsonpath=TEMPLATE";
        if (c.names.size() > 1) return "watch takes one name at most";
        break;
    case command::resources:
        if (c.etcd.asked) return "resources are of Kubernetes, and the keys are etcd's";
        if (!one_of({"", "name", "wide", "json"})) return "-o " + c.output + ": expected name, wide or json";
        break;
    case command::types:
        if (c.etcd.asked) return "types are of Kubernetes, and etcd describes none";
        if (!c.names.empty()) return "types are of all objects of a resource: no name";
        if (!c.cpp_namespace.empty() && !is_namespace(c.cpp_namespace))
            return "--cpp-namespace " + c.cpp_namespace + ": expected a name of C++, as kube::apps_v1";
        break;
    case command::sync: break;
    }
    for (const auto& name : c.names)
        if (name.empty()) return "a name is empty";
    if (!c.name_space.empty() && c.all_namespaces) return "-n and -A exclude each other";
    if (!c.names.empty() && c.all_namespaces && !c.etcd.asked)
        return "a name and -A exclude each other: names are unique within a namespace";
    if (!c.names.empty() && (!c.labels.empty() || !c.fields.empty() || !c.shard.empty()))
        return "a name and a selector exclude each other";
    if (!c.shard.empty() && !read_part(c.shard, c.part))
        return "--shard: " + c.shard + " is not I/N, a number below N and N, as 0/4";
    informer::failure f;
    informer::label_selector::parse(c.labels, f);
    if (f) return "-l: " + f.what();
    informer::field_selector::parse(c.fields, f);
    if (f) return "--field-selector: " + f.what();
    return {};
}

void add_commands(CLI::App& app, command_line& into, etcd_words& words, std::vector<std::string>& indexes) {
    auto* get = add_command(app, "get", "Print objects", into, command::get);
    get->add_option("RESOURCE", into.resource, "Resource, or RESOURCE/NAME, or the prefix of keys")->required();
    get->add_option("NAME", into.names, "Names");
    get->add_option("-o,--output", into.output, "name | wide | json | yaml | jsonpath=TEMPLATE");
    get->add_flag("--no-headers", into.no_headers, "No header line");
    add_scope(*get, into);

    auto* watch = add_command(app, "watch", "Print the objects, then every change, for ever", into, command::watch);
    watch->add_option("RESOURCE", into.resource, "Resource, or RESOURCE/NAME, or the prefix of keys")->required();
    watch->add_option("NAME", into.names, "Name");
    watch->add_option("-o,--output", into.output, "json (one event a line) | name | wide | yaml | jsonpath=TEMPLATE");
    watch->add_flag("--diff", into.diff, "Show changed fields, old -> new");
    watch->add_flag("!--no-watch-list", into.watch_list, "List and watch instead of watch-list");
    add_scope(*watch, into);

    auto* sync = add_command(app, "sync", "Fill a cache and print what it cost", into, command::sync);
    sync->add_option("RESOURCE", into.resource, "Resource, or the prefix of keys")->required();
    sync->add_option("--index", indexes, "Index NAME=POINTER, as node=/spec/nodeName (repeatable)")
        ->allow_extra_args(false); // the next word is not another index
    sync->add_option("--updates", into.updates, "Then wait for N updates and print again")->check(common::count());
    sync->add_flag("--json", into.json, "One JSON line per phase");
    sync->add_flag("!--no-watch-list", into.watch_list, "List and watch instead of watch-list");
    add_scope(*sync, into);

    for (auto* with_etcd : {get, watch, sync}) add_etcd(*with_etcd, into.etcd, words);

    auto* resources = add_command(app, "resources", "Print what the server serves", into, command::resources);
    resources->add_option("-o,--output", into.output, "name | wide | json");
    resources->add_flag("--no-headers", into.no_headers, "No header line");

    auto* types =
        add_command(app, "types", "Print a C++ header with structs for a resource's objects", into, command::types);
    types->add_option("RESOURCE", into.resource, "Resource")->required();
    types->add_option("--cpp-namespace", into.cpp_namespace, "Its namespace (default: GROUP_VERSION, as apps_v1)");
}

/// Reads each NAME=POINTER. Returns "", or what is wrong.
std::string read_indexes(const std::vector<std::string>& texts, command_line& into) {
    for (const auto& i : texts) {
        const auto eq = i.find('=');
        if (eq == std::string::npos || eq == 0 || i.size() < eq + 2 || i[eq + 1] != '/')
            return "--index " + i + ": expected NAME=/JSON/POINTER";
        into.indexes.emplace_back(i.substr(0, eq), i.substr(eq + 1));
    }
    return {};
}

/// Takes RESOURCE/NAME apart. Returns "", or what is wrong.
std::string split_resource(command_line& c) {
    const auto slash = c.resource.find('/');
    if (slash == std::string::npos) return {};
    c.names.insert(c.names.begin(), c.resource.substr(slash + 1));
    c.resource.resize(slash);
    if (!c.resource.empty() && !c.names.front().empty()) return {};
    return "expected RESOURCE/NAME; prefixes of keys in etcd go with --etcd";
}

} // namespace

int parse_command_line(int argc, char** argv, command_line& into) {
    CLI::App app(
        "Lists, watches and caches any resource of a Kubernetes API server, or the keys of an etcd.\n"
        "Resources go by plural, singular, kind or short name: pods, po, deploy.apps, foos.samplecontroller.k8s.io\n"
        "Keys go by their prefix: informerctl watch --endpoints https://10.0.0.1:2379 --cacert ca.pem /services/",
        "informerctl");
    app.set_version_flag("--version", std::string("informerctl " INFORMER_VERSION_STRING));
    app.require_subcommand(1);
    app.fallthrough(false);
    add_connection(app, into);
    etcd_words words;
    add_etcd(app, into.etcd, words);
    std::vector<std::string> indexes;
    add_commands(app, into, words, indexes);

    std::string why_not;
    auto words_said = words_of(argc, argv, why_not);
    if (!why_not.empty()) return usage(why_not);
    std::reverse(words_said.begin(), words_said.end()); // as CLI11 wants them
    try {
        app.parse(std::move(words_said));
    } catch (const CLI::Success& e) {
        return app.exit(e); // --help, --version
    } catch (const CLI::ParseError& e) {
        std::string why = e.what();
        for (char& c : why)
            if (c == '\n') c = ' ';
        return usage(why);
    }
    if (const auto why = read_indexes(indexes, into); !why.empty()) return usage(why);
    into.etcd.asked = into.etcd.asked || !into.etcd.endpoints.empty();
    for (const CLI::App* given :
         {static_cast<const CLI::App*>(&app), static_cast<const CLI::App*>(app.get_subcommands().front())})
        if (const auto why = out_of_place(*given, into.etcd.asked); !why.empty()) return usage(why);
    if (const auto why = into.etcd.asked ? complete(into, words) : split_resource(into); !why.empty())
        return usage(why);
    if (const auto why = judge(into); !why.empty()) return usage(why);
    return -1;
}

} // namespace informerctl
