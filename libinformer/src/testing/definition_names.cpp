#include "definition_names.hpp"

#include "json_tools.hpp"

#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>

#include <algorithm>
#include <set>

namespace informer::testing::detail {

namespace json = boost::json;

namespace {

const json::array& strings_at(const json::object& o, std::string_view key) {
    static const json::array none;
    const auto* v = o.if_contains(key);
    return v != nullptr && v->is_array() ? v->get_array() : none;
}

json::object names_at(const json::object& definition, std::string_view part, std::string_view key) {
    const auto* v = find_at(definition, {part, key});
    return v != nullptr && v->is_object() ? v->get_object() : json::object();
}

/// The accepted names of the other definitions: those of resources and those of kinds.
struct taken_names {
    std::set<std::string, std::less<>> resources, kinds;

    explicit taken_names(const std::vector<json::object>& others) {
        for (const auto& o : others) {
            const auto names = names_at(o, "status", "acceptedNames");
            for (const std::string_view key : {"plural", "singular"}) resources.insert(string_at(names, {key}));
            for (const auto& n : strings_at(names, "shortNames")) resources.insert(scalar_text(n));
            for (const std::string_view key : {"kind", "listKind"}) kinds.insert(string_at(names, {key}));
        }
        resources.erase("");
        kinds.erase("");
    }
};

const json::object* condition_in(const json::object& definition, std::string_view type) {
    const auto* all = find_at(definition, {"status", "conditions"});
    if (all == nullptr || !all->is_array()) return nullptr;
    for (const auto& v : all->get_array()) {
        if (const auto* c = v.if_object(); c != nullptr && string_at(*c, {"type"}) == type) return c;
    }
    return nullptr;
}

bool holds(const json::object& definition, std::string_view type) {
    const auto* c = condition_in(definition, type);
    return c != nullptr && string_at(*c, {"status"}) == "True";
}

} // namespace

void set_condition(json::object& definition, std::string_view type, bool holds, std::string_view reason,
                   std::string_view message, const std::string& now) {
    json::object c{{"type", type},
                   {"status", holds ? "True" : "False"},
                   {"lastTransitionTime", now},
                   {"reason", reason},
                   {"message", message}};
    if (const auto* old = condition_in(definition, type)) {
        const bool same = string_at(*old, {"status"}) == string_at(c, {"status"});
        if (const auto* since = old->if_contains("lastTransitionTime"); same && since != nullptr)
            c["lastTransitionTime"] = *since;
    }
    auto& all = object_at(definition, "status")["conditions"];
    if (!all.is_array()) all.emplace_array();
    for (auto& v : all.get_array()) {
        if (auto* old = v.if_object(); old != nullptr && string_at(*old, {"type"}) == type) {
            *old = std::move(c);
            return;
        }
    }
    all.get_array().emplace_back(std::move(c));
}

bool is_established(const json::object& definition) {
    return holds(definition, "Established");
}
bool has_its_names(const json::object& definition) {
    return holds(definition, "NamesAccepted");
}

void settle_names(json::object& definition, const std::vector<json::object>& others, const std::string& now) {
    const taken_names taken(others);
    const auto wanted = names_at(definition, "spec", "names");
    auto got = names_at(definition, "status", "acceptedNames");
    std::string reason, message;
    const auto refuse = [&](std::string_view why, std::string_view name) { // the last conflict is reported
        reason = why;
        message = json::serialize(json::value(name)) + " is already in use";
    };
    const auto ask_for = [&](std::string_view key, const auto& in, std::string_view why) {
        const auto name = string_at(wanted, {key});
        if (name != string_at(got, {key}) && in.contains(name))
            refuse(why, name);
        else
            got[key] = name;
    };
    ask_for("plural", taken.resources, "PluralConflict");
    ask_for("singular", taken.resources, "SingularConflict");
    const auto had = strings_at(got, "shortNames");
    const auto& short_names = strings_at(wanted, "shortNames");
    const auto clash = std::find_if(short_names.begin(), short_names.end(), [&](const json::value& n) {
        return std::find(had.begin(), had.end(), n) == had.end() && taken.resources.contains(scalar_text(n));
    });
    if (clash != short_names.end())
        refuse("ShortNamesConflict", scalar_text(*clash));
    else if (short_names.empty())
        got.erase("shortNames");
    else
        got["shortNames"] = short_names;
    ask_for("kind", taken.kinds, "KindConflict");
    ask_for("listKind", taken.kinds, "ListKindConflict");
    if (const auto* categories = wanted.if_contains("categories"))
        got["categories"] = *categories;
    else
        got.erase("categories");
    object_at(definition, "status")["acceptedNames"] = std::move(got);

    const bool free = reason.empty();
    if (free) {
        reason = "NoConflicts";
        message = "no conflicts found";
    }
    set_condition(definition, "NamesAccepted", free, reason, message, now);
    if (is_established(definition)) return;
    if (free)
        set_condition(definition, "Established", true, "InitialNamesAccepted", "the initial names have been accepted",
                      now);
    else
        set_condition(definition, "Established", false, "NotAccepted", "not all names are accepted", now);
}

} // namespace informer::testing::detail
