// Documents to and from boost::json values; patches. The one public header that includes Boost.JSON.
#pragma once

#include <informer/error.hpp>
#include <informer/object/object.hpp>

#include <boost/json/value.hpp>

namespace informer {

/// A deep copy as a boost::json value. A number that no int64, uint64 or double holds exactly becomes the nearest
/// double; beyond the largest double that is infinity.
boost::json::value to_value(const value& v);
boost::json::value to_value(const object& o);
/// A document in a small pool of its own. Throws `error`.
object from_value(const boost::json::value& v);

/// RFC 7386.
void apply_merge_patch(boost::json::value& target, const boost::json::value& patch);
/// RFC 6902, all six operations; `target` is unchanged on error (errc::bad_patch, the message names the operation). The
/// copies and moves of a patch make a million values at most, a thousand deep, so that a patch from elsewhere cannot
/// make a value without end.
bool apply_json_patch(boost::json::value& target, const boost::json::value& operations, failure& f);
/// The merge patch that turns `from` into `to`. It cannot make members of `to` null that are not null in `from` (RFC
/// 7386): it removes them.
boost::json::value make_merge_patch(const boost::json::value& from, const boost::json::value& to);

} // namespace informer
