// The Kubernetes API of the embedded server without any transport: what a request does to the store, and its answer.
// Refusals are thrown (`refusal`).
#pragma once

#include "negotiation.hpp"
#include "object_store.hpp"
#include "resource_types.hpp"
#include "selection.hpp"

#include <informer/runtime.hpp>

#include <boost/json/fwd.hpp>

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace informer::testing::detail {

struct field_manager;

using parameters = std::vector<std::pair<std::string, std::string>>;
std::string_view parameter(const parameters& query, std::string_view name); ///< "" when absent
bool has_parameter(const parameters& query, std::string_view name);
/// A flag as the real server reads it: absence, "false" and "0" are false, everything else is true.
bool truth(const parameters& query, std::string_view name);
/// The number in a resource version. Refuses (500) any other text, in the words of the real server.
std::uint64_t parse_version(std::string_view text);
/// The numbers of a query, 0 where they are absent. Refuses (400) one that is no number.
struct query_numbers {
    explicit query_numbers(const parameters& query);
    std::int64_t limit, timeout_seconds;
};
/// True for every number except 0.
bool names_a_version(std::string_view text);

/// The manager and the options of a write.
struct write_by {
    std::string manager = "controller";
    bool dry_run = false;
    /// A direct write: specification and status are written together, and no resource version is required.
    bool direct = false;
    bool force = false; ///< apply only
    bool patch = false; ///< a PATCH: the new object was made from the stored one
    /// metadata.managedFields of the result if they are already known (apply).
    std::shared_ptr<const boost::json::array> managed;
};

/// The object or collection that a request is about.
struct target {
    type_ptr type;
    std::string name_space, name, subresource;
    /// The key in the table of the type.
    std::string key() const { return type->api.namespaced ? name_space + "/" + name : name; }
};

/// The answer to a list: `head`, the items (each `item_head` + text, separated by commas), `tail`.
struct list_answer {
    std::string head, item_head, tail;
    std::vector<stored> items;
    bool partial = false; ///< only the metadata of each item
    std::string text_of(const stored_object& o) const { return partial ? partial_text(o.text) : o.text; }
};

/// An answer without items. Refuses (406) a form that does not fit a list.
list_answer empty_list(const resource_type& type, const boost::json::object& metadata, answer_form form);

/// What a watch has to send.
struct watch_plan {
    explicit watch_plan(selection s) : chosen(std::move(s)) {}

    type_ptr type;
    selection chosen;
    std::vector<stored> initial; ///< sent as ADDED first
    std::uint64_t initial_version = 0;
    bool mark_end_of_initial = false; ///< watch-list: a bookmark follows that marks it
    bool bookmarks = false;
    std::uint64_t after = 0;              ///< live changes have a version above this one …
    std::uint64_t position = 0;           ///< … and at least this number in the table's history
    std::chrono::milliseconds time_out{}; ///< 0: the server's default
    bool partial = false;                 ///< only the metadata of each object
    std::optional<api_status> error;      ///< the watch answers 200, then this as its only event
};

class rest_options {
public:
    rest_options() {}
    bool watch_list_ = true;
    bool sharding_ = false;
    std::size_t history_ = 100'000;
    std::uint64_t first_version_ = 1000;
    std::chrono::seconds continue_for_ = std::chrono::minutes(5);
    std::size_t max_object_ = std::size_t(3) << 19;
};

class rest_api {
public:
    rest_api(std::shared_ptr<informer::clock> clock, std::uint64_t seed, rest_options options);

    object_store& store() noexcept { return store_; }
    const object_store& store() const noexcept { return store_; }
    const type_registry& types() const noexcept { return types_; }

    // ---- reads
    stored get(const target& t, const parameters& query = {}) const;
    list_answer list(const resource_type& type, std::string name_space, const parameters& query,
                     answer_form form = answer_form::whole) const;
    watch_plan watch(type_ptr type, std::string name_space, const parameters& query,
                     answer_form form = answer_form::whole) const;
    /// The JSON text of an object as GET answers it.
    std::string text(const resource_type& type, const stored_object& o, answer_form form = answer_form::whole) const;
    /// Refuses (500) a custom object that does not say how many replicas it wants.
    std::string scale_text(const resource_type& type, const stored_object& o) const;

    // ---- writes
    stored create(const target& t, boost::json::object body, const write_by& by);
    stored update(const target& t, boost::json::object body, const write_by& by);
    /// PUT: an update, or for some kinds a creation; `created` says which.
    stored put(const target& t, boost::json::object body, const write_by& by, bool& created);
    /// `content_type` chooses the kind of patch.
    stored patch(const target& t, std::string_view content_type, std::string_view body, const write_by& by);
    /// Server-side apply; `created` says whether the object did not exist before.
    stored apply(const target& t, std::string_view body, const write_by& by, bool& created);
    stored merge_patch(const target& t, const boost::json::value& patch, const write_by& by);
    /// `options` is a DeleteOptions object. Returns the last state; `gone` is false if the object still waits for its
    /// finalizers.
    stored remove(const target& t, const boost::json::object& options, const write_by& by, bool& gone);
    /// Removes those that still exist: the deletion of one object may remove others.
    std::vector<stored> remove_each(const type_ptr& type, const std::vector<stored>& which,
                                    const boost::json::object& options, const write_by& by);
    std::vector<stored> remove_collection(const type_ptr& type, std::string name_space, const parameters& query,
                                          const boost::json::object& options, const write_by& by);

    /// A random text.
    std::string new_token() { return new_uid(); }

    // ---- time travel
    std::uint64_t checkpoint();
    /// False if there is no such checkpoint.
    bool restore(std::uint64_t number);

private:
    struct saved_state {
        std::uint64_t version = 0;
        type_registry types;
        std::map<std::shared_ptr<table>, std::map<std::string, stored, std::less<>>> tables;
    };

    struct written_event {
        informer::clock::time_point at;
        target where;
        std::weak_ptr<const stored_object> state;
    };

    std::string now_text() const;
    std::string new_uid();
    std::string random_suffix();
    /// A name that is free, if one can be found in a few attempts.
    std::string generated_name(const target& t, std::string_view prefix);
    /// Refuses a `body` of another type, or with metadata of other types.
    void check_type(const target& t, const boost::json::object& body) const;
    /// The same for a Scale.
    void check_scale_type(const boost::json::object& scale) const;
    /// The same for the object that a patch gives.
    void check_patched(const target& t, const boost::json::object& patched) const;
    void check_body_identity(const target& t, const boost::json::object& body) const;
    void check_namespace_for_create(const target& t) const;
    stored must_find(const target& t) const;
    /// Refuses a `body` whose uid or resource version does not allow it to overwrite `old`.
    void check_preconditions(const target& t, const stored_object& old, const boost::json::object& body,
                             const write_by& by) const;
    void check_size(const stored_object& o, const write_by& by) const;
    void prepare_new(const target& t, boost::json::object& body, const write_by& by);
    stored replace(const target& t, const stored& old, boost::json::object before, boost::json::object after,
                   const write_by& by);
    boost::json::object scale_of(const resource_type& type, const stored_object& o) const;
    stored update_scale(const target& t, const boost::json::object& scale, const write_by& by);
    stored finalize_namespace(const target& t, const boost::json::object& body, const write_by& by);
    stored erase(const target& t, const stored& old, boost::json::object last);
    field_manager manager(const target& t, const write_by& by, std::string_view operation) const;
    /// `entries`: those that the write goes on from.
    void add_managed(const target& t, boost::json::object& after, const boost::json::object* before,
                     const boost::json::array& entries, const write_by& by);
    /// Deletes events an hour after their last write: otherwise a server that runs for days fills up with them.
    void forget_old_events();
    void written(const target& t, const stored& now);
    void stop_serving(const std::string& definition);
    void mark_terminating(boost::json::object& definition) const;
    /// Deletes the objects of a definition that is being deleted; false when finalizers hold some of them.
    bool empty_definition(const std::string& definition, const write_by& by);
    void finish_definition(const resource_type& type);
    void check_definition_for_create(const target& t) const;
    void prepare_definition(boost::json::object& definition);
    /// The definitions of a group except the one with the name `but`.
    std::vector<boost::json::object> definitions_of_group(std::string_view group, std::string_view but) const;
    void name_definitions(std::string_view group);
    void serve_definition(const boost::json::object& definition);
    void empty_namespace(const std::string& name);
    void finish_namespace(const std::string& name);
    type_ptr definitions() const;
    stored definition_of(const resource_type& type) const;
    type_ptr defined_by(const std::string& definition) const; ///< one of its versions, served or not
    std::string continue_token(std::int64_t version, std::string_view last_key) const;

    std::shared_ptr<informer::clock> clock_;
    rest_options options_;
    std::mt19937_64 random_;
    object_store store_;
    type_registry types_;
    std::deque<written_event> written_events_; ///< oldest first
    std::size_t most_written_events_ = 64;     ///< at this size, overwritten states are removed
    std::map<std::uint64_t, saved_state> checkpoints_;
    std::uint64_t last_checkpoint_ = 0;
};

} // namespace informer::testing::detail
