// A piece of YAML as the JSON that it stands for.
#pragma once

#include <string>

#include <yaml-cpp/node/node.h>

namespace informer::kubernetes::detail {

/// Numbers, booleans and null are told from strings as YAML does it: by their looks, and not where they are quoted. `why` is not empty
/// where it is larger than 64 KiB or nested too deeply, by aliases for example.
std::string yaml_to_json(const YAML::Node& n, std::string& why);

} // namespace informer::kubernetes::detail
