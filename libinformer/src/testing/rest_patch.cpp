// Patches: the patched object is written like any other update.
#include "rest_api.hpp"

#include "json_tools.hpp"
#include "object_rules.hpp"
#include "refusal.hpp"
#include "strategic_merge.hpp"

#include <informer/object/json.hpp>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

namespace informer::testing::detail {

namespace json = boost::json;

namespace {

/// The real server's `replace` also adds a member that is absent. In an object, `add` does both.
json::value with_lenient_replace(json::value operations) {
    auto* all = operations.if_array();
    if (all == nullptr) return operations;
    for (auto& one : *all) {
        auto* o = one.if_object();
        if (o == nullptr || string_at(*o, {"op"}) != "replace") continue;
        const auto path = string_at(*o, {"path"});
        const auto last = path.substr(path.rfind('/') + 1);
        const bool may_be_an_index = last.find_first_not_of("0123456789-") == std::string::npos; // or the path is empty
        if (!may_be_an_index) (*o)["op"] = "add";
    }
    return operations;
}

} // namespace

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
        if (!change.is_array()) throw bad_request("a JSON patch must be an array of operations");
        failure f;
        if (!apply_json_patch(whole, with_lenient_replace(change), f)) {
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
