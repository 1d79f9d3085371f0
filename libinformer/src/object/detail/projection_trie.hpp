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
    /// One of the pointers is that of the whole document.
    bool ends_at_once() const noexcept { return nodes_[start].ends; }

    /// Adds to `to` the states a child `name` of the states [first, last) leads to; true when a pointer ends there.
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

/// What of the metadata no projection drops and no transform changes: without it an object has no place in a cache.
inline constexpr std::array<std::string_view, 4> identity_members = {"name", "namespace", "uid", "resourceVersion"};
/// Nor does a projection drop what controllers decide by: who believed that an object has no finalizers would write over those it has.
inline constexpr std::array<std::string_view, 3> decisive_members = {"generation", "deletionTimestamp", "finalizers"};
inline bool is_always_stored(std::string_view metadata_key) noexcept {
    const auto is_one_of = [&](const auto& all) {
        return std::find(all.begin(), all.end(), metadata_key) != all.end();
    };
    return is_one_of(identity_members) || is_one_of(decisive_members);
}

} // namespace informer::detail
