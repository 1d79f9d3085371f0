// What a kubeconfig says about exec plugins.
#include "support/temporary_folder.hpp"

#include "kubernetes/exec_credential.hpp"

#include <informer/kubernetes/config.hpp>

#include <catch2/catch_test_macros.hpp>

#include <filesystem>
#include <string>
#include <vector>

using namespace informer;
using namespace informer::kubernetes;
using informer::testing::temporary_folder;

namespace {

bool has(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

/// The plugin begins in line 10.
std::string config_with(const std::string& exec, const std::string& user = "", const std::string& cluster = "") {
    return "apiVersion: v1\nkind: Config\ncurrent-context: c\n"
           "clusters:\n- name: k\n  cluster: {server: 'https://h'" +
           cluster +
           "}\n"
           "users:\n- name: u\n  user: {" +
           user + "exec:\n" + exec +
           "}\n"
           "contexts:\n- name: c\n  context: {cluster: k, user: u}\n";
}

client_config parse(const std::string& yaml, failure& f, const std::string& file = "/home/u/.kube/config") {
    return parse_kubeconfig(yaml, file, kubeconfig_options(), f);
}

client_config good(const std::string& yaml, const std::string& file = "/home/u/.kube/config") {
    failure f;
    auto c = parse(yaml, f, file);
    INFO(f.what());
    CHECK_FALSE(f);
    return c;
}

std::string refusal(const std::string& yaml) {
    failure f;
    parse(yaml, f);
    CHECK(f == errc::bad_kubeconfig);
    const std::string text = f.message(), head = "/home/u/.kube/config:";
    INFO(text);
    REQUIRE(text.starts_with(head));
    return text.substr(head.size());
}

const std::string v1 = "apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never",
                  v1beta1 = "apiVersion: client.authentication.k8s.io/v1beta1";

} // namespace

TEST_CASE("kubeconfig: an exec plugin is taken over as it is written") {
    const auto c = good(config_with("{" + v1 +
                                    ", command: aws, args: [eks, get-token, \"--cluster\", 7], "
                                    "env: [{name: A, value: b=c}, {name: E, value: ''}], installHint: get it}"));
    const exec_plugin& p = c.credentials.exec;
    CHECK(p.command == "aws");
    CHECK(p.arguments == std::vector<std::string>{"eks", "get-token", "--cluster", "7"});
    CHECK(p.environment == std::vector<std::pair<std::string, std::string>>{{"A", "b=c"}, {"E", ""}});
    CHECK(p.api_version == "client.authentication.k8s.io/v1");
    CHECK(p.install_hint == "get it");
    CHECK_FALSE(p.provide_cluster_info);
    CHECK(c.warnings.empty());
    // As gcloud writes it.
    const auto gke = good(config_with(
        "{" + v1beta1 + ", command: gke-gcloud-auth-plugin, args: null, env: null, provideClusterInfo: true}"));
    CHECK(gke.credentials.exec.arguments.empty());
    CHECK(gke.credentials.exec.provide_cluster_info);
}

TEST_CASE("kubeconfig: the path of a plugin is relative to the file's folder, unless it has no slash") {
    const auto command = [](const std::string& given, const std::string& file) {
        return good(config_with("{" + v1 + ", command: " + given + "}"), file).credentials.exec.command;
    };
    CHECK(command("./bin/plugin", "/home/u/.kube/config") == "/home/u/.kube/bin/plugin");
    CHECK(command("../plugin", "/home/u/.kube/config") == "/home/u/plugin");
    CHECK(command("/usr/bin/plugin", "/home/u/.kube/config") == "/usr/bin/plugin");
    CHECK(command("plugin", "/home/u/.kube/config") == "plugin");
    CHECK(command("./plugin", "config") == std::filesystem::current_path() / "plugin");
}

TEST_CASE("kubeconfig: an invalid plugin is refused with file and line") {
    const auto about = [](const std::string& rest) { return refusal(config_with("{command: aws,\n " + rest + "}")); };
    CHECK(about("apiVersion: v1") ==
          "11: user \"u\": exec: apiVersion \"v1\" is neither client.authentication.k8s.io/v1 nor v1beta1");
    CHECK(has(about("apiVersion: client.authentication.k8s.io/v1alpha1"),
              "11: user \"u\": exec: apiVersion \"client.authentication.k8s.io/v1alpha1\""));
    CHECK(about("args: []") == "10: user \"u\": exec: the apiVersion is missing");
    CHECK(about("apiVersion: client.authentication.k8s.io/v1") ==
          "10: user \"u\": exec: the interactiveMode is missing");
    CHECK(about(v1beta1 + ",\n interactiveMode: Always") ==
          "12: user \"u\": exec: interactiveMode Always: the plugin wants a terminal, and there is none");
    CHECK(about(v1beta1 + ",\n interactiveMode: no") ==
          "12: user \"u\": exec: interactiveMode \"no\" is none of Never, IfAvailable and Always");
    CHECK(about(v1 + ",\n args: x") == "12: args must be a list, not a single value");
    CHECK(about(v1 + ",\n args: [[x]]") == "12: args must be a list of strings");
    CHECK(about(v1 + ",\n env: {a: b}") == "12: env must be a list, not a map");
    CHECK(about(v1 + ",\n env: [{value: s3cret}]") == "12: an entry of env has no name, or one with '='");
    CHECK(about(v1 + ",\n provideClusterInfo: 1") == "12: provideClusterInfo must be true or false");
    CHECK(refusal(config_with("{" + v1 + "}")) == "10: user \"u\": exec: the command is missing");
    CHECK(refusal(config_with("[]")) == "10: exec must be a map, not a list");
    CHECK(has(refusal(config_with("{" + v1 + ", command: a}, auth-provider: {name: gcp}")), "auth-provider \"gcp\""));
    // IfAvailable is run without a terminal.
    CHECK(good(config_with("{" + v1beta1 + ", interactiveMode: IfAvailable, command: a}")).credentials.exec.command ==
          "a");
}

TEST_CASE("kubeconfig: an invalid plugin of a user that is not selected does no harm") {
    auto yaml = config_with("{command: a, apiVersion: v1alpha1}");
    yaml.replace(yaml.find("user: u}"), 8, "user: o}");
    yaml.insert(yaml.find("users:\n") + 7, "- name: o\n  user: {token: t}\n");
    CHECK(good(yaml).credentials.exec.command.empty());
}

TEST_CASE("kubeconfig: a plugin beside a token, a user name or a certificate is not run, and a warning says so") {
    const auto c = good(config_with("{" + v1 + ", command: a}", "token: t, "));
    CHECK(c.credentials.token == "t");
    REQUIRE(c.warnings.size() == 1);
    CHECK(has(c.warnings[0], "its exec plugin is not run"));
}

TEST_CASE("kubeconfig: the cluster's extension for plugins goes to a plugin with provideClusterInfo") {
    const std::string extensions =
        ", extensions: [{name: other, extension: [1]}, {name: client.authentication.k8s.io/exec, extension: "
        "{audience: a, number: 1, text: '1', yes: true, none: null, list: [1.5, {}], int: !!int 2, str: !!str 3}}]";
    const auto config = [&](const std::string& more) {
        return good(config_with("{" + v1 + ", command: a" + more + "}", "", extensions));
    };
    CHECK(config(", provideClusterInfo: true").credentials.exec.cluster_config ==
          R"({"audience":"a","number":1,"text":"1","yes":true,"none":null,"list":[1.5E0,{}],"int":2,"str":"3"})");
    CHECK(config("").credentials.exec.cluster_config.empty());
}

TEST_CASE("kubeconfig: an extension for plugins that is too large for an environment is refused") {
    const auto with = [](const std::string& extension) {
        return refusal(config_with(
            "{" + v1 + ", command: a}", "",
            ",\n    extensions: [{name: client.authentication.k8s.io/exec, extension: " + extension + "}]"));
    };
    CHECK(with("'" + std::string(70'000, 'x') + "'") ==
          "7: extension client.authentication.k8s.io/exec: larger than 64 KiB");
    CHECK(with("&a [*a]") == "7: extension client.authentication.k8s.io/exec: nested too deeply");
    std::string laughs = "&a0 [x]";
    for (int i = 1; i < 20; ++i)
        laughs = "&a" + std::to_string(i) + " [" + laughs + ", *a" + std::to_string(i - 1) + "]";
    CHECK(has(with(laughs), "larger than 64 KiB"));
}

TEST_CASE("kubeconfig: a plugin is dropped if credentials cannot be sent") {
    auto yaml = config_with("{" + v1 + ", command: a}");
    yaml.replace(yaml.find("https://h"), 9, "http://h1");
    const auto c = good(yaml);
    CHECK(c.credentials.exec.command.empty());
    REQUIRE(c.warnings.size() == 1);
    CHECK(c.warnings[0] == "http://h1 is not TLS: credentials are not sent");
}

TEST_CASE("kubeconfig: loading runs no plugin") {
    const temporary_folder dir;
    const auto plugin = dir.write("plugin", "#!/bin/sh\ntouch " + dir.path("ran") + "\n");
    std::filesystem::permissions(plugin, std::filesystem::perms::owner_all);
    const auto file = dir.write("config", config_with("{" + v1 + ", command: ./plugin}"));
    failure f;
    const auto c = load_kubeconfig(kubeconfig_options().path(file), f);
    CHECK_FALSE(f);
    CHECK(c.credentials.exec.command == plugin);
    CHECK_FALSE(std::filesystem::exists(dir.path("ran")));
}

TEST_CASE("exec plugin: it is told the proxy, with our login there") {
    client_config c;
    c.server = "https://h";
    c.credentials.exec.provide_cluster_info = true;
    const auto told = [&](const std::string& url) {
        failure f;
        c.proxy = http::proxy::parse(url, f);
        REQUIRE_FALSE(f);
        return kubernetes::detail::exec_info(c, "");
    };
    const std::string head = R"("cluster":{"server":"https://h","proxy-url":")";
    CHECK(has(told("http://me:s3cret@p:3128"), head + R"(http://me:s3cret@p:3128"})"));
    CHECK(has(told("socks5://a%40b:%2F%3A%20@[::1]"), head + R"(socks5://a%40b:%2F%3A%20@[::1]:1080"})"));
    CHECK(has(told("http://me@p"), head + R"(http://me@p:80"})"));
    CHECK(has(told("http://:pw@p"), head + R"(http://:pw@p:80"})"));
    CHECK(has(told("https://me:s3cret@p"), head + R"(https://me:s3cret@p:443"})"));
    CHECK(has(told("http://p"), head + R"(http://p:80"})"));
}

TEST_CASE("exec plugin: the proxy's login that it was told is not repeated in errors") {
    exec_plugin p;
    CHECK(kubernetes::detail::last_words("dial http://me:s3cret@p:3128/x: refused", p) ==
          "dial http://[redacted]@p:3128/x: refused");
}

TEST_CASE("exec plugin: its last words are cut and made printable") {
    const exec_plugin p;
    const auto words = [&](const std::string& s) { return kubernetes::detail::last_words(s, p); };
    CHECK(words("").empty());
    CHECK(words("\n \r\n").empty());
    CHECK(words("a\r\n\n  b\t\n") == "a    b");
    CHECK(words("1\n2\n3\n4\n5") == "2 3 4 5");
    const std::string umlauts = [] {
        std::string s;
        for (int i = 0; i < 600; ++i) s += "\xc3\xa4";
        return s;
    }();
    const auto cut = words("x" + umlauts);
    CHECK(cut.starts_with("\xe2\x80\xa6 \xc3\xa4"));
    CHECK(cut.size() <= 520);
    CHECK(words("token: k8s-aws-v1.aHR0cHM6Ly9zdHM end") == "token: [redacted] end");
}
