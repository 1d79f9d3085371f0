#include <informer/source/shard_selector.hpp>

#include "root/fnv1a.hpp"

#include <informer/error.hpp>

#include <algorithm>
#include <limits>
#include <string_view>

namespace informer {

namespace {

constexpr std::uint64_t last_hash = std::numeric_limits<std::uint64_t>::max();

std::string hex(std::uint64_t n) {
    std::string s(16, '0');
    for (std::size_t i = 16; n != 0; n >>= 4) s[--i] = "0123456789abcdef"[n & 15];
    return s;
}

/// floor(2^64 * index / count), as the server's documentation cuts; `index` < `count`.
std::uint64_t cut(std::uint64_t index, std::uint64_t count) noexcept {
    __extension__ using wide = unsigned __int128;
    return static_cast<std::uint64_t>((static_cast<wide>(index) << 64) / count);
}

} // namespace

shard_selector shard_selector::part(std::uint64_t index, std::uint64_t count, by what) {
    if (index >= count) {
        throw error(errc::bad_configuration,
                    "part " + std::to_string(index) + " of " + std::to_string(count) + ": they are counted from 0");
    }
    shard_selector s;
    s.by_ = what;
    if (count > 1) s.ranges_ = {{cut(index, count), index + 1 == count ? last_hash : cut(index + 1, count) - 1}};
    return s;
}

shard_selector shard_selector::of(std::vector<range> ranges, by what) {
    for (const auto& [first, last] : ranges)
        if (last < first)
            throw error(errc::bad_configuration, "a range of hashes from " + hex(first) + " to " + hex(last));
    shard_selector s;
    s.by_ = what;
    s.ranges_ = std::move(ranges);
    return s;
}

bool shard_selector::contains(std::string_view value) const noexcept {
    if (ranges_.empty()) return true;
    const std::uint64_t h = detail::fnv1a(value);
    return std::any_of(ranges_.begin(), ranges_.end(), [h](const range& r) { return r.first <= h && h <= r.second; });
}

bool shard_selector::contains(const object& o) const noexcept {
    if (ranges_.empty()) return true;
    const text value = by_ == by::uid ? o.meta().uid() : o.name_space();
    return contains(value.view());
}

std::string shard_selector::str() const {
    const std::string field = by_ == by::uid ? "object.metadata.uid" : "object.metadata.namespace";
    std::string s;
    for (const auto& [first, last] : ranges_) {
        const std::string behind = last == last_hash ? "10000000000000000" : hex(last + 1);
        s += (s.empty() ? "shardRange(" : " || shardRange(") + field + ", '0x" + hex(first) + "', '0x" + behind + "')";
    }
    return s;
}

std::string shard_selector::describe() const {
    if (ranges_.empty()) return "everything";
    std::string s = by_ == by::uid ? "uid hashes" : "namespace hashes";
    for (const auto& [first, last] : ranges_) s += ' ' + hex(first) + '-' + hex(last);
    return s;
}

} // namespace informer
