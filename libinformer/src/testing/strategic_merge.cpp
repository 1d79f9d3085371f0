#include "strategic_merge.hpp"

#include "json_tools.hpp"
#include "list_rules.hpp"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

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

void merge_list(json::array& target, const json::array& patch, std::string_view key) {
    const bool replaces = std::any_of(patch.begin(), patch.end(), [](const json::value& p) {
        return p.is_object() && string_at(p.get_object(), {"$patch"}) == "replace";
    });
    if (replaces) target.clear();
    for (const auto& p : patch) {
        const auto* item = p.if_object();
        const auto* id = item == nullptr ? nullptr : item->if_contains(key);
        if (id == nullptr) continue;
        const auto it = std::find_if(target.begin(), target.end(), [&](const json::value& v) {
            const auto* o = v.if_object();
            const auto* other = o == nullptr ? nullptr : o->if_contains(key);
            return other != nullptr && *other == *id;
        });
        if (string_at(*item, {"$patch"}) == "delete") {
            if (it != target.end()) target.erase(it);
        } else if (it != target.end()) {
            apply_strategic_merge(it->get_object(), *item);
        } else {
            json::object fresh;
            apply_strategic_merge(fresh, *item);
            target.emplace_back(std::move(fresh));
        }
    }
}

} // namespace

void apply_strategic_merge(json::object& target, const json::object& patch) {
    const auto directive = string_at(patch, {"$patch"});
    if (directive == "replace" || directive == "delete") target.clear();
    if (directive == "delete") return;
    if (const auto* names = patch.if_contains("$retainKeys"); names != nullptr && names->is_array()) { // of a union
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
        if (key.starts_with("$")) continue;
        if (v.is_null()) {
            target.erase(key);
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
        if (by.empty()) {
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
