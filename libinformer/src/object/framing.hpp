// Common parts of the list and watch framers: the window of bytes that are still needed, and the loop that steps over
// them.
#pragma once

#include "detail/growing_block.hpp"
#include "json_scan.hpp"
#include "large_text.hpp"

#include <informer/error.hpp>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

namespace informer::detail {

/// An envelope is parsed in one step, hence the limit. That of a list has little more than a kind, a version and a
/// token.
inline constexpr std::size_t largest_envelope = large_text;

/// How much of an oversized item is kept to name it.
inline constexpr std::size_t oversize_prefix = std::size_t(64) << 10;

/// The bytes that are still needed: [mark, …) is being cut, [at, …) is not scanned yet.
///
/// Bytes are either fed, that is copied, or lent. Lent bytes are scanned where they lie. Only the bytes of an item that
/// is not whole yet are copied and, of the bytes lent next, as many as complete it.
class framing_window {
public:
    void feed(std::string_view bytes) {
        keep();
        append(bytes);
    }
    /// The bytes must stay in place until `keep()`.
    void lend(std::string_view bytes) {
        keep();
        lent_ = bytes;
        turn_to_lent();
    }
    /// Copies some more of the lent bytes behind the copied ones. False: all lent bytes are visible already.
    bool more() {
        if (turn_to_lent()) return true;
        if (lending_ || copied_ == lent_.size()) return false;
        const std::string_view some = lent_.substr(copied_, piece);
        append(some);
        copied_ += some.size();
        return true;
    }
    /// Goes on in the lent bytes themselves once no byte before them is needed. True if more bytes become visible.
    bool turn_to_lent() noexcept {
        const std::size_t before = end_ - copied_;
        if (lending_ || lent_.empty() || std::min(mark_, at_) < before) return false;
        lending_ = true;
        const bool shows_more = copied_ < lent_.size();
        bytes_ = lent_.data();
        move_origin(before);
        end_ = lent_.size();
        return shows_more;
    }
    /// The lent bytes go away: copies those that are still needed.
    void keep() {
        std::string_view lent = std::exchange(lent_, {});
        const std::size_t copied = std::exchange(copied_, 0);
        if (std::exchange(lending_, false)) {
            const std::size_t done = std::min(mark_, at_);
            lent.remove_prefix(done);
            move_origin(done);
            end_ = 0;
        } else {
            lent.remove_prefix(copied);
        }
        if (end_ == 0 && capacity_ > small_buffer) resize(capacity_ - std::min(capacity_, most_given_back));
        // A quiet watch need not hold what an item once needed.
        unused_ = end_ == 0 && lent.empty() ? unused_ + 1 : 0;
        if (unused_ >= patience && capacity_ > little) resize(0);
        append(lent);
    }

    bool skip_space() noexcept {
        while (at_ < end_ && is_space(bytes_[at_])) ++at_;
        return at_ < end_;
    }
    bool empty() const noexcept { return at_ == end_; }
    char front() const noexcept { return bytes_[at_]; }
    void take(std::size_t n = 1) noexcept { at_ += n; }
    void go_back(std::size_t offset) noexcept { at_ = offset - before_; } ///< only over what the last `next()` passed
    void mark() noexcept { mark_ = at_; }
    void mark_offset(std::size_t offset) noexcept { mark_ = offset - before_; }
    void unmark() noexcept { mark_ = none; }
    std::string_view since_mark() const noexcept { return between(mark_, at_); }
    std::string_view rest() const noexcept { return between(at_, end_); }
    std::size_t offset() const noexcept { return before_ + at_; }
    std::string_view since(std::size_t offset) const noexcept { return between(offset - before_, at_); }
    std::string_view at_offset(std::size_t offset, std::size_t size) const noexcept {
        return {bytes_ + (offset - before_), size};
    }
    /// Scans on; returns the bytes that were scanned.
    std::string_view scan(value_scanner& s) noexcept {
        const std::size_t from = at_;
        at_ = static_cast<std::size_t>(s.scan(bytes_ + from, bytes_ + end_) - bytes_);
        return between(from, at_);
    }

    std::size_t capacity() const noexcept { return capacity_; }

private:
    static constexpr unsigned patience = 32; // times in a row that nothing had to be kept
    static constexpr std::size_t none = ~std::size_t(0);
    static constexpr std::size_t small_buffer = std::size_t(1) << 20;
    /// This few bytes are moved to the front whether or not that pays.
    static constexpr std::size_t little = std::size_t(64) << 10;
    /// While a giant item comes, the block doubles, but by at most this: not from 64 MB to 128.
    static constexpr std::size_t most_growth = std::size_t(8) << 20;
    /// After a giant item its memory is given back in steps of this size: the system takes milliseconds for 48 MB.
    static constexpr std::size_t most_given_back = std::size_t(8) << 20;
    /// How many lent bytes are copied at a time: an item that began in earlier bytes mostly ends soon.
    static constexpr std::size_t piece = std::size_t(16) << 10;

    std::string_view between(std::size_t from, std::size_t to) const noexcept { return {bytes_ + from, to - from}; }
    void move_origin(std::size_t by) noexcept {
        before_ += by;
        at_ -= by;
        if (mark_ != none) mark_ -= by;
    }

    void append(std::string_view bytes) {
        if (capacity_ - end_ < bytes.size()) drop_done();
        const std::size_t needed = end_ + bytes.size();
        if (capacity_ < needed) resize(std::max(needed, std::min(capacity_ * 2, capacity_ + most_growth)));
        if (!bytes.empty()) std::memcpy(block() + end_, bytes.data(), bytes.size());
        bytes_ = block();
        end_ = needed;
    }
    /// Moves the bytes still needed to the front if the total cost stays linear: if they are few, or the smaller half.
    void drop_done() {
        const std::size_t keep = std::min(mark_, at_), kept = end_ - keep;
        if (kept > std::max(keep, little)) return;
        if (kept != 0 && keep != 0) std::memmove(block(), block() + keep, kept);
        move_origin(keep);
        end_ = kept;
        // After a giant item, give its memory back.
        if (capacity_ > small_buffer && kept < capacity_ / 8) resize(kept);
    }
    void resize(std::size_t capacity) {
        block_.resize(capacity);
        capacity_ = capacity;
    }
    char* block() const noexcept { return static_cast<char*>(block_.data()); }

    growing_block block_; ///< no long pause while a giant item comes
    std::size_t capacity_ = 0;
    std::string_view lent_;
    unsigned unused_ = 0;
    std::size_t copied_ = 0; ///< bytes of lent_ that are copied, at the end of the block
    bool lending_ = false;
    const char* bytes_ = nullptr; ///< the block, or the lent bytes
    std::size_t end_ = 0;
    std::size_t at_ = 0;
    std::size_t mark_ = none;
    std::size_t before_ = 0; ///< bytes dropped before bytes_[0]
};

inline void append_up_to(std::string& to, std::string_view bytes, std::size_t limit) {
    if (to.size() < limit) to.append(bytes.substr(0, limit - to.size()));
}

/// Whether an object may end where the received text ends: the next bytes may not come for long. `besides`: what may
/// stand behind the object besides white space.
inline bool ends_with_brace(std::string_view s, std::string_view besides = {}) noexcept {
    while (!s.empty() && (is_space(s.back()) || besides.find(s.back()) != besides.npos)) s.remove_suffix(1);
    return s.ends_with('}');
}

inline failure framing_error(const char* what, std::size_t offset, std::string_view expected) {
    std::string s(what);
    s.append(", byte ").append(std::to_string(offset)).append(": expected ").append(expected);
    return failure(errc::syntax_error, std::move(s));
}

inline failure over_limit(const char* what, std::size_t limit) {
    return failure(errc::too_large, std::string(what) + " over " + std::to_string(limit) + " bytes");
}

/// If an exception ends `act` half way, the framer reports a failure from then on and does no more.
template <typename Framer, typename Act>
auto or_fail(Framer& s, const Act& act) {
    try {
        return act();
    } catch (...) {
        s.failed = failure(errc::stopped, std::string());
        throw;
    }
}

/// Steps until an item or event is whole; false when more bytes are needed, at the end, or on error.
template <typename Framer>
bool advance(Framer& s, failure& f) {
    if (s.failed) {
        f = s.failed;
        return false;
    }
    bool whole = false;
    while (!s.failed && !whole) {
        if (s.inside() ? s.text.empty() : !s.text.skip_space()) {
            if (s.check_size() && s.text.more()) continue; // white space between two kept tokens counts, too
            break;
        }
        s.step(whole);
    }
    if (s.failed) f = s.failed;
    if (!whole) s.text.keep();
    return whole;
}

} // namespace informer::detail
