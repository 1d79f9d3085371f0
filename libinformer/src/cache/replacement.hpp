// A whole new state of the cache, while it is collected and until it is applied.
#pragma once

#include "object_map.hpp"

#include <informer/source/list_watch.hpp>

#include <cstddef>
#include <cstdint>
#include <unordered_set>
#include <utility>
#include <vector>

namespace informer::detail {

/// Bad objects of which the keys are remembered. Beyond that nothing is believed to be absent.
inline constexpr std::size_t most_bad_keys = 10'000;
/// Bad objects that are kept with their story, for the status.
inline constexpr std::size_t most_bad_told = 16;

/// About 16 bytes an object: the objects themselves are shared with the cache where they did not change.
struct replacement {
    explicit replacement(std::uint64_t seed) : objects_(object_traits{seed}) {}

    object_map& objects() {
        settle(before_last_);
        settle(last_);
        return objects_;
    }
    /// Puts it among them when two more came: the memory that this reads and writes has come by then.
    void put(object o) {
        if (!bad_keys.empty()) forgive(o.key());
        const std::uint64_t hash = objects_.traits().hash(o);
        objects_.prefetch_way(hash);
        if (last_.o) objects_.prefetch(last_.hash);
        settle(before_last_);
        before_last_ = std::exchange(last_, {std::move(o), hash});
    }
    /// Back to what there was, bad objects included.
    void restore(replacement before) { *this = std::move(before); }

    std::unordered_set<object_key> bad_keys; ///< there, but unusable: their last good version stays
    std::size_t unnamed = 0;                        ///< bad ones whose key could not be read
    std::vector<bad_object> bad;                    ///< the first of them
    informer::resource_version version;
    std::uint64_t epoch = 1;
    bool routine = false; ///< such states come again and again

    void quarantine(bad_object b) {
        if (b.key.empty() || bad_keys.size() >= most_bad_keys) {
            ++unnamed;
        } else if (!bad_keys.insert(b.key).second) {
            return; // a page that was asked for again
        }
        if (bad.size() < most_bad_told) bad.push_back(std::move(b));
    }
    /// A good version came after it, or it was deleted.
    void forgive(const object_key& key) {
        if (bad_keys.erase(key) == 0) return;
        std::erase_if(bad, [&key](const bad_object& b) { return b.key == key; });
    }
    /// What is not in `objects` is gone. With an unnamed bad object nothing is known to be absent.
    bool proves_absence(const object_key& key) const { return unnamed == 0 && !bad_keys.contains(key); }

private:
    struct waiting {
        object o;
        std::uint64_t hash = 0;
    };
    void settle(waiting& w) {
        if (!w.o) return;
        const key_of_object key(w.o);
        const key_view k = key.view(); // of text that lives as long as the object, wherever that is held
        objects_.put(w.o, k, w.hash);
        w.o = object();
    }

    object_map objects_; ///< all but these
    waiting before_last_, last_;
};

} // namespace informer::detail
