// Which values are worth looking up. Interning pays where values repeat; where they hardly do (names, uids, addresses)
// it costs a hash, a miss and a table slot for each. So every path of a document decides by its own record, and revises
// the decision on a sample.
#pragma once

#include "node.hpp"
#include "root/hash.hpp"

#include <array>
#include <cstdint>
#include <memory>

namespace informer::detail {

/// Stands for a path; array elements share one. Two paths may get the same id: only the decision suffers.
using path_id = std::uint32_t;

inline path_id child_path(path_id parent, handle key) noexcept {
    return static_cast<path_id>(((std::uint64_t{parent} << 32 | key) * 0x9e3779b97f4a7c15ULL) >> 32 ^ parent >> 7);
}
inline constexpr handle element_key = ~handle{0};
/// Gives, by `child_path`, the path of the keys of the object at a path.
inline constexpr handle keys_of_path = ~handle{0} - 1;

/// The record of one path. Counts look-ups and hits over a window, then decides.
class interning_record {
public:
    /// Whether to look up a value with this hash. Where interning stopped, a sixteenth of all values is still looked
    /// up: the same ones for a while, so that their repeats are seen, then another sixteenth, since a few values may
    /// all miss one sample. Where that was in vain for long, it is a sixty-fourth, because look-ups in vain wait for
    /// memory.
    bool wanted(std::uint64_t hash) noexcept {
        if ((static_cast<std::uint8_t>(hash) & mask_) == sample_) return true;
        if (--pass_ == 0) start_over();
        return false;
    }
    /// `hopeless`: this many look-ups without a hit settle the first decision.
    void looked_up(bool hit, std::uint16_t hopeless = first_window) noexcept {
        ++seen_;
        if (hit) ++hits_;
        if (seen_ < window_ && !(seen_ == hopeless && hits_ == 0 && window_ == first_window)) return;
        // A slot of the table costs 12 bytes and a node about 40: a quarter must repeat.
        const bool pays = hits_ >= seen_ / 4;
        // A path that is interned again finds hardly any of its values in the table at first, hence the long window.
        window_ = !pays ? sample_window : stopped() ? 4096 : window_;
        if (pays)
            in_vain_ = 0;
        else if (in_vain_ < long_in_vain)
            ++in_vain_;
        mask_ = pays ? 0 : in_vain_ < long_in_vain ? 15 : 63;
        start_over();
    }
    bool stopped() const noexcept { return in_vain_ > 0; }

private:
    void start_over() noexcept {
        seen_ = hits_ = 0;
        pass_ = static_cast<std::uint16_t>(sample_window * (mask_ + 1));
        sample_ = static_cast<std::uint8_t>((sample_ + 1) & mask_);
    }

    static constexpr std::uint16_t first_window = 256, sample_window = 64;
    static constexpr std::uint8_t long_in_vain = 8;
    std::uint16_t seen_ = 0, hits_ = 0, window_ = first_window;
    std::uint16_t pass_ = 0; ///< values outside of the sample until the next sample begins
    std::uint8_t mask_ = 0;  ///< the sample: where these bits of the hash are `sample_`; 0: all
    std::uint8_t sample_ = 0;
    std::uint8_t in_vain_ = 0; ///< decisions in a row that interning does not pay
};

/// The records of all paths, and the values, interned or not, that the document being read holds already. Of fixed
/// size.
class interning_policy {
public:
    static constexpr std::size_t paths = 4096, values = 256;

    interning_record& record(path_id path) noexcept { return at(place(path)); }
    /// `record` in two steps.
    static std::uint16_t place(path_id path) noexcept { return static_cast<std::uint16_t>(path % paths); }
    interning_record& at(std::uint16_t place) noexcept { return records_[place]; }

    void next_document() noexcept {
        if (++document_ == 0) { // once in four billion documents
            values_.fill(entry());
            document_ = 1;
        }
    }
    /// A node of this document with this hash, or 0.
    handle seen(std::uint64_t hash) const noexcept {
        const entry& e = values_[hash % values];
        // The tag is compared first: which document has this place cannot be predicted.
        return e.tag == tag_of(hash) && e.document == document_ ? e.node : missing_handle;
    }
    void remember(std::uint64_t hash, handle h) noexcept { values_[hash % values] = entry{document_, tag_of(hash), h}; }

private:
    struct entry {
        std::uint32_t document = 0, tag = 0;
        handle node = missing_handle;
    };
    static std::uint32_t tag_of(std::uint64_t hash) noexcept { return static_cast<std::uint32_t>(hash >> 32); }
    std::array<interning_record, paths> records_{};
    std::array<entry, values> values_{};
    std::uint32_t document_ = 0;
};

} // namespace informer::detail
