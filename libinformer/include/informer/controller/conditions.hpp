// Conditions of a status ("Ready", "Available", "Degraded"): whether each holds, why, and since when.
#pragma once

#include <informer/object/object.hpp>

#include <boost/json/fwd.hpp>

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace informer {

enum class condition_status { no, yes, unknown }; ///< "False", "True", "Unknown"

/// One entry of `status.conditions` (metav1.Condition), to be set. (`informer::condition` is about errors.)
class status_condition {
public:
    /// `reason`: one CamelCase word for programs; servers insist on it. `message`: for people.
    status_condition(std::string type, condition_status status, std::string reason, std::string message = {})
        : type_(std::move(type)), status_(status), reason_(std::move(reason)), message_(std::move(message)) {}
    /// The `metadata.generation` of the object that was observed. Without this call the entry has none.
    status_condition& observed_generation(std::int64_t n) {
        observed_generation_ = n;
        return *this;
    }

    std::string type_;
    condition_status status_;
    std::string reason_, message_;
    std::int64_t observed_generation_ = 0;
};

/// Sets `c` in place of the condition of its type, or appends it, as apimachinery's meta.SetStatusCondition does.
/// `lastTransitionTime` becomes `now` (pass `runtime::clock().wall()`) if `status` changes or the entry had no time;
/// otherwise it stays. Returns true if anything changed.
///
/// `status` is the status to write. Start from a copy of the current one, `to_value(o["status"])` (object/json.hpp), so
/// that times, other members and other conditions are kept. A `status` that is not an object counts as an empty one.
/// `patch_status` replaces the list as a whole: if several writers set conditions of one object, changes that another
/// one has made since `status` was read are lost. In that case use `update_with_retry` on the status, or `apply`.
///
///     json::value status = to_value(database["status"]);
///     set_condition(status, status_condition("Ready", condition_status::yes, "Applied").observed_generation(database.meta().generation()), rt.clock().wall());
///     co_await patch_status(client, databases, database, std::move(status), factory.get(databases), options, f);
bool set_condition(boost::json::value& status, const status_condition& c, std::chrono::system_clock::time_point now);

/// Removes the condition of that type (meta.RemoveStatusCondition). Returns true if there was one.
bool remove_condition(boost::json::value& status, std::string_view type);

/// The condition of that type, or null if there is none. It is a part of `status`.
const boost::json::value* find_condition(const boost::json::value& status, std::string_view type);
const boost::json::value* find_condition(const boost::json::value&& status, std::string_view type) = delete;
/// Whether the condition exists and is "True".
bool is_condition_true(const boost::json::value& status, std::string_view type);

/// The same for an object as caches have it. The value is missing if there is no such condition.
value find_condition(const object& o, std::string_view type);
value find_condition(const object&& o, std::string_view type) = delete; // the view would outlive it
bool is_condition_true(const object& o, std::string_view type);

} // namespace informer
