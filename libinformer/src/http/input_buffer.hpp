// Bytes that were read from a socket and not yet parsed.
#pragma once

#include <boost/asio/buffer.hpp>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string_view>
#include <vector>

namespace informer::http::detail {

/// A flat queue of bytes: parsers want a header in one piece.
///
/// Reads grow while they are filled, so that what comes fast costs few turns of the executor; after a row of short ones
/// the memory goes back.
class input_buffer {
public:
    static constexpr std::size_t piece = std::size_t(64) << 10; ///< of one read, at first
    static constexpr std::size_t most = std::size_t(256) << 10;

    bool empty() const noexcept { return begin_ == end_; }
    std::size_t size() const noexcept { return end_ - begin_; }
    std::string_view view() const noexcept { return {bytes_.data() + begin_, size()}; }
    /// Moves nothing, so that a read into `prepare()`'s room may be under way.
    void consume(std::size_t n) noexcept { begin_ += n; }
    /// Room for the next read, valid until `commit()`. Moves what is pending to the front; grows only when that alone
    /// fills half a read.
    boost::asio::mutable_buffer prepare() {
        if (begin_ == end_) begin_ = end_ = 0;
        if (short_reads_ == patience && wanted_ > piece) shrink();
        if (begin_ > 0 && bytes_.size() - end_ < wanted_ / 2) {
            std::memmove(bytes_.data(), bytes_.data() + begin_, size());
            end_ = size();
            begin_ = 0;
        }
        if (bytes_.size() - end_ < wanted_ / 2) bytes_.resize(std::max(wanted_, bytes_.size() * 2));
        room_ = std::min(wanted_, bytes_.size() - end_);
        return boost::asio::mutable_buffer(bytes_.data() + end_, room_);
    }
    void commit(std::size_t n) noexcept {
        end_ += n;
        if (n == room_) wanted_ = std::min(wanted_ * 2, most);
        short_reads_ = n < piece / 2 ? std::min(short_reads_ + 1, patience) : 0;
    }
    /// Gives memory back when nothing is pending.
    void release() noexcept {
        if (!empty()) return;
        std::vector<char>().swap(bytes_);
        begin_ = end_ = 0;
        wanted_ = piece;
    }

private:
    static constexpr unsigned patience = 32; // short reads

    /// Behind a chunk, its line end is pending most of the time.
    void shrink() {
        if (size() > piece / 2) return;
        std::vector<char> other(piece);
        std::memcpy(other.data(), view().data(), size());
        bytes_.swap(other);
        end_ = size();
        begin_ = 0;
        wanted_ = piece;
    }

    std::vector<char> bytes_;
    std::size_t begin_ = 0, end_ = 0;
    std::size_t wanted_ = piece, room_ = 0;
    unsigned short_reads_ = 0;
};

} // namespace informer::http::detail
