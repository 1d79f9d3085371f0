// The two parts of `apiVersion`.
#pragma once

#include <string_view>

namespace informer::detail {

/// "apps" and "v1" of "apps/v1"; for "v1" the group is empty.
struct group_version {
    explicit group_version(std::string_view api_version) noexcept {
        const auto slash = api_version.find('/');
        const bool core = slash == std::string_view::npos;
        group = core ? std::string_view() : api_version.substr(0, slash);
        version = core ? api_version : api_version.substr(slash + 1);
    }
    std::string_view group, version; ///< views of the argument
};

} // namespace informer::detail
