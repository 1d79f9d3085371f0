// A peer of the server that speaks byte by byte, and a handler that answers with the request.
#pragma once

#include "support.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace http_test {

/// Talks to the server as the test says, byte by byte.
class wire {
public:
    wire(asio::any_io_executor ex, std::uint16_t port) : socket_(std::make_shared<tcp::socket>(ex)) {
        socket_->connect(tcp::endpoint(asio::ip::address_v4::loopback(), port));
    }
    std::shared_ptr<tcp::socket> socket() const { return socket_; }

private:
    std::shared_ptr<tcp::socket> socket_;
};

/// Everything up to the end of the connection; `reset` tells how it ended.
inline asio::awaitable<std::string> drain(std::shared_ptr<tcp::socket> s, bool& reset) { // lint: law2 an out-parameter
    std::string all;
    char piece[4096];
    for (;;) {
        const auto [ec, n] = co_await s->async_read_some(asio::buffer(piece), as_result);
        all.append(piece, n);
        if (!ec) continue;
        reset = ec == asio::error::connection_reset;
        co_return all;
    }
}

/// Reads until `text` has come.
inline asio::awaitable<std::string> expect(std::shared_ptr<tcp::socket> s, std::string text) {
    std::string all;
    char piece[4096];
    while (all.find(text) == std::string::npos) {
        const auto [ec, n] = co_await s->async_read_some(asio::buffer(piece), as_result);
        if (ec) break;
        all.append(piece, n);
    }
    CHECK(all.find(text) != std::string::npos);
    co_return all;
}

inline bool has(const std::string& all, std::string_view part) {
    return all.find(part) != std::string::npos;
}

/// Answers with the request itself.
inline asio::awaitable<void> echo(request_ptr q, response_ptr r) {
    std::string text = q->method + " " + q->path;
    for (const auto& [name, value] : q->query) text += " " + name + "=" + value;
    text += " [" + q->body + "]";
    co_await r->send(200, "text/plain", std::move(text));
}

} // namespace http_test
