// The answer to one request of the server.
#pragma once

#include "http/server_connection.hpp"

#include <informer/http/server/server.hpp>

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace informer::http::detail {

/// Frames what a handler sends. May outlive the handler; its functions return false then.
class server_exchange {
public:
    /// What the request asked for.
    class wishes {
    public:
        wishes() {}
        bool head = false, http10 = false, keep_alive = true;
    };
    server_exchange(std::shared_ptr<server_connection> c, wishes w) : connection(std::move(c)), wishes_(w) {}

    using header_list = std::vector<std::pair<std::string, std::string>>;
    enum class state { nothing, streaming, done, raw };

    static asio::awaitable<bool> send(std::shared_ptr<server_exchange> self, int status, std::string content_type,
                                      std::string body, header_list headers);
    static asio::awaitable<bool> begin(std::shared_ptr<server_exchange> self, int status, std::string content_type);
    static asio::awaitable<bool> write(std::shared_ptr<server_exchange> self, std::string bytes);
    static asio::awaitable<bool> end(std::shared_ptr<server_exchange> self);
    static asio::awaitable<bool> write_raw(std::shared_ptr<server_exchange> self, std::string bytes);

    state progress() const noexcept { return state_; }
    /// The handler returned: a copy of the answer that was kept must not disturb the next answer.
    void retire() noexcept { retired_ = true; }
    bool retired() const noexcept { return retired_; }
    /// Whether another request may follow on the connection.
    bool reusable() const noexcept { return state_ == state::done && wishes_.keep_alive && !connection->closed(); }

    const std::shared_ptr<server_connection> connection;

private:
    std::string head_of(int status, std::string_view content_type, const header_list& headers) const;

    wishes wishes_;
    state state_ = state::nothing;
    bool retired_ = false;
};

} // namespace informer::http::detail
