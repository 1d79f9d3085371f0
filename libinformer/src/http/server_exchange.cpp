#include "http/server_exchange.hpp"

#include <boost/beast/http/status.hpp>

#include <charconv>

namespace informer::http::detail {

namespace {

/// Adds a header line. Line breaks in the value would make two lines of it.
void add(std::string& to, std::string_view name, std::string_view value) {
    to.append(name).append(": ");
    for (const char c : value) to += c == '\r' || c == '\n' ? ' ' : c;
    to += "\r\n";
}

bool bodiless(int status) {
    return status < 200 || status == 204 || status == 304;
}

std::string chunk_header(std::size_t n) {
    char text[20];
    const auto end = std::to_chars(text, text + sizeof text, n, 16).ptr;
    return std::string(text, end) + "\r\n";
}

} // namespace

std::string server_exchange::head_of(int status, std::string_view content_type, const header_list& headers) const {
    const auto reason =
        boost::beast::http::obsolete_reason(boost::beast::http::int_to_status(static_cast<unsigned>(status)));
    std::string text = "HTTP/1.1 " + std::to_string(status) + " ";
    text.append(reason.data(), reason.size()).append("\r\n");
    if (!content_type.empty()) add(text, "Content-Type", content_type);
    for (const auto& [name, value] : headers) add(text, name, value);
    if (!wishes_.keep_alive)
        add(text, "Connection", "close");
    else if (wishes_.http10)
        add(text, "Connection", "keep-alive");
    return text;
}

asio::awaitable<bool> server_exchange::send(std::shared_ptr<server_exchange> self, int status, std::string content_type,
                                            std::string body, header_list headers) {
    if (self->retired_ || self->state_ != state::nothing) co_return false;
    self->state_ = state::done;
    std::string head = self->head_of(status, content_type, headers);
    if (!bodiless(status)) add(head, "Content-Length", std::to_string(body.size()));
    head += "\r\n";
    if (self->wishes_.head || bodiless(status)) body.clear();
    const std::string_view nothing;
    const bool ok = co_await self->connection->write_body(head, body, nothing);
    co_return ok;
}

asio::awaitable<bool> server_exchange::begin(std::shared_ptr<server_exchange> self, int status,
                                             std::string content_type) {
    if (self->retired_ || self->state_ != state::nothing) co_return false;
    self->state_ = state::streaming;
    if (self->wishes_.http10) self->wishes_.keep_alive = false; // the end of the body is the end of the connection
    std::string head = self->head_of(status, content_type, {});
    if (!self->wishes_.http10) add(head, "Transfer-Encoding", "chunked");
    head += "\r\n";
    const bool ok = co_await self->connection->write(head);
    co_return ok;
}

asio::awaitable<bool> server_exchange::write(std::shared_ptr<server_exchange> self, std::string bytes) {
    if (self->retired_ || self->state_ != state::streaming || self->connection->gone()) co_return false;
    if (bytes.empty() || self->wishes_.head) // an empty chunk would be the last
        co_return true;
    std::string before, after;
    if (!self->wishes_.http10) {
        before = chunk_header(bytes.size());
        after = "\r\n";
    }
    const bool ok = co_await self->connection->write_body(before, bytes, after);
    co_return ok;
}

asio::awaitable<bool> server_exchange::end(std::shared_ptr<server_exchange> self) {
    if (self->retired_ || self->state_ != state::streaming) co_return false;
    std::string last;
    if (!self->wishes_.http10 && !self->wishes_.head) last = "0\r\n\r\n";
    const bool ok = co_await self->connection->write(last);
    self->state_ = state::done;
    co_return ok;
}

asio::awaitable<bool> server_exchange::write_raw(std::shared_ptr<server_exchange> self, std::string bytes) {
    if (self->retired_) co_return false;
    self->state_ = state::raw;
    const bool ok = co_await self->connection->write(bytes);
    co_return ok;
}

} // namespace informer::http::detail
