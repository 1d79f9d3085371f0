// A piece of YAML as the JSON that it stands for.
#pragma once

#include "kubernetes/merge_keys.hpp"

#include <cstddef>
#include <string>
#include <string_view>

#include <yaml-cpp/node/node.h>

namespace informer::kubernetes::detail {

/// The largest result, and the largest text that is loaded for one.
inline constexpr std::size_t largest_as_json = std::size_t(64) << 10;

/// Numbers, booleans and null are distinguished from strings as in YAML: by their form, unless they are quoted. (A time
/// stays a string.) `why` is not empty if the result is larger than 64 KiB or nested too deeply, for example by
/// aliases, if a key is no string, or if a merge key is wrong.
std::string yaml_to_json(const YAML::Node& n, merge_keys& merges, std::string& why);
/// The same of a whole text, of its first document. `why`: also if it is no YAML or itself larger than 64 KiB. No part
/// of the text is in it.
std::string yaml_to_json(std::string_view yaml, std::string& why);

/// yaml-cpp reads the number of a %YAML directive by the process's locale, in which 1.2 may be no number. All versions
/// 1.x are read alike, so that the directive is replaced by spaces.
void drop_version(std::string& yaml);

} // namespace informer::kubernetes::detail
