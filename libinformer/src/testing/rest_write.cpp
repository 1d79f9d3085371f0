#include "rest_api.hpp"

#include "json_tools.hpp"
#include "managed_fields.hpp"
#include "object_rules.hpp"
#include "refusal.hpp"

#include <informer/object/rfc3339.hpp>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <boost/uuid/random_generator.hpp>
#include <boost/uuid/uuid.hpp>
#include <boost/uuid/uuid_io.hpp>

#include <algorithm>

namespace informer::testing::detail {

namespace json = boost::json;

namespace {

const char* const modified_meanwhile =
    "the object has been modified; please apply your changes to the latest version and try again";

[[noreturn]] void invalid_field(const target& t, std::string reason, std::string field, std::string message) {
    throw invalid(*t.type, t.name, one_cause(std::move(reason), std::move(field), std::move(message)));
}

const json::array& array_or_none(const json::object& o, std::string_view key) {
    static const json::array none;
    const auto* v = o.if_contains(key);
    return v != nullptr && v->is_array() ? v->get_array() : none;
}

std::int64_t integer_at(const json::object& o, std::string_view key) {
    const auto* v = o.if_contains(key);
    return v != nullptr && v->is_int64() ? v->get_int64() : 0;
}

void check_url_name(const target& t, std::string_view name) {
    if (name == t.name) return;
    if (name.empty()) {
        throw bad_request("the name of the object (" + t.name +
                          " based on URL) was undeterminable: name must be provided");
    }
    throw bad_request("the name of the object (" + std::string(name) + ") does not match the name on the URL (" +
                      t.name + ")");
}

/// The version that a write depends on; 0: it overwrites any version.
std::uint64_t version_in(const json::object& body) {
    const auto text = string_at(body, {"metadata", "resourceVersion"});
    return text.empty() ? 0 : parse_version(text);
}

/// The words of the real server's store for a request that expects an object with another uid. `real` is empty if the
/// object does not exist.
refusal other_uid(const target& t, std::string_view given, std::string_view real) {
    return conflict(*t.type, t.name,
                    "Precondition failed: UID in precondition: " + std::string(given) +
                        ", UID in object meta: " + std::string(real));
}

[[noreturn]] void immutable(const target& t, std::string field, const json::value& v) {
    invalid_field(t, "FieldValueInvalid", std::move(field),
                  "Invalid value: " + json::serialize(v) + ": field is immutable");
}

bool is_set(const json::value* v) {
    return v != nullptr && !v->is_null() && (!v->is_string() || !v->get_string().empty());
}

/// A client cannot set when and how an object is deleted, but it may leave these fields out.
void check_deletion(const target& t, const json::object& before, const json::object& after) {
    const auto* when = after.if_contains("deletionTimestamp");
    if (!before.contains("deletionTimestamp") && is_set(when)) immutable(t, "metadata.deletionTimestamp", *when);
    const auto* grace = after.if_contains("deletionGracePeriodSeconds");
    const auto* old_grace = before.if_contains("deletionGracePeriodSeconds");
    if (is_set(grace) && (old_grace == nullptr || *grace != *old_grace))
        immutable(t, "metadata.deletionGracePeriodSeconds", *grace);
}

void check_namespace(const target& t, const json::object& body) {
    const auto name_space = string_at(body, {"metadata", "namespace"});
    if (name_space.empty() || name_space == t.name_space) return;
    throw bad_request("the namespace of the provided object does not match the namespace sent on the request");
}

void copy_member(json::object& to, const json::object& from, std::string_view key) {
    if (const auto* v = from.if_contains(key)) {
        to[key] = *v;
    } else {
        to.erase(key);
    }
}

} // namespace

rest_api::rest_api(std::shared_ptr<informer::clock> clock, std::uint64_t seed, rest_options options)
    : clock_(std::move(clock)), options_(std::move(options)), random_(seed),
      store_(options_.history_, options_.first_version_), types_(type_registry::built_in()) {
    write_by by;
    by.manager = "kube-apiserver";
    by.direct = true;
    target t;
    t.type = types_.find("", "v1", "namespaces");
    for (const std::string_view name : {"default", "kube-node-lease", "kube-public", "kube-system"}) {
        t.name = name;
        json::object body;
        object_at(body, "metadata")["name"] = name;
        create(t, std::move(body), by);
    }
}

std::string rest_api::now_text() const {
    return rfc3339(clock_->wall());
}

std::string rest_api::new_uid() {
    boost::uuids::basic_random_generator<std::mt19937_64> make(random_);
    return boost::uuids::to_string(make());
}

std::string rest_api::random_suffix() {
    static constexpr std::string_view letters = "bcdfghjklmnpqrstvwxz2456789";
    std::string out;
    for (int i = 0; i < 5; ++i) out += letters[random_() % letters.size()];
    return out;
}

std::string rest_api::generated_name(const target& t, std::string_view prefix) {
    constexpr std::size_t longest = 58; // with the suffix, a label of at most 63
    constexpr int attempts = 8;
    target made = t;
    for (int i = 0; i < attempts; ++i) {
        made.name = std::string(prefix.substr(0, longest)) + random_suffix();
        if (!t.type->rows->find(made.key())) break;
    }
    return made.name;
}

void rest_api::check_type(const target& t, const json::object& body) const {
    for (const std::string_view key : {"kind", "apiVersion"}) {
        const auto* v = body.if_contains(key);
        if (v != nullptr && !v->is_null() && !v->is_string())
            throw bad_request("the object cannot be read: " + std::string(key) + " must be a string");
    }
    const auto kind = string_at(body, {"kind"});
    const auto api_version = string_at(body, {"apiVersion"});
    // The URL tells the type of a built-in object; a custom object must have kind and apiVersion.
    if (t.type->custom && (kind.empty() || api_version.empty())) {
        throw bad_request("the object provided is unrecognized (must be of type " + t.type->api.kind +
                          "): kind or apiVersion is missing");
    }
    if (!kind.empty() && kind != t.type->api.kind) {
        throw bad_request("the kind in the data (" + kind + ") does not match the expected kind (" + t.type->api.kind +
                          ")");
    }
    if (!api_version.empty() && api_version != t.type->api_version()) {
        throw bad_request("the API version in the data (" + api_version +
                          ") does not match the expected API version (" + t.type->api_version() + ")");
    }
    check_metadata_types(body);
    check_lease_times(*t.type, body);
}

void rest_api::check_scale_type(const json::object& scale) const {
    const auto kind = string_at(scale, {"kind"});
    if (!kind.empty() && kind != "Scale") throw bad_request(kind + " cannot be handled as a Scale");
    check_metadata_types(scale);
}

void rest_api::check_body_identity(const target& t, const json::object& body) const {
    check_type(t, body);
    check_namespace(t, body);
}

void rest_api::check_namespace_for_create(const target& t) const {
    if (!t.type->api.namespaced) return;
    const auto namespaces = types_.find("", "v1", "namespaces");
    const auto ns = namespaces->rows->find(t.name_space);
    if (!ns) throw not_found(*namespaces, t.name_space);
    if (!ns->terminating) return;
    auto refused =
        forbidden(*t.type, t.name,
                  "unable to create new content in namespace " + t.name_space + " because it is being terminated");
    auto status = refused.status();
    api_status::cause c;
    c.reason = "NamespaceTerminating";
    c.message = "namespace " + t.name_space + " is being terminated";
    c.field = "metadata.namespace";
    status.causes.push_back(std::move(c));
    throw refusal(std::move(status));
}

field_manager rest_api::manager(const target& t, const write_by& by, std::string_view operation) const {
    field_manager who;
    who.name = by.manager;
    who.operation = operation;
    who.subresource = t.subresource;
    who.api_version = t.type->api_version();
    who.time = now_text();
    return who;
}

void rest_api::add_managed(const target& t, json::object& after, const json::object* before, const json::array& entries,
                           const write_by& by) {
    auto managed = by.managed ? *by.managed
                              : managed_after_update(entries, manager(t, by, "Update"), before, after, t.type->custom);
    object_at(after, "metadata")["managedFields"] = std::move(managed);
}

void rest_api::check_size(const stored_object& o, const write_by& by) const {
    // etcd's words
    if (!by.direct && o.text.size() > options_.max_object_) throw refused(500, "", "etcdserver: request is too large");
}

// ---- create

void rest_api::prepare_new(const target& t, json::object& body, const write_by& by) {
    const auto& plural = t.type->api.plural;
    const bool own = t.type->api.group.empty();
    // Nodes register themselves with their status; all other objects get it from their controllers later. (This comes
    // first, because `erase` moves other members.)
    if (t.type->status && !by.direct && !(own && plural == "nodes")) body.erase("status");
    auto& metadata = object_at(body, "metadata");
    for (const std::string_view key : {"selfLink", "deletionTimestamp", "deletionGracePeriodSeconds", "managedFields",
                                       "generation", "resourceVersion"}) {
        metadata.erase(key);
    }
    metadata["name"] = t.name;
    if (t.type->api.namespaced) {
        metadata["namespace"] = t.name_space;
    } else {
        metadata.erase("namespace");
    }
    metadata["uid"] = new_uid();
    metadata["creationTimestamp"] = now_text();
    if (t.type->generation) metadata["generation"] = 1;
    if (own && plural == "namespaces") {
        object_at(metadata, "labels")["kubernetes.io/metadata.name"] = t.name;
        object_at(body, "spec")["finalizers"] = json::array{"kubernetes"};
        object_at(body, "status")["phase"] = "Active";
    } else if (own && (plural == "pods" || plural == "persistentvolumeclaims" || plural == "persistentvolumes")) {
        object_at(body, "status").emplace("phase", "Pending");
    } else if (t.type->is_definition()) {
        prepare_definition(body);
    }
}

stored rest_api::create(const target& asked, json::object body, const write_by& by) {
    target t = asked;
    if (!t.subresource.empty()) throw refused(405, "MethodNotAllowed", "create is not supported on this subresource");
    check_body_identity(t, body);
    if (names_a_version(string_at(body, {"metadata", "resourceVersion"})) && !by.direct) {
        throw refused(500, "", "resourceVersion should not be set on objects to be created"); // as the real server
    }
    t.name = string_at(body, {"metadata", "name"});
    const auto prefix = string_at(body, {"metadata", "generateName"});
    if (t.name.empty() && prefix.empty()) {
        invalid_field(t, "FieldValueRequired", "metadata.name", "Required value: name or generateName is required");
    }
    if (t.name.empty()) t.name = generated_name(t, prefix);
    check_namespace_for_create(t);
    check_definition_for_create(t);
    check_name(*t.type, t.name);
    check_metadata_values(*t.type, t.name, body);
    if (t.type->is_secret()) take_string_data(body);
    drop_empty_data(*t.type, body);
    if (const auto there = t.type->rows->find(t.key())) {
        auto status = already_exists(*t.type, t.name).status();
        if (there->terminating) status.message = "object is being deleted: " + status.message;
        throw refusal(std::move(status));
    }
    prepare_new(t, body, by);
    tidy_metadata(body);
    add_managed(t, body, nullptr, json::array(), by);
    if (by.dry_run) return render_dry(*t.type, body);
    forget_old_events();
    auto now = render(*t.type, body, store_.next());
    check_size(*now, by);
    if (t.type->is_definition()) serve_definition(body);
    store_.put(*t.type->rows, now);
    written(t, now);
    return now;
}

// ---- update

void rest_api::check_preconditions(const target& t, const stored_object& old, const json::object& body,
                                   const write_by& by) const {
    const auto uid = string_at(body, {"metadata", "uid"});
    const bool other = !uid.empty() && uid != old.uid;
    if (other && !by.patch) throw other_uid(t, uid, old.uid);
    const auto version = version_in(body);
    if (version == 0 && t.type->wants_version && !by.direct && t.subresource != "scale") {
        invalid_field(t, "FieldValueInvalid", "metadata.resourceVersion",
                      "Invalid value: 0: must be specified for an update");
    }
    if (version != 0 && version != old.version) throw conflict(*t.type, t.name, modified_meanwhile);
    if (other) immutable(t, "metadata.uid", json::value(uid)); // it would change the uid
}

stored rest_api::update(const target& t, json::object body, const write_by& by) {
    const bool scale = t.subresource == "scale" && t.type->scale;
    const bool finalize = t.subresource == "finalize" && t.type->is_namespace();
    const bool status = t.subresource == "status" && t.type->status;
    if (scale) return update_scale(t, body, by);
    if (!t.subresource.empty() && !finalize && !status) throw not_found(*t.type, t.name);
    check_body_identity(t, body);
    check_url_name(t, string_at(body, {"metadata", "name"}));
    const auto old = must_find(t);
    check_preconditions(t, *old, body, by);
    if (finalize) return finalize_namespace(t, body, by);
    auto before = tree(*t.type, *old);
    return replace(t, old, std::move(before), std::move(body), by);
}

stored rest_api::put(const target& t, json::object body, const write_by& by, bool& created) {
    created = t.type->put_creates && t.subresource.empty() && !t.type->rows->find(t.key());
    if (!created) return update(t, std::move(body), by);
    check_body_identity(t, body);
    check_url_name(t, string_at(body, {"metadata", "name"}));
    if (const auto uid = string_at(body, {"metadata", "uid"}); !uid.empty()) throw other_uid(t, uid, "");
    version_in(body); // must be a number, and is ignored otherwise
    object_at(body, "metadata").erase("resourceVersion");
    return create(t, std::move(body), by);
}

// `after` comes from a client; the fields that a client may not change are taken from `before`.
stored rest_api::replace(const target& t, const stored& old, json::object before, json::object after,
                         const write_by& by) {
    const bool status_only = t.subresource == "status";
    if (status_only) {
        json::object kept = before;
        copy_member(kept, after, "status");
        after = std::move(kept);
    } else if (t.type->status && !by.direct) {
        copy_member(after, before, "status");
    }
    auto& metadata = object_at(after, "metadata");
    const auto& old_metadata = before.at("metadata").get_object();
    check_deletion(t, old_metadata, metadata);
    const auto& had_managers = array_or_none(old_metadata, "managedFields");
    const auto* given = metadata.if_contains("managedFields");
    const bool gives = t.subresource.empty() && !by.managed && given != nullptr && given->is_array();
    const json::array managers =
        gives ? managed_by_request(had_managers, given->get_array(), t.type->custom) : had_managers;
    for (const std::string_view key :
         {"name", "namespace", "uid", "creationTimestamp", "generation", "generateName", "deletionTimestamp",
          "deletionGracePeriodSeconds", "resourceVersion", "managedFields"}) {
        copy_member(metadata, old_metadata, key);
    }
    metadata.erase("selfLink");
    if (old->terminating) {
        const auto& had = array_or_none(old_metadata, "finalizers");
        for (const auto& f : array_or_none(metadata, "finalizers")) {
            if (std::find(had.begin(), had.end(), f) == had.end()) {
                invalid_field(t, "FieldValueForbidden", "metadata.finalizers",
                              "Forbidden: no new finalizers can be added while the object is being deleted");
            }
        }
    }
    if (t.type->is_namespace()) {
        object_at(metadata, "labels")["kubernetes.io/metadata.name"] = t.name;
        object_at(after, "spec")["finalizers"] = json::array{"kubernetes"};
    } else if (t.type->is_definition() && !status_only) {
        check_definition_change(before, after);
        prepare_definition(after);
    }
    check_metadata_values(*t.type, t.name, after);
    if (t.type->is_secret()) take_string_data(after);
    drop_empty_data(*t.type, after);
    tidy_metadata(after);
    const bool same_owners = same_managers(had_managers, by.managed ? *by.managed : managers);
    if (same_owners && same_but_bookkeeping(before, after)) return old; // no write, no event, the version stays
    if (t.type->generation && !status_only && specification_differs(*t.type, before, after)) {
        object_at(after, "metadata")["generation"] = integer_at(old_metadata, "generation") + 1;
    }
    add_managed(t, after, &before, managers, by);
    if (by.dry_run) return render(*t.type, after, old->version);
    if (old->terminating && !object_at(after, "metadata").contains("finalizers") && !t.type->is_namespace()) {
        return erase(t, old, std::move(after)); // its last finalizer is gone
    }
    auto now = render(*t.type, after, store_.next());
    check_size(*now, by);
    if (t.type->is_definition() && !status_only) serve_definition(after);
    store_.put(*t.type->rows, now);
    written(t, now);
    if (t.type->is_definition()) name_definitions(string_at(after, {"spec", "group"})); // it may have freed names
    if (t.type->is_namespace()) finish_namespace(t.name);
    return now;
}

stored rest_api::update_scale(const target& t, const json::object& scale, const write_by& by) {
    check_scale_type(scale);
    check_url_name(t, string_at(scale, {"metadata", "name"}));
    check_namespace(t, scale);
    const auto* replicas = find_at(scale, {"spec", "replicas"});
    if (replicas == nullptr || !replicas->is_int64() || replicas->get_int64() < 0) {
        invalid_field(t, "FieldValueInvalid", "spec.replicas", "Invalid value: must be a number of at least 0");
    }
    const auto old = must_find(t);
    check_preconditions(t, *old, scale, by);
    auto before = tree(*t.type, *old);
    auto after = before;
    set_at(after, t.type->scale_wanted, *replicas);
    return replace(t, old, std::move(before), std::move(after), by);
}

// ---- delete

stored rest_api::remove(const target& t, const json::object& options, const write_by& by, bool& gone) {
    const auto old = must_find(t);
    const auto uid = string_at(options, {"preconditions", "uid"});
    if (!uid.empty() && uid != old->uid) throw other_uid(t, uid, old->uid);
    const auto version = string_at(options, {"preconditions", "resourceVersion"});
    if (!version.empty() && version != std::to_string(old->version)) {
        throw conflict(*t.type, t.name,
                       "Precondition failed: ResourceVersion in precondition: " + version +
                           ", ResourceVersion in object meta: " + std::to_string(old->version));
    }
    const bool is_namespace = t.type->is_namespace();
    if (is_namespace && (t.name == "default" || t.name == "kube-system" || t.name == "kube-public")) {
        throw forbidden(*t.type, t.name, "this namespace may not be deleted");
    }
    auto last = tree(*t.type, *old);
    bool held = old->has_finalizers || is_namespace;
    if (t.type->is_definition() && !by.dry_run && !empty_definition(t.name, by)) {
        held = true;
        if (!old->terminating) {
            add_finalizer(last, definition_cleanup);
            mark_terminating(last);
        }
    }
    gone = !held;
    if (gone) {
        if (by.dry_run) return old;
        return erase(t, old, std::move(last));
    }
    if (old->terminating) return old;
    auto& metadata = object_at(last, "metadata");
    metadata["deletionTimestamp"] = now_text();
    metadata["deletionGracePeriodSeconds"] = 0;
    if (t.type->generation) metadata["generation"] = integer_at(metadata, "generation") + 1;
    if (is_namespace) object_at(last, "status")["phase"] = "Terminating";
    auto now = render(*t.type, last, by.dry_run ? old->version : store_.next());
    if (by.dry_run) return now;
    store_.put(*t.type->rows, now);
    if (is_namespace) empty_namespace(t.name);
    return now;
}

std::vector<stored> rest_api::remove_each(const type_ptr& type, const std::vector<stored>& which,
                                          const json::object& options, const write_by& by) {
    std::vector<stored> out;
    for (const auto& o : which) {
        target t;
        t.type = type;
        t.name_space = o->name_space;
        t.name = o->name;
        bool gone = false;
        if (type->rows->find(o->key())) out.push_back(remove(t, options, by, gone));
    }
    return out;
}

std::vector<stored> rest_api::remove_collection(const type_ptr& type, std::string name_space, const parameters& query,
                                                const json::object& options, const write_by& by) {
    static_cast<void>(query_numbers(query)); // they mean nothing here, and are refused all the same
    const selection chosen(*type, name_space, parameter(query, "labelSelector"), parameter(query, "fieldSelector"));
    std::vector<stored> which;
    for (const auto& [key, o] : type->rows->objects) {
        if (chosen.matches(*o)) which.push_back(o);
    }
    return remove_each(type, which, options, by);
}

stored rest_api::erase(const target& t, const stored& old, json::object last) {
    if (t.type->is_definition()) stop_serving(t.name); // first its objects, then the definition itself
    auto final_state = render(*t.type, last, store_.next());
    store_.erase(*t.type->rows, final_state);
    if (t.type->is_definition()) name_definitions(string_at(last, {"spec", "group"}));
    if (t.type->api.namespaced) finish_namespace(old->name_space);
    if (t.type->custom) finish_definition(*t.type);
    return final_state;
}

} // namespace informer::testing::detail
