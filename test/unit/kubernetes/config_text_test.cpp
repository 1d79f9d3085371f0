// Texts that a kubeconfig may have, wherever it was written.
#include <informer/kubernetes/config.hpp>

#include <catch2/catch_test_macros.hpp>

#include <string>
#include <vector>

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

TEST_CASE("kubeconfig: of several YAML documents the first is read, and a warning says where the others begin") {
    const std::string other = "kind: Config\ncurrent-context: other\n";
    const auto warnings = [](const std::string& text) {
        failure f;
        const auto c = parse_kubeconfig(text, "config", kubeconfig_options(), f);
        INFO(text);
        CHECK_FALSE(f);
        CHECK(c.server == "https://h:1");
        return c.warnings;
    };
    const auto said = [](int line) {
        return std::vector<std::string>{"config:" + std::to_string(line) +
                                        ": not read, because only the first YAML document of a kubeconfig counts"};
    };
    // `plain` has 16 lines
    CHECK(warnings(plain + "---\n" + other) == said(18));
    CHECK(warnings("%YAML 1.2\n---\n" + plain + "--- # theirs\n\n" + other) == said(21));
    CHECK(warnings(plain + "--- {kind: Config}\n") == said(17));
    CHECK(warnings(plain + "...\n---\r\n" + other) == said(19));
    CHECK(warnings("\xef\xbb\xbf---\n" + plain + "---\n---\nx: [\n") == said(20));
    for (const std::string& text :
         {plain + "---\n", plain + "...\n# the end\n", "---\n" + plain + "---\n\n...\n# x\n",
          "# a\n\n--- # b\n" + plain, plain + "x: |\n  ---\n  text\n---", plain + "----: 1\n"})
        CHECK(warnings(text).empty());
}

TEST_CASE("kubeconfig: what is missing in the first YAML document is said to be perhaps in what was not read") {
    failure f;
    parse_kubeconfig(plain + "---\n" + plain, "config", kubeconfig_options().context("other"), f);
    CHECK(f.message() == "config: there is no context \"other\" (there are: c); config:18: not read, because only the "
                         "first YAML document of a kubeconfig counts");
    parse_kubeconfig("kind: ConfigMap\n---\n" + plain, "config", kubeconfig_options(), f);
    CHECK(
        f.message().ends_with("its kind is \"ConfigMap\"; config:3: not read, because only the first YAML document of "
                              "a kubeconfig counts"));
    parse_kubeconfig("[]\n---\n" + plain, "config", kubeconfig_options(), f);
    CHECK(f.message().ends_with("; config:3: not read, because only the first YAML document of a kubeconfig counts"));
    // What is there and cannot be used is in no other document.
    parse_kubeconfig(plain + "---\n" + plain, "config", kubeconfig_options().server("ftp://h"), f);
    REQUIRE(f);
    CHECK(f.message().find("not read") == std::string::npos);
}
