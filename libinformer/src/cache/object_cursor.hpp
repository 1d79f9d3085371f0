// Walks the objects of a cache, some ahead of whoever reads them.
#pragma once

#include "object_map.hpp"

#include <informer/cache/indexer.hpp>
#include <informer/object/prefetch.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace informer::detail {

/// For those who read what they are given: objects lie anywhere in memory, so each, its document and that one's first members are
/// asked for some objects before they are needed, and their ways overlap. In slices as one likes; its memory does not grow with
/// the cache. *Lifetime*: holds what it walks.
class object_cursor {
public:
    object_cursor() = default;
    explicit object_cursor(object_map m) : cursor_(std::move(m)) {}
    explicit object_cursor(const cache_snapshot& s);

    /// The next object, or null at the end; valid while the cursor lives.
    const object* next() noexcept {
        while (fetched_ - taken_ < roots_ahead) {
            const object* const o = cursor_.next();
            if (!o) break;
            prefetch(*o);
            at(fetched_++) = {o, cursor_.hash()};
        }
        if (taken_ == fetched_) return nullptr;
        if (taken_ + values_ahead < fetched_) prefetch(at(taken_ + values_ahead).o->value());
        if (taken_ + members_ahead < fetched_) prefetch_members(*at(taken_ + members_ahead).o);
        return at(taken_++).o;
    }
    /// What the map uses of the hash of that object's key, by its own traits.
    std::uint64_t hash() const noexcept { return ring_[(taken_ - 1) % ring_.size()].hash; }

private:
    static constexpr std::size_t roots_ahead = 12, values_ahead = 8, members_ahead = 4;
    struct one {
        const object* o = nullptr;
        std::uint64_t hash = 0;
    };
    one& at(std::size_t n) noexcept { return ring_[n % ring_.size()]; }

    object_map::cursor cursor_;
    std::array<one, 16> ring_;
    std::size_t fetched_ = 0, taken_ = 0;
};

} // namespace informer::detail
