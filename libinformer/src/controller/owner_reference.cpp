#include <informer/controller/owner_reference.hpp>

#include <boost/json.hpp>

#include <algorithm>
#include <string_view>

namespace informer {

namespace json = boost::json;

namespace {

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

std::string_view text_of(const json::object& o, std::string_view key) {
    const auto* v = o.if_contains(key);
    return v != nullptr && v->is_string() ? std::string_view(v->get_string()) : std::string_view();
}

bool yes(const json::object& o, std::string_view key) {
    const auto* v = o.if_contains(key);
    return v != nullptr && v->is_bool() && v->get_bool();
}

std::string_view group(std::string_view api_version) {
    const auto slash = api_version.find('/');
    return slash == std::string_view::npos ? std::string_view() : api_version.substr(0, slash);
}

/// The member, made at need; null when something else is there.
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
    if (!name_space.empty() && text_of(*metadata, "namespace") != name_space) {
        f = failure(errc::bad_configuration,
                    doing + ": a namespaced owner owns only objects of its own namespace, not of '" +
                        std::string(text_of(*metadata, "namespace")) + "'");
        return;
    }
    auto& references = (*metadata)["ownerReferences"];
    if (!references.is_array()) references.emplace_array();
    json::object* mine = nullptr;
    for (auto& one : references.get_array()) {
        json::object* o = one.if_object();
        if (o == nullptr) continue;
        // Another version of the same thing, or of one that had its name before, is replaced.
        const bool same = text_of(*o, "uid") == uid || (text_of(*o, "name") == name && text_of(*o, "kind") == kind &&
                                                     group(text_of(*o, "apiVersion")) == group(api_version));
        if (same) {
            mine = o;
        } else if (controller && yes(*o, "controller")) {
            f = failure(errc::conflict, doing + ": it is controlled by " + std::string(text_of(*o, "kind")) + " " +
                                            std::string(text_of(*o, "name")) + " already");
            return;
        }
    }
    if (mine == nullptr) mine = &references.get_array().emplace_back(json::object()).get_object();
    (*mine)["apiVersion"] = api_version;
    (*mine)["kind"] = kind;
    (*mine)["name"] = name;
    (*mine)["uid"] = uid;
    if (controller) {
        (*mine)["controller"] = true;
        (*mine)["blockOwnerDeletion"] = true;
    }
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
    const auto kept = std::remove_if(all.begin(), all.end(), [&](const json::value& one) {
        return one.is_object() && text_of(one.get_object(), "uid") == uid;
    });
    const bool found = kept != all.end();
    all.erase(kept, all.end());
    if (all.empty()) metadata->get_object().erase("ownerReferences");
    return found;
}

} // namespace informer
