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

/// A part of a resource's objects: those whose uid, or namespace, has a hash in some ranges. Each of n replicas that asks for
/// `part(i, n)` receives, decodes and holds an n-th of the objects, and each object belongs to exactly one of them.
///
/// The server chooses where it can: `shardSelector` of lists and watches (KEP 5866; alpha in Kubernetes 1.36, feature gate
/// ShardedListAndWatch). One that cannot ignores that and sends all; an informer then drops what is not its part when it was decoded:
/// the cache is the same, and only the traffic and its decoding are not saved. Of an object that cannot be read nobody knows whose it
/// is: it goes into quarantine in every part.
///
/// Who changes n asks for another part, by a new informer. Replicas with different n meanwhile may both have an object, or none.
/// For keys that move between replicas as these come and go, each with the whole cache, see `key_sharding`.
///
/// By their uids an object and what it owns mostly fall into different parts; by their namespaces all that lies in one stays
/// together, and all that lies in none. The hash is FNV-1a of 64 bits over the text, as the server's: the same in every process and
/// version.
class shard_selector {
public:
    enum class by { uid, name_space };
    /// Hashes, both ends included.
    using range = std::pair<std::uint64_t, std::uint64_t>;

    /// Everything.
    shard_selector() {}
    /// The `index`-th (from 0) of `count` equal parts of all hashes. Throws `error(errc::bad_configuration)` unless index < count.
    static shard_selector part(std::uint64_t index, std::uint64_t count, by what = by::uid);
    /// Those in any of the ranges; without one, everything. Throws `error(errc::bad_configuration)` where an end lies before its beginning.
    static shard_selector of(std::vector<range> ranges, by what = by::uid);

    bool everything() const noexcept { return ranges_.empty(); }
    bool contains(const object& o) const noexcept;
    /// Of the text of the field.
    bool contains(std::string_view value) const noexcept;
    by field() const noexcept { return by_; }
    /// As on the wire: "shardRange(object.metadata.uid, '0x0000000000000000', '0x8000000000000000')"; "" for everything.
    std::string str() const;
    /// For names and logs: "uid hashes 0000000000000000-7fffffffffffffff".
    std::string describe() const;

    /// Everything is the same by whatever field.
    friend bool operator==(const shard_selector& a, const shard_selector& b) noexcept {
        return a.ranges_ == b.ranges_ && (a.by_ == b.by_ || a.everything());
    }

private:
    by by_ = by::uid;
    std::vector<range> ranges_;
};

} // namespace informer
