// The work of cluster controllers that clients rely on: namespaces empty themselves, and CustomResourceDefinitions come
// into force. Also checkpoints and restores.
#include "rest_api.hpp"

#include "definition_names.hpp"
#include "json_tools.hpp"
#include "object_rules.hpp"
#include "refusal.hpp"
#include "root/ascii.hpp"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include <algorithm>
#include <set>

namespace informer::testing::detail {

using informer::detail::lower;

namespace json = boost::json;

// ---- namespaces

void rest_api::empty_namespace(const std::string& name) {
    const auto resources = types_.resources();
    for (const auto& type : resources) {
        if (!type->api.namespaced) continue;
        std::vector<stored> content;
        const auto prefix = name + "/";
        const auto& objects = type->rows->objects;
        for (auto it = objects.lower_bound(prefix); it != objects.end() && it->first.starts_with(prefix); ++it) {
            content.push_back(it->second);
        }
        write_by by;
        by.manager = "kube-controller-manager";
        remove_each(type, content, json::object(), by);
    }
    finish_namespace(name);
}

void rest_api::finish_namespace(const std::string& name) {
    const auto namespaces = types_.find("", "v1", "namespaces");
    const auto ns = namespaces->rows->find(name);
    if (!ns || !ns->terminating || ns->has_finalizers) return;
    const auto prefix = name + "/";
    for (const auto& type : types_.resources()) {
        if (!type->api.namespaced) continue;
        const auto it = type->rows->objects.lower_bound(prefix);
        if (it != type->rows->objects.end() && it->first.starts_with(prefix)) return;
    }
    auto last = tree(*namespaces, *ns);
    object_at(last, "spec").erase("finalizers");
    store_.erase(*namespaces->rows, render(*namespaces, last, store_.next()));
}

// For a client that plays the namespace controller itself (a bare kube-apiserver has none).
stored rest_api::finalize_namespace(const target& t, const json::object& body, const write_by& by) {
    const auto old = must_find(t);
    const auto* finalizers = find_at(body, {"spec", "finalizers"});
    const bool none = finalizers == nullptr || !finalizers->is_array() || finalizers->get_array().empty();
    if (!none || !old->terminating) return old;
    auto last = tree(*t.type, *old);
    object_at(last, "spec").erase("finalizers");
    auto now = render(*t.type, last, by.dry_run ? old->version : store_.next());
    if (by.dry_run) return now;
    if (old->has_finalizers) {
        store_.put(*t.type->rows, now);
    } else {
        store_.erase(*t.type->rows, now);
    }
    return now;
}

// ---- events

namespace {

constexpr std::chrono::hours events_live_for(1);

bool is_event(const resource_type& type) {
    return type.api.plural == "events" && !type.custom;
}

} // namespace

void rest_api::forget_old_events() {
    const auto now = clock_->now();
    while (!written_events_.empty() && written_events_.front().at + events_live_for <= now) {
        const auto e = std::move(written_events_.front());
        written_events_.pop_front();
        const auto o = e.state.lock();
        if (o && e.where.type->rows->find(o->key()) == o) erase(e.where, o, tree(*e.where.type, *o));
    }
}

void rest_api::written(const target& t, const stored& now) {
    if (!is_event(*t.type)) return;
    written_event e;
    e.at = clock_->now();
    e.where = t;
    e.state = now;
    if (written_events_.size() >= most_written_events_) { // a series overwrites its Event often
        std::erase_if(written_events_, [](const written_event& one) { return one.state.expired(); });
        most_written_events_ = std::max<std::size_t>(64, 2 * written_events_.size());
    }
    written_events_.push_back(std::move(e));
}

// ---- definitions

void rest_api::prepare_definition(json::object& definition) {
    const auto types = types_of_definition(definition, nullptr); // refuses a bad definition
    auto& spec = object_at(definition, "spec");
    // This comes first, because the insertion moves the other members.
    if (!spec.contains("conversion")) object_at(spec, "conversion")["strategy"] = "None";
    auto& names = object_at(spec, "names");
    const auto kind = string_at(names, {"kind"});
    if (string_at(names, {"listKind"}).empty()) names["listKind"] = kind + "List";
    if (string_at(names, {"singular"}).empty()) names["singular"] = lower(kind);

    settle_names(definition,
                 definitions_of_group(string_at(spec, {"group"}), string_at(definition, {"metadata", "name"})),
                 now_text());
    auto& status = object_at(definition, "status");
    // The versions in which objects may be stored: every version that was ever the storage version, until a client
    // removes it.
    auto& stored_in = status["storedVersions"];
    if (!stored_in.is_array()) stored_in.emplace_array();
    auto& names_stored = stored_in.get_array();
    std::vector<json::value> known;
    for (const auto& v : find_at(definition, {"spec", "versions"})->get_array()) {
        json::value version(string_at(v.get_object(), {"name"}));
        const auto* is_storage = find_at(v.get_object(), {"storage"});
        const bool for_storage = is_storage != nullptr && is_storage->is_bool() && is_storage->get_bool();
        const bool listed = std::find(names_stored.begin(), names_stored.end(), version) != names_stored.end();
        if (for_storage && !listed) names_stored.push_back(version);
        known.push_back(std::move(version));
    }
    for (std::size_t i = 0; i < names_stored.size(); ++i) {
        if (std::find(known.begin(), known.end(), names_stored[i]) != known.end()) continue;
        const auto version = scalar_text(names_stored[i]);
        throw invalid("apiextensions.k8s.io", "CustomResourceDefinition", string_at(definition, {"metadata", "name"}),
                      one_cause("FieldValueInvalid", "status.storedVersions[" + std::to_string(i) + "]",
                                "Invalid value: \"" + version + "\": missing from spec.versions; " + version +
                                    " was previously a storage version, and must remain in spec.versions until a "
                                    "storage migration ensures no data remains persisted in it"));
    }
}

std::vector<json::object> rest_api::definitions_of_group(std::string_view group, std::string_view but) const {
    const auto type = definitions();
    std::vector<json::object> out;
    for (const auto& [key, o] : type->rows->objects) {
        const bool in_it =
            key.size() > group.size() && key.ends_with(group) && key[key.size() - group.size() - 1] == '.';
        if (!in_it || key == but) continue;
        auto one = tree(*type, *o);
        if (string_at(one, {"spec", "group"}) == group) out.push_back(std::move(one));
    }
    return out;
}

// Names have become free: gives them to the definitions that wait for them.
void rest_api::name_definitions(std::string_view group) {
    target t;
    t.type = definitions();
    for (auto& one : definitions_of_group(group, {})) {
        t.name = string_at(one, {"metadata", "name"});
        if (has_its_names(one)) continue;
        const auto before = one;
        settle_names(one, definitions_of_group(group, t.name), now_text());
        if (one == before) continue;
        auto now = render(*t.type, one, store_.next());
        serve_definition(one);
        store_.put(*t.type->rows, now);
    }
}

void rest_api::serve_definition(const json::object& definition) {
    if (!is_established(definition)) return;
    const auto before = defined_by(string_at(definition, {"metadata", "name"}));
    const auto rows = before ? before->rows : std::make_shared<table>();
    if (before)
        types_.remove(before->api.group, before->api.plural);
    else
        rows->dropped = store_.current(); // the history does not include an earlier definition
    for (auto& t : types_of_definition(definition, rows)) types_.add(std::move(t));
    for (auto& [key, o] : rows->objects) { // rendered when there were fewer selectable fields
        if (o->fields.size() == rows->selectable.size()) continue;
        auto complete = std::make_shared<stored_object>(*o);
        complete->fields = selectable_values(*rows, parse_body("{" + o->text));
        o = std::move(complete);
    }
    store_.touched(*rows); // ends watches of versions that are no longer served
}

void rest_api::stop_serving(const std::string& definition) {
    const auto type = defined_by(definition);
    if (!type) return;
    const auto rows = type->rows;
    std::set<std::string> emptied;
    while (!rows->objects.empty()) {
        const auto o = rows->objects.begin()->second;
        emptied.insert(o->name_space);
        auto last = tree(*type, *o);
        store_.erase(*rows, render(*type, last, store_.next()));
    }
    types_.remove(type->api.group, type->api.plural);
    store_.touched(*rows);
    for (const auto& name : emptied) finish_namespace(name);
}

void rest_api::mark_terminating(json::object& definition) const {
    set_condition(definition, "Terminating", true, "InstanceDeletionInProgress",
                  "CustomResource deletion is in progress", now_text());
}

type_ptr rest_api::definitions() const {
    return types_.find("apiextensions.k8s.io", "v1", "customresourcedefinitions");
}

stored rest_api::definition_of(const resource_type& type) const {
    return definitions()->rows->find(type.definition_name());
}

type_ptr rest_api::defined_by(const std::string& definition) const {
    for (const auto& type : types_.resources()) {
        if (type->custom && type->definition_name() == definition) return type;
    }
    return nullptr;
}

void rest_api::check_definition_for_create(const target& t) const {
    const auto definition = t.type->custom ? definition_of(*t.type) : stored();
    if (!definition || !definition->terminating) return;
    throw forbidden(*t.type, t.name, "create not allowed while custom resource definition is terminating");
}

bool rest_api::empty_definition(const std::string& definition, const write_by& by) {
    const auto type = defined_by(definition);
    if (!type) return true;
    std::vector<stored> content;
    for (const auto& [key, o] : type->rows->objects) content.push_back(o);
    remove_each(type, content, json::object(), by);
    return type->rows->objects.empty();
}

void rest_api::finish_definition(const resource_type& type) {
    const auto definition = definition_of(type);
    if (!definition || !definition->terminating || !type.rows->objects.empty()) return;
    target t;
    t.type = definitions();
    t.name = definition->name;
    auto last = tree(*t.type, *definition);
    remove_finalizer(last, definition_cleanup);
    if (object_at(last, "metadata").at("finalizers").get_array().empty()) {
        erase(t, definition, std::move(last));
    } else {
        store_.put(*t.type->rows, render(*t.type, last, store_.next()));
    }
}

// ---- time travel

std::uint64_t rest_api::checkpoint() {
    saved_state s;
    s.version = store_.current();
    s.types = types_;
    for (const auto& t : types_.resources()) s.tables.try_emplace(t->rows, t->rows->objects);
    checkpoints_[++last_checkpoint_] = std::move(s);
    return last_checkpoint_;
}

bool rest_api::restore(std::uint64_t number) {
    const auto it = checkpoints_.find(number);
    if (it == checkpoints_.end()) return false;
    const auto& s = it->second;
    types_ = s.types;
    for (const auto& [rows, objects] : s.tables) store_.go_back(*rows, objects, s.version);
    store_.go_back_to(s.version);
    return true;
}

} // namespace informer::testing::detail
