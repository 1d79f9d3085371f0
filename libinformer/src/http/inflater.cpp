#include "http/inflater.hpp"

#include <zlib.h>

#include <algorithm>
#include <limits>
#include <new>

namespace informer::http::detail {

struct inflater::state {
    z_stream z{};
    bool between = true; ///< not inside a gzip member
};

inflater::inflater() : state_(std::make_unique<state>()) {
    if (inflateInit2(&state_->z, 15 + 16) != Z_OK) // 15: any window; 16: gzip, not zlib
        throw std::bad_alloc();
}

inflater::~inflater() {
    inflateEnd(&state_->z);
}

bool inflater::at_end() const noexcept {
    return state_->between;
}

std::size_t inflater::inflate(std::string_view& in, boost::asio::mutable_buffer out, bool& bad) {
    constexpr std::size_t most = std::numeric_limits<uInt>::max();
    z_stream& z = state_->z;
    std::size_t written = 0;
    bad = false;
    while (written < out.size()) {
        // Even without input: inflate may hold output that did not fit the last time.
        z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(in.data()));
        z.avail_in = static_cast<uInt>(std::min(in.size(), most));
        const auto room = static_cast<uInt>(std::min(out.size() - written, most));
        z.next_out = static_cast<Bytef*>(out.data()) + written;
        z.avail_out = room;
        const uInt offered = z.avail_in;
        if (state_->between && offered == 0) break;
        state_->between = false;
        const int result = ::inflate(&z, Z_SYNC_FLUSH);
        const uInt taken = offered - z.avail_in, made = room - z.avail_out;
        in.remove_prefix(taken);
        written += made;
        if (result == Z_STREAM_END) {
            inflateReset(&z);
            state_->between = true;
        } else if (result != Z_OK && result != Z_BUF_ERROR) {
            bad = true;
            break;
        } else if (taken == 0 && made == 0) {
            break; // wants more input
        }
    }
    return written;
}

} // namespace informer::http::detail
