// Metadata without the rest: asking for PartialObjectMetadata, and giving its objects their own kind back.
#pragma once

#include <string>
#include <string_view>

namespace informer::kubernetes::detail {

/// Accept headers: partial objects if the server supports them, else whole ones (aggregated API servers).
inline constexpr std::string_view accept_partial_list =
    "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";
inline constexpr std::string_view accept_partial_object =
    "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";

/// The text of an object without its kind and apiVersion if these are PartialObjectMetadata of meta.k8s.io/v1, so that
/// the decoder restores those of the resource; any other text as it is. The result lies in `text` or in `scratch`.
std::string_view without_partial_type(std::string_view text, std::string& scratch);

} // namespace informer::kubernetes::detail
