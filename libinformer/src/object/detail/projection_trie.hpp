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
    bool empty() const noexcept { return nodes_.size() == 1 && !nodes_[0].ends; }
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
inline bool is_identity(std::string_view metadata_key) noexcept {
    return std::find(identity_members.begin(), identity_members.end(), metadata_key) != identity_members.end();
}

} // namespace informer::detail
