#include "command_line.hpp"

#include "json_path.hpp"

#include <informer/object/selector.hpp>

#include <CLI/CLI.hpp>

#include <cstdio>

namespace informerctl {
namespace {

void add_connection(CLI::App& to, command_line& into) {
    to.add_option("--kubeconfig", into.kubeconfig, "Path of a kubeconfig file (default: $KUBECONFIG, ~/.kube/config)");
    to.add_option("--context", into.context, "Context of the kubeconfig");
    to.add_option("-s,--server", into.server, "URL of the API server");
    to.add_option("--token", into.token, "Bearer token");
    to.add_flag("--insecure-skip-tls-verify", into.insecure, "Do not verify the server's certificate");
    to.add_flag("-v", into.verbosity, "Log to stderr; -vv logs each request");
}

void add_scope(CLI::App& to, command_line& into) {
    to.add_option("-n,--namespace", into.name_space, "Namespace (default: the context's)");
    to.add_flag("-A,--all-namespaces", into.all_namespaces, "All namespaces");
    to.add_option("-l,--selector", into.labels, "Label selector");
    to.add_option("--field-selector", into.fields, "Field selector");
    to.add_flag("--show-managed-fields", into.keep_managed_fields, "Keep metadata.managedFields");
}

CLI::App* add_command(CLI::App& app, const char* name, const char* what, command_line& into, command c) {
    auto* sub = app.add_subcommand(name, what);
    sub->callback([&into, c] { into.command = c; });
    add_connection(*sub, into);
    return sub;
}

int usage(const std::string& why) {
    std::fprintf(stderr, "informerctl: %s (see informerctl --help)\n", why.c_str());
    return 2;
}

// "" when the combination is fine, else what is wrong with it.
std::string judge(command_line& c) {
    const auto one_of = [&](std::initializer_list<const char*> allowed) {
        for (const char* a : allowed)
            if (c.output == a) return true;
        return false;
    };
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
        if (!one_of({"", "name", "wide", "json"})) return "-o " + c.output + ": expected name, wide or json";
        break;
    case command::sync: break;
    }
    for (const auto& name : c.names)
        if (name.empty()) return "a name is empty";
    if (!c.name_space.empty() && c.all_namespaces) return "-n and -A exclude each other";
    if (!c.names.empty() && c.all_namespaces) return "a name and -A exclude each other: names are unique within a namespace";
    if (!c.names.empty() && (!c.labels.empty() || !c.fields.empty())) return "a name and a selector exclude each other";
    informer::failure f;
    informer::label_selector::parse(c.labels, f);
    if (f) return "-l: " + f.what();
    informer::field_selector::parse(c.fields, f);
    if (f) return "--field-selector: " + f.what();
    return {};
}

} // namespace

int parse_command_line(int argc, char** argv, command_line& into) {
    CLI::App app("Lists, watches and caches any resource of a Kubernetes API server.\n"
                 "Resources go by plural, singular, kind or short name: pods, po, deploy.apps, foos.samplecontroller.k8s.io",
                 "informerctl");
    app.set_version_flag("--version", std::string("informerctl " INFORMER_VERSION));
    app.require_subcommand(1);
    app.fallthrough(false);

    auto* get = add_command(app, "get", "Print objects", into, command::get);
    get->add_option("RESOURCE", into.resource, "Resource, or RESOURCE/NAME")->required();
    get->add_option("NAME", into.names, "Names");
    get->add_option("-o,--output", into.output, "name | wide | json | yaml | jsonpath=TEMPLATE");
    get->add_flag("--no-headers", into.no_headers, "No header line");
    add_scope(*get, into);

    auto* watch = add_command(app, "watch", "Print the objects, then every change, for ever", into, command::watch);
    watch->add_option("RESOURCE", into.resource, "Resource, or RESOURCE/NAME")->required();
    watch->add_option("NAME", into.names, "Name");
    watch->add_option("-o,--output", into.output, "json (one event a line) | name | wide | yaml | jsonpath=TEMPLATE");
    watch->add_flag("--diff", into.diff, "Show changed fields, old -> new");
    watch->add_flag("!--no-watch-list", into.watch_list, "List and watch instead of watch-list");
    add_scope(*watch, into);

    std::vector<std::string> indexes;
    auto* sync = add_command(app, "sync", "Fill a cache and print what it cost", into, command::sync);
    sync->add_option("RESOURCE", into.resource, "Resource")->required();
    sync->add_option("--index", indexes, "Index NAME=POINTER, as node=/spec/nodeName (repeatable)")
        ->allow_extra_args(false); // the next word is not another one
    sync->add_option("--updates", into.updates, "Then wait for N updates and print again")->check(CLI::NonNegativeNumber);
    sync->add_flag("--json", into.json, "One JSON line per phase");
    sync->add_flag("!--no-watch-list", into.watch_list, "List and watch instead of watch-list");
    add_scope(*sync, into);

    auto* resources = add_command(app, "resources", "Print what the server serves", into, command::resources);
    resources->add_option("-o,--output", into.output, "name | wide | json");
    resources->add_flag("--no-headers", into.no_headers, "No header line");

    try {
        app.parse(argc, argv);
    } catch (const CLI::Success& e) {
        return app.exit(e); // --help, --version
    } catch (const CLI::ParseError& e) {
        std::string why = e.what();
        for (char& c : why)
            if (c == '\n') c = ' ';
        return usage(why);
    }
    for (const auto& i : indexes) {
        const auto eq = i.find('=');
        if (eq == std::string::npos || eq == 0 || i.size() < eq + 2 || i[eq + 1] != '/')
            return usage("--index " + i + ": expected NAME=/JSON/POINTER");
        into.indexes.emplace_back(i.substr(0, eq), i.substr(eq + 1));
    }
    if (const auto slash = into.resource.find('/'); slash != std::string::npos) {
        into.names.insert(into.names.begin(), into.resource.substr(slash + 1));
        into.resource.resize(slash);
        if (into.resource.empty() || into.names.front().empty()) return usage("expected RESOURCE/NAME");
    }
    if (const auto why = judge(into); !why.empty()) return usage(why);
    return -1;
}

} // namespace informerctl
