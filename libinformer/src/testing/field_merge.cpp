#include "field_merge.hpp"

#include "list_rules.hpp"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>

#include <algorithm>
#include <limits>
#include <map>
#include <optional>

namespace informer::testing::detail {

namespace json = boost::json;

namespace {

// Below this depth everything is one field, because objects may be a thousand levels deep.
constexpr int deepest = 60;

/// A position in an object. The rules depend on the name of the field and on whether the kind is a custom resource.
struct place {
    place(bool custom_, std::string_view field_, int depth_, bool in_metadata_)
        : custom(custom_), field(field_), depth(depth_), in_metadata(in_metadata_) {}
    place inside(std::string_view member) const {
        return place(custom, member, depth + 1, in_metadata || (depth <= 1 && member == "metadata"));
    }
    /// The position of an item of the list here: its rules still go by the name of the list's field.
    place item() const { return place(custom, field, depth + 1, in_metadata); }

    bool atomic_map() const {
        if (depth > deepest || (in_metadata && field == "ownerReferences")) return true;
        return !custom && is_atomic_map(field);
    }
    /// Null: atomic.
    const list_rule* list(const json::array& items) const {
        if (depth > deepest || (custom && !in_metadata)) return nullptr;
        const auto* rule = rule_of_list(field, items);
        return rule != nullptr && !rule->map_keys[0].empty() ? rule : nullptr;
    }
    bool map() const {
        const bool metadata_itself = in_metadata && depth == 1; // a struct, for custom resources too
        return depth > 0 && !metadata_itself && (custom || is_map(field));
    }

    bool custom;
    std::string_view field;
    int depth;
    bool in_metadata;
};

/// The path element of a list's item; nullopt when it has no key.
std::optional<std::string> element_of(const json::value& item, const list_rule& rule) {
    if (rule.map_keys[0] == "=") return "v:" + json::serialize(item);
    const auto* o = item.if_object();
    if (o == nullptr) return std::nullopt;
    json::object keys;
    for (const auto key : rule.map_keys) {
        if (key.empty()) continue;
        if (const auto* v = o->if_contains(key))
            keys[key] = *v;
        else if (key == "protocol")
            keys[key] = "TCP"; // the type's default
        else
            return std::nullopt;
    }
    return "k:" + json::serialize(keys);
}

/// True when every item has a key of its own; otherwise the list is treated as atomic.
bool keyed(const json::array& items, const list_rule& rule) {
    std::vector<std::string> seen;
    for (const auto& i : items) {
        auto e = element_of(i, rule);
        if (!e) return false;
        seen.push_back(std::move(*e));
    }
    std::sort(seen.begin(), seen.end());
    return std::adjacent_find(seen.begin(), seen.end()) == seen.end();
}

const list_rule* merging_rule(const json::array& a, const json::array& b, const place& at) {
    const auto* rule = at.list(a.empty() ? b : a);
    return rule != nullptr && keyed(a, *rule) && keyed(b, *rule) ? rule : nullptr;
}

template <class Array>
auto find_item(Array& items, const std::string& element, const list_rule& rule) {
    return std::find_if(items.begin(), items.end(),
                        [&](const json::value& v) { return element_of(v, rule) == element; });
}

/// Adds all leaves of a value. With `new_maps`, maps and keyed lists in it are fields themselves, too.
void collect(const json::value& v, const place& at, bool new_maps, field_set& to) {
    if (const auto* o = v.if_object(); o != nullptr && !o->empty() && !at.atomic_map()) {
        if (new_maps && at.map()) to.here = true;
        for (const auto& [key, member] : *o) {
            collect(member, at.inside(key), new_maps, to.at("f:" + std::string(key)));
        }
        return;
    }
    if (const auto* a = v.if_array(); a != nullptr && !a->empty()) {
        if (const auto* rule = at.list(*a); rule != nullptr && keyed(*a, *rule)) {
            if (new_maps) to.here = true;
            for (const auto& i : *a) {
                auto& item = to.at(*element_of(i, *rule));
                item.here = true;
                if (i.is_object()) collect(i, at.item(), new_maps, item);
            }
            return;
        }
    }
    to.here = true;
}

void compare_values(const json::value& before, const json::value& after, const place& at, field_set& changed,
                    field_set& removed);

void compare_members(const json::object& before, const json::object& after, const place& at, field_set& changed,
                     field_set& removed) {
    for (const auto& [key, v] : after) {
        const auto element = "f:" + std::string(key);
        if (const auto* old = before.if_contains(key)) {
            if (*old != v) compare_values(*old, v, at.inside(key), changed.at(element), removed.at(element));
        } else {
            collect(v, at.inside(key), true, changed.at(element));
        }
    }
    for (const auto& [key, v] : before) {
        if (!after.contains(key)) collect(v, at.inside(key), true, removed.at("f:" + std::string(key)));
    }
}

void compare_items(const json::array& before, const json::array& after, const list_rule& rule, const place& at,
                   field_set& changed, field_set& removed) {
    const auto whole = [&at](const json::value& v, field_set& to) {
        to.here = true;
        if (v.is_object()) collect(v, at.item(), true, to);
    };
    for (const auto& v : after) {
        const auto element = *element_of(v, rule);
        const auto old = find_item(before, element, rule);
        if (old == before.end())
            whole(v, changed.at(element));
        else if (*old != v)
            compare_values(*old, v, at.item(), changed.at(element), removed.at(element));
    }
    for (const auto& v : before) {
        const auto element = *element_of(v, rule);
        if (find_item(after, element, rule) == after.end()) whole(v, removed.at(element));
    }
}

void compare_values(const json::value& before, const json::value& after, const place& at, field_set& changed,
                    field_set& removed) {
    if (before.is_object() && after.is_object() && !at.atomic_map()) {
        compare_members(before.get_object(), after.get_object(), at, changed, removed);
        return;
    }
    if (before.is_array() && after.is_array()) {
        if (const auto* rule = merging_rule(before.get_array(), after.get_array(), at)) {
            compare_items(before.get_array(), after.get_array(), *rule, at, changed, removed);
            return;
        }
    }
    collect(after, at, true, changed);
}

/// Drops the empty nodes that `at()` made on the way.
field_set tidy(const field_set& s) {
    field_set out;
    out.here = s.here;
    for (const auto& c : s.children()) {
        auto inside = tidy(c.set);
        if (!inside.empty()) out.at(c.element) = std::move(inside);
    }
    return out;
}

json::object without_identity(const json::object& o) {
    json::object out;
    for (const auto& [key, v] : o) {
        if (key == "kind" || key == "apiVersion") continue;
        if (key != "metadata" || !v.is_object()) {
            out[key] = v;
            continue;
        }
        json::object metadata;
        for (const auto& [k, m] : v.get_object()) {
            if (k == "labels" || k == "annotations" || k == "ownerReferences" || k == "finalizers" ||
                k == "generateName") {
                metadata[k] = m;
            }
        }
        if (!metadata.empty()) out[key] = std::move(metadata);
    }
    return out;
}

void merge_value(json::value& live, const json::value& wanted, const place& at);

/// Merges keyed items into `live`. They take the order of `wanted`; an item that is in `live` only keeps its place
/// relative to the next common item. This is the order of structured-merge-diff, which the real server uses.
void merge_items(json::array& live, const json::array& wanted, const list_rule& rule, const place& at) {
    using positions = std::map<std::string, std::size_t, std::less<>>;
    constexpr auto none = std::numeric_limits<std::size_t>::max();
    const auto positions_in = [&rule](const json::array& items) {
        positions p;
        for (std::size_t i = 0; i < items.size(); ++i) p.emplace(*element_of(items[i], rule), i);
        return p;
    };
    const auto partners = [none](const positions& of, const positions& in) { // the same item in the other list
        std::vector<std::size_t> out(of.size(), none);
        for (const auto& [element, i] : of) {
            if (const auto it = in.find(element); it != in.end()) out[i] = it->second;
        }
        return out;
    };
    const auto in_live = positions_in(live), in_wanted = positions_in(wanted);
    const auto wanted_of = partners(in_live, in_wanted), live_of = partners(in_wanted, in_live);
    json::array out;
    std::size_t l = 0, next = 0; // `next`: the first common item of `wanted` that is still to come
    for (std::size_t w = 0; w < wanted.size(); ++w) {
        next = std::max(next, w);
        while (next < wanted.size() && live_of[next] == none) ++next;
        for (; l < live.size() && (wanted_of[l] == none || wanted_of[l] != next); ++l) {
            if (wanted_of[l] == none) {
                out.push_back(std::move(live[l]));
            } else if (next == wanted.size()) { // all common items are placed: one is passed over for each new item
                ++l;
                break;
            }
        }
        if (live_of[w] == none) {
            out.push_back(wanted[w]);
            continue;
        }
        out.push_back(std::move(live[live_of[w]]));
        merge_value(out.back(), wanted[w], at.item());
        if (l == live_of[w]) ++l;
    }
    for (; l < live.size(); ++l) {
        if (wanted_of[l] == none) out.push_back(std::move(live[l]));
    }
    live = std::move(out);
}

void merge_value(json::value& live, const json::value& wanted, const place& at) {
    if (live.is_object() && wanted.is_object() && !at.atomic_map()) {
        auto& into = live.get_object();
        for (const auto& [key, v] : wanted.get_object()) {
            if (v.is_null()) continue; // "no opinion", as an absent field
            if (auto* old = into.if_contains(key))
                merge_value(*old, v, at.inside(key));
            else
                into[key] = v;
        }
        return;
    }
    if (live.is_array() && wanted.is_array()) {
        if (const auto* rule = merging_rule(live.get_array(), wanted.get_array(), at)) {
            merge_items(live.get_array(), wanted.get_array(), *rule, at);
            return;
        }
    }
    live = wanted;
}

/// True when nothing is left of `v`.
bool remove_from(json::value& v, const field_set& gone, const field_set* owned, const place& at);

bool remove_child(json::value& v, const field_set& gone, const field_set* owned, const place& at) {
    const bool wanted_by_others = owned != nullptr && !owned->empty();
    if (gone.here && !wanted_by_others) return true;
    return remove_from(v, gone, owned, at);
}

bool remove_from(json::value& v, const field_set& gone, const field_set* owned, const place& at) {
    const auto inside = [owned](std::string_view element) { return owned == nullptr ? nullptr : owned->find(element); };
    if (auto* o = v.if_object()) {
        for (const auto& c : gone.children()) {
            if (!c.element.starts_with("f:")) continue;
            const auto key = std::string_view(c.element).substr(2);
            auto* member = o->if_contains(key);
            if (member != nullptr && remove_child(*member, c.set, inside(c.element), at.inside(key))) {
                o->stable_erase(key);
            }
        }
        return o->empty() && (owned == nullptr || !owned->here);
    }
    auto* a = v.if_array();
    const auto* rule = a == nullptr ? nullptr : at.list(*a);
    if (rule == nullptr) return false;
    for (const auto& c : gone.children()) {
        const auto it = find_item(*a, c.element, *rule);
        if (it == a->end()) continue;
        json::object keys; // kept: an item without its keys is invalid
        if (it->is_object()) {
            for (const auto key : rule->map_keys) {
                if (const auto* k = key.empty() ? nullptr : it->get_object().if_contains(key)) keys[key] = *k;
            }
        }
        // An item goes even if others own fields in it, unless they own the item itself, too.
        const auto* owned_in_it = inside(c.element);
        const bool goes = c.set.here && (owned_in_it == nullptr || !owned_in_it->here);
        if (goes || remove_child(*it, c.set, owned_in_it, at.item())) {
            a->erase(it);
            continue;
        }
        for (const auto& [key, k] : keys) it->get_object()[key] = k;
    }
    return a->empty() && (owned == nullptr || !owned->here);
}

/// A description of the first list that has two items of one key; empty when there is none.
std::string duplicate_in(const json::value& v, const place& at, const std::string& path) {
    if (const auto* o = v.if_object(); o != nullptr && !at.atomic_map()) {
        for (const auto& [key, member] : *o) {
            auto found = duplicate_in(member, at.inside(key), path + "." + std::string(key));
            if (!found.empty()) return found;
        }
    }
    const auto* a = v.if_array();
    const auto* rule = a == nullptr ? nullptr : at.list(*a);
    if (rule == nullptr) return {};
    std::vector<std::string> seen;
    for (const auto& item : *a) {
        const auto element = element_of(item, *rule);
        if (!element) continue;
        const auto shown = shown_element(*element);
        if (std::find(seen.begin(), seen.end(), shown) != seen.end())
            return path + ": duplicate entries for key " + shown;
        seen.push_back(shown);
        auto found = duplicate_in(item, at.item(), path + shown);
        if (!found.empty()) return found;
    }
    return {};
}

place top(bool custom) {
    return place(custom, {}, 0, false);
}

} // namespace

field_set fields_of(const json::object& configuration, bool custom) {
    field_set s;
    const json::value whole = without_identity(configuration);
    if (!whole.get_object().empty()) collect(whole, top(custom), false, s);
    return tidy(s);
}

std::string duplicate_entry(const json::object& configuration, bool custom) {
    return duplicate_in(without_identity(configuration), top(custom), {});
}

field_changes compare(const json::object& before, const json::object& after, bool custom) {
    field_set changed, removed;
    compare_members(without_identity(before), without_identity(after), top(custom), changed, removed);
    field_changes c;
    c.changed = tidy(changed);
    c.removed = tidy(removed);
    return c;
}

void merge_configuration(json::object& live, const json::object& configuration, bool custom) {
    json::value whole = std::move(live);
    merge_value(whole, configuration, top(custom));
    live = std::move(whole.get_object());
}

void remove_fields(json::object& from, const field_set& gone, const field_set& owned, bool custom) {
    json::value whole = std::move(from);
    remove_from(whole, gone, &owned, top(custom));
    from = std::move(whole.get_object());
}

} // namespace informer::testing::detail
