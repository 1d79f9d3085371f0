// The server's `Status`, out of error answers and ERROR events.
#pragma once

#include <informer/error.hpp>

#include <boost/json/fwd.hpp>

#include <cstddef>
#include <string>
#include <string_view>

namespace informer::kubernetes::detail {

/// kind is "Status".
bool is_status(const boost::json::object& o) noexcept;
api_status read_status(const boost::json::object& o);

/// The failure that an answer with an HTTP error stands for. `retry_after` and `location` are the headers' values.
failure refused(int http_status, std::string_view body, std::string_view retry_after, std::string_view location,
                std::string doing);
/// The failure of an ERROR event or of a Status where an object was expected; bad_response if `object` is no Status.
failure refused_in_stream(std::string_view object, std::string doing);

} // namespace informer::kubernetes::detail
