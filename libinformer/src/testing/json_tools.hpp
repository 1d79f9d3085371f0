// Small helpers on boost::json trees for the embedded server.
#pragma once

#include <boost/json/value.hpp>

#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

namespace informer::testing::detail {

/// The value at a path of member names; null when a member on the path is absent or is not an object.
const boost::json::value* find_at(const boost::json::object& o, std::initializer_list<std::string_view> path);
const boost::json::value* find_at(const boost::json::object& o, std::span<const std::string> path);
/// The string at a path; empty when the value is absent or is not a string.
std::string string_at(const boost::json::object& o, std::initializer_list<std::string_view> path);
/// Puts `v` at a path (not empty); makes the objects on the path as `object_at` does.
void set_at(boost::json::object& o, std::span<const std::string> path, boost::json::value v);
/// The object at `key`, made if it is absent or something else.
boost::json::object& object_at(boost::json::object& o, std::string_view key);
/// A scalar as selectors compare it; empty for null, arrays and objects.
std::string scalar_text(const boost::json::value& v);
/// JSON as Go writes it: Boost.JSON would print 2.5 as 2.5E0.
void append_json(std::string& to, const boost::json::value& v);
/// The text with U+FFFD in place of each byte that is not UTF-8, as Go reads strings.
std::string valid_utf8(std::string_view text);
/// Parses as the server does: depth 1,000, exact doubles. Refuses (400) a text that is not a JSON object.
boost::json::object parse_body(std::string_view text);
/// The same for any JSON value: a patch may be an array.
boost::json::value parse_any(std::string_view text);

} // namespace informer::testing::detail
