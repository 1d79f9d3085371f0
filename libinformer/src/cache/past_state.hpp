// States of the cache that nobody needs any more.
#pragma once

#include "cache_data.hpp"

#include <cstddef>
#include <new>
#include <utility>
#include <vector>

namespace informer::detail {

/// A state that was replaced by a mostly different one: it is freed piece by piece, if nobody else holds it by then.
/// Freeing 200,000 objects at once takes 20 ms.
///
/// *Thread safety*: none; other threads may release the state at the same time. *Lifetime*: the destructor frees what
/// is left.
class past_state {
public:
    explicit past_state(cache_snapshot s) noexcept : state_(std::move(s)) {}
    /// Another map to free.
    void add(object_map m) { maps_.push_back(std::move(m)); }

    /// Frees about `budget` map entries of objects; true when nothing is left.
    bool step(std::size_t budget) noexcept {
        take_apart(std::exchange(state_, cache_snapshot()));
        for (std::size_t used = 0; used < budget;) {
            if (!objects_.empty()) {
                used += objects_.step(budget - used, [](const object&) {});
            } else if (!maps_.empty()) {
                objects_.begin(std::move(maps_.back()));
                maps_.pop_back();
            } else if (!postings_.empty()) {
                used += postings_.step(1, [this](posting_ref& p) { take(p); });
            } else if (!indexes_.empty()) {
                postings_.begin(std::move(indexes_.back()));
                indexes_.pop_back();
            } else {
                return true;
            }
        }
        return false;
    }

private:
    void take_apart(const cache_snapshot& s) noexcept {
        cache_snapshot::data* const d = s.if_alone();
        if (!d) return; // other snapshots show it
        objects_.begin(std::move(d->objects));
        try {
            indexes_.reserve(d->indexes.size());
        } catch (const std::bad_alloc&) { // then they are freed at once
            return;
        }
        for (index_version& i : d->indexes) indexes_.push_back(std::move(i.postings));
    }
    void take(posting_ref& p) noexcept {
        try {
            if (p.is_alone()) maps_.push_back(std::move(p.own().objects));
        } catch (const std::bad_alloc&) { // then they are freed at once
        }
    }

    cache_snapshot state_;
    object_map::remains objects_;
    std::vector<object_map> maps_;
    posting_map::remains postings_;
    std::vector<posting_map> indexes_;
};

} // namespace informer::detail
