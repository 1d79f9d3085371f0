#include "strategic_merge.hpp"

#include "json_tools.hpp"
#include "list_rules.hpp"
#include "refusal.hpp"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>

#include <algorithm>

namespace informer::testing::detail {

namespace json = boost::json;

namespace {

void merge_scalars(json::array& target, const json::array& patch) {
    for (const auto& v : patch) {
        if (std::find(target.begin(), target.end(), v) == target.end()) target.push_back(v);
    }
}

void take_scalars(json::object& from, std::string_view list, const json::value& gone) {
    auto* place = from.if_contains(list);
    if (place == nullptr || !place->is_array() || !gone.is_array()) return;
    json::array kept;
    for (const auto& v : place->get_array()) {
        if (std::find(gone.get_array().begin(), gone.get_array().end(), v) == gone.get_array().end()) kept.push_back(v);
    }
    *place = std::move(kept);
}

const json::value* directive_of(const json::object& o) {
    return o.if_contains("$patch");
}

bool has_directive(const json::value& v) {
    const auto* o = v.if_object();
    return o != nullptr && directive_of(*o) != nullptr;
}

bool speaks_of_a_patch(std::string_view key) {
    return key == "$patch" || key == "$retainKeys" || key.starts_with("$setElementOrder/") ||
           key.starts_with("$deleteFromPrimitiveList/");
}

bool holds_directives(const json::value& v) {
    if (const auto* a = v.if_array()) return std::any_of(a->begin(), a->end(), holds_directives);
    const auto* o = v.if_object();
    return o != nullptr && std::any_of(o->begin(), o->end(), [](const json::key_value_pair& m) {
               return speaks_of_a_patch(m.key()) || holds_directives(m.value());
           });
}

/// The value of a patch for an absent field: without maps and items that have a directive, and without nulls in maps.
json::value without_directives(const json::value& v) {
    if (const auto* a = v.if_array()) {
        json::array out;
        for (const auto& item : *a) {
            if (!has_directive(item)) out.push_back(without_directives(item));
        }
        return out;
    }
    const auto* o = v.if_object();
    if (o == nullptr) return v;
    json::object out;
    for (const auto& [key, member] : *o) {
        if (!speaks_of_a_patch(key) && !member.is_null() && !has_directive(member))
            out[key] = without_directives(member);
    }
    return out;
}

refusal cannot_merge(const std::string& why) {
    return refused(500, "", why);
} // 500 as on the real server

refusal unknown_directive(const json::object& in) {
    return cannot_merge("unknown patch type: " + scalar_text(*directive_of(in)) + " in map: " + json::serialize(in));
}

/// The merge key of an item.
const json::value& key_of(const json::value& item, std::string_view key) {
    const auto* o = item.if_object();
    if (o == nullptr) throw cannot_merge("list element types are not identical: " + json::serialize(item));
    if (const auto* id = o->if_contains(key)) return *id;
    throw cannot_merge("map: " + json::serialize(item) + " does not contain declared merge key: " + std::string(key));
}

auto find_by(json::array& in, std::string_view key, const json::value& id) {
    return std::find_if(in.begin(), in.end(), [&](const json::value& v) {
        const auto* o = v.if_object();
        const auto* other = o == nullptr ? nullptr : o->if_contains(key);
        return other != nullptr && *other == id;
    });
}

void merge_list(json::array& target, const json::array& patch, std::string_view key) {
    bool replaces = false;
    for (const auto& item : patch) {
        if (!has_directive(item)) continue;
        const auto directive = string_at(item.get_object(), {"$patch"});
        if (directive == "merge") throw cannot_merge("merging lists cannot yet be specified in the patch");
        if (directive != "replace" && directive != "delete") throw unknown_directive(item.get_object());
        replaces = replaces || directive == "replace";
        if (directive != "delete") continue;
        const auto& id = key_of(item, key);
        for (auto it = find_by(target, key, id); it != target.end(); it = find_by(target, key, id)) target.erase(it);
    }
    if (replaces) {
        target = without_directives(patch).get_array();
        return;
    }
    for (const auto& item : patch) {
        if (has_directive(item)) continue;
        const auto it = find_by(target, key, key_of(item, key));
        if (it != target.end()) {
            apply_strategic_merge(it->get_object(), item.get_object());
        } else {
            target.push_back(without_directives(item));
        }
    }
}

} // namespace

void apply_strategic_merge(json::object& target, const json::object& patch) {
    if (const auto* given = directive_of(patch)) {
        const auto directive = scalar_text(*given);
        if (directive != "replace" && directive != "delete") throw unknown_directive(patch);
        target.clear();
        if (directive == "delete") return;
    }
    if (const auto* names = patch.if_contains("$retainKeys"); names != nullptr && names->is_array()) { // for unions
        const auto& kept = names->get_array();
        json::object rest;
        for (auto& [key, v] : target) {
            if (std::find(kept.begin(), kept.end(), json::value(key)) != kept.end()) rest[key] = std::move(v);
        }
        target = std::move(rest);
    }
    for (const auto& [key, v] : patch) {
        constexpr std::string_view taking = "$deleteFromPrimitiveList/";
        if (key.starts_with(taking)) take_scalars(target, std::string_view(key).substr(taking.size()), v);
        if (speaks_of_a_patch(key)) continue;
        if (v.is_null()) {
            target.erase(key);
            continue;
        }
        const auto* old = target.if_contains(key);
        if (old == nullptr || old->is_null()) {
            if (!has_directive(v)) target[key] = without_directives(v);
            continue;
        }
        auto& place = target[key];
        if (v.is_object()) {
            if (!place.is_object()) place.emplace_object();
            apply_strategic_merge(place.get_object(), v.get_object());
            continue;
        }
        const auto* rule = v.is_array() ? rule_of_list(key, v.get_array()) : nullptr;
        const auto by = rule != nullptr ? rule->strategic : std::string_view();
        if (by.empty()) { // directives in it would become data
            if (holds_directives(v))
                throw bad_request("this server does not know how the items of " + std::string(key) + " are merged");
            place = v;
            continue;
        }
        if (!place.is_array()) place.emplace_array();
        if (by == "=")
            merge_scalars(place.get_array(), v.get_array());
        else
            merge_list(place.get_array(), v.get_array(), by);
    }
}

} // namespace informer::testing::detail
