// Idle keep-alive connections.
#pragma once

#include "http/input_buffer.hpp"
#include "http/transport.hpp"

#include <informer/detail/async.hpp>
#include <informer/http/client.hpp>

#include <chrono>
#include <cstdint>
#include <memory>
#include <new>
#include <utility>
#include <vector>

namespace informer::http::detail {

/// An open connection, and the bytes that were read from it and not yet used.
struct connection {
    std::shared_ptr<transport> stream;
    input_buffer in;
    std::uint64_t generation = 0; ///< of the TLS material it was opened with
    std::chrono::steady_clock::time_point idle_since;
};

/// Keeps idle connections and the client's figures. No operation is pending on an idle connection: whether the peer has
/// closed it is checked when it is wanted again. Shared by the client and its exchanges, so either may go first.
class pool {
public:
    pool(std::size_t most, std::chrono::seconds idle_for) : most_(most), idle_for_(idle_for) {}

    /// The connection used last, if one is still good.
    std::unique_ptr<connection> take() {
        const auto now = std::chrono::steady_clock::now();
        std::unique_ptr<connection> found;
        while (!idle_.empty() && !found) {
            found = std::move(idle_.back());
            idle_.pop_back();
            if (too_old(*found, now) || !found->stream->quiet()) found.reset();
        }
        std::erase_if(idle_, [&](const auto& c) { return too_old(*c, now); });
        figures.idle = idle_.size();
        return found;
    }
    /// Keeps a connection, or closes one that cannot be kept.
    void give(std::unique_ptr<connection> c) noexcept {
        if (closed_ || most_ == 0 || c->generation != generation_ || !c->in.empty()) return;
        c->in.release();
        c->idle_since = std::chrono::steady_clock::now();
        if (idle_.size() >= most_) idle_.erase(idle_.begin());
        try {
            idle_.push_back(std::move(c));
        } catch (const std::bad_alloc&) { // NOLINT(bugprone-empty-catch) there is no room for it
        }
        figures.idle = idle_.size();
    }
    void close_idle() noexcept {
        idle_.clear();
        figures.idle = 0;
    }
    /// Connections opened before are not used again (new TLS material).
    void renew() noexcept {
        ++generation_;
        close_idle();
    }
    void close() noexcept {
        closed_ = true;
        close_idle();
    }
    std::uint64_t generation() const noexcept { return generation_; }

    client::counters figures;

private:
    bool too_old(const connection& c, std::chrono::steady_clock::time_point now) const noexcept {
        return now > informer::detail::later(c.idle_since, idle_for_);
    }

    std::vector<std::unique_ptr<connection>> idle_; ///< oldest first
    std::size_t most_;
    std::chrono::seconds idle_for_;
    std::uint64_t generation_ = 1;
    bool closed_ = false;
};

} // namespace informer::http::detail
