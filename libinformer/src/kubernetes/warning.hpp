// The server's `Warning` headers.
#pragma once

#include <informer/kubernetes/config.hpp>

#include <string_view>
#include <vector>

namespace informer::kubernetes::detail {

/// All warnings of one header line (RFC 7234, section 5.5: `code agent "text" ["date"]`, separated by commas), up to
/// the first that cannot be read. Text and agent are printable; `doing` is left empty.
std::vector<server_warning> parse_warnings(std::string_view line);

} // namespace informer::kubernetes::detail
