// Lists of objects whose lifetime ends elsewhere.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <vector>

namespace informer::detail {

/// Adds to a list. Expired entries are dropped whenever there is no room left: a constant cost per addition, and at
/// most twice as many places as there ever were live entries at a time.
template <class T>
void add_weak(std::vector<std::weak_ptr<T>>& to, const std::shared_ptr<T>& one) {
    if (to.size() == to.capacity()) {
        std::erase_if(to, [](const auto& weak) { return weak.expired(); });
        to.reserve(std::max<std::size_t>(16, 2 * to.size()));
    }
    to.push_back(one);
}

} // namespace informer::detail
