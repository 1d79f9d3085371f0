// Names of C++ for what documents call otherwise.
#pragma once

#include <string>
#include <string_view>

namespace informerctl {

/// The member that `informer::as` and `to_value` take for this name in a document: "nodeName" is node_name, "podIP"
/// pod_IP, "namespace" namespace_. Empty if there is none, as for "a-b" and "$ref".
std::string member_identifier(std::string_view name_in_document);
/// "CSIVolumeSource" is csi_volume_source; what cannot be in a name becomes "_". Never empty, never a keyword.
std::string type_identifier(std::string_view name);
/// Whether this can be a namespace of C++: "kube::apps_v1".
bool is_namespace(std::string_view text);

} // namespace informerctl
