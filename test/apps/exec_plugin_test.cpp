// informerctl with a kubeconfig whose user is an exec plugin, as cloud providers write them.
#include "programs.hpp"
#include "support/system_calls.hpp"

#include <filesystem>
#include <fstream>
#include <sstream>

using namespace programs;

namespace {

/// The server's kubeconfig with an exec plugin, which is stored beside it, in the place of the token.
std::string with_plugin(const server& s, const std::string& token, const std::string& script) {
    informer::testing::need_pidfd_open();
    std::ifstream file(s.kubeconfig());
    std::stringstream all;
    all << file.rdbuf();
    std::string text = all.str();
    const std::string line = "    token: \"" + token + "\"\n";
    const auto at = text.find(line);
    REQUIRE(at != std::string::npos);
    text.replace(
        at, line.size(),
        "    exec:\n      apiVersion: client.authentication.k8s.io/v1beta1\n      command: ./plugin\n      args: null\n"
        "      env:\n      - {name: TOKEN, value: " +
            token + "}\n      provideClusterInfo: true\n");
    const std::string plugin = s.folder().write("plugin", "#!/bin/sh\n" + script + "\n");
    std::filesystem::permissions(plugin, std::filesystem::perms::owner_all);
    return s.folder().write("exec-kubeconfig", text);
}

const std::string answer =
    R"(printf '{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1beta1","status":{"token":"%s"}}' "$TOKEN")";

} // namespace

TEST_CASE("informerctl runs the exec plugin of its kubeconfig") {
    const server s({"--tls", "--token", "good-token"});
    const std::string knows = "case $KUBERNETES_EXEC_INFO in *certificate-authority-data*) ;; *) exit 1 ;; esac\n";
    const auto k = "--kubeconfig=" + with_plugin(s, "good-token", knows + answer);
    const auto got = run({"get", k, "namespaces", "-o", "name"});
    INFO(got.err);
    CHECK(got.code == 0);
    CHECK(got.out.find("namespace/default\n") != std::string::npos);
    CHECK(got.err.empty());
}

TEST_CASE("informerctl says why the exec plugin of its kubeconfig fails, and ends") {
    const server s({"--tls", "--token", "good-token"});
    const auto k = "--kubeconfig=" + with_plugin(s, "good-token", "echo you are not logged in, $TOKEN >&2; exit 1");
    for (const std::string command : {"get", "watch", "sync"}) {
        const auto r = run({command, k, "namespaces"});
        INFO(r.err);
        CHECK(r.code == 1);
        CHECK(
            r.err.find("/plugin\" exited with status 1, saying: you are not logged in, [redacted]: no credential\n") !=
            std::string::npos);
        // the stderr of the plugin
        CHECK(r.err.find("plugin: you are not logged in, good-token\n") != std::string::npos);
    }
}

TEST_CASE("informerctl shows what the exec plugin prints while it waits for a login") {
    const server s({"--tls", "--token", "good-token"});
    const std::string login =
        "echo 'open https://login.test/?state=Zx81aB55cD77eF99gH11' >&2; printf 'code \\033[2JA1\\n' >&2\n"
        "until [ -e \"${0%/*}/done\" ]; do sleep 0.05; done\n";
    process p(ctl({"get", "--kubeconfig=" + with_plugin(s, "good-token", login + answer), "namespaces", "-o", "name"}));
    REQUIRE(p.error_holds("plugin: open https://login.test/?state=Zx81aB55cD77eF99gH11\nplugin: code \\x1b[2JA1\n"));
    s.folder().write("done", "");
    CHECK(p.wait() == 0);
    CHECK(p.out().find("namespace/default\n") != std::string::npos);
}
