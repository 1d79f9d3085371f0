// What changed between two versions of an object.
#pragma once

#include <informer/object/object.hpp>

#include <string>
#include <vector>

namespace informer {

/// One difference. `before` is missing for something added, `after` for something removed.
/// *Lifetime*: views of the two objects compared.
struct change {
    std::string pointer; ///< JSON pointer
    value before, after;
};

/// The differences, in document order of `b` with removals last in each object. Elements of arrays are compared by
/// position; a change of type or of a scalar is one change; added and removed sub-trees are one change each.
/// *Complexity*: the size of what changed, because equal sub-trees are skipped by handle. Across a compaction and
/// between two pools no handles are shared: there it is the size of both documents.
std::vector<change> diff(const value& a, const value& b);
std::vector<change> diff(const object& a, const object& b);
std::vector<change> diff(object&&, const object&) = delete;
std::vector<change> diff(const object&, object&&) = delete;

} // namespace informer
