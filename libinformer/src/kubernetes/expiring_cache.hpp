// Answers that are good for a while.
#pragma once

#include <informer/runtime.hpp>

#include <algorithm>
#include <cstddef>
#include <string>
#include <unordered_map>
#include <utility>

namespace informer::kubernetes::detail {

/// Never more than `most` values: beyond that the one that ends first goes, which costs a look at all.
template <class T>
class expiring_cache {
public:
    using time_point = informer::clock::time_point;
    explicit expiring_cache(std::size_t most) : most_(most) {}

    /// Null when there is none, or it has ended. Valid until the next `put`.
    const T* find(const std::string& key, time_point now) const {
        const auto found = values_.find(key);
        return found == values_.end() || found->second.until <= now ? nullptr : &found->second.value;
    }
    void put(const std::string& key, T value, time_point until) {
        if (values_.size() >= most_ && !values_.contains(key)) {
            const auto sooner = [](const auto& a, const auto& b) { return a.second.until < b.second.until; };
            values_.erase(std::min_element(values_.begin(), values_.end(), sooner));
        }
        values_.insert_or_assign(key, kept{std::move(value), until});
    }
    std::size_t size() const noexcept { return values_.size(); }

private:
    struct kept {
        T value;
        time_point until;
    };
    std::size_t most_;
    std::unordered_map<std::string, kept> values_;
};

} // namespace informer::kubernetes::detail
