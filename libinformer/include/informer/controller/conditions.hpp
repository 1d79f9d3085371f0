// Conditions of a status: what is so, why, and since when ("Ready", "Available", "Degraded").
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

/// One entry of `status.conditions` (metav1.Condition), to be set. (`informer::condition` is of errors.)
class status_condition {
public:
    /// `reason`: one word for programs, in CamelCase; servers insist on it. `message`: for people.
    status_condition(std::string type, condition_status status, std::string reason, std::string message = {})
        : type_(std::move(type)), status_(status), reason_(std::move(reason)), message_(std::move(message)) {}
    /// The `metadata.generation` of the object that was looked at; without it the entry has none.
    status_condition& observed_generation(std::int64_t n) {
        observed_generation_ = n;
        return *this;
    }

    std::string type_;
    condition_status status_;
    std::string reason_, message_;
    std::int64_t observed_generation_ = 0;
};

/// Puts `c` in the place of the condition of its type, or behind the others, as apimachinery's meta.SetStatusCondition does.
/// `lastTransitionTime` becomes `now` (`runtime::clock().wall()`) where `status` changes or had no time, and stays otherwise. True
/// if anything changed.
///
/// `status` is the status that is to be written: begin with a copy of what there is, `to_value(o["status"])`, so that times are kept,
/// and other members and conditions stay. Whatever is no object counts as an empty one. `patch_status` replaces the list as a whole: where
/// several write conditions of one object, what another one has changed since `status` was read is lost. There use `update_with_retry`
/// on the status, or `apply`.
///
///     json::value status = to_value(database["status"]);
///     set_condition(status, status_condition("Ready", condition_status::yes, "Applied").observed_generation(database.meta().generation()), rt.clock().wall());
///     co_await patch_status(client, databases, database, std::move(status), factory.get(databases), options, f);
bool set_condition(boost::json::value& status, const status_condition& c, std::chrono::system_clock::time_point now);

/// Takes the condition of that type out (meta.RemoveStatusCondition). True if there was one.
bool remove_condition(boost::json::value& status, std::string_view type);

/// The condition of that type; null where there is none. It is a part of `status`.
const boost::json::value* find_condition(const boost::json::value& status, std::string_view type);
const boost::json::value* find_condition(const boost::json::value&& status, std::string_view type) = delete;
/// Whether it is there and "True".
bool is_condition_true(const boost::json::value& status, std::string_view type);

/// The same of an object as caches have them; missing where there is none.
value find_condition(const object& o, std::string_view type);
value find_condition(const object&& o, std::string_view type) = delete; // the view would outlive it
bool is_condition_true(const object& o, std::string_view type);

} // namespace informer
