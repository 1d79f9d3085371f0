// Patches: the patched object is written like any other update.
#include "rest_api.hpp"

#include "json_tools.hpp"
#include "object/json_patch.hpp"
#include "object_rules.hpp"
#include "refusal.hpp"
#include "strategic_merge.hpp"

#include <informer/object/json.hpp>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include <algorithm>

namespace informer::testing::detail {

namespace json = boost::json;
using informer::detail::json_patch_rules;

stored rest_api::patch(const target& t, std::string_view content_type, std::string_view body, const write_by& given) {
    write_by by = given;
    by.patch = true;
    const auto kind = content_type.substr(0, content_type.find(';'));
    const bool merge = kind == "application/merge-patch+json";
    const bool strategic = kind == "application/strategic-merge-patch+json" && !t.type->custom;
    const bool operations = kind == "application/json-patch+json";
    if (!merge && !strategic && !operations) {
        throw refused(415, "UnsupportedMediaType",
                      "the body of the request was in an unknown format - accepted media types include: "
                      "application/json-patch+json, application/merge-patch+json" +
                          std::string(t.type->custom ? "" : ", application/strategic-merge-patch+json") +
                          ", application/apply-patch+yaml");
    }
    const auto change = parse_any(body);
    if (merge) return merge_patch(t, change, by);
    const auto old = must_find(t);
    json::value whole = t.subresource == "scale" ? scale_of(*t.type, *old) : tree(*t.type, *old);
    if (strategic) {
        if (!change.is_object()) throw bad_request("a patch of this kind must be an object");
        apply_strategic_merge(whole.get_object(), change.get_object());
    } else {
        const auto is_operation = [](const json::value& v) { return v.is_object(); };
        const auto* all = change.if_array();
        if (all == nullptr || !std::all_of(all->begin(), all->end(), is_operation))
            throw bad_request("a JSON patch must be an array of operations");
        failure f;
        if (!informer::detail::apply_json_patch(whole, change, json_patch_rules::api_server, f)) {
            throw refused(422, "Invalid",
                          "the server rejected our request due to an error in our request: " + f.what());
        }
    }
    if (!whole.is_object()) throw bad_request("the patched object is no object");
    return update(t, std::move(whole.get_object()), by);
}

stored rest_api::merge_patch(const target& t, const json::value& patch, const write_by& given) {
    write_by by = given;
    by.patch = true;
    if (!patch.is_object()) throw bad_request("a merge patch must be an object");
    const auto old = must_find(t);
    json::value whole = t.subresource == "scale" ? scale_of(*t.type, *old) : tree(*t.type, *old);
    apply_merge_patch(whole, patch);
    if (!whole.is_object()) throw bad_request("the patched object is no object");
    return update(t, std::move(whole.get_object()), by);
}

} // namespace informer::testing::detail
