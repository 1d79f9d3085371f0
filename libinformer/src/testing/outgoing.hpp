// An answer that is being sent, with the faults that hit bodies.
#pragma once

#include "fault_plan.hpp"

#include <informer/http/server/server.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace informer::testing::detail {

using header_list = std::vector<std::pair<std::string, std::string>>;

/// The functions return false when the answer is over: the peer is gone, or a fault ended it.
class outgoing {
public:
    outgoing(std::shared_ptr<http::server_response> response, std::optional<fault> f);

    const std::shared_ptr<http::server_response>& response() const noexcept { return response_; }

    static asio::awaitable<bool> send(std::shared_ptr<outgoing> self, int status, std::string type, std::string body,
                                      header_list headers);
    static asio::awaitable<bool> begin(std::shared_ptr<outgoing> self, int status, std::string type);
    static asio::awaitable<bool> emit(std::shared_ptr<outgoing> self, std::string bytes);
    static asio::awaitable<bool> end(std::shared_ptr<outgoing> self);

private:
    static asio::awaitable<bool> hit(std::shared_ptr<outgoing> self);

    std::shared_ptr<http::server_response> response_;
    std::optional<fault> fault_; ///< only kinds that hit after some bytes of a body
    std::uint64_t sent_ = 0;
};

} // namespace informer::testing::detail
