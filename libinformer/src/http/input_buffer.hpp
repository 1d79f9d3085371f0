// Bytes that were read from a socket and not yet parsed.
#pragma once

#include <boost/asio/buffer.hpp>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <string_view>
#include <utility>

namespace informer::http::detail {

/// A flat queue of bytes: parsers want a header in one piece.
///
/// Reads grow while they are filled, so that fast data costs few turns of the executor; after a series of short reads the
/// memory is given back, and most of it after one that was long waited for: an idle watch holds little.
class input_buffer {
public:
    static constexpr std::size_t piece = std::size_t(64) << 10; ///< initial size of a read
    /// Size of one that will probably be long waited for: most events fit.
    static constexpr std::size_t idle = std::size_t(16) << 10;
    static constexpr std::size_t most = std::size_t(256) << 10;

    bool empty() const noexcept { return begin_ == end_; }
    std::size_t size() const noexcept { return end_ - begin_; }
    std::string_view view() const noexcept { return {bytes_.get() + begin_, size()}; }
    /// Moves nothing, so that a read into `prepare()`'s room may be under way.
    void consume(std::size_t n) noexcept { begin_ += n; }
    /// Room for the next read, valid until `commit()`. Moves what is pending to the front; grows only when that alone
    /// fills half a read.
    boost::asio::mutable_buffer prepare() {
        if (empty()) begin_ = end_ = 0;
        // The buffer need not be empty: behind a chunk, the chunk's line end is pending most of the time.
        const std::size_t enough = is_idle_ ? idle : short_reads_ == patience ? piece : most;
        if (wanted_ > enough && size() <= enough / 2) move_to(wanted_ = enough);
        if (capacity_ - end_ < wanted_ / 2) {
            if (capacity_ - size() < wanted_ / 2)
                move_to(std::max(wanted_, capacity_ * 2));
            else
                move_to_front();
        }
        room_ = std::min(wanted_, capacity_ - end_);
        return boost::asio::mutable_buffer(bytes_.get() + end_, room_);
    }
    /// `waited`: nothing came for a while before; an idle watch is told something once a minute.
    void commit(std::size_t n, bool waited = false) noexcept {
        end_ += n;
        if (n == room_) wanted_ = std::clamp(wanted_ * 2, piece, most);
        short_reads_ = n >= piece / 2 ? 0 : std::min(short_reads_ + 1, patience);
        is_idle_ = waited && n < std::min(room_, idle);
    }
    /// Gives memory back when nothing is pending. The next reads are as long as the last ones: after one page of a list
    /// the next page follows.
    void release() noexcept {
        if (!empty()) return;
        bytes_.reset();
        capacity_ = begin_ = end_ = 0;
    }

private:
    static constexpr unsigned patience = 32; // short reads

    void move_to_front() noexcept {
        std::memmove(bytes_.get(), view().data(), size());
        end_ = size();
        begin_ = 0;
    }
    void move_to(std::size_t capacity) {
        auto other = std::make_unique_for_overwrite<char[]>(capacity); // memory that no read fills is never touched
        if (!empty()) std::memcpy(other.get(), view().data(), size());
        bytes_ = std::move(other);
        capacity_ = capacity;
        end_ = size();
        begin_ = 0;
    }

    std::unique_ptr<char[]> bytes_;
    std::size_t capacity_ = 0;
    std::size_t begin_ = 0, end_ = 0;
    std::size_t wanted_ = piece, room_ = 0;
    unsigned short_reads_ = 0;
    bool is_idle_ = false;
};

} // namespace informer::http::detail
