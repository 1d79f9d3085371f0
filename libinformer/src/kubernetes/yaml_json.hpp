// A piece of YAML as the JSON that it stands for.
#pragma once

#include <string>

#include <yaml-cpp/node/node.h>

namespace informer::kubernetes::detail {

/// Numbers, booleans and null are distinguished from strings as in YAML: by their form, unless they are quoted. `why`
/// is not empty if the result is larger than 64 KiB or nested too deeply, for example by aliases, or if a key is no
/// string.
std::string yaml_to_json(const YAML::Node& n, std::string& why);

} // namespace informer::kubernetes::detail
