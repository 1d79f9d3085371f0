// Structs for the objects of a kind, from the OpenAPI document in which an API server describes them.
#pragma once

#include <boost/json/value.hpp>

#include <string>

namespace informerctl {

struct wanted_types {
    std::string group, version, kind;
    std::string name_space; ///< of C++
    std::string by;         ///< the command that makes them, for the first line
};

/// A header with a struct for the kind and for each type within it, as informer/object/typed.hpp reads and writes them.
///
/// `document`: what the server tells of the kind's group and version (OpenAPI 3). What Go would always write is a plain
/// member: what is required, and structs with a default. All else is a std::optional. A type within itself is a
/// boost::json::value there, and so is whatever has no type. A member whose name cannot be one in C++ is left out, and a
/// comment says so. Nothing of the document's text can become code. *Errors*: errc::unknown_resource (the document does not
/// describe the kind), errc::bad_response (it is no such document).
std::string make_types(const boost::json::value& document, const wanted_types& wanted);

} // namespace informerctl
