// Walks the objects of a cache, and prefetches some of them ahead of the reader.
#pragma once

#include "object_map.hpp"

#include <informer/cache/indexer.hpp>
#include <informer/object/prefetch.hpp>

#include <boost/container/deque.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <string_view>
#include <utility>

namespace informer::detail {

/// The objects of a map in the order in which they arrived, which is not the map's order: each lies behind the previous
/// one in memory. Kept in large blocks: small ones would lie among the nodes of the map, which stay, and so their
/// memory would not go back to the system.
using arrivals =
    boost::container::deque<root*, void,
                            boost::container::deque_options<boost::container::block_bytes<256 * 1024>>::type>;

/// For callers that read each object: objects lie anywhere in memory, so each object, its document and the document's
/// first members are prefetched some objects ahead, and the waits for them overlap. The walk can be done in slices of
/// any size; the cursor's memory does not grow with the cache. *Lifetime*: holds what it walks.
class object_cursor {
public:
    object_cursor() = default;
    explicit object_cursor(object_map m) : cursor_(std::move(m)) {}
    explicit object_cursor(const cache_snapshot& s);
    /// In the order of `order`, which has all objects of `s`; null: in that of the map.
    object_cursor(const cache_snapshot& s, std::shared_ptr<const arrivals> order) : object_cursor(s) {
        if (!order) return;
        next_root_ = order->begin();
        order_ = std::move(order);
    }

    /// Those of one namespace, and perhaps a few of others: those that lie in the same sub-trie.
    object_cursor(const cache_snapshot& s, std::string_view name_space);

    /// The next object, or null at the end; valid until the next call.
    const object* next() noexcept {
        while (fetched_ - taken_ < roots_ahead && fetch(at(fetched_))) ++fetched_;
        if (taken_ == fetched_) return nullptr;
        if (taken_ + values_ahead < fetched_) prefetch(at(taken_ + values_ahead).get().value());
        if (taken_ + members_ahead < fetched_) prefetch_members(at(taken_ + members_ahead).get());
        return &at(taken_++).get();
    }
    /// The hash of that object's key by the map's own traits, as far as the map uses it. Only in a walk of a whole map in
    /// its own order.
    std::uint64_t hash() const noexcept { return ring_[(taken_ - 1) % ring_.size()].hash; }

private:
    static constexpr std::size_t roots_ahead = 12, values_ahead = 8, members_ahead = 4;
    struct one {
        const object& get() const noexcept { return o ? *o : *std::launder(reinterpret_cast<const object*>(lent)); }

        const object* o = nullptr;
        union {
            std::uint64_t hash = 0;
            alignas(object) std::byte lent[sizeof(object)]; ///< without `o`: not counted, but held by the map
        };
    };
    one& at(std::size_t n) noexcept { return ring_[n % ring_.size()]; }
    bool fetch(one& to) noexcept {
        if (!order_) {
            to.o = cursor_.next();
            if (!to.o) return false;
            if (whole_) to.hash = cursor_.hash();
        } else {
            if (next_root_ == order_->end()) return false;
            ::new (static_cast<void*>(to.lent)) object(*next_root_++); // never destroyed: it has no count to give back
        }
        prefetch(to.get());
        return true;
    }

    object_map::cursor cursor_;
    std::shared_ptr<const arrivals> order_;
    arrivals::const_iterator next_root_;
    std::array<one, 16> ring_;
    std::size_t fetched_ = 0, taken_ = 0;
    bool whole_ = true;
};

} // namespace informer::detail
