// Beast's response parser behind a plain interface: in the client only this unit compiles Beast's HTTP.
#pragma once

#include <informer/error.hpp>

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace informer::http::detail {

/// Largest response header. client-go's transport has 10 MiB; API servers send some hundred bytes.
inline constexpr std::size_t max_header = std::size_t(256) << 10;

/// For the beginning of a chunked body: whether the body ends right there, and its end has not come as a whole (less
/// than "0\r\n\r\n"). Beast must not see such input: it remembers the first line of the last chunk, and at the next
/// call asserts that as many bytes have come.
inline bool is_unfinished_end(std::string_view in) noexcept {
    return in.size() < 5 && in.starts_with("0\r\n");
}

/// Parses one response out of bytes that are handed in as they come.
class response_reader {
public:
    /// `head`: the answer to a HEAD request, which has no body whatever its header says.
    explicit response_reader(bool head);
    ~response_reader();
    response_reader(const response_reader&) = delete;
    response_reader& operator=(const response_reader&) = delete;

    /// Offers the bytes at hand; returns how many were used. Call again with what is left and more until
    /// `header_done()`. Interim answers (1xx) are skipped.
    std::size_t header(std::string_view in, error_code& ec);
    bool header_done() const noexcept { return header_done_; }

    /// The same for the body; `part` is the next part of it, which lies in `in`. Empty when more bytes are needed or
    /// the message is complete. An error behind the part is reported together with the part.
    std::size_t body(std::string_view in, std::string_view& part, error_code& ec);
    /// The peer closed the connection. `ec`: the message was not complete.
    void end_of_stream(error_code& ec);
    bool done() const;

    int status() const;
    std::string_view field(std::string_view name) const;
    std::vector<std::string> fields(std::string_view name) const;
    bool keep_alive() const;

private:
    struct state;
    std::unique_ptr<state> state_;
    std::size_t header_bytes_ = 0; ///< includes interim answers, which could go on for ever
    bool head_, header_done_ = false, body_begun_ = false;
};

} // namespace informer::http::detail
