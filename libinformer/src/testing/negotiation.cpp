#include "negotiation.hpp"

#include "json_tools.hpp"
#include "refusal.hpp"
#include "root/ascii.hpp"

#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>

#include <algorithm>

namespace informer::testing::detail {

using informer::detail::lower;
using informer::detail::trimmed;

namespace {

/// Cuts off and returns the part before the separator.
std::string_view cut(std::string_view& s, char separator) {
    const auto at = std::min(s.find(separator), s.size());
    const auto part = trimmed(s.substr(0, at));
    s.remove_prefix(std::min(at + 1, s.size()));
    return part;
}

std::optional<answer_form> form_of_clause(std::string_view clause) {
    const auto type = cut(clause, ';');
    if (type != "application/json" && type != "application/*" && type != "*/*") return std::nullopt;
    std::string_view as, group, version;
    while (!clause.empty()) {
        auto parameter = cut(clause, ';');
        const auto name = cut(parameter, '=');
        if (name == "as") as = parameter;
        if (name == "g") group = parameter;
        if (name == "v") version = parameter;
    }
    if (as.empty()) return answer_form::whole;
    if (group != "meta.k8s.io" || version != "v1") return std::nullopt;
    if (as == "PartialObjectMetadata") return answer_form::partial;
    if (as == "PartialObjectMetadataList") return answer_form::partial_list;
    return std::nullopt;
}

} // namespace

std::optional<answer_form> form_of(std::string_view accept) {
    if (trimmed(accept).empty()) return answer_form::whole;
    while (!accept.empty()) {
        const auto form = form_of_clause(cut(accept, ','));
        if (form) return form;
    }
    return std::nullopt;
}

std::string partial_text(std::string_view stored_text) {
    std::string whole = "{";
    whole += stored_text;
    const auto all = parse_body(whole); // reads as deep as a stored object may be
    boost::json::object o;
    if (const auto* metadata = all.if_contains("metadata")) o["metadata"] = *metadata;
    return boost::json::serialize(o).substr(1);
}

void check_body_type(std::string_view content_type) {
    const auto type = lower(trimmed(content_type.substr(0, content_type.find(';'))));
    if (content_type.empty() || type == "application/json") return;
    throw refused(415, "UnsupportedMediaType",
                  "the body of the request was in an unknown format - accepted media types include: application/json");
}

} // namespace informer::testing::detail
