// What form of an object a request asks for, by its Accept header.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace informer::testing::detail {

/// What `as=` in a media type names.
enum class answer_form {
    whole,
    partial,      ///< PartialObjectMetadata
    partial_list, ///< PartialObjectMetadataList
};

/// The first clause that we can serve; nullopt when there is none (406). Table is not served: such clauses are passed over.
std::optional<answer_form> form_of(std::string_view accept);

/// What comes before the metadata of a PartialObjectMetadata.
inline constexpr std::string_view partial_head = R"({"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1",)";
/// `"metadata":{…}}` of a stored text.
std::string partial_text(std::string_view stored_text);

/// Refuses (415) a body that is no JSON by its Content-Type; one without is taken for it.
void check_body_type(std::string_view content_type);

} // namespace informer::testing::detail
