#include "options.hpp"

#include "common/parse.hpp"

#include <informer/version.hpp>

namespace devserver {

bool parse(int argc, char** argv, options& o, int& code) {
    CLI::App app("An embedded Kubernetes API server in memory. The first line on stdout is its URL.\n"
                 "Each start is another cluster, whose resource versions begin at the microseconds since 1970.",
                 "devserver");
    app.set_version_flag("--version", "devserver " INFORMER_VERSION_STRING);
    app.add_option("--port", o.port, "port to listen on; 0: any")->capture_default_str();
    app.add_option("--address", o.address, "address to listen on")->capture_default_str();
    app.add_flag("--tls", o.tls, "serve HTTPS with a throw-away CA (see --kubeconfig)");
    app.add_option("--kubeconfig", o.kubeconfig, "write a kubeconfig to this file (or pipe) before the URL is printed");
    app.add_option("--token", o.token, "demand this bearer token");
    app.add_option("--forbidden-token", o.forbidden_token, "also know this token, of a user who may do nothing (403)");
    app.add_flag("--simulate", o.simulate, "play a small living cluster");
    app.add_option("--seed", o.seed, "what the simulated cluster does")->capture_default_str();
    app.add_option("--pods", o.pods, "create so many pods before serving")
        ->check(common::count())
        ->capture_default_str();
    app.add_option("--speed", o.speed, "how many times faster the simulated cluster lives")
        ->check(common::between(0.01, 1000))
        ->capture_default_str();
    app.add_option("--bookmark-every", o.bookmark_every, "seconds between bookmarks on watches")
        ->check(common::between(0.01, 86400))
        ->capture_default_str();
    app.add_flag("-v,--verbose", o.verbose, "log requests to stderr");
    return common::parse(app, argc, argv, code);
}

} // namespace devserver
