#include <informer/kubernetes/discovery.hpp>

#include "kubernetes/json_tools.hpp"
#include "object/group_version.hpp"

#include <algorithm>

namespace informer::kubernetes::discovery_format {

namespace {

namespace json = boost::json;
using namespace informer::kubernetes::detail;

/// The document, if it is an object of this kind; null and `f` otherwise.
const json::object* document(const json::value& v, std::string_view kind, failure& f) {
    const auto* o = v.if_object();
    if (!o) {
        f = failure(errc::bad_response, "the answer is no " + std::string(kind));
        return nullptr;
    }
    const auto found = string_member(*o, "kind");
    if (found == kind) return o;
    f = failure(errc::bad_response, "the answer is no " + std::string(kind) + " but " +
                                        (found.empty() ? "has no kind" : "a " + std::string(found.substr(0, 64))));
    return nullptr;
}

json::value parse(std::string_view text, failure& f) {
    json::value v = parse_answer(text, f);
    if (f) f = f.within("discovery");
    return v;
}

bool names_subresource(std::string_view name) {
    return name.find('/') != std::string_view::npos;
}

void names(const json::object& o, api_resource& r) {
    r.short_names = texts_member(o, "shortNames");
    r.categories = texts_member(o, "categories");
    r.verbs = texts_member(o, "verbs");
}

} // namespace

std::vector<std::string> api_versions(std::string_view text, failure& f) {
    const json::value v = parse(text, f);
    const auto* o = f ? nullptr : document(v, "APIVersions", f);
    return o ? texts_member(*o, "versions") : std::vector<std::string>();
}

std::vector<group> api_groups(std::string_view text, failure& f) {
    std::vector<group> all;
    const json::value v = parse(text, f);
    const auto* list = f ? nullptr : document(v, "APIGroupList", f);
    if (!list) return all;
    for (const auto& item : array_member(*list, "groups")) {
        const auto* o = item.if_object();
        if (!o) continue;
        group g;
        g.name = text_member(*o, "name");
        if (g.name.empty()) continue;
        for (const auto& version : array_member(*o, "versions"))
            if (const auto* w = version.if_object(); w && !string_member(*w, "version").empty())
                g.versions.push_back(text_member(*w, "version"));
        if (const auto* preferred = object_member(*o, "preferredVersion")) {
            const auto found = std::find(g.versions.begin(), g.versions.end(), string_member(*preferred, "version"));
            if (found != g.versions.end()) std::rotate(g.versions.begin(), found, found + 1);
        }
        all.push_back(std::move(g));
    }
    return all;
}

std::vector<api_resource> api_resources(std::string_view text, failure& f) {
    std::vector<api_resource> all;
    const json::value v = parse(text, f);
    const auto* list = f ? nullptr : document(v, "APIResourceList", f);
    if (!list) return all;
    const informer::detail::group_version in(string_member(*list, "groupVersion"));
    for (const auto& item : array_member(*list, "resources")) {
        const auto* o = item.if_object();
        if (!o) continue;
        // A resource stays in this group even if its kind belongs to another one ("autoscaling/v1 Scale").
        api_resource r(std::string(in.group), std::string(in.version), text_member(*o, "name"), text_member(*o, "kind"),
                       bool_member(*o, "namespaced"));
        if (r.plural.empty() || r.kind.empty() || r.version.empty() || names_subresource(r.plural)) continue;
        r.singular = text_member(*o, "singularName");
        names(*o, r);
        all.push_back(std::move(r));
    }
    return all;
}

std::vector<api_resource> aggregated(std::string_view text, failure& f, std::vector<std::string>* problems) {
    std::vector<api_resource> all;
    const json::value v = parse(text, f);
    const auto* list = f ? nullptr : document(v, "APIGroupDiscoveryList", f);
    if (!list) return all;
    for (const auto& item : array_member(*list, "items")) {
        const auto* g = item.if_object();
        if (!g) continue;
        const auto* metadata = object_member(*g, "metadata");
        const std::string group_name = metadata ? text_member(*metadata, "name") : std::string();
        for (const auto& entry : array_member(*g, "versions")) {
            const auto* w = entry.if_object();
            if (!w) continue;
            const std::string version = text_member(*w, "version");
            if (version.empty()) continue;
            // For an API server that is gone, the aggregator has its last good answer, or none.
            if (problems && string_member(*w, "freshness") == "Stale")
                problems->push_back((group_name.empty() ? version : group_name + "/" + version) +
                                    ": the server behind it cannot be asked now");
            for (const auto& each : array_member(*w, "resources")) {
                const auto* o = each.if_object();
                const auto* kind = o ? object_member(*o, "responseKind") : nullptr;
                if (!kind) continue; // only its sub-resources are served
                api_resource r(group_name, version, text_member(*o, "resource"), text_member(*kind, "kind"),
                               string_member(*o, "scope") != "Cluster");
                if (r.plural.empty() || r.kind.empty() || names_subresource(r.plural)) continue;
                r.singular = text_member(*o, "singularResource");
                names(*o, r);
                all.push_back(std::move(r));
            }
        }
    }
    return all;
}

} // namespace informer::kubernetes::discovery_format
