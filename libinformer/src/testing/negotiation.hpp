// The form of an object that a request asks for with its Accept header.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace informer::testing::detail {

/// The forms that `as=` in a media type can name.
enum class answer_form {
    whole,
    partial,      ///< PartialObjectMetadata
    partial_list, ///< PartialObjectMetadataList
};

/// The form of the first clause that the server supports; nullopt when there is none (406). Clauses that ask for Table
/// are skipped.
std::optional<answer_form> form_of(std::string_view accept);

/// The text before the metadata of a PartialObjectMetadata.
inline constexpr std::string_view partial_head = R"({"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1",)";
/// `"metadata":{…}}` from a stored text.
std::string partial_text(std::string_view stored_text);

/// Refuses (415) a body whose Content-Type is not JSON; a body without Content-Type is taken for JSON.
void check_body_type(std::string_view content_type);

} // namespace informer::testing::detail
