// Which proxy a configuration has: the kubeconfig's, else the environment's by Go's rules.
#include "support/temporary_folder.hpp"

#include "kubernetes/proxy_rules.hpp"

#include <informer/kubernetes/config.hpp>

#include <catch2/catch_test_macros.hpp>

#include <cstdlib>
#include <map>
#include <string>
#include <utility>
#include <vector>

using namespace informer;
using namespace informer::kubernetes;
using informer::testing::temporary_folder;

namespace {

using variables = std::map<std::string, std::string>;

http::endpoint at(const std::string& url) {
    failure f;
    const auto e = http::endpoint::parse(url, f);
    INFO(url << f.what());
    REQUIRE_FALSE(f);
    return e;
}

std::string chosen(const std::string& url, const variables& v, failure& f) {
    const auto get = [&v](const char* name) { return v.contains(name) ? v.at(name) : std::string(); };
    return kubernetes::detail::proxy_of_environment(at(url), get, f).url();
}

std::string chosen(const std::string& url, const variables& v) {
    failure f;
    auto p = chosen(url, v, f);
    INFO(f.what());
    CHECK_FALSE(f);
    return p;
}

std::string config_with(const std::string& cluster, const std::string& user = "{}") {
    return "current-context: c\nclusters:\n- name: k\n  cluster:\n    " + cluster +
           "\nusers:\n- name: u\n  user: " + user + "\ncontexts:\n- name: c\n  context: {cluster: k, user: u}\n";
}

client_config parsed(const std::string& yaml, failure& f) {
    return parse_kubeconfig(yaml, "config", kubeconfig_options(), f);
}

kubeconfig_options of(const std::string& file) {
    return kubeconfig_options().environment(file, "");
}

} // namespace

TEST_CASE("proxy: HTTPS_PROXY is for https servers and HTTP_PROXY for http servers, capitals first") {
    const variables both{{"HTTP_PROXY", "plain.tld"}, {"HTTPS_PROXY", "secure.tld:1"}};
    CHECK(chosen("http://h", both) == "http://plain.tld:80");
    CHECK(chosen("https://h", both) == "http://secure.tld:1");
    CHECK(chosen("https://h", {{"HTTP_PROXY", "plain.tld"}}).empty());
    CHECK(chosen("http://h", {{"HTTPS_PROXY", "secure.tld"}}).empty());
    CHECK(chosen("https://h", {{"https_proxy", "socks5://small"}}) == "socks5://small:1080");
    CHECK(chosen("https://h", {{"HTTPS_PROXY", "https://me:pw@tls"}}) == "https://tls:443");
    CHECK(chosen("http://h", {{"HTTP_PROXY", "https://tls:3129"}}) == "https://tls:3129");
    CHECK(chosen("https://h", {{"https_proxy", "small"}, {"HTTPS_PROXY", "large"}}) == "http://large:80");
    CHECK(chosen("http://h", {{"http_proxy", "small"}}) == "http://small:80");
    CHECK(chosen("https://h", {{"ALL_PROXY", "all"}}).empty());
    CHECK(chosen("https://h", {}).empty());
    CHECK(chosen("https://h", {{"https_proxy", "p"}, {"no_proxy", "h"}}).empty());
    CHECK(chosen("https://h", {{"https_proxy", "p"}, {"no_proxy", "h"}, {"NO_PROXY", "x"}}) == "http://p:80");
}

TEST_CASE("proxy: HTTP_PROXY is not taken from a CGI environment, HTTPS_PROXY is") {
    failure f;
    chosen("http://h", {{"HTTP_PROXY", "http://me:s3cret@p"}, {"REQUEST_METHOD", "GET"}}, f);
    CHECK(f == errc::bad_configuration);
    CHECK(f.message() == "HTTP_PROXY is not taken from a CGI environment");
    CHECK(chosen("https://h", {{"HTTPS_PROXY", "p"}, {"REQUEST_METHOD", "GET"}}) == "http://p:80");
}

TEST_CASE("proxy: a variable that cannot be used is an error that names it, unless it does not apply") {
    failure f;
    chosen("https://h", {{"HTTPS_PROXY", "ftp://me:s3cret@p"}}, f);
    CHECK(f == errc::bad_configuration);
    CHECK(f.message() ==
          "HTTPS_PROXY: 'ftp://p' is no proxy that can be used: the scheme must be http, https or socks5");
    chosen("http://h", {{"http_proxy", "ftp://p"}}, f);
    CHECK(f.message().starts_with("http_proxy: 'ftp://p'"));
    CHECK(chosen("https://h", {{"HTTPS_PROXY", "ftp://p"}, {"NO_PROXY", "h"}}).empty());
}

TEST_CASE("proxy: NO_PROXY names hosts, domains, addresses and networks, with ports or without") {
    // The table of golang.org/x/net/http/httpproxy, for http://HOST:80.
    const std::string no =
        "foobar.com, .barbaz.net, *.wildcard.io, 192.168.1.1, 192.168.1.2:81, 192.168.1.3:80, 10.0.0.0/30, "
        "2001:db8::52:0:1, [2001:db8::52:0:2]:443, [2001:db8::52:0:3]:80, 2002:db8:a::45/64";
    const std::vector<std::pair<std::string, bool>> table{{"localhost", false},
                                                          {"127.0.0.1", false},
                                                          {"127.0.0.2", false},
                                                          {"[::1]", false},
                                                          {"[::2]", true},
                                                          {"192.168.1.1", false},
                                                          {"192.168.1.2", true},
                                                          {"192.168.1.3", false},
                                                          {"192.168.1.4", true},
                                                          {"10.0.0.2", false},
                                                          {"[2001:db8::52:0:1]", false},
                                                          {"[2001:db8::52:0:2]", true},
                                                          {"[2001:db8::52:0:3]", false},
                                                          {"[2002:db8:a::123]", false},
                                                          {"[fe80::424b:c8be:1643:a1b6]", true},
                                                          {"barbaz.net", true},
                                                          {"www.barbaz.net", false},
                                                          {"foobar.com", false},
                                                          {"www.foobar.com", false},
                                                          {"foofoobar.com", true},
                                                          {"baz.com", true},
                                                          {"localhost.net", true},
                                                          {"local.localhost", true},
                                                          {"barbarbaz.net", true},
                                                          {"wildcard.io", true},
                                                          {"nested.wildcard.io", false},
                                                          {"awildcard.io", true}};
    for (const auto& [host, proxied] : table) {
        INFO(host);
        CHECK(kubernetes::detail::exempt(at("http://" + host + ":80"), no) == !proxied);
        CHECK(kubernetes::detail::exempt(at("http://" + host), no) == !proxied);
        CHECK(kubernetes::detail::exempt(at("http://" + host), "*"));
        CHECK(kubernetes::detail::exempt(at("http://" + host), "x, * ,y"));
    }
    const std::vector<std::pair<std::string, std::string>> exempted{{"https://10.0.0.1:6443", "10.0.0.1:6443"},
                                                                    {"https://10.0.0.1", "10.0.0.1:443"},
                                                                    {"https://h", "h:443"},
                                                                    {"https://H.Example", "h.example"},
                                                                    {"https://h.example", "H.EXAMPLE"},
                                                                    {"https://a.h", " \t\v\fh , x"},
                                                                    {"https://a.h:1", ".h:1"},
                                                                    {"https://h", "h:"},
                                                                    {"https://a.b.h", "*.h:443"},
                                                                    {"https://10.1.2.3", "0.0.0.0/0"},
                                                                    {"https://[fd00::1]", "fd00::/7"},
                                                                    {"https://[::ffff:10.0.0.1]", "10.0.0.0/8"},
                                                                    {"https://10.0.0.1", "::ffff:10.0.0.1"},
                                                                    {"https://10.0.0.129", "10.0.0.128/25"},
                                                                    {"https://[::ffff:127.0.0.1]", ""}};
    for (const auto& [url, list] : exempted) {
        INFO(url << " in " << list);
        CHECK(kubernetes::detail::exempt(at(url), list));
    }
    const std::vector<std::pair<std::string, std::string>> proxied{{"https://10.0.0.1:6443", "10.0.0.1:443"},
                                                                   {"https://h", "h:80"},
                                                                   {"https://h", ":1"},
                                                                   {"https://h", ":443"},
                                                                   {"https://h", ""},
                                                                   {"https://h", ",,"},
                                                                   {"https://10.0.0.1", "0.1"},
                                                                   {"https://10.0.0.1", ".0.0.1"},
                                                                   {"https://10.0.0.127", "10.0.0.128/25"},
                                                                   {"https://10.0.0.1", "10.0.0.0/33"},
                                                                   {"https://10.0.0.1", "10.0.0.0/"},
                                                                   {"https://10.0.0.1", "10.0.0.0/x"},
                                                                   {"https://10.0.0.1", "::/0"},
                                                                   {"https://[fd00::1]", "0.0.0.0/0"},
                                                                   {"https://[fd00::1]", "[fd00::1]"},
                                                                   {"https://h", "."},
                                                                   {"https://h", "*.h"},
                                                                   {"https://h", "*:443"},
                                                                   {"https://10.0.0.1", "010.0.0.1"}};
    for (const auto& [url, list] : proxied) {
        INFO(url << " in " << list);
        CHECK_FALSE(kubernetes::detail::exempt(at(url), list));
    }
}

TEST_CASE("kubeconfig: proxy-url is the cluster's proxy, and beats the environment") {
    const temporary_folder dir;
    const auto with = dir.write("with", config_with("{server: 'https://h', proxy-url: 'socks5://me:pw@p'}"));
    const auto without = dir.write("without", config_with("{server: 'https://h'}"));
    failure f;
    auto c = load_kubeconfig(of(with).variable("HTTPS_PROXY", "http://other:1"), f);
    REQUIRE_FALSE(f);
    CHECK(c.proxy.url() == "socks5://p:1080");
    CHECK(c.proxy.user == "me");
    CHECK(c.proxy.password == "pw");
    c = load_kubeconfig(of(with).variable("NO_PROXY", "*"), f);
    CHECK(c.proxy.url() == "socks5://p:1080");
    c = load_kubeconfig(of(with).server("https://elsewhere"), f);
    CHECK(c.proxy.url() == "socks5://p:1080");
    c = load_kubeconfig(of(without).variable("HTTPS_PROXY", "http://other:1"), f);
    CHECK(c.proxy.url() == "http://other:1");
    c = load_kubeconfig(of(without).variable("HTTPS_PROXY", "http://other:1").variable("NO_PROXY", "h"), f);
    CHECK_FALSE(c.proxy);
    c = load_kubeconfig(of(without), f);
    CHECK_FALSE(c.proxy);
    c = load_kubeconfig(of("").server("http://h").variable("http_proxy", "http://other:1"), f);
    CHECK_FALSE(f);
    CHECK(c.proxy.url() == "http://other:1");
    c = default_config(of(without).variable("HTTPS_PROXY", "http://other:1"), f);
    CHECK(c.proxy.url() == "http://other:1");
    c = load_kubeconfig(of(without).variable("HTTPS_PROXY", "https://me:s3cret@other"), f);
    CHECK(c.proxy.url() == "https://other:443");
    load_kubeconfig(of(without).variable("HTTPS_PROXY", "ftp://me:s3cret@other"), f);
    CHECK(f == errc::bad_configuration);
    CHECK(f.message() ==
          "HTTPS_PROXY: 'ftp://other' is no proxy that can be used: the scheme must be http, https or socks5");
    // an empty proxy-url means no proxy
    CHECK_FALSE(parsed(config_with("{server: 'https://h', proxy-url: ''}"), f).proxy);
    CHECK_FALSE(f);
}

TEST_CASE("kubeconfig: a proxy-url that cannot be used is refused with its line, never with its password") {
    failure f;
    const std::string line = "server: 'https://h'\n    proxy-url: ";
    for (const std::string bad : {"https://me:s3cret@p:x", "ftp://me:s3cret@p", "'http://me:s3cret'",
                                  "http://me:s3cret/x@p", "http://me:s3cret@", "'http://me: s3cret@p:x'",
                                  "\"http://p:x\\n  token: s3cret\"", "'http://me:a/b\n      token: s3cret@p'"}) {
        parsed(config_with(line + bad), f);
        INFO(f.message());
        CHECK(f == errc::bad_kubeconfig);
        CHECK(f.message().starts_with("config:6: proxy-url: "));
        CHECK(f.what().find("s3cret") == std::string::npos);
    }
    parsed(config_with(line + "ftp://me:s3cret@p"), f);
    CHECK(f.message() ==
          "config:6: proxy-url: 'ftp://p' is no proxy that can be used: the scheme must be http, https or socks5");
    parsed(config_with(line + "[x]"), f);
    CHECK(f.message() == "config:6: proxy-url must be a string, not a list");
}

TEST_CASE("kubeconfig: loopback by way of a proxy is not loopback: credentials go there over TLS only") {
    failure f;
    auto c = parsed(config_with("{server: 'http://127.0.0.1:1', proxy-url: 'http://me:s3cret@p'}", "{token: t0}"), f);
    REQUIRE_FALSE(f);
    CHECK(c.credentials.token.empty());
    CHECK(c.warnings == std::vector<std::string>{
                            "http://127.0.0.1:1 by way of the proxy http://p:80 is not TLS: credentials are not sent"});
    c = parsed(config_with("{server: 'http://127.0.0.1:1', proxy-url: 'https://me:s3cret@p'}", "{token: t0}"), f);
    CHECK(c.credentials.token.empty()); // the proxy reads it, and sends it on in clear text
    CHECK(c.warnings == std::vector<std::string>{
                            "http://127.0.0.1:1 is TLS to the proxy https://p:443 only: credentials are not sent"});
    for (const std::string by : {"http://p", "https://p"}) {
        c = parsed(config_with("{server: 'https://127.0.0.1:1', proxy-url: '" + by + "'}", "{token: t0}"), f);
        CHECK(c.credentials.token == "t0");
        CHECK(c.warnings.empty());
    }
}

TEST_CASE("kubeconfig: the warning about dropped credentials names the environment's proxy that would read them") {
    const temporary_folder dir;
    const auto load = [&](const std::string& server) {
        const auto file = dir.write("config", config_with("{server: '" + server + "'}", "{token: t0}"));
        failure f;
        auto c = load_kubeconfig(
            of(file).variable("HTTP_PROXY", "http://me:s3cret@p:3128").variable("HTTPS_PROXY", "http://q"), f);
        CHECK_FALSE(f);
        return c;
    };
    auto c = load("http://kube.example:1234");
    CHECK(c.proxy.url() == "http://p:3128");
    CHECK(c.credentials.token.empty());
    CHECK(c.warnings ==
          std::vector<std::string>{
              "http://kube.example:1234 by way of the proxy http://p:3128 is not TLS: credentials are not sent"});
    for (const std::string here : {"http://127.0.0.1:1", "http://localhost:1", "http://[::1]:1"}) {
        c = load(here); // no proxy of the environment applies to loopback
        CHECK_FALSE(c.proxy);
        CHECK(c.credentials.token == "t0");
        CHECK(c.warnings.empty());
    }
    c = load("https://kube.example:1234");
    CHECK(c.proxy.url() == "http://q:80");
    CHECK(c.credentials.token == "t0");
    CHECK(c.warnings.empty());
}

TEST_CASE("in-cluster: the environment's proxy counts, as with client-go") {
    const temporary_folder dir;
    dir.write("token", "t0\n");
    setenv("KUBERNETES_SERVICE_HOST", "10.96.0.1", 1);
    setenv("KUBERNETES_SERVICE_PORT", "443", 1);
    setenv("HTTPS_PROXY", "http://p:3128", 1);
    unsetenv("NO_PROXY");
    unsetenv("no_proxy");
    failure f;
    CHECK(in_cluster_config(f, dir.path("")).proxy.url() == "http://p:3128");
    setenv("NO_PROXY", "10.96.0.0/12", 1);
    CHECK_FALSE(in_cluster_config(f, dir.path("")).proxy);
    CHECK_FALSE(f);
    for (const char* name : {"KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT", "HTTPS_PROXY", "NO_PROXY"})
        unsetenv(name);
}
