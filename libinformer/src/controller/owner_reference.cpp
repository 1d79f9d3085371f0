#include <informer/controller/owner_reference.hpp>

#include "kubernetes/json_tools.hpp"
#include "object/group_version.hpp"

#include <boost/json.hpp>

#include <algorithm>
#include <string_view>
#include <utility>

namespace informer {

namespace json = boost::json;

namespace {

using detail::group_version;
using kubernetes::detail::bool_member;
using kubernetes::detail::string_member;

owner_reference read(const value& v) {
    owner_reference r;
    r.api_version = v["apiVersion"].string_or_empty().str();
    r.kind = v["kind"].string_or_empty().str();
    r.name = v["name"].string_or_empty().str();
    r.uid = v["uid"].string_or_empty().str();
    r.controller = v["controller"].bool_or(false);
    r.block_owner_deletion = v["blockOwnerDeletion"].bool_or(false);
    return r;
}

/// The member as an object, created if it is missing or null; a null pointer if it has another type.
json::object* object_at(json::object& o, std::string_view key) {
    auto& v = o[key];
    if (v.is_null()) v.emplace_object();
    return v.if_object();
}

void set(json::value& dependent, const object& owner, bool controller, failure& f) {
    f = failure();
    const object_meta meta = owner.meta();
    const std::string uid = meta.uid().str(), name = meta.name().str(), kind = owner.kind().str(),
                      api_version = owner.api_version().str();
    const std::string doing = "owner reference to " + kind + " " + owner.key().str();
    if (uid.empty() || name.empty() || kind.empty() || api_version.empty()) {
        f = failure(errc::bad_configuration, doing + ": it lacks a uid, a name or a type");
        return;
    }
    json::object* whole = dependent.if_object();
    json::object* metadata = whole != nullptr ? object_at(*whole, "metadata") : nullptr;
    if (metadata == nullptr) {
        f = failure(errc::not_an_object, doing + ": the dependent is no object");
        return;
    }
    const std::string name_space = meta.name_space().str();
    if (!name_space.empty() && string_member(*metadata, "namespace") != name_space) {
        f = failure(errc::bad_configuration,
                    doing + ": a namespaced owner owns only objects of its own namespace, not of '" +
                        std::string(string_member(*metadata, "namespace")) + "'");
        return;
    }
    auto& references = (*metadata)["ownerReferences"];
    if (!references.is_array()) references.emplace_array();
    auto& all = references.get_array();
    // The same owner, perhaps under another API version, or an earlier object of the same name.
    const auto is_same = [&](const json::value& one) {
        const json::object* const o = one.if_object();
        return o != nullptr &&
               (string_member(*o, "uid") == uid ||
                (string_member(*o, "name") == name && string_member(*o, "kind") == kind &&
                 group_version(string_member(*o, "apiVersion")).group == group_version(api_version).group));
    };
    for (const json::value& one : all) {
        const json::object* const o = one.if_object();
        if (!controller || o == nullptr || !bool_member(*o, "controller") || is_same(one)) continue;
        f = failure(errc::conflict, doing + ": it is controlled by " + std::string(string_member(*o, "kind")) + " " +
                                        std::string(string_member(*o, "name")) + " already");
        return;
    }
    json::object mine{{"apiVersion", api_version}, {"kind", kind}, {"name", name}, {"uid", uid}};
    if (controller) {
        mine["controller"] = true;
        mine["blockOwnerDeletion"] = true;
    }
    const auto first = std::find_if(all.begin(), all.end(), is_same);
    if (first == all.end()) {
        all.emplace_back(std::move(mine));
        return;
    }
    *first = std::move(mine); // as a whole: `controller` of the old reference must not stay
    all.erase(std::remove_if(first + 1, all.end(), is_same), all.end());
}

/// Compares uids. An owner that no server has seen lacks one, and owns nothing.
bool refers_to(const json::value& reference, std::string_view uid) {
    const json::object* const o = reference.if_object();
    return o != nullptr && !uid.empty() && string_member(*o, "uid") == uid;
}

} // namespace

std::optional<owner_reference> controller_of(const object& o) {
    for (const value one : o.meta().owner_references())
        if (one["controller"].bool_or(false)) return read(one);
    return std::nullopt;
}

bool is_controlled_by(const object& o, const object& owner) {
    const auto reference = controller_of(o);
    return reference && !reference->uid.empty() && owner.meta().uid() == reference->uid;
}

bool is_owned_by(const object& o, const object& owner) {
    const std::string uid = owner.uid();
    const value all = o.meta().owner_references();
    return !uid.empty() &&
           std::any_of(all.begin(), all.end(), [&](const value& one) { return one["uid"].string_or_empty() == uid; });
}

void set_controller_reference(json::value& dependent, const object& owner, failure& f) {
    set(dependent, owner, true, f);
}

void set_owner_reference(json::value& dependent, const object& owner, failure& f) {
    set(dependent, owner, false, f);
}

bool remove_owner_reference(json::value& dependent, const object& owner) {
    json::object* whole = dependent.if_object();
    auto* metadata = whole != nullptr ? whole->if_contains("metadata") : nullptr;
    auto* references =
        metadata != nullptr && metadata->is_object() ? metadata->get_object().if_contains("ownerReferences") : nullptr;
    if (references == nullptr || !references->is_array()) return false;
    auto& all = references->get_array();
    const std::string uid = owner.uid();
    const auto kept =
        std::remove_if(all.begin(), all.end(), [&](const json::value& one) { return refers_to(one, uid); });
    const bool found = kept != all.end();
    all.erase(kept, all.end());
    if (found && all.empty()) metadata->get_object().erase("ownerReferences");
    return found;
}

} // namespace informer
