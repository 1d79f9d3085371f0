// Owner references: which object made another one. The garbage collector and `mapping::to_owner` follow them.
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
/// Compares uids: an owner that was deleted and created again under the same name is another one.
bool is_controlled_by(const object& o, const object& owner);
bool is_owned_by(const object& o, const object& owner);

/// Makes `owner` the controlling owner of `dependent`, a whole object that is to be created or applied. Foreground
/// deletion of the owner then waits for the dependent. An existing reference to the owner, to another API version of
/// it, or to an earlier object of its name, is replaced as a whole. Calling it again changes nothing.
///
/// *Errors*: conflict if another owner controls it already (it says which); not_an_object if `dependent` is not an
/// object; bad_configuration if the owner lacks a uid (it must come from the server), a name or a type, or if the
/// garbage collector could not find one from the other: a namespaced owner owns only objects of its own namespace.
void set_controller_reference(boost::json::value& dependent, const object& owner, failure& f);
/// The same without control: one of several owners. If it controlled the dependent before, it does not any longer.
void set_owner_reference(boost::json::value& dependent, const object& owner, failure& f);
/// Compares uids, as `is_owned_by` does. Returns true if there was one.
bool remove_owner_reference(boost::json::value& dependent, const object& owner);

} // namespace informer
