// One request and its response on one connection.
#pragma once

#include "http/connector.hpp"
#include "http/inflater.hpp"
#include "http/phase_timer.hpp"
#include "http/pool.hpp"
#include "http/response_reader.hpp"

#include <informer/http/client.hpp>

#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace informer::http::detail {

/// The parts of a request that are needed after it was accepted: its bytes and its limits.
class prepared_request {
public:
    prepared_request() {}
    std::string head; ///< request line and header
    std::string body;
    std::string doing; ///< "GET https://host/path", for errors
    bool get = false, no_response_body = false;
    connect_plan plan;
};

/// Held by the response and by the coroutine that works on it.
class exchange {
public:
    exchange(asio::any_io_executor executor, std::shared_ptr<pool> p, prepared_request r);
    ~exchange();

    /// Sends and reads up to the response's header, on an idle connection or a new one.
    static asio::awaitable<void> start(std::shared_ptr<exchange> self, failure& f);
    static asio::awaitable<std::size_t> read_some(std::shared_ptr<exchange> self, asio::mutable_buffer to, failure& f);
    static asio::awaitable<std::size_t> receive(std::shared_ptr<exchange> self, body_parts& parts, failure& f);
    void finish_within(std::chrono::milliseconds rest) { timer_->finish_within(rest); }
    /// The response was given up.
    void close() noexcept;

    const response_reader& message() const noexcept { return *reader_; }

private:
    static asio::awaitable<void> begin(std::shared_ptr<exchange> self, failure& f);
    static asio::awaitable<std::size_t> read_body(std::shared_ptr<exchange> self, asio::mutable_buffer to,
                                                  body_parts* parts, failure& f);
    asio::awaitable<void> perform(failure& f);
    asio::awaitable<void> send(failure& f);
    asio::awaitable<void> send_all(std::string_view bytes, failure& f);
    asio::awaitable<void> read_header(failure& f);
    bool next_part();
    asio::awaitable<bool> wait_for_part(failure& f);
    asio::awaitable<std::size_t> read_raw(asio::mutable_buffer to, failure& f);
    asio::awaitable<std::size_t> read_decoded(asio::mutable_buffer to, failure& f);
    asio::awaitable<std::size_t> receive_parts(body_parts& parts, failure& f);
    asio::awaitable<std::size_t> fill(std::chrono::milliseconds limit, errc late, error_code& ec);
    bool interrupted(asio::cancellation_type cancelled, std::string_view doing, failure& f) const;
    failure lost(std::string_view doing, const error_code& ec) const;
    void complete() noexcept;
    void fail(const failure& f) noexcept;

    asio::any_io_executor executor_;
    std::shared_ptr<pool> pool_;
    prepared_request request_;
    std::shared_ptr<phase_timer> timer_;
    std::unique_ptr<connection> connection_;
    std::optional<response_reader> reader_;
    std::unique_ptr<inflater> inflater_;
    std::string inflated_;  ///< holds the parts of a gzip'd body
    std::string_view part_; ///< of the body as received; points into the connection's buffer
    failure broken_;        ///< what is wrong behind `part_`
    failure failure_;       ///< of the body; reported after the bytes before it
    bool any_byte_ = false; ///< of the response was received
    bool reused_ = false;   ///< the connection served other requests before
    bool busy_ = false, closed_ = false, complete_ = false;
};

} // namespace informer::http::detail
