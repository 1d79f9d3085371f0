// JSON for readers that parse it as YAML.
#pragma once

#include <string>

namespace informer::kubernetes::detail {

/// Returns serialized JSON in a form that a YAML parser reads as the same value. JSON strings may hold characters that
/// YAML refuses (U+007F to U+009F, U+FFFE, U+FFFF) or takes for line breaks, which it folds into blanks (NEL, LS, PS).
/// They are replaced by escapes, which mean the same in both.
std::string json_as_yaml(std::string json);

} // namespace informer::kubernetes::detail
