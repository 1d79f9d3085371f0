// Members of JSON that a server sent: what is not of the type wanted counts as absent.
#pragma once

#include <boost/json/object.hpp>
#include <boost/json/value.hpp>

#include <string_view>

namespace informerctl {

inline std::string_view text_at(const boost::json::object& o, std::string_view key) {
    const boost::json::value* v = o.if_contains(key);
    const boost::json::string* s = v ? v->if_string() : nullptr;
    return s ? std::string_view(*s) : std::string_view();
}

/// Null if there is none, also if `o` is null: for members of members.
inline const boost::json::object* object_at(const boost::json::object* o, std::string_view key) {
    const boost::json::value* v = o ? o->if_contains(key) : nullptr;
    return v ? v->if_object() : nullptr;
}

} // namespace informerctl
