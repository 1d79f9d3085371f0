#include <informer/controller/conditions.hpp>

#include "controller/lease_record.hpp"

#include <boost/json.hpp>

#include <algorithm>
#include <utility>

namespace informer {

namespace json = boost::json;

namespace {

std::string_view word(condition_status s) {
    switch (s) {
    case condition_status::no: return "False";
    case condition_status::yes: return "True";
    case condition_status::unknown: break;
    }
    return "Unknown";
}

/// metav1.Time: RFC 3339 in whole seconds.
std::string time_text(std::chrono::system_clock::time_point t) {
    std::string text = detail::micro_time(t);
    text.resize(text.rfind('.'));
    return text + "Z";
}

std::string_view text_of(const json::object& o, std::string_view key) {
    const auto* v = o.if_contains(key);
    return v != nullptr && v->is_string() ? std::string_view(v->get_string()) : std::string_view();
}

bool is_of(const json::value& one, std::string_view type) {
    return one.is_object() && text_of(one.get_object(), "type") == type;
}

/// True if it was anything else.
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
    if (changed || text_of(mine, "lastTransitionTime").empty()) {
        mine["lastTransitionTime"] = time_text(now);
        changed = true;
    }
    changed |= put(mine, "reason", json::string(c.reason_));
    changed |= put(mine, "message", json::string(c.message_));
    changed |= c.observed_generation_ != 0 ? put(mine, "observedGeneration", c.observed_generation_)
                                           : mine.erase("observedGeneration") != 0;
    return changed;
}

const json::value* find_condition(const json::value& status, std::string_view type) {
    const auto* whole = status.if_object();
    const auto* list = whole != nullptr ? whole->if_contains("conditions") : nullptr;
    if (list == nullptr || !list->is_array()) return nullptr;
    for (const json::value& one : list->get_array())
        if (is_of(one, type)) return &one;
    return nullptr;
}

bool is_condition_true(const json::value& status, std::string_view type) {
    const json::value* one = find_condition(status, type);
    return one != nullptr && text_of(one->get_object(), "status") == "True";
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
