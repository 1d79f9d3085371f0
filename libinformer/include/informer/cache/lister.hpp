// Reads of a cache, in client-go's terms.
#pragma once

#include <informer/cache/indexer.hpp>

#include <memory>
#include <string>
#include <string_view>

namespace informer {

/// Reads one informer's cache, optionally one namespace of it. Cheap to copy.
///
/// *Thread safety*: any thread. *Errors*: `get` throws `error(errc::not_found)` naming resource and key; `find` returns
/// an empty object instead. Until the cache has been filled once, all reads except `snapshot()` throw
/// `error(errc::not_synced)`: an empty answer would be a lie. For the same reason they throw `error(errc::not_cached)` if
/// the informer has one namespace and the lister is of another. *Lifetime*: keeps the cache (not the watch) alive.
class lister {
public:
    class source; ///< implemented by the informer
    explicit lister(std::shared_ptr<const source> s, std::string name_space = {});
    /// A lister of one namespace; empty: all. Cluster-scoped resources are in none, and it is ignored.
    lister in(std::string name_space) const;
    /// By the key that a reconciler is called with. A lister of one namespace finds nothing of another.
    object get(const object_key& key) const;
    object find(const object_key& key) const;
    /// By "ns/name" (cluster-scoped: "name"). A lister of one namespace tries the name alone first, then "ns/name",
    /// too. A cluster-scoped name with a slash in it (in an etcd) is found only by its `object_key`.
    template <detail::text_of_key Text>
    object get(const Text& name_or_key) const {
        return get_by_text(name_or_key);
    }
    template <detail::text_of_key Text>
    object find(const Text& name_or_key) const {
        return find_by_text(name_or_key);
    }
    lent_objects list() const;
    lent_objects list(const label_selector& selector) const;
    lent_objects by_index(std::string_view index, std::string_view value) const;
    cache_snapshot snapshot() const; ///< all namespaces

private:
    object get_by_text(std::string_view name_or_key) const;
    object find_by_text(std::string_view name_or_key) const;
    [[noreturn]] void not_found(std::string key) const;
    void check(std::string_view doing) const; ///< throws if it cannot be read
    cache_snapshot filled(std::string_view doing) const;

    std::shared_ptr<const source> source_;
    std::string name_space_;
    bool elsewhere_ = false; ///< the source does not have this namespace
};

class lister::source {
public:
    virtual ~source() = default;
    virtual cache_snapshot snapshot() const = 0;
    /// The object that a snapshot taken now would have.
    virtual object get(std::string_view name_space, std::string_view name) const {
        return snapshot().get(name_space, name);
    }
    virtual bool has_synced() const noexcept = 0;
    virtual std::string describe() const = 0; ///< "pods"
    virtual bool namespaced() const noexcept { return true; }
    /// The only namespace that it has; empty: all.
    virtual std::string_view name_space() const noexcept { return {}; }
    /// Whether an object of this namespace would be in it; empty: an object that is in none. True for any if the
    /// resource has no namespaces.
    bool has(std::string_view name_space) const noexcept;
};

} // namespace informer
