// What a cache_snapshot holds.
#pragma once

#include "namespace_census.hpp"
#include "object_map.hpp"

#include <informer/cache/indexer.hpp>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace informer::detail {

/// The objects with one value in an index. Reference-counted, and shared by all versions of the index that hold it
/// unchanged.
struct posting {
    posting(std::string v, object_map o) : value(std::move(v)), objects(std::move(o)) {}
    posting(const posting& o) : value(o.value), objects(o.objects) {}

    shared_count count{1};
    const std::string value;
    object_map objects;

    std::size_t bytes() const noexcept {
        const bool inside = value.capacity() < sizeof(std::string) / 2;
        return sizeof(posting) + (inside ? 0 : value.capacity() + 1) + objects.bytes();
    }
};

class posting_ref {
public:
    explicit posting_ref(posting* adopt) noexcept : p_(adopt) {}
    posting_ref(const posting_ref& o) noexcept : p_(o.p_) { count_up(p_->count); }
    posting_ref(posting_ref&& o) noexcept : p_(std::exchange(o.p_, nullptr)) {}
    posting_ref& operator=(posting_ref o) noexcept {
        std::swap(p_, o.p_);
        return *this;
    }
    ~posting_ref() {
        if (p_ && count_down(p_->count)) delete p_;
    }
    const posting& operator*() const noexcept { return *p_; }
    const posting* operator->() const noexcept { return p_; }
    /// For changing the posting: copies it first if others share it. The node that holds this reference must belong to
    /// the caller alone.
    posting& own() {
        if (!is_alone()) *this = posting_ref(new posting(*p_));
        return *p_;
    }
    bool is_alone() const noexcept { return p_->count.load(std::memory_order_acquire) == 1; }

private:
    posting* p_;
};

struct posting_traits {
    std::uint64_t seed = 0;
    std::uint64_t hash(std::string_view value) const noexcept { return object_traits::hash_text(seed, value); }
    std::uint64_t hash(const posting_ref& p) const noexcept { return hash(p->value); }
    bool equal(const posting_ref& p, std::string_view value) const noexcept { return p->value == value; }
    bool equal(const posting_ref& p, const posting_ref& q) const noexcept { return p->value == q->value; }
};

using posting_map = persistent_map<posting_ref, posting_traits>;

struct index_definition {
    std::string name;
    index_function function;
};

/// One index of one version of the cache.
struct index_version {
    std::shared_ptr<const index_definition> definition;
    posting_map postings;
    std::size_t posting_bytes = 0; // of the postings themselves; `postings.bytes()` counts the nodes of their map
};

} // namespace informer::detail

namespace informer {

class cache_snapshot::data {
public:
    const detail::index_version* find(std::string_view index) const noexcept {
        for (const auto& i : indexes) {
            if (i.definition->name == index) return &i;
        }
        return nullptr;
    }

    detail::object_map objects;
    std::shared_ptr<const detail::mixed_namespaces> mixed; ///< may be null while there are no objects
    std::vector<detail::index_version> indexes;
    std::vector<std::shared_ptr<const detail::index_definition>> begun; ///< indexes that are not complete yet
    informer::resource_version version;
};

} // namespace informer
