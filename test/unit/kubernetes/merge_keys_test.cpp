// YAML's merge keys (<<) in a kubeconfig.
#include <informer/kubernetes/config.hpp>

#include <catch2/catch_test_macros.hpp>

#include <string>

using namespace informer;
using namespace informer::kubernetes;

namespace {

client_config parse(const std::string& yaml, failure& f) {
    return parse_kubeconfig(yaml, "/home/u/.kube/config", kubeconfig_options(), f);
}

client_config good(const std::string& yaml) {
    failure f;
    auto c = parse(yaml, f);
    INFO(f.what());
    CHECK_FALSE(f);
    return c;
}

/// Without the file's name.
std::string refusal(const std::string& yaml) {
    failure f;
    parse(yaml, f);
    CHECK(f == errc::bad_kubeconfig);
    const std::string head = "/home/u/.kube/config:", text = f.message();
    return text.starts_with(head) ? text.substr(head.size()) : text;
}

/// `before` is a line of its own; the user stands in line 8.
std::string with(const std::string& before, const std::string& user, const std::string& context = "") {
    return before +
           "\nkind: Config\ncurrent-context: c\nclusters:\n- {name: k, cluster: {server: 'https://h'}}\n"
           "users:\n- name: u\n  user: " +
           user + "\ncontexts:\n- {name: c, context: {cluster: k, user: u" + context + "}}\n";
}

} // namespace

TEST_CASE("merge keys: what only the merged map has is read, wherever it stands") {
    auto c = good(with("x: &x {token: t, as: jane, as-user-extra: {scopes: [a]}}", "{<<: *x}"));
    CHECK(c.credentials.token == "t");
    CHECK(c.credentials.impersonate_user == "jane");
    CHECK(c.credentials.impersonate_extra.at("scopes") == std::vector<std::string>{"a"});
    c = good(with("x: &x {scopes: [a], why: [b]}", "{as: jane, as-user-extra: {<<: *x, why: [c]}}"));
    CHECK(c.credentials.impersonate_extra.at("scopes") == std::vector<std::string>{"a"});
    CHECK(c.credentials.impersonate_extra.at("why") == std::vector<std::string>{"c"});
    CHECK(c.credentials.impersonate_extra.size() == 2);
    c = good(with("x: &x {namespace: ns1}", "{}", ", <<: *x"));
    CHECK(c.name_space == "ns1");
    c = good("x: &x {proxy-url: 'http://p:1', server: 'https://merged'}\ncurrent-context: c\nclusters:\n"
             "- {name: k, cluster: {<<: *x}}\ncontexts:\n- {name: c, context: {cluster: k}}\n");
    CHECK(c.server == "https://merged");
    CHECK(c.proxy.url() == "http://p:1");
    c = good(with("x: &x {exec: {apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never, command: a, env: "
                  "[&e {name: N, value: v}, {<<: *e, name: M}]}}",
                  "{<<: *x}"));
    CHECK(c.credentials.exec.command == "a");
    CHECK(c.credentials.exec.environment == std::vector<std::pair<std::string, std::string>>{{"N", "v"}, {"M", "v"}});
    c = good("<<: {current-context: c, contexts: [{name: c, context: {cluster: k}}]}\n"
             "clusters:\n- <<: {name: k}\n  cluster: {server: 'https://h'}\n");
    CHECK(c.server == "https://h");
}

TEST_CASE("merge keys: the cluster's extension for plugins has what is merged") {
    const auto c =
        good("x: &x {a: 1, b: 1}\ncurrent-context: c\nclusters:\n- name: k\n  cluster: {server: 'https://h', "
             "extensions: [{name: client.authentication.k8s.io/exec, extension: {<<: *x, b: 2}}]}\n"
             "users:\n- name: u\n  user: {exec: {apiVersion: client.authentication.k8s.io/v1, "
             "interactiveMode: Never, command: a, provideClusterInfo: true}}\n"
             "contexts:\n- {name: c, context: {cluster: k, user: u}}\n");
    CHECK(c.credentials.exec.cluster_config == R"({"b":2,"a":1})");
}

TEST_CASE("merge keys: a map's own member wins, then the earlier map, at every depth") {
    const auto token = [](const std::string& before, const std::string& user) {
        return good(with(before, user)).credentials.token;
    };
    CHECK(token("x: &x {token: merged}", "{<<: *x, token: own}") == "own");
    CHECK(token("x: &x {token: merged}", "{token: own, <<: *x}") == "own");
    CHECK(token("x: &x {token: merged}", "{token: null, <<: *x}").empty());
    CHECK(token("x: [&x {token: first}, &y {token: second}]", "{<<: [*x, *y]}") == "first");
    CHECK(token("x: [&x {as: a}, &y {token: second}]", "{<<: [*x, *y]}") == "second");
    CHECK(token("x: [&x {token: far}, &y {<<: *x}, &z {<<: *y, as: a}]", "{<<: *z}") == "far");
    CHECK(token("x: [&x {token: far}, &y {<<: *x, token: near}]", "{<<: [*y, *x]}") == "near");
    CHECK(token("x: 1", "{<<: {token: inline}}") == "inline");
    CHECK(token("x: 1", "{!!merge <<: {token: tagged}}") == "tagged");
    CHECK(token("x: 1", "{<<: [], token: own}") == "own");
}

TEST_CASE("merge keys: the map that is merged stays as it is") {
    const std::string users = "- {name: v, user: {<<: *x, as: jane}}\n- name: u\n  user: ";
    std::string yaml = with("x: &x {token: t}", "*x");
    yaml.replace(yaml.find("- name: u\n  user: "), 18, users);
    const auto c = good(yaml);
    CHECK(c.credentials.token == "t");
    CHECK(c.credentials.impersonate_user.empty());
}

TEST_CASE("merge keys: one without maps is refused with its line") {
    const std::string what = "a merge key (<<) must have a map or a list of maps";
    for (const std::string bad : {"5", "null", "text", "[a]", "[{}, [{}]]"}) {
        CAPTURE(bad);
        CHECK(refusal(with("# 1", "\n    token: t\n    <<: " + bad)) == "10: " + what);
    }
    CHECK(refusal(with("# 1", "{as: a, as-user-extra:\n     {<<: s3cret}}")) == "9: " + what);
    CHECK(refusal("current-context: c\nclusters:\n- name: k\n  cluster:\n    server: 'https://h'\n    extensions:\n    "
                  "- name: "
                  "client.authentication.k8s.io/exec\n      extension:\n        a: 1\n        <<: 5\n") ==
          "10: " + what);
    CHECK(refusal(with("# 1", "&u {<<: *u}")) == "8: a merge key (<<) names the map that it stands in");
    CHECK(refusal(with("# 1", "&u {<<: {<<: *u}}")) == "8: a merge key (<<) names the map that it stands in");
}

TEST_CASE("merge keys: a quoted one is a key like any other") {
    CHECK(good(with("x: &x {token: t}", "{'<<': *x}")).credentials.token.empty());
    CHECK(good(with("x: &x {token: t}", "{\"<<\": 5}")).credentials.token.empty());
    const auto c = good(with("x: 1", "{as: a, as-user-extra: {'<<': [b]}}"));
    CHECK(c.credentials.impersonate_extra.at("<<") == std::vector<std::string>{"b"});
}

TEST_CASE("merge keys: aliases of merged maps multiply nothing, and depth and members are bounded") {
    // Each map merges the one before four times: 4^30 paths.
    std::string laughs = "x: [&a0 {token: t}";
    for (int i = 1; i < 30; ++i) {
        const std::string before = "*a" + std::to_string(i - 1);
        laughs += ", &a" + std::to_string(i) + " {<<: [" + before + "," + before + "," + before + "," + before + "]}";
    }
    CHECK(good(with(laughs + "]", "{<<: *a29}")).credentials.token == "t");

    std::string nested = "{token: t}";
    for (int i = 0; i < 40; ++i) nested = "{<<: " + nested + "}";
    CHECK(refusal(with("# 1", nested)) == "8: merge keys (<<) are nested too deeply");

    std::string wide = "x: &x {k: v", many = "{<<: [*x";
    for (int i = 0; i < 1000; ++i) {
        wide += ", k" + std::to_string(i) + ": v";
        many += ", *x";
    }
    CHECK(refusal(with(wide + "}", many + "]}")) == "8: merge keys (<<) take more than 500000 members");

    std::string users;
    for (int i = 0; i < 20; ++i) users += "- {name: u" + std::to_string(i) + ", user: {<<: *x}}\n";
    CHECK(refusal("x: &x {token: " + std::string(1 << 20, 'a') + "}\nusers:\n" + users)
              .find("aliases make more than 16 MiB") != std::string::npos);
}

TEST_CASE("merge keys: a thousand users may have one base") {
    std::string users =
        "x: &x {as: jane, token: t, as-groups: [a, b], as-uid: '7', username: '', password: ''}\nusers:\n";
    for (int i = 0; i < 1000; ++i) users += "- {name: u" + std::to_string(i) + ", user: {<<: *x}}\n";
    const auto c = good(users + "current-context: c\nclusters:\n- {name: k, cluster: {server: 'https://h'}}\n"
                                "contexts:\n- {name: c, context: {cluster: k, user: u999}}\n");
    CHECK(c.credentials.token == "t");
}
