#include "managed_fields.hpp"

#include "field_merge.hpp"
#include "field_set.hpp"
#include "json_tools.hpp"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include <algorithm>
#include <map>
#include <tuple>
#include <vector>

namespace informer::testing::detail {

namespace json = boost::json;

namespace {

constexpr std::size_t most_updates = 10; // managers; beyond that, the real server joins the oldest ones, too
constexpr std::string_view joined_name = "ancient-changes";

struct entry {
    field_manager who;
    field_set fields;
    bool touched = false; ///< its fields changed, so it gets the time of the write
};

bool same_manager(const field_manager& a, const field_manager& b) {
    if (a.name != b.name || a.operation != b.operation || a.subresource != b.subresource) return false;
    return a.operation == "Apply" || a.api_version == b.api_version; // an applier may go on in another version
}

std::vector<entry> read(const json::array& entries) {
    std::vector<entry> out;
    for (const auto& v : entries) {
        const auto* o = v.if_object();
        if (o == nullptr) continue;
        entry e;
        e.who.name = string_at(*o, {"manager"});
        e.who.operation = string_at(*o, {"operation"});
        e.who.subresource = string_at(*o, {"subresource"});
        e.who.api_version = string_at(*o, {"apiVersion"});
        e.who.time = string_at(*o, {"time"});
        const auto* fields = o->if_contains("fieldsV1");
        if (fields != nullptr && fields->is_object()) e.fields = field_set::from_json(fields->get_object());
        out.push_back(std::move(e));
    }
    return out;
}

entry& entry_of(std::vector<entry>& entries, const field_manager& who) {
    for (auto& e : entries) {
        if (same_manager(e.who, who)) return e;
    }
    entry fresh;
    fresh.who = who;
    entries.push_back(std::move(fresh));
    return entries.back();
}

void join_oldest_updates(std::vector<entry>& entries) {
    for (;;) {
        std::vector<entry*> updates;
        for (auto& e : entries) {
            if (e.who.operation == "Update") updates.push_back(&e);
        }
        if (updates.size() <= most_updates) return;
        std::sort(updates.begin(), updates.end(), [](const entry* a, const entry* b) {
            return std::tie(a->who.time, a) < std::tie(b->who.time, b); // of equal times the first entry
        });
        updates[1]->fields.add(updates[0]->fields);
        updates[1]->who.name = joined_name;
        updates[1]->who.subresource.clear();
        entries.erase(entries.begin() + (updates[0] - entries.data()));
    }
}

json::array write(std::vector<entry> entries, const std::string& now) {
    std::erase_if(entries, [](const entry& e) { return e.fields.empty(); });
    for (auto& e : entries) {
        if (e.touched) e.who.time = now;
    }
    join_oldest_updates(entries);
    std::sort(entries.begin(), entries.end(), [](const entry& a, const entry& b) {
        const auto rank = [](const entry& e) {
            return std::tie(e.who.operation, e.who.time, e.who.name, e.who.api_version, e.who.subresource);
        };
        return rank(a) < rank(b); // "Apply" before "Update"
    });
    json::array out;
    for (const auto& e : entries) {
        json::object o;
        o["manager"] = e.who.name;
        o["operation"] = e.who.operation;
        o["apiVersion"] = e.who.api_version;
        o["time"] = e.who.time;
        o["fieldsType"] = "FieldsV1";
        o["fieldsV1"] = e.fields.to_json();
        if (!e.who.subresource.empty()) o["subresource"] = e.who.subresource;
        out.emplace_back(std::move(o));
    }
    return out;
}

/// Removes the fields `lost` from all managers except `who`.
void take_away(std::vector<entry>& entries, const field_manager& who, const field_set& lost) {
    for (auto& e : entries) {
        if (same_manager(e.who, who)) continue;
        auto rest = e.fields;
        rest.subtract(lost);
        if (rest == e.fields) continue;
        e.fields = std::move(rest);
        e.touched = true;
    }
}

std::string named(const field_manager& m) {
    std::string s = "\"" + m.name + "\"";
    if (!m.subresource.empty()) s += " with subresource \"" + m.subresource + "\"";
    if (m.operation == "Update") s += " using " + m.api_version;
    return s;
}

refusal conflicts_with(const std::vector<std::pair<field_manager, std::vector<std::string>>>& found) {
    api_status s;
    s.code = 409;
    s.reason = "Conflict";
    for (const auto& [who, paths] : found) {
        for (const auto& path : paths) {
            api_status::cause c;
            c.reason = "FieldManagerConflict";
            c.message = "conflict with " + named(who);
            c.field = path;
            s.causes.push_back(std::move(c));
        }
    }
    if (s.causes.size() == 1) {
        s.message = "Apply failed with 1 conflict: " + s.causes[0].message + ": " + s.causes[0].field;
        return refusal(std::move(s));
    }
    s.message = "Apply failed with " + std::to_string(s.causes.size()) + " conflicts:";
    const char* between = " ";
    for (const auto& [who, paths] : found) {
        s.message += between + std::string("conflicts with ") + named(who) + ":";
        between = "\n";
        for (const auto& path : paths) s.message += "\n- " + path;
    }
    return refusal(std::move(s));
}

} // namespace

json::array managed_by_request(const json::array& had, const json::array& given, bool custom) {
    const bool drops = given.empty() ? !custom : given.size() == 1 && given[0] == json::value(json::object());
    if (drops) return {};
    const auto readable = [](const json::value& v) {
        const auto* o = v.if_object();
        if (o == nullptr || string_at(*o, {"fieldsType"}) != "FieldsV1") return false;
        const auto operation = string_at(*o, {"operation"});
        return operation == "Update" || operation == "Apply";
    };
    return !given.empty() && std::all_of(given.begin(), given.end(), readable) ? given : had;
}

json::array managed_after_update(const json::array& entries, const field_manager& who, const json::object* before,
                                 const json::object& after, bool custom) {
    static const json::object nothing;
    if (before != nullptr && entries.empty()) return {};
    const auto what = compare(before == nullptr ? nothing : *before, after, custom);
    auto managers = read(entries);
    auto lost = what.changed;
    lost.add(what.removed);
    take_away(managers, who, lost);
    auto& mine = entry_of(managers, who);
    auto fields = mine.fields;
    fields.subtract(what.removed);
    fields.add(what.changed);
    if (fields != mine.fields) {
        mine.fields = std::move(fields);
        mine.touched = true;
    }
    return write(std::move(managers), who.time);
}

applied apply_configuration(const json::array& entries, const field_manager& who, const json::object& live,
                            const json::object& configuration, bool force, bool custom) {
    auto managers = read(entries);
    const auto wanted = fields_of(configuration, custom);
    applied out;
    out.object = live;
    merge_configuration(out.object, configuration, custom);

    field_set had, owned = wanted;
    for (const auto& e : managers) {
        if (same_manager(e.who, who))
            had = e.fields;
        else
            owned.add(e.fields);
    }
    auto given_up = had;
    given_up.subtract(wanted);
    remove_fields(out.object, given_up, owned, custom);

    const auto what = compare(live, out.object, custom);
    std::vector<std::pair<field_manager, std::vector<std::string>>> found;
    for (const auto& e : managers) {
        if (same_manager(e.who, who)) continue;
        auto paths = e.fields.common_with(what.changed).paths();
        if (!paths.empty()) found.emplace_back(e.who, std::move(paths));
    }
    if (!found.empty() && !force) throw conflicts_with(found);
    auto lost = what.changed;
    lost.add(what.removed);
    take_away(managers, who, lost);
    auto& mine = entry_of(managers, who);
    mine.touched = mine.fields != wanted || mine.who.api_version != who.api_version;
    mine.fields = wanted;
    mine.who.api_version = who.api_version;
    out.entries = write(std::move(managers), who.time);
    return out;
}

bool same_managers(const json::array& a, const json::array& b) {
    const auto left = read(a), right = read(b);
    return std::is_permutation(
        left.begin(), left.end(), right.begin(), right.end(), [](const entry& x, const entry& y) {
            return same_manager(x.who, y.who) && x.who.api_version == y.who.api_version && x.fields == y.fields;
        });
}

} // namespace informer::testing::detail
