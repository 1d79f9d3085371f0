// One connection of the server. It has two coroutines: one reads all the time, one serves requests.
#pragma once

#include "http/input_buffer.hpp"
#include "http/phase_timer.hpp"
#include "http/transport.hpp"

#include <informer/detail/async.hpp>
#include <informer/http/server/server.hpp>
#include <informer/runtime.hpp>
#include <informer/task_group.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace informer::http::detail {

/// The socket's side. Bytes are read ahead while a handler works: that shows whether the peer has gone.
class server_connection : public std::enable_shared_from_this<server_connection> {
public:
    /// How many bytes are read before anybody wants them.
    static constexpr std::size_t read_ahead = std::size_t(128) << 10;

    /// `patience`: see server_options.
    server_connection(runtime rt, std::shared_ptr<transport> s, std::uint64_t number,
                      std::chrono::milliseconds patience);

    /// From now on it is the peer's turn: if the peer takes longer than `patience`, the connection is closed.
    void expect_peer();
    /// The same, for a request or for the handshake before the first one.
    void expect_request();
    void peer_delivered() noexcept;
    /// Since when a request is awaited, if it is.
    std::optional<clock::time_point> expects_request_since() const noexcept { return expects_request_since_; }

    /// Reads until the peer closes, pausing when enough is pending.
    static asio::awaitable<void> pump(std::shared_ptr<server_connection> self);
    /// Waits for bytes beyond the first `n` pending; false when none will come.
    asio::awaitable<bool> more_than(std::size_t n);
    void consume(std::size_t n);
    input_buffer in;

    /// False when the peer is gone. Suspends while the peer does not read.
    asio::awaitable<bool> write(std::string_view bytes);
    /// Writes bytes of a body, subject to `cut_after`, with the framing around them. False when the peer is gone.
    asio::awaitable<bool> write_body(std::string_view before, std::string_view body, std::string_view after);
    void cut_after(std::uint64_t n, bool reset);

    enum class ending { fin, reset };
    void close(ending how) noexcept;
    bool closed() const noexcept { return closed_; }
    bool gone() const noexcept { return gone_; }
    void leave() noexcept; ///< the peer is gone: wakes the waiters and calls the callbacks
    void on_gone(std::function<void()> f);
    /// Calls `f` and logs what it throws: an exception must not reach the code that happens to close the connection.
    void call_back(const std::function<void()>& f) const noexcept;
    void forget_request() noexcept; ///< its handler has ended: drops its callbacks and its `cut_after`
    static asio::awaitable<void> wait_gone(std::shared_ptr<server_connection> self);

    transport& stream() noexcept { return *stream_; }
    asio::any_io_executor executor() const { return rt_.executor(); }
    std::uint64_t number() const noexcept { return number_; }

private:
    /// Stands for the coroutine that is about to read. If that never begins, for lack of memory, nobody must wait for
    /// bytes.
    class reader {
    public:
        explicit reader(std::shared_ptr<server_connection> c) noexcept : of_(std::move(c)) {}
        reader(reader&&) noexcept = default;
        reader& operator=(reader&&) = delete;
        ~reader() {
            if (!of_) return;
            of_->ended_ = true;
            of_->arrived_.notify();
        }
        std::shared_ptr<server_connection> begin() && noexcept { return std::move(of_); }

    private:
        std::shared_ptr<server_connection> of_;
    };
    static asio::awaitable<void> read_all(reader r);

    const runtime rt_;
    std::shared_ptr<transport> stream_;
    std::uint64_t number_;
    std::chrono::milliseconds patience_;
    std::shared_ptr<phase_timer> timer_; ///< if patience is limited
    informer::detail::async_event arrived_, consumed_, left_;
    std::vector<std::function<void()>> on_gone_;
    std::optional<std::uint64_t> cut_after_;
    std::optional<clock::time_point> expects_request_since_;
    bool cut_resets_ = false, gone_ = false, closed_ = false, ended_ = false;
};

} // namespace informer::http::detail
