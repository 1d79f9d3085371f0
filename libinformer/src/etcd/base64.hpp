// Base64 (RFC 4648, section 4) as the gateway writes bytes, decoded as it comes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace informer::etcd::detail {

/// One text in pieces. Strict: padded, canonical, nothing else in between.
class base64_decoder {
public:
    void begin() noexcept { *this = base64_decoder(); }
    /// Appends what this piece says. False: it is not base64.
    bool feed(std::string_view piece, std::string& to);
    bool complete() const noexcept { return count_ == 0; }

private:
    std::uint32_t bits_ = 0;
    unsigned count_ = 0, padding_ = 0;
    bool ended_ = false;
};

std::string base64_encode(std::string_view bytes);

} // namespace informer::etcd::detail
