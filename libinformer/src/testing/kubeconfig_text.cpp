#include "kubeconfig_text.hpp"

#include "root/base64.hpp"

#include <boost/json/serialize.hpp>
#include <boost/json/string_view.hpp>

namespace informer::testing::detail {

namespace {

using informer::detail::base64_encode;

// JSON strings are YAML strings.
std::string quoted(const std::string& s) {
    return boost::json::serialize(boost::json::string_view(s));
}

} // namespace

std::string kubeconfig_text(const std::string& url, const std::string& ca_pem,
                            const std::vector<kubeconfig_user>& users) {
    std::string out =
        "apiVersion: v1\nkind: Config\nclusters:\n- name: libinformer\n  cluster:\n    server: " + url + "\n";
    if (!ca_pem.empty()) out += "    certificate-authority-data: " + base64_encode(ca_pem) + "\n";
    out += "contexts:\n";
    for (const auto& u : users) {
        out += "- name: " + quoted(u.context) +
               "\n  context:\n    cluster: libinformer\n    user: " + quoted(u.context) + "\n";
    }
    out += "users:\n";
    for (const auto& u : users) {
        out += "- name: " + quoted(u.context) + "\n  user:";
        if (u.token.empty() && u.certificate_pem.empty()) out += " {}";
        out += "\n";
        if (!u.token.empty()) out += "    token: " + quoted(u.token) + "\n";
        if (!u.certificate_pem.empty()) {
            out += "    client-certificate-data: " + base64_encode(u.certificate_pem) + "\n";
            out += "    client-key-data: " + base64_encode(u.key_pem) + "\n";
        }
    }
    out += "current-context: " + quoted(users.empty() ? std::string() : users.front().context) + "\n";
    return out;
}

} // namespace informer::testing::detail
