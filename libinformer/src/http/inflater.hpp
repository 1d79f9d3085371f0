// Decodes Content-Encoding: gzip as it comes.
#pragma once

#include <boost/asio/buffer.hpp>

#include <cstddef>
#include <memory>
#include <string_view>

namespace informer::http::detail {

/// Inflates a stream of gzip members. The output goes into the caller's buffer, so a small input can never take much
/// memory here.
class inflater {
public:
    inflater();
    ~inflater();
    inflater(const inflater&) = delete;
    inflater& operator=(const inflater&) = delete;

    /// Takes from `in` (what was used is cut off its front) until `out` is full or `in` is empty; returns the bytes
    /// written. `bad`: the input is not gzip.
    std::size_t inflate(std::string_view& in, boost::asio::mutable_buffer out, bool& bad);
    /// Whether the input may end here: between members.
    bool at_end() const noexcept;

private:
    struct state;
    std::unique_ptr<state> state_;
};

} // namespace informer::http::detail
