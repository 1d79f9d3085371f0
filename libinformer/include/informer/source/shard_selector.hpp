// Which objects belong to one of several processes that share a resource.
#pragma once

#include <informer/object/object.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace informer {

/// A part of a resource's objects: those whose uid, or namespace, has a hash in given ranges. Each of n replicas that
/// asks for `part(i, n)` receives, decodes and holds an n-th of the objects, and each object belongs to exactly one of
/// them.
///
/// The server selects if it can: `shardSelector` of lists and watches (KEP 5866; alpha in Kubernetes 1.36, feature gate
/// ShardedListAndWatch). A server that cannot do so ignores that and sends all objects; an informer then drops the
/// other parts after decoding. The cache is the same; only the traffic and its decoding are not saved. An object that
/// cannot be read could belong to any part: it goes into quarantine in every part.
///
/// To change n, ask for another part with a new informer. Meanwhile, replicas with different n may both have an object,
/// or neither may. For keys that move between replicas as replicas come and go, each with the whole cache, see
/// `key_sharding`.
///
/// By uid, an object and what it owns mostly fall into different parts. By namespace, all objects of one namespace stay
/// together, and so do all without a namespace. The hash is 64-bit FNV-1a of the text, like the server's: the same in
/// every process and version.
class shard_selector {
public:
    enum class by { uid, name_space };
    /// Hashes, both ends included.
    using range = std::pair<std::uint64_t, std::uint64_t>;

    /// Everything.
    shard_selector() {}
    /// The `index`-th (from 0) of `count` equal parts of all hashes. Throws `error(errc::bad_configuration)` unless index < count.
    static shard_selector part(std::uint64_t index, std::uint64_t count, by what = by::uid);
    /// The objects in any of the ranges; without a range, everything. Throws `error(errc::bad_configuration)` if a
    /// range ends before it begins.
    static shard_selector of(std::vector<range> ranges, by what = by::uid);

    bool everything() const noexcept { return ranges_.empty(); }
    bool contains(const object& o) const noexcept;
    /// The same for the text of the field.
    bool contains(std::string_view value) const noexcept;
    by field() const noexcept { return by_; }
    /// As on the wire: "shardRange(object.metadata.uid, '0x0000000000000000', '0x8000000000000000')"; "" for everything.
    std::string str() const;
    /// For names and logs: "uid hashes 0000000000000000-7fffffffffffffff".
    std::string describe() const;

    /// Everything is equal, whatever the field.
    friend bool operator==(const shard_selector& a, const shard_selector& b) noexcept {
        return a.ranges_ == b.ranges_ && (a.by_ == b.by_ || a.everything());
    }

private:
    by by_ = by::uid;
    std::vector<range> ranges_;
};

} // namespace informer
