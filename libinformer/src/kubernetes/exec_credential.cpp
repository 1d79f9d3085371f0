#include "kubernetes/exec_credential.hpp"

#include "kubernetes/json_tools.hpp"
#include "kubernetes/kubeconfig.hpp"
#include "kubernetes/yaml_json.hpp"
#include "root/base64.hpp"
#include "root/one_line.hpp"
#include "root/secrets.hpp"
#include "root/utf8.hpp"

#include <informer/http/url.hpp>
#include <informer/object/rfc3339.hpp>

#include <boost/json/serialize.hpp>

#include <algorithm>
#include <utility>

#include <unistd.h>

namespace informer::kubernetes::detail {

using informer::detail::base64_encode;

namespace {

namespace json = boost::json;

bool has_nul(std::string_view s) noexcept {
    return s.find('\0') != std::string_view::npos;
}

std::string_view name_of(std::string_view entry) noexcept {
    return entry.substr(0, entry.find('='));
}

void hide(std::string& text, std::string_view secret) {
    constexpr std::string_view mask = "[redacted]";
    for (std::size_t at = 0; (at = text.find(secret, at)) != std::string::npos; at += mask.size())
        text.replace(at, secret.size(), mask);
}

/// The proxy's URL with the login, as client-go passes it on: a plugin that uses the proxy must authenticate there,
/// too.
std::string with_login(const http::proxy& p) {
    std::string url = p.url();
    if (!p.authenticates()) return url;
    std::string login = http::percent_encode(p.user);
    if (!p.password.empty()) login += ":" + http::percent_encode(p.password);
    return url.insert(url.find("://") + 3, login + "@");
}

bool pem(std::string_view text) noexcept {
    return text.find("-----BEGIN ") != std::string_view::npos;
}

} // namespace

bool asks_plugin(const client_config& c) noexcept {
    const auto& who = c.credentials;
    const bool other = !who.token.empty() || !who.token_file.empty() || !who.username.empty() ||
                       !c.tls.certificate_pem_.empty() || !c.tls_files.certificate.empty();
    return !who.exec.command.empty() && !other;
}

std::string fault_of(const exec_plugin& p) {
    if (p.api_version != exec_v1 && p.api_version != exec_v1beta1)
        return "apiVersion " + in_quotes(p.api_version) + " is neither " + std::string(exec_v1) + " nor v1beta1";
    if (p.command.empty()) return "the command is missing";
    bool nul = has_nul(p.command);
    for (const auto& a : p.arguments) nul = nul || has_nul(a);
    for (const auto& [name, value] : p.environment) {
        if (name.empty() || name.find('=') != std::string::npos)
            return "a variable of env has no name, or one with '='";
        nul = nul || has_nul(name) || has_nul(value);
    }
    if (nul) return "command, args and env must not hold a zero byte";
    if (p.time_limit.count() <= 0) return "the time limit must be positive";
    if (!p.cluster_config.empty()) {
        failure bad;
        parse_answer(p.cluster_config, bad);
        if (bad) return "the cluster's config is no JSON";
    }
    return {};
}

std::string exec_info(const client_config& c, std::string_view ca_pem) {
    const exec_plugin& p = c.credentials.exec;
    json::object spec{{"interactive", false}};
    if (p.provide_cluster_info) {
        json::object cluster{{"server", c.server}};
        if (!c.tls.server_name_.empty()) cluster["tls-server-name"] = c.tls.server_name_;
        if (c.tls.insecure_) cluster["insecure-skip-tls-verify"] = true;
        if (!ca_pem.empty()) cluster["certificate-authority-data"] = base64_encode(ca_pem);
        if (c.proxy) cluster["proxy-url"] = with_login(c.proxy);
        failure bad;
        if (!p.cluster_config.empty()) cluster["config"] = parse_answer(p.cluster_config, bad);
        spec["cluster"] = std::move(cluster);
    }
    const json::object whole{{"kind", "ExecCredential"}, {"apiVersion", p.api_version}, {"spec", std::move(spec)}};
    return json::serialize(whole);
}

std::vector<std::string> exec_environment(const exec_plugin& p, const std::string& info) {
    static constexpr std::string_view info_name = "KUBERNETES_EXEC_INFO";
    std::vector<std::string> all;
    const auto replaced = [&p](std::string_view name) {
        return name == info_name || std::any_of(p.environment.begin(), p.environment.end(),
                                                [name](const auto& v) { return v.first == name; });
    };
    for (char** entry = environ; entry && *entry; ++entry)
        if (!replaced(name_of(*entry))) all.emplace_back(*entry);
    for (auto v = p.environment.begin(); v != p.environment.end(); ++v) { // the last one of a name counts
        const bool again =
            std::any_of(v + 1, p.environment.end(), [v](const auto& later) { return later.first == v->first; });
        if (!again && v->first != info_name) all.push_back(v->first + "=" + v->second);
    }
    all.push_back(std::string(info_name) + "=" + info);
    return all;
}

exec_credential read_exec_credential(std::string_view text, std::string_view api_version, std::string& why) {
    why.clear();
    const auto refuse = [&why](std::string what) {
        why = std::move(what);
        return exec_credential();
    };
    const auto first = text.find_first_not_of(" \t\r\n");
    if (first == std::string_view::npos) return refuse("wrote nothing to stdout");
    std::string from_yaml;
    if (text[first] != '{') { // as with client-go
        if (text.size() > largest_as_json)
            return refuse("what it wrote to stdout is no JSON object, and too large for YAML");
        std::string fault;
        from_yaml = yaml_to_json(text, fault);
        if (!fault.empty()) return refuse("what it wrote to stdout is no JSON or YAML object");
        text = from_yaml;
    }
    failure bad;
    const json::value parsed = parse_answer(text, bad);
    const json::object* whole = parsed.if_object();
    if (bad || !whole) return refuse("what it wrote to stdout is no JSON or YAML object");
    if (string_member(*whole, "kind") != "ExecCredential")
        return refuse("what it wrote to stdout is no ExecCredential");
    if (const auto version = string_member(*whole, "apiVersion"); version != api_version) {
        const bool known = version == exec_v1 || version == exec_v1beta1;
        return refuse("asked for " + std::string(api_version) + ", it answered with " +
                      (known ? std::string(version) : std::string("another apiVersion")));
    }
    const json::object* status = object_member(*whole, "status");
    if (!status) return refuse("its ExecCredential has no status");
    for (const char* key : {"token", "clientCertificateData", "clientKeyData", "expirationTimestamp"}) {
        const json::value* v = member(*status, key);
        if (v && !v->is_null() && !v->is_string())
            return refuse("status." + std::string(key) + " of its ExecCredential is no string");
    }
    exec_credential c;
    c.token = text_member(*status, "token");
    c.certificate_pem = text_member(*status, "clientCertificateData");
    c.key_pem = text_member(*status, "clientKeyData");
    if (c.certificate_pem.empty() != c.key_pem.empty())
        return refuse(std::string("its ExecCredential has a client ") +
                      (c.key_pem.empty() ? "certificate, but no key" : "key, but no certificate"));
    if (c.token.empty() && c.certificate_pem.empty())
        return refuse("its ExecCredential has neither a token nor a client certificate");
    if (informer::detail::has_controls(c.token))
        return refuse("the token of its ExecCredential has a character that no header can carry");
    if (!c.certificate_pem.empty() && !(pem(c.certificate_pem) && pem(c.key_pem)))
        return refuse("the client certificate or key of its ExecCredential is no PEM");
    if (const auto expires = string_member(*status, "expirationTimestamp"); !expires.empty()) {
        c.expires = parse_rfc3339(expires);
        // A time beyond the range of our clock, for instance the year 9999 or Go's zero time, means for ever. (The year
        // is replaced by 2204, a leap year, so that each day that a year can have is accepted.)
        if (!c.expires && !(expires.size() > 4 && parse_rfc3339("2204" + std::string(expires.substr(4)))))
            return refuse("expirationTimestamp of its ExecCredential is no time");
    }
    return c;
}

std::string unsaid(std::string text, const exec_plugin& p) {
    constexpr std::size_t shortest_value = 6; // a shorter value occurs in many words
    for (const auto& [name, value] : p.environment)
        for (std::string_view rest = value; !rest.empty();) { // the text may come line by line, so hide each line
            const std::string_view line = rest.substr(0, rest.find('\n'));
            if (line.size() >= shortest_value) hide(text, line);
            rest.remove_prefix(std::min(line.size() + 1, rest.size()));
        }
    return informer::detail::without_likely_secrets(std::move(text));
}

std::string last_words(std::string_view complaint, const exec_plugin& p) {
    constexpr std::size_t most_lines = 4, most = 512;
    // Masked before anything is cut: half a secret is one, too, but would not be recognized.
    const std::string masked = unsaid(std::string(complaint), p);
    std::vector<std::string_view> lines; // the last line comes first
    for (std::size_t end = masked.size(); lines.size() < most_lines && end > 0;) {
        const std::size_t before = std::string_view(masked).substr(0, end).rfind('\n');
        const std::size_t begin = before == std::string_view::npos ? 0 : before + 1;
        const std::string_view line = std::string_view(masked).substr(begin, end - begin);
        if (line.find_first_not_of(" \t\r") != std::string_view::npos) lines.push_back(line);
        end = before == std::string_view::npos ? 0 : before;
    }
    std::string text;
    for (auto line = lines.rbegin(); line != lines.rend(); ++line) {
        if (!text.empty()) text += ' ';
        text += *line;
    }
    std::string shown;
    for (std::string_view rest = text; !rest.empty();) {
        const std::size_t good = informer::detail::utf8_end(rest);
        shown += rest.substr(0, good);
        if (good < rest.size()) shown += '?';
        rest.remove_prefix(std::min(good + 1, rest.size()));
    }
    if (shown.size() > most) {
        std::size_t from = shown.size() - most;
        while (from < shown.size() && (static_cast<unsigned char>(shown[from]) & 0xc0) == 0x80) ++from;
        shown = "… " + shown.substr(from);
    }
    shown = informer::detail::one_line(std::move(shown));
    const auto first = shown.find_first_not_of(' ');
    return first == std::string::npos ? std::string() : shown.substr(first, shown.find_last_not_of(' ') - first + 1);
}

} // namespace informer::kubernetes::detail
