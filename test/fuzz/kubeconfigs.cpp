// A kubeconfig file, and the configuration that is made from it. Files that it names are read if they exist.
#include "input.hpp"
#include "targets.hpp"

#include "root/one_line.hpp"

#include <informer/kubernetes/config.hpp>

#include <string>
#include <string_view>

namespace informer::fuzz {

void kubeconfigs(std::string_view bytes) {
    failure f;
    const kubernetes::client_config c = kubernetes::parse_kubeconfig(
        bytes, "/nowhere/config", kubernetes::kubeconfig_options().environment("", "/nowhere"), f);
    if (f) {
        expect(f == errc::bad_kubeconfig || f == errc::bad_configuration, "an error of another kind");
        expect(!informer::detail::has_controls(f.message()), "words that cannot be shown");
    } else {
        expect(!c.server.empty(), "a configuration without a server");
    }
}

} // namespace informer::fuzz
