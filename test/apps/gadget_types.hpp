// Gadget (example.com/v1), as the API server describes it.
// Made by `informerctl types gadgets.example.com`.
// clang-format off
#pragma once

#include <informer/object/quantity.hpp>
#include <informer/object/typed.hpp>

#include <boost/describe/class.hpp>
#include <boost/json/value.hpp>

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace example_v1 {

struct object_meta {
    std::optional<std::string> name;
};
BOOST_DESCRIBE_STRUCT(object_meta, (), (name))

struct part {
    std::string name;
    std::optional<std::string> part;
    boost::json::value within;
    std::optional<std::vector<boost::json::value>> below;
};
BOOST_DESCRIBE_STRUCT(part, (), (name, part, within, below))

struct gadget_spec_template_value_names_item {
    std::optional<std::string> first;
};
BOOST_DESCRIBE_STRUCT(gadget_spec_template_value_names_item, (), (first))

struct gadget_spec_template_value {
    std::optional<std::vector<::example_v1::gadget_spec_template_value_names_item>> names;
};
BOOST_DESCRIBE_STRUCT(gadget_spec_template_value, (), (names))

/// What is wanted: one of the largest sentences that has ever been read by a test, so that it needs two lines and not
/// one only.
struct gadget_spec {
    // "x-y" cannot be a name: it is left out.
    // "$ref2" cannot be a name: it is left out.
    /// How large.
    std::int32_t size = 0;
    std::optional<std::int64_t> limit;
    double weight = 0;
    bool on = false;
    std::optional<std::chrono::system_clock::time_point> since;
    std::optional<std::string> pod_IP;
    std::optional<std::vector<std::string>> cluster_IPs;
    std::optional<std::string> namespace_;
    std::optional<std::string> foo__bar;
    std::optional<std::variant<std::int64_t, std::string>> max_unavailable;
    std::optional<std::variant<std::int64_t, std::string>> target;
    std::optional<std::map<std::string, informer::quantity>> limits;
    std::optional<std::map<std::string, std::string>> labels;
    boost::json::value free;
    std::optional<boost::json::value> either;
    std::optional<boost::json::value> lost;
    ::example_v1::part part;
    std::vector<::example_v1::part> parts;
    std::optional<std::map<std::string, ::example_v1::gadget_spec_template_value>> template_;
};
BOOST_DESCRIBE_STRUCT(gadget_spec, (), (size, limit, weight, on, since, pod_IP, cluster_IPs, namespace_, foo__bar,
    max_unavailable, target, limits, labels, free, either, lost, part, parts, template_))

/// A Gadget turns.
struct gadget {
    std::string api_version = "example.com/v1";
    std::string kind = "Gadget";
    ::example_v1::object_meta metadata;
    /// What is wanted: one of the largest sentences that has ever been read by a test, so that it needs two lines and
    /// not one only.
    ::example_v1::gadget_spec spec;
};
BOOST_DESCRIBE_STRUCT(gadget, (), (api_version, kind, metadata, spec))

} // namespace example_v1
