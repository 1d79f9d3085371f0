// What goes to an exec plugin and what comes back: the ExecCredential of client.authentication.k8s.io.
#pragma once

#include <informer/kubernetes/config.hpp>

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace informer::kubernetes::detail {

inline constexpr std::string_view exec_v1 = "client.authentication.k8s.io/v1",
                                  exec_v1beta1 = "client.authentication.k8s.io/v1beta1";

/// Whether requests use the plugin. As with client-go, they do not if other credentials are given.
bool asks_plugin(const client_config& c) noexcept;
/// What is wrong with the plugin's configuration, as part of a sentence; empty: nothing.
std::string fault_of(const exec_plugin& p);

/// The value of KUBERNETES_EXEC_INFO. `ca_pem`: the CAs in use.
std::string exec_info(const client_config& c, std::string_view ca_pem);
/// The process's environment, with the variables that the plugin is given, and with `info` as KUBERNETES_EXEC_INFO.
/// Each entry is "NAME=value".
std::vector<std::string> exec_environment(const exec_plugin& p, const std::string& info);

struct exec_credential {
    std::string token, certificate_pem, key_pem;
    std::optional<std::chrono::system_clock::time_point> expires;
};
/// Reads what a plugin wrote to stdout: JSON, or YAML of at most 64 KiB if it does not begin with '{'. If that is no
/// credential, `why` says so, without any part of it.
exec_credential read_exec_credential(std::string_view text, std::string_view api_version, std::string& why);

/// The text of a plugin without what looks like a secret and without the values of the variables in `p.environment`.
std::string unsaid(std::string text, const exec_plugin& p);
/// The last lines of a plugin's stderr, for a message: joined to one line, printable, and masked by `unsaid`.
std::string last_words(std::string_view complaint, const exec_plugin& p);

} // namespace informer::kubernetes::detail
