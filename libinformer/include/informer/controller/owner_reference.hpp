// Who made an object: owner references, by which the garbage collector and `mapping::to_owner` find their way.
#pragma once

#include <informer/error.hpp>
#include <informer/object/api_resource.hpp>
#include <informer/object/object.hpp>

#include <boost/json/fwd.hpp>

#include <optional>
#include <string>

namespace informer {

/// One entry of metadata.ownerReferences.
class owner_reference {
public:
    std::string api_version, kind, name, uid;
    bool controller = false, block_owner_deletion = false;
};

/// The reference whose `controller` is true, if there is one (the server allows one).
std::optional<owner_reference> controller_of(const object& o);
/// By uid: an owner that was deleted and made anew under the same name is another.
bool is_controlled_by(const object& o, const object& owner);
bool is_owned_by(const object& o, const object& owner);

/// Makes `owner` the controlling owner of `dependent`, a whole object that is to be created or applied; deleting the owner in
/// the foreground then waits for it. What refers to the owner already, to another version of it, or to one that had its name
/// before, is replaced as a whole; calling it again changes nothing.
///
/// *Errors*: conflict when another owner controls it already (which one); not_an_object when `dependent` is none;
/// bad_configuration when the owner lacks a uid (it must come from the server), a name or a type, or when the two lie where the
/// garbage collector would not find them: a namespaced owner owns only objects of its own namespace.
void set_controller_reference(boost::json::value& dependent, const object& owner, failure& f);
/// The same without control: one of several owners. It controls the dependent no longer if it did.
void set_owner_reference(boost::json::value& dependent, const object& owner, failure& f);
/// By uid, as `is_owned_by`. True when there was one.
bool remove_owner_reference(boost::json::value& dependent, const object& owner);

} // namespace informer
