// What a client and a proxy exchange before the connection is a tunnel.
#pragma once

#include <informer/error.hpp>
#include <informer/http/proxy.hpp>
#include <informer/http/url.hpp>

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace informer::http::detail {

/// Is given the bytes that were received and returns what to send next. No I/O. Keeps little of what it is given,
/// however much that is.
class proxy_dialogue {
public:
    proxy_dialogue() = default;
    proxy_dialogue(const proxy_dialogue&) = delete;
    proxy_dialogue& operator=(const proxy_dialogue&) = delete;
    virtual ~proxy_dialogue() = default;

    /// What to send now; returned once. Empty: receive.
    std::string take_words() noexcept { return std::exchange(words_, std::string()); }
    /// Takes received bytes, at least one. Returns how many of them were the proxy's, at least one. The rest is the
    /// server's, or must be passed again.
    virtual std::size_t hear(std::string_view bytes) = 0;

    bool open() const noexcept { return open_; } ///< the connection is a tunnel now
    bool failed() const noexcept { return !why_.empty(); }
    /// The end of a sentence: "answered 407 Proxy Authentication Required". Nothing in it is the proxy's own text.
    const std::string& why() const noexcept { return why_; }
    errc code() const noexcept { return code_; }

protected:
    void fail(std::string why, errc code = errc::connect_failed) {
        why_ = std::move(why);
        code_ = code;
    }
    std::string words_;
    bool open_ = false;

private:
    std::string why_;
    errc code_ = errc::connect_failed;
};

/// Limit of the whole answer to CONNECT, interim answers included.
inline constexpr std::size_t longest_connect_answer = std::size_t(16) << 10;

/// `request`: a whole CONNECT.
std::unique_ptr<proxy_dialogue> http_dialogue(std::string request);
/// `p` has a login that RFC 1929 can carry, or none; the name in `to` has at most 255 bytes.
std::unique_ptr<proxy_dialogue> socks_dialogue(const proxy& p, const endpoint& to);

} // namespace informer::http::detail
