#include "strategic_merge.hpp"

#include "json_tools.hpp"
#include "list_rules.hpp"
#include "refusal.hpp"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>

#include <algorithm>
#include <limits>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

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

constexpr std::string_view ordering = "$setElementOrder/";

bool speaks_of_a_patch(std::string_view key) {
    return key == "$patch" || key == "$retainKeys" || key.starts_with(ordering) ||
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

/// What an item is known by: the value of its key, or itself in a set of scalars.
const json::value& identity_of(const json::value& item, std::string_view key) {
    return key == "=" ? item : key_of(item, key);
}

/// Where items stand in a list.
class places {
public:
    places(const json::array& list, std::string_view key) : key_(key) {
        for (std::size_t i = 0; i < list.size(); ++i) at_.emplace(json::serialize(identity_of(list[i], key)), i);
    }
    static constexpr auto nowhere = std::numeric_limits<std::size_t>::max();
    std::size_t of(const json::value& item) const {
        const auto it = at_.find(json::serialize(identity_of(item, key_)));
        return it == at_.end() ? nowhere : it->second;
    }

private:
    std::string_view key_;
    std::unordered_map<std::string, std::size_t> at_;
};

/// Orders a merged list as the real server does. The items that a patch names stand as it names them (`wanted`), the
/// others as they `stood` before. The others go in front of the first item of the patch that stood behind them; so new
/// items come first, unless the patch names old ones before them.
void put_in_order(json::array& merged, const places& wanted, const places& stood) {
    struct placed {
        placed(json::value* item_, std::size_t wanted_, std::size_t stood_)
            : item(item_), wanted(wanted_), stood(stood_) {}
        json::value* item;
        std::size_t wanted, stood;
    };
    std::vector<placed> named, others;
    for (auto& item : merged) {
        const placed p(&item, wanted.of(item), stood.of(item));
        (p.wanted == places::nowhere ? others : named).push_back(p);
    }
    // Items of the same place stay as they are. Not with std::stable_sort: clang warns of what it calls in libstdc++ 12.
    const auto by = [](std::size_t placed::*place) {
        return [place](const placed& a, const placed& b) {
            return std::pair(a.*place, a.item) < std::pair(b.*place, b.item);
        };
    };
    std::sort(named.begin(), named.end(), by(&placed::wanted));
    std::sort(others.begin(), others.end(), by(&placed::stood));
    json::array out;
    auto other = others.begin();
    for (const auto& n : named) {
        for (; n.stood != places::nowhere && other != others.end() && other->stood < n.stood; ++other)
            out.push_back(std::move(*other->item));
        out.push_back(std::move(*n.item));
    }
    for (; other != others.end(); ++other) out.push_back(std::move(*other->item));
    merged = std::move(out);
}

/// The items of a list that `$setElementOrder` orders stand in its order, and it has them all.
void check_order(const json::array& items, const json::array& order, std::string_view key) {
    auto at = order.begin();
    for (const auto& item : items) {
        if (has_directive(item) && string_at(item.get_object(), {"$patch"}) == "delete") continue;
        const auto same = [&](const json::value& v) { return identity_of(v, key) == identity_of(item, key); };
        at = std::find_if(at, order.end(), same);
        if (at == order.end()) {
            throw cannot_merge("The order in patch list:\n" + json::serialize(items) + "\n doesn't match " +
                               std::string(ordering.substr(0, ordering.size() - 1)) + " list:\n" +
                               json::serialize(order) + "\n");
        }
        ++at;
    }
}

/// `order` is that of `$setElementOrder`; null: the patch has none.
void merge_list(json::array& target, const json::array& patch, std::string_view key, const json::array* order) {
    if (order != nullptr) check_order(patch, *order, key);
    if (key == "=") {
        const places stood(target, key);
        merge_scalars(target, patch);
        put_in_order(target, places(order != nullptr ? *order : patch, key), stood);
        return;
    }
    bool replaces = false;
    json::array items; // those without a directive
    for (const auto& item : patch) {
        if (!has_directive(item)) {
            items.push_back(item);
            continue;
        }
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
    const places stood(target, key);
    for (const auto& item : items) {
        const auto it = find_by(target, key, key_of(item, key));
        if (it != target.end()) {
            apply_strategic_merge(it->get_object(), item.get_object());
        } else {
            target.push_back(without_directives(item));
        }
    }
    put_in_order(target, places(order != nullptr ? *order : items, key), stood);
}

/// The key of a list's items; empty when the list is not merged.
std::string_view merge_key(std::string_view list, const json::array& items) {
    const auto* rule = rule_of_list(list, items);
    return rule != nullptr ? rule->strategic : std::string_view();
}

refusal unknown_list(std::string_view list) {
    return bad_request("this server does not know how the items of " + std::string(list) + " are merged");
}

/// The order that a patch sets for a list; null when it sets none.
const json::array* order_of(const json::object& patch, std::string_view list) {
    const auto* order = patch.if_contains(std::string(ordering).append(list));
    if (order == nullptr) return nullptr;
    if (!order->is_array()) throw cannot_merge("expected a list for " + std::string(ordering).append(list));
    return &order->get_array();
}

/// Orders a list of which the patch changes no item.
void order_only(json::object& target, const json::object& patch, std::string_view list) {
    auto* old = target.if_contains(list);
    if (patch.contains(list) || old == nullptr || !old->is_array()) return;
    const auto& order = *order_of(patch, list);
    auto& items = old->get_array();
    const auto key = merge_key(list, items.empty() ? order : items);
    if (key.empty()) throw unknown_list(list);
    put_in_order(items, places(order, key), places(items, key));
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
        if (key.starts_with(ordering)) order_only(target, patch, std::string_view(key).substr(ordering.size()));
        if (speaks_of_a_patch(key)) continue;
        if (v.is_null()) {
            target.erase(key);
            continue;
        }
        const auto* old = target.if_contains(key);
        if (old == nullptr || old->is_null()) {
            const auto* order = v.is_array() ? order_of(patch, key) : nullptr;
            const auto by = order != nullptr ? merge_key(key, v.get_array()) : std::string_view();
            if (!by.empty()) check_order(v.get_array(), *order, by);
            if (!has_directive(v)) target[key] = without_directives(v);
            continue;
        }
        auto& place = target[key];
        if (v.is_object()) {
            if (!place.is_object()) place.emplace_object();
            apply_strategic_merge(place.get_object(), v.get_object());
            continue;
        }
        const auto by = v.is_array() ? merge_key(key, v.get_array()) : std::string_view();
        if (by.empty()) { // directives in it would become data, and a part of the list its whole
            if (holds_directives(v) || order_of(patch, key) != nullptr) throw unknown_list(key);
            place = v;
            continue;
        }
        if (!place.is_array()) place.emplace_array();
        merge_list(place.get_array(), v.get_array(), by, order_of(patch, key));
    }
}

} // namespace informer::testing::detail
