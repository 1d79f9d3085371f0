// What an object points to.
#pragma once

#include "node.hpp"

#include <informer/detail/shared_count.hpp>

namespace informer::detail {

class generation;

/// A document that somebody holds. 24 bytes, in slabs of its generation.
struct root {
    shared_count count{0};
    handle document = 0;
    informer::detail::generation* generation = nullptr;
    /// The handles of the document's namespace and name, so that a look-up of a key need not walk there.
    struct key_handles {
        handle name_space, name;
    };
    union {
        root* next = nullptr; ///< on the retire list or the free list
        key_handles key;      ///< while it is held
    };
};
static_assert(sizeof(root) <= 24);

} // namespace informer::detail
