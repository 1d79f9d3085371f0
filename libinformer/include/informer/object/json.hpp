// Documents to and from boost::json values; patches. The one public header that includes Boost.JSON.
#pragma once

#include <informer/error.hpp>
#include <informer/object/object.hpp>

#include <boost/json/value.hpp>

namespace informer {

/// A deep copy as a boost::json value. Numbers that no int64, uint64 or double holds exactly become the nearest double, which beyond
/// the largest one is infinity.
boost::json::value to_value(const value& v);
boost::json::value to_value(const object& o);
/// A document of its own small pool. Throws `error`.
object from_value(const boost::json::value& v);

/// RFC 7386.
void apply_merge_patch(boost::json::value& target, const boost::json::value& patch);
/// RFC 6902, all six operations; `target` is unchanged on error (errc::bad_patch, the sentence names the operation).
/// So that a patch from elsewhere cannot make a value without end, its copies and moves make a million values at most, a thousand deep.
bool apply_json_patch(boost::json::value& target, const boost::json::value& operations, failure& f);
/// The merge patch that makes `to` out of `from`. Members of `to` that are null and not so in `from` it cannot make (RFC 7386): it takes
/// them out.
boost::json::value make_merge_patch(const boost::json::value& from, const boost::json::value& to);

} // namespace informer
