// The failure of an answer that cannot be decoded.
#pragma once

#include <informer/error.hpp>

#include <string_view>

namespace informer::detail {

/// `why`, in the context of what was being done ("list pods"). If the answer has another type than JSON, such as a
/// proxy's page, that type is named, because it explains more than a syntax error.
failure undecodable(const failure& why, std::string_view doing, std::string_view content_type);

} // namespace informer::detail
