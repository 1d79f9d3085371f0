// Reading small JSON answers (discovery, Status, list envelopes) without exceptions: what is absent or of another type
// is empty.
#pragma once

#include "object/large_text.hpp"

#include <informer/error.hpp>
#include <informer/object/object_key.hpp>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace informer::kubernetes::detail {

/// Depth is limited to 100: none of these answers is deep. `f`: syntax_error or too_deep.
boost::json::value parse_answer(std::string_view text, failure& f);

using informer::detail::large_text;

/// As `parse_answer`, for texts that are larger than `large_text` only if the sender means harm: those are `too_large`.
boost::json::value parse_small(std::string_view text, failure& f);

const boost::json::value* member(const boost::json::object& o, std::string_view key) noexcept;
const boost::json::object* object_member(const boost::json::object& o, std::string_view key) noexcept;
/// An empty array if the member is absent or no array.
const boost::json::array& array_member(const boost::json::object& o, std::string_view key) noexcept;
std::string_view string_member(const boost::json::object& o, std::string_view key) noexcept;
std::string text_member(const boost::json::object& o, std::string_view key);
/// Of an object's metadata.
object_key key_of(const boost::json::value& o);
bool bool_member(const boost::json::object& o, std::string_view key) noexcept;
std::optional<std::int64_t> int_member(const boost::json::object& o, std::string_view key) noexcept;
std::vector<std::string> texts_member(const boost::json::object& o, std::string_view key);

} // namespace informer::kubernetes::detail
