// JSON for who reads it as YAML.
#pragma once

#include <string>

namespace informer::kubernetes::detail {

/// Serialized JSON that a reader of YAML takes for the same value. JSON allows in strings, as they are, what YAML refuses (U+007F
/// to U+009F, U+FFFE, U+FFFF) or takes for line breaks, which it folds into blanks (NEL, LS, PS): here they are escapes, which mean
/// the same in both.
std::string json_as_yaml(std::string json);

} // namespace informer::kubernetes::detail
