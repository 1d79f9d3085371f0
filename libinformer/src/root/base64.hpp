// Base64 (RFC 4648, section 4): kubeconfig files, Basic authentication, etcd's gateway.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace informer::detail {

/// One text, decoded as it comes. Strict: padded, nothing else in between. Bits that the padding leaves over are not looked at, as by Go.
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
/// White space is skipped (YAML folds long lines); nullopt when it is not base64.
std::optional<std::string> base64_decode(std::string_view text);

} // namespace informer::detail
