// What is worth looking for. Interning pays where values repeat; where they hardly do (names, uids, addresses) it costs a
// hash, a miss and a table slot for each. So every path of a document decides by its own record, and revises it on a sample.
#pragma once

#include "hash.hpp"
#include "node.hpp"

#include <array>
#include <cstdint>
#include <memory>

namespace informer::detail {

/// Stands for a path; array elements share one. Two paths may fall together: only the decision suffers.
using path_id = std::uint32_t;

inline path_id child_path(path_id parent, handle key) noexcept {
    return static_cast<path_id>(((std::uint64_t{parent} << 32 | key) * 0x9e3779b97f4a7c15ULL) >> 32 ^ parent >> 7);
}
inline constexpr handle element_key = ~handle{0};

/// The record of one path. Counts look-ups and hits over a window, then decides.
class interning_record {
public:
    bool wanted() const noexcept { return state_ != state::stopped; }
    /// Where interning stopped, a sixteenth of the values goes on: always the same ones, so that their repeats are seen.
    bool wanted(std::uint64_t hash) const noexcept { return wanted() || (hash & 15) == 0; }
    void looked_up(bool hit) noexcept {
        ++seen_;
        if (hit) ++hits_;
        if (seen_ == window()) decide();
    }

private:
    enum class state : std::uint8_t { unknown, stopped, resumed };
    std::uint16_t window() const noexcept {
        // A path taken up again finds hardly any of its values in the table at first, hence the patience.
        return state_ == state::unknown ? 256 : state_ == state::stopped ? 64 : 4095;
    }
    void decide() noexcept {
        // A slot of the table costs 12 bytes and a node about 40: a quarter must repeat.
        const bool pays = hits_ >= seen_ / 4;
        if (!pays)
            state_ = state::stopped;
        else if (state_ == state::stopped)
            state_ = state::resumed;
        seen_ = hits_ = 0;
    }
    std::uint16_t seen_ = 0, hits_ = 0;
    state state_ = state::unknown;
};

/// The records of all paths and, for values that are not interned, what the document at hand holds already. Of fixed size.
class interning_policy {
public:
    static constexpr std::size_t paths = 4096, values = 256;

    interning_record& record(path_id path) noexcept { return records_[path % paths]; }

    void next_document() noexcept {
        if (++document_ == 0) { // once in four billion
            values_.fill(entry());
            document_ = 1;
        }
    }
    /// A node of this document with this hash, or 0.
    handle seen(std::uint64_t hash) const noexcept {
        const entry& e = values_[hash % values];
        return e.document == document_ && e.tag == tag_of(hash) ? e.node : missing_handle;
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
