// A projection's pointers as a tree, walked alongside the document.
#pragma once

#include <informer/object/document_pool.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace informer::detail {

class projection_trie {
public:
    explicit projection_trie(const projection& p);
    bool empty() const noexcept { return nodes_.size() == 1 && !nodes_[0].ends && !keep_; }
    bool keeps() const noexcept { return keep_; }
    /// Whether one of the pointers points to the whole document.
    bool ends_at_once() const noexcept { return nodes_[start].ends; }

    /// Adds to `to` the states to which a child `name` leads from `states[first]` to `states[last - 1]`; true when a
    /// pointer ends there.
    bool step(const std::vector<std::uint32_t>& states, std::size_t first, std::size_t last, std::string_view name,
              std::vector<std::uint32_t>& to) const;
    static constexpr std::uint32_t start = 0;

private:
    struct node {
        std::vector<std::pair<std::string, std::uint32_t>> named;
        std::uint32_t star = 0;
        bool ends = false;
    };
    std::vector<node> nodes_;
    bool keep_;
};

/// The members of the metadata that no projection drops and no transform changes: without them an object has no place
/// in a cache.
inline constexpr std::array<std::string_view, 4> identity_members = {"name", "namespace", "uid", "resourceVersion"};
/// Nor does a projection drop what controllers decide by: a controller that believes an object has no finalizers
/// would overwrite those it has.
inline constexpr std::array<std::string_view, 3> decisive_members = {"generation", "deletionTimestamp", "finalizers"};
inline bool is_always_stored(std::string_view metadata_key) noexcept {
    const auto is_one_of = [&](const auto& all) {
        return std::find(all.begin(), all.end(), metadata_key) != all.end();
    };
    return is_one_of(identity_members) || is_one_of(decisive_members);
}

} // namespace informer::detail
