// The cache: a persistent map of objects with named indexes; every read is a consistent snapshot.
#pragma once

#include <informer/cache/lent_objects.hpp>
#include <informer/error.hpp>
#include <informer/object/object.hpp>
#include <informer/object/selector.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace informer {

/// The values of an object under an index ("node1"); none: not indexed. Must depend on nothing but the object: the values
/// of an older version are computed again when it is replaced. It must not change the cache or the indexes that it is called
/// for; `add_index` throws `error(errc::bad_configuration)` there. It is called on the writer's thread, and destroyed on that of
/// whoever lets go of the last snapshot that shows the index.
using index_function = std::function<std::vector<std::string>(const object&)>;
/// Index by the string at a JSON pointer ("/spec/nodeName"); anything but a string is not indexed. Throws
/// `error(errc::bad_configuration)` for what is no such pointer ("spec.nodeName").
index_function index_by_pointer(std::string pointer);
/// Index by the value of a label.
index_function index_by_label(std::string key);

/// One state of the cache, immutable: readers on any thread, for as long as they like, without stopping the writer.
///
/// *Complexity*: taking one is O(1) whatever the size; `get` and `by_index` are O(log32 n) plus the result;
/// `list_namespace` is O(objects of that namespace + n / 1024): objects lie together by namespace, without an index.
/// *Errors*: an unknown index throws `error(errc::unknown_index)`, one that is still being built `error(errc::not_synced)`.
/// *Lifetime*: holds its objects; one that is held for long costs what has changed since, never more than the state it
/// shows. `get` gives a counted handle, `find` and the lists lend: a look-up that counts nothing touches less memory.
class cache_snapshot {
public:
    cache_snapshot() = default;              ///< empty
    object get(const object_key& key) const; ///< empty when absent
    /// "ns/name", cluster-scoped: "name"; does not allocate.
    template <detail::text_of_key Text>
    object get(const Text& namespace_slash_name) const {
        return get_by_text(namespace_slash_name);
    }
    object get(std::string_view name_space, std::string_view name) const; ///< nor does this
    /// Lent, null when absent: valid while this snapshot or a copy of it is held.
    const object* find(const object_key& key) const& noexcept;
    template <detail::text_of_key Text>
    const object* find(const Text& namespace_slash_name) const& noexcept {
        return find_by_text(namespace_slash_name);
    }
    const object* find(std::string_view name_space, std::string_view name) const& noexcept;
    const object* find(const object_key& key) const&& = delete;
    template <detail::text_of_key Text>
    const object* find(const Text& namespace_slash_name) const&& = delete;
    const object* find(std::string_view name_space, std::string_view name) const&& = delete;
    std::size_t size() const noexcept;
    /// All objects, in no particular order.
    lent_objects list() const;
    lent_objects list(const label_selector& selector) const;
    /// Empty: all namespaces, like list().
    lent_objects list_namespace(std::string_view name_space) const;
    lent_objects by_index(std::string_view index, std::string_view value) const;
    std::vector<object_key> index_keys(std::string_view index, std::string_view value) const; ///< sorted
    std::vector<std::string> index_values(std::string_view index) const;                      ///< sorted
    bool has_index(std::string_view index) const noexcept; ///< it is complete and can be read
    /// Calls `f` for each object until it returns false.
    void for_each(const std::function<bool(const object&)>& f) const;
    /// The highest resource version applied, deletes and bookmarks included.
    informer::resource_version resource_version() const;

    class data;
    explicit cache_snapshot(std::shared_ptr<const data> d) noexcept : data_(std::move(d)) {}
    const data* contents() const noexcept { return data_.get(); }
    data* if_alone() const noexcept; ///< to be taken apart; null where another snapshot shows it

private:
    object get_by_text(std::string_view key) const;
    const object* find_by_text(std::string_view key) const noexcept;

    std::shared_ptr<const data> data_;
};

/// The store of one informer.
///
/// *Thread safety*: one writer (the informer's executor); `snapshot()`, the read short-cuts, the figures and the index
/// errors from any thread. Taking a snapshot is wait-free, and no number of readers holds up the writer. *Errors*: an index function
/// that throws is contained: the object stays in the cache without values in that index, and `index_errors()` names it. Index functions are
/// called on the writer's executor, once or more for an object, and also for those of a first list that is given up.
/// *Complexity*: writes are O(log32 n) for the map and each value of each index; nodes are copied at most once between two
/// calls of `publish()`, so larger batches are cheaper. Replacing an object by one that is `same_as` it costs a look-up.
class indexer {
public:
    indexer();
    explicit indexer(std::uint64_t seed); ///< of its hashes, else a random one
    ~indexer();
    indexer(const indexer&) = delete;
    indexer& operator=(const indexer&) = delete;

    cache_snapshot snapshot() const;
    object get(const object_key& key) const { return snapshot().get(key); }

    /// Adds an index, also when the cache is full already (writer's side). Throws `error(errc::duplicate_index)`;
    /// `error(errc::bad_configuration)` without a function.
    /// Readers see it at once when everything is published or nothing has been yet, else with the next `publish()`.
    void add_index(std::string name, index_function f);
    /// The same in slices, for a full cache: begins, and then indexes about `objects` of them at each step, until
    /// `add_index_step` returns true (then all that were begun are done). Other writes may come in between.
    void begin_index(std::string name, index_function f);
    bool add_index_step(std::size_t objects);
    /// Begun, or complete and not published yet, or published.
    bool knows_index(std::string_view name) const noexcept;
    struct index_error {
        std::string index;
        object_key key;
        std::string what;
    };
    /// The latest, at most 16; and how many there were. An informer tells them in its `status()`.
    std::vector<index_error> index_errors() const;
    std::uint64_t index_error_count() const noexcept;

    /// How the writer and its readers met.
    struct publication_figures {
        std::uint64_t published = 0;   ///< states that became visible
        std::uint64_t overlapping = 0; ///< of them, while a reader was taking the state before; neither waited
        /// of the writer for readers: only when 31 threads are stopped amid `snapshot()`
        std::uint64_t waits = 0;
    };
    publication_figures publication() const noexcept;

    // ---- writer's side -----------------------------------------------------------------------------------------
    /// What the writer has, published or not.
    object current(const object_key& key) const;
    object current(std::string_view namespace_slash_name) const;
    /// The same for the key of an object, and the way to `put` without looking it up again. Holds until the next write.
    struct place {
        object before;
        std::uint64_t hash = 0;
    };
    place find_current(const object& like) const;
    /// Where the hash of its key is known, by a map of the same `seed()`. Of an object that the cache holds itself nothing is read.
    place find_current(const object& like, std::uint64_t hash) const;
    std::uint64_t seed() const noexcept; ///< of hashes; `begin_fill` takes over that of what it is given
    void put(object o, const place& at);
    std::size_t current_size() const noexcept;
    /// Of an object that the cache holds: whether others have handles of it, apart from snapshots. A hint: it may change at any
    /// moment. Calls the index functions.
    bool is_kept_elsewhere(const object& o) const;
    /// All of it, unpublished writes included, as a snapshot of its own: O(1).
    cache_snapshot current_snapshot() const;
    /// Puts or replaces; returns what was there. Invisible until `publish()`. Does not touch the resource version: the
    /// items of an unfinished list prove nothing.
    object put(object o);
    object erase(const object_key& key); ///< returns what was there
    /// The indexes of objects that are collected for an empty indexer, made while each is at hand: later it has to come from memory again.
    class draft;
    std::shared_ptr<draft> begin_draft();
    /// `hash`: of its key, by a map of the same `seed()`. Calls the index functions.
    void add(draft& to, const object& o, std::uint64_t hash);
    /// Fills an empty indexer: takes over what `all` holds, without putting it in one by one, and then enters about `objects` of
    /// them into the indexes at each step, until `fill_step` returns true. No other writes until then, but for `begin_index`.
    /// Nothing is left to enter where `made` was given each object of `all` once and nothing else, no index function threw, and no
    /// index was added meanwhile.
    void begin_fill(const cache_snapshot& all, draft* made = nullptr);
    bool fill_step(std::size_t objects);
    /// Highest wins. An empty one does not count, nor an incomparable one where the present one is comparable; where that is empty or
    /// incomparable itself, any other takes its place.
    void set_resource_version(informer::resource_version v);
    void force_resource_version(informer::resource_version v); ///< new epoch
    /// Makes everything since the last call visible at once; cheap when there is nothing.
    void publish();
    /// Takes back what was not published, and ends the writing of objects: who writes stops amid a batch. Indexes that are added from
    /// now on are of the published state, and readable at once.
    void revert();
    /// Indexes and map nodes of the newest state, bytes.
    std::size_t memory() const noexcept;

private:
    struct impl;
    std::unique_ptr<impl> impl_;
};

} // namespace informer
