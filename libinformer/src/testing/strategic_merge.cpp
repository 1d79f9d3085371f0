#include "strategic_merge.hpp"

#include "json_tools.hpp"
#include "list_rules.hpp"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include <algorithm>

namespace informer::testing::detail {

namespace json = boost::json;

namespace {

void merge_list(json::array& target, const json::array& patch, std::string_view key) {
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
    for (const auto& [key, v] : patch) {
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
        merge_list(place.get_array(), v.get_array(), by);
    }
}

} // namespace informer::testing::detail
