// The objects that a list or a watch selects: by namespace, labels, fields and shard.
#pragma once

#include "object_store.hpp"
#include "resource_types.hpp"

#include <informer/object/selector.hpp>
#include <informer/source/shard_selector.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace informer::testing::detail {

class selection {
public:
    /// Refuses selectors that cannot be parsed (400, shard selectors 500) and fields that the resource does not offer
    /// (400).
    selection(const resource_type& type, std::string name_space, std::string_view labels, std::string_view fields,
              std::string_view shard = {});

    bool matches(const stored_object& o) const;
    /// True without selectors; only then may a list say how many items remain.
    bool everything() const noexcept { return labels_.everything() && fields_.empty() && shard_.everything(); }
    const shard_selector& shard() const noexcept { return shard_; }

private:
    static constexpr int name_field = -1, namespace_field = -2;
    struct term {
        int field = 0; ///< index into the table's selectable fields, or one of the two constants above
        bool equal = true;
        std::string value;
    };
    std::string name_space_;
    label_selector labels_;
    std::vector<term> fields_;
    shard_selector shard_;
};

} // namespace informer::testing::detail
