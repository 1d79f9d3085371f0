// Base64 (RFC 4648, section 4) as kubeconfig files and Basic authentication use it.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace informer::kubernetes::detail {

/// White space is skipped (YAML folds long lines); nullopt when it is not base64.
std::optional<std::string> base64_decode(std::string_view text);
std::string base64_encode(std::string_view bytes);

} // namespace informer::kubernetes::detail
