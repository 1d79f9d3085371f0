// Texts that a kubeconfig may have, wherever it was written.
#include <informer/kubernetes/config.hpp>

#include <catch2/catch_test_macros.hpp>

#include <string>

using namespace informer;
using namespace informer::kubernetes;

namespace {

const std::string plain = "apiVersion: v1\nkind: Config\ncurrent-context: c\n"
                          "clusters:\n- name: k\n  cluster:\n    server: https://h:1\n"
                          "users:\n- name: u\n  user:\n    token: t\n"
                          "contexts:\n- name: c\n  context:\n    cluster: k\n    user: u\n";

std::string in_utf16(const std::string& mark, bool little_end_first) {
    std::string out = mark;
    for (const char c : plain) out += little_end_first ? std::string{c, '\0'} : std::string{'\0', c};
    return out;
}

client_config read(const std::string& text) {
    failure f;
    auto c = parse_kubeconfig(text, "config", kubeconfig_options(), f);
    INFO(f.what());
    CHECK_FALSE(f);
    CHECK(c.warnings.empty());
    return c;
}

} // namespace

TEST_CASE("kubeconfig: it may come from Windows, with a byte order mark, in UTF-16, with its line ends") {
    std::string line_ends;
    for (const char c : plain) line_ends += c == '\n' ? "\r\n" : std::string(1, c);
    for (const std::string& text :
         {"\xef\xbb\xbf" + plain, in_utf16("\xff\xfe", true), in_utf16("\xfe\xff", false), line_ends}) {
        const auto c = read(text);
        CHECK(c.server == "https://h:1");
        CHECK(c.credentials.token == "t");
    }
}

TEST_CASE("kubeconfig: a member that is null counts as absent") {
    std::string text = plain;
    text.replace(text.find("    token: t\n"), 13,
                 "    token: null\n    tokenFile: null\n    username: null\n    password: ~\n    exec:\n"
                 "    auth-provider: null\n    client-certificate-data: null\n    as: null\n");
    text.insert(text.find("users:"),
                "    certificate-authority-data: null\n    proxy-url: null\n    tls-server-name: null\n"
                "    insecure-skip-tls-verify: null\n    extensions: null\n");
    text += "    namespace: null\npreferences: null\nextensions: null\n";
    const auto c = read(text);
    CHECK(c.server == "https://h:1");
    CHECK(c.name_space == "default");
    CHECK(c.credentials.token.empty());
    CHECK(c.credentials.exec.command.empty());
    CHECK(c.tls.ca_pem_.empty());
    CHECK_FALSE(c.tls.insecure_);
}
