#include "support/temporary_folder.hpp"

#include <informer/kubernetes/config.hpp>

#include <catch2/catch_test_macros.hpp>

#include <cstdlib>
#include <filesystem>
#include <locale>
#include <string>

#include <unistd.h>

using namespace informer;
using namespace informer::kubernetes;
using informer::testing::temporary_folder;

namespace {

constexpr const char* pem_text = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n";
// base64 of "-----BEGIN X-----\n"
constexpr const char* pem_base64 = "LS0tLS1CRUdJTiBYLS0tLS0K";

std::string config_with(const std::string& cluster, const std::string& user, const std::string& context_extra = "") {
    return "apiVersion: v1\nkind: Config\ncurrent-context: c\n"
           "clusters:\n- name: k\n  cluster: " +
           cluster +
           "\n"
           "users:\n- name: u\n  user: " +
           user +
           "\n"
           "contexts:\n- name: c\n  context: {cluster: k, user: u" +
           context_extra + "}\n";
}

client_config parse(const std::string& yaml, failure& f, const kubeconfig_options& o = kubeconfig_options()) {
    return parse_kubeconfig(yaml, "/home/u/.kube/config", o, f);
}

std::string refusal(const std::string& yaml, const kubeconfig_options& o = kubeconfig_options()) {
    failure f;
    parse(yaml, f, o);
    CHECK(f == errc::bad_kubeconfig);
    return f.message();
}

client_config good(const std::string& yaml, const kubeconfig_options& o = kubeconfig_options()) {
    failure f;
    auto c = parse(yaml, f, o);
    INFO(f.what());
    CHECK_FALSE(f);
    return c;
}

bool has(const std::string& text, const std::string& part) {
    UNSCOPED_INFO(text);
    return text.find(part) != std::string::npos;
}

} // namespace

TEST_CASE("kubeconfig: inline data, namespace and user of the current context are used") {
    const auto c = good(
        config_with(std::string("{server: 'https://1.2.3.4:6443', certificate-authority-data: ") + pem_base64 + "}",
                    std::string("{client-certificate-data: ") + pem_base64 + ", client-key-data: " + pem_base64 +
                        ", as: jane, as-groups: [a, b]}",
                    ", namespace: ns1"));
    CHECK(c.server == "https://1.2.3.4:6443");
    CHECK(c.name_space == "ns1");
    CHECK(c.context == "c");
    CHECK(c.origin == "/home/u/.kube/config");
    CHECK(c.tls.ca_pem_ == "-----BEGIN X-----\n");
    CHECK(c.tls.certificate_pem_ == "-----BEGIN X-----\n");
    CHECK(c.tls.key_pem_ == "-----BEGIN X-----\n");
    CHECK(c.credentials.impersonate_user == "jane");
    CHECK(c.credentials.impersonate_groups == std::vector<std::string>{"a", "b"});
}

TEST_CASE("kubeconfig: the user to impersonate is read with uid and extra values") {
    const auto c =
        good(config_with("{server: 'https://h'}",
                         "{as: jane, as-uid: '7', as-user-extra: {scopes: [a, b], example.com/why: [], none: null}}"));
    CHECK(c.credentials.impersonate_uid == "7");
    CHECK(c.credentials.impersonate_extra.at("scopes") == std::vector<std::string>{"a", "b"});
    CHECK(c.credentials.impersonate_extra.at("example.com/why").empty());
    const auto refused = [](const std::string& user) { return refusal(config_with("{server: 'https://h'}", user)); };
    CHECK(has(refused("{as-uid: '7'}"), "has as-uid, but no as"));
    CHECK(has(refused("{as-user-extra: {a: [b]}}"), "has as-user-extra, but no as"));
    CHECK(has(refused("{as: x, as-user-extra: [a]}"), "as-user-extra must be a map, not a list"));
    CHECK(
        has(refused("{as: x, as-user-extra: {a: b}}"), "a value of as-user-extra must be a list, not a single value"));
    CHECK(has(refused("{as: x, as-user-extra: {a: [[b]]}}"), "a value of as-user-extra must be a list of strings"));
    CHECK(
        has(refused("{as: x, as-user-extra: {'': [b]}}"), "a key of as-user-extra must be a string that is not empty"));
}

TEST_CASE("kubeconfig: values that no header can carry are refused when the file is read, not by each request") {
    const auto refused = [](const std::string& user) { return refusal(config_with("{server: 'https://h'}", user)); };
    for (const std::string user :
         {R"({token: "s3cret\n"})", R"({as: "s3cret\r"})", R"({as: x, as-uid: "s3cret\x7f"})",
          R"({as: x, as-groups: [a, "s3cret\0"]})", R"({as: x, as-user-extra: {a: ["s3cret\n"]}})"}) {
        CAPTURE(user);
        const std::string said = refused(user);
        CHECK(has(said, "has a line break or another character that no header can carry"));
        CHECK(!has(said, "s3cret"));
    }
    CHECK(has(refused(R"({token: "a\n"})"), "user \"u\": token has a line break"));
}

TEST_CASE("kubeconfig: if no namespace is given, it is default") {
    CHECK(good(config_with("{server: 'https://h'}", "{}")).name_space == "default");
}

TEST_CASE("kubeconfig: JSON is read, tabs included") {
    const auto c =
        good("{\n\t\"kind\": \"Config\", \"current-context\": \"c\",\n\t\"clusters\": [{\"name\": \"k\", \"cluster\": "
             "{\"server\": \"https:\\/\\/h:1\"}}],\n\t\"contexts\": [{\"name\": \"c\", \"context\": {\"cluster\": "
             "\"k\"}}]}");
    CHECK(c.server == "https://h:1");
}

TEST_CASE("kubeconfig: a missing cluster, user or context is named with its line") {
    const std::string base = "current-context: c\ncontexts:\n- name: c\n  context:\n    cluster: nope\n    user: u\n";
    CHECK(refusal(base) == "/home/u/.kube/config:5: context \"c\" names cluster \"nope\", which is not there");
    CHECK(refusal("current-context: c\nclusters:\n- {name: k, cluster: {server: 'https://h'}}\ncontexts:\n- name: c\n  "
                  "context:\n"
                  "    cluster: k\n    user: x\n") ==
          "/home/u/.kube/config:8: context \"c\" names user \"x\", which is not there");
    CHECK(refusal("kind: Config\ncurrent-context: zz\ncontexts:\n- {name: a, context: {}}\n") ==
          "/home/u/.kube/config:2: current-context is \"zz\", which is not there (there are: a)");
    CHECK(refusal(base, kubeconfig_options().context("other")) ==
          "/home/u/.kube/config: there is no context \"other\" (there are: c)");
    CHECK(refusal("contexts:\n- {name: a, context: {}}\n") ==
          "/home/u/.kube/config: no current-context is set, and no context was asked for (there are: a)");
    CHECK(refusal("current-context: c\ncontexts:\n- {name: c, context: {}}\n") ==
          "/home/u/.kube/config:3: context \"c\" names no cluster");
    CHECK(has(refusal(config_with("{}", "{}")), "config:5: the cluster has no server"));
}

TEST_CASE("kubeconfig: wrong types are refused with their line") {
    CHECK(refusal("clusters: 5\n") == "/home/u/.kube/config:1: clusters must be a list, not a single value");
    CHECK(refusal("\n- a\n") == "/home/u/.kube/config:2: not a kubeconfig: a list instead of a map");
    CHECK(refusal("kind: Pod\n") == "/home/u/.kube/config:1: not a kubeconfig: its kind is \"Pod\"");
    CHECK(refusal("clusters:\n- 7\n") ==
          "/home/u/.kube/config:2: an entry of clusters must be a map, not a single value");
    CHECK(refusal("users:\n- name: u\n  user: []\n") == "/home/u/.kube/config:3: user must be a map, not a list");
    CHECK(refusal("users:\n- name: u\n  user:\n    token: [s3cret]\n") ==
          "/home/u/.kube/config:4: token must be a string, not a list");
    CHECK(refusal("clusters:\n- name: k\n  cluster:\n    insecure-skip-tls-verify: perhaps\n") ==
          "/home/u/.kube/config:4: insecure-skip-tls-verify must be true or false");
    CHECK(refusal("users:\n- {name: a}\n- {name: a}\n") ==
          "/home/u/.kube/config:3: user \"a\" stands in this file twice");
}

TEST_CASE("kubeconfig: an entry without a name does no harm, and is used where no name is given") {
    const std::string nameless =
        "clusters:\n- {name: '', cluster: {server: 'https://nameless'}}\n- {name: k, cluster: {server: 'https://h'}}\n"
        "users:\n- {user: {token: nobodys}}\n- {name: u, user: {token: mine}}\n"
        "contexts:\n- {name: '', context: {}}\n- {name: c, context: {cluster: k, user: u}}\n";
    auto c = good(nameless + "current-context: c\n");
    CHECK(c.server == "https://h");
    CHECK(c.credentials.token == "mine");
    c = good(nameless);
    CHECK(c.server == "https://nameless");
    CHECK(c.credentials.token == "nobodys");
}

TEST_CASE("kubeconfig: broken YAML is refused with its line") {
    CHECK(has(refusal("kind: Config\nusers: [a, b\n"), "/home/u/.kube/config:"));
    CHECK(has(refusal("kind: Config\nx: &a 1\ny: *b\n"), "/home/u/.kube/config:3: "));
    CHECK(has(refusal("a: b: c\n"), "/home/u/.kube/config:1: "));
}

TEST_CASE("kubeconfig: an empty file says so") {
    CHECK(refusal("") == "/home/u/.kube/config: the file is empty");
    CHECK(refusal("# nothing\n---\n") == "/home/u/.kube/config: the file is empty");
}

TEST_CASE("kubeconfig: nesting, aliases and size are bounded") {
    CHECK(has(refusal(std::string(100000, '[')), "nested too deeply"));
    CHECK(has(refusal(std::string(200000, '{')), "nested too deeply"));
    std::string bomb = "a0: &a0 [x,x,x,x,x,x,x,x,x]\n";
    for (int i = 1; i < 40; ++i) {
        const std::string n = std::to_string(i), p = "*a" + std::to_string(i - 1);
        bomb += "a" + n + ": &a" + n + " [" + p + "," + p + "," + p + "," + p + "]\n";
    }
    CHECK(has(refusal(bomb), "no current-context"));
    CHECK(has(refusal(bomb + "users: *a39\n"), "an entry of users must be a map"));
    CHECK(has(refusal(std::string((16 << 20) + 1, ' ')), "larger than 16 MiB"));
    std::string values = "x: [";
    for (int i = 0; i < 600'000; ++i) values += "a,";
    CHECK(has(refusal(values + "a]\n"), "config:1: more than 500000 values"));
    std::string clusters =
        "clusters:\n- {name: k, cluster: &k {certificate-authority-data: " + std::string(1 << 20, 'a') + "}}\n";
    std::string users = "users:\n- {name: u, user: &u {as-groups: [&g " + std::string(1 << 20, 'a');
    for (int i = 0; i < 20; ++i) {
        clusters += "- {name: k" + std::to_string(i) + ", cluster: *k}\n";
        users += ", *g";
    }
    CHECK(has(refusal(clusters), "aliases make more than 16 MiB"));
    CHECK(has(refusal(users + "]}}\n"), "aliases make more than 16 MiB"));
    const std::string told = "{name: client.authentication.k8s.io/exec, extension: " + std::string(60'000, 'a') + "}";
    std::string extended = "clusters:\n- {name: k, cluster: &k {server: 'https://h', extensions: [&e " + told;
    for (int i = 0; i < 1000; ++i) extended += ", *e";
    CHECK(has(refusal(extended + "]}}\n"), "aliases make more than 16 MiB"));
    extended = "clusters:\n- {name: k, cluster: &k {server: 'https://h', extensions: [" + told + "]}}\n";
    for (int i = 0; i < 1000; ++i) extended += "- {name: k" + std::to_string(i) + ", cluster: *k}\n";
    CHECK(has(refusal(extended), "aliases make more than 16 MiB"));
    good("x: &k {server: 'https://h'}\n" + config_with("*k", "{}"));
}

TEST_CASE("kubeconfig: bad data is named by key, never by value") {
    CHECK(has(refusal(config_with("{server: 'https://h', certificate-authority-data: '%%s3cret'}", "{}")),
              "config:6: certificate-authority-data is not base64"));
    CHECK(has(
        refusal(config_with("{server: 'https://h'}", "{client-certificate-data: aGFsbG8=, client-key-data: aGFsbG8=}")),
        "client-certificate-data holds no PEM"));
    for (const std::string bad : {"abc", "a===", "ab=c", "YWJj-", "YW Jj=", "=AAA"})
        CHECK(has(refusal(config_with("{server: 'https://h', certificate-authority-data: '" + bad + "'}", "{}")),
                  "is not base64"));
    CHECK(
        has(refusal(config_with("{server: 'https://h'}", std::string("{client-certificate-data: ") + pem_base64 + "}")),
            "user \"u\" has a client-certificate, but no client-key"));
}

TEST_CASE("kubeconfig: a file that cannot be read is named; paths are relative to the kubeconfig") {
    const temporary_folder dir;
    const auto file =
        dir.write("sub/config", config_with("{server: 'https://h', certificate-authority: certs/ca.crt}", "{}"));
    failure f;
    load_kubeconfig(kubeconfig_options().path(file), f);
    CHECK(f.message() ==
          file + ":6: certificate-authority: cannot read " + dir.path("sub/certs/ca.crt") + ": no such file");
    dir.write("sub/certs/ca.crt", pem_text);
    const auto c = load_kubeconfig(kubeconfig_options().path(file), f);
    CHECK_FALSE(f);
    CHECK(c.tls.ca_pem_ == pem_text);
    CHECK(c.tls_files.ca == dir.path("sub/certs/ca.crt"));
    CHECK(c.tls_files.certificate.empty());
    CHECK(c.origin == file);
}

TEST_CASE("kubeconfig: data beats file") {
    const auto c = good(
        config_with(std::string("{server: 'https://h', certificate-authority: /none, certificate-authority-data: ") +
                        pem_base64 + "}",
                    "{}"));
    CHECK(c.tls.ca_pem_ == "-----BEGIN X-----\n");
    CHECK(c.tls_files.ca.empty());
}

TEST_CASE("kubeconfig: a file that was asked for must be there") {
    failure f;
    load_kubeconfig(kubeconfig_options().path("/none/at/all"), f);
    CHECK(f == errc::bad_kubeconfig);
    CHECK(f.message() == "/none/at/all: no such file");
    load_kubeconfig(kubeconfig_options().path("/tmp"), f);
    CHECK(f.message() == "/tmp: Is a directory");
}

TEST_CASE("kubeconfig: $KUBECONFIG is a list, the first file wins entry by entry, missing ones are skipped") {
    const temporary_folder dir;
    const auto a = dir.write("a", "current-context: c\nclusters:\n- {name: k, cluster: {server: 'https://first'}}\n");
    const auto b = dir.write("b", "current-context: other\nclusters:\n- {name: k, cluster: {server: 'https://second', "
                                  "tls-server-name: second}}\ncontexts:\n- {name: c, context: {cluster: k}}\n");
    failure f;
    auto c = load_kubeconfig(kubeconfig_options().environment(a + ":" + dir.path("gone") + "::" + a + ":" + b, ""), f);
    INFO(f.what());
    REQUIRE_FALSE(f);
    CHECK(c.server == "https://first");
    CHECK(c.tls.server_name_.empty()); // whole entries, not members
    CHECK(c.context == "c");
    CHECK(c.origin == a + ":" + b);
    CHECK(c.warnings == std::vector<std::string>{"KUBECONFIG: " + dir.path("gone") + " does not exist"});

    load_kubeconfig(kubeconfig_options().environment(dir.path("gone"), ""), f);
    CHECK(f.message() == "no file of $KUBECONFIG exists: " + dir.path("gone"));
}

TEST_CASE("kubeconfig: without $KUBECONFIG it is ~/.kube/config") {
    const temporary_folder home;
    failure f;
    load_kubeconfig(kubeconfig_options().environment("", home.path("")), f);
    CHECK(f == errc::bad_kubeconfig);
    CHECK(has(f.message(), ".kube/config does not exist"));
    home.write(".kube/config", config_with("{server: 'https://h'}", "{}"));
    CHECK(load_kubeconfig(kubeconfig_options().environment("", home.path("")), f).server == "https://h");
    CHECK_FALSE(f);
}

TEST_CASE("kubeconfig: a server alone is used without credentials") {
    failure f;
    const auto c = load_kubeconfig(kubeconfig_options().environment("", "/none").server("http://127.0.0.1:8001"), f);
    REQUIRE_FALSE(f);
    CHECK(c.server == "http://127.0.0.1:8001");
    CHECK(c.origin == "--server");
    CHECK(c.name_space == "default");
    load_kubeconfig(kubeconfig_options().environment("", "/none").server("ftp://x"), f);
    CHECK(has(f.message(), "--server: server: "));
}

TEST_CASE("kubeconfig: --server replaces the address and clears tls-server-name, credentials stay") {
    const auto c =
        good(config_with(std::string("{server: 'https://h', tls-server-name: x, certificate-authority-data: ") +
                             pem_base64 + "}",
                         "{token: t0}"),
             kubeconfig_options().server("https://other:1"));
    CHECK(c.server == "https://other:1");
    CHECK(c.tls.server_name_.empty());
    CHECK(c.tls.ca_pem_ == "-----BEGIN X-----\n");
    CHECK(c.credentials.token == "t0");
}

TEST_CASE("kubeconfig: --user and --cluster replace those of the context") {
    std::string more = config_with("{server: 'https://h'}", "{token: t}", ", namespace: ns1") +
                       "- {name: d, context: {cluster: gone, user: gone, namespace: ns2}}\n";
    more.insert(more.find("users:"), "- {name: k2, cluster: {server: 'https://h2', tls-server-name: n}}\n");
    more.insert(more.find("contexts:"), "- {name: u2, user: {token: t2}}\n");
    auto c = good(more, kubeconfig_options().user("u2"));
    CHECK(c.server == "https://h");
    CHECK(c.credentials.token == "t2");
    CHECK(c.name_space == "ns1");
    CHECK(c.context == "c");
    c = good(more, kubeconfig_options().cluster("k2"));
    CHECK(c.server == "https://h2");
    CHECK(c.tls.server_name_ == "n");
    CHECK(c.credentials.token == "t");
    // Nobody asks for what the context names itself.
    c = good(more, kubeconfig_options().context("d").cluster("k2").user("u2"));
    CHECK(c.server == "https://h2");
    CHECK(c.credentials.token == "t2");
    CHECK(c.name_space == "ns2");
    c = good(more, kubeconfig_options().server("https://h3").cluster("k2").user("u2"));
    CHECK(c.server == "https://h3");
    CHECK(c.credentials.token == "t2");
}

TEST_CASE("kubeconfig: an unknown --user or --cluster is refused with those that are known") {
    const std::string yaml = config_with("{server: 'https://h'}", "{token: t}");
    CHECK(refusal(yaml, kubeconfig_options().user("x")) ==
          "/home/u/.kube/config: there is no user \"x\" (there are: u)");
    CHECK(refusal(yaml, kubeconfig_options().cluster("x").user("u")) ==
          "/home/u/.kube/config: there is no cluster \"x\" (there are: k)");
    CHECK(refusal("kind: Config\n", kubeconfig_options().user("x")) ==
          "/home/u/.kube/config: there is no user \"x\" (there are no users)");
}

TEST_CASE("kubeconfig: with --user or --cluster there need be no current context") {
    std::string yaml = config_with("{server: 'https://h'}", "{token: t}", ", namespace: ns1");
    yaml.erase(yaml.find("current-context"), yaml.find("clusters:") - yaml.find("current-context"));
    auto c = good(yaml, kubeconfig_options().user("u").cluster("k"));
    CHECK(c.server == "https://h");
    CHECK(c.credentials.token == "t");
    CHECK(c.name_space == "default");
    CHECK(c.context.empty());
    c = good(yaml, kubeconfig_options().cluster("k"));
    CHECK(c.server == "https://h");
    CHECK(c.credentials.token.empty());
    c = good(yaml, kubeconfig_options().user("u").server("https://other"));
    CHECK(c.server == "https://other");
    CHECK(c.credentials.token == "t");
    CHECK(refusal(yaml, kubeconfig_options().user("u")) ==
          "/home/u/.kube/config: no current-context is set, and no cluster was asked for (there are: k)");
    // A context that is named must be there, whatever replaces its parts.
    CHECK(has(refusal("current-context: gone\n" + yaml, kubeconfig_options().user("u").cluster("k")),
              "current-context is \"gone\", which is not there"));
}

TEST_CASE("kubeconfig: a server without scheme is TLS when there is TLS material") {
    CHECK(good(config_with("{server: 'h:80'}", "{}")).server == "http://h:80");
    CHECK(good(config_with(std::string("{server: 'h:80', certificate-authority-data: ") + pem_base64 + "}", "{}"))
              .server == "https://h:80");
    CHECK(good(config_with("{server: 'h:80'}", std::string("{client-certificate-data: ") + pem_base64 +
                                                   ", client-key-data: " + pem_base64 + "}"))
              .server == "https://h:80");
}

TEST_CASE("kubeconfig: insecure is taken over and warned about") {
    const auto c = good(config_with("{server: 'https://h', insecure-skip-tls-verify: true}", "{}"));
    CHECK(c.tls.insecure_);
    REQUIRE(c.warnings.size() == 1);
    CHECK(c.warnings[0] == "https://h: the server's certificate is not verified");
    CHECK(has(
        refusal(config_with("{server: 'https://h', insecure-skip-tls-verify: true, certificate-authority: /x}", "{}")),
        "exclude each other"));
    const auto forced = good(config_with("{server: 'https://h', certificate-authority: /none}", "{}"),
                             kubeconfig_options().insecure(true));
    CHECK(forced.tls.insecure_);
    CHECK(forced.tls.ca_pem_.empty());
}

TEST_CASE("kubeconfig: what is not supported is refused by name") {
    CHECK(has(refusal(config_with("{server: 'https://h'}", "{auth-provider: {name: gcp}}")),
              "the auth-provider \"gcp\""));
    // a key that is not known does no harm
    CHECK(good(config_with("{server: 'https://h'}", "{}") + "extra: [1]\n").server == "https://h");
}

TEST_CASE("kubeconfig: a token beats its file, an empty token file is an error") {
    const temporary_folder dir;
    const auto token = dir.write("token", "from-file\n");
    const auto empty = dir.write("empty", " \n");
    auto c = good(config_with("{server: 'https://h'}", "{tokenFile: " + token + "}"));
    CHECK(c.credentials.token == "from-file");
    CHECK(c.credentials.token_file == token);
    c = good(config_with("{server: 'https://h'}", "{token: inline, tokenFile: " + empty + "}"));
    CHECK(c.credentials.token == "inline");
    REQUIRE(c.warnings.size() == 1);
    CHECK(has(refusal(config_with("{server: 'https://h'}", "{tokenFile: " + empty + "}")),
              "tokenFile: cannot read " + empty + ": the file is empty"));
    const auto two_lines = dir.write("two", "one\ntwo\n");
    CHECK(has(refusal(config_with("{server: 'https://h'}", "{tokenFile: " + two_lines + "}")),
              two_lines + ": it has more than one line"));
    c = good(config_with("{server: 'https://h'}", "{token: inline, tokenFile: " + two_lines + "}"));
    CHECK(c.credentials.token == "inline");
    CHECK(has(refusal(config_with("{server: 'https://h'}", "{tokenFile: /none}")),
              "config:9: tokenFile: cannot read /none: no such file"));
    CHECK(has(refusal(config_with("{server: 'https://h'}", "{token: s3cret, username: a, password: b}")),
              "which one is meant"));
}

TEST_CASE("kubeconfig: a token from a pipe is read once, while loading, and no other writer is waited for") {
    int ends[2];
    REQUIRE(::pipe(ends) == 0);
    REQUIRE(::write(ends[1], "t0\n", 3) == 3);
    ::close(ends[1]);
    const auto c = good(config_with("{server: 'https://h'}", "{tokenFile: /dev/fd/" + std::to_string(ends[0]) + "}"));
    ::close(ends[0]);
    CHECK(c.credentials.token == "t0");
    CHECK(c.credentials.token_file.empty());
}

TEST_CASE("kubeconfig: credentials go over TLS or loopback only") {
    CHECK(good(config_with("{server: 'http://127.0.0.1:1'}", "{token: t0}")).credentials.token == "t0");
    const auto c = good(config_with("{server: 'http://10.0.0.1:1'}", "{token: t0}"));
    CHECK(c.credentials.token.empty());
    REQUIRE(c.warnings.size() == 1);
    CHECK(c.warnings[0] == "http://10.0.0.1:1 is not TLS: credentials are not sent");
}

TEST_CASE("kubeconfig: secrets never reach messages") {
    const std::string secret = "s3cret-s3cret-s3cret";
    for (const std::string& user :
         {"{token: " + secret + ", username: x}", "{token: " + secret + ", client-key-data: " + secret + "}",
          "{token: " + secret + ", client-certificate-data: '" + secret + "', client-key-data: x}",
          "{token: " + secret + ", as-groups: " + secret + "}", "{password: [" + secret + "]}",
          "{password: " + secret + ", exec: {command: x, args: [" + secret + "]}}", "{token: \"" + secret + "}"}) {
        const auto text = refusal(config_with("{server: 'https://h'}", user));
        CHECK_FALSE(has(text, "s3cret"));
    }
    CHECK_FALSE(has(refusal(config_with("{server: 'https://me:s3cret@h'}", "{}")), "s3cret"));
}

TEST_CASE("kubeconfig: a quote that is left open brings no secrets into messages") {
    const std::string whole =
        "apiVersion: v1\nkind: Config\ncurrent-context: c\n"
        "clusters:\n- name: k\n  cluster:\n    server: https://h\n    certificate-authority: ca.crt\n"
        "users:\n- name: u\n  user:\n    token: s3cret\n    tokenFile: token\n"
        "- name: w\n  user:\n    client-key: key.pem\n    password: s3cret\n"
        "- name: e\n  user: {exec: {command: x, env: [{name: a, value: s3cret}]}}\n"
        "contexts:\n- name: d\n  context:\n    cluster: k\n    user: w\n"
        "- name: c\n  context:\n    cluster: k\n    user: u\n";
    for (const std::string context : {"c", "d"})
        for (const char* const quote : {"'", "\""})
            for (std::size_t i = 0; i <= whole.size(); ++i)
                for (std::size_t end = whole.find('\n', i); end < whole.size(); end = whole.find('\n', end + 1)) {
                    std::string text = whole; // from here to the end of that line
                    text.insert(end, quote).insert(i, quote);
                    failure f;
                    const auto c = parse(text, f, kubeconfig_options().context(context));
                    std::string said = f.what();
                    for (const auto& w : c.warnings) said += w;
                    if (said.find("s3cret") != std::string::npos) FAIL_CHECK(said << " of\n" << text);
                }
}

TEST_CASE("in-cluster: service account, namespace file and CA of a pod") {
    const temporary_folder dir;
    setenv("KUBERNETES_SERVICE_HOST", "fd00::1", 1);
    setenv("KUBERNETES_SERVICE_PORT", "443", 1);
    failure f;
    in_cluster_config(f, dir.path(""));
    CHECK(f == errc::bad_configuration);
    CHECK(has(f.message(), "/token: no such file"));
    dir.write("token", "t0\nt1\n");
    in_cluster_config(f, dir.path(""));
    CHECK(f == errc::bad_configuration);
    CHECK(has(f.message(), "/token: it has more than one line"));
    dir.write("token", "t0\n");
    dir.write("namespace", "ns1\n");
    auto c = in_cluster_config(f, dir.path(""));
    CHECK_FALSE(f);
    CHECK(c.server == "https://[fd00::1]:443");
    CHECK(c.credentials.token == "t0");
    CHECK(c.name_space == "ns1");
    CHECK(c.warnings.size() == 1);
    dir.write("ca.crt", pem_text);
    c = in_cluster_config(f, dir.path(""));
    CHECK(c.tls.ca_pem_ == pem_text);
    CHECK(c.warnings.empty());
    c = default_config(kubeconfig_options().environment("/dev/null", "").insecure(true), f, dir.path(""));
    CHECK(c.origin == "in-cluster");
    CHECK(c.tls.insecure_);
    CHECK(c.tls.ca_pem_.empty());
    CHECK(c.tls_files.ca.empty());
    // a kubeconfig that says something wins
    const auto file = dir.write("kc", config_with("{server: 'https://h'}", "{}"));
    CHECK(default_config(kubeconfig_options().environment(file, ""), f).server == "https://h");
    default_config(kubeconfig_options().environment("", "/none"), f);
    CHECK(has(f.message(), "in-cluster")); // no service account under the usual path
    // if none does, a warning tells the user who meant one
    c = default_config(kubeconfig_options().environment(dir.path("mistyped") + ":" + dir.write("blank", "\n"), ""), f,
                       dir.path(""));
    CHECK(c.origin == "in-cluster");
    REQUIRE(c.warnings.size() == 2);
    CHECK(has(c.warnings[0], "mistyped does not exist"));
    CHECK(has(c.warnings[1], "blank is empty"));
    const auto left_over = dir.write("left", "kind: Config\nclusters: []\nusers: null\ncurrent-context: ''\n");
    const auto undecided = dir.write("undecided", "contexts:\n- {name: a, context: {}}\n");
    for (const auto& nothing : {std::string("/dev/null"), left_over, left_over + ":/dev/null"}) {
        default_config(kubeconfig_options().environment(nothing, ""), f);
        CHECK(has(f.message(), "in-cluster")); // as kubectl
    }
    for (const auto& meant : {kubeconfig_options().environment(undecided, ""), kubeconfig_options().path("/dev/null"),
                              kubeconfig_options().environment("/dev/null", "").context("staging")}) {
        default_config(meant, f);
        CHECK(f == errc::bad_kubeconfig);
    }
    default_config(kubeconfig_options().environment("", "/none").context("staging"), f);
    CHECK(f == errc::bad_kubeconfig); // a pod has no such context
    unsetenv("KUBERNETES_SERVICE_HOST");
    unsetenv("KUBERNETES_SERVICE_PORT");
    default_config(kubeconfig_options().environment("", "/none"), f);
    CHECK(f == errc::bad_kubeconfig);
    in_cluster_config(f, dir.path(""));
    CHECK(has(f.message(), "this is no pod"));
}

TEST_CASE("kubeconfig: files that it names are found even if the process changes its folder later") {
    const temporary_folder dir;
    std::filesystem::create_directory(dir.path("k"));
    dir.write("k/token", "t");
    dir.write("k/config", config_with("{server: 'https://h'}", "{tokenFile: token}"));
    dir.write("k/plugin", config_with("{server: 'https://h'}",
                                      "{exec: {apiVersion: client.authentication.k8s.io/v1, command: ./run, "
                                      "interactiveMode: Never}}"));
    const auto here = std::filesystem::current_path();
    std::filesystem::current_path(dir.path(""));
    failure f;
    const auto c = load_kubeconfig(kubeconfig_options().path("k/config"), f);
    CHECK_FALSE(f);
    const auto with_plugin = load_kubeconfig(kubeconfig_options().path("k/plugin"), f);
    CHECK_FALSE(f);
    const auto there = std::filesystem::current_path();
    std::filesystem::current_path(here);
    CHECK(c.credentials.token_file == there / "k/token");
    CHECK(with_plugin.credentials.exec.command == there / "k/run");
}

namespace {

/// Numbers as in a German locale: a decimal comma, and points between thousands.
class german final : public std::numpunct<char> {
    char do_decimal_point() const override { return ','; }
    char do_thousands_sep() const override { return '.'; }
    std::string do_grouping() const override { return "\3"; }
};

} // namespace

TEST_CASE("kubeconfig: it is read the same in every locale") {
    const std::string extension = "audience: a, list: [1.5, 1.500, 10.000.000, 1000, -7, +7, 0x1F, -0x1F, 0o17, 017, "
                                  "08, 1e3, .5, 9223372036854775807, "
                                  "-9223372036854775808, 1.2.3, '5', 0x, 1_0]";
    const std::string text =
        "%YAML 1.2\n---\n" +
        config_with("{server: 'https://h', extensions: [{name: client.authentication.k8s.io/exec, extension: {" +
                        extension + "}}]}",
                    "{exec: {apiVersion: client.authentication.k8s.io/v1, command: a, interactiveMode: Never, "
                    "provideClusterInfo: true}}");
    const auto numbers = [&] { return good(text).credentials.exec.cluster_config; };
    const std::string usual = numbers();
    const std::locale before = std::locale::global(std::locale(std::locale::classic(), new german));
    const std::string there = numbers();
    std::locale::global(before);
    CHECK(usual ==
          R"({"audience":"a","list":[1.5E0,1.5E0,"10.000.000",1000,-7,7,31,-31,15,15,8E0,1E3,5E-1,9223372036854775807,)"
          R"(-9223372036854775808,"1.2.3","5","0x","1_0"]})");
    CHECK(there == usual);
}
