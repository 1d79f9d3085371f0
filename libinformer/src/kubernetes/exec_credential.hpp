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

/// Whether requests are to ask the plugin. As with client-go, who is given another way to say who we are does not.
bool asks_plugin(const client_config& c) noexcept;
/// What is wrong with it, for a sentence; empty: nothing.
std::string fault_of(const exec_plugin& p);

/// The value of KUBERNETES_EXEC_INFO. `ca_pem`: the CAs in use.
std::string exec_info(const client_config& c, std::string_view ca_pem);
/// The process's environment, changed as the plugin wants it, and `info` as KUBERNETES_EXEC_INFO. "NAME=value" each.
std::vector<std::string> exec_environment(const exec_plugin& p, const std::string& info);

struct exec_credential {
    std::string token, certificate_pem, key_pem;
    std::optional<std::chrono::system_clock::time_point> expires;
};
/// What a plugin wrote; `why` is not empty where that is no credential, and holds nothing of it.
exec_credential read_exec_credential(std::string_view text, std::string_view api_version, std::string& why);

/// What a plugin said, without what looks like a secret and without the values of its own environment.
std::string unsaid(std::string text, const exec_plugin& p);
/// The end of what it complained of, for a message: its last lines as one, printable, and so masked.
std::string last_words(std::string_view complaint, const exec_plugin& p);

} // namespace informer::kubernetes::detail
