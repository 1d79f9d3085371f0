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

/// Returns the values of an object under an index ("node1"); without values, the object is not indexed. The result must
/// depend on nothing but the object: the values of an older version are computed again when it is replaced. The
/// function must not change the cache or the indexes that it is called for; `add_index` throws
/// `error(errc::bad_configuration)` when called from it. It is called on the writer's thread, and destroyed on the
/// thread that releases the last snapshot that shows the index.
using index_function = std::function<std::vector<std::string>(const object&)>;
/// Indexes by the string at a JSON pointer ("/spec/nodeName"); anything but a string is not indexed. Throws
/// `error(errc::bad_configuration)` if `pointer` is not a JSON pointer ("spec.nodeName").
index_function index_by_pointer(std::string pointer);
/// Indexes by the value of a label.
index_function index_by_label(std::string key);

/// One immutable state of the cache. Readers may use it on any thread, for as long as they like, without stopping the
/// writer.
///
/// *Complexity*: taking one is O(1) whatever the size; `get` and `by_index` are O(log32 n) plus the result;
/// `list_namespace` is O(objects of that namespace + n / 1024), because objects lie together by namespace, without an
/// index. *Errors*: an unknown index throws `error(errc::unknown_index)`, and one that is still being built throws
/// `error(errc::not_synced)`. *Lifetime*: a snapshot keeps its objects. One that is held for long costs what has
/// changed since, never more than the state it shows. `get` returns a counted handle; `find` and the lists lend: a
/// look-up that counts nothing touches less memory.
class cache_snapshot {
public:
    cache_snapshot() = default;              ///< empty
    object get(const object_key& key) const; ///< empty when absent
    /// By "ns/name", or "name" if cluster-scoped; does not allocate.
    template <detail::text_of_key Text>
    object get(const Text& namespace_slash_name) const {
        return get_by_text(namespace_slash_name);
    }
    object get(std::string_view name_space, std::string_view name) const; ///< does not allocate either
    /// Lends the object, or returns null when absent. Valid while this snapshot or a copy of it is held.
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
    /// An empty name means all namespaces, like list().
    lent_objects list_namespace(std::string_view name_space) const;
    lent_objects by_index(std::string_view index, std::string_view value) const;
    std::vector<object_key> index_keys(std::string_view index, std::string_view value) const; ///< sorted
    std::vector<std::string> index_values(std::string_view index) const;                      ///< sorted
    bool has_index(std::string_view index) const noexcept; ///< true if it is complete and can be read
    /// Calls `f` for each object until it returns false.
    void for_each(const std::function<bool(const object&)>& f) const;
    /// The highest resource version applied, deletes and bookmarks included.
    informer::resource_version resource_version() const;

    class data;
    explicit cache_snapshot(std::shared_ptr<const data> d) noexcept : data_(std::move(d)) {}
    const data* contents() const noexcept { return data_.get(); }
    data* if_alone() const noexcept; ///< to be taken apart; null if another snapshot shows it

private:
    object get_by_text(std::string_view key) const;
    const object* find_by_text(std::string_view key) const noexcept;

    std::shared_ptr<const data> data_;
};

/// The store of one informer.
///
/// *Thread safety*: one writer (the informer's executor); `snapshot()`, the read short-cuts, the figures and the index
/// errors from any thread. Taking a snapshot is wait-free, and readers do not hold up the writer (but for
/// `publication_figures::waits`). *Errors*: an exception of an index function is contained: the object stays in the
/// cache without values in that index, and `index_errors()` names it. Index functions are called on the writer's
/// executor, one or more times per object, and also for the objects of a first list that is given up. *Complexity*:
/// writes are O(log32 n) for the map and for each value of each index. Nodes are copied at most once between two calls
/// of `publish()`, so larger batches are cheaper. Replacing an object by one that is `same_as` it costs a look-up.
class indexer {
public:
    indexer();
    explicit indexer(std::uint64_t seed); ///< of its hashes; otherwise a random one
    ~indexer();
    indexer(const indexer&) = delete;
    indexer& operator=(const indexer&) = delete;

    cache_snapshot snapshot() const;
    /// As of a snapshot, but for one object it is cheaper not to take one.
    object get(const object_key& key) const;
    template <detail::text_of_key Text>
    object get(const Text& namespace_slash_name) const {
        return get_by_text(namespace_slash_name);
    }
    object get(std::string_view name_space, std::string_view name) const;

    /// Adds an index, even if the cache is already filled (writer's side). Throws `error(errc::duplicate_index)`;
    /// `error(errc::bad_configuration)` without a function. Whatever it throws, the index is then not there and can be
    /// added again. Readers see the index at once if everything is published or nothing has been yet, otherwise with
    /// the next `publish()`.
    void add_index(std::string name, index_function f);
    /// The same in slices, for a filled cache: begins the index. Each call of `add_index_step` then indexes about
    /// `objects` objects, until it returns true (then all indexes that were begun are done). Other writes may come in
    /// between.
    void begin_index(std::string name, index_function f);
    bool add_index_step(std::size_t objects);
    /// True if the index was begun, is complete but not published yet, or is published.
    bool knows_index(std::string_view name) const noexcept;
    struct index_error {
        std::string index;
        object_key key;
        std::string what;
    };
    /// The latest errors, at most 16, and how many there were. An informer reports them in its `status()`.
    std::vector<index_error> index_errors() const;
    std::uint64_t index_error_count() const noexcept;

    /// How the writer and its readers met.
    struct publication_figures {
        std::uint64_t published = 0;   ///< states that became visible
        std::uint64_t overlapping = 0; ///< of these, while a reader was taking the previous state; neither waited
        /// waits of the writer for readers: only when 31 threads are stopped in the middle of `snapshot()`
        std::uint64_t waits = 0;
    };
    publication_figures publication() const noexcept;

    // ---- writer's side -----------------------------------------------------------------------------------------
    /// What the writer has, published or not.
    object current(const object_key& key) const;
    object current(std::string_view namespace_slash_name) const;
    /// The same for the key of an object; with the result, `put` need not look it up again. Valid until the next write.
    struct place {
        object before;
        std::uint64_t hash = 0;
    };
    place find_current(const object& like) const;
    /// For a hash of the key that is already known, from a map of the same `seed()`. Reads nothing of an object that
    /// the cache itself holds.
    place find_current(const object& like, std::uint64_t hash) const;
    std::uint64_t seed() const noexcept; ///< of hashes; `begin_fill` takes over the seed of what it is given
    void put(object o, const place& at);
    std::size_t current_size() const noexcept;
    /// For an object that the cache holds: whether others, apart from snapshots, have handles of it. A hint: it may
    /// change at any moment. Calls the index functions.
    bool is_kept_elsewhere(const object& o) const;
    /// The whole state, unpublished writes included, as a snapshot of its own: O(1).
    cache_snapshot current_snapshot() const;
    /// Inserts or replaces; returns what was there. Invisible until `publish()`. Does not change the resource version,
    /// because the items of an unfinished list prove nothing.
    object put(object o);
    object erase(const object_key& key); ///< returns what was there
    /// The indexes of objects that are collected for an empty indexer, built while each object is at hand: later it
    /// would have to come from memory again.
    class draft;
    std::shared_ptr<draft> begin_draft();
    /// `hash`: that of its key, from a map of the same `seed()`. `same_namespace`: the object added before is of its
    /// namespace; false if that is not known. Calls the index functions.
    void add(draft& to, const object& o, std::uint64_t hash, bool same_namespace = false);
    /// Fills an empty indexer: takes over what `all` holds, without inserting it object by object. Each call of
    /// `fill_step` then enters about `objects` of them into the indexes, until it returns true. Until then,
    /// `begin_index` is the only write allowed. Nothing is left to enter if `made` was given each object of `all` once
    /// and nothing else, no index function threw, and no index was added meanwhile.
    void begin_fill(const cache_snapshot& all, draft* made = nullptr);
    bool fill_step(std::size_t objects);
    /// The highest version wins. An empty one is ignored, and so is an incomparable one while the present one is
    /// comparable. If the present one is empty or incomparable itself, any other replaces it.
    void set_resource_version(informer::resource_version v);
    void force_resource_version(informer::resource_version v); ///< new epoch
    /// Makes everything since the last call visible at once; cheap if there is nothing.
    void publish();
    /// Takes back what was not published, and ends the writing of objects: for a writer that stops in the middle of a
    /// batch. Indexes that are added from now on are of the published state, and readable at once.
    void revert();
    /// Bytes of the indexes and map nodes of the newest state.
    std::size_t memory() const noexcept;

private:
    object get_by_text(std::string_view key) const;

    struct impl;
    std::unique_ptr<impl> impl_;
};

} // namespace informer
