// Where the objects of each namespace lie in the map.
#pragma once

#include "object_map.hpp"

#include <informer/detail/text_hash.hpp>

#include <array>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

namespace informer::detail {

/// The sub-tries of the map that hold objects of several namespaces. In all others, the namespace of the first object
/// is that of all, so a list of the namespace need not look into every object.
using mixed_namespaces = std::bitset<std::size_t{1} << object_traits::namespace_bits>;

/// The writer's count of objects by namespace. Not thread-safe.
class namespace_census {
public:
    /// `hash`: that of the namespace, or of a whole key, whose lowest bits are those of its namespace.
    static std::size_t bucket(std::uint64_t hash) noexcept {
        return hash & ((std::uint64_t{1} << object_traits::namespace_bits) - 1);
    }
    void add(std::string_view name_space, std::size_t bucket) {
        if (last_ && last_->first == name_space) { // objects come grouped by namespace
            ++last_->second;
            return;
        }
        const auto there = objects_.find(name_space);
        if (there != objects_.end()) {
            ++there->second;
            last_ = &*there;
            return;
        }
        if (namespaces_[bucket] == 1) set(bucket, true); // first: to say mixed too early does no harm, too late would
        last_ = &*objects_.emplace(std::string(name_space), 1).first;
        ++namespaces_[bucket];
    }
    /// One more of the namespace that was added last. False: none was.
    bool add_another() noexcept {
        if (!last_) return false;
        ++last_->second;
        return true;
    }
    void remove(std::string_view name_space, std::size_t bucket) {
        const auto there = objects_.find(name_space);
        if (there == objects_.end() || --there->second > 0) return;
        if (last_ == &*there) last_ = nullptr;
        objects_.erase(there);
        if (--namespaces_[bucket] == 1) set(bucket, false);
    }
    /// Shared until it changes.
    const std::shared_ptr<const mixed_namespaces>& mixed() const noexcept { return mixed_; }

private:
    struct hash {
        using is_transparent = void;
        std::size_t operator()(std::string_view s) const noexcept { return text_hash(s); }
    };
    void set(std::size_t bucket, bool mixed) {
        auto next = std::make_shared<mixed_namespaces>(*mixed_);
        next->set(bucket, mixed);
        mixed_ = std::move(next);
    }

    std::unordered_map<std::string, std::size_t, hash, std::equal_to<>> objects_;
    std::pair<const std::string, std::size_t>* last_ = nullptr; ///< the one added to last
    std::array<std::uint32_t, std::size_t{1} << object_traits::namespace_bits> namespaces_{};
    std::shared_ptr<const mixed_namespaces> mixed_ = std::make_shared<const mixed_namespaces>();
};

} // namespace informer::detail
