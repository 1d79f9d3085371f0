#include <informer/controller/conditions.hpp>

#include <informer/object/rfc3339.hpp>

#include "kubernetes/json_tools.hpp"

#include <boost/json.hpp>

#include <algorithm>
#include <utility>

namespace informer {

namespace json = boost::json;

namespace {

using kubernetes::detail::string_member;

std::string_view word(condition_status s) {
    switch (s) {
    case condition_status::no: return "False";
    case condition_status::yes: return "True";
    case condition_status::unknown: break;
    }
    return "Unknown";
}

bool is_of(const json::value& one, std::string_view type) {
    return one.is_object() && string_member(one.get_object(), "type") == type;
}

/// Sets the member; returns true if it had another value.
bool put(json::object& o, std::string_view key, json::value v) {
    json::value& there = o[key];
    if (there == v) return false;
    there = std::move(v);
    return true;
}

} // namespace

bool set_condition(json::value& status, const status_condition& c, std::chrono::system_clock::time_point now) {
    if (!status.is_object()) status.emplace_object();
    json::value& list = status.get_object()["conditions"];
    if (!list.is_array()) list.emplace_array();
    json::array& all = list.get_array();
    const auto at = std::find_if(all.begin(), all.end(), [&](const json::value& one) { return is_of(one, c.type_); });
    const bool is_new = at == all.end();
    json::object& mine = is_new ? all.emplace_back(json::object{{"type", c.type_}}).get_object() : at->get_object();
    bool changed = put(mine, "status", json::string(word(c.status_)));
    if (changed || string_member(mine, "lastTransitionTime").empty()) {
        mine["lastTransitionTime"] = rfc3339(now);
        changed = true;
    }
    changed |= put(mine, "reason", json::string(c.reason_));
    changed |= put(mine, "message", json::string(c.message_));
    changed |= c.observed_generation_ != 0 ? put(mine, "observedGeneration", c.observed_generation_)
                                           : mine.erase("observedGeneration") != 0;
    return changed;
}

bool remove_condition(json::value& status, std::string_view type) {
    json::object* const whole = status.if_object();
    json::value* const list = whole ? whole->if_contains("conditions") : nullptr;
    json::array* const all = list ? list->if_array() : nullptr;
    if (!all) return false;
    const auto left =
        std::remove_if(all->begin(), all->end(), [&](const json::value& one) { return is_of(one, type); });
    const bool any = left != all->end();
    all->erase(left, all->end());
    return any;
}

const json::value* find_condition(const json::value& status, std::string_view type) {
    const auto* whole = status.if_object();
    if (whole == nullptr) return nullptr;
    for (const json::value& one : kubernetes::detail::array_member(*whole, "conditions"))
        if (is_of(one, type)) return &one;
    return nullptr;
}

bool is_condition_true(const json::value& status, std::string_view type) {
    const json::value* one = find_condition(status, type);
    return one != nullptr && string_member(one->get_object(), "status") == "True";
}

value find_condition(const object& o, std::string_view type) {
    for (const value one : o["status"]["conditions"])
        if (one["type"].string_or_empty() == type) return one;
    return {};
}

bool is_condition_true(const object& o, std::string_view type) {
    return find_condition(o, type)["status"].string_or_empty() == "True";
}

} // namespace informer
