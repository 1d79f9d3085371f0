// A whole new state of the cache, while it is collected and until it is applied.
#pragma once

#include "../object/detail/root.hpp"
#include "object_cursor.hpp"
#include "object_map.hpp"

#include <informer/cache/indexer.hpp>
#include <informer/source/list_watch.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace informer::detail {

/// The number of bad objects whose keys are remembered. If there are more, no object is believed to be absent.
inline constexpr std::size_t most_bad_keys = 10'000;
/// The number of bad objects that the status and the log name.
inline constexpr std::size_t most_bad_told = 16;

/// True if what cannot be used is another object than `o`, under the same name.
inline bool is_another(const bad_object& now, const object& o) {
    const std::string was = o.uid(); // of some servers empty
    return !was.empty() && !now.uid.empty() && was != now.uid;
}

/// Takes about 16 bytes an object: objects that did not change are shared with the cache.
struct replacement {
    explicit replacement(std::uint64_t seed) : objects_(object_traits{seed}) {}
    /// For an empty cache, whose indexes are built on the way. *Lifetime*: the indexer must outlive it.
    explicit replacement(indexer& of) : replacement(of.seed()) {
        indexer_ = &of;
        draft_ = of.begin_draft();
        order_ = std::make_shared<arrivals>();
    }

    object_map& objects() {
        settle(before_last_);
        settle(last_);
        return objects_;
    }
    /// Inserts the object when two more have come: by then, the memory that this reads and writes has been prefetched.
    void put(object o) {
        if (!bad_keys.empty()) forgive(o.key());
        // Most objects come grouped by namespace. That of the last object is alive, so its handle still names it.
        const bool same_namespace = last_.o && have_one_namespace(*last_.o.root(), *o.root());
        const std::uint64_t n = same_namespace ? last_.namespace_hash : hash_of_namespace(o);
        const text name = o.name();
        const std::uint64_t hash = objects_.traits().hash(n, name.view());
        objects_.prefetch_way(hash);
        if (last_.o) objects_.prefetch(last_.hash);
        settle(before_last_);
        before_last_ = std::exchange(last_, {std::move(o), hash, n, same_namespace});
    }
    /// From now on, what comes can be taken back, until `end_page`. For that, changes are recorded: if the previous
    /// version of the map were kept instead, each page would copy nearly all of its nodes.
    void begin_page() {
        const bool first = objects().size() == 0;
        page_.emplace(page{first, {}, bad_keys, unnamed, bad_unnamed});
    }
    /// Takes back everything since `begin_page`, bad objects included.
    void take_back_page() {
        if (!page_) return;
        objects();
        draft_.reset(); // it contains that page, too
        order_.reset();
        page of = *std::exchange(page_, std::nullopt);
        if (of.first) objects_.clear();
        for (auto c = of.changes.rbegin(); c != of.changes.rend(); ++c) {
            if (c->before)
                objects_.put(c->before);
            else
                objects_.erase(key_of_object(c->now).view());
        }
        bad_keys = std::move(of.bad_keys);
        unnamed = of.unnamed;
        bad_unnamed = std::move(of.bad_unnamed);
    }
    void end_page() { page_.reset(); }
    /// The indexes of all objects that were put, or null.
    indexer::draft* draft() const noexcept { return draft_.get(); }
    /// The order in which they were put; null if that is not known, because some were erased or came again.
    std::shared_ptr<const arrivals> order() {
        const std::size_t different = objects().size();
        return order_ && order_->size() == different ? order_ : nullptr;
    }

    using story = std::shared_ptr<const bad_object>; ///< shared with what take_back_page() restores
    std::unordered_map<object_key, story> bad_keys;  ///< they exist, but are unusable: their last good version stays
    std::size_t unnamed = 0;                         ///< bad objects whose key could not be read, or is not remembered
    std::vector<story> bad_unnamed;                  ///< the first of them
    informer::resource_version version;
    std::uint64_t epoch = 1;
    bool routine = false; ///< such states are fetched again and again

    void quarantine(bad_object b) {
        const bool named = !b.key.empty() && (bad_keys.size() < most_bad_keys || bad_keys.contains(b.key));
        const story told = std::make_shared<const bad_object>(std::move(b));
        if (named) {
            bad_keys.insert_or_assign(told->key, told);
            return;
        }
        ++unnamed;
        if (bad_unnamed.size() < most_bad_keys) bad_unnamed.push_back(told);
    }
    /// Call it when a good version came after the bad one, or a deletion.
    void forgive(const object_key& key) { bad_keys.erase(key); }
    /// All bad objects, except those without a key beyond `most_bad_keys`: these first, the others in the order of
    /// their keys.
    std::vector<story> stories() const {
        std::vector<story> out = bad_unnamed;
        for (const auto& [key, told] : bad_keys) out.push_back(told);
        std::sort(out.begin() + static_cast<std::ptrdiff_t>(bad_unnamed.size()), out.end(),
                  [](const story& a, const story& b) { return a->key < b->key; });
        return out;
    }
    /// True if an object that is not in `objects` is gone. With an unnamed bad object, no object is known to be absent.
    bool proves_absence(const object_key& key) const { return unnamed == 0 && !bad_keys.contains(key); }
    /// True if a bad object with this key is another one than `o`, which is gone then.
    bool replaces(const object_key& key, const object& o) const {
        const auto bad = bad_keys.find(key);
        return bad != bad_keys.end() && is_another(*bad->second, o);
    }

private:
    struct change {
        object now, before;
    };
    struct page {
        bool first; ///< there was nothing before: no change need be recorded
        std::vector<change> changes;
        std::unordered_map<object_key, story> bad_keys;
        std::size_t unnamed;
        std::vector<story> bad_unnamed;
    };
    struct waiting {
        object o;
        std::uint64_t hash = 0;
        std::uint64_t namespace_hash = 0;
        bool same_namespace = false; ///< as the object put before
    };
    /// False if that is not known at once.
    static bool have_one_namespace(const root& a, const root& b) noexcept {
        return a.generation == b.generation && a.key.name_space == b.key.name_space;
    }
    std::uint64_t hash_of_namespace(const object& o) const noexcept {
        const text name_space = o.name_space();
        return objects_.traits().hash_namespace(name_space.view());
    }
    void settle(waiting& w) {
        if (!w.o) return;
        if (draft_) {
            indexer_->add(*draft_, w.o, w.hash, w.same_namespace);
            order_->push_back(w.o.root());
        }
        if (page_ && !page_->first) {
            auto& changes = page_->changes;
            // Before the put, because it may throw.
            if (changes.size() == changes.capacity()) changes.reserve(2 * changes.size() + 512);
            const object now = w.o;
            auto before = objects_.put(w.o, w.o, w.hash);
            changes.push_back({now, before ? *std::move(before) : object()});
        } else {
            objects_.put(w.o, w.o, w.hash);
        }
        w.o = object();
    }

    indexer* indexer_ = nullptr; ///< that the draft is for
    std::shared_ptr<indexer::draft> draft_;
    std::shared_ptr<arrivals> order_; ///< as long as there is a draft
    object_map objects_;              ///< all but the next two
    waiting before_last_, last_;
    std::optional<page> page_; ///< the one under way
};

} // namespace informer::detail
