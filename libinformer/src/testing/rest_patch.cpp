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
#include <boost/json/serialize.hpp>

#include <algorithm>

namespace informer::testing::detail {

namespace json = boost::json;
using informer::detail::json_patch_rules;

namespace {

/// What makes a body unreadable (400) makes a patch invalid: the object that it gives is at fault.
refusal invalid_patch(const json::object& patched, const std::string& why) {
    auto message = "Invalid value: " + json::serialize(json::string(json::serialize(patched))) + ": " + why;
    return invalid("", "", "", one_cause("FieldValueInvalid", "patch", std::move(message)));
}

/// The words for a custom resource that a patch makes one of another type.
refusal other_type(const target& t, const std::string& api_version, const std::string& kind) {
    const auto slash = api_version.find('/');
    const auto group = slash == std::string::npos ? std::string() : api_version.substr(0, slash);
    const bool other_kind = kind != t.type->api.kind;
    const auto wrong = other_kind ? kind : api_version, right = other_kind ? t.type->api.kind : t.type->api_version();
    return invalid(group, kind, t.name,
                   one_cause("FieldValueInvalid", other_kind ? "kind" : "apiVersion",
                             "Invalid value: \"" + wrong + "\": must be " + right));
}

/// The real server reads the result as an object of the type that it patches, whatever it calls itself.
void patch_strategically(json::object& whole, const json::object& change) {
    const auto kind = whole.at("kind"), api_version = whole.at("apiVersion");
    apply_strategic_merge(whole, change);
    const auto put_back = [&whole](std::string_view key, const json::value& v) {
        const auto* now = whole.if_contains(key);
        if (now == nullptr || now->is_null() || now->is_string()) whole[key] = v;
    };
    put_back("kind", kind);
    put_back("apiVersion", api_version);
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
        patch_strategically(whole.get_object(), change.get_object());
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
    check_patched(t, whole.get_object());
    return update(t, std::move(whole.get_object()), by);
}

void rest_api::check_patched(const target& t, const json::object& patched) const {
    const auto kind = string_at(patched, {"kind"}), api_version = string_at(patched, {"apiVersion"});
    if (t.type->custom && t.subresource != "scale" && !kind.empty() && !api_version.empty() &&
        (kind != t.type->api.kind || api_version != t.type->api_version())) {
        throw other_type(t, api_version, kind);
    }
    try {
        t.subresource == "scale" ? check_scale_type(patched) : check_type(t, patched);
    } catch (const refusal& no) {
        throw invalid_patch(patched, no.status().message);
    }
}

stored rest_api::merge_patch(const target& t, const json::value& patch, const write_by& given) {
    write_by by = given;
    by.patch = true;
    if (!patch.is_object()) throw bad_request("a merge patch must be an object");
    const auto old = must_find(t);
    json::value whole = t.subresource == "scale" ? scale_of(*t.type, *old) : tree(*t.type, *old);
    apply_merge_patch(whole, patch);
    if (!whole.is_object()) throw bad_request("the patched object is no object");
    check_patched(t, whole.get_object());
    return update(t, std::move(whole.get_object()), by);
}

} // namespace informer::testing::detail
