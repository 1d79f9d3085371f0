// Whether received parts of a body are more than blanks.
#pragma once

#include <algorithm>
#include <string_view>
#include <vector>

namespace informer::detail {

/// Blanks between JSON tokens are no progress: from a list that sends nothing else for minutes, nothing more will come.
inline bool is_progress(const std::vector<std::string_view>& came) {
    return std::any_of(came.begin(), came.end(),
                       [](std::string_view p) { return p.find_first_not_of(" \t\r\n") != p.npos; });
}

} // namespace informer::detail
